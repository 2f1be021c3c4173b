/*
 * suspend.c - suspending: how a hold reaches the kernel that runs.
 *
 * A hold suspends when it finds more residue than CUTIN_SUSPEND_AFTER_US by the estimates, or has
 * waited so long for it. The process's channel groups leave the device (groups.h), and the end of
 * the hold puts them back as they were. The held process does that to itself. Its thread
 * "cutin-suspend" looks at the hold word every 50 us while something long is in flight and a client
 * above is connected, else much more seldom. So no process needs rights over another one, and what
 * ends a hold ends the suspension: a release, the daemon's repairs, and its death.
 *
 * If groups stop by time slices alone, that is not done at holds unless it was asked for (`on`):
 * the control takes 2 ms (an H100, driver 580), as long as the slice that it spares. Instead the
 * slices of this process are short while a client above is connected and no other process shares
 * time with it. What runs then leaves the device after one slice by itself.
 *
 * Only holds by clients above suspend; a pause or a hold by a policy waits. A process whose streams
 * have different levels is not suspended: the group of a stream is not known.
 */
#include "shim/pace/pace.h"

#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "scheduler/client/client.h"
#include "shim/pace/gates.h"
#include "common/record.h"
#include "shim/suspend/groups.h"
#include "common/clock.h"
#include "common/thread.h"

enum {
    LOOK_NS = 50 * 1000,        /* between looks at the hold word, while something long runs */
    STOPPED_NS = 20 * 1000,     /* at least, while stopped: the program loses what passes unseen */
    LOOK_MAX_NS = 250 * 1000,   /* at most, while stopped: it is 1 % of the time so far */
    ALONE_NS = 5 * 1000 * 1000, /* with no client above */
    EFFECT_NS = 20000 * 1000,   /* what the GPU completes so long after a stop was not stopped */
    DEVICES = 64,
    /* The length of a slice: another process waits for one at most, and a switch. Beside a process
     * with slices of 2 ms, slices of 100 us get 4 % of the device, and slices of 1 us nothing. */
    SHORT_US = 100,
};

struct device {
    const struct gpu_device *gpu; /* NULL: none */
    const _Atomic uint32_t *hold;
    bool off;  /* for good; the reason was logged */
    bool used; /* that it is used was logged */
    enum groups_way way;
    bool shortened;             /* its slices are short, as was logged last */
    uint64_t long_until_ns;     /* until then at least, something runs that a hold would stop */
    uint64_t held_since_ns;     /* when the hold was first seen; 0: there is none */
    uint64_t stopped_since_ns;  /* since when the groups stand still; 0: they do not */
    uint32_t yields_before;     /* groups_yields before that */
    struct vhq_residue residue; /* as of the last look, of all contexts */
    bool settled;               /* EFFECT_NS have passed since; `markers` had been reached then */
    uint32_t markers;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[DEVICES]; /* grows under `lock`; only the thread uses its content */
static _Atomic uint32_t count;
static _Atomic bool ending;

/* ---- whether ------------------------------------------------------------------------------ */

/* Says why: a warning for users who asked for suspending, else information. */
static void turn_off(struct device *d, const char *why)
{
    if (!d->off)
        log_line(config_get()->suspend == SUSPEND_ON ? LOG_WARN : LOG_INFO, "suspend off: %s", why);
    d->off = true;
}

static const char *objection(void)
{
    const char *why = gates_process_objection();
    if (!why && config_get()->suspend == SUSPEND_AUTO && gates_mps())
        why = "the GPU is shared through MPS";
    return why ? why : groups_objection();
}

static const char *record_take(struct device *d, struct record *r)
{
    if (record_read("suspend", d->gpu->uuid, groups_version, r) != 0)
        return "not tested here yet; cutin doctor tests it";
    if (strcmp(r->version, groups_version) != 0)
        return "tested with another driver; cutin doctor tests it again";
    for (int way = 0; way < GROUPS_WAYS; way++)
        if (strcmp(r->way, groups_way_names[way]) == 0) {
            d->way = (enum groups_way)way;
            return NULL;
        }
    return r->why[0] ? r->why : "cutin doctor found that it does not work here";
}

/* Runs once, when the first context of the device comes up. What doctor saw decides which way, even
 * with `on`, where it does not decide whether. Once off, the manager is asked for nothing. */
static void device_judge(struct device *d)
{
    struct record record;
    const char *why = objection();
    if (!why) {
        const char *unproved = record_take(d, &record);
        why = config_get()->suspend == SUSPEND_AUTO ? unproved : NULL;
    }
    if (!why && !groups_count(d->gpu->uuid))
        why = "no channel group of the device is known";
    if (why)
        turn_off(d, why);
}

/* ---- what runs ---------------------------------------------------------------------------- */

static void residue_add(struct shim_context *ctx, void *user)
{
    struct device *d = user;
    struct vhq_residue one;
    if (ctx->gpu != d->gpu || !ctx->set)
        return;
    vhq_set_residue(ctx->set, &one);
    d->residue.running |= one.running;
    d->residue.ns = one.ns > d->residue.ns ? one.ns : d->residue.ns;
    d->residue.markers += one.markers;
}

static struct vhq_residue residue_read(struct device *d)
{
    d->residue = (struct vhq_residue){0};
    context_each(residue_add, d);
    return d->residue;
}

/* ---- stopping and going on ---------------------------------------------------------------- */

static void device_stop(struct device *d, uint64_t now)
{
    const char *why = objection();
    d->yields_before = atomic_load(&groups_yields);
    int rc = why ? 0 : groups_stop(d->gpu->uuid, d->way);
    if (!why && rc > 0 && d->way == GROUPS_SCHEDULE) {
        d->way = GROUPS_TIMESLICE;
        rc = groups_stop(d->gpu->uuid, d->way);
    }
    if (why)
        turn_off(d, why);
    else if (rc > 0)
        turn_off(d, "the resource manager refuses it");
    else if (rc == 0) {
        d->stopped_since_ns = now;
        d->settled = false;
        if (!d->used)
            log_line(LOG_INFO, "suspend on: %u channel groups stopped by %s",
                     groups_count(d->gpu->uuid), groups_way_names[d->way]);
        d->used = true;
    }
}

static void device_resume(struct device *d)
{
    d->stopped_since_ns = 0;
    if (groups_resume(d->gpu->uuid) != 0)
        turn_off(d, "channel groups that were stopped did not resume");
}

/* Slices are short while a client above is connected. Two processes with short ones would do
 * nothing but switch. They are set at each look, also if nothing has changed: there may be new
 * groups, and what could not be set is set at the next look. */
static bool device_shortened(struct device *d)
{
    bool wanted = !d->off && !objection() &&
                  atomic_load_explicit(client_above_word(), memory_order_relaxed) != 0 &&
                  atomic_load_explicit(client_beside_word(), memory_order_relaxed) == 0;
    int rc = groups_set_slice(d->gpu->uuid, wanted ? SHORT_US : 0);

    if (rc == 0 && wanted != d->shortened) {
        log_line(LOG_INFO,
                 wanted ? "suspend on: time slices of %d us beside real-time work"
                        : "suspend: time slices are as long as before",
                 SHORT_US);
        d->shortened = wanted;
    }
    if (rc > 0)
        turn_off(d, "the resource manager refuses it");
    return wanted;
}

/* Off the run list no kernel ends. With short time slices one may, so that proves nothing. */
static void effect_tick(struct device *d, uint64_t now)
{
    if (d->way != GROUPS_SCHEDULE || now - d->stopped_since_ns < EFFECT_NS)
        return;
    uint32_t markers = residue_read(d).markers;
    if (!d->settled)
        d->markers = markers;
    d->settled = true;
    /* Fewer markers: a stream is gone. */
    if ((int32_t)(markers - d->markers) <= 0 || atomic_load(&groups_yields) != d->yields_before)
        return;
    turn_off(d, "it had no effect: a kernel ended although it was stopped");
    device_resume(d);
}

static bool device_held(const struct device *d)
{
    return (atomic_load_explicit(d->hold, memory_order_acquire) & PAGE_BITS_CLIENTS) != 0 &&
           !levels_mixed() && !gates_peer_noted() && !atomic_load(&ending);
}

/* Returns for how long no other look is needed. */
static uint64_t device_tick(struct device *d, uint64_t now)
{
    if (d->stopped_since_ns) {
        if (!device_held(d)) {
            device_resume(d);
            return LOOK_NS;
        }
        if (atomic_load(&groups_yields) != d->yields_before) { /* begin anew */
            device_resume(d); /* for groups that were stopped just after */
            d->held_since_ns = 0;
            return LOOK_NS;
        }
        effect_tick(d, now);
        uint64_t nap = (now - d->stopped_since_ns) / 100;
        return nap < STOPPED_NS ? STOPPED_NS : nap > LOOK_MAX_NS ? LOOK_MAX_NS : nap;
    }
    bool slices = d->way == GROUPS_TIMESLICE;
    if ((slices && (device_shortened(d) || config_get()->suspend == SUSPEND_AUTO)) || d->off)
        return ALONE_NS;
    struct vhq_residue residue;
    uint64_t after = config_get()->suspend_after_us * NS_PER_US;
    if (device_held(d)) {
        if (!d->held_since_ns)
            d->held_since_ns = now;
        residue = residue_read(d);
        if (residue.ns > after || (residue.running && now - d->held_since_ns >= after))
            device_stop(d, now);
        return LOOK_NS;
    }
    d->held_since_ns = 0;
    /* To ask for the residue takes locks, so not before what was long may be over. */
    if (now < d->long_until_ns)
        return LOOK_NS;
    if (atomic_load_explicit(client_above_word(), memory_order_relaxed) == 0)
        return ALONE_NS;
    residue = residue_read(d);
    if (residue.ns <= after)
        return after > LOOK_NS ? after : LOOK_NS;
    d->long_until_ns = now + residue.ns - after;
    return LOOK_NS;
}

static void *suspend_main(void *unused)
{
    thread_name("cutin-suspend");
    prctl(PR_SET_TIMERSLACK, 1ul);
    for (;;) {
        uint64_t nap = ALONE_NS;
        uint32_t n = atomic_load_explicit(&count, memory_order_acquire);
        for (uint32_t i = 0; i < n && !atomic_load(&ending); i++) {
            uint64_t one = device_tick(&devices[i], clock_ns());
            nap = one < nap ? one : nap;
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)nap}, NULL);
    }
    return NULL;
}

/* ---- life --------------------------------------------------------------------------------- */

void suspend_open(struct shim_context *ctx)
{
    static bool running;
    const struct gpu_device *gpu = ctx->gpu;
    if (config_get()->suspend == SUSPEND_OFF || gpu->index < 0)
        return;
    pthread_mutex_lock(&lock);
    uint32_t n = atomic_load_explicit(&count, memory_order_relaxed), at = 0;
    while (at < n && devices[at].gpu != gpu)
        at++;
    if (at == n && n < DEVICES) {
        struct device *d = &devices[n];
        *d = (struct device){.gpu = gpu, .hold = client_hold_word(gpu->index, client_level())};
        device_judge(d);
        if (!d->off && !thread_once(&running, suspend_main))
            turn_off(d, "no memory for a thread");
        atomic_store_explicit(&count, n + 1, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

void suspend_end(void)
{
    if (config_get()->suspend == SUSPEND_OFF)
        return;
    atomic_store(&ending, true);
    groups_end();
}
