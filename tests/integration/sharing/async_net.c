/*
 * async_net.c - two processes that exchange data through a card (examples/async_net.c): alone,
 * under cutin, and as best effort beside real time. The program compares results with the
 * processor's, and this test compares the sums of all runs.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

TestSuite(async_net, .init = sandbox_enter, .fini = sandbox_leave);

#define NET EXAMPLE("async_net")

static const char *const models[] = {"--cpu", "--stream", "--kernel"};
enum { MODELS = sizeof(models) / sizeof(models[0]) };

static const char *const bare[] = {NULL};
static const char *const under_cutin[] = {CUTIN, "run", "--sim", "--", NULL};

static struct process *net_start(const char *const before[], const char *model,
                                 const char *exchanges, const char *go_on, const char *const env[])
{
    const char *argv[16];
    int n = 0;

    while (before[n]) {
        argv[n] = before[n];
        n++;
    }
    argv[n++] = NET;
    argv[n++] = model;
    argv[n++] = "--exchanges";
    argv[n++] = exchanges;
    argv[n++] = "--go-on";
    argv[n++] = go_on;
    argv[n++] = "--announce";
    argv[n++] = "--json";
    argv[n] = NULL;
    return process_start(argv, env);
}

/* Holds best effort on device 0 until it is killed. All its kernels are queued at once, so after
 * CUTIN_STUCK_MS it would look stuck. */
static struct process *holder_start(void)
{
    return process_start((const char *[]){CUTIN, "run", "--sim", "--priority", "rt", "--",
                                          EXAMPLE("rt_inference"), "--kernels", "1000",
                                          "--kernel-us", "100000", NULL},
                         (const char *[]){"CUTIN_STUCK_MS=0", NULL});
}

static void holder_kill(struct process *p)
{
    process_signal(p, SIGKILL);
    process_wait(p, 20);
    process_free(p);
}

/* Checks the sum over both fields, which is the same in all models. */
static void net_check(struct process *p, const char *model, char sum[32])
{
    char result[16];

    process_wait(p, 60);
    cr_assert_eq(p->status, 0, "%s: status %d, %s%s", model, p->status, process_out(p),
                 process_err(p));
    cr_assert(word_after(process_out(p), "result", result, sizeof(result)));
    cr_expect_str_eq(result, "right", "%s", model);
    cr_expect_eq(number_after(process_out(p), "\"disorder\""), 0, "%s", model);
    cr_assert(word_after(process_out(p), "checksum", sum, 32));
    process_free(p);
}

static void run_all(const char *const before[], const char *const env[], char sums[MODELS][32])
{
    for (int m = 0; m < MODELS; m++)
        net_check(net_start(before, models[m], "300", "0", env), models[m], sums[m]);
}

static void same(char a[MODELS][32], char b[MODELS][32])
{
    for (int m = 0; m < MODELS; m++)
        cr_expect_str_eq(a[m], b[m], "%s", models[m]);
}

Test(async_net, cpu_stream_and_kernel_sends_give_equal_results)
{
    const char *const env[] = {SIMULATOR, NULL};
    char sums[MODELS][32];

    run_all(bare, env, sums);
    for (int m = 1; m < MODELS; m++)
        cr_expect_str_eq(sums[m], sums[0], "%s", models[m]);
}

Test(async_net, results_are_unchanged_under_cutin)
{
    const char *const env[] = {SIMULATOR, NULL};
    char alone[MODELS][32], preloaded[MODELS][32];

    run_all(bare, env, alone);
    run_all(under_cutin, NULL, preloaded);
    same(alone, preloaded);
}

static bool was_held(const struct message_row *row)
{
    return client_holds(row) > 0;
}

/* First one device for both ranks and the service, then one for rank 1 alone, which only waits for
 * the held rank. */
static void beside_real_time(const char *devices)
{
    const char *const env[] = {SIMULATOR, NULL};
    char alone[MODELS][32], beside[MODELS][32];
    bool held = false;

    setenv("SIMGPU_DEVICES", devices, 1);
    run_all(bare, env, alone);
    struct process *service = inference_start("100", "70");
    for (int m = 0; m < MODELS; m++) {
        struct process *net = net_start(under_cutin, models[m], "300", "0", NULL);

        while (!held && process_running(net))
            held = client_wait("async_net", was_held, 0.1, NULL);
        net_check(net, models[m], beside[m]);
    }
    cr_expect(held, "no rank was held");
    same(alone, beside);
    inference_stop(service);
    process_free(service);
}

Test(async_net, results_are_unchanged_beside_real_time)
{
    beside_real_time("1");
}

Test(async_net, real_time_on_one_of_two_gpus_keeps_results)
{
    beside_real_time("2");
}

/* ---- a hold that does not end ---------------------------------------------------------------- */

/* So many exchanges that, with one let through each 10 ms, some are left even if a busy machine
 * keeps the test from looking. */
#define HELD "2000"

enum { COMMANDS = 7 /* of an exchange: four kernels, the doorbell, the wait, an event */ };

static bool few_releases(const struct message_row *row)
{
    return row->device[0].peer_releases >= 20;
}

static bool many_releases(const struct message_row *row)
{
    return row->device[0].peer_releases >= 120;
}

static bool stands_still(const struct message_row *row)
{
    return row->device[0].waiting >= COMMANDS && row->device[0].in_flight == 0;
}

static bool is_held(const struct message_row *row)
{
    return row_held(row);
}

/* Both ranks start. Then rank 0's device gets real-time work that does not end, and only then they
 * go on, so the number of exchanges that are left for the hold is no race. */
static struct process *held_start(const char *model, const char *exchanges, const char *setting,
                                  struct process **holder)
{
    const char *const env[] = {setting, NULL};
    char go_on[16];
    int ends[2];

    setenv("SIMGPU_DEVICES", "2", 1);
    cr_assert_eq(pipe(ends), 0);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    snprintf(go_on, sizeof(go_on), "%d", ends[0]);
    struct process *net = net_start(under_cutin, model, exchanges, go_on, env);
    cr_assert(process_says(net, "exchanging", 60), "stderr: %s", process_err(net));
    close(ends[0]);
    *holder = holder_start();
    cr_assert(client_wait("async_net", is_held, 60, NULL), "stderr: %s", process_err(*holder));
    close(ends[1]);
    return net;
}

/* The figures of a row are read one after another, not at one moment. So releases are counted over
 * a time that includes the one over which commands are counted. */
Test(async_net, endless_hold_releases_one_message_at_a_time)
{
    struct process *holder, *net = held_start("--stream", HELD, "CUTIN_PEER_US=10000", &holder);
    struct message_row few[2], many[2];
    char sum[32];

    for (int i = 0; i < 2; i++)
        cr_assert(client_wait("async_net", few_releases, 60, &few[i]));
    for (int i = 0; i < 2; i++)
        cr_assert(client_wait("async_net", many_releases, 60, &many[i]));
    uint64_t releases = many[1].device[0].peer_releases - few[0].device[0].peer_releases;
    uint64_t submitted = many[0].device[0].submitted - few[1].device[0].submitted;
    cr_expect_leq(submitted, (releases + 1) * COMMANDS, "%lu releases, %lu commands",
                  (unsigned long)releases, (unsigned long)submitted);
    cr_expect_lt(many[0].device[0].submitted, strtoul(HELD, NULL, 10) * COMMANDS,
                 "it was to be held");
    holder_kill(holder);
    net_check(net, "--stream", sum);
}

Test(async_net, endless_hold_lets_kernels_ring_doorbell)
{
    struct process *holder, *net = held_start("--kernel", HELD, "CUTIN_PEER_US=10000", &holder);
    struct message_row row;
    char sum[32];

    cr_assert(client_wait("async_net", many_releases, 60, &row));
    cr_expect_lt(row.device[0].kernels, strtoul(HELD, NULL, 10) * 2 /* in each exchange */,
                 "it was to be held");
    holder_kill(holder);
    net_check(net, "--kernel", sum);
}

Test(async_net, peer_waits_for_whole_hold_without_bound)
{
    struct process *holder, *net = held_start("--stream", "100", "CUTIN_PEER_US=0", &holder);
    struct message_row row;
    char sum[32];

    cr_assert(client_wait("async_net", stands_still, 60, &row));
    cr_expect_eq(row.device[0].peer_releases, 0);
    cr_assert(process_running(net), "it was to be held");
    holder_kill(holder);
    net_check(net, "--stream", sum);
}

Test(async_net, rdma_is_skipped_with_a_reason)
{
    struct process *p =
        process_run((const char *[]){NET, "--rdma", NULL}, (const char *[]){SIMULATOR, NULL}, 20);

    cr_expect_eq(p->status, 77);
    cr_expect_not_null(strstr(process_out(p), "rdma: skipped: "), "stdout: %s", process_out(p));
    process_free(p);
}
