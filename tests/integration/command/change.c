/*
 * change.c - programs that are changed while they run on the simulated GPU: their results stay.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>

#include "scheduler/wire/query.h"

TestSuite(change, .init = sandbox_enter, .fini = sandbox_leave);

static uint64_t submitted_before;

static bool has_begun(const struct message_row *row)
{
    return client_submitted(row) > 200;
}

static bool is_paused(const struct message_row *row)
{
    return (row->state & ROW_PAUSED) && row_held(row);
}

static bool has_gone_on(const struct message_row *row)
{
    return client_submitted(row) > submitted_before + 100;
}

static bool has_submitted_more(const struct message_row *row)
{
    return client_submitted(row) != submitted_before;
}

static bool is_active_rt(const struct message_row *row)
{
    return row->level == 3 && row_active(row);
}

static bool is_real_time(const struct message_row *row)
{
    return row->level == 3;
}

static bool is_held(const struct message_row *row)
{
    return row_held(row);
}

static bool has_gpu_time(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].gpu_ns > 1000000;
}

static bool few_in_flight(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].in_flight <= 2;
}

static bool many_in_flight(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].in_flight > 8;
}

static struct control_target target(const struct message_row *row)
{
    return (struct control_target){.client = row->client};
}

/* A thread of its own publishes a process's figures, late on a busy machine. Waits until they
 * include what was submitted before the pause. */
static bool stands_still(struct message_row *row)
{
    for (int i = 0; i < 50; i++) {
        if (!client_wait("be_training", is_paused, 20, row))
            return false;
        submitted_before = client_submitted(row);
        if (!client_wait("be_training", has_submitted_more, 0.3, row))
            return true;
    }
    return false;
}

Test(change, paused_program_stops_and_resumes)
{
    struct process *daemon, *be;
    struct message_row row;

    daemon = daemon_start();
    be = training_start(0, NULL);
    cr_assert(client_wait("be_training", has_begun, 20, &row));
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_PAUSE, 0), 0);
    cr_assert(stands_still(&row), "it went on");
    submitted_before = client_submitted(&row);
    cr_expect_not(client_wait("be_training", has_gone_on, 0.3, NULL), "it went on");
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_RESUME, 0), 0);
    cr_assert(client_wait("be_training", has_gone_on, 20, NULL));
    training_stop(be);
    process_free(be);
    process_free(daemon);
}

Test(change, raised_program_cuts_in_with_existing_streams)
{
    struct process *daemon, *one, *two;
    struct message_row row;

    daemon = daemon_start();
    one = training_start(0, NULL);
    cr_assert(client_wait("be_training", has_begun, 20, &row));
    cr_assert(client_wait("be_training", has_gpu_time, 20, NULL));
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_LEVEL, 3), 0);
    cr_assert(client_wait("be_training", is_active_rt, 20, NULL), "its streams do not count");
    two = training_start(0, NULL);
    cr_assert(client_wait("be_training", is_held, 20, NULL), "nobody is held by it");
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_LEVEL, 0), 0);
    training_stop(one);
    training_stop(two);
    process_free(one);
    process_free(two);
    process_free(daemon);
}

/* Whether the driver has few commands, and not many again within a while. */
static bool stays_at_few(void)
{
    for (int i = 0; i < 50; i++) {
        if (!client_wait("be_training", few_in_flight, 20, NULL))
            return false;
        if (!client_wait("be_training", many_in_flight, 0.3, NULL))
            return true;
    }
    return false;
}

/* Kernels of 4 ms, of which the program has launched hundreds ahead. So what is in flight is what
 * the limits let go. They are strict where a client is above and there are no gates. */
Test(change, new_depth_and_budget_bind_a_running_program)
{
    enum { SECOND_US = 1000000 };
    static const struct {
        enum control_kind kind;
        uint32_t least, most;
    } limits[] = {{CONTROL_DEPTH, 1, 1024}, {CONTROL_BUDGET_US, 1, SECOND_US}};
    struct process *daemon, *above, *be;
    struct message_row row;

    setenv("CUTIN_GATES", "off", 1);
    daemon = daemon_start();
    above = inference_start("0.1", "1");
    cr_assert(client_wait("rt_inference", is_real_time, 20, NULL));
    be = training_start(0, (const char *[]){"SIMGPU_SPEED=0.05", NULL});
    cr_assert(client_wait("be_training", has_begun, 20, &row));
    for (int i = 0; i < 2; i++)
        cr_assert_eq(control_order(daemon_path(), target(&row), limits[i].kind, limits[i].most), 0);
    cr_assert(client_wait("be_training", many_in_flight, 20, NULL), "the budget stayed");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(control_order(daemon_path(), target(&row), limits[i].kind, limits[i].least),
                     0);
        cr_assert(stays_at_few(), "%d went down, and nothing followed", limits[i].kind);
        cr_assert_eq(control_order(daemon_path(), target(&row), limits[i].kind, limits[i].most), 0);
        cr_assert(client_wait("be_training", many_in_flight, 20, NULL),
                  "%d went up, and nothing followed", limits[i].kind);
    }
    training_stop(be);
    process_free(above);
    process_free(be);
    process_free(daemon);
}
