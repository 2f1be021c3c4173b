/*
 * estimate.h - how long a kernel runs, by the latest of its sampled launches (spread.h).
 *
 * A sample is a pair of timing events around one launch: one of the first launches of a (function,
 * grid size), then one in 32 by chance, because programs repeat themselves. There is none while
 * real-time work runs on the device, which would be part of the time and would be delayed. While
 * the process is alone only the first launches are sampled: times are needed once another process
 * comes. A later sample, or the client's thread, reads complete events, so no thread waits for one.
 */
#ifndef CUTIN_SHIM_LEARN_ESTIMATE_H
#define CUTIN_SHIM_LEARN_ESTIMATE_H

#include "shim/learn/spread.h"
#include "shim/lookup/shim.h"
#include "vhq/vhq.h"

enum { ESTIMATE_BUCKETS = 12 };

struct profile_key;

struct estimate {
    _Atomic uint32_t launches;
    _Atomic uint32_t next; /* the launch that will be sampled next: due once `launches` is there */
    struct vhq_learned learned;
    struct spread spread; /* the times from which it is learned */
    uint32_t doubt_ns;    /* of the mean */
    uint32_t counted;     /* launches that the profile has counted; for estimate.c */
    uint32_t late;        /* samples in a row whose calls took too long; for estimate.c */
    uint32_t bucket;
    bool paired; /* its latest time is exact, and was taken beside time slices; for estimate.c */
    _Atomic bool settled;            /* `spread` is full: all the times that it keeps are there */
    const struct profile_key *owner; /* NULL: not kept */
};

struct shim_context;
struct sample;

/* `owner`, `bucket`: the samples are kept in the profile under this function and grid. NULL:
 * nowhere. */
void estimate_reset(struct estimate *e, const struct profile_key *owner, uint32_t bucket);
/* Sets what a profile knows, unless this process has samples. `exact` false: an upper bound. */
void estimate_seed(struct estimate *e, uint32_t mean_ns, uint32_t upper_ns, bool exact);
/* The estimate of a function that is for grids of so many blocks. */
static inline unsigned estimate_bucket(uint64_t blocks)
{
    unsigned log = blocks ? (unsigned)(63 - __builtin_clzll(blocks)) / 2 : 0;
    return log < ESTIMATE_BUCKETS ? log : ESTIMATE_BUCKETS - 1;
}
/* The time that a launch hardly exceeds. VHQ_UNKNOWN_NS if nothing is known. */
static inline uint64_t estimate_ns(const struct estimate *e)
{
    uint32_t ns = atomic_load_explicit(&e->learned.upper_ns, memory_order_relaxed);
    return ns ? ns : VHQ_UNKNOWN_NS;
}
static inline bool estimate_known(const struct estimate *e)
{
    return atomic_load_explicit(&e->learned.upper_ns, memory_order_relaxed) != 0;
}
/* True: when a launch that is buffered now goes to the driver, more may be known. */
static inline bool estimate_unsettled(const struct estimate *e)
{
    return !atomic_load_explicit(&e->settled, memory_order_relaxed);
}
uint64_t estimate_copy_ns(size_t bytes, bool on_device);
/* The same from host memory, which a modelled GPU may read slowly (front_read_ps). */
uint64_t estimate_upload_ns(size_t bytes);

/* While the process is alone only so many first launches are sampled. */
enum { ESTIMATE_FIRST = 4 };
static inline void estimate_count(struct estimate *e)
{
    uint32_t n = atomic_load_explicit(&e->launches, memory_order_relaxed);
    atomic_store_explicit(&e->launches, n + 1, memory_order_relaxed);
}

/* What this process's launches take in relation to their estimates, by the latest samples. */
struct vhq_weights estimate_weights(void);

/* Call both around a launch in `stream`, in its thread. NULL: this launch is not sampled. */
struct sample *estimate_begin(struct estimate *e, struct shim_context *ctx, CUstream stream);
void estimate_end(struct sample *sample, CUstream stream);
/* The same for a real-time launch. If best effort goes beside it, `beside` gets what the kernel
 * takes then; else the time is learned. */
struct sample *estimate_begin_beside(struct estimate *e, struct shim_context *ctx, CUstream stream,
                                     void (*beside)(uint32_t ns, uint32_t learned_ns));
/* Reads the finished samples of this context, which is current. For the client's thread. */
void estimate_collect(const struct shim_context *ctx);

#endif
