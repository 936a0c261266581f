/* The directories that are watched, as a tree that follows the real one. Private to fs/. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "base/map.h"

struct fsroot;
struct ignore;
struct job;

/* One directory. Its names are remembered (as hashes: a collision only makes a "created" a
 * "modified"), because the kernel does not say whether a file that is moved in replaces one. */
struct watch_dir {
        struct watch_dir *parent;
        struct list children, node; /* node: in the parent's list */
        struct list todo;           /* waiting to be read */
        char *path;
        uint32_t name_hash; /* of its last component */
        int wd;
        struct ignore *rules; /* on top of the parent's; NULL with_ignored */
        uint32_t *names;      /* a hash table */
        size_t n_names, cap_names;
        bool is_seen, is_new;
};

struct watch_tree {
        const struct fsroot *files;
        struct job *job;
        int fd; /* inotify */
        bool is_recursive, with_ignored;
        struct watch_dir *top;
        struct watch_dir *moving; /* cut off, until it is known where it goes; or NULL */
        struct map by_wd;
        struct list todo; /* directories to read */
        size_t n;
        /* Events have names, and names move: something was told of a directory that was another
         * one. watch_tree_recover() is due. */
        bool is_unsure;
        struct ignore *outer; /* the rules of the directories above */
        /* Hears of every entry of a directory that is new. */
        int (*on_new)(void *arg, const char *path, bool is_dir, struct error *err);
        void *arg;
};

int watch_tree_open(struct watch_tree *t, const char *path, struct error *err);
void watch_tree_done(struct watch_tree *t);
struct watch_dir *watch_tree_find(const struct watch_tree *t, int wd);
bool watch_tree_ignores(const struct watch_tree *t, const struct watch_dir *d, const char *name,
                        const char *path, bool is_dir);

/* A directory has appeared at path: it and what is below it is watched first and then told to
 * on_new(), so that nothing falls in between. One that is gone already is fine. */
int watch_tree_grow(struct watch_tree *t, struct watch_dir *parent, const char *path,
                    struct error *err);
/* Rules or paths have changed: looks at everything below again, quietly. */
int watch_tree_sync(struct watch_tree *t, struct watch_dir *d, struct error *err);
/* Events were lost: the same for the whole tree, and what is not found is gone. */
int watch_tree_recover(struct watch_tree *t, struct error *err);
void watch_tree_drop(struct watch_tree *t, struct watch_dir *d);
struct watch_dir *watch_tree_child(struct watch_dir *d, const char *path);
/* A directory moves in two steps; if the second does not come, it is dropped with the next. */
void watch_tree_cut(struct watch_tree *t, struct watch_dir *d);
void watch_tree_paste(struct watch_tree *t, struct watch_dir *parent, const char *path);

/* All say whether the name was there before. */
bool watch_dir_add_name(struct watch_dir *d, const char *name);
bool watch_dir_has_name(const struct watch_dir *d, const char *name);
bool watch_dir_drop_name(struct watch_dir *d, const char *name);

/* Adds a watch for an open file or directory. ERR_BUSY when the system has no more of them. */
int watch_add_fd(int inotify_fd, int fd, uint32_t mask, const char *path, struct error *err);
