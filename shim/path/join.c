/*
 * join.c - completion is carried along waits (see join.h).
 *
 * Threads may note, carry and overwrite at a time. A join is whole where its seal is made of its
 * other parts; whoever carries it breaks the seal.
 */
#include "shim/path/join.h"

#include "shim/pace/schedule.h"

static uint64_t join_seal(uint64_t at, const struct shim_stream *source, uint64_t epoch)
{
    return at ^ (uint64_t)(uintptr_t)source ^
           epoch << 1; /* epochs of two streams are often equal */
}

void join_note(struct shim_stream *s, uint64_t at, struct shim_stream *source, uint64_t epoch)
{
    struct join *j = &s->join[source->id % JOINS];
    atomic_store_explicit(&j->seal, 0, memory_order_relaxed);
    atomic_store_explicit(&j->at, at, memory_order_release);
    atomic_store_explicit(&j->source, source, memory_order_release);
    atomic_store_explicit(&j->epoch, epoch, memory_order_release);
    atomic_store_explicit(&j->seal, join_seal(at, source, epoch), memory_order_release);
    atomic_store(&s->joined, true);
}

/* False: its time has not come. */
static bool carry(struct join *j, uint64_t known)
{
    uint64_t seal = atomic_load_explicit(&j->seal, memory_order_acquire);
    uint64_t epoch = atomic_load_explicit(&j->epoch, memory_order_acquire);
    struct shim_stream *source = atomic_load_explicit(&j->source, memory_order_acquire);
    uint64_t at = atomic_load_explicit(&j->at, memory_order_acquire);
    if (!seal || seal != join_seal(at, source, epoch))
        return true;
    if ((int64_t)(known - at) < 0)
        return false;
    if (atomic_compare_exchange_strong(&j->seal, &seal, 0))
        schedule_complete(source, epoch);
    return true;
}

void join_carry(struct shim_stream *s, uint64_t epoch)
{
    bool left = false;
    if (!atomic_exchange(&s->joined, false))
        return;
    for (int i = 0; i < JOINS; i++)
        left |= !carry(&s->join[i], epoch);
    if (left)
        atomic_store(&s->joined, true);
}

void join_forget(struct shim_stream *s)
{
    for (int i = 0; i < JOINS; i++)
        atomic_store_explicit(&s->join[i].seal, 0, memory_order_relaxed);
    atomic_store(&s->joined, false);
}
