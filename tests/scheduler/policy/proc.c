/*
 * proc.c - what /proc tells of a process that runs, is stopped, ends, and has gone.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scheduler/policy/proc.h"
#include "tests/scheduler/place.h"

static pid_t child(void (*run)(void))
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        run();
    _exit(0);
}

static void stay(void)
{
    for (;;)
        pause();
}

static void *stay_main(void *arg)
{
    stay();
    return arg;
}

/* The main thread ends; the other one stays. */
static void leave_one(void)
{
    pthread_t other;

    if (pthread_create(&other, NULL, stay_main, NULL) == 0)
        pthread_exit(NULL);
}

/* It is killed and not waited for: only what /proc shows is left of it. */
static void kill_unseen(pid_t pid)
{
    siginfo_t end;

    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
}

static bool main_thread_has_ended(pid_t pid)
{
    char path[32], state = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    cr_assert_not_null(f = fopen(path, "r"));
    cr_assert_eq(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
    fclose(f);
    return state == 'Z';
}

Test(proc, state_follows_process_from_run_to_stop_to_end)
{
    pid_t pid = child(stay);
    int status;

    cr_expect_eq(proc_run_state(pid), PROC_RUNS);
    cr_assert_eq(kill(pid, SIGSTOP), 0);
    cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
    cr_expect_eq(proc_run_state(pid), PROC_STOPPED);
    cr_assert_eq(kill(pid, SIGCONT), 0);
    cr_assert_eq(waitpid(pid, &status, WCONTINUED), pid);
    cr_expect_eq(proc_run_state(pid), PROC_RUNS);
    kill_unseen(pid);
    cr_expect_eq(proc_run_state(pid), PROC_ENDING);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect_eq(proc_run_state(pid), PROC_UNSEEN);
    cr_expect_eq(proc_run_state(0), PROC_UNSEEN);
}

static void run(void)
{
    for (volatile int i = 0;; i = !i)
        ;
}

Test(proc, only_running_process_wants_a_processor)
{
    pid_t sleeps = child(stay), runs = child(run);
    int status;

    WAIT_UNTIL(!proc_any_thread(sleeps, true));
    WAIT_UNTIL(proc_any_thread(runs, true));
    cr_assert_eq(kill(runs, SIGSTOP), 0);
    cr_assert_eq(waitpid(runs, &status, WUNTRACED), runs);
    cr_expect(!proc_any_thread(runs, true));
    kill(runs, SIGKILL);
    kill(sleeps, SIGKILL);
    waitpid(runs, NULL, 0);
    waitpid(sleeps, NULL, 0);
    cr_expect(!proc_any_thread(runs, true));
}

Test(proc, process_runs_on_after_its_main_thread_ended)
{
    pid_t pid = child(leave_one);

    WAIT_UNTIL(main_thread_has_ended(pid));
    cr_expect_eq(proc_run_state(pid), PROC_RUNS);
    kill_unseen(pid);
    cr_expect_eq(proc_run_state(pid), PROC_ENDING);
    waitpid(pid, NULL, 0);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* its core would have terabytes */
#else
enum { SANITIZED = 0 };
#endif

static char folder[] = "/tmp/cutin-proc-XXXXXX";

static void crash(void)
{
    enum { BYTES = 128 << 20 };
    struct rlimit whole = {RLIM_INFINITY, RLIM_INFINITY};
    void *much = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (much == MAP_FAILED || chdir(folder) != 0)
        return;
    setrlimit(RLIMIT_CORE, &whole); /* if not permitted: no core */
    memset(much, 1, BYTES);
    signal(SIGQUIT, SIG_DFL);
    raise(SIGQUIT);
}

/* Whether a core is a file in the folder of the process: no pipe, nor a place where it stays. */
static bool cores_are_files_here(void)
{
    char pattern[128] = "";
    FILE *f = fopen("/proc/sys/kernel/core_pattern", "r");
    bool plain = f && fgets(pattern, sizeof(pattern), f) && strcmp(pattern, "core\n") == 0;

    if (f)
        fclose(f);
    return plain;
}

static bool writes_core(pid_t pid)
{
    char path[32], line[128];
    bool writes = false;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    cr_assert_not_null(f = fopen(path, "r"));
    while (!writes && fgets(line, sizeof(line), f))
        writes = strcmp(line, "CoreDumping:\t1\n") == 0;
    fclose(f);
    return writes;
}

Test(proc, process_dumping_core_counts_as_ending)
{
    char core[2][64];
    int status, seen = 0;
    pid_t pid;

    if (SANITIZED || !cores_are_files_here())
        cr_skip_test("cores are not files here");
    cr_assert_not_null(mkdtemp(folder));
    pid = child(crash);
    while (waitpid(pid, &status, WNOHANG) == 0) {
        bool before = writes_core(pid);
        enum proc proc = proc_run_state(pid);

        if (before && writes_core(pid)) {
            cr_expect_eq(proc, PROC_ENDING);
            seen++;
        }
    }
    snprintf(core[0], sizeof(core[0]), "%s/core", folder);
    snprintf(core[1], sizeof(core[1]), "%s/core.%d", folder, (int)pid);
    for (int i = 0; i < 2; i++)
        unlink(core[i]);
    cr_assert_eq(rmdir(folder), 0);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGQUIT);
    if (seen == 0)
        cr_skip_test("no core was written");
}
