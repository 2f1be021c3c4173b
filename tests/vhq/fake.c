/*
 * fake.c - the world of fake.h: calls, driver, device.
 */
#include "tests/vhq/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "vhq/internal.h"

struct payload {
    const struct vhq_learned *learned;
    struct world *w;
    int index;
    unsigned char bytes[];
};

void nap_us(unsigned us)
{
    struct timespec ts = {.tv_nsec = (long)us * 1000};
    nanosleep(&ts, NULL);
}

static uint64_t stamp(struct world *w)
{
    return atomic_fetch_add(&w->clock, 1) + 1;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static void device_push(struct stream *s, int command, uint32_t value, bool gate)
{
    s->work[s->tail++] = (struct work){command, value, gate};
}

static int driver_submit(struct world *w, int index)
{
    struct command *c = &w->command[index];
    struct stream *s = &w->stream[c->stream];
    atomic_fetch_add(&w->in_run, 1);
    while (atomic_load(&w->run_wait) || atomic_load(&s->full)) /* a test keeps the driver busy */
        nap_us(20);
    atomic_fetch_sub(&w->in_run, 1);
    pthread_mutex_lock(&w->lock);
    c->flying_ns = w->flying_ns;
    c->in_flight = s->in_flight;
    atomic_store(&c->submitted, stamp(w));
    atomic_fetch_add(&c->submits, 1);
    if (c->fail == 0) {
        device_push(s, index, 0, false);
        w->flying_ns += c->capped ? c->est_ns : 0;
        s->in_flight += c->capped;
        atomic_fetch_add(&s->submitted, 1);
    }
    pthread_mutex_unlock(&w->lock);
    return c->fail;
}

static int command_run(void *payload)
{
    struct payload *p = payload;
    struct command *c = &p->w->command[p->index];
    for (size_t i = 0; i + sizeof(*p) < c->bytes; i++) {
        if (p->bytes[i] != (unsigned char)(p->index + (int)i))
            abort(); /* the payload was overwritten */
    }
    int err = driver_submit(p->w, p->index);
    return err == 0 && c->left > 1 && --c->left ? VHQ_MORE : err;
}

static void command_drop(void *payload)
{
    struct payload *p = payload;
    struct command *c = &p->w->command[p->index];
    atomic_store(&c->dropped, stamp(p->w));
    atomic_fetch_add(&c->drops, 1);
}

static int driver_mark(void *user, struct vhq *q, void *stream, uint32_t value)
{
    struct stream *s = stream;
    struct world *w = user;
    int ret = 0;
    pthread_mutex_lock(&w->lock);
    atomic_fetch_add(&w->mark_calls, 1);
    if (w->refuse_marks)
        ret = 1;
    else
        device_push(s, NONE, value, false);
    pthread_mutex_unlock(&w->lock);
    return ret;
}

static int driver_gate(void *user, struct vhq *q, void *stream, uint32_t value)
{
    struct world *w = user;
    pthread_mutex_lock(&w->lock);
    bool refused = w->refuse_gates;
    atomic_fetch_add(&w->gate_calls, 1);
    if (!refused)
        device_push(stream, NONE, value, true);
    pthread_mutex_unlock(&w->lock);
    return refused ? VHQ_NO_GATE : 0;
}

static uint32_t driver_poll(void *user, struct vhq *q, void *stream)
{
    struct stream *s = stream;
    pthread_mutex_lock(&s->w->lock);
    uint32_t value = s->polled;
    pthread_mutex_unlock(&s->w->lock);
    atomic_fetch_add(&s->w->polls, 1);
    return value;
}

/* For tests in which the device runs only when they say so. */
static bool driver_complete(void *user, struct vhq *q, void *stream)
{
    struct stream *s = stream;
    pthread_mutex_lock(&s->w->lock);
    bool complete = s->head == s->tail;
    pthread_mutex_unlock(&s->w->lock);
    atomic_fetch_add(&s->w->asked, 1);
    return complete;
}

static bool driver_failed(void *user, struct vhq *q, int err)
{
    struct world *w = user;
    atomic_store(&w->fail_code, err);
    atomic_fetch_add(&w->fails, 1);
    return err == FAIL_SPOILS;
}

/* The dispatcher asks this before each look. */
static struct vhq_pad_room driver_room(void *user)
{
    struct world *w = user;
    atomic_fetch_add(&w->looks, 1);
    pthread_mutex_lock(&w->lock);
    struct vhq_pad_room room = w->room;
    pthread_mutex_unlock(&w->lock);
    return room;
}

/* ---- worlds ---------------------------------------------------------------------------------- */

static struct world *world_make(const struct vhq_config *cfg, bool asked)
{
    struct world *w = calloc(1, sizeof(*w));
    struct vhq_ops ops = {.mark = driver_mark,
                          .gate = driver_gate,
                          .poll = driver_poll,
                          .complete = asked ? driver_complete : NULL,
                          .room = driver_room,
                          .failed = driver_failed};
    w->cfg = cfg ? *cfg : (struct vhq_config){0};
    pthread_mutex_init(&w->lock, NULL);
    for (int e = 0; e < EVENTS_MAX; e++) {
        pthread_mutex_init(&w->event[e].lock, NULL);
        w->event[e].record = NONE;
    }
    if (vhq_set_create(&w->cfg, &ops, w, &w->set) != 0)
        abort();
    return w;
}

struct world *world_new(const struct vhq_config *cfg)
{
    return world_make(cfg, false);
}

struct world *world_new_asked(const struct vhq_config *cfg)
{
    return world_make(cfg, true);
}

void world_room(struct world *w, uint32_t eighths, uint64_t for_us)
{
    pthread_mutex_lock(&w->lock);
    w->room = (struct vhq_pad_room){eighths * PARTS_PER_EIGHTH, clock_ns() + for_us * 1000};
    pthread_mutex_unlock(&w->lock);
}

/* Whether only one thread dispatches. One that lent its role and is in a command has more to do. */
static bool one_dispatches(struct world *w)
{
    pthread_mutex_lock(&w->set->lock);
    int others = (int)w->set->threads - 1 - (int)atomic_load(&w->set->spares);
    pthread_mutex_unlock(&w->set->lock);
    return others >= 0 && others <= atomic_load(&w->in_run);
}

static void look_await(struct world *w)
{
    uint32_t before = atomic_load(&w->looks), now;
    dispatcher_kick(w->set);
    for (int tries = 0; (now = atomic_load(&w->looks)) == before ||
                        !atomic_load(&w->set->sleeping) || atomic_load(&w->looks) != now;
         tries++) {
        if (tries == 200000)
            abort();
        nap_us(100);
    }
}

void dispatcher_looks(struct world *w)
{
    if (!dispatcher_start(w->set))
        abort();
    /* A new dispatcher counts as spare for a moment, but no longer once it has looked. */
    for (int alone = 0; alone < 2;) {
        bool before = one_dispatches(w);
        look_await(w);
        alone = before && one_dispatches(w) ? alone + 1 : 0;
    }
}

bool somebody_waits(struct world *w)
{
    pthread_mutex_lock(&w->set->lock);
    bool waits = w->set->waiters;
    pthread_mutex_unlock(&w->set->lock);
    return waits;
}

void world_forget(struct world *w)
{
    for (int e = 0; e < EVENTS_MAX; e++)
        vhq_fence_put(w->event[e].fence);
    for (int i = 0; i < w->streams; i++)
        free(w->stream[i].work);
    free(w);
}

void world_free(struct world *w)
{
    hold_all(w, false);
    device_stop(w);
    device_start(w, 1); /* with a frozen clock nothing else makes room */
    vhq_set_destroy(w->set, false);
    device_stop(w);
    world_forget(w);
}

pid_t world_fork(struct world *w)
{
    for (int i = 0; i < w->streams; i++)
        queue_lock(w->stream[i].q);
    registry_lock();
    set_lock(w->set);
    pthread_mutex_lock(&w->lock);
    pid_t pid = fork();
    pthread_mutex_unlock(&w->lock);
    if (pid == 0)
        return 0;
    set_unlock(w->set);
    registry_unlock();
    for (int i = 0; i < w->streams; i++)
        queue_unlock(w->stream[i].q);
    return pid;
}

static int stream_new(struct world *w, enum vhq_kind kind, bool word, int priority)
{
    int i = w->streams++;
    struct stream *s = &w->stream[i];
    s->w = w;
    s->kind = kind;
    s->work = calloc(2 * COMMANDS_MAX, sizeof(*s->work));
    struct vhq_desc desc = {.kind = kind,
                            .priority = priority,
                            .stream = s,
                            .user = s,
                            .hold = &s->hold,
                            .hold_since = &s->hold_since,
                            .done = word ? &s->done : NULL};
    if (vhq_create(w->set, &desc, &s->q) != 0)
        abort();
    return i;
}

int world_stream(struct world *w, enum vhq_kind kind)
{
    return stream_new(w, kind, true, 0);
}

void world_stream_beside(struct world *w)
{
    world_stream(w, VHQ_NONBLOCKING); /* each has a hold word of its own */
}

int world_stream_of_priority(struct world *w, int priority)
{
    return stream_new(w, VHQ_NONBLOCKING, true, priority);
}

int world_stream_polled(struct world *w, enum vhq_kind kind)
{
    return stream_new(w, kind, false, 0);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* What a shim does with events: a record takes a new fence and displaces the old one. */
static void call_event(struct world *w, const struct call *call, struct command *c, int index,
                       struct vhq_req *req)
{
    struct event *ev = &w->event[call->event];
    pthread_mutex_lock(&ev->lock);
    if (call->what == RECORD) {
        c->displaces = ev->record;
        req->displaces = ev->fence;
        req->signals = vhq_fence_new();
        ev->fence = vhq_fence_get(req->signals);
        ev->record = index;
    } else if (ev->fence) {
        c->after = ev->record;
        req->after = vhq_fence_get(ev->fence);
    }
    pthread_mutex_unlock(&ev->lock);
}

static void call_buffered(struct world *w, int index, struct vhq_cmd *cmd)
{
    struct command *c = &w->command[index];
    struct payload *p = cmd->payload;
    if ((uintptr_t)p % VHQ_PAYLOAD_ALIGN != 0)
        abort();
    p->learned = &w->learned;
    p->w = w;
    p->index = index;
    for (size_t i = 0; i + sizeof(*p) < c->bytes; i++)
        p->bytes[i] = (unsigned char)(index + (int)i);
    cmd->run = command_run;
    cmd->drop = command_drop;
}

int world_call(struct world *w, const struct call *call)
{
    int index = w->commands++;
    if (index >= COMMANDS_MAX)
        abort();
    struct command *c = &w->command[index];
    struct vhq_req req = {.flags = call->flags,
                          .est_ns = call->est_ns,
                          .parts = call->parts + call->eighths * PARTS_PER_EIGHTH,
                          .boost = call->boost};
    struct vhq_cmd *cmd = NULL;
    struct vhq *q = w->stream[call->stream].q;
    if (call->what != LAUNCH)
        req.flags |= VHQ_UNCOUNTED;
    req.bytes = call->bytes > sizeof(struct payload) ? call->bytes : sizeof(struct payload);
    c->stream = call->stream;
    c->flags = req.flags;
    c->bytes = req.bytes;
    c->est_ns = call->est_ns;
    c->capped = !(req.flags & VHQ_UNCOUNTED);
    c->fail = call->fail;
    c->left = call->parts_of;
    req.flags |= call->parts_of ? VHQ_IN_PIECES : 0;
    c->after = c->displaces = NONE;
    c->begun = stamp(w);
    if (call->what != LAUNCH)
        call_event(w, call, c, index, &req);
    if (vhq_begin(q, &req, &cmd) == VHQ_INLINE) {
        c->inlined = true;
        int err = driver_submit(w, index);
        for (; err == 0 && c->left > 1 && --c->left; err = driver_submit(w, index))
            vhq_await_piece(q);
        vhq_end(q, NULL, err);
    } else {
        call_buffered(w, index, cmd);
        vhq_end(q, NULL, 0);
    }
    c->ended = stamp(w);
    vhq_fence_put(req.after);
    vhq_fence_put(req.signals);
    vhq_fence_put(req.displaces);
    return index;
}

int launch(struct world *w, int stream, uint64_t est_us)
{
    return world_call(w, &(struct call){.stream = stream, .est_ns = est_us * 1000});
}

void hold_all(struct world *w, bool hold)
{
    for (int i = 0; i < w->streams; i++)
        atomic_store(&w->stream[i].hold, hold);
}

bool submitted(struct world *w, int command)
{
    return atomic_load(&w->command[command].submits) != 0;
}

int submitted_count(struct world *w)
{
    int n = 0;
    for (int i = 0; i < w->commands; i++)
        n += submitted(w, i);
    return n;
}

/* ---- the device ------------------------------------------------------------------------------ */

/* Device lock held. */
static void device_complete(struct stream *s)
{
    struct work *k = &s->work[s->head++];
    if (k->command == NONE) {
        s->polled = k->value;
        atomic_store_explicit(&s->done, k->value, memory_order_release);
        return;
    }
    struct command *c = &s->w->command[k->command];
    s->w->flying_ns -= c->capped ? c->est_ns : 0;
    s->in_flight -= c->capped;
    atomic_fetch_add(&s->completed, 1);
}

/* Whether the head may pass, and is no closed gate. A closed gate's marker is written anyway. */
static bool device_passes(struct stream *s)
{
    if (s->head == s->tail)
        return false;
    struct work *k = &s->work[s->head];
    if (!k->gate || atomic_load(&s->hold) == 0)
        return true;
    s->polled = k->value;
    atomic_store_explicit(&s->done, k->value, memory_order_release);
    return false;
}

/* Passes the markers behind what is complete. Device lock held. */
static void device_mark(struct stream *s)
{
    while (device_passes(s) && s->work[s->head].command == NONE)
        device_complete(s);
}

void device_marks(struct world *w, int stream)
{
    pthread_mutex_lock(&w->lock);
    device_mark(&w->stream[stream]);
    pthread_mutex_unlock(&w->lock);
}

bool device_step(struct world *w, int stream)
{
    struct stream *s = &w->stream[stream];
    pthread_mutex_lock(&w->lock);
    bool any = device_passes(s);
    if (any)
        device_complete(s);
    device_mark(s);
    pthread_mutex_unlock(&w->lock);
    return any;
}

void device_finish(struct world *w)
{
    for (int i = 0; i < w->streams; i++) {
        while (device_step(w, i))
            ;
    }
}

static void *device_main(void *arg)
{
    struct world *w = arg;
    while (atomic_load(&w->running)) {
        for (uint32_t n = rnd(&w->seed, 8); n > 0; n--)
            device_step(w, (int)rnd(&w->seed, (uint32_t)w->streams));
        nap_us(rnd(&w->seed, 30));
    }
    device_finish(w);
    return NULL;
}

void device_start(struct world *w, uint32_t seed)
{
    w->seed = seed;
    atomic_store(&w->running, true);
    if (pthread_create(&w->device, NULL, device_main, w) != 0)
        abort();
}

void device_stop(struct world *w)
{
    if (!atomic_exchange(&w->running, false))
        return;
    pthread_join(w->device, NULL);
}
