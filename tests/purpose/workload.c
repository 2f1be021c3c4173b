/*
 * workload.c - draws jobs and a service (see workload.h).
 */
#include "workload.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "draw.h"

enum { DRAWN_STREAMS = 3 };

static uint32_t between(uint64_t *s, uint32_t least, uint32_t most)
{
    return least + random_below(s, most - least + 1);
}

static bool one_in(uint64_t *s, uint32_t n)
{
    return random_below(s, n) == 0;
}

/* What jobs do besides kernels one by one in one stream. Most jobs do one or two of these. */
static void job_draw_extras(struct job *j, uint64_t *s)
{
    j->streams = one_in(s, 3) ? between(s, 2, DRAWN_STREAMS) : 1;
    j->sync_every = PICK(s, 0, 0, 16, 100, 1000);
    j->graph = one_in(s, 6) ? PICK(s, 4, 20, 100) : 0;
    j->copy_kb = one_in(s, 5) ? PICK(s, 4, 64, 1024, 16384, 262144) : 0;
    j->pool_mb = one_in(s, 8) ? PICK(s, 1, 16, 64) : 0;
}

static void job_draw(struct job *j, uint64_t *s, uint32_t ms)
{
    uint32_t a = PICK(s, 3, 10, 20, 25, 50, 100, 200, 500), b = a * PICK(s, 4, 10, 16, 20);
    if (b > 2000)
        b = 2000;
    j->length = random_below(s, LENGTH_persistent);
    j->us[0] = a;
    j->us[1] = b;
    j->us[2] = one_in(s, 2) ? a : b;
    j->us[3] = b;
    j->cycle = PICK(s, 1, 1, 2, 4);
    j->blocks = PICK(s, FULL, FULL, FULL, FULL / 2, FULL * 3, 16);
    j->streams = 1;
    j->quiet = one_in(s, 2);
    j->start_ms = 0;
    j->end_ms = ms;
    j->weight = 1;
}

static void service_draw(struct service *v, uint64_t *s)
{
    static const char *const levels[] = {"rt", "rt", "rt", "2", "1"};
    v->there = true;
    v->ending = random_below(s, ENDING_COUNT);
    v->arrival = random_below(s, ARRIVAL_early);
    v->level = levels[random_below(s, 5)];
    v->kernels = PICK(s, 1, 1, 1, 3, 10);
    v->kernel_us = PICK(s, 5, 20, 20, 50, 200);
    v->blocks = PICK(s, FULL, FULL, 16);
    v->gap_us = PICK(s, 2000, 3000, 5000, 9000);
    if (v->gap_us < v->kernels * v->kernel_us * 3)
        v->gap_us = v->kernels * v->kernel_us * 3;
    v->copy_kb = one_in(s, 4) ? PICK(s, 4, 64, 1024) : 0;
}

/* Who starts first: the jobs in half of the workloads, the service in a quarter, else any. */
static void starts_draw(struct workload *w, uint64_t *s)
{
    uint32_t order = random_below(s, 4);
    for (uint32_t i = 0; i < w->jobs; i++) {
        struct job *j = &w->job[i];
        j->start_ms = order < 2 ? between(s, 0, 50) : order == 2 ? 100 : between(s, 0, 400);
        if (i > 0 && one_in(s, 6))
            j->start_ms = w->ms / 2;
        if (i > 0 && one_in(s, 6))
            j->end_ms = w->ms / 3 * 2;
    }
    w->service.start_ms = order < 2 ? 200 : order == 2 ? 0 : between(s, 0, 400);
}

static void copies_draw(struct workload *w, uint64_t *s)
{
    for (uint32_t i = 0; i < w->jobs; i++) {
        struct job *j = &w->job[i];
        if (j->copy_kb < 262144 || one_in(s, 3))
            continue;
        j->copy_kb = PICK(s, 1 << 20, 2 << 20); /* one such stream is enough */
        j->streams = 1;
        return;
    }
}

static void change_draw(struct workload *w, uint64_t *s)
{
    struct change *c = &w->change;
    c->what = one_in(s, 3) ? between(s, CHANGE_none + 1, CHANGE_COUNT - 1) : CHANGE_none;
    c->who = c->what == CHANGE_level ? SERVICE : random_below(s, w->jobs);
    c->at_ms = between(s, w->ms / 2, w->ms / 3 * 2);
}

/* Draws from a state of its own, so that a seed keeps what it had before. */
static void more_draw(struct workload *w)
{
    uint64_t s = w->seed * 0x2545f4914f6cdd1du;
    random_next(&s);
    copies_draw(w, &s);
    for (uint32_t i = 0; i < w->jobs && !w->plain && !w->fair; i++) {
        struct job *j = &w->job[i];
        if (j->graph || !one_in(&s, 6))
            continue;
        j->length = LENGTH_persistent;
        j->us[0] = PICK(&s, 50, 200, 1000);
        j->us[1] = j->us[0] * PICK(&s, 2, 10);
        j->blocks = FULL / 2;
        j->quiet = true;
    }
    if (one_in(&s, 5))
        w->service.arrival = ARRIVAL_early;
    if (w->fair)
        return;
    if (one_in(&s, 4))
        w->budget_us = PICK(&s, 50, 100, 500, 1000);
    change_draw(w, &s);
}

/* In half of the workloads there is a service, which does nothing. */
static void solo_workload_draw(struct workload *w, uint64_t seed)
{
    static struct solo solo;
    uint64_t s = seed * 0x2545f4914f6cdd1du;
    random_next(&s);
    solo_draw(&solo, seed);
    *w = (struct workload){.seed = seed, .jobs = 1, .ms = SOLO_MS, .solo = &solo};
    w->job[0] = (struct job){.end_ms = w->ms, .weight = 1};
    w->service = (struct service){.there = one_in(&s, 2),
                                  .arrival = ARRIVAL_once,
                                  .level = "rt",
                                  .kernels = 1,
                                  .kernel_us = 20,
                                  .blocks = FULL};
    w->gates = one_in(&s, 2);
}

void workload_draw(struct workload *w, uint64_t seed)
{
    if (seed >= SOLO_SEED) {
        solo_workload_draw(w, seed);
        return;
    }
    if (seed >= CASE_SEED) {
        workload_case(w, (uint32_t)(seed - CASE_SEED));
        return;
    }
    uint64_t s = seed * 0xd1342543de82ef95u;
    memset(w, 0, sizeof(*w));
    random_next(&s); /* so that neighbouring seeds have nothing in common */
    s = random_next(&s);
    w->seed = seed;
    w->plain = one_in(&s, 2);
    w->fair = one_in(&s, 10);
    w->ms = w->fair ? 2500 : 1000;
    w->jobs = w->fair ? between(&s, 2, 3) : one_in(&s, 3) ? 1 : between(&s, 1, JOBS);
    for (uint32_t i = 0; i < w->jobs; i++)
        job_draw(&w->job[i], &s, w->ms);
    for (uint32_t i = 0; i < w->jobs && !w->plain; i++)
        job_draw_extras(&w->job[i], &s);
    if (!w->fair) {
        service_draw(&w->service, &s);
        starts_draw(w, &s);
        w->gates = one_in(&s, 2);
        for (uint32_t i = 0; i < w->jobs; i++) /* only gates stop a graph */
            w->gates |= w->job[i].graph != 0;
        more_draw(w);
        return;
    }
    for (uint32_t i = 0; i < w->jobs; i++) { /* so that each job could always use the whole GPU */
        struct job *j = &w->job[i];
        j->weight = PICK(&s, 1, 1, 2, 4);
        j->blocks = FULL;
        j->streams = 1;
        j->sync_every = j->graph = j->copy_kb = j->pool_mb = 0;
    }
    more_draw(w);
}

uint32_t job_kernel_us(const struct job *j, uint32_t i, uint64_t *state)
{
    if (i == 0 && j->first_us)
        return j->first_us;
    switch (j->length) {
    case LENGTH_bimodal:
        return j->us[one_in(state, 8)];
    case LENGTH_heavy: {
        double us = j->us[0] / random_unit(state);
        return us < j->us[1] ? (uint32_t)us : j->us[1];
    }
    case LENGTH_persistent:
        return j->us[0] + random_below(state, j->us[1] - j->us[0] + 1);
    case LENGTH_growing:
        return j->us[0] + (j->us[1] - j->us[0]) * (i % 64) / 63;
    default:
        return j->us[i % j->cycle];
    }
}

/* ---- as a line ------------------------------------------------------------------------------- */

static const char *const length_names[] = {
#define X(name, what) #name,
    LENGTHS(X)
#undef X
};
static const char *const ending_names[] = {
#define X(name) #name,
    ENDINGS(X)
#undef X
};
static const char *const change_names[] = {
#define X(name) #name,
    CHANGES_OF(X)
#undef X
};
static const char *const arrival_names[] = {
#define X(name, what) #name,
    ARRIVALS_OF(X)
#undef X
};

struct text {
    char *at;
    unsigned left;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(t->at, t->left, format, list);
    va_end(list);
    unsigned used = n < 0 ? 0 : (unsigned)n < t->left ? (unsigned)n : t->left - 1;
    t->at += used;
    t->left -= used;
}

static void solo_print(const struct solo *p, struct text *t)
{
    say(t, "solo of %u steps in %u streams:", p->steps, p->streams);
    for (uint32_t i = 0; i < p->kernels; i++)
        say(t, " %u us of %u blocks", p->kernel[i].us, p->kernel[i].blocks);
    if (p->graph)
        say(t, ", graphs of %u x %u us", p->graph, p->graph_us);
    say(t, "; ");
}

static void job_print(const struct job *j, const struct workload *w, struct text *t)
{
    uint32_t shown = j->length == LENGTH_cycle ? j->cycle : 2;
    say(t, "%s ", shown == 1 ? "constant" : length_names[j->length]);
    for (uint32_t i = 0; i < shown; i++)
        say(t, i ? "/%u" : "%u", j->us[i]);
    say(t, " us");
    if (j->first_us)
        say(t, ", the first one %u", j->first_us);
    if (j->blocks != FULL)
        say(t, " of %u blocks", j->blocks);
    if (j->quiet)
        say(t, " unannounced");
    if (j->streams > 1)
        say(t, " in %u streams", j->streams);
    if (j->per_thread)
        say(t, " in the per-thread stream");
    if (j->come_and_go)
        say(t, " in streams that come and go");
    if (j->stalls)
        say(t, " beside what waits for good");
    if (j->graph)
        say(t, " in graphs of %u", j->graph);
    if (j->sync_every)
        say(t, " sync %u", j->sync_every);
    if (j->copy_kb)
        say(t, " copy %u KB", j->copy_kb);
    if (j->pool_mb)
        say(t, " pool %u MB", j->pool_mb);
    if (w->fair)
        say(t, " weight %u", j->weight);
    if (j->start_ms || j->end_ms != w->ms)
        say(t, " %u-%u ms", j->start_ms, j->end_ms);
    say(t, "; ");
}

void workload_print(const struct workload *w, char *text, unsigned size)
{
    struct text t = {text, size};
    const struct service *v = &w->service;
    if (w->solo)
        solo_print(w->solo, &t);
    else
        say(&t, "%u job%s: ", w->jobs, w->jobs == 1 ? "" : "s");
    for (uint32_t i = 0; i < w->jobs && !w->solo; i++)
        job_print(&w->job[i], w, &t);
    if (v->there && v->arrival == ARRIVAL_once)
        say(&t, "service %s that rests", v->level);
    else if (v->there)
        say(&t, "service %s from %u ms: %s every %u us, %u x %u us of %u blocks, %s", v->level,
            v->start_ms, arrival_names[v->arrival], v->gap_us, v->kernels, v->kernel_us, v->blocks,
            ending_names[v->ending]);
    if (v->there && v->copy_kb)
        say(&t, ", copies of %u KB", v->copy_kb);
    if (w->fair)
        say(&t, "fair");
    if (w->gates)
        say(&t, ", gates");
    if (w->budget_us)
        say(&t, ", budget %u us", w->budget_us);
    if (w->change.what)
        say(&t, ", %s of %u changes at %u ms", change_names[w->change.what], w->change.who,
            w->change.at_ms);
    if (w->least)
        say(&t, ", least share %u %%", w->least);
}
