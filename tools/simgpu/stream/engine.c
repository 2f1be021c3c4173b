/*
 * engine.c - the process's engine thread; see engine.h. It sleeps until the next time at which a
 * work of this process can end, by the shared timeline. If another process makes that time earlier,
 * it wakes the thread. No lock is held while effects run.
 */
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/device/log.h"
#include "tools/simgpu/stream/late.h"
#include "tools/simgpu/stream/resident.h"
#include "tools/simgpu/device/timeline.h"
#include "tools/simgpu/face/simconfig.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LIVENESS_NS = 20000000, /* time between looks for dead neighbours */
    STOP_PATIENCE_MS = 200,
};

struct finished {
    uint64_t ticket; /* its place in the order of completion */
    struct sim_stream *stream;
    uint64_t seq, start_ns, end_ns;
    struct item *item; /* NULL: the op only holds dependencies */
};

struct waiting {
    struct item *item;
    uint64_t start_ns;
    bool fresh, over;
};

enum engine_state { ENGINE_OFF, ENGINE_STARTING, ENGINE_ON, ENGINE_FAILED };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum engine_state state; /* under lock */
    CUresult result;
    pid_t pid;
    struct device device;
    _Atomic bool stopping;
    _Atomic bool stopped;
    _Atomic(struct sim_stream *) by_id[DEVICE_STREAMS];
    /* what only the engine thread uses */
    struct finished *finished;
    struct waiting waiting[DEVICE_STREAMS]; /* at most the head of each stream */
    size_t finished_count, finished_room, waiting_count;
    uint64_t liveness_at_ns;
} engine = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

uint64_t sim_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void host_spend(uint64_t start_ns, uint64_t ns)
{
    enum { LONG_NS = 200000, S = 1000000000 };
    if (ns > LONG_NS) /* sleeping leaves the processor to other threads */
        nanosleep(&(struct timespec){(time_t)((ns - LONG_NS) / S), (long)((ns - LONG_NS) % S)},
                  NULL);
    while (sim_now_ns() < start_ns + ns)
        ;
}

struct device *engine_device(void)
{
    return &engine.device;
}

uint64_t device_lock_now(void)
{
    device_lock(&engine.device);
    uint64_t now = sim_now_ns();
    device_advance(&engine.device, now);
    return now;
}

void device_unlock_at(uint64_t now)
{
    device_advance(&engine.device, now);
    device_unlock(&engine.device);
}

bool engine_stopped(void)
{
    return atomic_load_explicit(&engine.stopping, memory_order_relaxed);
}

/* ---- streams by device id -------------------------------------------------------------------- */

struct sim_stream *engine_stream(uint32_t device_stream)
{
    struct sim_stream *s = atomic_load(&engine.by_id[device_stream % DEVICE_STREAMS]);
    return s && atomic_load(&s->device_stream) == device_stream ? s : NULL;
}

/* In null mode there is no device. The ids are the process's own. */
static uint32_t stream_id_invent(struct sim_stream *s)
{
    static _Atomic uint32_t generation = 1;
    for (uint32_t i = 0; i < DEVICE_STREAMS; i++) {
        struct sim_stream *none = NULL;
        if (atomic_compare_exchange_strong(&engine.by_id[i], &none, s))
            return atomic_fetch_add(&generation, 1) * DEVICE_STREAMS + i;
    }
    return 0;
}

bool engine_stream_open(struct sim_stream *s)
{
    if (config_get()->null_mode) {
        atomic_store(&s->device_stream, stream_id_invent(s));
        return atomic_load(&s->device_stream) != 0;
    }
    device_lock(&engine.device);
    uint32_t id = device_stream_open(&engine.device, s->context->device_context, s->priority);
    if (id) {
        device_stream(&engine.device, id)->queue = s->queue;
        atomic_store(&s->device_stream, id);
        atomic_store(&engine.by_id[id % DEVICE_STREAMS], s);
    }
    device_unlock(&engine.device);
    return id != 0;
}

void engine_stream_close(struct sim_stream *s)
{
    struct sim_stream *mine = s;
    uint32_t id = atomic_exchange(&s->device_stream, 0);
    if (config_get()->null_mode) {
        atomic_store(&engine.by_id[id % DEVICE_STREAMS], NULL);
        return;
    }
    device_lock(&engine.device);
    /* The context may have gone meanwhile, and the device's stream may be another one's by now. */
    atomic_compare_exchange_strong(&engine.by_id[id % DEVICE_STREAMS], &mine, NULL);
    device_stream_close(&engine.device, id);
    device_unlock(&engine.device);
}

/* ---- effects --------------------------------------------------------------------------------- */

/* Everything that is queued in the context ends at once, without effects. */
static void context_raise(struct sim_context *ctx, CUresult error)
{
    context_fail(ctx, error);
    if (config_get()->null_mode || !ctx->device_context || engine_stopped())
        return;
    uint64_t now = device_lock_now();
    device_context_abort(&engine.device, ctx->device_context);
    device_unlock_at(now);
}

static bool work_runs(const struct work *w, const struct sim_context *ctx)
{
    return w->effect && (w->even_on_error || atomic_load(&ctx->error) == CUDA_SUCCESS);
}

void work_finish(struct work *w, struct sim_stream *s, uint64_t seq, bool ran)
{
    struct point at = {atomic_load(&s->device_stream), seq};
    struct sim_context *ctx = (struct sim_context *)(void *)w->context;
    bool runs = !ran && work_runs(w, ctx);
    CUresult rc = runs ? w->effect(w) : w->step_error;
    if (rc != CUDA_SUCCESS)
        context_raise(ctx, rc);
    log_work(w, ctx->device_context, at, s->id, ran || runs || (!w->effect && !w->step));
    if (w->drop)
        w->drop(w);
    free(w->state);
}

static int by_ticket(const void *a, const void *b)
{
    const struct finished *x = a, *y = b;
    return x->ticket < y->ticket ? -1 : x->ticket > y->ticket;
}

static void finished_run_all(void)
{
    if (engine.finished_count == 0)
        return;
    qsort(engine.finished, engine.finished_count, sizeof(*engine.finished), by_ticket);
    for (size_t i = 0; i < engine.finished_count; i++) {
        const struct finished *f = &engine.finished[i];
        if (f->item) {
            struct work *w = &f->item->work;
            w->start_ns = f->start_ns;
            w->end_ns = f->end_ns;
            work_finish(w, f->stream, f->seq, w->kind == WORK_HOST);
            free(f->item);
        }
        stream_complete(f->stream, f->seq);
    }
    engine.finished_count = 0;
}

/* ---- what the timeline has for this process (device locked) ---------------------------------- */

static bool finished_room(void)
{
    if (engine.finished_count < engine.finished_room)
        return true;
    size_t more = engine.finished_room ? engine.finished_room * 2 : 64;
    struct finished *bigger = realloc(engine.finished, more * sizeof(*bigger));
    if (!bigger)
        return false; /* what does not fit is found at the next look */
    engine.finished = bigger;
    engine.finished_room = more;
    return true;
}

static void collect_done(struct device_stream *ds, struct sim_stream *s)
{
    while (ds->reaped + 1 < ds->head && finished_room()) {
        uint64_t seq = ds->reaped + 1;
        const struct op *op = stream_op(engine.device.shared, ds, seq);
        struct item **item = &s->items[seq % DEVICE_RING];
        engine.finished[engine.finished_count++] =
            (struct finished){op->ticket, s, seq, op->start_ns, op->end_ns, *item};
        *item = NULL;
        ds->reaped = seq;
    }
}

static void collect_handed(struct device_stream *ds, struct sim_stream *s, uint64_t now)
{
    if (ds->head > ds->tail)
        return;
    struct op *op = stream_op(engine.device.shared, ds, ds->head);
    if (op->state != OP_HANDED || op->flags & OP_TAKEN)
        return;
    if (op->flags & OP_RESIDENT) {
        resident_take(s->items[ds->head % DEVICE_RING], op, now);
        return;
    }
    if (engine.waiting_count == DEVICE_STREAMS)
        return;
    op->flags |= OP_TAKEN;
    struct item *item = s->items[ds->head % DEVICE_RING];
    engine.waiting[engine.waiting_count++] = (struct waiting){item, op->start_ns, true, false};
}

static void collect(uint64_t now)
{
    struct device_shared *sh = engine.device.shared;
    for (uint32_t i = 0; i < sh->streams_used; i++) {
        struct device_stream *ds = &sh->streams[i];
        struct sim_stream *s = atomic_load(&engine.by_id[i]);
        if (!ds->id || ds->client != engine.device.client || !s)
            continue;
        collect_done(ds, s);
        collect_handed(ds, s, now);
    }
}

/* ---- memop waits ----------------------------------------------------------------------------- */

static void waits_poll(void)
{
    uint64_t limit_ns = (uint64_t)config_get()->acquire_limit_ms * 1000000u, now = sim_now_ns();
    for (size_t i = 0; i < engine.waiting_count; i++) {
        struct waiting *w = &engine.waiting[i];
        w->over = w->item->work.poll(&w->item->work);
        if (!w->over && limit_ns && now > w->start_ns + limit_ns)
            context_raise(w->item->stream->context, CUDA_ERROR_LAUNCH_TIMEOUT);
    }
}

/* A wait that was true at the first look counts as true from its start, because the delay of the
 * engine is not the device's time. Device locked. */
static void waits_resolve(bool fresh, uint64_t now)
{
    for (size_t i = 0; i < engine.waiting_count; i++) {
        struct waiting *w = &engine.waiting[i];
        if (w->over && w->fresh == fresh)
            device_resolve(&engine.device, atomic_load(&w->item->stream->device_stream),
                           w->item->seq, fresh ? w->start_ns : now);
    }
}

/* Removes waits that are done, resolved or aborted. Device locked. */
static void waits_prune(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < engine.waiting_count; i++) {
        struct waiting w = engine.waiting[i];
        uint32_t id = atomic_load(&w.item->stream->device_stream);
        if (device_stream(&engine.device, id)->head > w.item->seq)
            continue;
        w.fresh = false;
        engine.waiting[kept++] = w;
    }
    engine.waiting_count = kept;
}

/* Gives the host functions that were newly handed to their thread. */
static void hosts_dispatch(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < engine.waiting_count; i++) {
        struct waiting w = engine.waiting[i];
        if (w.item->work.kind == WORK_HOST)
            callback_push(w.item);
        else
            engine.waiting[kept++] = w;
    }
    engine.waiting_count = kept;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* When to look again; 0: at once. Waits that were newly handed need their first look now. Device
 * locked. */
static uint64_t sleep_plan(uint64_t now, size_t waits_before)
{
    if (engine.waiting_count > waits_before || residents_taken())
        return 0;
    uint64_t due = device_due(&engine.device, engine.device.client);
    for (size_t i = 0; i < engine.waiting_count; i++) {
        uint64_t step = poll_interval(now - engine.waiting[i].start_ns);
        due = now + step < due ? now + step : due;
    }
    if (device_has_other_clients(&engine.device) && now + LIVENESS_NS < due)
        due = now + LIVENESS_NS;
    return due > now ? due : 0;
}

static void engine_pass(struct device_client *self)
{
    waits_poll();
    residents_step();
    device_lock(&engine.device);
    uint64_t now = sim_now_ns();
    residents_resume(&engine.device);
    waits_resolve(true, now);
    device_advance(&engine.device, now);
    waits_resolve(false, now);
    device_advance(&engine.device, now);
    if (now - engine.liveness_at_ns >= LIVENESS_NS) {
        engine.liveness_at_ns = now;
        if (device_reap_dead(&engine.device))
            device_advance(&engine.device, now);
    }
    waits_prune();
    size_t waits_before = engine.waiting_count;
    collect(now);
    uint64_t until = sleep_plan(now, waits_before);
    self->sleep_until_ns = until;
    uint32_t seen = __atomic_load_n(&self->wake, __ATOMIC_ACQUIRE);
    device_unlock(&engine.device);
    finished_run_all();
    hosts_dispatch();
    uint64_t late = late_flush(now);
    until = late < until ? late : until;
    struct timespec t = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};
    if (until) /* a process that made something due earlier since then has changed `wake` */
        syscall(SYS_futex, &self->wake, FUTEX_WAIT_BITSET, seen, until == DEVICE_NEVER ? NULL : &t,
                NULL, FUTEX_BITSET_MATCH_ANY);
}

static void set_state(enum engine_state state, CUresult result)
{
    SCOPED_LOCK(&engine.lock);
    engine.state = state;
    engine.result = result;
    pthread_cond_broadcast(&engine.changed);
}

static int devices_join(void)
{
    const struct sim_config *c = config_get();
    struct device_params params = {
        .gpus = (uint32_t)c->devices,
        .sms = (uint32_t)c->sms,
        .timeslice_ns = (uint64_t)c->timeslice_us * 1000u,
        .switch_ns = (uint64_t)c->switch_us * 1000u,
        .memory_percent = (uint32_t)c->memory_percent,
        .link_percent = (uint32_t)c->link_percent,
        .waits_keep_slices = !c->acquire_yields,
    };
    char name[128];
    snprintf(name, sizeof(name), "/simgpu-%u-%s", (unsigned int)getuid(), c->id);
    int rc = device_open(&engine.device, name, &params);
    if (rc < 0)
        fprintf(stderr, "simgpu: /dev/shm%s cannot be used: %s%s\n", name, strerror(-rc),
                rc == -EPROTO ? " (another version's file; remove it)" : "");
    return rc;
}

static void *engine_main(void *unused)
{
    prctl(PR_SET_NAME, "simgpu");
    prctl(PR_SET_TIMERSLACK, 1);
    if (devices_join() < 0) {
        set_state(ENGINE_FAILED, CUDA_ERROR_OPERATING_SYSTEM);
        return NULL;
    }
    struct device_client *self = &engine.device.shared->clients[engine.device.client];
    set_state(ENGINE_ON, CUDA_SUCCESS);
    while (!atomic_load(&engine.stopping))
        engine_pass(self);
    device_close(&engine.device, STOP_PATIENCE_MS * 1000000u);
    atomic_store(&engine.stopped, true);
    return NULL;
}

/* The thread lives in a program that is not ours: it takes no signals, and does not depend on the
 * stack size that the program gives its own threads. */
int engine_thread_start(void *(*main)(void *), void *arg)
{
    enum { STACK_BYTES = 8 << 20 };
    sigset_t all, before;
    pthread_attr_t attr;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    int rc = pthread_create(&thread, &attr, main, arg);
    pthread_attr_destroy(&attr);
    if (rc == 0)
        pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

CUresult engine_start(void)
{
    if (config_get()->null_mode)
        return CUDA_SUCCESS;
    SCOPED_LOCK(&engine.lock);
    if (engine.state == ENGINE_OFF || engine.state == ENGINE_FAILED) {
        engine.state = ENGINE_STARTING;
        engine.pid = getpid();
        if (engine_thread_start(engine_main, NULL) != 0) {
            engine.state = ENGINE_FAILED;
            engine.result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    while (engine.state == ENGINE_STARTING)
        pthread_cond_wait(&engine.changed, &engine.lock);
    return engine.result;
}

static void engine_wake(void)
{
    struct device_client *self = &engine.device.shared->clients[engine.device.client];
    __atomic_fetch_add(&self->wake, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &self->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void engine_kick(void)
{
    if (!engine_stopped())
        engine_wake();
}

/* At exit: leaves the devices, but never delays the exit. If leaving fails, the neighbours remove
 * the process once it is dead. */
__attribute__((destructor)) static void engine_stop(void)
{
    bool mine = engine.pid == getpid() && engine.device.shared;
    if (!mine || atomic_exchange(&engine.stopping, true))
        return;
    for (int ms = 0; ms < STOP_PATIENCE_MS && !atomic_load(&engine.stopped); ms++) {
        engine_wake();
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* ---- host functions -------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct item *first, **last;
    bool running;
} callbacks = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static struct item *callback_pop(void)
{
    SCOPED_LOCK(&callbacks.lock);
    while (!callbacks.first)
        pthread_cond_wait(&callbacks.more, &callbacks.lock);
    struct item *item = callbacks.first;
    callbacks.first = item->next;
    return item;
}

static void callback_run(struct item *item)
{
    struct work *w = &item->work;
    struct sim_context *ctx = item->stream->context;
    uint32_t id = atomic_load(&item->stream->device_stream);
    CUresult rc = work_runs(w, ctx) ? w->effect(w) : CUDA_SUCCESS;
    if (rc != CUDA_SUCCESS)
        context_raise(ctx, rc);
    if (engine_stopped())
        return;
    uint64_t now = device_lock_now();
    device_resolve(&engine.device, id, item->seq, now);
    device_unlock_at(now);
}

static void *callback_main(void *unused)
{
    prctl(PR_SET_NAME, "simgpu-host");
    callback_thread_begin();
    for (;;)
        callback_run(callback_pop());
    return NULL;
}

void callback_push(struct item *item)
{
    SCOPED_LOCK(&callbacks.lock);
    if (!callbacks.running)
        callbacks.running = engine_thread_start(callback_main, NULL) == 0;
    item->next = NULL;
    if (!callbacks.first)
        callbacks.last = &callbacks.first;
    *callbacks.last = item;
    callbacks.last = &item->next;
    pthread_cond_signal(&callbacks.more);
}
