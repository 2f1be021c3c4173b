/*
 * stuck.c - real-time work that completes nothing may wait for processes that it holds, and that
 * cannot be seen. It holds them for CUTIN_STUCK_MS, and then no more until it is given something.
 * By the device's log, on the stepped clock.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(stuck, .init = sandbox_enter, .fini = sandbox_leave);

#define MS UINT64_C(1000000)
/* The bound that is set, and its range with ticks of 7.5 to 10 ms. What is in flight as a hold
 * begins runs for FLIGHT_MS; on a busy host all AHEAD that the job has sent may begin later. */
enum { BOUND_MS = 500, LEAST_MS = 350, MOST_MS = 650, FLIGHT_MS = 5, AHEAD = 16 };

struct span {
    uint64_t from, to;
    int pid;
};

static int began_in(const struct device_work *w, const void *user)
{
    const struct span *s = user;

    return w->pid == (uint64_t)s->pid && strcmp(w->kind, "kernel") == 0 && w->start_ns >= s->from &&
           w->start_ns < s->to;
}

static int began(const struct process *p, uint64_t from, uint64_t to)
{
    return device_log_count(began_in, &(struct span){from, to, (int)p->pid});
}

static bool is_stuck(const struct message_row *row)
{
    return row->state & ROW_STUCK;
}

static bool works(const struct message_row *row)
{
    return !(row->state & ROW_STUCK);
}

static void span_read(struct process *p, const char *what, uint64_t span[2])
{
    unsigned long from = 0, to = 0;
    const char *at = strstr(process_out(p), what);

    cr_assert(at && sscanf(at + strlen(what), "%lu %lu", &from, &to) == 2, "%s%s", process_out(p),
              process_err(p));
    span[0] = from;
    span[1] = to;
}

static void waits(const char *stream, const char *bound, bool bounded)
{
    struct process *daemon = daemon_start(), *job, *service;
    struct message_row row;
    uint64_t wait[2], work[2];

    device_log_open();
    job = process_start((const char *[]){BIN_DIR "/tests/program_ends", "job", NULL},
                        (const char *[]){SIMULATOR, PRELOAD, NULL});
    cr_assert(process_says(job, "ready", 60), "%s", process_err(job));
    service = process_start((const char *[]){BIN_DIR "/tests/program_stuck", stream,
                                             sandbox_path("seen"), sandbox_path("over"), NULL},
                            (const char *[]){SIMULATOR, PRELOAD, "CUTIN_PRIORITY=rt", bound, NULL});
    cr_expect(!bounded || client_wait("program_stuck", is_stuck, 60, &row),
              "it is not said to be stuck");
    sandbox_tell("seen");
    cr_expect(client_wait("program_stuck", works, 60, &row), "it is said to be stuck for good");
    sandbox_tell("over");
    cr_assert_eq(process_wait(service, 60), 0, "%s", process_err(service));
    process_signal(job, SIGTERM);
    cr_assert_eq(process_wait(job, 60), 0, "%s", process_err(job));
    span_read(service, "waits ", wait);
    span_read(service, "works ", work);
    int soon = began(job, wait[0] + FLIGHT_MS * MS, wait[0] + LEAST_MS * MS);
    cr_expect(!clock_steps() || soon == 0, "%d kernels: it did not hold", soon);
    int let_go = began(job, wait[0] + MOST_MS * MS, wait[1]);
    printf("%s, %s: %d kernels of the job after the bound\n", stream, bound, let_go);
    int few = clock_steps() ? 100 : 0; /* a busy host gives the job little time */
    int flight = clock_steps() ? 0 : AHEAD;
    cr_expect(bounded ? let_go > few : let_go <= flight, "%d kernels", let_go);
    int beside = began(job, work[0] + FLIGHT_MS * MS, work[1]);
    cr_expect(!clock_steps() || beside < 20, "%d kernels: it holds nobody again", beside);
    process_free(service);
    process_free(job);
    process_free(daemon);
}

Test(stuck, work_without_completions_stops_holding_after_bound)
{
    waits("kept", "CUTIN_STUCK_MS=500", true);
}

Test(stuck, work_of_destroyed_stream_stops_holding_after_bound)
{
    waits("destroyed", "CUTIN_STUCK_MS=500", true);
}

/* The driver lets no other thread in meanwhile. The thread that beats waits there, too, for longer
 * than the daemon accepts silence from a process that runs. */
Test(stuck, thread_blocked_on_full_queue_keeps_holding)
{
    enum { LONG_MS = 3000 };
    struct process *daemon = daemon_start(), *job, *service;

    device_log_open();
    job = process_start((const char *[]){BIN_DIR "/tests/program_ends", "job", NULL},
                        (const char *[]){SIMULATOR, PRELOAD, NULL});
    cr_assert(process_says(job, "ready", 60), "%s", process_err(job));
    service = process_start(
        (const char *[]){BIN_DIR "/tests/program_turns", "1000", NULL},
        (const char *[]){SIMULATOR, PRELOAD, "CUTIN_PRIORITY=rt", "SIMGPU_FULL_LOCKS=1", NULL});
    cr_assert(process_says(service, "launched.", 60), "%s", process_err(service));
    uint64_t from = device_now_ns();
    while (began(service, from, UINT64_MAX) < LONG_MS)
        nap_ms(100);
    int beside = began(job, from + FLIGHT_MS * MS, from + LONG_MS * MS);
    cr_expect(beside <= (clock_steps() ? 0 : AHEAD), "%d kernels of the job: no holds", beside);
    process_free(service);
    process_free(job);
    process_free(daemon);
}

Test(stuck, work_without_bound_keeps_holding)
{
    waits("kept", "CUTIN_STUCK_MS=0", false);
}
