/*
 * presets.c - what is known after so many late answers, and that presets are whole.
 */
#include "tools/cutin/latency/bench.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

const char *const bench_mode_names[] = {"alone", "native", "ungated", "cutin", NULL};

/* 0.99 to the power of 459 is the first below 0.01. */
Test(presets, so_many_answers_without_a_late_one_show_one_percent)
{
    cr_expect_leq(preset_late_limit(0, 459), 1);
    cr_expect_gt(preset_late_limit(0, 458), 1);
}

Test(presets, late_answers_raise_the_limit)
{
    cr_expect_gt(preset_late_limit(1, 459), preset_late_limit(0, 459));
    cr_expect_lt(preset_late_limit(10, 10000), preset_late_limit(1, 1000));
    cr_expect_float_eq(preset_late_limit(5, 10), 85.0, 0.5); /* tables of the binomial */
    cr_expect_eq(preset_late_limit(10, 10), 100);
}

Test(presets, each_has_a_name_and_rows)
{
    int n = 0;

    for (; presets[n].name; n++) {
        cr_expect_str_eq(presets[n].name, preset_names[n]);
        cr_expect(presets[n].row[0].what && presets[n].differs && presets[n].rate > 0);
    }
    cr_expect_null(preset_names[n]);
}

Test(presets, what_was_given_counts)
{
    struct bench_plan p = {.samples = 7, .rt_kernels = 3, .gap_us = 99};

    preset_fill(&p, &presets[0]);
    cr_expect_eq(p.samples, 7);
    cr_expect_eq(p.rt_kernels, 3);
    cr_expect_eq(p.gap_us, 99);
    cr_expect_eq(p.be_batch, 64);
    cr_expect_eq(p.warm_up, 300);
    cr_expect_str_eq(p.depth, "8");
    cr_expect_eq(p.arrivals.kind, ARRIVALS_UNIFORM);
}

Test(presets, what_was_not_measured_is_no_figure)
{
    static struct bench b;

    b.plan.be_kernel_us = 500;
    cr_expect(isnan(preset_value(&b, PRESET_RESIDUE_KERNELS)));
    cr_expect(isnan(preset_value(&b, PRESET_CUTIN_RATIO)));
    cr_expect(isnan(preset_value(&b, PRESET_LATE)));
    cr_expect(isnan(preset_value(&b, PRESET_MEAN_ADDED)));
}
