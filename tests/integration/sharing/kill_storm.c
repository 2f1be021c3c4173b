/*
 * kill_storm.c - daemon, real-time and best-effort processes are killed and stopped at random
 * instants, some while the daemon's sockets are full or its limits reached. No process may hang,
 * compute a wrong result, or stay held by one that is gone. KILL_STORM_KILLS is the number of kills
 * (100), KILL_STORM_SEED the seed (1).
 *
 * The test is itself a best-effort client, and sees in its own hold word when a hold ends.
 */
#include "tests/integration/gpu.h"
#include "tests/scheduler/stop.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/client/client.h"
#include "common/clock.h"
#include "scheduler/wire/socket.h"

enum { STEPS = 60, AIM_MS = 5000, HUNG_MS = 9000 /* less than CUTIN_STUCK_MS */ };

static struct {
    struct process *daemon, *rt, *be;
    char expected[32];
    int dev;
    int rounds, kills, hung, wrong, holds_seen, suspended;
    double slowest_ms;
} storm;

static int setting(const char *name, int initial)
{
    const char *text = getenv(name);

    return text ? atoi(text) : initial;
}

static bool held_now(void)
{
    return atomic_load(client_hold_word(storm.dev, 0)) != 0;
}

static double ms_since(uint64_t ns)
{
    return (double)(clock_ns() - ns) / 1e6;
}

/* Replaces it, after a kill if it still runs. */
static void replace_be(void)
{
    storm.suspended += !!strstr(process_err(storm.be), "suspend on: ");
    process_free(storm.be);
    storm.be = training_start(STEPS, NULL);
}

/* A process that ended by itself must have the right result. */
static void check_training(void)
{
    char checksum[32] = "";

    if (process_running(storm.be))
        return;
    if (storm.be->status != 0 ||
        !word_after(process_out(storm.be), "checksum", checksum, sizeof(checksum)) ||
        strcmp(checksum, storm.expected) != 0) {
        storm.wrong++;
        fprintf(stderr, "status %d, checksum '%s' instead of '%s'\n%s", storm.be->status, checksum,
                storm.expected, process_err(storm.be));
    }
    replace_be();
    storm.rounds++;
}

static void expect_release(void)
{
    uint64_t since = clock_ns();

    while (held_now() && ms_since(since) < HUNG_MS)
        usleep(200);
    storm.hung += held_now();
    if (ms_since(since) > storm.slowest_ms)
        storm.slowest_ms = ms_since(since);
}

static void replace_rt(void)
{
    process_free(storm.rt); /* by SIGKILL, if it still runs */
    storm.rt = inference_start("200", "30");
}

static void kill_rt(void)
{
    process_signal(storm.rt, SIGKILL);
    expect_release();
    replace_rt();
}

static void stop_rt(void)
{
    process_signal(storm.rt, SIGSTOP);
    expect_release();
    if (rand() % 2)
        process_signal(storm.rt, SIGCONT);
    else
        replace_rt();
}

static void kill_daemon(void)
{
    process_signal(storm.daemon, SIGKILL);
    process_wait(storm.daemon, 10);
    expect_release();
    process_free(storm.daemon);
    storm.daemon = daemon_start();
}

/* Connections that ask and never read, so that the daemon's send buffers are full. */
static void fill_sockets(void)
{
    static int fds[16];
    union message m;

    message_init(&m, MESSAGE_LIST);
    for (int i = 0; i < 16; i++) {
        if (fds[i] > 0)
            close(fds[i]);
        fds[i] = socket_connect(daemon_path());
        for (int n = 0; fds[i] >= 0 && n < 200 && message_send(fds[i], &m, -1) == 0; n++)
            ;
    }
    kill_rt();
}

/* Strikes while the daemon can open no more files, or map no more memory. */
static void starve_daemon(void)
{
    enum __rlimit_resource what = rand() % 2 ? RLIMIT_NOFILE : RLIMIT_AS;
    struct rlimit before, low;

    if (prlimit(storm.daemon->pid, what, NULL, &before) != 0)
        return;
    low = before;
    low.rlim_cur = 3;
    prlimit(storm.daemon->pid, what, &low, NULL);
    kill_rt();
    usleep((useconds_t)(rand() % 30000));
    prlimit(storm.daemon->pid, what, &before, NULL);
}

static void strike(void)
{
    static void (*const ways[])(void) = {kill_rt,    kill_rt,      kill_rt,
                                         stop_rt,    stop_rt,      kill_daemon,
                                         replace_be, fill_sockets, starve_daemon};
    uint64_t since = clock_ns();
    bool aim = rand() % 8 != 0;

    /* Most strikes come while something is held, the others at any time. */
    while (aim && !held_now() && ms_since(since) < AIM_MS)
        usleep(500);
    usleep((useconds_t)(rand() % (aim ? 300 : 3000)));
    storm.holds_seen += held_now();
    ways[(size_t)rand() % (sizeof(ways) / sizeof(ways[0]))]();
    storm.kills++;
}

static bool has_device(const struct message_row *row)
{
    return row->devices > 0;
}

static void quiet(int severity, const char *text)
{
}

static void join_as_client(void)
{
    struct client_config config = {.socket = daemon_path(), .log = quiet};
    struct message_row row;

    cr_assert(client_wait("be_training", has_device, 20, &row));
    cr_assert_eq(client_open(&config), 0);
    cr_assert_geq(storm.dev = client_device(row.device[0].uuid), 0);
}

TestSuite(kill_storm, .init = sandbox_enter, .fini = sandbox_leave);

static void rage(void)
{
    int kills = setting("KILL_STORM_KILLS", 100);

    srand((unsigned)setting("KILL_STORM_SEED", 1));
    undisturbed_checksum(STEPS, storm.expected);
    storm.daemon = daemon_start();
    storm.be = training_start(STEPS, NULL);
    storm.rt = inference_start("200", "30");
    join_as_client();
    while (storm.kills < kills) {
        strike();
        check_training();
    }
    process_free(storm.rt);
    if (process_wait(storm.be, 60) == PROCESS_TIMEOUT)
        storm.hung++;
    check_training();
    client_close();
    process_free(storm.be);
    daemon_stop(daemon_path()); /* `cutin run` may have started one while the test's was dead */
    process_free(storm.daemon);
    fprintf(stderr,
            "kill_storm: rounds %d, kills %d, of them while holding %d, suspended programs %d, "
            "hung %d, "
            "wrong results %d, slowest release %.1f ms\n",
            storm.rounds, storm.kills, storm.holds_seen, storm.suspended, storm.hung, storm.wrong,
            storm.slowest_ms);
    cr_assert(storm.hung == 0 && storm.wrong == 0);
    cr_assert_gt(storm.holds_seen, kills / 8, "too few strikes hit anything");
}

Test(kill_storm, no_process_hangs_or_computes_wrong_results)
{
    rage();
}

/* The same, where every hold stops the kernels that run. */
Test(kill_storm, no_process_stays_suspended)
{
    setenv("SIMGPU_RM", "accept", 1);
    setenv("CUTIN_SUSPEND", "on", 1);
    setenv("CUTIN_SUSPEND_AFTER_US", "1", 1);
    setenv("CUTIN_LOG", "info", 1);
    rage();
    cr_assert_gt(storm.suspended, 0, "no program was suspended");
}
