/*
 * solo.h - a program in several streams that does its steps once, while no client above is at work.
 * Its time without cutin bounds its time under cutin. It is drawn from a seed, or has a name.
 */
#ifndef PURPOSE_SOLO_H
#define PURPOSE_SOLO_H

#include <stdbool.h>
#include <stdint.h>

enum { SOLO_STREAMS = 8, SOLO_KERNELS = 3, SOLO_STEPS = 160 };

/* X(name, what it is) */
#define STEPS(X)                                                                                   \
    X(kernels, "`count` launches of `kernel` in `stream`")                                         \
    X(graphs, "`count` launches of the graph there")                                               \
    X(set, "memory set there")                                                                     \
    X(sync, "the host waits for it")                                                               \
    X(after, "`other` waits for what it has by now")                                               \
    X(host, "a host function of `count` us there")                                                 \
    X(rest, "the host sleeps for `count` us")

enum step_kind {
#define X(name, what) STEP_##name,
    STEPS(X)
#undef X
};

struct step {
    enum step_kind kind;
    uint32_t stream, other, kernel, count;
};

struct solo {
    uint32_t streams, kernels, steps;
    struct solo_stream {
        bool legacy, blocking;
        int priority;
    } stream[SOLO_STREAMS];
    struct solo_kernel {
        uint32_t us, blocks;
    } kernel[SOLO_KERNELS];
    uint32_t graph, graph_us; /* number of the graph's kernels, and time of each; 0: no graph */
    struct step step[SOLO_STEPS];
};

void solo_draw(struct solo *p, uint64_t seed);

#endif
