#include "io/watch.h"

#include <fcntl.h>
#include <unistd.h>

#include "io/loop.h"
#include "test.h"

struct seen {
        struct watch *w;
        int n, events, next; /* next: what is watched for after the first call */
};

static void on_event(void *arg, int events)
{
        struct seen *s = arg;

        s->n++;
        s->events = events;
        watch_set(s->w, s->next);
}

static void spin(struct loop *l)
{
        bool never = false;

        (void) loop_run_until(l, &never, 2);
}

/* Off is off at once, whatever waits there; and on again finds it. */
TEST(watch_that_is_off_is_silent_and_sees_all_when_it_is_on)
{
        struct loop *l = loop_new();
        struct error err = {};
        struct seen s = {};
        int ends[2];

        EXPECT_INT(pipe2(ends, O_CLOEXEC), 0);
        EXPECT_OK(watch_new(l, ends[0], on_event, &s, &s.w, &err), err);
        watch_set(s.w, WATCH_READ);
        spin(l);
        EXPECT_INT(s.n, 0);
        watch_set(s.w, 0);
        EXPECT_INT(write(ends[1], "x", 1), 1);
        spin(l);
        EXPECT_INT(s.n, 0);
        for (int i = 1; i <= 3; i++) { /* level-triggered: it is still there; off from inside */
                watch_set(s.w, WATCH_READ);
                spin(l);
                EXPECT_INT(s.n, i);
                EXPECT_INT(s.events, WATCH_READ);
        }
        watch_set(s.w, WATCH_READ);
        watch_set(s.w, 0); /* and back, before the loop has looked */
        spin(l);
        EXPECT_INT(s.n, 3);
        (void) close(ends[1]); /* a hang-up comes unasked */
        spin(l);
        EXPECT_INT(s.n, 3);
        watch_set(s.w, WATCH_READ);
        spin(l);
        EXPECT_INT(s.n, 4);
        s.w = watch_free(s.w);
        (void) close(ends[0]);
        (void) loop_free(l);
}

/* The reader of a pipe goes: an error for who writes. */
TEST(watch_reports_an_error_once_and_only_when_it_is_on)
{
        struct loop *l = loop_new();
        struct error err = {};
        struct seen s = {};
        int ends[2];

        EXPECT_INT(pipe2(ends, O_CLOEXEC), 0);
        EXPECT_OK(watch_new(l, ends[1], on_event, &s, &s.w, &err), err);
        watch_set(s.w, WATCH_WRITE);
        spin(l);
        EXPECT_INT(s.n, 1);
        EXPECT_INT(s.events, WATCH_WRITE);
        (void) close(ends[0]);
        spin(l);
        EXPECT_INT(s.n, 1);
        watch_set(s.w, WATCH_WRITE);
        spin(l);
        EXPECT_INT(s.n, 2);
        EXPECT_INT(s.events, WATCH_READ | WATCH_WRITE | WATCH_ERROR);
        s.w = watch_free(s.w);
        (void) close(ends[1]);
        (void) loop_free(l);
}
