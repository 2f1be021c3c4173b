/*
 * play.c - draws plays (see play.h).
 */
#include "play.h"

#include <cuda.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t state;

static unsigned below(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((state >> 33) % n);
}

static bool chance(unsigned percent)
{
    return below(100) < percent;
}

/* ---- which waits are possible ---------------------------------------------------------------- */

/* A driver calls host functions one at a time. So no process may have a host function that waits
 * and another one for which it waits. */
static bool functions_told[ACTORS], functions_heed[ACTORS];

static bool lowest(const struct play *p, unsigned actor)
{
    return p->alike || strcmp(p->level[actor], "be") == 0;
}

static bool tell_fits(enum tell t, unsigned from)
{
    if (t == TELL_context_record)
        return CUDA_VERSION >= 12050;
    return t != TELL_function_write || !functions_heed[from];
}

/* A kernel that waits looks like one that works. But where kernels may write another process's
 * memory, the write that it waits for passes a hold in time. */
static bool heed_fits(const struct play *p, enum heed h, unsigned from, unsigned to)
{
    if (h == HEED_context_wait)
        return CUDA_VERSION >= 12050;
    if (h == HEED_kernel_spin)
        return p->bounded || !p->hosted || lowest(p, to);
    return h != HEED_function_poll || (from != to && !functions_told[to] && !functions_heed[to]);
}

static const enum means tell_means[] = {
#define X(name, means) means,
    TELLS(X)
#undef X
};
static const enum means heed_means[] = {
#define X(name, means) means,
    HEEDS(X)
#undef X
};

static void link_draw(struct play *p, unsigned from, unsigned to)
{
    unsigned teller = p->step[from].actor, heeder = p->step[to].actor;
    struct link *l = &p->link[p->links++];
    *l = (struct link){.from = (uint8_t)from, .to = (uint8_t)to, .once = chance(50)};
    l->owner = (uint8_t)(chance(50) ? teller : heeder);
    do
        l->tell = (enum tell)below(TELL_COUNT);
    while (!tell_fits(l->tell, teller));
    do
        l->heed = (enum heed)below(HEED_COUNT);
    while (heed_means[l->heed] != tell_means[l->tell] || !heed_fits(p, l->heed, teller, heeder));
    functions_told[teller] |= l->tell == TELL_function_write;
    functions_heed[heeder] |= l->heed == HEED_function_poll;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int had[CELLS]; /* the last step that used the cell; -1: none */

static bool linked(const struct play *p, unsigned from, unsigned to)
{
    for (unsigned i = 0; i < p->links; i++)
        if (p->link[i].from == from && p->link[i].to == to)
            return true;
    return false;
}

static void cell_take(struct play *p, unsigned at, unsigned cell)
{
    int before = had[cell];
    const struct step *s = &p->step[at], *b = &p->step[before < 0 ? 0 : before];
    if (before >= 0 && (b->actor != s->actor || b->stream != s->stream) &&
        !linked(p, (unsigned)before, at))
        link_draw(p, (unsigned)before, at);
    had[cell] = (int)at;
}

static bool takes_two(enum act act)
{
    return act == ACT_copy || act == ACT_copy_by_kernel;
}

static void step_draw(struct play *p, unsigned at)
{
    struct step *s = &p->step[at];
    s->actor = (uint8_t)below(p->actors);
    s->stream = (uint8_t)below(STREAMS);
    s->act = chance(40) ? ACT_mix : (enum act)below(ACT_COUNT);
    s->cell = (uint8_t)below(CELLS);
    s->source = (uint8_t)((s->cell + 1 + below(CELLS - 1)) % CELLS);
    s->a = 2 * below(1000) + 3;
    s->b = below(1000);
    s->ns = 1000 * (1 + below(200));
    cell_take(p, at, s->cell);
    if (takes_two(s->act))
        cell_take(p, at, s->source);
}

static void step_model(struct play *p, struct step *s)
{
    uint32_t *x = &p->last[s->cell];
    if (s->act == ACT_read)
        s->expect = *x;
    else if (takes_two(s->act))
        *x = p->last[s->source];
    else
        *x = *x * s->a + s->b;
}

/* ---- the order of calls ---------------------------------------------------------------------- */

/* Whether it may be called before the steps ahead of it in other streams of its process. */
static bool hurries(const struct play *p, unsigned at)
{
    bool yes = p->step[at].act != ACT_read;
    for (unsigned i = 0; i < p->links; i++) {
        const struct link *l = &p->link[i];
        if (l->to == at)
            yes = yes && (l->heed == HEED_value || l->heed == HEED_graph_value ||
                          l->heed == HEED_kernel_spin);
        if (l->from == at)
            yes = yes && l->tell != TELL_host_write && l->tell != TELL_message &&
                  l->tell != TELL_context_record;
    }
    return yes;
}

/* Whether it means its whole context. Then it also means what was called early. */
static bool means_all(const struct play *p, unsigned at)
{
    for (unsigned i = 0; i < p->links; i++)
        if ((p->link[i].from == at && p->link[i].tell == TELL_context_record) ||
            (p->link[i].to == at && p->link[i].heed == HEED_context_wait))
            return true;
    return false;
}

static bool may_pass(const struct play *p, unsigned at, unsigned before)
{
    const struct step *s = &p->step[at], *b = &p->step[before];
    return s->actor != b->actor || (s->stream != b->stream && !means_all(p, before));
}

static void order_draw(struct play *p)
{
    for (unsigned i = 0; i < p->steps; i++) {
        unsigned at = i;
        bool hurry = !p->blocking && hurries(p, i) && chance(50);
        for (; hurry && at && may_pass(p, i, p->order[at - 1]); at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = (uint8_t)i;
    }
}

/* ---- plays ----------------------------------------------------------------------------------- */

/* Each process has a level, and at most one is above the others; or all have the same. */
static void levels_draw(struct play *p)
{
    static const char *const levels[] = {"be", "2", "rt"};
    const char *all = levels[below(3)];
    p->alike = chance(20);
    for (unsigned i = 0; i < ACTORS; i++)
        p->level[i] = p->alike ? all : "be";
    if (!p->alike)
        p->level[below(p->actors)] = levels[1 + chance(80)];
}

void play_draw(struct play *p, uint64_t seed)
{
    *p = (struct play){.seed = seed};
    state = seed * 0x2545f4914f6cdd1du;
    memset(functions_told, 0, sizeof(functions_told));
    memset(functions_heed, 0, sizeof(functions_heed));
    p->actors = 2 + below(ACTORS - 1);
    p->steps = 6 + below(STEPS - 5);
    p->bounded = chance(25);
    p->hosted = chance(50);
    p->tiny = chance(30);
    p->held = chance(50);
    p->blocking = chance(25);
    levels_draw(p);
    for (unsigned c = 0; c < CELLS; c++) {
        had[c] = -1;
        p->last[c] = cell_first(c);
    }
    for (unsigned i = 0; i < p->steps; i++) {
        step_draw(p, i);
        step_model(p, &p->step[i]);
    }
    order_draw(p);
}

void play_print(const struct play *p)
{
#define X(name, ...) #name,
    static const char *const acts[] = {ACTS(X)}, *const tells[] = {TELLS(X)},
                             *const heeds[] = {HEEDS(X)};
#undef X
    printf("play %" PRIu64 ":%s%s%s%s%s\n", p->seed, p->bounded ? " bounded" : "",
           p->hosted ? " hosted" : "", p->tiny ? " tiny" : "", p->held ? " held" : "",
           p->blocking ? " blocking streams" : "");
    for (unsigned i = 0; i < p->actors; i++)
        printf("  process %u: %s\n", i, p->level[i]);
    for (unsigned i = 0; i < p->steps; i++) {
        const struct step *s = &p->step[p->order[i]];
        printf("  %2u process %u stream %u: %s cell %u", p->order[i], s->actor, s->stream,
               acts[s->act], s->cell);
        if (takes_two(s->act))
            printf(" from %u", s->source);
        for (unsigned k = 0; k < p->links; k++) {
            const struct link *l = &p->link[k];
            if (l->to == p->order[i])
                printf(", behind %u by %s", l->from, heeds[l->heed]);
            if (l->from == p->order[i])
                printf(", tells %u by %s", l->to, tells[l->tell]);
        }
        printf("\n");
    }
}
