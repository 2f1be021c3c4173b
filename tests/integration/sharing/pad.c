/*
 * pad.c - best effort beside a real-time stream of its own process: only what fits and ends in time
 * goes, and real time starts each kernel when it would have. By the device's log.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(pad, .init = sandbox_enter, .fini = sandbox_leave);

/* As in program_pad.c. */
enum { RT_KERNELS = 200, RT_NS = 200000, NARROW_NS = 50000, WIDE_NS = 90000, LONG_NS = 60000000 };
enum { MORE_NS = 10000 }; /* that a kernel may take for its effect */
enum { ROUNDS_MOST = 300 };

#define PROGRAM "program_pad"

static struct process *program;
static int rounds;

static void program_start(const char *setting, const char *other)
{
    const char *const env[] = {PRELOAD,
                               SIMULATOR,
                               "CUTIN_PRIORITY=rt",
                               "CUTIN_STREAM_PRIORITY=inherit",
                               "CUTIN_LOG=info",
                               setting,
                               other,
                               NULL};

    device_log_open();
    program =
        process_start((const char *[]){BIN_DIR "/tests/" PROGRAM, sandbox_path("."), NULL}, env);
    cr_assert(process_says(program, "round 0.", 60), "stderr: %s", process_err(program));
    rounds = 0;
}

static void tell(char letter)
{
    char file[16], text[2] = {letter};

    snprintf(file, sizeof(file), "%d", ++rounds);
    FILE *f = fopen(sandbox_path(file), "w");
    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
}

static void program_check(void)
{
    tell('e');
    cr_expect_eq(process_wait(program, 60), 0, "stderr: %s", process_err(program));
    cr_expect_not_null(strstr(process_out(program), "right"), "stdout: %s", process_out(program));
    process_free(program);
}

/* ---- the log --------------------------------------------------------------------------------- */

struct span {
    uint64_t from_ns, to_ns, cost_ns;
    uint64_t rt_from_ns, rt_to_ns; /* of the real-time kernels among them */
};

static int kernel_of(const struct device_work *w, const struct span *s, uint64_t cost_ns)
{
    return strcmp(w->kind, "kernel") == 0 && w->cost_ns >= cost_ns &&
           w->cost_ns < cost_ns + MORE_NS && w->submit_ns >= s->from_ns && w->submit_ns < s->to_ns;
}

static int notes_rt(const struct device_work *w, const void *span)
{
    struct span *s = (struct span *)span;

    if (!kernel_of(w, s, RT_NS))
        return 0;
    if (w->start_ns < s->rt_from_ns)
        s->rt_from_ns = w->start_ns;
    if (w->end_ns > s->rt_to_ns)
        s->rt_to_ns = w->end_ns;
    return 1;
}

static int is_beside(const struct device_work *w, const void *span)
{
    const struct span *s = span;

    return kernel_of(w, s, s->cost_ns) && w->start_ns >= s->rt_from_ns && w->start_ns < s->rt_to_ns;
}

static int rt_begins_late(const struct device_work *w, const void *before_ns)
{
    uint64_t *before = (uint64_t *)before_ns;
    const struct span ever = {.to_ns = UINT64_MAX};

    if (!kernel_of(w, &ever, RT_NS))
        return 0;
    bool late = w->start_ns > *before && w->start_ns > w->submit_ns;
    *before = w->end_ns;
    return late;
}

/* Runs a round. Returns how many of its best-effort kernels began beside real time. */
static int beside(char letter, uint64_t cost_ns)
{
    struct span span = {.from_ns = device_now_ns(), .cost_ns = cost_ns, .rt_from_ns = UINT64_MAX};
    char text[32];

    tell(letter);
    snprintf(text, sizeof(text), "round %d.", rounds);
    cr_assert(process_says(program, text, 60), "stderr: %s", process_err(program));
    span.to_ns = device_now_ns();
    cr_assert_gt(device_log_count(notes_rt, &span), 0);
    return device_log_count(is_beside, &span);
}

/* Runs rounds until kernels go: they must be learned, and a machine may stand still in between. */
static void beside_at_last(void)
{
    while (beside('n', NARROW_NS) == 0)
        cr_assert_lt(rounds, ROUNDS_MOST, "nothing goes beside real time");
}

static bool counts_padded(const struct message_row *row)
{
    return row->device[0].padded > 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

Test(pad, only_fitting_short_kernels_run_beside_real_time)
{
    struct process *daemon = daemon_start();
    uint64_t before_ns = UINT64_MAX;

    program_start("CUTIN_PAD=on", "CUTIN_ALONE=free");
    beside_at_last();
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(beside('w', WIDE_NS), 0, "a kernel on all multiprocessors");
        cr_expect_eq(beside('l', LONG_NS), 0, "a kernel that lasts longer than real time");
    }
    beside_at_last();
    cr_expect(client_wait(PROGRAM, counts_padded, 20, NULL));
    cr_expect_eq(device_log_count(rt_begins_late, &before_ns), 0);
    program_check();
    process_free(daemon);
}

Test(pad, nothing_runs_beside_real_time_by_default)
{
    program_start("CUTIN_PAD", "CUTIN_SOCKET=");
    for (int i = 0; i < 5; i++)
        cr_expect_eq(beside('n', NARROW_NS), 0);
    program_check();
}

/* One kernel asks for nearly all of the memory's bandwidth, so two take nearly twice as long. On a
 * host so slow that few go, nine of ten real-time kernels are as fast as ever. */
Test(pad, slowdown_of_real_time_stops_padding)
{
    static const char said[] =
        "best effort beside real-time work makes the real-time kernels slower";
    int many = 0, before;

    setenv("SIMGPU_MEMORY_PERCENT", "10000", 1);
    program_start("CUTIN_PAD=on", "CUTIN_SOCKET=");
    beside_at_last();
    while (!strstr(process_err(program), said)) {
        if (rounds >= ROUNDS_MOST && !clock_steps())
            cr_skip_test("of 200 kernels hardly one had company here");
        cr_assert_lt(many, ROUNDS_MOST / 4, "real time is slow, and nobody minds");
        many += beside('n', NARROW_NS) >= RT_KERNELS / 4;
    }
    before = rounds;
    while (beside('n', NARROW_NS) > 0)
        cr_assert_lt(rounds - before, ROUNDS_MOST, "padding goes on");
    program_check();
}
