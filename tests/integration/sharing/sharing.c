/*
 * sharing.c - a real-time and a best-effort process on one GPU: best effort is held, and no result
 * changes.
 */
#include "tests/integration/sharing/device_log.h"
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(sharing, .init = sandbox_enter, .fini = sandbox_leave);

/* A span in which the driver had work of one process. */
static struct busy {
    uint64_t from_ns, to_ns;
    unsigned others; /* kernels of the other process that were submitted meanwhile */
} *busy;
static int busy_count;

static int is_kernel_of(const struct device_work *w, const void *pid)
{
    if (w->pid != *(const uint64_t *)pid || strcmp(w->kind, "kernel") != 0)
        return 0;
    busy = realloc(busy, (size_t)(busy_count + 1) * sizeof(*busy));
    busy[busy_count++] = (struct busy){w->submit_ns, w->end_ns, 0};
    return 1;
}

static int by_begin(const void *a, const void *b)
{
    const struct busy *x = a, *y = b;

    return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

static void busy_read(uint64_t pid)
{
    int n = 0;

    device_log_count(is_kernel_of, &pid);
    qsort(busy, (size_t)busy_count, sizeof(*busy), by_begin);
    for (int i = 1; i < busy_count; i++)
        if (busy[i].from_ns > busy[n].to_ns)
            busy[++n] = busy[i];
        else if (busy[i].to_ns > busy[n].to_ns)
            busy[n].to_ns = busy[i].to_ns;
    busy_count = n + 1;
}

static int count_others(const struct device_work *w, const void *pid)
{
    if (w->pid == *(const uint64_t *)pid || strcmp(w->kind, "kernel") != 0)
        return 0;
    for (int i = 0; i < busy_count; i++)
        busy[i].others += w->submit_ns > busy[i].from_ns && w->submit_ns < busy[i].to_ns;
    return 1;
}

static bool is_below_one(const struct message_row *row)
{
    return row->above == 1 && client_submitted(row) > 0;
}

/* The number of holds to wait for: on the host's clock rate_with_gaps makes far fewer. */
static int enough(void)
{
    return clock_steps() ? 20 : 3;
}

static bool was_held(const struct message_row *row)
{
    return row->level == 0 && client_holds(row) >= (uint64_t)enough();
}

/* While the driver has work of the real-time process, best effort submits nothing, except for a
 * launch of its thread and one of the dispatcher that were on their way. On a host that is late a
 * thread of the service may lose its processor between a launch and the note of it, and seem done:
 * nothing is tested there. */
Test(sharing, best_effort_is_held_and_its_result_unchanged)
{
    struct process *daemon, *be, *rt;
    uint64_t from_ns;
    int judged = 0, broken = 0;

    device_log_open();
    daemon = daemon_start();
    rt = inference_start(rate_with_gaps(), "70");
    be = training_start(0, NULL);
    cr_assert(client_wait("be_training", is_below_one, 20, NULL));
    from_ns = device_now_ns();
    cr_expect(client_wait("be_training", was_held, 60, NULL), "hardly ever held");
    training_stop(be);
    program_silent(be);
    inference_stop(rt);
    program_silent(rt);
    busy_read((uint64_t)rt->pid);
    device_log_count(count_others, &(uint64_t){(uint64_t)rt->pid});
    for (int i = 0; i < busy_count; i++)
        if (busy[i].from_ns > from_ns) {
            judged++;
            broken += busy[i].others > 2;
        }
    cr_expect_geq(judged, enough());
    cr_expect(!clock_steps() || broken == 0, "%d of %d times more than two launches while held",
              broken, judged);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

static bool is_best_effort_unheld(const struct message_row *row)
{
    return row->level == 0 && client_submitted(row) > 100 && !row_held(row) && row->above == 0;
}

Test(sharing, two_best_effort_processes_are_not_held)
{
    struct process *daemon, *one, *two;
    struct message_row row;

    daemon = daemon_start();
    one = training_start(0, NULL);
    two = training_start(0, NULL);
    cr_expect(client_wait("be_training", is_best_effort_unheld, 20, &row));
    cr_expect_eq(client_holds(&row), 0);
    training_stop(one);
    training_stop(two);
    process_free(one);
    process_free(two);
    process_free(daemon);
}

/* Streams of two levels in one process, without a daemon; the program checks its own results. */
Test(sharing, two_levels_in_one_process_give_right_results)
{
    struct process *p = process_run(
        (const char *[]){CUTIN, "run", "--sim", "--no-daemon", "--", EXAMPLE("two_models"), NULL},
        (const char *[]){"CUTIN_STREAM_PRIORITY=inherit", NULL}, 60);

    cr_expect_eq(p->status, 0, "status %d, %s%s", p->status, process_out(p), process_err(p));
    process_free(p);
}

static bool is_active(const struct message_row *row)
{
    return row_active(row);
}

/* Held for longer than the daemon itself holds a new client. */
static bool is_held_now(const struct message_row *row)
{
    return row_held(row) && row->device[0].held_for_ns > 100000000;
}

/* One request a second, and a longer linger: best effort is held between requests, too. In a second
 * and a half it submits only what was on its way; without the linger it would be all of its
 * steps. */
Test(sharing, linger_keeps_hold_between_requests)
{
    struct process *daemon, *be, *rt;

    device_log_open();
    daemon = daemon_start();
    rt = process_start((const char *[]){CUTIN, "run", "--sim", "--priority", "rt", "--",
                                        EXAMPLE("rt_inference"), "--rate", "1", "--seconds", "3600",
                                        "--json", NULL},
                       (const char *[]){"CUTIN_LINGER_US=10000000", NULL});
    cr_assert(client_wait("rt_inference", is_active, 20, NULL));
    be = training_start(0, NULL);
    cr_assert(client_wait("be_training", is_held_now, 20, NULL));
    busy = calloc(1, sizeof(*busy));
    busy_count = 1;
    busy->from_ns = device_now_ns();
    nap_ms(1500);
    busy->to_ns = device_now_ns();
    inference_stop(rt);
    training_stop(be);
    cr_expect_gt(device_log_count(count_others, &(uint64_t){(uint64_t)rt->pid}), 2);
    cr_expect_leq(busy->others, 2, "%u kernels", busy->others);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

/* What the example prints about its hints at this level; NULL: without cutin. */
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

Test(sharing, hints_example_runs_with_and_without_cutin)
{
    hints_are(NULL, "not loaded");
    hints_are("be", "no work is below it");
    hints_are("rt", "in force");
}
