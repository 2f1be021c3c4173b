/*
 * solo.h - a program in several streams that does its steps once, while nobody above is at work:
 * what it takes without cutin bounds what it may take. Drawn from a seed, or with a name.
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
    uint32_t graph, graph_us; /* kernels of the graph, and their length; 0: there is none */
    struct step step[SOLO_STEPS];
};

void solo_draw(struct solo *p, uint64_t seed);

#endif
