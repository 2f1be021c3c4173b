/*
 * storage.c - kernels that do their own I/O (examples/gpu_storage): alone, beside real time, and
 * killed. The program compares its result with the processor's, and so its exit status is the
 * answer.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

TestSuite(storage, .init = sandbox_enter, .fini = sandbox_leave, .timeout = 600);

static void expect_equal(struct process *p)
{
    process_wait(p, 60);
    cr_assert_eq(p->status, 0, "status %d, %s%s", p->status, process_out(p), process_err(p));
    cr_expect(strstr(process_out(p), "\"result\": \"equal\""), "%s", process_out(p));
}

Test(storage, a_search_through_a_small_cache_equals_the_processors)
{
    struct process *p = process_run((const char *[]){EXAMPLE("gpu_storage"), "--vertices", "8000",
                                                     "--lines", "16", "--json", NULL},
                                    (const char *[]){SIMULATOR, NULL}, 60);
    expect_equal(p);
    const char *out = process_out(p);
    cr_expect_gt(number_after(out, "\"reads\""), number_after(out, "\"pages\""), "%s", out);
    cr_expect_gt(number_after(out, "\"writes\""), 0, "%s", out);
    cr_expect_gt(number_after(out, "\"hits\""), 0, "%s", out);
    cr_expect_gt(number_after(out, "\"coalesced\""), 0, "%s", out);
    cr_expect_eq(number_after(out, "\"reached\""), 8000, "%s", out);
    cr_expect(strstr(process_err(p), "doorbells in registered I/O memory"));
    process_free(p);
}

/* More warps than lines, so that most wait for a line as well; and queues of several pairs. */
Test(storage, more_warps_than_lines_get_to_the_end)
{
    struct process *p =
        process_run((const char *[]){EXAMPLE("gpu_storage"), "--vertices", "2000", "--lines", "3",
                                     "--warps", "200", "--rounds", "2", "--json", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    expect_equal(p);
    process_free(p);
}

/* The neighbour's engine buries what it left, and the next one finds the device free. */
Test(storage, one_that_is_killed_while_it_waits_leaves_the_device_free)
{
    struct process *p = process_start(
        (const char *[]){EXAMPLE("gpu_storage"), "--seconds", "60", "--announce", NULL},
        (const char *[]){SIMULATOR, NULL});
    cr_assert(process_says(p, "warm", 30), "%s", process_err(p));
    process_signal(p, SIGKILL);
    struct process *next =
        process_run((const char *[]){EXAMPLE("be_training"), "--steps", "20", "--json", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    cr_expect_eq(next->status, 0, "%s", process_err(next));
    process_free(next);
    process_free(p);
}

/* Time slices alone divide the GPU. */
Test(storage, beside_real_time_on_the_plain_driver_the_result_stays)
{
    struct process *be = process_start((const char *[]){EXAMPLE("gpu_storage"), "--rounds", "3",
                                                        "--vertices", "8000", "--json", NULL},
                                       (const char *[]){SIMULATOR, NULL});
    struct process *rt =
        process_run((const char *[]){EXAMPLE("rt_inference"), "--seconds", "1", "--json", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    cr_expect_eq(rt->status, 0, "%s", process_err(rt));
    expect_equal(be);
    process_free(rt);
    process_free(be);
}
