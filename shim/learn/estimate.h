/*
 * estimate.h - how long does a kernel run? By the latest of its sampled launches (spread.h).
 *
 * A sample is a pair of timing events around one launch: the first launches of a (function, grid
 * size), then one in 32 by chance, because programs repeat themselves, but none while real-time
 * work runs on the device: that would be measured, too, and pay for it. While nobody else wants the
 * device only the first ones are: times are needed when somebody comes. Results are read when a
 * later sample, or the client's thread, finds the events complete, so no thread ever waits for one.
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
    _Atomic uint32_t next; /* which of them is to be sampled */
    struct vhq_learned learned;
    struct spread spread; /* what it is learned from */
    uint32_t doubt_ns;    /* of the mean */
    uint32_t counted;     /* launches that the profile knows of; estimate.c's */
    uint32_t late;        /* samples in a row whose calls took too long; estimate.c's */
    uint32_t bucket;
    _Atomic bool settled;            /* all the times that are kept are there */
    const struct profile_key *owner; /* NULL: not kept */
};

struct shim_context;
struct sample;

/* Its samples are kept in the profile, under this function and grid. NULL: nowhere. */
void estimate_reset(struct estimate *e, const struct profile_key *owner, uint32_t bucket);
/* What is known from before, unless this process knows better. Not exact: that it is no longer. */
void estimate_seed(struct estimate *e, uint32_t mean_ns, uint32_t upper_ns, bool exact);
/* Which of a function's estimates a grid of so many blocks belongs to. */
static inline unsigned estimate_bucket(uint64_t blocks)
{
    unsigned log = blocks ? (unsigned)(63 - __builtin_clzll(blocks)) / 2 : 0;
    return log < ESTIMATE_BUCKETS ? log : ESTIMATE_BUCKETS - 1;
}
/* What a launch will hardly exceed. VHQ_UNKNOWN_NS if nothing is known. */
static inline uint64_t estimate_ns(const struct estimate *e)
{
    uint64_t ns = vhq_learned_ns(&e->learned);
    return ns ? ns : VHQ_UNKNOWN_NS;
}
static inline bool estimate_known(const struct estimate *e)
{
    return vhq_learned_ns(&e->learned) != 0;
}
/* More may be known when a launch that is made now is to go. */
static inline bool estimate_unsettled(const struct estimate *e)
{
    return !atomic_load_explicit(&e->settled, memory_order_relaxed);
}
uint64_t estimate_copy_ns(size_t bytes, bool on_device);
/* The same from the host's memory, which a modelled GPU may read slowly (objects/front.h). */
uint64_t estimate_upload_ns(size_t bytes);

/* One of the launches up to now is to be sampled. */
static inline bool estimate_due(const struct estimate *e)
{
    uint32_t n = atomic_load_explicit(&e->launches, memory_order_relaxed);
    return (int32_t)(n - atomic_load_explicit(&e->next, memory_order_relaxed)) >= 0;
}
/* While the process is alone only the first launches are sampled, and others need no more than
 * this. */
enum { ESTIMATE_FIRST = 4 };
static inline bool estimate_first_done(const struct estimate *e)
{
    return atomic_load_explicit(&e->launches, memory_order_relaxed) >= ESTIMATE_FIRST;
}
static inline void estimate_count(struct estimate *e)
{
    uint32_t n = atomic_load_explicit(&e->launches, memory_order_relaxed);
    atomic_store_explicit(&e->launches, n + 1, memory_order_relaxed);
}

/* What this process's launches take, by the latest samples. */
struct vhq_weights estimate_weights(void);

/* Around a launch in `stream`, in the thread that makes it. NULL: this one is not sampled. */
struct sample *estimate_begin(struct estimate *e, struct shim_context *ctx, CUstream stream);
void estimate_end(struct sample *sample, CUstream stream);
/* The same of a real-time launch: where best effort goes beside it, `beside` is told what that
 * costs, else it says how long the kernel takes. */
struct sample *estimate_begin_beside(struct estimate *e, struct shim_context *ctx, CUstream stream,
                                     void (*beside)(uint32_t ns, uint32_t learned_ns));
/* Reads what samples of this context, which is current, have measured. In the client's thread. */
void estimate_look(const struct shim_context *ctx);

#endif
