/*
 * command.c - the cutin command as a user meets it: help texts, error lines, exit statuses, and
 * what `cutin run` passes to the program.
 */
#include "tests/integration/process.h"
#include "tests/scheduler/stop.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define CUTIN BIN_DIR "/cutin"
#define LAB   BIN_DIR "/cutin-lab"
#define WORDS(...)                                                                                 \
    (const char *[])                                                                               \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define ARGS(...)     WORDS(CUTIN, __VA_ARGS__)
#define LAB_ARGS(...) WORDS(LAB, __VA_ARGS__)

TestSuite(command, .init = sandbox_enter, .fini = sandbox_leave);

static struct process *run_cutin(const char *const *args)
{
    return process_run(args, NULL, 30);
}

static int lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Prints one line with `word` to stderr and nothing to stdout, and ends with this status. */
static void fails(const char *const *args, int status, const char *word)
{
    struct process *p = run_cutin(args);

    cr_expect_eq(p->status, status, "status %d instead of %d for %s: %s", p->status, status, word,
                 process_err(p));
    cr_expect_eq(lines(process_err(p)), 1, "%s", process_err(p));
    cr_expect_not_null(strstr(process_err(p), word), "no %s in %s", word, process_err(p));
    cr_expect_str_eq(process_out(p), "");
    process_free(p);
}

static void script_write(const char *path, const char *text, mode_t mode)
{
    FILE *f = fopen(path, "w");

    cr_assert_not_null(f);
    fputs(text, f);
    cr_assert_eq(fclose(f), 0);
    cr_assert_eq(chmod(path, mode), 0);
}

Test(command, invalid_argument_is_named_and_exits_2)
{
    fails(ARGS("frobnicate"), 2, "frobnicate");
    fails(ARGS("--frobnicate"), 2, "--frobnicate");
    fails(ARGS("help", "frobnicate"), 2, "frobnicate");
    fails(ARGS("run", "--frobnicate", "true"), 2, "--frobnicate");
    fails(ARGS("run", "-x", "true"), 2, "-x");
    fails(ARGS("run", "--priority", "top", "true"), 2, "top");
    fails(ARGS("run", "--priority"), 2, "--priority");
    fails(ARGS("run", "--sim=yes", "true"), 2, "--sim");
    fails(ARGS("run", "--depth", "0", "true"), 2, "--depth=0");
    fails(ARGS("run", "--depth", "1025", "true"), 2, "--depth=1025");
    fails(ARGS("run", "--budget-us", "-1", "true"), 2, "--budget-us=-1");
    fails(ARGS("run", "--budget-us", "1e3", "true"), 2, "1e3");
    fails(ARGS("run"), 2, "program");
    fails(ARGS("trace", "--sim"), 2, "program");
    fails(ARGS("trace", "-o"), 2, "-o");
    fails(LAB_ARGS("record", "--records", "5", "true"), 2, "--records=5");
    fails(LAB_ARGS("replay"), 2, "file");
    fails(LAB_ARGS("replay", "--arrivals", "never", "x"), 2, "never");
    fails(LAB_ARGS("whatif"), 2, "file");
    fails(LAB_ARGS("whatif", "--rtt", "8furlongs", "x"), 2, "8furlongs");
    fails(LAB_ARGS("whatif", "--rtt", "us", "x"), 2, "--rtt=us");
    fails(LAB_ARGS("whatif", "--modules", "1", "x"), 2, "--modules=1");
    fails(LAB_ARGS("whatif", "--pattern", "tartan", "x"), 2, "stencil");
    fails(LAB_ARGS("whatif", "--blocks", "heaps", "x"), 2, "heaps");
    fails(LAB_ARGS("whatif", "--rt", "x", "y"), 2, "--rt-rate");
    fails(LAB_ARGS("whatif", "x", "y"), 2, "y");
    fails(LAB_ARGS("frobnicate"), 2, "cutin-lab help");
    fails(LAB_ARGS("run"), 2, "run");
    fails(LAB_ARGS("disb", "extra"), 2, "extra");
    fails(LAB_ARGS("ablation", "--samples", "none"), 2, "none");
    fails(LAB_ARGS("ablation", "--mode", "cutin"), 2, "--mode");
    fails(ARGS("latency", "--samples", "none"), 2, "none");
    fails(ARGS("latency", "--mode", "fast"), 2, "fast");
    fails(ARGS("latency", "extra"), 2, "extra");
    fails(ARGS("list", "--frobnicate"), 2, "--frobnicate");
    fails(ARGS("run", "--weight", "0", "true"), 2, "--weight=0");
    fails(ARGS("run", "--deadline-ms", "soon", "true"), 2, "soon");
    fails(LAB_ARGS("distance", "--rtt", "far", "true"), 2, "far");
    fails(LAB_ARGS("distance", "--rtt", "8us", "--tags", "0", "true"), 2, "tags");
    fails(LAB_ARGS("distance", "true"), 2, "--rtt");
    fails(LAB_ARGS("distance", "--rtt", "8us"), 2, "program");
    fails(ARGS("top", "--interval", "0"), 2, "--interval=0");
    fails(ARGS("top", "--interval", "nan"), 2, "nan");
    fails(ARGS("set", "7"), 2, "nothing to set");
    fails(ARGS("set", "--weight", "2"), 2, "no process given");
    fails(ARGS("set", "7", "--weight", "1001"), 2, "--weight=1001");
    fails(ARGS("set", "7", "--priority", "high"), 2, "high");
    fails(ARGS("set", "seven", "--weight", "2"), 2, "seven");
    fails(ARGS("set", "7", "8", "--weight", "2"), 2, "8");
    fails(ARGS("pause"), 2, "no process given");
    fails(ARGS("resume", "0"), 2, "0 is not");
    fails(ARGS("reset", "7", "--stream", "-1"), 2, "--stream=-1");
    fails(ARGS("policy", "fair", "fixed"), 2, "fixed");
    fails(ARGS("cdi", "extra"), 2, "extra");
    fails(ARGS("cdi", "--socket", "run/cutin.sock"), 2, "run/cutin.sock");
    fails(ARGS("cdi", "--library", "/libcutin.so"), 2, "/libcutin.so");
    fails(ARGS("version", "extra"), 2, "extra");
}

Test(command, misspelt_word_suggests_the_nearest)
{
    fails(ARGS("lsit"), 2, "did you mean list?");
    fails(ARGS("help", "trce"), 2, "did you mean trace?");
    fails(ARGS("ps"), 2, "did you mean list?");
    fails(ARGS("--verzion"), 2, "did you mean version?");
    fails(ARGS("run", "--prioritty=rt", "true"), 2, "did you mean --priority?");
    fails(ARGS("list", "--jsn"), 2, "did you mean --json?");
    fails(LAB_ARGS("repaly"), 2, "did you mean replay?");
    fails(ARGS("frobnicate"), 2, "unknown command frobnicate; see");
    fails(ARGS("list", "--frobnicate"), 2, "unknown option --frobnicate; see");
}

Test(command, full_disk_is_an_error)
{
    static const char *const of[] = {"--help", "version", "list --help", "cdi", NULL};

    for (const char *const *words = of; *words; words++) {
        struct process *p = process_run(
            (const char *[]){"sh", "-c", "\"$0\" $1 >/dev/full", CUTIN, *words, NULL}, NULL, 20);

        cr_expect_eq(p->status, 1, "%s: %d", *words, p->status);
        cr_expect_not_null(strstr(process_err(p), "cannot write to stdout"), "%s: %s", *words,
                           process_err(p));
        process_free(p);
    }
}

/* Each of the NULL-terminated names has a help text and is in the program's overview. */
static void check_help(const char *path, const char *program, const char *const *names)
{
    struct process *all = run_cutin(WORDS(path, "help"));
    char usage[40];

    snprintf(usage, sizeof(usage), "Usage: %s ", program);
    cr_expect_eq(all->status, 0);
    for (; *names; names++) {
        struct process *option = run_cutin(WORDS(path, *names, "--help"));
        struct process *command = run_cutin(WORDS(path, "help", *names));
        cr_expect_eq(option->status, 0, "%s %s --help", program, *names);
        cr_expect_not_null(strstr(process_out(option), usage), "%s", *names);
        cr_expect_not_null(strstr(process_out(option), "--help"), "%s", *names);
        cr_expect_str_eq(process_out(option), process_out(command));
        cr_expect_str_eq(process_err(option), "");
        cr_expect_not_null(strstr(process_out(all), *names), "no %s in %s help", *names, program);
        process_free(option);
        process_free(command);
    }
    process_free(all);
}

Test(command, every_command_has_a_help_text)
{
    check_help(CUTIN, "cutin",
               WORDS("run", "trace", "latency", "list", "doctor", "profile", "top", "set", "pause",
                     "resume", "reset", "policy", "cdi", "version", "help"));
    check_help(LAB, "cutin-lab",
               WORDS("disb", "overhead", "ablation", "preset", "histogram", "plot", "report",
                     "record", "replay", "whatif", "distance", "version", "help"));
}

static char *manual_text(const char *program)
{
    static char text[100000];
    char path[300];
    FILE *f;

    snprintf(path, sizeof(path), SOURCE_DIR "/docs/man/%s.1", program);
    f = fopen(path, "r");
    cr_assert_not_null(f, "no %s", path);
    text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
    fclose(f);
    return text;
}

static bool has(const char *from, const char *end, const char *text)
{
    return memmem(from, (size_t)(end - from), text, strlen(text));
}

/* Each option of a command's help text is in its section of the manual, or before all sections.
 * Returns the number of options. */
static int check_options(const char *command, const char *help, const char *manual)
{
    const char *all = strstr(manual, ".Sh DESCRIPTION"), *first = strstr(all, "\n.Ss ");
    const char *section = all, *end;
    char option[40];
    int n = 0;

    do /* the heading may name others, too */
        section = strstr(section, "\n.Ss ") ? strstr(section, "\n.Ss ") + 1 : "";
    while (*section && !has(section, section + strcspn(section, "\n"), command));
    cr_expect(*section, "no section of %s", command);
    end = strstr(section, "\n.Ss ");
    end = end ? end : strstr(section, "\n.Sh ");
    for (const char *at = strstr(help, "\n  --"); at; at = strstr(at + 1, "\n  --"), n++) {
        snprintf(option, sizeof(option), "Fl -%.*s", (int)strcspn(at + 5, " \n"), at + 5);
        cr_expect(has(section, end, option) || has(all, first, option), "no .%s of %s", option,
                  command);
    }
    return n;
}

static void check_manual(const char *path, const char *program, int least_commands,
                         int least_options)
{
    struct process *all = run_cutin(WORDS(path, "help"));
    const char *at = process_out(all);
    char *manual = manual_text(program), line[24], name[24], section[60];
    int commands = 0, options = 0;

    snprintf(line, sizeof(line), "\n  %s ", program);
    while ((at = strstr(at, line))) {
        struct process *one;

        at += strlen(line);
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, " "), at);
        snprintf(section, sizeof(section), "%s %.24s", program, name);
        one = run_cutin(WORDS(path, "help", name));
        options += check_options(section, process_out(one), manual);
        process_free(one);
        commands++;
    }
    cr_expect(commands >= least_commands && options >= least_options, "%d commands, %d options",
              commands, options);
    process_free(all);
}

Test(command, the_manuals_have_every_command_and_option)
{
    check_manual(CUTIN, "cutin", 13, 50);
    check_manual(LAB, "cutin-lab", 10, 50);
}

Test(command, version_command_and_option_print_the_same)
{
    struct process *a = run_cutin(ARGS("version")), *b = run_cutin(ARGS("--version"));

    cr_expect_eq(a->status, 0);
    cr_expect_str_eq(process_out(a), "cutin " CUTIN_VERSION "\n");
    cr_expect_str_eq(process_out(a), process_out(b));
    process_free(a);
    process_free(b);
}

Test(command, list_without_a_daemon_says_so)
{
    fails(ARGS("list", "--socket", sandbox_path("none.sock")), 1, "none.sock");
    fails(ARGS("list", "--json", "--socket", sandbox_path("none.sock")), 1, "no daemon");
}

Test(command, run_passes_the_exit_status)
{
    struct process *p;

    p = run_cutin(ARGS("run", "--no-daemon", "sh", "-c", "exit 37"));
    cr_expect_eq(p->status, 37);
    process_free(p);
    p = run_cutin(ARGS("run", "--no-daemon", "--", "sh", "-c", "kill -TERM $$"));
    cr_expect_eq(p->status, 128 + SIGTERM);
    process_free(p);
}

/* The program is the process that was started, so its signals need not be passed on. */
Test(command, run_execs_program_with_same_pid)
{
    struct process *p =
        process_start(ARGS("run", "--no-daemon", "sh", "-c", "echo pid $$; sleep 30"), NULL);
    char expected[32];

    cr_assert(process_says(p, "pid", 20));
    snprintf(expected, sizeof(expected), "pid %d\n", (int)p->pid);
    cr_expect_str_eq(process_out(p), expected);
    process_signal(p, SIGKILL);
    cr_expect_eq(process_wait(p, 20), 128 + SIGKILL);
    process_free(p);
}

Test(command, run_of_unrunnable_file_exits_126_or_127)
{
    script_write(sandbox_path("plain"), "text", 0644);
    fails(ARGS("run", "--no-daemon", "--", "no-such-program-here"), 127, "no-such-program-here");
    fails(ARGS("run", "--no-daemon", "--", sandbox_path("plain")), 126, "plain");
}

Test(command, run_leaves_options_after_program_to_program)
{
    struct process *p = run_cutin(ARGS("run", "--no-daemon", "echo", "--sim", "--priority", "x"));

    cr_expect_eq(p->status, 0);
    cr_expect_str_eq(process_out(p), "--sim --priority x\n");
    process_free(p);
}

static void prints(const char *const *args, const char *const *env, const char *text)
{
    struct process *p = process_run(args, env, 30);

    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_not_null(strstr(process_out(p), text), "no %s in %s", text, process_out(p));
    process_free(p);
}

#define ECHO(what) "sh", "-c", "echo \"[" what "]\""
#define ENV(...)                                                                                   \
    (const char *[])                                                                               \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

Test(command, run_options_set_environment)
{
    prints(ARGS("run", "--no-daemon", "--priority", "rt", ECHO("$CUTIN_PRIORITY")), NULL, "[rt]");
    prints(ARGS("run", "--no-daemon", ECHO("$CUTIN_PRIORITY")), ENV("CUTIN_PRIORITY=2"), "[2]");
    prints(ARGS("run", "--no-daemon", "--budget-us", "70", "--depth", "9",
                ECHO("$CUTIN_BUDGET_US $CUTIN_DEPTH")),
           NULL, "[70 9]");
    prints(ARGS("run", "--no-daemon", "--weight", "12", "--deadline-ms", "40",
                ECHO("$CUTIN_WEIGHT $CUTIN_DEADLINE_MS")),
           NULL, "[12 40]");
    prints(LAB_ARGS("distance", "--rtt", "6.8us", "--tags", "70", "--",
                    ECHO("$CUTIN_DISTANCE_US $CUTIN_DISTANCE_TAGS")),
           NULL, "[6.8 70]");
    prints(LAB_ARGS("distance", "--rtt", "8", ECHO("$LD_PRELOAD")), NULL,
           "/lib/libcutin_distance.so");
    prints(ARGS("run", "--no-daemon", ECHO("${CUTIN_SOCKET-unset}")), NULL, "[]");
    prints(ARGS("run", "--no-daemon", "--sim", ECHO("$LD_LIBRARY_PATH")),
           ENV("LD_LIBRARY_PATH=/some/where"), "/simgpu:/some/where]");
}

Test(command, invalid_simulator_setting_warns_once)
{
    struct process *p = process_run(ARGS("run", "--no-daemon", "--sim", CUTIN, "run", "--no-daemon",
                                         "--sim", ECHO("${SIMGPU_RM-unset}")),
                                    ENV("SIMGPU_RM=true"), 30);

    cr_expect_str_eq(process_out(p), "[unset]\n");
    cr_expect_str_eq(process_err(p),
                     "simgpu: SIMGPU_RM=true is not one of off accept ignore refuse "
                     "timeslice; using off\n");
    process_free(p);
}

Test(command, run_keeps_an_existing_preload_behind_its_own)
{
    prints(ARGS("run", "--no-daemon", ECHO("$LD_PRELOAD")), ENV("LD_PRELOAD"), "/libcutin.so]");
    prints(ARGS("run", "--no-daemon", ECHO("$LD_PRELOAD")), ENV("LD_PRELOAD=libm.so.6"),
           "/libcutin.so:libm.so.6]");
    /* Not twice if a program under `cutin run` uses `cutin run` itself. */
    prints(ARGS("run", "--no-daemon", CUTIN, "run", "--no-daemon", ECHO("$LD_PRELOAD")),
           ENV("LD_PRELOAD=libm.so.6"), "[" LIB_DIR "/libcutin.so:libm.so.6]");
}

/* The program runs, and one line on stderr has this word; NULL: stderr is empty. */
static void run_says(const char *program, int status, const char *word)
{
    struct process *p = run_cutin(ARGS("run", "--no-daemon", "--", program));

    cr_expect_eq(p->status, status, "%s: status %d", program, p->status);
    cr_expect_eq(lines(process_err(p)), !!word, "%s: %s", program, process_err(p));
    cr_expect(!word || strstr(process_err(p), word), "no %s in %s", word, process_err(p));
    process_free(p);
}

Test(command, run_warns_about_static_program_and_runs_it)
{
    const char *program = BIN_DIR "/tests/program_static", *script = sandbox_path("script");
    char path[400];

    run_says(program, 7, "program_static cannot be scheduled: it is statically linked");
    script_write(script, "#! " BIN_DIR "/tests/program_static -x\n", 0755);
    run_says(script, 7, "program_static cannot be scheduled: it is statically linked");
    setenv("CUTIN_DISABLE", "1", 1);
    run_says(program, 7, NULL);
    unsetenv("CUTIN_DISABLE");
    snprintf(path, sizeof(path), "%s:/usr/bin:/bin", BIN_DIR "/tests");
    setenv("PATH", path, 1);
    run_says("program_static", 7, "it is statically linked");
    run_says("true", 0, NULL);
    script_write(script, "#!/bin/sh\ntrue\n", 0755);
    run_says(script, 0, NULL);
    script_write(script, "true\n", 0755); /* execvp runs it by sh */
    run_says(script, 0, NULL);
}

Test(command, run_warns_about_setuid_program)
{
    const char *copy = sandbox_path("copy");
    struct process *p = process_run(WORDS("cp", "/bin/true", copy), NULL, 30);
    struct statvfs mount;

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    run_says(copy, 0, NULL);
    if (statvfs(copy, &mount) != 0 || mount.f_flag & ST_NOSUID || chown(copy, 65534, 65534) != 0)
        cr_skip_test("needs root, and a folder where setuid counts");
    cr_assert_eq(chmod(copy, 04755), 0);
    run_says(copy, 0, "it gains privileges");
}

/* The other one may have been stopped just after it began. */
Test(command, run_stops_waiting_for_lock_of_gate_test)
{
    char path[256];
    struct process *p;
    int fd;

    snprintf(path, sizeof(path), "%s/cutin", getenv("XDG_CACHE_HOME"));
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/cutin/asked.lock", getenv("XDG_CACHE_HOME"));
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && flock(fd, LOCK_EX) == 0);
    p = run_cutin(ARGS("run", "--sim", "--socket", sandbox_path("no/folder/s"), "echo", "ran"));
    cr_expect_eq(p->status, 0, "%d: %s", p->status, process_err(p));
    cr_expect_str_eq(process_out(p), "ran\n");
    process_free(p);
    close(fd);
}

/* The trouble with the daemon is told in one line, and the program runs. */
Test(command, run_goes_on_without_a_daemon)
{
    char path[200];
    struct process *p;

    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    p = run_cutin(ARGS("run", "--socket", path, "echo", "ran"));
    cr_expect_eq(p->status, 0);
    cr_expect_str_eq(process_out(p), "ran\n");
    cr_expect_eq(lines(process_err(p)), 1, "%s", process_err(p));
    process_free(p);
    p = run_cutin(ARGS("run", "--socket", sandbox_path("no/such/folder/s"), "echo", "ran"));
    cr_expect_eq(p->status, 0);
    cr_expect_str_eq(process_out(p), "ran\n");
    cr_expect_eq(lines(process_err(p)), 1, "%s", process_err(p));
    process_free(p);
}

/* A pipe that the caller holds open must not stay open in the daemon, or `x=$(cutin run ...)` would
 * wait for it. */
Test(command, daemon_started_by_run_inherits_no_descriptors)
{
    const char *socket = sandbox_path("s");
    struct process *p =
        process_run((const char *[]){"sh", "-c",
                                     "out=$(\"$0\" run --socket \"$1\" true 7>&1) && \"$0\" list "
                                     "--socket \"$1\"",
                                     CUTIN, socket, NULL},
                    NULL, 8);

    cr_expect_eq(p->status, 0, "status %d: %s", p->status, process_err(p));
    cr_expect_str_eq(process_out(p), "no process runs under cutin\n");
    cr_expect_eq(daemon_stop(socket), 0);
    process_free(p);
}

/* Without a daemon the trace would show what happens without scheduling. */
Test(command, trace_starts_a_daemon)
{
    const char *socket = sandbox_path("s");
    struct process *p;

    setenv("CUTIN_SOCKET", socket, 1);
    p = run_cutin(ARGS("trace", "--no-daemon", "-o", sandbox_path("out"), "--", "true"));
    cr_expect_neq(daemon_stop(socket), 0, "%s", process_err(p));
    process_free(p);
    p = run_cutin(ARGS("trace", "-o", sandbox_path("out"), "--", "true"));
    cr_expect_eq(daemon_stop(socket), 0, "%s", process_err(p));
    process_free(p);
}

/* If the file cannot be written nothing is run. */
Test(command, unwritable_output_is_reported_before_running)
{
    const char *file = sandbox_path("no/such/folder/file.svg");

    fails(ARGS("trace", "--no-daemon", "-o", file, "--", "touch", sandbox_path("ran")), 1, file);
    fails(LAB_ARGS("record", "-o", file, "--", "touch", sandbox_path("ran")), 1, file);
    fails(ARGS("latency", "--sim", "--latencies", file), 1, file);
    cr_expect_neq(access(sandbox_path("ran"), F_OK), 0);
}
