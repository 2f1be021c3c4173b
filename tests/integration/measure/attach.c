/*
 * attach.c - `cutin latency --attach` says what a running process waits for, and leaves it alone.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

TestSuite(attach, .init = sandbox_enter, .fini = sandbox_leave);

static struct process *served, *training, *inference;
static struct message_row real_time, best_effort;

static bool has_cut_in(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].cut_ins > 0;
}

static bool was_held(const struct message_row *row)
{
    return client_holds(row) > 0;
}

static void both_run(void)
{
    served = daemon_start();
    training = training_start(1000000, NULL);
    inference = inference_start(rate_with_gaps(), "5");
    cr_assert(client_wait("rt_inference", has_cut_in, 60, &real_time));
    cr_assert(client_wait("be_training", was_held, 60, &best_effort));
}

static void both_end(void)
{
    inference_stop(inference); /* all answers right */
    process_signal(training, SIGTERM);
    process_wait(training, 60);
    process_signal(served, SIGTERM);
    process_wait(served, 30);
    process_free(training);
    process_free(served);
}

static json_t *get(const json_t *root, const char *key)
{
    return json_object_get(json_object_get(root, "attached"), key);
}

/* Takes longer on the host's clock: a busy machine serves hardly any request in half a second. */
static json_t *attached(const char *who)
{
    struct process *p = process_run((const char *[]){CUTIN, "latency", "--attach", who, "--seconds",
                                                     clock_steps() ? "0.5" : "4", "--socket",
                                                     daemon_path(), "--json", NULL},
                                    NULL, 60);
    json_error_t error;
    json_t *root;

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    root = json_loads(process_out(p), 0, &error);
    cr_assert_not_null(root, "%s in %s", error.text, process_out(p));
    process_free(p);
    return root;
}

static bool is_below(const json_t *root, pid_t pid)
{
    json_t *one;
    size_t i;

    json_array_foreach(get(root, "below"), i,
                       one) if (json_integer_value(json_object_get(one, "pid")) == pid) return true;
    return false;
}

/* The number of cut-ins meanwhile, by its page; on a machine that stood still there may be none. */
static json_int_t cut_ins(const json_t *root)
{
    json_int_t n = json_integer_value(get(root, "cut_ins"));

    cr_expect(!clock_steps() || n >= 1);
    return n;
}

/* The holds in the trace, all of which have ended. */
static json_int_t held(const json_t *root)
{
    return json_integer_value(json_object_get(get(root, "hold_us"), "samples"));
}

/* Cut-ins that surely have a kernel in the log: on the host's clock only those whose hold ended. */
static json_int_t cut_ins_logged(const json_t *root)
{
    return clock_steps() ? cut_ins(root) : held(root);
}

/* The trace has the holds of the cut-ins that the page counts. One may have begun before and one
 * not have ended, and a busy machine reads the page long before and after. */
static void has_holds(const json_t *root)
{
    json_int_t n = cut_ins(root);

    cr_expect_geq(held(root), (clock_steps() ? n : n / 2) - 2, "%lld of %lld", held(root), n);
    cr_expect(json_array_size(get(root, "worst")) >= 1 || cut_ins_logged(root) == 0);
    cr_expect_leq(json_array_size(get(root, "worst")), 10);
}

Test(attach, traced_process_shows_waits_and_blocking_process)
{
    char log[300], trace[300], pid[16];
    json_t *root, *one;
    size_t i, blamed = 0;

    snprintf(log, sizeof(log), "%s/device.log", sandbox_folder());
    snprintf(trace, sizeof(trace), "%s/%%p.trace", sandbox_folder());
    setenv("SIMGPU_LOG", log, 1);
    setenv("CUTIN_TRACE", trace, 1);
    both_run();
    snprintf(pid, sizeof(pid), "%d", (int)real_time.pid);
    root = attached(pid);
    cr_expect(json_is_true(get(root, "traced")));
    cr_expect_str_eq(json_string_value(get(root, "method")), "the simulated device's log");
    has_holds(root);
    cr_expect(json_integer_value(json_object_get(get(root, "preemption_us"), "samples")) >= 1 ||
              cut_ins_logged(root) == 0);
    cr_expect(is_below(root, best_effort.pid));
    json_array_foreach(get(root, "worst"), i, one)
    {
        json_t *by = json_object_get(one, "by");
        blamed += json_is_integer(by);
        cr_expect(json_is_null(by) || json_integer_value(by) == best_effort.pid);
    }
    /* On a host that is late best effort may be too slow to be in the way of the worst ones. */
    cr_expect(!clock_steps() || blamed >= 1);
    json_decref(root);
    both_end();
}

/* With traces only, some calls are timed, and the other process's last submission is known. */
Test(attach, traces_suffice_without_device_log)
{
    char trace[300];
    json_t *root;

    snprintf(trace, sizeof(trace), "%s/%%p.trace", sandbox_folder());
    setenv("CUTIN_TRACE", trace, 1);
    both_run();
    root = attached("rt");
    cr_expect_eq(json_integer_value(get(root, "pid")), real_time.pid);
    has_holds(root);
    cr_expect_null(strstr(json_string_value(get(root, "method")), "log"));
    json_decref(root);
    both_end();
}

Test(attach, shared_pages_suffice_without_trace)
{
    json_t *root;

    both_run();
    root = attached("rt");
    cr_expect(json_is_false(get(root, "traced")));
    cut_ins(root);
    cr_expect(is_below(root, best_effort.pid));
    cr_expect_eq(json_array_size(get(root, "worst")), 0);
    json_decref(root);
    both_end();
}

Test(attach, unknown_or_best_effort_process_is_refused)
{
    static const char *const who[] = {"999999999", "be"};
    static const char *const says[] = {"no process 999999999", "it holds no other process"};

    both_run();
    for (int i = 0; i < 2; i++) {
        struct process *p =
            process_run((const char *[]){CUTIN, "latency", "--attach", who[i], "--seconds", "0.1",
                                         "--socket", daemon_path(), NULL},
                        NULL, 60);

        process_failed(p, says[i]);
        process_free(p);
    }
    both_end();
}
