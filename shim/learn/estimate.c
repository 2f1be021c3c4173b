/*
 * estimate.c - kernel times by sampled event pairs (see estimate.h).
 *
 * At most SAMPLES are under way; further launches go unsampled. Launches that are not sampled only
 * read and count two relaxed counters.
 */
#include "shim/learn/estimate.h"

#include <pthread.h>

#include "scheduler/client/client.h"
#include "shim/objects/event.h"
#include "shim/learn/profile.h"
#include "shim/objects/stream.h"
#include "common/clock.h"

enum {
    SAMPLES = 32,
    MIX = 32,
    EVERY = 32,
    LATE_NS = 100 * 1000, /* a call this long has loaded something or was interrupted */
    MOST_MS = 4000,       /* longer times count as this, to fit 32 bits */
    LATE_TIMES = 8,       /* late calls in a row: on a machine with little time all are late */
    PAIR_MOST_NS = 16 * 1000 * 1000, /* beside time slices longer times are hardly waits */
};

struct sample {
    struct estimate *estimate;      /* NULL: it ended meanwhile */
    struct profile_row *row;        /* where the time is kept; NULL: nowhere */
    const struct shim_context *ctx; /* in which the events were created; NULL: never used */
    uint64_t generation;
    CUevent start, end;
    bool held;     /* by a thread, which may be asking the driver */
    bool gone;     /* its context has ended since it was held */
    bool recorded; /* both events are */
    /* For a sample of a real-time stream: gets the time beside best effort. NULL: another one. */
    void (*beside)(uint32_t ns, uint32_t learned_ns);
    bool waited; /* the kernel could not begin when it was launched: the pair times it alone */
    uint64_t began_ns, call_ns;    /* start and length of the call */
    struct vhq_device_work device; /* what the device had before the launch */
    bool company; /* other processes were there; at a gate the device may switch to one */
    bool gated;
    bool sliced;     /* one of those has the device by its time slices */
    uint64_t padded; /* vhq_set_padded before the launch */
};

/* Not held across driver calls: a thread that asks the driver about a sample holds the sample. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sample samples[SAMPLES];
static struct {
    const struct estimate *of[MIX]; /* the estimates of the latest samples */
    uint32_t next;
    _Atomic uint32_t least, mean, most; /* relative to the estimates, in 256ths */
} mix = {.least = 256, .mean = 256, .most = 512};

void estimate_reset(struct estimate *e, const struct profile_key *owner, uint32_t bucket)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SAMPLES; i++)
        if (samples[i].estimate == e) /* of an earlier owner of this memory */
            samples[i].estimate = NULL;
    for (int i = 0; i < MIX; i++)
        if (mix.of[i] == e)
            mix.of[i] = NULL;
    atomic_store_explicit(&e->launches, 0, memory_order_relaxed);
    atomic_store_explicit(&e->next, 0, memory_order_relaxed);
    atomic_store_explicit(&e->learned.mean_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&e->learned.upper_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&e->settled, false, memory_order_relaxed);
    e->spread = (struct spread){0};
    e->counted = 0;
    e->late = 0;
    e->paired = false;
    e->owner = owner;
    e->bucket = bucket;
    pthread_mutex_unlock(&lock);
}

/* Lock held. Beside others' time slices (`sliced`) a kernel that goes alone waits for them each
 * time, and with such a time it would always go alone. So unless the latest time is exact two may
 * go at once, and the next launch is sampled. What is buffered is estimated again when it goes. */
static void estimate_read(struct estimate *e, bool sliced)
{
    uint32_t mean_ns, upper_ns;
    spread_read(&e->spread, &mean_ns, &upper_ns, &e->doubt_ns);
    uint32_t half_ns = config_get()->budget_us * 1000 / 2; /* two such fit */
    if (sliced && !e->paired && upper_ns > half_ns && upper_ns <= PAIR_MOST_NS &&
        !MUTANT(slices_learned)) {
        upper_ns = half_ns;
        atomic_store_explicit(&e->next, atomic_load_explicit(&e->launches, memory_order_relaxed),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&e->learned.mean_ns, mean_ns, memory_order_relaxed);
    atomic_store_explicit(&e->learned.upper_ns, upper_ns ? upper_ns : 1, memory_order_relaxed);
    atomic_store_explicit(&e->settled, e->spread.times == SPREAD_TIMES && !sliced,
                          memory_order_relaxed);
}

/* Counts as two times, which a dozen of this process's own outweigh. */
void estimate_seed(struct estimate *e, uint32_t mean_ns, uint32_t upper_ns, bool exact)
{
    pthread_mutex_lock(&lock);
    if (!estimate_known(e)) {
        enum spread_is is = exact ? SPREAD_IS_EXACT : SPREAD_AT_MOST;
        spread_add(&e->spread, mean_ns, is);
        spread_add(&e->spread, upper_ns, is);
        estimate_read(e, false);
    }
    pthread_mutex_unlock(&lock);
}

/* 12 GB/s across PCIe and 500 GB/s within the device, plus a fixed cost for each copy. */
uint64_t estimate_copy_ns(size_t bytes, bool on_device)
{
    return 1500 + atomic_load_explicit(&front_copy_ns, memory_order_relaxed) +
           (on_device ? bytes / 500 : bytes / 12);
}

uint64_t estimate_upload_ns(size_t bytes)
{
    uint64_t near_ns = estimate_copy_ns(bytes, false), fixed_ns = estimate_copy_ns(0, false);
    uint64_t read_ps = atomic_load_explicit(&front_read_ps, memory_order_relaxed);
    uint64_t far_ns = fixed_ns + bytes * read_ps / 1000;
    return far_ns > near_ns ? far_ns : near_ns;
}

/* ---- samples ------------------------------------------------------------------------------ */

static bool processes_beside(void)
{
    const struct cutin_page *page = client_page();
    return page && atomic_load_explicit(&page->beside, memory_order_relaxed) != 0;
}

static void mix_store(_Atomic uint32_t *part, uint64_t ns, uint64_t est_ns)
{
    uint32_t is = (uint32_t)((ns * 256 + est_ns / 2) / est_ns);
    atomic_store_explicit(part, is ? is : 1, memory_order_relaxed);
}

/* Launches are sampled by chance, so a function counts as often as it is launched. It counts with
 * its present estimate, which may have changed much. Inexact times may be wrong by half. */
static void mix_note(const struct estimate *e)
{
    uint64_t est_ns = 1, sum_ns = 0, doubt_ns = 0;
    mix.of[mix.next++ % MIX] = e;
    for (int i = 0; i < MIX; i++) {
        if (!mix.of[i])
            continue;
        est_ns += estimate_ns(mix.of[i]);
        uint64_t mean = atomic_load_explicit(&mix.of[i]->learned.mean_ns, memory_order_relaxed);
        sum_ns += mean;
        doubt_ns += mix.of[i]->spread.times ? mix.of[i]->doubt_ns : mean / 2;
    }
    mix_store(&mix.least, doubt_ns < sum_ns ? sum_ns - doubt_ns : 0, est_ns);
    mix_store(&mix.mean, sum_ns, est_ns);
    mix_store(&mix.most, sum_ns + doubt_ns, est_ns);
}

struct vhq_weights estimate_weights(void)
{
    return (struct vhq_weights){
        .least = atomic_load_explicit(&mix.least, memory_order_relaxed),
        .mean = atomic_load_explicit(&mix.mean, memory_order_relaxed),
        .most = processes_beside() ? atomic_load_explicit(&mix.most, memory_order_relaxed) : 512,
    };
}

static void sample_keep(struct sample *s, uint32_t ns)
{
    struct estimate *e = s->estimate;
    uint32_t launches = atomic_load_explicit(&e->launches, memory_order_relaxed);
    if (!s->row)
        return;
    profile_sample(s->row, ns, !e->spread.times, &e->learned, launches - e->counted);
    e->counted = launches;
}

/* True: the time is no lesson, as where best effort went beside the kernel. */
static bool sample_padded(const struct sample *s, uint32_t ns)
{
    const struct estimate *e = s->estimate;
    if (!s->beside || vhq_set_padded(s->ctx->set) == s->padded)
        return s->beside && !s->waited && estimate_known(e);
    if (s->waited && estimate_known(e))
        s->beside(ns, (uint32_t)estimate_ns(e));
    return true;
}

/* Lock held. */
static void sample_learn(struct sample *s, uint32_t pair_ns)
{
    struct estimate *e = s->estimate;
    const struct vhq_device_work *device = &s->device;
    uint32_t ns = pair_ns, third_ns = pair_ns / 3;
    /* Much of the pair's time may be the call's, or that of loading. Then the first launches are
     * timed again; later ones only count. After LATE_TIMES in a row the time is used: if no call is
     * quicker, the least time is all there is. */
    bool late = !s->waited && s->call_ns >= LATE_NS && !MUTANT(loading_timed);
    if (!late) {
        e->late = 0;
    } else if (e->late < LATE_TIMES || MUTANT(late_never_timed)) {
        e->late++;
        if (estimate_known(e)) {
            sample_keep(s, 0);
        } else {
            atomic_store_explicit(&e->launches, 0, memory_order_relaxed);
            atomic_store_explicit(&e->next, 0, memory_order_relaxed);
            e->counted = 0;
        }
        return;
    }
    /* Other streams were at work, or its own was though the kernel did not wait for it. */
    bool others = MUTANT(wait_taken_for_kernel) ? device->others + device->own > s->waited
                                                : device->others || device->own > s->waited;
    /* The pair of a kernel that did not wait contains the time until its launch, at most that of
     * the call. A kernel that took longer than all that another stream had may have shared the
     * device. Its own time is then between half of what it took and all of it: two thirds count. */
    if (!s->waited && !MUTANT(call_timed))
        ns -= (uint32_t)(s->call_ns < third_ns ? s->call_ns : third_ns);
    else if (others && pair_ns > device->others_ns)
        ns -= third_ns;
    if (sample_padded(s, ns))
        return;
    /* Exact: nothing else of the process was at work, and the kernel was behind another of its
     * stream (without a gate between, unless others wait for shifts) or no other process was there;
     * or it ran in its process's own shift. Else it may have waited. When a kernel that waited
     * began is unknown. */
    bool turns = s->ctx->set && !vhq_set_undisturbed(s->ctx->set, s->began_ns);
    bool behind = s->waited && !s->gated && (device->own || MUTANT(wait_taken_for_kernel));
    bool in_shift = !device->others && !s->waited && !s->sliced && !MUTANT(shift_untold) &&
                    s->began_ns + s->call_ns + ns <= device->shift_end_ns;
    bool exact = !turns && !late && ((!others && (behind || !s->company)) || in_shift);
    e->paired = s->sliced && exact;
    spread_add(&e->spread, ns,
               !exact      ? SPREAD_AT_MOST
               : in_shift  ? SPREAD_IS_SURE
               : s->sliced ? SPREAD_BESIDE_SLICES
                           : SPREAD_IS_EXACT);
    estimate_read(e, s->sliced);
    mix_note(e);
    if (s->ctx->set) /* the set weighs what is in flight by them */
        vhq_set_weigh(s->ctx->set, estimate_weights());
    sample_keep(s, exact || !e->spread.times ? ns : 0);
}

/* Claims the next sample of `ctx` from `s` on that no thread has. NULL: there is none, or another
 * thread has the lock. `ctx` NULL: a sample without events. */
static struct sample *sample_claim(struct sample *s, const struct shim_context *ctx, bool recorded)
{
    if (pthread_mutex_trylock(&lock) != 0)
        return NULL;
    while (s < samples + SAMPLES &&
           (s->held || s->ctx != ctx || (ctx && s->generation != ctx->generation) ||
            (recorded && !s->recorded)))
        s++;
    if (s < samples + SAMPLES)
        s->held = true;
    pthread_mutex_unlock(&lock);
    return s < samples + SAMPLES ? s : NULL;
}

static void sample_release(struct sample *s)
{
    pthread_mutex_lock(&lock);
    s->held = false;
    if (s->gone)
        *s = (struct sample){.ctx = NULL};
    pthread_mutex_unlock(&lock);
}

/* The caller holds the sample. True: it is read, or had nothing to read. */
static bool sample_read(struct sample *s)
{
    float ms = 0;
    CUresult r = s->recorded ? REAL(cuEventElapsedTime)(&ms, s->start, s->end) : CUDA_SUCCESS;
    if (r == CUDA_ERROR_NOT_READY)
        return false;
    pthread_mutex_lock(&lock);
    if (r == CUDA_SUCCESS && s->recorded && ms >= 0 && s->estimate && !s->gone &&
        !(ms >= MOST_MS && MUTANT(longest_unlearned)))
        sample_learn(s, ms < MOST_MS ? (uint32_t)(ms * 1e6f) : MOST_MS * 1000000u);
    s->recorded = false;
    pthread_mutex_unlock(&lock);
    return true;
}

/* A free sample of this context, or a new one, which the caller holds then. Reads finished ones on
 * the way. */
static struct sample *sample_take(const struct shim_context *ctx)
{
    for (struct sample *s = samples; (s = sample_claim(s, ctx, false)); s++) {
        if (sample_read(s))
            return s;
        sample_release(s);
    }
    struct sample *s = sample_claim(samples, NULL, false);
    if (!s)
        return NULL;
    struct context_scope scope = context_push_other(ctx);
    bool made = event_pair(&s->start, &s->end);
    context_pop(scope);
    if (!made) {
        sample_release(s);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    s->ctx = ctx;
    s->generation = ctx->generation;
    pthread_mutex_unlock(&lock);
    return s;
}

static struct sample *sample_begin(struct estimate *e, struct shim_context *ctx, CUstream stream)
{
    struct sample *s = sample_take(ctx);
    if (!s)
        return NULL;
    pthread_mutex_lock(&lock);
    s->estimate = e;
    pthread_mutex_unlock(&lock);
    s->beside = NULL;
    s->row = e->owner ? profile_row_of(e->owner, e->bucket) : NULL;
    s->company = processes_beside();
    const _Atomic uint32_t *word = client_shift_word(ctx->gpu->index);
    uint32_t shift = word ? atomic_load_explicit(word, memory_order_relaxed) : 0;
    s->gated = atomic_load_explicit(&ctx->gates_usable, memory_order_relaxed) != 0 &&
               !(shift & ~PAGE_SHIFT_PROGRESS);
    s->sliced = shift & PAGE_SHIFT_SLICED;
    s->device = (struct vhq_device_work){.own = false};
    /* The per-thread handle means another stream in each thread. */
    const struct shim_stream *own =
        ctx->set && stream == CU_STREAM_PER_THREAD ? stream_known(stream) : NULL;
    if (ctx->set)
        vhq_set_device_work(ctx->set, stream ? stream : CU_STREAM_LEGACY, own ? own->q : NULL,
                            &s->device);
    if (REAL(cuEventRecord)(s->start, stream) == CUDA_SUCCESS) {
        s->began_ns = clock_ns();
        return s;
    }
    sample_release(s);
    return NULL;
}

struct sample *estimate_begin(struct estimate *e, struct shim_context *ctx, CUstream stream)
{
    uint32_t n = atomic_load_explicit(&e->launches, memory_order_relaxed);
    bool due = (int32_t)(n - atomic_load_explicit(&e->next, memory_order_relaxed)) >= 0;
    estimate_count(e);
    if (likely(!due) || (n >= ESTIMATE_FIRST && vhq_set_alone(ctx->set)))
        return NULL;
    /* When to sample next: one in EVERY on average. By chance, because programs repeat themselves
     * and one kernel would be sampled again and again; but the same chance in every run. */
    static _Atomic uint32_t draws;
    uint32_t draw = atomic_load_explicit(&draws, memory_order_relaxed) + 1;
    atomic_store_explicit(&draws, draw, memory_order_relaxed);
    uint32_t chance = (n ^ draw << 20 ^ draw) * 0x9e3779b1u;
    chance = (chance ^ chance >> 15) * 0x85ebca6bu;
    uint32_t step = n + 1 < ESTIMATE_FIRST ? 1 : 1 + (chance >> 16) % (2 * EVERY - 1);
    if (MUTANT(fixed_stride))
        step = EVERY;
    atomic_store_explicit(&e->next, n + step, memory_order_relaxed);
    return capture_any() || client_held(ctx->gpu->index, level_lowest())
               ? NULL
               : sample_begin(e, ctx, stream);
}

struct sample *estimate_begin_beside(struct estimate *e, struct shim_context *ctx, CUstream stream,
                                     void (*beside)(uint32_t ns, uint32_t learned_ns))
{
    struct sample *s = capture_any() ? NULL : sample_begin(e, ctx, stream);
    if (!s)
        return NULL;
    s->beside = beside;
    s->device = (struct vhq_device_work){.own = true}; /* vhq_set_padded tells what goes beside */
    s->padded = vhq_set_padded(ctx->set);
    return s;
}

void estimate_end(struct sample *sample, CUstream stream)
{
    if (!sample)
        return;
    bool recorded = REAL(cuEventRecord)(sample->end, stream) == CUDA_SUCCESS;
    sample->call_ns = clock_ns() - sample->began_ns;
    sample->waited = REAL(cuEventQuery)(sample->start) == CUDA_ERROR_NOT_READY;
    sample->recorded = recorded;
    sample_release(sample);
}

/* Only samples of this context, which is current: those of another one may have lost it. */
void estimate_collect(const struct shim_context *ctx)
{
    for (struct sample *s = samples; (s = sample_claim(s, ctx, true)); s++) {
        sample_read(s);
        sample_release(s);
    }
}

static void samples_end(struct shim_context *ctx, bool alive)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < SAMPLES; i++)
        if (samples[i].ctx == ctx && samples[i].held)
            samples[i].gone = true;
        else if (samples[i].ctx == ctx) /* its events go with the context */
            samples[i] = (struct sample){.ctx = NULL};
    pthread_mutex_unlock(&lock);
}
CONTEXT_END(CONTEXT_ENDED, samples_end)
