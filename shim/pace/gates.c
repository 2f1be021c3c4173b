/*
 * gates.c - gates of the contexts of this process (see gates.h).
 */
#include "shim/pace/gates.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "common/clock.h"
#include "common/thread.h"
#include "scheduler/client/client.h"
#include "shim/pace/pace.h"
#include "common/record.h"
#include "shim/objects/word.h"

enum { PROVEN = 2, RUN_OUT_LOOKS = 200, FIRST_LOOKS = 2000, RUN_OUT_NAP_NS = 100000 };
enum { SOON_PART = 20, MARK_PART = 10 };
enum { BUSY_NAP_NS = 100 * 1000, IDLE_NAP_NS = 1000 * 1000 }; /* between looks at hold words */
#define SOON_NS (50 * NS_PER_MS) /* at least, so that owners write their bits anew in between */
/* A driver may end a context in which a wait has lasted too long (a channel's waits have a limit,
 * alloc_channel.h of NVIDIA's kernel modules). */
#define CLOSED_MOST_NS (10000 * NS_PER_MS)
/* The most estimated work between two gates of a graph. */
#define FAR_NS NS_PER_MS

struct gates {
    uint32_t level, generation;
    int device;                /* index in the page */
    CUdeviceptr word;          /* what streams wait for; 0: this page gives none */
    size_t offset;             /* of the hold word in the device part of the page */
    struct cutin_page *alias;  /* registered with the driver; NULL: mirrored */
    struct gates *prev, *next; /* in `mirrored`, with its lock: also the four below */
    struct vhq_set *set;
    const _Atomic uint32_t *hold;
    _Atomic uint32_t *copy;   /* pinned; goes with the context. NULL: not mirrored */
    bool paused;              /* the copy is 0, and is not touched: it may be about to go */
    _Atomic uint32_t *proof;  /* PROVEN: the GPU has passed a gate. NULL: that is known */
    uint64_t closed_since_ns; /* since when something may stand at a gate; 0: nothing does */
    bool marked;              /* since then, what had no marker was given one */
    struct gates *older;      /* gates of pages that were there before */
};

static _Atomic bool peers; /* another process or device may wait for a write by a stream */

bool gates_peer_noted(void)
{
    return atomic_load_explicit(&peers, memory_order_relaxed);
}

static bool barred(void)
{
    return levels_mixed() || gates_peer_noted();
}

/* ---- whether ------------------------------------------------------------------------------ */

/* True if there may be an MPS server. How its clients share what a gate stops is not documented. */
bool gates_mps(void)
{
    return secure_getenv("CUDA_MPS_PIPE_DIRECTORY") || access("/tmp/nvidia-mps/control", F_OK) == 0;
}

enum { APART = 50 }; /* work between two, in times their cost: so they take 2 % of it */

/* What was recorded of each device; it is read once. */
static struct judgement {
    _Atomic bool read;
    const char *_Atomic why;            /* gates are not used; NULL: they hold */
    _Atomic bool graphs;                /* in graphs, too */
    _Atomic int graph_gate_ns, mark_ns; /* what a gate costs a graph, and what a marker costs */
} judgements[PAGE_DEVICES];

static const struct judgement *recorded(const struct gpu_device *gpu)
{
    struct judgement *j = &judgements[gpu->index];
    struct record r;
    char version[64];
    uint8_t key[16];
    int cuda = 0;
    if (atomic_load_explicit(&j->read, memory_order_acquire))
        return j;
    const char *why = gates_mps() ? "the GPU is shared through MPS" : NULL;
    if (!why) {
        record_key(key, gpu->name);
        REAL(cuDriverGetVersion)(&cuda);
        record_version(version, cuda);
        if (record_read("gates", key, version, &r) != 0)
            why = "not tested here yet; cutin run and cutin doctor test them";
    }
    if (!why) {
        bool graphs = strcmp(r.way, "graphs") == 0;
        if (strcmp(version, r.version) != 0)
            why = "tested with another driver; cutin run and cutin doctor test them again";
        else if (!graphs && strcmp(r.way, "streams") != 0)
            why = "they are of no use here; cutin doctor says why";
        atomic_store(&j->graphs, graphs && !why);
        atomic_store(&j->graph_gate_ns, record_cost(&r, RECORD_GATE_COST));
        atomic_store(&j->mark_ns, record_cost(&r, RECORD_MARK_COST));
    }
    atomic_store(&j->why, why);
    atomic_store_explicit(&j->read, true, memory_order_release); /* pairs with the load above */
    return j;
}

const char *gates_process_objection(void)
{
    if (level_lowest() != client_level() || levels_mixed())
        return "streams of this process have different levels";
    if (gates_peer_noted())
        return "other processes may wait for writes by streams of this process";
    if (client_level() >= CUTIN_LEVEL_RT)
        return "real-time work is never held";
    return atomic_load(&inline_reasons) & INLINE_SET
               ? "a profiler is attached, or CUDA_LAUNCH_BLOCKING is set"
               : NULL;
}

/* Says why there are no gates: a warning for users who asked for them, else information. */
static void say_off(const char *why)
{
    static _Atomic bool said;
    if (!atomic_exchange(&said, true))
        log_line(config_get()->gates == GATES_ON ? LOG_WARN : LOG_INFO, "no gates: %s", why);
}

/* True if gates are asked for and nothing speaks against them. */
static bool gates_wanted(const struct shim_context *ctx)
{
    if (config_get()->gates == GATES_OFF || !ctx->set || ctx->gpu->index < 0)
        return false;
    const char *why = gates_process_objection();
    if (!why && (!ctx->memops || !api_real[API_cuStreamBatchMemOp_v2]))
        why = "the driver lacks stream memory operations, version 2 (CUDA 11.7), or their writes "
              "arrive late";
    if (!why && config_get()->gates != GATES_ON)
        why = atomic_load(&recorded(ctx->gpu)->why);
    if (why)
        say_off(why);
    return !why;
}

uint32_t gates_marks_apart_ns(const struct gpu_device *gpu)
{
    if (gpu->index < 0 || MUTANT(marks_dear))
        return 0;
    return APART * (uint32_t)atomic_load(&recorded(gpu)->mark_ns);
}

/* Gates that would cost more than 2 % of the work between them are farther apart, as far as with no
 * client above at most; beyond that there are none. */
uint64_t gates_graph_spacing_ns(const struct shim_context *ctx)
{
    static _Atomic bool said;
    enum gates_mode mode = config_get()->graph_gates;
    if (mode == GATES_OFF || !gates_wanted(ctx))
        return 0;
    bool asked = mode == GATES_ON || config_get()->gates == GATES_ON;
    if (!asked && !atomic_load(&recorded(ctx->gpu)->graphs))
        return 0;
    int cost_ns = atomic_load(&judgements[ctx->gpu->index].graph_gate_ns);
    uint64_t ns = (uint64_t)remote_budget_us() * 1000 / VHQ_GATE_PART;
    uint64_t least_ns = MUTANT(graph_gates_dear) ? 0 : APART * (uint64_t)cost_ns;
    if (least_ns <= ns)
        return ns;
    if (!atomic_exchange(&said, true))
        log_line(LOG_INFO, "a gate in a graph costs %d ns here: %s", cost_ns,
                 least_ns > FAR_NS ? "graphs get no gates" : "gates in graphs are farther apart");
    return least_ns > FAR_NS ? 0 : least_ns;
}

/* ---- mirrors ------------------------------------------------------------------------------ */

/* Copies of hold words where the GPU can see them, for drivers that do not register the page. */
static pthread_mutex_t mirrored_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gates *mirrored;

/* Never calls the driver, so it opens mirrors whatever else waits for a closed gate. */
static void *mirror_main(void *unused)
{
    thread_name("cutin-mirror");
    prctl(PR_SET_TIMERSLACK, 1ul);
    for (;;) {
        struct timespec nap = {.tv_nsec = IDLE_NAP_NS};
        struct gates *g;
        pthread_mutex_lock(&mirrored_lock);
        DL_FOREACH (mirrored, g) {
            uint32_t now = atomic_load(g->hold);
            /* Write only what differs: the GPU may be looking at it. */
            if (!g->paused && atomic_load_explicit(g->copy, memory_order_relaxed) != now)
                atomic_store(g->copy, now);
            if (vhq_set_in_flight(g->set))
                nap.tv_nsec = BUSY_NAP_NS;
        }
        pthread_mutex_unlock(&mirrored_lock);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

/* Returns where the GPU reads the copy. 0: no memory, or no thread. */
static CUdeviceptr mirror_begin(struct shim_context *ctx, struct gates *g)
{
    static bool running;
    CUdeviceptr device = 0;
    _Atomic uint32_t *copy = word_get(ctx, &device);
    g->set = ctx->set;
    g->hold = client_hold_word(g->device, g->level);
    pthread_mutex_lock(&mirrored_lock);
    if (copy && g->hold && thread_once(&running, mirror_main)) {
        g->copy = copy;
        DL_APPEND(mirrored, g);
    }
    pthread_mutex_unlock(&mirrored_lock);
    return g->copy ? device : 0;
}

void gates_pause_mirrors(struct shim_context *ctx, bool pause)
{
    pthread_mutex_lock(&mirrored_lock);
    for (struct gates *g = atomic_load(&ctx->gates); g; g = g->older) {
        if (g->copy && pause)
            atomic_store(g->copy, 0);
        g->paused = pause;
    }
    pthread_mutex_unlock(&mirrored_lock);
}

/* ---- making them -------------------------------------------------------------------------- */

/* Puts an open gate into a stream of its own, with a write behind it. When the host sees the write,
 * the GPU has looked at the word and gone on. No thread waits for that. */
static bool gate_try(struct shim_context *ctx, struct gates *g, CUdeviceptr at)
{
    CUdeviceptr proof;
    CUstream stream;
    g->proof = word_get(ctx, &proof);
    if (!g->proof || REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return false;
    bool tried = word_write_gate(stream, proof, 1, at) == CUDA_SUCCESS &&
                 word_write(stream, proof, PROVEN) == CUDA_SUCCESS;
    REAL(cuStreamDestroy_v2)(stream);
    return tried;
}

/* Without a daemon no other process holds this one, and it has no gates. */
static struct gates *gate_make(struct shim_context *ctx)
{
    uint32_t generation;
    struct cutin_page *alias = client_page_alias(&generation);
    struct gates *g = alias ? calloc(1, sizeof(*g)) : NULL;
    if (!g) {
        page_unmap(alias);
        return NULL;
    }
    *g = (struct gates){.level = client_level(),
                        .generation = generation,
                        .device = ctx->gpu->index,
                        .alias = alias};
    g->offset = (size_t)((const char *)client_hold_word(g->device, g->level) -
                         (const char *)client_page()->device);
    struct context_scope scope = context_push(ctx);
    /* The device part of the scheduler's page has memory pages of its own, which are registered. */
    void *part = (void *)alias->device;
    CUdeviceptr device = 0;
    if (REAL(cuMemHostRegister_v2)(part, sizeof(alias->device),
                                   CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) ==
            CUDA_SUCCESS &&
        REAL(cuMemHostGetDevicePointer_v2)(&device, part, 0) != CUDA_SUCCESS) {
        REAL(cuMemHostUnregister)(part);
        device = 0;
    }
    if (device) {
        if (gate_try(ctx, g,
                     device + (size_t)g->device * sizeof(struct page_device) +
                         offsetof(struct page_device, spare)))
            g->word = device + g->offset;
    } else {
        page_unmap(alias);
        g->alias = NULL;
        device = mirror_begin(ctx, g);
        if (device && gate_try(ctx, g, device)) {
            g->word = device;
            log_line(LOG_INFO, "gates read copies of hold words: the driver refuses to register "
                               "the scheduler's page");
        }
    }
    context_pop(scope);
    if (!g->word)
        say_off("the driver refused a gate");
    return g;
}

/* A mirror is never stale: it follows the page's address, whatever memory is there. */
static bool gate_stale(const struct gates *g)
{
    return !g->copy && g->generation != client_page_generation();
}

void gates_update(struct shim_context *ctx)
{
    struct gates *g = atomic_load(&ctx->gates);
    bool stale = g && gate_stale(g);
    if (stale)
        atomic_store(&ctx->gates_usable, 0);
    if (g)
        g->closed_since_ns = 0;
    if (!gates_wanted(ctx))
        return;
    if (!g || stale) {
        struct gates *fresh = gate_make(ctx);
        if (!fresh)
            return;
        fresh->older = g;
        atomic_store(&ctx->gates, fresh);
        g = fresh;
    }
    if (!g->word || atomic_load(&ctx->gates_usable))
        return;
    if (g->proof && atomic_load(g->proof) == PROVEN) {
        word_put(ctx, g->proof, PROVEN);
        g->proof = NULL;
    }
    if (!g->proof)
        atomic_store(&ctx->gates_usable, 1);
}

/* ---- using them --------------------------------------------------------------------------- */

int gates_write(void *user, struct vhq *q, void *stream, uint32_t value)
{
    struct shim_stream *s = vhq_user(q);
    struct gates *g = atomic_load_explicit(&s->ctx->gates, memory_order_acquire);
    if (!g || !g->word || !s->word || s->level != g->level || gate_stale(g) || barred())
        return VHQ_NO_GATE;
    return mark_write_gate(s, value, g->word) == CUDA_SUCCESS ? 0 : VHQ_NO_GATE;
}

CUdeviceptr gates_word_initial(struct shim_context *ctx)
{
    const struct gates *g = atomic_load_explicit(&ctx->gates, memory_order_acquire);
    CUdeviceptr none = 0, device = g && !gate_stale(g) ? g->word : 0;
    if (device || (g && !g->word) || !config_get()->socket[0] || MUTANT(early_graphs_ungated))
        return device;
    device = atomic_load(&ctx->open_word);
    _Atomic uint32_t *word = device ? NULL : word_get(ctx, &device);
    if (!word || atomic_compare_exchange_strong(&ctx->open_word, &none, device))
        return device;
    word_put(ctx, word, 0); /* another thread was quicker */
    return none;
}

CUdeviceptr gates_word_if_usable(struct shim_context *ctx, uint32_t level)
{
    struct gates *g = atomic_load_explicit(&ctx->gates, memory_order_acquire);
    bool open = g && atomic_load(&ctx->gates_usable) && level == g->level && !barred();
    return open && !gate_stale(g) ? g->word : 0;
}

bool gates_closed(const struct shim_context *ctx)
{
    struct gates *g = atomic_load(&ctx->gates);
    if (!g || !atomic_load(&ctx->gates_usable))
        return false;
    const _Atomic uint32_t *hold = client_hold_word(g->device, g->level);
    return hold && atomic_load(hold) != 0;
}

/* `stream`: it is of a second level; waits for work that may stand at a gate. */
static void gates_close(struct shim_context *ctx, void *stream)
{
    if (atomic_exchange(&ctx->gates_usable, 0) && stream)
        vhq_set_sync(ctx->set, false);
}

/* A second level ends gates for good. */
static void gates_note_level(struct shim_stream *s)
{
    static _Atomic bool closed;
    if (levels_mixed() && !atomic_exchange(&closed, true))
        context_each(gates_close, s);
}
STREAM_NOTE(STREAM_BEGINS, gates_note_level)

/* Gates that the driver already has may still close at a hold, and open at its end. */
void gates_note_peer(void)
{
    if (!gates_peer_noted() && !atomic_exchange(&peers, true))
        context_each(gates_close, NULL);
}

/* ---- opening them ------------------------------------------------------------------------- */

static void hold_word_clear(const struct gates *g)
{
    if (g->alias)
        atomic_store((_Atomic uint32_t *)(void *)((char *)g->alias->device + g->offset), 0);
}

static void open_stale(struct shim_context *ctx, void *user)
{
    for (struct gates *g = atomic_load(&ctx->gates); g; g = g->older)
        if (gate_stale(g))
            hold_word_clear(g);
}

void gates_open_stale(void)
{
    context_each(open_stale, NULL);
}

/* Adds what is in flight, and how long that takes, as far as is known. */
static void fly(struct shim_context *ctx, void *flight)
{
    struct vhq_stats *sum = flight, stats;
    if (!atomic_load(&ctx->gates))
        return;
    vhq_set_stats(ctx->set, &stats);
    sum->in_flight_now += stats.in_flight_now;
    sum->in_flight_ns += stats.in_flight_ns;
}

static void open_any(struct shim_context *ctx, void *flight)
{
    struct gates *g = atomic_load(&ctx->gates);
    if (!g)
        return;
    atomic_store(&ctx->gates_usable, 0);
    for (; g; g = g->older)
        hold_word_clear(g);
    fly(ctx, flight);
}

/* Waits until the driver has no more than `few` commands, for `looks` looks at most, 100 us apart.
 * Returns whether it came to that. */
static bool run_out(void (*look)(struct shim_context *ctx, void *flight), uint32_t few, int looks)
{
    struct vhq_stats now = {.in_flight_now = few + 1};
    for (; looks > 0 && now.in_flight_now > few; looks--) {
        now = (struct vhq_stats){0};
        context_each(look, &now);
        if (now.in_flight_now > few)
            clock_nap(RUN_OUT_NAP_NS);
    }
    return now.in_flight_now <= few;
}

/* Opens them at each look: others write to the page until they hear that this process left. */
void gates_open_all(void)
{
    run_out(open_any, 0, RUN_OUT_LOOKS);
}

static void hold_all(struct shim_context *ctx, void *hold)
{
    if (ctx->set)
        vhq_set_hold_all(ctx->set, *(const bool *)hold);
}

/* Lets what the driver has run for up to 20 ms, and lets nothing follow. The 20 ms begin when the
 * first command has landed: a host without a processor to spare may see the open gate or the
 * landing late. Returns whether any has landed, or takes so long that it may be on its way. */
static bool let_out(const struct gates *g)
{
    static _Atomic bool said;
    bool hold = true, begun;
    struct vhq_stats before = {0};
    struct client_lifted lifted;
    context_each(hold_all, &hold);
    context_each(fly, &before);
    lifted = client_hold_lift(g->device, g->level);
    begun = run_out(fly, before.in_flight_now ? before.in_flight_now - 1 : 0, FIRST_LOOKS);
    if (begun)
        run_out(fly, 0, RUN_OUT_LOOKS);
    client_hold_restore(&lifted);
    hold = false;
    context_each(hold_all, &hold);
    if (!atomic_exchange(&said, true))
        log_line(LOG_INFO,
                 "a hold lasted too long: opened the gates for the work that waited at them");
    return begun || before.in_flight_ns > RUN_OUT_LOOKS * (uint64_t)RUN_OUT_NAP_NS;
}

void gates_closed_tick(struct shim_context *ctx)
{
    struct gates *g = atomic_load(&ctx->gates);
    uint64_t now_ns = clock_ns(), limit_ns = SHORTENED(LET_OUT_MS, CLOSED_MOST_NS);
    uint64_t soon_ns = limit_ns / SOON_PART;
    struct vhq_stats now = {0};
    fly(ctx, &now);
    if (!now.in_flight_now || !g->closed_since_ns) {
        g->closed_since_ns = now.in_flight_now ? now_ns : 0;
        g->marked = false;
    }
    /* What went last may have been complete for long, but no marker tells, and the driver is not
     * asked while gates are closed. */
    if (now.in_flight_now && !g->marked && ctx->set &&
        now_ns - g->closed_since_ns >= limit_ns / MARK_PART) {
        g->marked = true;
        if (!MUTANT(gated_tail_unmarked))
            vhq_set_mark_last(ctx->set);
    }
    if (!now.in_flight_now || now_ns - g->closed_since_ns < limit_ns || MUTANT(gates_stay_closed))
        return;
    /* A device that did not look at its word meanwhile gets another chance soon. */
    g->closed_since_ns = let_out(g) || soon_ns < SOON_NS ? 0 : clock_ns() - limit_ns + soon_ns;
}

/* All work of the context is complete. A command that the driver refused leaves the gate in front
 * of it in the stream. The GPU must pass that gate before its word goes: mirrors are opened, and
 * the page opens with the hold. In a context that faulted no gate is passed any more, and the
 * driver may look at the page until the context is gone: then the page stays mapped. */
static void gates_end(struct shim_context *ctx, bool alive)
{
    atomic_store(&ctx->open_word, 0);
    if (alive)
        gates_pause_mirrors(ctx, true);
    struct gates *first = atomic_exchange(&ctx->gates, NULL), *g, *older;
    atomic_store(&ctx->gates_usable, 0);
    if (first && alive) {
        struct context_scope scope = context_push(ctx);
        REAL(cuCtxSynchronize)();
        for (g = first; g; g = g->older)
            if (g->alias && REAL(cuMemHostUnregister)((void *)g->alias->device) != CUDA_SUCCESS)
                g->alias = NULL;
        context_pop(scope);
    }
    for (g = first; g; g = older) {
        older = g->older;
        page_unmap(g->alias);
        pthread_mutex_lock(&mirrored_lock);
        if (g->copy)
            DL_DELETE(mirrored, g);
        pthread_mutex_unlock(&mirrored_lock);
        free(g);
    }
}
CONTEXT_END(CONTEXT_ENDING, gates_end)
