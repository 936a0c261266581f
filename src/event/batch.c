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
        b->targets = xrealloc(b->targets, b->cap * sizeof(*b->targets));
}

size_t batch_cost(const struct store_op *op)
{
        size_t len = op->op == OP_EVENT ? op->ev.body->len : op->op == OP_PUT ? op->doc->len : 0;

        return len + sizeof(*op);
}

void batch_add(struct batch *b, const struct store_op *op)
{
        const struct target *to = &b->targets[b->n];
        struct store_op *mine = &b->ops[b->n++];

        *mine = *op;
        mine->key = to->own ? to->own->name : xstrdup(op->key);
        mine->also = to->also ? to->also->name : NULL;
        if (op->op == OP_EVENT)
                chunk_ref(op->ev.body);
        if (op->op == OP_PUT)
                chunk_ref(op->doc);
        b->bytes += batch_cost(op);
        b->n_events += op->op == OP_EVENT;
}

static void op_done(struct store_op *op, const struct target *to)
{
        if (op->op == OP_EVENT)
                chunk_unref(op->ev.body);
        if (op->op == OP_PUT)
                chunk_unref(op->doc);
        if (!to->own)
                free((char *) op->key);
}

void target_unpin(struct evlog *log, const struct target *to)
{
        if (to->own)
                topic_unpin(log, to->own);
        if (to->also)
                topic_unpin(log, to->also);
}

void batch_clear(struct batch *b, struct evlog *log)
{
        for (size_t i = 0; i < b->n; i++) {
                op_done(&b->ops[i], &b->targets[i]);
                target_unpin(log, &b->targets[i]);
        }
        b->n = b->bytes = b->n_events = 0;
        if (b->cap > BATCH_KEEP)
                batch_done(b);
}

void batch_done(struct batch *b)
{
        for (size_t i = 0; i < b->n; i++)
                op_done(&b->ops[i], &b->targets[i]);
        free(b->ops);
        free(b->targets);
        b->ops = NULL;
        b->targets = NULL;
        b->n = b->cap = 0;
}
