/*
 * floor.c - spin, and look for gaps (see floor.h).
 */
#include "floor.h"
#include "tools/cutin/nap.h"

void floor_look(struct floor_spin *f, uint64_t before_ns, uint64_t now_ns)
{
    uint64_t gap_ns = now_ns - before_ns;

    f->ns += gap_ns;
    if (gap_ns < FLOOR_GAP_NS)
        return;
    f->gaps++;
    f->gap_ns += gap_ns;
    if (gap_ns > f->most_ns)
        f->most_ns = gap_ns;
}

void floor_spin(struct floor_spin *f, uint64_t ns)
{
    uint64_t before_ns = clock_ns(), now_ns;

    *f = (struct floor_spin){0};
    for (; f->ns < ns; before_ns = now_ns) {
        now_ns = clock_ns();
        floor_look(f, before_ns, now_ns);
    }
}
