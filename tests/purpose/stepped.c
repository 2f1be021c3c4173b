/*
 * stepped.c - all of cutin on the stepped clock: processes, their libraries, the daemon and the
 * device. Two runs are equal to the byte, whatever else the machine does.
 */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOPS = 8, LOG_MOST = 8 << 20, PATH_ROOM = 128 };

static char folder[] = "/tmp/stepped.XXXXXX";

static void setup(void)
{
    cr_assert(mkdtemp(folder));
}

static void teardown(void)
{
    rmdir(folder);
}

TestSuite(stepped, .init = setup, .fini = teardown);

/* The event log of a workload with a name, without process ids. `said` gets what cutin-purpose
 * prints about it. */
static char *workload_run(const char *name, const char *seed, char *said, size_t room)
{
    char command[512], path[PATH_ROOM], *log = calloc(1, LOG_MOST), *at = log;
    snprintf(command, sizeof(command), BIN_DIR "/cutin-purpose --case %s --keep %s 2>&1", name,
             folder);
    FILE *f = popen(command, "r");
    size_t n = fread(said, 1, room - 1, f);
    said[n] = '\0';
    pclose(f);
    snprintf(path, sizeof(path), "%s/%s.log", folder, seed);
    cr_assert((f = fopen(path, "r")), "%s", said);
    while (at < log + LOG_MOST - 1024 && fgets(at, 1024, f)) {
        char *rest = strchr(at, ' ');
        memmove(at, rest, strlen(rest) + 1);
        at += strlen(at);
    }
    fclose(f);
    unlink(path);
    return log;
}

static void loops_start(pid_t loop[LOOPS])
{
    for (int i = 0; i < LOOPS; i++)
        if ((loop[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                ;
        }
}

static void loops_end(const pid_t loop[LOOPS])
{
    for (int i = 0; i < LOOPS; i++) {
        kill(loop[i], SIGKILL);
        waitpid(loop[i], NULL, 0);
    }
}

/* Shows the first line in which they differ. */
static void logs_expect_equal(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    while (at && a[at - 1] != '\n')
        at--;
    cr_expect(!a[at] && !b[at], "after %zu bytes:\n%.120s\n%.120s", at, a + at, b + at);
}

Test(stepped, busy_loops_do_not_change_the_event_log)
{
    char said[2][4096];
    pid_t loop[LOOPS];
    char *idle = workload_run("one_job", "1000000011", said[0], sizeof(said[0]));
    loops_start(loop);
    char *busy = workload_run("one_job", "1000000011", said[1], sizeof(said[1]));
    loops_end(loop);
    cr_expect(strlen(idle) > 100000, "%s", said[0]);
    logs_expect_equal(idle, busy);
    cr_expect_str_eq(said[0], said[1]);
    free(idle);
    free(busy);
}

static void output_of(const char *arguments, char *said, size_t room)
{
    char command[512];
    snprintf(command, sizeof(command), BIN_DIR "/cutin-purpose %s 2>&1", arguments);
    FILE *f = popen(command, "r");
    said[fread(said, 1, room - 1, f)] = '\0';
    pclose(f);
}

Test(stepped, seed_gives_same_output_alone_and_among_others)
{
    static char among[16384], alone[8192];
    output_of("--jobs 3 --programs 5 --seed 100046", among, sizeof(among));
    output_of("--programs 1 --seed 100049", alone, sizeof(alone));
    char *end = strstr(alone, "\n\n");
    cr_assert(end, "%s", alone);
    *end = '\0';
    cr_expect(strstr(among, alone), "%s, and among others\n%s", alone, among);
}

/* ---- what a cut-in costs --------------------------------------------------------------------- */

struct kernel {
    uint64_t submit, start, end;
    bool service;
};
enum { KERNELS_MOST = 1 << 16, SERVICE_NS = 20000, CALL_NS = 2000 };

static size_t kernels_read(const char *log, struct kernel *k)
{
    size_t n = 0;
    for (const char *line = log, *end; *line && n < KERNELS_MOST; line = end + 1) {
        char text[512]; /* only this line: sscanf first looks for the end of its text */
        uint64_t cost;
        end = strchr(line, '\n');
        snprintf(text, sizeof(text), "%.*s", (int)(end - line), line);
        if (sscanf(text,
                   " context=%*u stream=%*u seq=%*u kind=kernel name=%*s submit=%" SCNu64
                   " start=%" SCNu64 " end=%" SCNu64 " cost=%" SCNu64,
                   &k[n].submit, &k[n].start, &k[n].end, &cost) == 4)
            k[n++].service = cost == SERVICE_NS;
    }
    return n;
}

/* When the last best-effort kernel ends that was in flight when the service launched, or whose call
 * had looked before that, and that began before the service's. 0: there was none. */
static uint64_t in_flight_end(const struct kernel *k, size_t n, const struct kernel *service)
{
    uint64_t end = 0;
    for (size_t i = 0; i < n; i++)
        if (!k[i].service && k[i].submit < service->submit + CALL_NS &&
            k[i].end > service->submit && k[i].start < service->start && k[i].end > end)
            end = k[i].end;
    return end;
}

/* The device's switch to the service's context takes 20 us, and each marker ahead of it half of
 * one. If best effort's time slice ends earlier, the service does not even wait for the kernel. */
Test(stepped, cut_in_waits_for_work_in_flight_plus_modelled_cost)
{
    enum { SWITCH_NS = 20000, MARKER_NS = 500, SETTLED_MS = 300 };
    static struct kernel kernel[KERNELS_MOST];
    char said[4096];
    char *log = workload_run("one_job", "1000000011", said, sizeof(said));
    size_t n = kernels_read(log, kernel), waited = 0, exact = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t end = kernel[i].service ? in_flight_end(kernel, n, &kernel[i]) : 0;
        if (!end || kernel[i].submit < kernel[0].submit + SETTLED_MS * UINT64_C(1000000))
            continue;
        int64_t more = (int64_t)(kernel[i].start - end);
        waited++;
        exact += more == SWITCH_NS + MARKER_NS;
        cr_expect(more <= SWITCH_NS + 2 * MARKER_NS, "at %" PRIu64 ": %" PRId64, kernel[i].submit,
                  more);
    }
    cr_expect(waited > 100, "%zu of %zu", waited, n);
    cr_expect(exact * 10 > waited * 8, "%zu of %zu", exact, waited);
    free(log);
}

/* ---- several jobs ---------------------------------------------------------------------------- */

static double figure(const char *said, const char *name)
{
    double value = -1;
    const char *at = strstr(said, name);
    cr_assert(at && sscanf(at + strlen(name), "%lf", &value) == 1, "%s in %s", name, said);
    return value;
}

/* Real time waits as it does beside one job, and the device is used, with gates and without. */
static void several_expect(const char *gates)
{
    static const char *const jobs[] = {"one_job", "two_jobs", "four_jobs", "eight_jobs"};
    double one = 0;
    for (int i = 0; i < 4; i++) {
        char arguments[128], said[4096];
        snprintf(arguments, sizeof(arguments), "--case %s%s", jobs[i], gates);
        output_of(arguments, said, sizeof(said));
        double p50 = figure(said, " p50 ");
        one = i == 0 ? p50 : one;
        cr_expect_leq(p50, one * 1.3, "%s", said);
        cr_expect_geq(figure(said, " used "), 0.95, "%s", said);
    }
}

Test(stepped, real_time_latency_does_not_grow_with_eight_jobs)
{
    several_expect("");
}

Test(stepped, real_time_latency_does_not_grow_with_eight_gated_jobs)
{
    several_expect("_with_gates");
}
