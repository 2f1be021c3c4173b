/*
 * distance.c - the model of a GPU at a distance is its equations.
 */
#include "tools/lab/predict/distance.h"
#include "tools/lab/predict/machine.h"

#include <criterion/criterion.h>

static const struct distance near = {1200, 1200, 140, 128}, far = {6800, 1200, 140, 128};

static struct workload_op op_of(enum workload_kind kind, enum workload_direction direction,
                                uint64_t bytes)
{
    return (struct workload_op){
        .kind = (uint8_t)kind, .direction = (uint8_t)direction, .bytes = bytes};
}

Test(distance, recorded_round_trip_leaves_times_unchanged)
{
    struct workload_op kernel = op_of(WORKLOAD_KERNEL, 0, 0);
    struct workload_op copy = op_of(WORKLOAD_COPY, WORKLOAD_TO_DEVICE, 1 << 30);

    cr_expect_eq(distance_op_ns(&near, &kernel, 5000), 5000);
    cr_expect_eq(distance_op_ns(&near, &copy, 5000), 5000);
}

Test(distance, launch_and_memset_add_the_extra_round_trip)
{
    struct workload_op kernel = op_of(WORKLOAD_KERNEL, 0, 0);
    struct workload_op set = op_of(WORKLOAD_COPY, WORKLOAD_SET, 4096);

    cr_expect_eq(distance_op_ns(&far, &kernel, 5000), 5000 + 5600);
    cr_expect_eq(distance_op_ns(&far, &set, 5000), 5000 + 5600);
}

Test(distance, copy_to_host_adds_half_the_extra_round_trip)
{
    struct workload_op copy = op_of(WORKLOAD_COPY, WORKLOAD_TO_HOST, 1 << 30);

    cr_expect_eq(distance_op_ns(&far, &copy, 100000000), 100000000 + 2800);
}

/* The rate is tags x request / round trip, or the link's own. */
Test(distance, large_copy_to_device_is_bound_by_reads_in_flight)
{
    static const struct {
        uint32_t tags;
        uint64_t rtt_ns;
        double gbs;
    } rows[] = {{140, 1200, 11.2},  {140, 4900, 3.66}, {140, 6800, 2.64},
                {140, 19000, 0.94}, {70, 6800, 1.32},  {280, 6800, 5.27}};
    struct workload_op copy = op_of(WORKLOAD_COPY, WORKLOAD_TO_DEVICE, UINT64_C(1) << 30);

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct distance d = {rows[i].rtt_ns, 1200, rows[i].tags, 128};
        uint64_t native_ns = (uint64_t)((double)copy.bytes / 11.2);
        double gbs = (double)copy.bytes / (double)distance_op_ns(&d, &copy, native_ns);

        cr_expect_float_eq(gbs, rows[i].gbs, 0.01, "%u tags, %llu ns: %.3f GB/s", rows[i].tags,
                           (unsigned long long)rows[i].rtt_ns, gbs);
    }
}

Test(distance, small_copy_to_device_adds_the_extra_round_trip)
{
    struct workload_op copy = op_of(WORKLOAD_COPY, WORKLOAD_TO_DEVICE, 1024);

    cr_expect_eq(distance_op_ns(&far, &copy, 2000), 2000 + 5600);
}

Test(distance, shorter_kernels_slow_down_more)
{
    struct workload_op kernel = op_of(WORKLOAD_KERNEL, 0, 0);
    double before = 1e9;

    for (uint64_t ns = 1000; ns <= 1000000; ns *= 2) {
        double slower = (double)distance_op_ns(&far, &kernel, ns) / (double)ns;

        cr_expect_lt(slower, before);
        if (ns < 5600)
            cr_expect_gt(slower, 2, "shorter than the latency: more than twice as long");
        before = slower;
    }
}

/* ---- the rest of a machine ------------------------------------------------------------------ */

static uint64_t machine_one(const struct machine *m, struct workload_op op)
{
    struct workload w = {.op = &op, .ops = 1};
    uint64_t ns = 0;

    cr_assert_eq(machine_times(m, &w, &ns), 0);
    return ns;
}

Test(distance, fewer_multiprocessors_make_more_waves)
{
    /* 8 blocks of 256 threads fit on a multiprocessor. */
    struct workload_op op = {
        .kind = WORKLOAD_KERNEL, .duration_ns = 10000, .grid = {864, 1, 1}, .block = {256, 1, 1}};
    struct machine m = {.recorded_processors = 108, .processors = 108, .speed = 1};

    cr_expect_eq(machine_one(&m, op), 10000);
    m.processors = 54;
    cr_expect_eq(machine_one(&m, op), 20000);
    m.processors = 216;
    cr_expect_eq(machine_one(&m, op), 10000, "one wave it was, and one it stays");
    m.speed = 4;
    cr_expect_eq(machine_one(&m, op), 2500);
    op.kind = WORKLOAD_COPY;
    cr_expect_eq(machine_one(&m, op), 10000, "copies are the link's business");
}
