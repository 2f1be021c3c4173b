/*
 * pad.h - what real-time streams of this process leave of the device, and for how long.
 *
 * Streams above best effort go straight to the driver, and nobody counts what they have there. With
 * CUTIN_PAD=on each of them has a ring in which a launch leaves its kernel and shape, two stores.
 * The dispatcher of the queues below, when it is held, reads what is there, looks up how long those
 * kernels take and how much of the device, and adds up (vhq_ops.room). A kernel of which that is
 * not known leaves nothing. It is learned by the launches that come next: they are timed, as are a
 * few later ones, which tell whether padding costs real time anything (pad_guard.h).
 *
 * Other processes and contexts cannot look into these rings, so their work leaves nothing either.
 */
#ifndef CUTIN_SHIM_PACE_PAD_H
#define CUTIN_SHIM_PACE_PAD_H

#include "shim/objects/stream.h"

enum {
    PAD_LAUNCHES = 256, /* that a ring remembers */
    PAD_EVERY = 32,     /* launches per timed one */
};

struct pad_launch {
    _Atomic uint64_t who; /* the function, and below it 16 bits of the kernel's number */
    _Atomic uint64_t shape;
};

struct pad {
    struct pad_launch launch[PAD_LAUNCHES]; /* by the stream's count of kernels */
    _Atomic uint32_t lessons;               /* launches that are to be learned from */
    /* The reader's, under the lock of pad.c. */
    const struct shim_stream *stream;
    struct pad *prev, *next;
    uint32_t seen;      /* kernels that were read */
    uint32_t unknown;   /* behind the last of which too little is known */
    uint32_t parts;     /* the most that one takes of those since the stream was seen complete */
    uint64_t end_ns;    /* of the last, by what is learned */
    uint64_t looked_ns; /* when it was read */
    uint32_t taught;    /* lessons so far */
    void *free_next;
};

struct shim_context;

/* For vhq_ops.room; `user`: the context. */
struct vhq_room pad_room(void *user);

/* 17 bits of blocks, and what function_shape_plain is made of. 0: it does not fit. */
static inline uint64_t pad_shape(const unsigned grid[3], const unsigned block[3], unsigned shared)
{
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    if (blocks >> 17 || block[0] >> 11 || block[1] >> 11 || block[2] >> 7 || shared >> 18)
        return 0;
    return blocks << 47 | (uint64_t)block[0] << 36 | (uint64_t)block[1] << 25 |
           (uint64_t)block[2] << 18 | shared;
}

/* A kernel is about to be launched into a stream with a ring. True: it is one to learn from. */
static inline bool pad_note(struct shim_stream *s, CUfunction f, const unsigned grid[3],
                            const unsigned block[3], unsigned shared)
{
    struct pad *p = s->pad;
    uint32_t n = EPOCH_KERNELS(atomic_load_explicit(&s->epoch, memory_order_relaxed));
    struct pad_launch *at = &p->launch[n % PAD_LAUNCHES];
    atomic_store_explicit(&at->shape, pad_shape(grid, block, shared), memory_order_relaxed);
    atomic_store_explicit(&at->who, (uint64_t)(uintptr_t)f << 16 | (uint16_t)n,
                          memory_order_release); /* pairs with launch_read */
    return unlikely(n % PAD_EVERY == 0 ||
                    atomic_load_explicit(&p->lessons, memory_order_relaxed) != 0);
}

/* It is learned from: true, it is also to be timed. `known`: its time is. */
bool pad_lesson(struct shim_stream *s, bool known);
/* A timed kernel took `ns` while best effort went beside it, and takes `learned_ns` without. */
void pad_sample(uint32_t ns, uint32_t learned_ns);

#endif
