/*
 * check.c - the reference checker: what CUDA promises, written a second time, without any queue. It
 * compares every pair of calls of which one returned before the other began.
 */
#include "tests/vhq/fake.h"

#include <stdio.h>

static char text[256];

static bool gone(const struct command *c)
{
    return c->drops != 0;
}

static const char *wrong(const char *what, int a, int b)
{
    snprintf(text, sizeof(text), "%s: commands %d and %d", what, a, b);
    return text;
}

static const char *check_once(const struct command *c, int i)
{
    if (c->submits + c->drops == 0)
        return wrong("lost", i, i);
    if (c->submits + c->drops > 1)
        return wrong("repeated", i, i);
    return NULL;
}

static bool legacy_pair(const struct world *w, const struct command *a, const struct command *b)
{
    enum vhq_kind ka = w->stream[a->stream].kind, kb = w->stream[b->stream].kind;
    return (ka == VHQ_LEGACY && kb == VHQ_BLOCKING) || (ka == VHQ_BLOCKING && kb == VHQ_LEGACY);
}

/* A wait that overlapped the record it should see may have come before it. */
static bool saw(const struct world *w, const struct command *wait, int record)
{
    return wait->after == record && w->command[record].ended < wait->begun;
}

/* Call i had returned before call j began. */
static const char *check_pair(const struct world *w, int i, int j)
{
    const struct command *a = &w->command[i], *b = &w->command[j];
    if (a->submitted < b->submitted)
        return NULL;
    if (a->stream == b->stream)
        return wrong("a stream's order", i, j);
    if (legacy_pair(w, a, b))
        return wrong("the legacy rule", i, j);
    if (b->displaces != NONE && saw(w, a, b->displaces))
        return wrong("a re-record after earlier waits", i, j);
    return NULL;
}

/* If the calls overlapped, either order is right. */
static const char *check_fence(const struct world *w, int i, int record, const char *what)
{
    if (record == NONE || gone(&w->command[record]) ||
        w->command[record].ended > w->command[i].begun ||
        w->command[record].submitted < w->command[i].submitted)
        return NULL;
    return wrong(what, record, i);
}

const char *check_order(struct world *w)
{
    const char *bad = NULL;
    for (int j = 0; j < w->commands && !bad; j++) {
        const struct command *b = &w->command[j];
        bad = check_once(b, j);
        if (bad || gone(b))
            continue;
        bad = check_fence(w, j, b->after, "a wait after its record");
        if (!bad)
            bad = check_fence(w, j, b->displaces, "a re-record after the record");
        for (int i = 0; i < w->commands && !bad; i++) {
            if (w->command[i].ended < b->begun && !gone(&w->command[i]))
                bad = check_pair(w, i, j);
        }
    }
    return bad;
}

const char *check_cap(struct world *w, bool exact)
{
    uint64_t budget = (uint64_t)w->cfg.budget_us * 1000, longest = 0;
    for (int i = 0; i < w->commands; i++)
        longest = w->command[i].est_ns > longest ? w->command[i].est_ns : longest;
    uint64_t bound = budget / 2 + longest > budget ? budget / 2 + longest : budget;
    bound += budget / 2 + longest; /* credit for the oldest unit, which is no longer than that */
    for (int i = 0; i < w->commands; i++) {
        const struct command *c = &w->command[i];
        uint64_t sum = c->flying_ns;
        if (!c->capped || gone(c))
            continue;
        if (c->in_flight >= w->cfg.depth)
            return wrong("the depth", i, (int)c->in_flight);
        bool fits = exact ? sum == 0 || sum + c->est_ns <= budget || sum <= budget / 2
                          : sum + c->est_ns <= bound;
        if (!fits)
            return wrong("the budget", i, (int)(sum / 1000));
    }
    return NULL;
}
