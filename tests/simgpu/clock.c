/*
 * clock.c - the stepped clock (tools/simgpu/clock): times are exact, and the same in every run,
 * whatever else the machine does.
 */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hazards/compare/outcome.h"
#include "tools/simgpu/clock/step.h"

enum { LOOPS = 8, ROOM = 4096 };

struct text {
    char at[ROOM];
};

static void id_new(char id[32])
{
    snprintf(id, 32, "clock-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 1);
}

static void time_remove(const char *id)
{
    char name[96];
    snprintf(name, sizeof(name), "/simgpu-clock-%u-%s", (unsigned int)getuid(), id);
    shm_unlink(name);
}

static struct text program_run_as(const char *argument)
{
    struct text text = {0};
    char id[32], line[256], command[512];
    size_t used = 0;
    id_new(id);
    snprintf(command, sizeof(command),
             "SIMGPU_CLOCK=step LD_PRELOAD=" LIB_DIR "/simgpu/libsimgpu_clock.so " BIN_DIR
             "/tests/program_clock %s 2>&1",
             argument);
    FILE *f = popen(command, "r");
    while (fgets(line, sizeof(line), f) && used + strlen(line) < ROOM)
        used += (size_t)snprintf(text.at + used, ROOM - used, "%s", line);
    int status = pclose(f);
    time_remove(id);
    cr_assert_eq(status, 0, "%s", text.at);
    return text;
}

static struct text program_run(void)
{
    return program_run_as("");
}

static uint64_t took(const struct text *text, const char *name)
{
    const char *at = strstr(text->at, name);
    cr_assert(at, "%s is not in %s", name, text->at);
    return strtoull(at + strlen(name) + 1, NULL, 10);
}

Test(clock, sleep_is_late_by_exactly_the_stated_costs)
{
    struct text text = program_run();
    cr_expect_eq(took(&text, "sleep_1ms"), 1000000 + STEP_CALL + STEP_WAKE + STEP_CLOCK, "%s",
                 text.at);
}

Test(clock, hour_of_sleep_ends_within_ten_real_minutes)
{
    alarm(600);
    struct text text = program_run();
    cr_expect_eq(took(&text, "sleep_hour"),
                 3600 * UINT64_C(1000000000) + STEP_CALL + STEP_WAKE + STEP_CLOCK, "%s", text.at);
}

/* Threads, words, locks, pipes and children: each wait ends when what it waits for has come, or up
 * to 40 us later, for the calls in between. */
Test(clock, every_kind_of_wait_ends_soon_after_its_event)
{
    static const struct {
        const char *name;
        uint64_t us;
    } waits[] = {{"condition", 1000000}, {"poll", 20000}, {"mutex", 3000}, {"word", 2000},
                 {"pipe", 2000},         {"child", 4000}, {"orphan", 1200}};
    struct text text = program_run();
    for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++) {
        uint64_t ns = took(&text, waits[i].name), due = waits[i].us * 1000;
        uint64_t begin = i < 5 ? STEP_THREAD : STEP_FORK; /* the last two make a child */
        cr_expect(ns >= due && ns <= due + begin + 40000, "%s: %" PRIu64, waits[i].name, ns);
    }
}

Test(clock, busy_processors_do_not_change_the_times)
{
    struct text idle = program_run();
    pid_t loop[LOOPS];
    for (int i = 0; i < LOOPS; i++)
        if ((loop[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                ;
        }
    for (int i = 0; i < 5; i++)
        cr_expect_str_eq(program_run().at, idle.at);
    for (int i = 0; i < LOOPS; i++) {
        kill(loop[i], SIGKILL);
        waitpid(loop[i], NULL, 0);
    }
}

/* The thread was lost and is back. The process that said so has ended, and was read by none. */
Test(clock, lost_thread_resumes_after_its_watcher_is_killed)
{
    alarm(120);
    cr_expect(strstr(program_run_as("outside").at, "went on"));
}

static void become_watched(const void *unused)
{
    setenv("SIMGPU_CLOCK", "step", 1);
    setenv("LD_PRELOAD", LIB_DIR "/simgpu/libsimgpu_clock.so", 1);
    execl(BIN_DIR "/tests/program_clock", "program_clock", "watched", (char *)NULL);
}

/* The clock looks into /proc by descriptors of its own thread: the program never gets them. */
Test(clock, program_ends_with_only_its_own_descriptors)
{
    enum { ROUNDS = 10 };
    static struct outcome r;
    char folder[] = "/tmp/clock-XXXXXX", id[32];
    id_new(id);
    cr_assert(mkdtemp(folder));
    for (int i = 0; i < ROUNDS; i++) {
        outcome_of(&r, folder, become_watched, NULL);
        cr_expect_eq(r.status, 0, "status %x", r.status);
        cr_expect_not(strstr(r.descriptors, "/proc"), "%s", r.descriptors);
        cr_expect(strstr(r.descriptors, "stdout"), "%s", r.descriptors);
    }
    time_remove(id);
    rmdir(folder);
}

/* Looks into /proc take no descriptor number of the program's: it opens a quarter of a million
 * files, during some thousand looks. */
Test(clock, watching_threads_take_no_descriptor_number)
{
    alarm(120);
    struct text text = program_run_as("numbers");
    cr_expect_eq(took(&text, "others"), 0, "%s", text.at);
}

/* The threads of before the exec get no turns any more. */
Test(clock, threads_ended_by_exec_do_not_stop_time)
{
    alarm(120);
    cr_expect(strstr(program_run_as("replaced").at, "went on"));
}

Test(clock, stopped_process_does_not_stop_time)
{
    alarm(120);
    cr_expect(strstr(program_run_as("stopped").at, "went on"));
}

Test(clock, lost_process_that_ends_grants_no_second_turn)
{
    alarm(240);
    struct text text = program_run_as("one");
    cr_expect(strstr(text.at, "at once 0\n"), "%s", text.at);
}

/* Each clock is new, and the first of four processes makes it. */
Test(clock, four_first_processes_may_start_together)
{
    enum { TIMES = 100, TOGETHER = 4 };
    char id[32];
    alarm(240);
    for (int i = 0; i < TIMES; i++) {
        pid_t pid[TOGETHER];
        int status;
        id_new(id);
        for (int k = 0; k < TOGETHER; k++)
            if ((pid[k] = fork()) == 0) {
                setenv("SIMGPU_CLOCK", "step", 1);
                setenv("LD_PRELOAD", LIB_DIR "/simgpu/libsimgpu_clock.so", 1);
                execlp("sleep", "sleep", "0.001", (char *)NULL);
                _exit(1);
            }
        for (int k = 0; k < TOGETHER; k++) {
            cr_assert_eq(waitpid(pid[k], &status, 0), pid[k]);
            cr_assert_eq(status, 0, "time %d", i);
        }
        time_remove(id);
    }
}
