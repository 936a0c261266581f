/* What the tests of stores and of the event log share. */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/chunk.h"
#include "event/store.h"
#include "test.h"

/* A directory of its own per test, removed by scratch_done(). */
struct scratch {
        char dir[64];
        char db[96];
};

static inline void scratch_init(struct scratch *s)
{
        (void) snprintf(s->dir, sizeof(s->dir), "/tmp/sa-store-XXXXXX");
        EXPECT(mkdtemp(s->dir) != NULL);
        (void) snprintf(s->db, sizeof(s->db), "%s/events.db", s->dir);
}

static inline void scratch_done(struct scratch *s)
{
        DIR *d = opendir(s->dir);
        struct dirent *e;

        while (d && (e = readdir(d)))
                (void) unlinkat(dirfd(d), e->d_name, 0);
        if (d)
                (void) closedir(d);
        (void) rmdir(s->dir);
}

static inline struct chunk *text_chunk(const char *text)
{
        return chunk_copy(text, strlen(text));
}

static inline void expect_body(const struct event *e, const char *want)
{
        EXPECT_INT(e->body->len, strlen(want));
        EXPECT_MEM(e->body->data, want, e->body->len);
}
