/*
 * pad.h - what real-time streams of this process leave of the device, and for how long.
 *
 * Streams above best effort go straight to the driver, and what they have there is not counted.
 * With CUTIN_PAD=on each of them has a ring, in which a launch leaves its kernel and shape by two
 * stores. When the dispatcher of the queues below is held, it reads the rings. It looks up how long
 * those kernels take and how much of the device, and adds up (vhq_ops.room). A kernel of which that
 * is not known leaves nothing. It is learned from the next launches, which are timed. So are a few
 * later ones, which tell whether padding costs real time anything (pad_guard.c).
 *
 * The rings of other processes and contexts cannot be read, so their work leaves nothing either.
 */
#ifndef CUTIN_SHIM_PACE_PAD_H
#define CUTIN_SHIM_PACE_PAD_H

#include "shim/objects/stream.h"

enum {
    PAD_LAUNCHES = 256, /* launches that a ring remembers */
    PAD_EVERY = 32,     /* one launch in so many is timed */
};

struct pad_launch {
    _Atomic uint64_t kernel_id; /* the function, and below it 16 bits of the kernel's number */
    _Atomic uint64_t shape;     /* 0: it does not fit */
};

struct pad {
    struct pad_launch launch[PAD_LAUNCHES]; /* indexed by the stream's count of kernels */
    _Atomic uint32_t lessons;               /* how many more launches are to be learned from */
    /* The rest belongs to the reader, under the lock of pad.c. */
    const struct shim_stream *stream;
    struct pad *prev, *next;
    uint32_t seen;          /* kernels that were read */
    uint32_t unknown;       /* one past the last kernel of which too little is known */
    uint32_t parts;         /* the most that one takes since the stream was last seen complete */
    uint64_t ends_at_ns;    /* when the last one ends, by what is learned */
    uint64_t read_at_ns;    /* when the ring was last read */
    uint32_t lessons_given; /* lessons so far */
    void *free_next;
};

/* For vhq_ops.room; `user`: the context. */
struct vhq_pad_room pad_room(void *user);

/* Notes a kernel that is about to go into a stream with a ring. True: it is to be learned from. */
static inline bool pad_note(struct shim_stream *s, CUfunction f, const unsigned grid[3],
                            const unsigned block[3], unsigned shared)
{
    struct pad *p = s->pad;
    uint32_t n = EPOCH_KERNELS(atomic_load_explicit(&s->epoch, memory_order_relaxed));
    struct pad_launch *at = &p->launch[n % PAD_LAUNCHES];
    /* 17 bits of blocks, and what function_shape_plain takes */
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    bool fits =
        !(blocks >> 17 || block[0] >> 11 || block[1] >> 11 || block[2] >> 7 || shared >> 18);
    uint64_t shape = blocks << 47 | (uint64_t)block[0] << 36 | (uint64_t)block[1] << 25 |
                     (uint64_t)block[2] << 18 | shared;
    atomic_store_explicit(&at->shape, fits ? shape : 0, memory_order_relaxed);
    atomic_store_explicit(&at->kernel_id, (uint64_t)(uintptr_t)f << 16 | (uint16_t)n,
                          memory_order_release); /* pairs with launch_read */
    return unlikely(n % PAD_EVERY == 0 ||
                    atomic_load_explicit(&p->lessons, memory_order_relaxed) != 0);
}

/* For a launch to learn from; `known`: its time is known. True: it is also to be timed. */
bool pad_lesson(struct shim_stream *s, bool known);
/* A timed kernel took `ns` while best effort went beside it, and takes `learned_ns` without. */
void pad_sample(uint32_t ns, uint32_t learned_ns);

/* ---- pad_guard.c: does best effort beside real time slow real time's kernels down? ----------- */

enum { PAD_GUARD_SAMPLES = 64, PAD_GUARD_SLOW_MOST = PAD_GUARD_SAMPLES / 10 };
struct pad_guard {
    uint32_t samples, slow;
    uint64_t pause_ns; /* of the last pause; 0: there was none, or all was well since */
    uint64_t until_ns; /* no padding until then */
};
/* A kernel took `ns` beside best effort, and hardly more than `learned_ns` without. True: padding
 * stops now. */
bool pad_guard_add(struct pad_guard *g, uint32_t ns, uint32_t learned_ns, uint64_t now_ns);

#endif
