/*
 * modules.c - the model of a GPU of modules: traffic where it is easy to compute, and the effect of
 * the paper's three steps.
 */
#include "tools/lab/predict/modules.h"
#include "tools/lab/predict/programs.h"

#include <criterion/criterion.h>
#include <errno.h>

enum { MB = 1 << 20 };

static const struct modules single = {
    .modules = 1, .processors = 256, .dram_gbs = 3072, .l2_bytes = 16 * MB};
static const struct modules ring = {
    .modules = 4, .processors = 256, .dram_gbs = 3072, .link_gbs = 768, .l2_bytes = 16 * MB};

static struct modules_kernel kernel_of(const char *pattern)
{
    const struct access_pattern *p = access_pattern_find(pattern);

    cr_assert_not_null(p, "%s", pattern);
    return (struct modules_kernel){
        .pattern = p, .blocks = 16384, .blocks_at_once = 8, .warps = 8, .bytes = 256 * MB};
}

static struct modules_time run(const struct modules *m, const char *pattern)
{
    struct modules_kernel k = kernel_of(pattern);
    struct modules_time t;

    cr_assert_eq(modules_run(m, &k, &t), 0);
    return t;
}

Test(modules, single_chip_has_no_link_traffic)
{
    struct modules_time t = run(&single, "stream");

    cr_expect_eq(t.link_bytes, 0);
    cr_expect_eq(t.remote, 0);
    cr_expect_float_eq(t.dram_ns, 256 * MB / 3072.0, 0.02 * t.dram_ns, "each byte once");
}

/* Three quarters of the data are remote. Each goes over a link and a third on average, and over
 * each of those out of one module and into another: twice the data in sum. For data of which L2 has
 * half, that is the four times a module's memory by which the paper sizes links. */
Test(modules, spread_pages_put_twice_the_data_on_the_links)
{
    struct modules_time t = run(&ring, "stream");

    cr_expect_float_eq(t.remote, 0.75, 0.02);
    cr_expect_float_eq(t.link_bytes, 2.0 * 256 * MB, 0.03 * 2 * 256 * MB);
    cr_expect_float_eq(t.ns[0], 2.0 * 256 * MB / 4 / 768, 0.1 * t.ns[0]);
}

Test(modules, batches_and_first_touch_keep_streamed_data_local)
{
    struct modules m = ring;

    m.batches = m.first_touch = true;
    cr_expect_lt(run(&m, "stream").remote, 0.01);
}

Test(modules, remote_cache_cuts_link_traffic_of_a_shared_table)
{
    struct modules m = ring;
    double basic = run(&ring, "table").link_bytes;

    m.remote_bytes = 8 * MB;
    cr_expect_lt(run(&m, "table").link_bytes, 0.7 * basic);
    cr_expect_float_eq(run(&m, "stream").link_bytes, run(&ring, "stream").link_bytes, 1,
                       "what is read once is in no cache");
}

Test(modules, batches_slow_down_uneven_blocks)
{
    struct modules_kernel k = kernel_of("uneven");
    struct modules batches = ring;
    struct modules_time t, u;

    batches.batches = true;
    k.wave_ns[0] = 1e6; /* only computing matters */
    cr_assert_eq(modules_run(&ring, &k, &t), 0);
    cr_assert_eq(modules_run(&batches, &k, &u), 0);
    cr_expect_gt(u.ns[0], 1.1 * t.ns[0]);
}

Test(modules, invalid_machine_or_kernel_is_refused)
{
    struct modules_kernel k = kernel_of("stream");
    struct modules m = ring;
    struct modules_time t;

    m.modules = 0;
    cr_expect_eq(modules_run(&m, &k, &t), -EINVAL);
    m.modules = MODULES_MOST + 1;
    cr_expect_eq(modules_run(&m, &k, &t), -EINVAL);
    m = ring;
    m.processors = 3;
    cr_expect_eq(modules_run(&m, &k, &t), -EINVAL);
    m = ring;
    m.remote_bytes = 17 * MB;
    cr_expect_eq(modules_run(&m, &k, &t), -EINVAL);
    m = ring;
    k.blocks = 0;
    cr_expect_eq(modules_run(&m, &k, &t), -EINVAL);
}

Test(modules, every_count_of_modules_and_blocks_gives_a_time)
{
    for (uint32_t modules = 1; modules <= MODULES_MOST; modules += 3)
        for (uint64_t blocks = 1; blocks < UINT64_C(1) << 32; blocks = blocks * 23 + 1) {
            struct modules_kernel k = kernel_of("mesh");
            struct modules m = ring;
            struct modules_time t;

            m.modules = modules;
            m.batches = m.first_touch = modules % 2;
            m.remote_bytes = 4 * MB;
            k.blocks = blocks;
            k.bytes = 4 * MB;
            cr_assert_eq(modules_run(&m, &k, &t), 0);
            cr_expect_gt(t.ns[0], 0, "%u modules, %llu blocks", modules,
                         (unsigned long long)blocks);
        }
}

/* The order is the paper's: a cache, then batches with it, then first touch with both. */
Test(modules, each_step_speeds_up_memory_intensive_programs)
{
    struct modules m = ring;
    struct programs_times step[4];

    cr_assert_eq(programs_run(&single, &m, &step[0]), 0);
    m.remote_bytes = 8 * MB;
    cr_assert_eq(programs_run(&single, &m, &step[1]), 0);
    m.batches = true;
    cr_assert_eq(programs_run(&single, &m, &step[2]), 0);
    m.first_touch = true;
    cr_assert_eq(programs_run(&single, &m, &step[3]), 0);
    for (int i = 1; i < 4; i++) {
        cr_expect_gt(programs_gain(&step[i - 1], &step[i], PROGRAMS_MEMORY), 1.02, "step %d", i);
        cr_expect_gt(programs_gain_all(&step[i - 1], &step[i]), 1, "step %d", i);
        cr_expect_lt(step[i].link_bytes, step[i - 1].link_bytes, "step %d", i);
    }
    cr_expect_gt(programs_gain(&step[2], &step[3], PROGRAMS_MEMORY),
                 programs_gain(&step[0], &step[1], PROGRAMS_MEMORY), "the last is the largest");
}
