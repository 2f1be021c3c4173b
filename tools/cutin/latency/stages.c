/*
 * stages.c - part a cut-in (see stages.h).
 */
#include "stages.h"
#include "tools/cutin/statistics/figures.h"

#include <stdlib.h>

const struct stage_row stage_rows[STAGE_COUNT] = {
#define STAGE_ROW(name, is) {#name, is},
    STAGES(STAGE_ROW)
#undef STAGE_ROW
};

/* ---- sources -------------------------------------------------------------------------------- */

void stage_sources_sort(struct stage_sources *s)
{
    for (int i = 0; i < SOURCES; i++)
        if (s->of[i].n)
            qsort(s->of[i].at, s->of[i].n, sizeof(*s->of[i].at), figures_compare);
}

void stage_sources_clear(struct stage_sources *s)
{
    for (int i = 0; i < SOURCES; i++)
        s->of[i].n = 0;
}

void stage_sources_free(struct stage_sources *s)
{
    for (int i = 0; i < SOURCES; i++)
        free(s->of[i].at);
    *s = (struct stage_sources){0};
}

/* ---- one request ---------------------------------------------------------------------------- */

/* The index of the first that does not begin before `ns`. */
static size_t first_from(const struct trace_spans *list, uint64_t ns)
{
    size_t low = 0, high = list->n;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (list->at[middle].from_ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first moment from `from_ns` on and not behind `to_ns`; STAGE_NONE: there is none. */
static uint64_t time_between(const struct trace_spans *t, uint64_t from_ns, uint64_t to_ns)
{
    size_t i = first_from(t, from_ns);

    return i < t->n && t->at[i].from_ns <= to_ns ? t->at[i].from_ns : STAGE_NONE;
}

static const struct trace_span *work_from(const struct trace_spans *w, uint64_t ns)
{
    size_t i = first_from(w, ns);

    return i < w->n ? &w->at[i] : NULL;
}

static uint64_t until(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns == STAGE_NONE || to_ns == STAGE_NONE ? STAGE_NONE
           : to_ns > from_ns                            ? to_ns - from_ns
                                                        : 0;
}

void stages_of(const struct stage_sources *s, const struct worker_sample *sample,
               struct stage_sample *out)
{
    const struct trace_spans *rt = &s->of[SOURCE_RT], *be = &s->of[SOURCE_BE];
    const struct trace_span *first = work_from(rt, sample->start_ns), *next;
    uint64_t hold_ns = time_between(&s->of[SOURCE_CUT_IN], sample->start_ns, sample->end_ns),
             open_ns, done_ns, be_end_ns = STAGE_NONE;
    size_t submits, be_i;

    *out = (struct stage_sample){0};
    for (int i = 0; i < STAGE_COUNT; i++)
        out->ns[i] = STAGE_NONE;
    out->ns[STAGE_call] = until(sample->arrival_ns, sample->start_ns);
    out->ns[STAGE_hold] = until(sample->start_ns, hold_ns);
    if (!first || first->from_ns > sample->end_ns)
        return;
    /* When the kernels of this request ended: those that began before it was known to be done. */
    done_ns = first->to_ns;
    for (const struct trace_span *w = first; w < rt->at + rt->n && w->from_ns < sample->end_ns; w++)
        done_ns = w->to_ns > done_ns ? w->to_ns : done_ns;
    out->ns[STAGE_begin] = until(sample->start_ns, first->from_ns);
    out->ns[STAGE_run] = until(first->from_ns, done_ns);
    out->ns[STAGE_known] = until(done_ns, sample->end_ns);
    /* The last end of best effort before real time began. A kernel that was on the device and went
     * on afterwards had been paused: real time did not wait for its end. */
    be_i = first_from(be, first->from_ns);
    for (int looked = 0; be_i-- > 0 && looked < 64; looked++) { /* few run side by side */
        if (be->at[be_i].to_ns > first->from_ns)
            out->paused = true;
        else if (be_end_ns == STAGE_NONE || be->at[be_i].to_ns > be_end_ns)
            be_end_ns = be->at[be_i].to_ns;
    }
    out->ns[STAGE_residue] = until(hold_ns, be_end_ns);
    open_ns = hold_ns == STAGE_NONE ? STAGE_NONE
                                    : time_between(&s->of[SOURCE_CUT_OUT], hold_ns, STAGE_NONE - 1);
    if (open_ns == STAGE_NONE)
        return;
    submits = first_from(&s->of[SOURCE_SUBMIT], open_ns);
    if (submits)
        out->ns[STAGE_submit] = until(hold_ns, s->of[SOURCE_SUBMIT].at[submits - 1].from_ns);
    out->ns[STAGE_release] = until(done_ns, open_ns);
    next = work_from(be, open_ns);
    /* Not where the next cut-in came before it, nor where the paused one went on. */
    if (next && !out->paused &&
        time_between(&s->of[SOURCE_CUT_IN], open_ns, next->from_ns) == STAGE_NONE)
        out->ns[STAGE_again] = until(open_ns, next->from_ns);
}
