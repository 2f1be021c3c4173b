/*
 * alone.c - a process that is alone on its device puts next to nothing of cutin's into its streams.
 * When a client above comes its work is under the cap, and when that leaves the process is alone
 * again. All by the device's log.
 */
#include "scheduler/wire/query.h"
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(alone, .init = sandbox_enter, .fini = sandbox_leave);

/* As in program_alone.c. */
enum { WARM = 8, ALONE = 10000, BEHIND = 100, CAPPED = 200, AGAIN = 1000 };
enum { DEPTH = 4, UNIT = 250 /* kernels of 8 us: a marker behind 3 ms of them */ };

#define PROGRAM "program_alone"

static struct process *program;

static void program_start(const char *const env[])
{
    device_log_open();
    sandbox_tell("0");
    program =
        process_start((const char *[]){BIN_DIR "/tests/" PROGRAM, sandbox_path("."), NULL}, env);
    cr_assert(process_says(program, "launched 0.", 60), "stderr: %s", process_err(program));
}

/* Works between these times. */
struct span {
    uint64_t from_ns, to_ns;
};

static struct span launches(int step)
{
    struct span span = {.from_ns = device_now_ns()};
    char file[16], said[32];

    snprintf(file, sizeof(file), "%d", step);
    snprintf(said, sizeof(said), "launched %d.", step);
    sandbox_tell(file);
    cr_assert(process_says(program, said, 60), "stderr: %s", process_err(program));
    span.to_ns = device_now_ns();
    return span;
}

static void program_check(void)
{
    sandbox_tell("end");
    cr_expect_eq(process_wait(program, 60), 0, "stderr: %s", process_err(program));
    cr_expect_not_null(strstr(process_out(program), "right"), "stdout: %s", process_out(program));
    process_free(program);
}

/* ---- the log --------------------------------------------------------------------------------- */

static bool within(const struct device_work *w, const struct span *span)
{
    return w->submit_ns >= span->from_ns && w->submit_ns < span->to_ns;
}

/* Memory operations and event records, which are cutin's. */
static int is_ours(const struct device_work *w, const void *span)
{
    return (strcmp(w->kind, "mark") == 0 || strcmp(w->kind, "wait") == 0) && within(w, span);
}

static int is_kernel(const struct device_work *w, const void *span)
{
    return strcmp(w->kind, "kernel") == 0 && within(w, span);
}

/* Waits until this many kernels have run. */
static void kernels_run(int count)
{
    const struct span ever = {.to_ns = UINT64_MAX};

    for (int i = 0; device_log_count(is_kernel, &ever) < count; i++) {
        cr_assert_lt(i, 6000, "the device did not come so far");
        nap_ms(10);
    }
}

static int submitted_and_unfinished(const struct device_work *w, const void *at_ns)
{
    uint64_t ns = *(const uint64_t *)at_ns;

    return strcmp(w->kind, "kernel") == 0 && w->submit_ns <= ns && w->end_ns > ns;
}

static struct span most_span;

/* Keeps the most kernels that the driver had when it got one. */
static int counts_most(const struct device_work *w, const void *most)
{
    if (is_kernel(w, &most_span)) {
        int had = device_log_count(submitted_and_unfinished, &w->submit_ns);
        if (had > *(int *)most)
            *(int *)most = had;
    }
    return 0;
}

static int most_in_flight(struct span span)
{
    int most = 0;

    most_span = span;
    device_log_count(counts_most, &most);
    return most;
}

/* ---- clients --------------------------------------------------------------------------------- */

static bool is_there(const struct message_row *row)
{
    return client_submitted(row) >= WARM;
}

static bool has_somebody_above(const struct message_row *row)
{
    return row->above == 1;
}

static bool has_nobody_above(const struct message_row *row)
{
    return row->above == 0;
}

static bool is_paused(const struct message_row *row)
{
    return row->state & ROW_PAUSED;
}

/* Host functions and memsets count as submitted, too, so the first condition alone would not do. */
static bool waits_for_nothing(const struct message_row *row)
{
    return client_submitted(row) >= WARM + ALONE + BEHIND && row->device[0].waiting == 0;
}

static bool waits(const struct message_row *row)
{
    return row->device[0].waiting == CAPPED;
}

/* The kernels take 200 us each. */
static bool has_submitted_much(const struct message_row *row)
{
    return client_submitted(row) >= 5000;
}

static bool shows_little_in_flight(const struct message_row *row)
{
    return row->device[0].in_flight <= 100;
}

static void somebody_there(const char *which, bool (*there)(const struct message_row *))
{
    cr_assert(client_wait(PROGRAM, there, 20, NULL), "%s", which);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Under a sanitizer kernels seem as long as their launch takes the host, and need more markers.
 * Where launches take over 100 us no kernel is timed. */
static void needs_times(void)
{
    if (!clock_steps())
        cr_skip_test("a sanitizer's launches take longer than kernels");
}

Test(alone, launches_add_few_markers_to_stream)
{
    struct span span;

    needs_times();
    program_start((const char *[]){PRELOAD, SIMULATOR, "CUTIN_SOCKET=", NULL});
    span = launches(1);
    cr_expect_eq(device_log_count(is_kernel, &span), ALONE);
    int ours = device_log_count(is_ours, &span);
    cr_expect_leq(ours, ALONE / UNIT, "%d", ours);
    program_check();
}

/*
 * A hold, and then a client above, while the driver has a hundred kernels of one stream. The hold
 * takes effect at once, the driver's kernels run to their end, and later ones are under the cap.
 */
Test(alone, client_above_brings_cap_and_its_exit_lifts_it)
{
    struct process *daemon = daemon_start(), *rt;
    struct message_row row;
    struct span held, capped = {.to_ns = UINT64_MAX}, again;
    int step = 4;

    program_start((const char *[]){PRELOAD, SIMULATOR, "CUTIN_DEPTH=4", NULL});
    cr_assert(client_wait(PROGRAM, is_there, 20, &row));
    struct control_target target = {.client = row.client};
    launches(1);
    launches(2);
    somebody_there("nothing waits", waits_for_nothing);
    cr_assert_eq(control_order(daemon_path(), target, CONTROL_PAUSE, 0), 0);
    somebody_there("paused", is_paused);
    held.from_ns = device_now_ns();
    launches(3);
    unsetenv("SIMGPU_LOG"); /* the log is not for its kernels */
    rt = inference_start("0.1", "1");
    somebody_there("above", has_somebody_above);
    somebody_there("waits", waits);
    sandbox_tell("begin");
    kernels_run(WARM + ALONE + BEHIND);
    held.to_ns = capped.from_ns = device_now_ns();
    cr_assert_eq(control_order(daemon_path(), target, CONTROL_RESUME, 0), 0);
    kernels_run(WARM + ALONE + BEHIND + CAPPED);
    cr_expect_eq(device_log_count(is_kernel, &held), 0, "the hold counts");
    cr_expect_eq(device_log_count(is_kernel, &capped), CAPPED);
    cr_expect_leq(most_in_flight(capped), DEPTH);
    cr_expect_geq(device_log_count(is_ours, &capped), CAPPED / DEPTH);

    process_signal(rt, SIGTERM); /* before its first request */
    process_wait(rt, 60);
    process_free(rt);
    somebody_there("nobody above", has_nobody_above);
    do { /* a hold counts for a second more */
        cr_assert_lt(step, 600, "it is not alone again");
        nap_ms(10);
        again = launches(step++);
    } while (clock_steps() && device_log_count(is_ours, &again) > AGAIN / UNIT);
    cr_expect_eq(device_log_count(is_kernel, &again), AGAIN);
    program_check();
    process_free(daemon);
}

/* A process that has a context and does nothing with it. */
static struct process *above_start(void)
{
    struct process *rt;

    cr_assert_eq(mkdir(sandbox_path("rt"), 0700), 0);
    rt = process_start((const char *[]){BIN_DIR "/tests/" PROGRAM, sandbox_path("rt"), NULL},
                       (const char *[]){PRELOAD, SIMULATOR, "CUTIN_PRIORITY=rt", NULL});
    cr_assert(process_says(rt, "opened.", 60), "stderr: %s", process_err(rt));
    somebody_there("above", has_somebody_above);
    return rt;
}

static void above_end(struct process *rt)
{
    sandbox_tell("rt/end");
    cr_expect_eq(process_wait(rt, 60), 0, "stderr: %s", process_err(rt));
    process_free(rt);
    somebody_there("nobody above", has_nobody_above);
}

/* So those below have time to close off what they have in flight. */
Test(alone, process_with_unused_context_counts_as_above)
{
    struct process *daemon = daemon_start();
    struct message_row row;

    program_start((const char *[]){PRELOAD, SIMULATOR, NULL});
    cr_assert(client_wait(PROGRAM, is_there, 20, &row));
    cr_expect_eq(row.above, 0);
    above_end(above_start());
    program_check();
    process_free(daemon);
}

/* There is a marker for half of the depth, 625 in all, and as many that a thread waits for. */
Test(alone, idle_client_above_does_not_force_marker_per_launch)
{
    needs_times();
    struct process *daemon = daemon_start(), *rt;
    struct span span;

    program_start(
        (const char *[]){PRELOAD, SIMULATOR, "CUTIN_DEPTH=32", "CUTIN_BUDGET_US=1000", NULL});
    rt = above_start();
    span = launches(1);
    cr_expect_eq(device_log_count(is_kernel, &span), ALONE);
    int ours = device_log_count(is_ours, &span);
    cr_expect(ours >= ALONE / 32 && ours < ALONE / 6, "%d", ours);
    above_end(rt);
    program_check();
    process_free(daemon);
}

/* The driver itself would take a thousand. */
Test(alone, training_keeps_at_most_100_commands_in_flight)
{
    needs_times();
    struct process *daemon = daemon_start(), *be = training_start(0, NULL);
    struct message_row row;

    cr_assert(client_wait("be_training", has_submitted_much, 60, &row));
    cr_expect(shows_little_in_flight(&row), "%lu in flight",
              (unsigned long)row.device[0].in_flight);
    process_signal(be, SIGTERM);
    process_wait(be, 60);
    process_free(be);
    process_free(daemon);
}
