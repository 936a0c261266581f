#include <stdlib.h>

#include "base/alloc.h"
#include "event/evlog_impl.h"

enum { BATCH_KEEP = 4096 }; /* slots that survive a batch; a larger one was an exception */

void batch_init(struct batch *b)
{
        *b = (struct batch) { 0 };
        list_init(&b->barriers);
}

void batch_reserve(struct batch *b, size_t n)
{
        if (b->n + n <= b->cap)
                return;
        b->cap = MAX(b->n + n, MAX(b->cap * 2, (size_t) 16));
        b->ops = xrealloc(b->ops, b->cap * sizeof(*b->ops));
        b->topics = xrealloc(b->topics, b->cap * sizeof(struct topic *));
}

size_t batch_cost(const struct store_op *op)
{
        size_t len = op->op == OP_EVENT ? op->ev.body->len : op->op == OP_PUT ? op->doc->len : 0;

        return len + sizeof(*op);
}

void batch_add(struct batch *b, const struct store_op *op, struct topic *t)
{
        struct store_op *mine = &b->ops[b->n];

        *mine = *op;
        mine->key = t ? t->name : xstrdup(op->key);
        if (op->op == OP_EVENT)
                chunk_ref(op->ev.body);
        if (op->op == OP_PUT)
                chunk_ref(op->doc);
        b->topics[b->n++] = t;
        b->bytes += batch_cost(op);
        b->n_events += op->op == OP_EVENT;
}

static void op_done(struct store_op *op, struct topic *t)
{
        if (op->op == OP_EVENT)
                chunk_unref(op->ev.body);
        if (op->op == OP_PUT)
                chunk_unref(op->doc);
        if (!t)
                free((char *) op->key);
}

void batch_clear(struct batch *b, struct evlog *log)
{
        for (size_t i = 0; i < b->n; i++) {
                op_done(&b->ops[i], b->topics[i]);
                if (b->topics[i])
                        topic_unpin(log, b->topics[i]);
        }
        b->n = b->bytes = b->n_events = 0;
        if (b->cap > BATCH_KEEP)
                batch_done(b);
}

void batch_done(struct batch *b)
{
        for (size_t i = 0; i < b->n; i++)
                op_done(&b->ops[i], b->topics[i]);
        free(b->ops);
        free(b->topics);
        b->ops = NULL;
        b->topics = NULL;
        b->n = b->cap = 0;
}
