/*
 * program.c - the parts of random programs (see program.h).
 */
#include "program.h"

#include "recorded.h"

#include <stdio.h>
#include <string.h>

const char *op_kind_name(enum op_kind kind)
{
    static const char *const names[] = {
#define X(name, lower, run) #name,
        OP_KINDS(X)
#undef X
    };
    return kind < OP_KIND_COUNT ? names[kind] : "?";
}

bool op_makes_wait(const struct op *op, int stream)
{
    int base = stream_base(stream);
    return op->kind == OP_CTX_WAIT && (op->stream == base || (op->stream == MAIN && base == GREEN));
}

bool op_at_home(enum op_kind kind)
{
    return kind == OP_RENEW || kind == OP_PIN || kind == OP_UNPIN;
}

bool op_moves(enum op_kind kind)
{
    static const bool moves[OP_KIND_COUNT] = {
        [OP_RECORD] = true,       [OP_WAIT] = true,        [OP_EVENT_QUERY] = true,
        [OP_STREAM_QUERY] = true, [OP_STREAM_POLL] = true, [OP_STREAM_SYNC] = true,
        [OP_FREE_ASYNC] = true,   [OP_H2D] = true,         [OP_D2H] = true,
        [OP_D2D] = true,          [OP_RACE] = true,        [OP_CTX_RECORD] = true,
        [OP_CTX_WAIT] = true,
    };
    return moves[kind] || op_at_home(kind);
}

/* ---- what work does ------------------------------------------------------------------------ */

void buffer_mix(uint32_t *x, uint32_t a, uint32_t b)
{
    for (int i = 0; i < WORDS; i++)
        x[i] = x[i] * a + b;
}

uint64_t buffer_hash(const uint32_t *x)
{
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < WORDS; i++)
        h = (h ^ x[i]) * 1099511628211u;
    return h;
}

void buffer_seed(uint32_t *x, uint32_t value)
{
    for (int i = 0; i < WORDS; i++)
        x[i] = value + (uint32_t)i * 2654435761u;
}

enum setting program_setting(uint64_t seed)
{
    if (seed >= RECORDED_SEED)
        return recorded_setting((unsigned)(seed - RECORDED_SEED));
    return (enum setting)(seed / SETTING_SEEDS % SETTINGS);
}

void program_print(const struct program *p, int fd)
{
    static const char *const where[] = {"", " from elsewhere", " from no context"};
    dprintf(fd, "seed %llu, %u threads, %u contexts on %u devices%s, %u ops\n",
            (unsigned long long)p->seed, p->threads, p->contexts, p->devices,
            p->green ? ", a green one" : "", p->op_count);
    for (uint32_t i = 0; i < p->op_count; i++) {
        const struct op *o = &p->ops[i];
        dprintf(fd,
                "%4u thread %u %-15s stream %u event %u flag %u exec %u dst %u src %u "
                "variant %u a %u b %u ns %llu%s\n",
                i, o->thread, op_kind_name(o->kind), o->stream, o->event, o->flag, o->exec, o->dst,
                o->src, o->variant, o->a, o->b, (unsigned long long)o->ns, where[o->where]);
        for (int g = 0; g < o->graph_count; g++)
            dprintf(fd, "       captured %-12s dst %u src %u a %u b %u\n",
                    op_kind_name(o->graph[g].kind), o->graph[g].dst, o->graph[g].src, o->graph[g].a,
                    o->graph[g].b);
    }
}
