/*
 * operate.c - `cutin list`, `top`, `set`, `pause`, `resume`, `reset` and `policy` on programs that
 * run: what they show, what they change, and what they say when they cannot.
 */
#include "common/clock.h"
#include "common/machine_socket.h"
#include "tests/integration/gpu.h"
#include "tests/integration/command/terminal.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(operate, .init = sandbox_enter, .fini = sandbox_leave);

#define RUN(...) run((const char *[]){CUTIN, __VA_ARGS__, NULL})

/* Sets CUTIN_SOCKET to this test's daemon. */
static struct process *run(const char *const *args)
{
    setenv("CUTIN_SOCKET", daemon_path(), 1);
    return process_run(args, NULL, 30);
}

static void succeeds(struct process *p, const char *out)
{
    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_str_eq(process_err(p), "");
    cr_expect_str_eq(process_out(p), out);
    process_free(p);
}

/* One line has both words. */
static void fails(struct process *p, const char *what, const char *remedy)
{
    process_failed(p, what);
    process_failed(p, remedy);
    process_free(p);
}

static const char *pid_text(pid_t pid)
{
    static char text[4][16];
    static int next;

    next = (next + 1) % 4;
    snprintf(text[next], sizeof(text[0]), "%d", (int)pid);
    return text[next];
}

/* Longer than any test; the test ends it. */
static struct process *long_training(void)
{
    return training_start(1000000, NULL);
}

/* A sanitizer slows the dispatcher's looks down so much that it may never see completions in time,
 * and then counts nothing. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LOOKS_IN_TIME false
#else
#define LOOKS_IN_TIME true
#endif

/* ---- what is shown -------------------------------------------------------------------------- */

static json_t *client_named(json_t *root, const char *name)
{
    json_t *client;
    size_t i;

    json_array_foreach(json_object_get(root, "clients"), i,
                       client) if (strcmp(json_string_value(json_object_get(client, "name")),
                                          name) == 0) return client;
    cr_assert_fail("%s is not listed", name);
    return NULL;
}

static json_t *get(const json_t *client, const char *key)
{
    json_t *value = json_object_get(client, key);

    cr_assert_not_null(value, "no %s", key);
    return value;
}

static double number(const json_t *client, const char *key)
{
    cr_assert(json_is_number(get(client, key)), "%s is not a number", key);
    return json_number_value(get(client, key));
}

static const char *text(const json_t *client, const char *key)
{
    cr_assert(json_is_string(get(client, key)), "%s is not a text", key);
    return json_string_value(get(client, key));
}

/* Both quantiles of held work exist, in order, and are below the longest that a test can take. */
static void check_times(const json_t *client, const char *key)
{
    const json_t *times = get(client, key);

    cr_expect_gt(number(times, "count"), 0, "%s", key);
    cr_expect_gt(number(times, "p50"), 0, "%s", key);
    cr_expect_geq(number(times, "p99"), number(times, "p50"), "%s", key);
    cr_expect_lt(number(times, "p99"), 110e6, "%s", key);
}

static void check_both(const json_t *client, const char *level)
{
    static const char *const states[] = {"active", "held", "idle"};
    bool known = false;

    for (size_t i = 0; i < 3; i++)
        known |= strcmp(text(client, "state"), states[i]) == 0;
    cr_expect(known, "state %s", text(client, "state"));
    cr_expect_str_eq(text(client, "level"), level);
    cr_expect_eq(number(client, "weight"), 1);
    cr_expect_gt(strlen(text(client, "user")), 0);
    cr_expect_gt(number(client, "seconds"), 0);
    cr_expect_geq(number(client, "gpu_share"), 0);
    cr_expect_gt(number(client, "kernels_per_s"), 0, "%s", level);
    cr_expect_geq(number(client, "in_flight"), 0);
    cr_expect_geq(number(client, "buffered"), 0);
    cr_expect_geq(number(client, "holds_per_s"), 0);
    cr_expect_not_null(strstr(text(client, "command"), "examples/"), "%s", text(client, "command"));
}

static void check_json(struct process *p)
{
    json_t *root, *rt, *be;
    double share;

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    root = json_loads(process_out(p), 0, NULL);
    cr_assert_not_null(root, "%s", process_out(p));
    rt = client_named(root, "rt_inference");
    be = client_named(root, "be_training");
    check_both(rt, "rt");
    check_both(be, "be");
    /* While real time is active, what best effort had is not known: a slow host can keep it so. */
    share = number(rt, "gpu_share");
    cr_expect(share > 0.98 || (share > 0 && number(be, "gpu_share") > 0), "%f and %f", share,
              number(be, "gpu_share"));
    cr_expect_gt(number(be, "holds_per_s"), 0);
    check_times(be, "hold_us");
    if (LOOKS_IN_TIME)
        check_times(be, "preemption_us");
    else
        cr_expect_geq(number(get(be, "preemption_us"), "count"), 0);
    cr_expect(json_is_null(get(get(rt, "hold_us"), "p50")), "it has no queues to hold");
    cr_expect(json_is_false(get(rt, "queues")) && json_is_true(get(be, "queues")));
    json_decref(root);
    process_free(p);
}

static void check_table(struct process *p, const char *order)
{
    static const char *const titles[] = {
        "PID",   "USER",   "LEVEL",  "WEIGHT", "STATE", "GPU%",  "KERN/S",  "FLIGHT",   "BUFFER",
        "HELD%", "HOLD/S", "HOLD50", "HOLD99", "PRE50", "PRE99", "HELD BY", "WAITS IN", "COMMAND"};
    const char *at = process_out(p), *first, *second;

    cr_expect_eq(p->status, 0, "%s", process_err(p));
    for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
        at = strstr(at, titles[i]);
        cr_assert_not_null(at, "no %s in %s", titles[i], process_out(p));
    }
    first = strstr(at, "rt_inference");
    second = strstr(at, "be_training");
    cr_expect(first && second && (!order || first < second), "%s", process_out(p));
    process_free(p);
}

static bool held_often(const struct message_row *row)
{
    return client_holds(row) >= 20 &&
           (!LOOKS_IN_TIME || histogram_count(row->preemption_times) >= 5);
}

static bool has_launched(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].kernels > 200;
}

static uint64_t holds_awaited, preemptions_awaited;

static bool held_so_often(const struct message_row *row)
{
    return client_holds(row) >= holds_awaited &&
           (!LOOKS_IN_TIME || histogram_count(row->preemption_times) >= preemptions_awaited);
}

/* Seconds in which both programs surely do something: some times what a few requests just took. */
static const char *seconds_of_work(void)
{
    static char text[16];
    struct message_row row;
    uint64_t began_ns = clock_ns();

    cr_assert(client_wait("be_training", held_often, 60, &row));
    holds_awaited = client_holds(&row) + 5;
    preemptions_awaited = histogram_count(row.preemption_times) + 3;
    cr_assert(client_wait("be_training", held_so_often, 60, NULL));
    snprintf(text, sizeof(text), "%.1f", 2 + 5 * (double)(clock_ns() - began_ns) / 1e9);
    return text;
}

Test(operate, list_and_top_show_every_figure_of_two_programs)
{
    struct process *daemon = daemon_start(), *be = long_training();
    struct process *rt = inference_start(rate_with_gaps(), "70");

    cr_assert(client_wait("be_training", held_often, 60, NULL));
    cr_assert(client_wait("rt_inference", has_launched, 60, NULL));
    check_json(RUN("list", "--json"));
    check_json(RUN("top", "--once", "--json", "--interval", seconds_of_work()));
    check_table(RUN("list"), NULL);
    check_table(RUN("top", "--once", "--interval", "0.1"), "level");
    process_free(be);
    inference_stop(rt);
    process_free(rt);
    process_free(daemon);
}

/* ---- names ---------------------------------------------------------------------------------- */

static pid_t named_pid;

static bool is_named(const struct message_row *row)
{
    return row->pid == named_pid;
}

static const json_t *client_of(const json_t *root, pid_t pid)
{
    const json_t *client;
    size_t i;

    json_array_foreach(json_object_get(root, "clients"), i,
                       client) if (number(client, "pid") == pid) return client;
    cr_assert_fail("process %d is not listed", (int)pid);
    return NULL;
}

static void is_plain(const char *text)
{
    for (; *text; text++)
        cr_expect(*text == '\n' || (*text >= ' ' && *text <= '~'), "byte %d", *text);
}

/* The program's line of the table has the word. */
static bool line_has(const char *out, pid_t pid, const char *word)
{
    const char *line = strstr(out, pid_text(pid)), *at = line ? strstr(line, word) : NULL;

    return at && at < line + strcspn(line, "\n");
}

static void shown_in_table(struct process *p, pid_t pid)
{
    const char *out = process_out(p);

    is_plain(out);
    cr_expect(line_has(out, pid, "--steps"), "%s", out);
    process_free(p);
}

/* A process may have any name: none, one of two lines, one with orders to a terminal. */
static void listed_as(const char *name, const char *seen)
{
    struct process *be = process_start(
        (const char *[]){"/bin/bash", "-c",
                         PRELOAD " exec -a \"$0\" " EXAMPLE("be_training") " --steps 1000000", name,
                         NULL},
        (const char *[]){SIMULATOR, NULL});
    struct process *p;
    json_t *root;

    named_pid = be->pid;
    cr_assert(client_wait(NULL, is_named, 60, NULL), "%s", seen);
    p = RUN("list", "--json");
    root = json_loads(process_out(p), 0, NULL);
    cr_assert_not_null(root, "%s", process_out(p));
    cr_expect_str_eq(text(client_of(root, be->pid), "command"), seen);
    json_decref(root);
    process_free(p);
    shown_in_table(RUN("list"), be->pid);
    shown_in_table(RUN("top", "--once", "--interval", "0.1"), be->pid);
    process_free(be);
}

Test(operate, programs_of_any_name_are_shown_with_their_arguments)
{
    struct process *daemon = daemon_start();

    listed_as("", " --steps 1000000");
    listed_as("dir/", "dir/ --steps 1000000");
    listed_as("two words", "two words --steps 1000000");
    listed_as("two\nlines", "two?lines --steps 1000000");
    listed_as("\033[2J\033]0;x\a", "?[2J?]0;x? --steps 1000000");
    listed_as("na\303\257ve", "na??ve --steps 1000000");
    listed_as("longer than what a page has room for",
              "longer than what a page has room for --steps 1000000");
    process_free(daemon);
}

static void leaves_top(const char *key)
{
    struct process *daemon = daemon_start();
    struct terminal *t;

    setenv("TERM", "xterm", 1);
    setenv("CUTIN_SOCKET", daemon_path(), 1);
    t = terminal_start((const char *[]){CUTIN, "top", "--interval", "0.1", NULL});
    cr_expect(terminal_shows(t, "COMMAND"));
    terminal_press(t, key);
    cr_expect_eq(terminal_wait(t), 0);
    terminal_free(t);
    process_free(daemon);
}

Test(operate, top_draws_on_terminal_and_q_quits)
{
    leaves_top("q");
}

static void shows_on_columns(const char *columns, const char *first, const char *second)
{
    struct terminal *t = terminal_start(
        (const char *[]){"sh", "-c", "stty cols $0; exec " CUTIN " top", columns, NULL});

    cr_expect(terminal_shows(t, "HELD BY") && terminal_shows(t, "COMMAND"), "%s", t->seen);
    cr_expect(terminal_shows(t, "be_training"), "%s", t->seen);
    cr_expect_not_null(strstr(t->seen, first), "no %s on %s columns", first, columns);
    cr_expect(!second || !strstr(t->seen, second), "%s on %s columns", second, columns);
    terminal_press(t, "q");
    cr_expect_eq(terminal_wait(t), 0);
    terminal_free(t);
}

Test(operate, top_keeps_held_by_column_on_narrow_terminal)
{
    struct process *daemon = daemon_start(), *be = long_training();

    setenv("TERM", "xterm", 1);
    setenv("CUTIN_SOCKET", daemon_path(), 1);
    cr_assert(client_wait("be_training", has_launched, 60, NULL));
    shows_on_columns("80", "HOLD99", "HOLD50");
    shows_on_columns("100", "PRE99", "PRE50");
    shows_on_columns("160", "WAITS IN", NULL);
    process_free(be);
    process_free(daemon);
}

/* "DEVICE" is a column if the processes have more than one. */
Test(operate, list_shows_device_column_for_several_devices)
{
    struct process *daemon = daemon_start(), *be = long_training(), *other, *p;
    char uuid[] = "GPU-00000000", id[32];
    json_t *root;

    cr_assert(client_wait("be_training", has_launched, 60, NULL));
    p = RUN("list");
    cr_expect_null(strstr(process_out(p), "DEVICE"), "%s", process_out(p));
    process_free(p);
    snprintf(id, sizeof(id), "other-it%d", (int)getpid());
    setenv("SIMGPU_ID", id, 1);
    other = inference_start(rate_with_gaps(), "70");
    cr_assert(client_wait("rt_inference", has_launched, 60, NULL));
    p = RUN("list", "--json");
    root = json_loads(process_out(p), 0, NULL);
    snprintf(uuid, sizeof(uuid), "%s",
             text(json_array_get(get(client_of(root, be->pid), "devices"), 0), "uuid"));
    json_decref(root);
    process_free(p);
    p = RUN("list");
    cr_expect_not_null(strstr(process_out(p), " DEVICE "), "%s", process_out(p));
    cr_expect(line_has(process_out(p), be->pid, uuid + 4), "%s: %s", uuid, process_out(p));
    cr_expect_not(line_has(process_out(p), other->pid, uuid + 4), "%s: %s", uuid, process_out(p));
    process_free(p);
    inference_stop(other);
    process_free(other);
    process_free(be);
    process_free(daemon);
}

Test(operate, ctrl_c_quits_top)
{
    leaves_top(TERMINAL_CTRL_C);
}

/* ---- what is changed ------------------------------------------------------------------------ */

static bool has_begun(const struct message_row *row)
{
    return client_submitted(row) > 200;
}

static bool is_as_set(const struct message_row *row)
{
    return row->level == 1 && row->weight == 7;
}

static bool is_paused(const struct message_row *row)
{
    return (row->state & ROW_PAUSED) && row_held(row);
}

static bool has_dropped(const struct message_row *row)
{
    return row->device[0].dropped > 0;
}

static bool is_shown_as(const struct process *be, const char *word)
{
    struct process *p = RUN("list");
    bool shown = line_has(process_out(p), be->pid, word);

    process_free(p);
    return shown;
}

Test(operate, program_shows_pausing_until_in_flight_work_ends)
{
    struct process *daemon = daemon_start();
    struct process *be =
        process_start((const char *[]){BIN_DIR "/tests/program_gates", sandbox_path("queue"),
                                       sandbox_path("begin"), NULL},
                      (const char *[]){"CUTIN_GATES=off", PRELOAD, SIMULATOR, NULL});

    cr_assert(client_wait("program_gates", has_begun, 60, NULL));
    sandbox_tell("queue");
    cr_assert(process_says(be, "queued", 60), "%s", process_err(be));
    succeeds(RUN("pause", pid_text(be->pid)), "");
    for (int i = 0; i < 20; i++)
        cr_assert(is_shown_as(be, " pausing "), "look %d", i);
    sandbox_tell("begin");
    while (!is_shown_as(be, " paused ")) /* at most until the test's own end */
        cr_assert(process_running(be));
    succeeds(RUN("resume", pid_text(be->pid)), "");
    cr_expect_eq(process_wait(be, 60), 0, "%s", process_err(be));
    process_free(be);
    process_free(daemon);
}

Test(operate, commands_change_a_running_program)
{
    struct process *daemon = daemon_start(), *be = long_training();
    const char *pid = pid_text(be->pid); /* it has become the program */

    cr_assert(client_wait("be_training", has_begun, 60, NULL));
    succeeds(
        RUN("set", pid, "--priority", "1", "--weight", "7", "--depth", "9", "--budget-us", "99"),
        "");
    cr_expect(client_wait("be_training", is_as_set, 20, NULL), "the daemon has answered");
    succeeds(RUN("pause", pid), "");
    cr_expect(client_wait("be_training", is_paused, 20, NULL));
    succeeds(RUN("reset", "--stream", "4000", pid), "");
    cr_expect_not(client_wait("be_training", has_dropped, 0.2, NULL), "no such stream");
    succeeds(RUN("reset", pid), "");
    cr_expect(client_wait("be_training", has_dropped, 20, NULL));
    succeeds(RUN("resume", pid), "");
    cr_expect_not(client_wait("be_training", is_paused, 0.01, NULL));
    succeeds(RUN("policy"), "fixed\n");
    succeeds(RUN("policy", "fair"), "fair\n");
    succeeds(RUN("policy"), "fair\n");
    succeeds(RUN("policy", "--json"), "{\n  \"policy\": \"fair\"\n}\n");
    process_free(be);
    process_free(daemon);
}

/* After su, from cron, and in containers: the folder is another user's, or there is no session. */
Test(operate, run_without_runtime_folder_names_variable_to_set)
{
    static const char *const args[] = {"setpriv",
                                       "--reuid=65534",
                                       "--clear-groups",
                                       "env",
                                       "-u",
                                       "XDG_RUNTIME_DIR",
                                       "-u",
                                       "CUTIN_SOCKET",
                                       CUTIN,
                                       "run",
                                       "true",
                                       NULL};
    struct process *p;
    const char *err;

    if (geteuid() != 0)
        cr_skip("only root can become another user");
    p = process_run(args, NULL, 30);
    err = process_err(p);
    cr_expect_eq(p->status, 0, "it runs all the same: %d: %s", p->status, err);
    cr_expect(strstr(err, "set XDG_RUNTIME_DIR, which su, cron and containers do not set"), "%s",
              err);
    process_free(p);
}

Test(operate, errors_say_what_to_do)
{
    static const char *const commands[] = {"set", "pause", "resume", "reset"};
    struct process *rt, *daemon;

    for (size_t i = 0; i < 4; i++) {
        const char *weight = i == 0 ? "--weight=2" : NULL;

        fails(RUN(commands[i], "1", weight), "no daemon at", "cutin run");
    }
    fails(RUN("policy"), "no daemon at", "cutin run");
    fails(RUN("policy", "fair"), "no daemon at", "cutin run");
    fails(RUN("top", "--once"), "no daemon at", "cutin run");
    fails(RUN("top"), "not a terminal", "--once");
    daemon = daemon_start();
    fails(RUN("pause", "1"), "no process 1 runs under cutin", "cutin list");
    fails(RUN("set", "1", "--weight", "2"), "no process 1 runs under cutin", "cutin list");
    fails(RUN("policy", "nonsense"), "no policy nonsense", "--list");
    rt = inference_start("60", "10");
    cr_assert(client_wait("rt_inference", has_launched, 60, NULL));
    fails(RUN("pause", pid_text(rt->pid)), "started as rt", "lower level");
    fails(RUN("reset", pid_text(rt->pid)), "started as rt", "lower level");
    inference_stop(rt);
    process_signal(daemon, SIGSTOP);
    fails(RUN("pause", "1"), "does not answer", "stopped");
    process_signal(daemon, SIGCONT);
    process_free(rt);
    process_free(daemon);
}

/* ---- another user --------------------------------------------------------------------------- */

#define AS_NOBODY "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"

/* Only the owner may have access to the folders of the sandbox and the build. */
static bool nobody_gets_in(void)
{
    struct process *p;
    bool in;

    cr_assert_eq(chmod(sandbox_folder(), 0755), 0);
    cr_assert_eq(chmod(sandbox_path("cutin"), 0755), 0);
    p = process_run((const char *[]){AS_NOBODY, "sh", "-c", "test -S \"$1\" && exec \"$0\" version",
                                     CUTIN, daemon_path(), NULL},
                    NULL, 30);
    in = p->status == 0;
    process_free(p);
    return in;
}

static struct process *as_nobody(const char *const *args)
{
    static const char *const env[] = {"XDG_RUNTIME_DIR", "TMPDIR=/tmp", NULL};
    const char *argv[24] = {AS_NOBODY};

    for (int i = 0; args[i]; i++)
        argv[4 + i] = args[i];
    setenv("CUTIN_SOCKET", daemon_path(), 1);
    return process_run(argv, env, 60);
}

static bool there_is(const char *path, struct process *of)
{
    while (access(path, F_OK) != 0 && process_running(of))
        nap_ms(5);
    return process_running(of);
}

/* Only $XDG_RUNTIME_DIR tells where the daemon is. */
static struct process *by_folder(const char *const *args)
{
    setenv("XDG_RUNTIME_DIR", sandbox_path("open"), 1);
    return process_run(args, (const char *[]){"CUTIN_SOCKET", NULL}, 30);
}

/* With XDG_RUNTIME_DIR=/tmp the first user makes `cutin` there, and a daemon that holds others. */
Test(operate, daemon_of_other_user_in_open_folder_is_rejected)
{
    const char *const list[] = {CUTIN, "list", "--json", NULL};
    const char *const program[] = {CUTIN,     "run", "--sim", "--", EXAMPLE("be_training"),
                                   "--steps", "1",   NULL};
    char socket[128], folder[128];
    struct process *theirs, *p;

    if (geteuid() != 0)
        cr_skip("only root can become a second user");
    snprintf(folder, sizeof(folder), "%s", sandbox_path("open/cutin"));
    snprintf(socket, sizeof(socket), "%s", sandbox_path("open/cutin/cutin.sock"));
    cr_assert_eq(mkdir(sandbox_path("open"), 0700), 0);
    cr_assert_eq(chmod(sandbox_path("open"), 01777), 0);
    cr_assert_eq(chmod(sandbox_folder(), 0755), 0);
    /* The daemon accepts every user. */
    theirs = process_start((const char *[]){AS_NOBODY, "sh", "-c",
                                            "mkdir \"$2\" && chmod 755 \"$2\" && "
                                            "echo '[socket]\nmode = 0666' >\"$2/conf\" && "
                                            "exec \"$0\" --socket \"$1\" --config \"$2/conf\"",
                                            BIN_DIR "/cutind", socket, folder, NULL},
                           NULL);
    if (!there_is(socket, theirs))
        cr_skip("another user cannot reach this build folder: %s", process_err(theirs));
    fails(by_folder(list), "is another user's", "set XDG_RUNTIME_DIR");
    p = by_folder((const char *[]){CUTIN, "doctor", "--sim", NULL});
    cr_expect_not_null(strstr(process_out(p), "is another user's, in a folder"), "%s",
                       process_out(p));
    cr_expect_not_null(
        strstr(process_out(p), "does not answer this question: its socket is another user's"), "%s",
        process_out(p));
    process_free(p);
    p = by_folder(program);
    cr_expect_eq(p->status, 0, "%d: %s", p->status, process_err(p));
    cr_expect_not_null(strstr(process_err(p), "running without the daemon"), "%s", process_err(p));
    cr_expect_not_null(strstr(process_err(p), "no scheduler at"), "the library: %s",
                       process_err(p));
    process_free(p);
    process_signal(theirs, SIGTERM);
    cr_expect_eq(process_wait(theirs, 20), 0);
    process_free(theirs);

    /* The other user's folder without a daemon, writable for all. */
    cr_assert_eq(chmod(folder, 0777), 0);
    p = by_folder((const char *[]){CUTIN, "run", "true", NULL});
    cr_expect_eq(p->status, 0);
    cr_expect_not_null(strstr(process_err(p), "by hand to see why; running without the daemon"),
                       "%s", process_err(p));
    process_free(p);

    /* The user's own daemon there is found. */
    cr_assert_eq(chown(folder, 0, 0) | chmod(folder, 0755), 0);
    theirs = process_start((const char *[]){BIN_DIR "/cutind", "--socket", socket, NULL}, NULL);
    cr_assert(there_is(socket, theirs), "%s", process_err(theirs));
    p = by_folder(list);
    cr_expect_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    process_free(theirs);
}

/* In a container /run may be open to all; the machine's daemon is another user's by design. */
Test(operate, machine_daemon_in_open_folder_is_accepted)
{
    static const char script[] =
        "mount -t tmpfs -o mode=1777 none /run && mkdir /run/cutin && chown 65534 /run/cutin || "
        "exit 77\n"
        "setpriv --reuid=65534 --regid=65534 --clear-groups \"$1\" --socket " MACHINE_SOCKET
        " 2>&1 &\n"
        "n=0; until [ -S " MACHINE_SOCKET " ] || [ $n = 200 ]; do n=$((n + 1)); sleep 0.1; done\n"
        "[ -S " MACHINE_SOCKET " ] || exit 77\n"
        "\"$0\" list --socket " MACHINE_SOCKET "; said=$?\n"
        "kill $!; wait; exit $said\n";
    struct process *p;

    if (geteuid() != 0)
        cr_skip("only root can become a second user");
    p = process_run(
        (const char *[]){"unshare", "--mount", "sh", "-c", script, CUTIN, BIN_DIR "/cutind", NULL},
        NULL, 60);
    if (strncmp(process_err(p), "unshare: ", 9) == 0 || p->status == 77)
        cr_skip("no /run of one's own, or another user cannot reach this build folder: %s",
                process_err(p));
    cr_expect_eq(p->status, 0, "%s%s", process_out(p), process_err(p));
    process_free(p);
}

/* One line says why, and which rule would allow it. */
static void told_once(const char *err)
{
    cr_expect(*err && strchr(err, '\n') == err + strlen(err) - 1, "%s", err);
    cr_expect_not_null(strstr(err, "CUTIN_PRIORITY=rt was not granted, running as be"), "%s", err);
    cr_expect_not_null(strstr(err, "`rt = uid:65534` under [allow]"), "%s", err);
}

Test(operate, user_without_rule_gets_best_effort_and_one_message)
{
    struct process *daemon, *p, *mine;
    json_t *root, *client;

    if (geteuid() != 0)
        cr_skip("only root can become a second user");
    daemon = daemon_start();
    if (!nobody_gets_in())
        cr_skip("another user cannot reach this build folder");
    p = as_nobody((const char *[]){CUTIN, "run", "--sim", "--priority", "rt", "--",
                                   EXAMPLE("rt_inference"), "--requests", "20", "--json", NULL});
    cr_expect_eq(p->status, 0, "status %d: %s", p->status, process_err(p));
    cr_expect_eq(number_after(process_out(p), "\"requests\""), 20);
    cr_expect_eq(number_after(process_out(p), "\"wrong\""), 0);
    told_once(process_err(p));
    process_free(p);

    mine = process_start((const char *[]){CUTIN, "run", "--sim", "--", EXAMPLE("be_training"),
                                          "--steps", "1000000", NULL},
                         NULL);
    cr_assert(client_wait("be_training", has_begun, 60, NULL));
    fails(as_nobody((const char *[]){CUTIN, "pause", pid_text(mine->pid), NULL}), "not permitted",
          "cutind.conf");
    fails(as_nobody((const char *[]){CUTIN, "set", pid_text(mine->pid), "--weight", "3", NULL}),
          "not permitted", "cutind.conf");
    fails(as_nobody((const char *[]){CUTIN, "policy", "fair", NULL}), "not permitted",
          "cutind.conf");
    p = as_nobody((const char *[]){CUTIN, "list", "--json", NULL});
    root = json_loads(process_out(p), 0, NULL);
    cr_assert_not_null(root, "%s%s", process_out(p), process_err(p));
    client = client_named(root, "be_training");
    cr_expect_str_eq(text(client, "user"), "root");
    cr_expect_str_eq(text(client, "command"), "be_training", "the arguments are another user's");
    json_decref(root);
    process_free(p);
    process_free(mine);
    process_free(daemon);
}
