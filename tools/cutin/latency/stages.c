/*
 * stages.c - part a cut-in (see stages.h).
 */
#include "stages.h"
#include "common/list.h"

#include <errno.h>
#include <stdlib.h>

const char *const stage_names[STAGE_COUNT] = {
#define STAGE_NAME(name, is) #name,
    STAGES(STAGE_NAME)
#undef STAGE_NAME
};
const char *const stage_texts[STAGE_COUNT] = {
#define STAGE_TEXT(name, is) is,
    STAGES(STAGE_TEXT)
#undef STAGE_TEXT
};

/* ---- lists ---------------------------------------------------------------------------------- */

int stage_times_add(struct stage_times *t, uint64_t ns)
{
    int rc = list_grow(&t->ns, &t->room, t->n, sizeof(*t->ns));

    if (rc == 0)
        t->ns[t->n++] = ns;
    return rc;
}

int stage_works_add(struct stage_works *w, uint64_t start_ns, uint64_t end_ns)
{
    int rc = list_grow(&w->at, &w->room, w->n, sizeof(*w->at));

    if (rc == 0)
        w->at[w->n++] = (struct stage_work){start_ns, end_ns};
    return rc;
}

/* Both begin with a time. */
static int rising(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void sort(void *list, size_t n, size_t size)
{
    if (n)
        qsort(list, n, size, rising);
}

void stage_sources_sort(struct stage_sources *s)
{
    sort(s->rt.at, s->rt.n, sizeof(*s->rt.at));
    sort(s->be.at, s->be.n, sizeof(*s->be.at));
    sort(s->cut_ins.ns, s->cut_ins.n, sizeof(*s->cut_ins.ns));
    sort(s->cut_outs.ns, s->cut_outs.n, sizeof(*s->cut_outs.ns));
    sort(s->submits.ns, s->submits.n, sizeof(*s->submits.ns));
}

void stage_sources_clear(struct stage_sources *s)
{
    s->rt.n = s->be.n = s->cut_ins.n = s->cut_outs.n = s->submits.n = 0;
}

void stage_sources_free(struct stage_sources *s)
{
    free(s->rt.at);
    free(s->be.at);
    free(s->cut_ins.ns);
    free(s->cut_outs.ns);
    free(s->submits.ns);
    *s = (struct stage_sources){0};
}

/* ---- one request ---------------------------------------------------------------------------- */

/* The index of the first that is not before `ns`. */
static size_t first_from(const void *list, size_t n, size_t size, uint64_t ns)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        uint64_t at = *(const uint64_t *)(const void *)((const char *)list + middle * size);
        if (at < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first time from `from_ns` on and not behind `to_ns`; STAGE_NONE: there is none. */
static uint64_t time_between(const struct stage_times *t, uint64_t from_ns, uint64_t to_ns)
{
    size_t i = first_from(t->ns, t->n, sizeof(*t->ns), from_ns);

    return i < t->n && t->ns[i] <= to_ns ? t->ns[i] : STAGE_NONE;
}

/* The last time before `to_ns`. */
static uint64_t time_before(const struct stage_times *t, uint64_t to_ns)
{
    size_t i = first_from(t->ns, t->n, sizeof(*t->ns), to_ns);

    return i ? t->ns[i - 1] : STAGE_NONE;
}

static const struct stage_work *work_from(const struct stage_works *w, uint64_t ns)
{
    size_t i = first_from(w->at, w->n, sizeof(*w->at), ns);

    return i < w->n ? &w->at[i] : NULL;
}

static uint64_t until(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns == STAGE_NONE || to_ns == STAGE_NONE ? STAGE_NONE
           : to_ns > from_ns                            ? to_ns - from_ns
                                                        : 0;
}

/* When the kernels of this request ended: those that began before it was known to be done. */
static uint64_t rt_end(const struct stage_works *rt, const struct stage_work *first,
                       uint64_t end_ns)
{
    uint64_t last = first->end_ns;

    for (const struct stage_work *w = first; w < rt->at + rt->n && w->start_ns < end_ns; w++)
        if (w->end_ns > last)
            last = w->end_ns;
    return last;
}

/* The last end of best effort before real time began. A kernel that was on the device and went on
 * afterwards had been paused: real time did not wait for its end. STAGE_NONE: there was none. */
static uint64_t be_end(const struct stage_works *be, uint64_t begin_ns, bool *paused)
{
    size_t i = first_from(be->at, be->n, sizeof(*be->at), begin_ns);
    uint64_t last = STAGE_NONE;

    for (int looked = 0; i-- > 0 && looked < 64; looked++) { /* few run side by side */
        if (be->at[i].end_ns > begin_ns)
            *paused = true;
        else if (last == STAGE_NONE || be->at[i].end_ns > last)
            last = be->at[i].end_ns;
    }
    return last;
}

void stages_of(const struct stage_sources *s, const struct worker_sample *sample,
               struct stage_sample *out)
{
    const struct stage_work *first = work_from(&s->rt, sample->start_ns), *next;
    uint64_t hold_ns = time_between(&s->cut_ins, sample->start_ns, sample->end_ns), open_ns,
             done_ns;

    *out = (struct stage_sample){0};
    for (int i = 0; i < STAGE_COUNT; i++)
        out->ns[i] = STAGE_NONE;
    out->ns[STAGE_call] = until(sample->arrival_ns, sample->start_ns);
    out->ns[STAGE_hold] = until(sample->start_ns, hold_ns);
    if (!first || first->start_ns > sample->end_ns)
        return;
    done_ns = rt_end(&s->rt, first, sample->end_ns);
    out->ns[STAGE_begin] = until(sample->start_ns, first->start_ns);
    out->ns[STAGE_run] = until(first->start_ns, done_ns);
    out->ns[STAGE_known] = until(done_ns, sample->end_ns);
    out->ns[STAGE_residue] = until(hold_ns, be_end(&s->be, first->start_ns, &out->paused));
    open_ns =
        hold_ns == STAGE_NONE ? STAGE_NONE : time_between(&s->cut_outs, hold_ns, STAGE_NONE - 1);
    if (open_ns == STAGE_NONE)
        return;
    out->ns[STAGE_submit] = until(hold_ns, time_before(&s->submits, open_ns));
    out->ns[STAGE_release] = until(done_ns, open_ns);
    next = work_from(&s->be, open_ns);
    /* Not where the next cut-in came before it, nor where the paused one went on. */
    if (next && !out->paused && time_between(&s->cut_ins, open_ns, next->start_ns) == STAGE_NONE)
        out->ns[STAGE_again] = until(open_ns, next->start_ns);
}
