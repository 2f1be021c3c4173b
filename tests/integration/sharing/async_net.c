/*
 * async_net.c - two processes that exchange data through a card (examples/async_net.c): alone, under
 * cutin, and as best effort beside real time. Results are compared with the processor's by the
 * program itself, and the sums of all runs with one another here.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(async_net, .init = sandbox_enter, .fini = sandbox_leave, .timeout = 300);

#define NET EXAMPLE("async_net")

static const char *const models[] = {"--cpu", "--stream"};
enum { MODELS = sizeof(models) / sizeof(models[0]) };

static const char *const bare[] = {NULL};
static const char *const under_cutin[] = {CUTIN, "run", "--sim", "--", NULL};

static struct process *net_start(const char *const before[], const char *model,
                                 const char *exchanges, const char *const env[])
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
    argv[n++] = "--announce";
    argv[n++] = "--json";
    argv[n] = NULL;
    return process_start(argv, env);
}

/* The sum over both fields, which is the same in all models. */
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
        net_check(net_start(before, models[m], "300", env), models[m], sums[m]);
}

static void same(char a[MODELS][32], char b[MODELS][32])
{
    for (int m = 0; m < MODELS; m++)
        cr_expect_str_eq(a[m], b[m], "%s", models[m]);
}

Test(async_net, fields_are_the_same_whoever_sends)
{
    const char *const env[] = {SIMULATOR, NULL};
    char sums[MODELS][32];

    run_all(bare, env, sums);
    for (int m = 1; m < MODELS; m++)
        cr_expect_str_eq(sums[m], sums[0], "%s", models[m]);
}

Test(async_net, fields_are_the_same_under_cutin)
{
    const char *const env[] = {SIMULATOR, NULL};
    char alone[MODELS][32], preloaded[MODELS][32];

    run_all(bare, env, alone);
    run_all(under_cutin, NULL, preloaded);
    same(alone, preloaded);
}

/* One device for both ranks and the service, then one for rank 1 alone, which only waits for the
 * rank that is held. */
static void beside_real_time(const char *devices)
{
    const char *const env[] = {SIMULATOR, NULL};
    char alone[MODELS][32], beside[MODELS][32];

    setenv("SIMGPU_DEVICES", devices, 1);
    run_all(bare, env, alone);
    struct process *service = inference_start("100", "70");
    run_all(under_cutin, NULL, beside);
    same(alone, beside);
    inference_stop(service);
    process_free(service);
}

Test(async_net, fields_are_the_same_beside_real_time)
{
    beside_real_time("1");
}

Test(async_net, fields_are_the_same_where_one_rank_of_two_is_held)
{
    beside_real_time("2");
}

Test(async_net, rdma_is_skipped_with_a_reason)
{
    struct process *p =
        process_run((const char *[]){NET, "--rdma", NULL}, (const char *[]){SIMULATOR, NULL}, 20);

    cr_expect_eq(p->status, 77);
    cr_expect_not_null(strstr(process_out(p), "rdma: skipped: "), "stdout: %s", process_out(p));
    process_free(p);
}
