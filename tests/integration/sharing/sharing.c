/*
 * sharing.c - a real-time and a best-effort process on one GPU: who is held, and whose result
 * changes (nobody's).
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

TestSuite(sharing, .init = sandbox_enter, .fini = sandbox_leave, .timeout = 600);

static bool was_held(const struct client_row *row)
{
    return row->level == 0 && client_holds(row) >= 3;
}

static bool held_somebody(const struct client_row *row)
{
    uint64_t cut_ins = 0;

    for (uint32_t i = 0; i < row->devices; i++)
        cut_ins += row->device[i].counters.cut_ins;
    return row->level == 3 && cut_ins >= 3;
}

Test(sharing, best_effort_is_held_and_its_result_stays)
{
    char expected[32];
    struct process *daemon, *be, *rt;
    struct client_row row;

    undisturbed_checksum(200, expected);
    daemon = daemon_start();
    rt = inference_start("60", "70");
    cr_expect(client_wait("rt_inference", held_somebody, 20, NULL), "never cut in");
    be = training_start(200, NULL);
    cr_expect(client_wait("be_training", was_held, 20, &row), "never held");
    cr_expect_eq(row.above, 1);
    training_check(be, expected, 80);
    cr_expect_str_empty(process_err(be));
    inference_stop(rt);
    cr_expect_str_empty(process_err(rt));
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

static bool is_best_effort_unheld(const struct client_row *row)
{
    return row->level == 0 && client_submitted(row) > 100 && !row->held && row->above == 0;
}

Test(sharing, nobody_above_nobody_held)
{
    char expected[32];
    struct process *daemon, *one, *two;
    struct client_row row;

    undisturbed_checksum(150, expected);
    daemon = daemon_start();
    one = training_start(150, NULL);
    two = training_start(150, NULL);
    cr_expect(client_wait("be_training", is_best_effort_unheld, 20, &row));
    cr_expect_eq(client_holds(&row), 0);
    training_check(one, expected, 80);
    training_check(two, expected, 80);
    process_free(one);
    process_free(two);
    process_free(daemon);
}

/* Streams of two levels in one process, no daemon: the program checks its own answers. */
Test(sharing, two_models_in_one_process)
{
    struct process *p = process_run(
        (const char *[]){CUTIN, "run", "--sim", "--no-daemon", "--", EXAMPLE("two_models"), NULL},
        (const char *[]){"CUTIN_STREAM_PRIORITY=inherit", NULL}, 60);

    cr_expect_eq(p->status, 0, "status %d, %s%s", p->status, process_out(p), process_err(p));
    process_free(p);
}

static bool is_active(const struct client_row *row)
{
    return row->active;
}

static bool is_held_now(const struct client_row *row)
{
    return row->held;
}

/* One request a second, and a linger longer than that: best effort is held between requests too. */
Test(sharing, lingering_goes_on_holding)
{
    struct process *daemon = daemon_start(), *be, *rt;
    char expected[32];
    int held = 0;

    undisturbed_checksum(20, expected);
    rt = process_start((const char *[]){CUTIN, "run", "--sim", "--priority", "rt", "--",
                                        EXAMPLE("rt_inference"), "--rate", "1", "--seconds", "3600",
                                        "--json", NULL},
                       (const char *[]){"CUTIN_LINGER_US=5000000", NULL});
    cr_assert(client_wait("rt_inference", is_active, 20, NULL));
    be = training_start(20, NULL);
    cr_assert(client_wait("be_training", is_held_now, 20, NULL));
    /* Looks over a second and a half: without the linger hardly one of them would find it held. A
     * holder that the machine does not let run for a while counts as stopped, so not all need to.
     */
    for (int look = 0; look < 60; look++) {
        held += client_wait("be_training", is_held_now, 0.005, NULL);
        nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL);
    }
    cr_expect_geq(held, 30);
    inference_stop(rt);
    training_check(be, expected, 60);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

/* What the example prints about its hints, at this level; NULL: without cutin. */
static void hints_are(const char *level, const char *what)
{
    const char *const bare[] = {EXAMPLE("hints"), "--seconds", "0.3", NULL};
    const char *const under[] = {CUTIN, "run",   "--sim", "--no-daemon", "--priority",
                                 level, bare[0], bare[1], bare[2],       NULL};
    const char *const env[] = {SIMULATOR, NULL};
    struct process *p = process_run(level ? under : bare, env, 60);

    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_not_null(strstr(process_err(p), what), "no %s in %s", what, process_err(p));
    cr_expect_not_null(strstr(process_out(p), "result right"), "%s", process_out(p));
    process_free(p);
}

Test(sharing, the_example_of_hints_runs_with_cutin_and_without)
{
    hints_are(NULL, "not loaded");
    hints_are("be", "nobody is below");
    hints_are("rt", "in force");
}
