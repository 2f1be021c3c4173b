/*
 * stepped.c - cutin on the stepped clock, all of it: processes, their libraries, the daemon and the
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

TestSuite(stepped, .init = setup, .fini = teardown, .timeout = 300);

/* The event log of a workload that has a name, without the numbers of processes; and what
 * cutin-purpose prints of it. */
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

/* Where the first lines differ. */
static void logs_expect_equal(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] && a[at] == b[at])
        at++;
    while (at && a[at - 1] != '\n')
        at--;
    cr_expect(!a[at] && !b[at], "after %zu bytes:\n%.120s\n%.120s", at, a + at, b + at);
}

Test(stepped, event_logs_are_equal_beside_busy_loops)
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
