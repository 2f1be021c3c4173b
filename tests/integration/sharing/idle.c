/*
 * idle.c - a program under cutin that does nothing hardly wakes a processor, and a held one wakes
 * it seldom. Counted in seconds of the host's clock: a busy machine only lowers the counts.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(idle, .init = sandbox_enter, .fini = sandbox_leave);

enum { SECONDS = 60 };

/* Runs with gates. program_alone.c says what it does. */
struct program {
    const char *folder; /* of the sandbox, where it waits for its steps; NULL: the sandbox */
    const char *level, *kernels, *us, *stream;
    const char *variable; /* to set in its environment */
};

static struct process *program_start(const struct program *p)
{
    char priority[32];

    if (!p->folder)
        sandbox_tell("0");
    snprintf(priority, sizeof(priority), "CUTIN_PRIORITY=%s", p->level);
    return process_start(
        (const char *[]){BIN_DIR "/tests/program_alone", sandbox_path(p->folder ? p->folder : "."),
                         p->kernels, p->us, p->stream, NULL},
        (const char *[]){PRELOAD, SIMULATOR, priority, "CUTIN_GATES=on", p->variable, NULL});
}

static void program_end(struct process *program)
{
    sandbox_tell("end");
    cr_expect_eq(process_wait(program, 60), 0, "stderr: %s", process_err(program));
    cr_expect_not_null(strstr(process_out(program), "right"));
    process_free(program);
}

static void launched(struct process *program, int step)
{
    char file[16], said[32];

    snprintf(file, sizeof(file), "%d", step);
    snprintf(said, sizeof(said), "launched %d.", step);
    sandbox_tell(file);
    cr_assert(process_says(program, said, 60), "stderr: %s", process_err(program));
}

static bool read_line(const char *path, const char *begin, char *line, int bytes)
{
    FILE *f = fopen(path, "r");
    bool found = false;

    while (f && !found && fgets(line, bytes, f))
        found = strncmp(line, begin, strlen(begin)) == 0;
    if (f)
        fclose(f);
    return found;
}

/* How often the library's threads have gone to sleep so far. */
static long sleeps(pid_t pid)
{
    char folder[64], path[384], line[256];
    long sum = 0;

    snprintf(folder, sizeof(folder), "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(folder);

    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        snprintf(path, sizeof(path), "%s/%s/status", folder, task->d_name);
        if (task->d_name[0] != '.' && read_line(path, "Name:\tcutin-", line, sizeof(line)) &&
            read_line(path, "voluntary_ctxt_switches:", line, sizeof(line)))
            sum += strtol(strchr(line, ':') + 1, NULL, 10);
    }
    if (tasks)
        closedir(tasks);
    return sum;
}

/* True once they go to sleep at most `most` times within a second, and within the next one: on a
 * busy machine there are seconds in which no thread gets a processor. */
static bool comes_down_to(const struct process *program, long most)
{
    for (int i = 0, calm = 0; i < SECONDS; i++) {
        long before = sleeps(program->pid);

        sleep(1);
        calm = sleeps(program->pid) - before <= most ? calm + 1 : 0;
        if (calm == 2)
            return true;
    }
    return false;
}

static void runs(const char *level)
{
    struct process *program = program_start(&(struct program){.level = level});

    launched(program, 0);
    cr_expect(comes_down_to(program, 2), "level %s", level);
    launched(program, 1); /* it works again */
    cr_expect(comes_down_to(program, 2), "level %s, once more", level);
    program_end(program);
}

Test(idle, real_time_wakes_at_most_twice_a_second)
{
    struct process *daemon = daemon_start();

    runs("rt");
    process_free(daemon);
}

Test(idle, best_effort_wakes_at_most_twice_a_second)
{
    struct process *daemon = daemon_start();

    runs("be");
    process_free(daemon);
}

Test(idle, process_without_daemon_wakes_at_most_twice_a_second)
{
    runs("be");
}

/* A client above, so that what the other process launches counts. */
static struct process *above_start(void)
{
    struct process *rt;

    cr_assert_eq(mkdir(sandbox_path("above"), 0700), 0);
    sandbox_tell("above/0");
    rt = program_start(&(struct program){.folder = "above", .level = "rt"});
    launched(rt, 0);
    return rt;
}

static void above_end(struct process *rt)
{
    sandbox_tell("above/end");
    cr_expect_eq(process_wait(rt, 60), 0, "stderr: %s", process_err(rt));
    process_free(rt);
}

/* The program does not ask whether the last of its work is complete. */
static void launches_and_asks_nothing(struct program what)
{
    struct process *daemon = daemon_start(), *rt = above_start(), *be;

    what.level = "be";
    be = program_start(&what);
    launched(be, 0);
    cr_expect(comes_down_to(be, 2));
    launched(be, 1);
    cr_expect(comes_down_to(be, 2));
    program_end(be);
    above_end(rt);
    process_free(daemon);
}

Test(idle, unsynced_work_wakes_at_most_twice_a_second)
{
    launches_and_asks_nothing((struct program){.kernels = "1"});
}

/* Only the stream's own thread can ask for it. */
Test(idle, per_thread_stream_wakes_at_most_twice_a_second)
{
    launches_and_asks_nothing((struct program){.kernels = "3", .us = "5", .stream = "per-thread"});
}

/* While that context is not current no thread can ask for it. */
Test(idle, green_context_stream_wakes_at_most_twice_a_second)
{
    launches_and_asks_nothing((struct program){.kernels = "3", .us = "5", .stream = "green"});
}

/* Markers are events there, and no thread asks for those while nothing happens. */
Test(idle, work_without_memops_wakes_at_most_twice_a_second)
{
    launches_and_asks_nothing((struct program){.kernels = "3", .variable = "SIMGPU_MEMOPS=0"});
}

static bool best_effort_has_landed(const struct message_row *row)
{
    uint64_t sum = row->level;

    for (uint32_t i = 0; i < row->devices; i++)
        sum += row->device[i].in_flight + row->device[i].waiting;
    return sum == 0;
}

/* The context fails at the second of three kernels. What is behind that never completes, and must
 * not count as in flight, though the program lives on. */
Test(idle, failed_context_leaves_nothing_in_flight)
{
    struct process *daemon = daemon_start(), *rt = above_start(), *be;

    be = program_start(
        &(struct program){.level = "be",
                          .kernels = "3",
                          .us = "20000",
                          .stream = "failing",
                          .variable = "SIMGPU_FAULT=kernel=mix_spin:nth=10:error=700"});
    launched(be, 0);
    launched(be, 1);
    cr_expect_not_null(strstr(process_out(be), "error 700."));
    cr_expect(comes_down_to(be, 2));
    cr_expect(client_wait("program_alone", best_effort_has_landed, 60, NULL));
    process_free(be);
    above_end(rt);
    process_free(daemon);
}

/* Runs `cutin pause` or `cutin resume`. */
static void ask(const char *verb, const struct process *program)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%d", (int)program->pid);
    struct process *cutin = process_start((const char *[]){CUTIN, verb, pid, NULL}, NULL);

    cr_assert_eq(process_wait(cutin, 60), 0, "%s", process_err(cutin));
    process_free(cutin);
}

/* Only after the first seconds. The pause does not end, so what the third of the program's steps
 * launches stays buffered. */
Test(idle, held_process_wakes_at_most_forty_times_a_second)
{
    struct process *daemon = daemon_start(),
                   *program = program_start(&(struct program){.level = "be"});

    launched(program, 0);
    launched(program, 1);
    sandbox_tell("begin");
    launched(program, 2);
    ask("pause", program);
    launched(program, 3);
    cr_expect(client_wait(NULL, client_paused, 20, NULL), "it is paused, and its work is held");
    cr_expect(comes_down_to(program, 40));
    ask("resume", program);
    launched(program, 4);
    program_end(program);
    process_free(daemon);
}

/* Gates are closed, so the driver cannot be asked; and nothing waits for the hold's end. */
Test(idle, paused_last_kernel_wakes_at_most_twice_a_second)
{
    struct process *daemon = daemon_start(), *program;

    program = program_start(&(struct program){.level = "be", .kernels = "1", .us = "2000000"});
    launched(program, 0);
    launched(program, 1);
    ask("pause", program);
    cr_expect(comes_down_to(program, 2));
    ask("resume", program);
    program_end(program);
    process_free(daemon);
}
