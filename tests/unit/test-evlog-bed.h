/* A loop and an event log over the memory store, with a gate between the two that holds back or
 * fails what goes through; and small words for what the tests do with them. */
#pragma once
#include <pthread.h>

#include "event/evlog.h"
#include "io/loop.h"
#include "test-evlog.h"

/* What the gate does and has seen. One at a time: tests run one after the other. */
struct gate {
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        bool holds_commits, holds_reads; /* they stop inside until this is taken back */
        int n_failing;                   /* so many commits fail; a trim ends it */
        int n_inside;
        size_t n_commits, sizes[64]; /* operations per commit */
        size_t n_reads, n_ranges;
        bool is_closed;
};
extern struct gate gate;

void gate_hold(bool *which, bool on);
void gate_await(bool (*is_so)(void));
bool gate_is_occupied(void); /* for gate_await(): a commit or a read is inside */
bool gate_is_closed(void);

struct bed {
        struct loop *loop;
        struct evlog *log;
};

void bed_init(struct bed *b); /* also resets the gate */
void bed_done(struct bed *b);
void bed_open(struct bed *b, const struct store_ops *ops, const char *dsn); /* without the gate */
void bed_close(struct bed *b);
void bed_turn(struct bed *b); /* everything that is ready now, and what follows from it */
bool bed_await(struct bed *b, const bool *flag);

uint64_t append(struct bed *b, const char *topic, const char *text);
/* Appends "1", "2", …: the body is the number. */
void append_numbers(struct bed *b, const char *topic, uint64_t first, uint64_t last);
void await_commit(struct bed *b);

/* An evlog_done that remembers. */
struct told {
        bool is_told;
        int n;
        struct error why;
};
void tell(void *arg, const struct error *why);

/* A subscriber that expects body = number, each once, in order, up to `until`. */
struct reader {
        struct evsub *sub;
        uint64_t seen, until;
        int n_wakes;
        bool is_there;
        struct error over;
};
void reader_pull(void *arg);
void reader_start(struct bed *b, struct reader *r, const char *topic, uint64_t after);
void reader_reach(struct bed *b, struct reader *r, uint64_t until);

void count_call(void *arg); /* a wake or a room that only counts: arg is an int */
