/*
 * suspend.c - can this process stop its own running kernels, by the controls of its channel groups
 * (shim/suspend/groups.h)? The answer of a control is not trusted. The kernels must stand still
 * while a neighbour runs, and then go on with the right result.
 */
#include "gpu.h"
#include "shim/suspend/groups.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 20,
    QUICK_ROUNDS = 2,
    QUEUED = 100, /* short kernels with a marker each: no more than a stream takes at once */
    SHORT_US = 300,
    LONG_US = 30000,
    TRIES = 5,  /* with longer kernels each time, if a control came too late to tell */
    LONGER = 4, /* each try's kernels run this many times as long as the last control took */
    LONGEST_US = 1000000, /* the longest that they run */
    STOP_MS = 100,        /* how long one look at stopped kernels takes */
    LOOKS = 10,           /* until earlier ends are seen: a busy processor may be late */
    LIMIT_MS = 20000,
    NEIGHBOUR_US = 100,
    LEAST_NEIGHBOUR = 10, /* kernels of the neighbour meanwhile */
    MOST_UNITS = 2,       /* own kernels meanwhile, when none should run */
};

/* ---- the neighbour --------------------------------------------------------------------------- */

static struct shared {
    _Atomic int run;
    _Atomic uint64_t kernels; /* completed by the neighbour */
} *shared;

static void neighbour(void)
{
    CUstream s;

    gpu_open();
    s = stream_new();
    for (;;) {
        while (!atomic_load(&shared->run))
            clock_sleep_us(200);
        gpu_check(gpu_spin(s, gpu.full, NEIGHBOUR_US), "cuLaunchKernel");
        CU(cuStreamSynchronize, s);
        atomic_fetch_add(&shared->kernels, 1);
    }
}

/* ---- one way --------------------------------------------------------------------------------- */

static uint8_t uuid[16];

static struct {
    const char *name;
    uint64_t call_ns[ROUNDS], stop_ns[ROUNDS], go_ns[ROUNDS];
    size_t n;
    uint64_t units, neighbours; /* while stopped */
    int answer;
    bool late; /* in every try a control came after what it should have stopped */
    bool stood, went_on, right;
} seen;

static void key_number(const char *what, double value)
{
    char key[64];

    snprintf(key, sizeof(key), "%s_%s", seen.name, what);
    fact_number(key, value);
}

static void key_flag(const char *what, bool value)
{
    char key[64];

    snprintf(key, sizeof(key), "%s_%s", seen.name, what);
    fact_flag(key, value);
}

static void key_samples(const char *what, uint64_t *ns)
{
    char key[64];

    snprintf(key, sizeof(key), "%s_%s", seen.name, what);
    fact_samples(key, ns, seen.n);
}

/* Queues short kernels whose result shows how often each ran, and in which order. */
static void units_enqueue(CUstream s, CUdeviceptr x, struct word mark, uint32_t us)
{
    for (uint32_t i = 1; i <= QUEUED; i++) {
        uint32_t a = i * 2 + 1, b = i, n = 1;
        gpu_check(gpu_spin(s, gpu.full, us), "cuLaunchKernel");
        gpu_check(
            gpu.cuLaunchKernel(gpu.mix, 1, 1, 1, 32, 1, 1, 0, s, (void *[]){&x, &a, &b, &n}, NULL),
            "cuLaunchKernel");
        gpu_check(mark_enqueue(s, mark.device, i), "cuStreamWriteValue32");
    }
}

static uint32_t units_result(uint32_t x)
{
    for (uint32_t i = 1; i <= QUEUED; i++)
        x = x * (i * 2 + 1) + i;
    return x;
}

/* Watches until `end_ns`. Returns when the last progress was, or `from_ns`. */
static uint64_t progress_until(struct word mark, uint64_t from_ns, uint64_t end_ns)
{
    uint32_t last = word_get(mark);
    uint64_t last_ns = from_ns;

    for (uint64_t now = from_ns; now < end_ns; now = clock_ns()) {
        uint32_t value = word_get(mark);
        if (value != last)
            last_ns = now;
        last = value;
    }
    return last_ns;
}

/* The limit of a wait, and of all tries: on a busy machine one may take seconds. */
static bool within(uint64_t from_ns)
{
    return clock_ns() - from_ns < LIMIT_MS * UINT64_C(1000000);
}

static uint64_t first_ns; /* begin of the first try */

/* How long to run if `us` was too short for a control that came `took_ns` after the begin. */
static uint32_t longer_us(uint32_t us, uint64_t took_ns)
{
    uint64_t needed = took_ns / 1000 * LONGER;

    if (needed < 2 * (uint64_t)us)
        needed = 2 * (uint64_t)us;
    return needed < LONGEST_US ? (uint32_t)needed : LONGEST_US;
}

/* True: after `took_ns`, kernels of `us` together cannot all have ended. It is computed, because
 * ends are seen late if the processor is busy. */
static bool before_the_end(uint64_t took_ns, uint32_t us)
{
    return took_ns < us * UINT64_C(1000);
}

/* Work that stood with `rest_ns` to do needs that time once it goes on. If it is over much sooner,
 * it had run, and the busy processor did not see that. */
static bool ran_unseen(uint64_t rest_ns, uint64_t go_ns)
{
    return clock_ns() - go_ns < rest_ns / 2;
}

/* Stops a queue of short kernels in the middle. Returns the time just before, or 0 if the control
 * was refused or too late. `unit_us` gets the length of each kernel. */
static uint64_t stop_units(enum groups_way way, CUstream s, struct word mark, struct word x,
                           uint32_t *unit_us)
{
    uint32_t all_us = SHORT_US * QUEUED, tried_us = 0;

    for (int i = 0; i < TRIES && tried_us < LONGEST_US && within(first_ns); i++) {
        uint64_t begin_ns = clock_ns(), from_ns, took_ns;
        word_set(mark, 0);
        word_set(x, 1);
        *unit_us = all_us / QUEUED;
        units_enqueue(s, x.device, mark, *unit_us);
        while (word_get(mark) < QUEUED / 8 && within(begin_ns))
            sched_yield();
        from_ns = clock_ns();
        seen.answer = groups_stop(uuid, way);
        took_ns = clock_ns() - begin_ns;
        if (seen.answer == 0 && before_the_end(took_ns, all_us / 4 * 3))
            return from_ns;
        tried_us = all_us;
        all_us = longer_us(all_us, took_ns);
        groups_resume(uuid);
        CU(cuStreamSynchronize, s);
        if (seen.answer != 0)
            return 0;
    }
    seen.late = true;
    return 0;
}

/* How many kernels may run in a round. With short time slices some may. */
static uint32_t most_units(void)
{
    return seen.name == groups_way_names[GROUPS_TIMESLICE] ? QUEUED / 4 : MOST_UNITS;
}

/* Watches until the queue stands still while the neighbour works, or until it has run out. Records
 * what the last look saw. */
static uint64_t units_watch(struct word mark, uint64_t from_ns)
{
    for (int i = 0; i < LOOKS; i++) {
        uint64_t kernels = atomic_load(&shared->kernels), begin_ns = clock_ns();
        uint32_t before = word_get(mark), after;

        from_ns = progress_until(mark, from_ns, begin_ns + STOP_MS * UINT64_C(1000000));
        while (atomic_load(&shared->kernels) < kernels + LEAST_NEIGHBOUR && within(begin_ns))
            clock_sleep_us(1000);
        after = word_get(mark);
        bool out = after == QUEUED;
        if (i + 1 < LOOKS && !out && after - before > most_units())
            continue;
        seen.units += out ? QUEUED : after - before;
        seen.neighbours += atomic_load(&shared->kernels) - kernels;
        break;
    }
    return from_ns;
}

/* False: the control was refused. */
static bool round_short(enum groups_way way, CUstream s, struct word mark, struct word x)
{
    uint32_t unit_us;
    uint64_t from_ns = stop_units(way, s, mark, x, &unit_us), called_ns = clock_ns();

    if (from_ns == 0)
        return false;
    uint64_t last_ns = units_watch(mark, from_ns), go_ns = clock_ns();
    uint32_t stopped = word_get(mark);
    groups_resume(uuid);
    while (word_get(mark) == stopped && stopped < QUEUED && within(go_ns))
        ;
    seen.call_ns[seen.n] = called_ns - from_ns;
    seen.stop_ns[seen.n] = last_ns - from_ns;
    seen.go_ns[seen.n++] = clock_ns() - go_ns;
    CU(cuStreamSynchronize, s);
    if (ran_unseen((QUEUED - stopped) * unit_us * UINT64_C(1000), go_ns))
        seen.units += QUEUED - stopped;
    seen.right &= word_get(mark) == QUEUED && word_get(x) == units_result(1);
    return true;
}

static bool units_stood(void)
{
    return seen.units <= seen.n * most_units();
}

enum stopped { STANDS, RUNS_ON, TOO_LATE };

/* Stops a kernel in its middle, for longer than the kernel takes. `took_ns` gets the time from its
 * begin until the control was answered. */
static enum stopped stop_long(enum groups_way way, CUstream s, struct word mark, uint32_t us,
                              uint64_t *took_ns)
{
    uint64_t begin_ns = clock_ns();
    enum stopped is;

    word_set(mark, 0);
    gpu_check(gpu_spin(s, gpu.full, us), "cuLaunchKernel");
    gpu_check(mark_enqueue(s, mark.device, 1), "cuStreamWriteValue32");
    clock_sleep_us(us / 10);
    seen.answer = groups_stop(uuid, way);
    *took_ns = clock_ns() - begin_ns;
    is = before_the_end(*took_ns, us) ? RUNS_ON : TOO_LATE;
    if (seen.answer == 0 && is == RUNS_ON) {
        clock_sleep_us(2 * us);
        is = word_get(mark) == 0 ? STANDS : RUNS_ON;
    }
    uint64_t go_ns = clock_ns();
    groups_resume(uuid);
    seen.went_on &= word_wait(mark, 1, LIMIT_MS);
    if (is == STANDS && ran_unseen(us * UINT64_C(1000) - *took_ns, go_ns))
        is = RUNS_ON;
    seen.right &= gpu.cuStreamSynchronize(s) == CUDA_SUCCESS;
    return is;
}

/* Earlier ends may be seen late, so one kernel that stands is enough. */
static void round_long(enum groups_way way, CUstream s, struct word mark)
{
    int tries = units_stood() ? TRIES : 1;
    enum stopped is = RUNS_ON;
    uint32_t us = LONG_US;
    uint64_t took_ns;

    for (int i = 0; i < tries && is != STANDS && (i == 0 || within(first_ns)); i++) {
        is = stop_long(way, s, mark, us, &took_ns);
        us = longer_us(us, took_ns);
    }
    seen.stood &= is != RUNS_ON;
    seen.late |= is == TOO_LATE;
}

static bool stood_still(void)
{
    return seen.stood && units_stood();
}

static bool works(void)
{
    return seen.answer == 0 && seen.n > 0 && !seen.late && stood_still() && seen.went_on &&
           seen.right && seen.neighbours >= seen.n * LEAST_NEIGHBOUR;
}

static void look(enum groups_way way)
{
    int rounds = fact_quick ? QUICK_ROUNDS : ROUNDS;
    struct word mark = word_new(), x = word_new();
    CUstream s = stream_new();

    memset(&seen, 0, sizeof(seen));
    seen.name = groups_way_names[way];
    seen.stood = seen.went_on = seen.right = true;
    if (!first_ns)
        first_ns = clock_ns();
    atomic_store(&shared->run, 1);
    for (int i = 0; i < rounds && round_short(way, s, mark, x); i++)
        round_long(way, s, mark);
    atomic_store(&shared->run, 0);
    key_number("answer", seen.answer);
    key_flag("works", works());
    if (seen.n == 0)
        return;
    key_samples("call_us", seen.call_ns);
    key_samples("call_to_stop_us", seen.stop_ns);
    key_samples("go_to_progress_us", seen.go_ns);
    key_number("units_while_stopped", (double)seen.units / (double)seen.n);
    key_number("neighbours_kernels_meanwhile", (double)seen.neighbours / (double)seen.n);
    key_flag("long_kernel_stands_still", seen.stood);
    key_flag("long_kernel_goes_on", seen.went_on);
    key_flag("results_right", seen.right);
}

/* ---- all ways -------------------------------------------------------------------------------- */

static void device_name(void)
{
    CUresult (*get_uuid)(CUuuid *, CUdevice);
    CUuuid id;
    char text[33];

    *(void **)&get_uuid = dlsym(gpu.library, "cuDeviceGetUuid");
    if (!get_uuid || get_uuid(&id, gpu.device) != CUDA_SUCCESS)
        fact_skip("the driver reports no UUID");
    memcpy(uuid, id.bytes, sizeof(uuid));
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", uuid[i]);
    fact_text("uuid", "%s", text);
}

/* Says why the last way does not work, and whether that is certain. */
static void say_why(void)
{
    fact_flag("unsure", seen.late);
    if (seen.answer > 0)
        fact_text("suspend_why", "the resource manager refuses it (answer %#x)",
                  (unsigned int)seen.answer);
    else if (seen.answer < 0)
        fact_text("suspend_why", "%s", strerror(-seen.answer));
    else if (!seen.right || !seen.went_on)
        fact_text("suspend_why", "a stopped kernel did not resume, or its result was wrong");
    else if (seen.late)
        fact_text("suspend_why", "this machine is too busy to tell");
    else if (!stood_still())
        fact_text("suspend_why", "the control succeeds, and the kernel runs on");
    else
        fact_text("suspend_why", "a neighbour did not run meanwhile");
}

void fact_suspend(void)
{
    int pid;

    shared = peer_memory(sizeof(*shared));
    pid = peer_start(neighbour);
    gpu_open();
    device_name();
    fact_text("suspend_driver", "%s", groups_version);
    if (groups_objection())
        fact_skip("%s", groups_objection());
    fact_number("groups", groups_count(uuid));
    if (groups_count(uuid) == 0)
        fact_skip("no channel group of the device was seen");
    fact_flag("mps", !!getenv("CUDA_MPS_PIPE_DIRECTORY"));
    need_memops();
    for (int way = 0; way < GROUPS_WAYS; way++) {
        look((enum groups_way)way);
        if (works()) {
            fact_text("suspend_way", "%s", seen.name);
            break;
        }
        say_why();
        if (seen.late) /* the next way would be late, too */
            break;
    }
    peer_end(pid);
}
