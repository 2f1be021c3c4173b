/*
 * stages.c - a cut-in is divided at the right moments, and what is not known is not invented.
 */
#include "tools/cutin/latency/bench.h"

#include <criterion/criterion.h>

static struct stage_sources s;
static struct stage_sample out;

/* A request that arrives at 0, is launched at 10 and known complete at 400. */
static const struct worker_sample request = {.arrival_ns = 0, .start_ns = 10, .end_ns = 400};

static void kernel(enum stage_source of, uint64_t from_ns, uint64_t to_ns)
{
    cr_assert_eq(trace_spans_add(&s.of[of], from_ns, to_ns), 0);
}

static void moment(enum stage_source of, uint64_t ns)
{
    kernel(of, ns, ns);
}

static void cut_in(void)
{
    moment(SOURCE_CUT_IN, 15);
    moment(SOURCE_CUT_OUT, 390);
    kernel(SOURCE_RT, 210, 230);
    kernel(SOURCE_RT, 230, 380);
    /* These are not in order. */
    moment(SOURCE_SUBMIT, 500);
    moment(SOURCE_SUBMIT, 18);
    moment(SOURCE_SUBMIT, 5);
    kernel(SOURCE_BE, 420, 600);
    kernel(SOURCE_BE, 0, 200);
}

static void part(void)
{
    stage_sources_sort(&s);
    stages_of(&s, &request, &out);
}

Test(stages, cut_in_is_divided_into_its_stages)
{
    cut_in();
    part();
    cr_expect_eq(out.ns[STAGE_call], 10);
    cr_expect_eq(out.ns[STAGE_hold], 5);
    cr_expect_eq(out.ns[STAGE_submit], 3);
    cr_expect_eq(out.ns[STAGE_residue], 185);
    cr_expect_eq(out.ns[STAGE_begin], 200);
    cr_expect_eq(out.ns[STAGE_run], 170);
    cr_expect_eq(out.ns[STAGE_release], 10);
    cr_expect_eq(out.ns[STAGE_known], 20);
    cr_expect_eq(out.ns[STAGE_again], 30);
    cr_expect_not(out.paused);
    stage_sources_free(&s);
}

/* A kernel that was paused meanwhile is not what real time waited for. */
Test(stages, a_paused_kernel_is_no_residue)
{
    cut_in();
    kernel(SOURCE_BE, 190, 700);
    part();
    cr_expect(out.paused);
    cr_expect_eq(out.ns[STAGE_residue], 185);
    cr_expect_eq(out.ns[STAGE_again], STAGE_NONE);
    stage_sources_free(&s);
}

Test(stages, best_effort_finished_before_hold_leaves_no_residue)
{
    moment(SOURCE_CUT_IN, 15);
    moment(SOURCE_CUT_OUT, 390);
    kernel(SOURCE_RT, 20, 380);
    kernel(SOURCE_BE, 0, 12);
    moment(SOURCE_SUBMIT, 0);
    part();
    cr_expect_eq(out.ns[STAGE_residue], 0);
    cr_expect_eq(out.ns[STAGE_submit], 0);
    stage_sources_free(&s);
}

/* Real time that is still active does not hold anew, so what it waited for is not known. */
Test(stages, request_without_own_hold_has_no_hold_stages)
{
    cut_in();
    s.of[SOURCE_CUT_IN].at[0].from_ns = 5;
    part();
    cr_expect_eq(out.ns[STAGE_hold], STAGE_NONE);
    cr_expect_eq(out.ns[STAGE_residue], STAGE_NONE);
    cr_expect_eq(out.ns[STAGE_again], STAGE_NONE);
    cr_expect_eq(out.ns[STAGE_begin], 200);
    stage_sources_free(&s);
}

Test(stages, next_cut_in_ends_search_for_best_effort)
{
    cut_in();
    moment(SOURCE_CUT_IN, 410);
    part();
    cr_expect_eq(out.ns[STAGE_again], STAGE_NONE);
    stage_sources_free(&s);
}

Test(stages, request_unseen_by_device_has_no_device_stages)
{
    moment(SOURCE_CUT_IN, 15);
    part();
    cr_expect_eq(out.ns[STAGE_hold], 5);
    cr_expect_eq(out.ns[STAGE_begin], STAGE_NONE);
    cr_expect_eq(out.ns[STAGE_known], STAGE_NONE);
    stage_sources_free(&s);
}
