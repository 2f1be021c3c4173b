/*
 * long_hold.c - which holds the daemon reports, and when, with pages and a clock of the test's own.
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/peers/scan.h"
#include "scheduler/peers/topology.h"
#include "common/clock.h"

enum { STEP_MS = 100, RT_BIT = 3 };

static const struct conf conf = {.hold_warning_s = 1};
static struct cutin_page page;
static struct shared_page shared = {.page = &page};
static struct peer rt, be;
static struct page_device *const held = &page.device[0];
static uint64_t now_ms = 1000000;
static char said[256];
static int times_said;

void log_about(struct user *user, uint32_t severity, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(said, sizeof(said), format, args);
    va_end(args);
    times_said++;
}

static void set_up(void)
{
    static struct device gpu = {.bits = 1u << RT_BIT};

    rt = (struct peer){.client = true, .who.pid = 11, .name = "service", .next = &be};
    be = (struct peer){.client = true, .who.pid = 22, .name = "job", .above = 1, .page = &shared};
    rt.device[0].device = be.device[0].device = &gpu;
    be.device[0].peer = &be;
    rt.device[0].bit = RT_BIT;
    rt.device[1].bit = be.device[0].bit = be.device[1].bit = PROTOCOL_NO_BIT;
}

TestSuite(long_hold, .init = set_up);

static void hold(bool on)
{
    held->hold_since_ns[0] = on ? now_ms * NS_PER_MS : 0;
    held->hold[0] = on ? 1u << RT_BIT : 0;
}

static void pass(unsigned ms)
{
    for (uint64_t end = now_ms + ms; now_ms < end; now_ms += STEP_MS)
        hold_scan(&rt, &conf, now_ms * NS_PER_MS);
}

Test(long_hold, is_logged_once_a_minute_with_both_processes)
{
    held->counters.waiting = 3;
    hold(true);
    pass(1000);
    cr_assert_eq(times_said, 0);
    pass(600);
    cr_assert_eq(times_said, 1);
    cr_assert_not_null(strstr(said, "process 22 (job): work has waited for 1 s"), "%s", said);
    cr_assert_not_null(strstr(said, "held by process 11 (service)"), "%s", said);
    pass(59000);
    cr_assert_eq(times_said, 1);
    pass(2000);
    cr_assert_eq(times_said, 2);
}

/* Requests come one after another, each of nearly a second. */
Test(long_hold, short_holds_with_breaks_are_not_logged)
{
    held->counters.waiting = 3;
    for (int i = 0; i < 20; i++) {
        hold(true);
        pass(900);
        hold(false);
        held->counters.holds++;
    }
    cr_assert_eq(times_said, 0);
    hold(true);
    pass(1600);
    cr_assert_eq(times_said, 1);
}

Test(long_hold, is_not_logged_while_no_work_waits)
{
    hold(true);
    pass(10000);
    cr_assert_eq(times_said, 0);
}

/* No hold of either is long, and the held process has seen no end. */
Test(long_hold, short_holds_without_break_are_logged)
{
    held->counters.waiting = 3;
    for (int i = 0; i < 8; i++) {
        hold(true);
        pass(200);
    }
    cr_assert_eq(times_said, 1);
}
