/*
 * spans.c - how long kernels took by themselves (see spans.h).
 */
#include "spans.h"
#include "tools/cutin/statistics/figures.h"

#include <stdbool.h>
#include <stdlib.h>

static int order(uint64_t x, uint64_t y)
{
    return (x > y) - (x < y);
}

static int by_end(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return order(x->until_ns, y->until_ns);
}

static int by_shape(const void *a, const void *b)
{
    const struct span *x = a, *y = b;

    return order(x->shape, y->shape);
}

static uint64_t whole_ns(const struct span *s)
{
    return s->until_ns - s->from_ns;
}

/* `list` is in the order of ends: the part of list[i] after the last end of another stream. */
static uint64_t least_ns(const struct span *list, size_t i)
{
    const struct span *s = &list[i];

    for (size_t k = i; k-- && list[k].until_ns > s->from_ns;)
        if (list[k].stream != s->stream && list[k].until_ns < s->until_ns)
            return s->until_ns - list[k].until_ns;
    return whole_ns(s);
}

/* Estimates kernels of one shape. The mean is that of kernels that did not wait. If all may have
 * waited, the longest time counts that one of them is known to have needed. */
static void shape_estimate(struct span *list, size_t n)
{
    uint64_t sum = 0, sure = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        bool exact = list[i].least_ns == whole_ns(&list[i]);

        sum += exact ? whole_ns(&list[i]) : 0;
        sure += exact;
        most = list[i].least_ns > most ? list[i].least_ns : most;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t is = sure ? sum / sure : most, whole = whole_ns(&list[i]);

        is = is < list[i].least_ns ? list[i].least_ns : is;
        *list[i].took_ns = is < whole ? is : whole;
    }
}

void spans_estimate(struct span *list, size_t n)
{
    qsort(list, n, sizeof(*list), by_end);
    for (size_t i = 0; i < n; i++)
        list[i].least_ns = least_ns(list, i);
    qsort(list, n, sizeof(*list), by_shape);
    for (size_t from = 0, to = 0; from < n; from = to) {
        while (to < n && list[to].shape == list[from].shape)
            to++;
        shape_estimate(list + from, to - from);
    }
}

uint64_t spans_busy_ns(struct span *list, size_t n)
{
    uint64_t busy = 0, until = 0;

    qsort(list, n, sizeof(*list), figures_compare); /* sorts by from_ns */
    for (size_t i = 0; i < n; i++) {
        uint64_t from = list[i].from_ns > until ? list[i].from_ns : until;

        if (list[i].until_ns <= from)
            continue;
        busy += list[i].until_ns - from;
        until = list[i].until_ns;
    }
    return busy;
}
