/*
 * solo.c - draws programs in several streams (see solo.h).
 */
#include "solo.h"

#include <string.h>

#include "draw.h"

enum { MOST_US = 400000 }; /* of all its kernels, if they run one after another */

static void step_add(struct solo *p, struct step step)
{
    if (p->steps < SOLO_STEPS)
        p->step[p->steps++] = step;
}

static void streams_draw(struct solo *p, uint64_t *s)
{
    p->streams = PICK(s, 1, 2, 2, 3, 4, 6, 8);
    for (uint32_t i = 0; i < p->streams; i++)
        p->stream[i] = (struct solo_stream){.blocking = random_below(s, 4) == 0,
                                            .priority = -(int)PICK(s, 0, 0, 0, 1, 5)};
    p->stream[p->streams - 1].legacy = p->streams > 1 && random_below(s, 5) == 0;
}

/* As many as fit into half of the time that is left, but at least one. */
static uint32_t launches_draw(uint64_t *s, uint32_t us, uint32_t left_us)
{
    uint32_t n = PICK(s, 1, 3, 10, 40), most = left_us / 2 / us;
    return n <= most ? n : most ? most : 1;
}

/* Returns the time of the unit's kernels. */
static uint32_t unit_draw(struct solo *p, uint64_t *s, uint32_t left_us)
{
    uint32_t stream = random_below(s, p->streams), kernel = random_below(s, p->kernels),
             us = p->kernel[kernel].us, count = launches_draw(s, us, left_us),
             chance = random_below(s, 20);
    struct step one = {STEP_kernels, stream, 0, kernel, 1}, sync = {STEP_sync, stream, 0, 0, 0};
    if (chance < 9) {
        step_add(p, (struct step){STEP_kernels, stream, 0, kernel, count});
        return us * count;
    }
    if (chance < 11) {
        step_add(p, (struct step){STEP_set, stream, 0, 0, 0});
    } else if (chance < 13 && p->graph) {
        step_add(p, (struct step){STEP_graphs, stream, 0, 0, count = PICK(s, 1, 3)});
        return p->graph * p->graph_us * count;
    } else if (chance < 15) {
        step_add(p, one);
        step_add(p, sync);
        return us;
    } else if (chance < 17) {
        one.stream = random_below(s, p->streams);
        step_add(p, (struct step){STEP_after, stream, one.stream, 0, 0});
        step_add(p, one);
        return us;
    } else if (chance < 18) {
        step_add(p, (struct step){STEP_host, stream, 0, 0, PICK(s, 10, 300)});
    } else if (chance < 19) {
        step_add(p, (struct step){STEP_rest, 0, 0, 0, PICK(s, 50, 500, 3000)});
    } else {
        step_add(p, (struct step){STEP_set, stream, 0, 0, 0});
        step_add(p, sync);
    }
    return 0;
}

void solo_draw(struct solo *p, uint64_t seed)
{
    uint64_t s = seed * 0xd1342543de82ef95u;
    memset(p, 0, sizeof(*p));
    random_next(&s);
    s = random_next(&s);
    streams_draw(p, &s);
    p->kernels = PICK(&s, 1, 2, 3);
    for (uint32_t i = 0; i < p->kernels; i++)
        p->kernel[i] = (struct solo_kernel){PICK(&s, 3, 20, 100, 500, 1000, 3000, 10000),
                                            PICK(&s, 1, 8, 54, 108, 432)};
    if (random_below(&s, 3) == 0) {
        p->graph = PICK(&s, 5, 20, 100);
        p->graph_us = PICK(&s, 3, 20, 100);
    }
    uint32_t left_us = MOST_US;
    for (uint32_t n = PICK(&s, 10, 40, 80); n > 0 && left_us > 0; n--) {
        uint32_t us = unit_draw(p, &s, left_us);
        left_us = us < left_us ? left_us - us : 0;
    }
}
