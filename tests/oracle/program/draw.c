/*
 * draw.c - draws the intents of a random program from its seed (see program.h).
 */
#include "recorded.h"

#include <string.h>

uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* How often each kind is drawn. Lowering adds more BARRIER, WAIT and syncs. */
static const struct {
    enum op_kind kind;
    unsigned weight;
} weights[] = {
    {OP_MIX, 30},
    {OP_MIX_EXTRA, 6},
    {OP_MIX_EX, 6},
    {OP_MIX_COOP, 3},
    {OP_MIX_AWAIT, 4},
    {OP_MIX_EVENT, 3},
    {OP_MIX_PASSING, 2},
    {OP_FILL, 3},
    {OP_COPY_KERNEL, 6},
    {OP_SPIN, 6},
    {OP_H2D, 6},
    {OP_D2H, 6},
    {OP_D2D, 5},
    {OP_COPY_ANY, 4},
    {OP_COPY_2D, 3},
    {OP_COPY_3D, 3},
    {OP_COPY_BATCH, 3},
    {OP_COPY_NOTHING, 2},
    {OP_COPY_PEER, 4},
    {OP_COPY_3D_PEER, 3},
    {OP_MEMSET8, 2},
    {OP_MEMSET16, 2},
    {OP_MEMSET32, 3},
    {OP_MEMSET2D, 2},
    {OP_PREFETCH, 1},
    {OP_ATTACH, 1},
    {OP_SYNC_H2D, 3},
    {OP_SYNC_D2H, 3},
    {OP_SYNC_D2D, 2},
    {OP_SYNC_ANY, 2},
    {OP_SYNC_MEMSET, 2},
    {OP_HOST_WRITE, 4},
    {OP_HOST_READ, 5},
    {OP_HOST_FUNC, 4},
    {OP_CALLBACK, 2},
    {OP_HOST_FUNC_CUDA, 1},
    {OP_RECORD, 10},
    {OP_WAIT, 8},
    {OP_EVENT_SYNC, 3},
    {OP_EVENT_POLL, 2},
    {OP_EVENT_QUERY, 4},
    {OP_STREAM_QUERY, 4},
    {OP_STREAM_POLL, 2},
    {OP_STREAM_SYNC, 3},
    {OP_HOLD, 10},
    {OP_CTX_SYNC, 1},
    {OP_CTX_RECORD, 3},
    {OP_CTX_WAIT, 3},
    {OP_RACE, 6},
    {OP_RENEW, 4},
    {OP_PIN, 3},
    {OP_UNPIN, 3},
    {OP_MAP, 1},
    {OP_RETAIN, 1},
    {OP_FREE_NOTHING, 1},
    {OP_ALLOW, 2},
    {OP_CTX_RENEW, 1},
    {OP_FAULT, 1},
    {OP_ELAPSED, 2},
    {OP_EVENT_DESTROY, 2},
    {OP_STREAM_DESTROY, 2},
    {OP_FLAG_WRITE, 4},
    {OP_FLAG_WAIT, 6},
    {OP_FLAG_BATCH, 1},
    {OP_ALLOC_ASYNC, 4},
    {OP_POOL_LOOP, 3},
    {OP_FREE_ASYNC, 6},
    {OP_CAPTURE, 6},
    {OP_GRAPH_LAUNCH, 12},
    {OP_GRAPH_BUILD, 4},
    {OP_GRAPH_UPDATE, 4},
    {OP_GRAPH_SET, 4},
    {OP_GRAPH_REPLACE, 3},
    {OP_GRAPH_ENABLE, 3},
    {OP_GRAPH_DESTROY, 1},
    {OP_MODULE_RELOAD, 1},
    {OP_LIBRARY_RELOAD, 1},
    {OP_ALLOC_FREE, 1},
    {OP_SET_ATTRIBUTE, 1},
    {OP_BAD_GRID, 1},
    {OP_BAD_STREAM, 1},
    {OP_BAD_EVENT, 1},
    {OP_BAD_PARAMS, 1},
    {OP_BARRIER, 2},
};

/* A program's theme makes these kinds frequent, so that they meet each other. */
enum { THEME_KINDS = 8, THEME_FACTOR = 8 };
static const enum op_kind themes[][THEME_KINDS] = {
    {OP_BARRIER}, /* no theme */
    {OP_RECORD, OP_WAIT, OP_EVENT_DESTROY, OP_EVENT_POLL, OP_MIX, OP_HOLD},
    {OP_GRAPH_LAUNCH, OP_GRAPH_UPDATE, OP_GRAPH_DESTROY, OP_CAPTURE, OP_HOLD},
    {OP_GRAPH_LAUNCH, OP_GRAPH_SET, OP_GRAPH_REPLACE, OP_GRAPH_BUILD, OP_GRAPH_ENABLE, OP_RECORD,
     OP_WAIT, OP_HOLD},
    {OP_CTX_RENEW, OP_COPY_PEER, OP_MIX, OP_FAULT},
    {OP_FLAG_WRITE, OP_FLAG_WAIT, OP_FLAG_BATCH, OP_MIX},
    {OP_SYNC_H2D, OP_SYNC_D2H, OP_SYNC_ANY, OP_H2D, OP_D2H, OP_HOST_WRITE, OP_HOST_READ},
    {OP_MODULE_RELOAD, OP_LIBRARY_RELOAD, OP_MIX, OP_STREAM_DESTROY},
    {OP_ALLOC_ASYNC, OP_FREE_ASYNC, OP_MIX, OP_HOST_FUNC, OP_POOL_LOOP, OP_HOLD},
    {OP_RENEW, OP_PIN, OP_UNPIN, OP_MIX, OP_H2D, OP_D2H, OP_HOST_WRITE, OP_HOLD},
    {OP_RACE, OP_HOLD, OP_STREAM_QUERY, OP_EVENT_QUERY, OP_MIX},
    {OP_CTX_RECORD, OP_CTX_WAIT, OP_CTX_SYNC, OP_MIX, OP_HOLD, OP_D2H, OP_EVENT_SYNC},
    {OP_ALLOW, OP_LIBRARY_RELOAD, OP_MIX, OP_FILL, OP_COPY_KERNEL, OP_HOLD},
    {OP_STREAM_POLL, OP_CTX_SYNC, OP_STREAM_SYNC, OP_EVENT_SYNC, OP_MIX, OP_HOST_READ, OP_D2H},
};
enum { THEMES = sizeof(themes) / sizeof(*themes) };

static unsigned weight_of(size_t i, unsigned theme)
{
    for (int k = 0; theme && k < THEME_KINDS; k++)
        if (themes[theme][k] == weights[i].kind)
            return weights[i].weight * THEME_FACTOR;
    return weights[i].weight;
}

static enum op_kind draw_kind(uint64_t *state, unsigned theme)
{
    unsigned total = 0;
    for (size_t i = 0; i < sizeof(weights) / sizeof(*weights); i++)
        total += weight_of(i, theme);
    unsigned pick = (unsigned)(random_next(state) % total);
    for (size_t i = 0;; i++) {
        if (pick < weight_of(i, theme))
            return weights[i].kind;
        pick -= weight_of(i, theme);
    }
}

bool program_real;

/* Whether a real driver survives it. It reads invalid handles, and a process does not survive a
 * fault of its device. */
static bool real_bears(enum op_kind kind)
{
    return kind != OP_BAD_STREAM && kind != OP_BAD_EVENT && kind != OP_FAULT;
}

void program_draw(struct program *p, uint64_t seed)
{
    uint64_t state = seed * 0x2545f4914f6cdd1du + 1;
    memset(p, 0, sizeof(*p));
    p->seed = seed;
    if (seed >= RECORDED_SEED) {
        recorded_draw(p, (unsigned)(seed - RECORDED_SEED));
        return;
    }
    p->forms = seed / SETTING_SEEDS % 4 == 3 ? FORMS_PLACES_EVENTS : FORMS_PLACES;
    p->contexts = random_next(&state) % 2 ? 1 : 2;
    p->devices = p->contexts > 1 && random_next(&state) % 2 ? 2 : 1;
    p->green = random_next(&state) % 4 == 0 && green_known();
    p->threads = random_next(&state) % 3 ? 1 : 2 + (uint32_t)(random_next(&state) % (THREADS - 1));
    for (int s = CREATED; s < STREAMS; s++) {
        if (stream_role(s) < CREATED)
            continue;
        p->stream_flags[s] = random_next(&state) % 2 || stream_base(s) == GREEN;
        p->stream_priority[s] = (int8_t)-(int)(random_next(&state) % 3);
    }
    unsigned theme = (unsigned)(random_next(&state) % THEMES);
    p->intent_count = 12 + (uint32_t)(random_next(&state) % (MAX_INTENTS - 12 + 1));
    for (uint32_t i = 0; i < p->intent_count; i++) {
        p->intents[i].kind = draw_kind(&state, theme);
        for (int k = 0; k < 8; k++)
            p->intents[i].r[k] = (uint32_t)random_next(&state);
        if (program_real && !real_bears(p->intents[i].kind))
            p->intents[i].kind = OP_BARRIER;
    }
    if (program_real)
        p->devices = 1;
}
