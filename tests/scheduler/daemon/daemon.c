/*
 * daemon.c - the daemon: its command line, its socket, and hostile clients.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/prctl.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/text.h"
#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"
#include "tests/scheduler/stop.h"
#include "scheduler/wire/protocol.h"
#include "scheduler/wire/query.h"
#include "scheduler/wire/socket.h"

static struct place place;
static char errors[4096];

static void set_up(void)
{
    place_new(&place);
}

static void tear_down(void)
{
    cr_assert(place_free(&place));
}

TestSuite(daemon, .init = set_up, .fini = tear_down);

static int run(const char *option, const char *value)
{
    char *argv[] = {"cutind", (char *)option, (char *)value, NULL};

    return place_run(errors, sizeof(errors), argv);
}

static int lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static int ask(void)
{
    struct message_row *rows;
    size_t n;
    int rc = query_clients(place.socket, &rows, &n);

    free(rows);
    return rc;
}

static bool alive(void)
{
    return ask() == 0;
}

/* ---- command line and socket ----------------------------------------------------------------- */

Test(daemon, bad_usage_exits_2_with_one_line_naming_option)
{
    static const struct {
        const char *option, *value, *says;
    } cases[] = {
        {"--bogus", NULL, "--bogus"},         {"nonsense", NULL, "nonsense"},
        {"--socket", NULL, "--socket"},       {"--idle-exit", "soon", "--idle-exit"},
        {"--idle-exit", "-1", "--idle-exit"}, {"--ready-fd", "9999999999", "--ready-fd"},
        {"--help=yes", NULL, "--help"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cr_assert_eq(run(cases[i].option, cases[i].value), 2, "%s", cases[i].option);
        cr_assert_eq(lines(errors), 1, "%s", errors);
        cr_assert(strstr(errors, cases[i].says), "%s", errors);
    }
}

Test(daemon, impossible_socket_path_is_explained)
{
    char path[300], file[128];

    memset(path, 'x', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    cr_assert_eq(run("--socket", path), 1);
    cr_assert(strstr(errors, "of at most 107"), "%s", errors);
    snprintf(path, sizeof(path), "%s/no/such/s", place.folder);
    cr_assert_eq(run("--socket", path), 1);
    cr_assert_eq(lines(errors), 1);
    snprintf(file, sizeof(file), "%s/file", place.folder);
    fclose(fopen(file, "w"));
    cr_assert_eq(run("--socket", file), 1);
    cr_assert(strstr(errors, "not a socket"), "%s", errors);
    cr_assert_eq(access(file, F_OK), 0, "and it is still there");
    unlink(file);
    snprintf(file, sizeof(file), "%s/file.lock", place.folder);
    unlink(file);
}

Test(daemon, folder_writable_by_others_is_refused)
{
    cr_assert_eq(chmod(place.folder, 0777), 0);
    cr_assert_eq(run("--socket", place.socket), 1);
    cr_assert(strstr(errors, "can be written by others"), "%s", errors);
}

/* Each was made beforehand by another user. */
Test(daemon, folder_of_another_user_is_refused)
{
    enum { OTHER = 65534 };
    static const struct {
        mode_t mode;
        bool link;
        const char *why;
    } made[] = {
        {0700, false, "belongs to user 65534"},  {0755, false, "belongs to user 65534"},
        {01777, false, "belongs to user 65534"}, {0777, false, "belongs to user 65534"},
        {0700, true, "belongs to user 65534"},
    };
    char folder[96], ours[96], socket[112];
    char *argv[] = {"cutind", "--socket", socket, "--idle-exit", "1", NULL};

    if (geteuid() != 0)
        cr_skip("only root can be a second user");
    snprintf(folder, sizeof(folder), "%s/cutin", place.folder);
    snprintf(ours, sizeof(ours), "%s/ours", place.folder);
    snprintf(socket, sizeof(socket), "%s/cutin.sock", folder);
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        cr_assert_eq(mkdir(made[i].link ? ours : folder, made[i].mode), 0);
        if (made[i].link)
            cr_assert_eq(symlink(ours, folder), 0);
        else
            cr_assert_eq(chmod(folder, made[i].mode), 0);
        cr_assert_eq(lchown(folder, OTHER, OTHER), 0);
        cr_expect_eq(place_run(errors, sizeof(errors), argv), 1, "%zu", i);
        cr_expect(strstr(errors, made[i].why) && lines(errors) == 1, "%zu: %s", i, errors);
        cr_expect_neq(access(socket, F_OK), 0);
        cr_assert_eq(made[i].link ? unlink(folder) : rmdir(folder), 0);
    }
    cr_assert_eq(rmdir(ours), 0);
}

Test(daemon, a_second_daemon_leaves_the_first_alone)
{
    place_start(&place);
    cr_assert_eq(run("--socket", place.socket), 3);
    cr_assert_eq(lines(errors), 1);
    cr_assert(strstr(errors, place.socket), "%s", errors);
    cr_assert(alive());
    cr_assert_eq(place_stop(&place), 0);
    cr_assert_neq(access(place.socket, F_OK), 0, "a daemon that ends removes its socket");
}

Test(daemon, stale_socket_is_replaced)
{
    for (int i = 0; i < 3; i++) {
        place_start(&place);
        place_kill(&place);
        cr_assert_eq(access(place.socket, F_OK), 0);
    }
    place_start(&place);
    cr_assert(alive());
}

Test(daemon, only_one_of_many_started_at_once_stays)
{
    enum { N = 6 };
    char *argv[] = {"cutind", "--socket", place.socket, NULL};
    pid_t pids[N];
    int refused = 0, status;

    place_start(&place);
    place_kill(&place); /* with a stale socket in the way, too */
    for (int i = 0; i < N; i++) {
        pids[i] = place_spawn(argv);
    }
    for (int i = 0; i < N - 1; i++) {
        pid_t ended = waitpid(-1, &status, 0);

        refused += WIFEXITED(status) && WEXITSTATUS(status) == 3;
        for (int k = 0; k < N; k++)
            if (pids[k] == ended)
                pids[k] = 0;
    }
    cr_assert_eq(refused, N - 1);
    WAIT_UNTIL(alive());
    for (int k = 0; k < N; k++)
        if (pids[k]) {
            kill(pids[k], SIGTERM);
            waitpid(pids[k], NULL, 0);
        }
}

Test(daemon, exits_when_idle_unless_client_is_connected)
{
    struct actor a;
    char *argv[] = {"cutind", "--socket", place.socket, "--idle-exit", PLACE_IDLE_S, NULL};
    int status;
    pid_t pid;

    cr_assert_eq(place_run(errors, sizeof(errors), argv), 0);
    pid = place_spawn(argv);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 0, 0);
    WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1);
    place_outlast(&place);
    cr_assert_eq(waitpid(pid, &status, WNOHANG), 0);
    actor_kill(&a);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A daemon that ends by itself ends when that process has ended, and not earlier. */
static void ends_with(pid_t daemon, pid_t process)
{
    int status;

    place_outlast(&place);
    cr_assert_eq(waitpid(daemon, &status, WNOHANG), 0);
    kill(process, SIGKILL);
    waitpid(process, &status, 0);
    cr_assert_eq(waitpid(daemon, &status, 0), daemon);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* As `cutin run`, which becomes a program that may use the GPU much later. */
Test(daemon, idle_exit_waits_until_asking_process_ends)
{
    char *argv[] = {"cutind", "--socket", place.socket, "--idle-exit", PLACE_IDLE_S, NULL};
    pid_t pid = place_spawn(argv), asks = place_asker(&place, getuid(), 1);
    int status;

    for (int i = 0; i < 40; i++) { /* others, which do not take the asker's place */
        pid_t other = fork();
        if (other == 0) {
            while (!alive())
                usleep(1000);
            _exit(0);
        }
        waitpid(other, &status, 0);
    }
    ends_with(pid, asks);
}

/* Starts the daemon as process 1 of a PID namespace, as in a container. */
static pid_t spawn_inside(char *const argv[])
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid < 0)
        cr_skip("no PID namespace can be made here");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(BIN_DIR "/cutind", argv);
        _exit(127);
    }
    return pid;
}

/* A process that asks from outside has no number there. */
Test(daemon, idle_exit_in_container_waits_for_outside_asker)
{
    enum { OFTEN = 40 }; /* more than the daemon remembers */
    char *argv[] = {"cutind", "--socket", place.socket, "--idle-exit", PLACE_IDLE_S, NULL};
    pid_t pid = spawn_inside(argv), asks = place_asker(&place, getuid(), 1),
          another = place_asker(&place, getuid(), OFTEN);

    kill(another, SIGKILL);
    waitpid(another, NULL, 0);
    ends_with(pid, asks);
}

/* Few descriptors are allowed. */
Test(daemon, remembered_askers_leave_descriptors_for_new_clients)
{
    enum { FILES = 40, ASK = 40 };
    char *argv[] = {"cutind", "--socket", place.socket, "--idle-exit", PLACE_IDLE_S, NULL};
    struct rlimit few = {FILES, FILES};
    pid_t asks[ASK];
    struct actor a;

    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    place.daemon = place_spawn(argv);
    for (int i = 0; i < ASK; i++)
        asks[i] = place_asker(&place, getuid(), 1);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 0, 0);
    WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1);
    actor_kill(&a);
    for (int i = 0; i < ASK; i++) {
        kill(asks[i], SIGKILL);
        waitpid(asks[i], NULL, 0);
    }
}

Test(daemon, removed_socket_is_recreated)
{
    char lock[112];
    struct actor a;

    snprintf(lock, sizeof(lock), "%s.lock", place.socket);
    place_start(&place);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 0, 0);
    WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1);
    cr_assert_eq(unlink(place.socket), 0);
    WAIT_UNTIL(alive());
    cr_assert_eq(unlink(place.socket) | unlink(lock), 0);
    WAIT_UNTIL(alive());
    cr_assert_eq(actor_do(&a, DO_CONNECTED, 0, 0), 1, "who was there has noticed nothing");
    cr_assert_eq(run("--socket", place.socket), 3, "and it is the only one, as before");
    actor_kill(&a);
    cr_assert_eq(place_stop(&place), 0);
    cr_assert_neq(access(place.socket, F_OK), 0);
}

Test(daemon, exits_when_another_daemon_takes_its_socket)
{
    struct place second = place;
    char lock[112];
    int status;

    snprintf(lock, sizeof(lock), "%s.lock", place.socket);
    place_start(&place);
    cr_assert_eq(kill(place.daemon, SIGSTOP), 0);
    cr_assert_eq(unlink(place.socket) | unlink(lock), 0);
    place_start(&second);
    cr_assert_eq(kill(place.daemon, SIGCONT), 0);
    cr_assert_eq(waitpid(place.daemon, &status, 0), place.daemon);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    place = second;
    cr_assert(alive());
}

Test(daemon, socket_mode_is_0666_for_root_and_0600_otherwise)
{
    struct stat st;

    place_start(&place);
    cr_assert_eq(stat(place.socket, &st), 0);
    cr_assert_eq(st.st_mode & 0777, geteuid() == 0 ? 0666 : 0600);
}

Test(daemon, default_socket_path_follows_xdg_runtime_dir)
{
    char path[SOCKET_PATH_MAX], longer[200];

    setenv("XDG_RUNTIME_DIR", "/run/user/5", 1);
    cr_assert_eq(socket_default_path(path), 0);
    cr_assert_str_eq(path, "/run/user/5/cutin/cutin.sock");
    unsetenv("XDG_RUNTIME_DIR");
    cr_assert_eq(socket_default_path(path), 0);
    cr_assert_str_eq(path, "/run/cutin/cutin.sock");
    memset(longer, '/', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    setenv("XDG_RUNTIME_DIR", longer, 1);
    cr_assert_eq(socket_default_path(path), -ENAMETOOLONG);
    cr_assert_str_eq(path, "");
}

/* ---- questions ------------------------------------------------------------------------------- */

static const struct message_row *row_of(const struct message_row *rows, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].pid == pid)
            return &rows[i];
    return NULL;
}

/* From a program's first launch to the link to a client above, a thousand launches may go. */
Test(daemon, client_counts_as_below_before_naming_a_device)
{
    struct actor rt, be;

    place_start(&place);
    actor_new(&be, place.socket);
    actor_do(&be, DO_OPEN, 0, 0);
    cr_expect_eq(actor_do(&be, DO_ABOVE, 0, 0), 0, "there is nobody");
    actor_kill(&be);
    actor_new(&rt, place.socket);
    actor_new(&be, place.socket);
    actor_do(&rt, DO_OPEN, 3, 3);
    actor_do(&rt, DO_DEVICE, 0x11, 0);
    actor_do(&be, DO_OPEN, 0, 0);
    cr_expect_eq(actor_do(&be, DO_ABOVE, 0, 0), 1);
    actor_do(&be, DO_DEVICE, 0x22, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
    actor_do(&be, DO_DEVICE, 0x11, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    actor_kill(&rt);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
    actor_kill(&be);
}

Test(daemon, lists_its_clients)
{
    const struct message_row *r;
    struct message_row *rows;
    struct actor rt, be;
    uint8_t uuid[16];
    size_t n;

    memset(uuid, 0x11, sizeof(uuid));
    place_start(&place);
    cr_assert_eq(query_clients(place.socket, &rows, &n), 0);
    cr_assert_eq(n, 0);
    free(rows);
    actor_new(&rt, place.socket);
    actor_new(&be, place.socket);
    actor_do(&rt, DO_OPEN, 3, 3);
    actor_do(&rt, DO_DEVICE, 0x11, 0);
    actor_do(&be, DO_OPEN, 0, 0);
    actor_do(&be, DO_DEVICE, 0x22, 0);
    actor_do(&be, DO_DEVICE, 0x11, 0);
    actor_do(&be, DO_COUNT, 1, 42);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 1, 0) != 0);
    cr_assert_eq(query_clients(place.socket, &rows, &n), 0);
    cr_assert_eq(n, 2);
    cr_assert((r = row_of(rows, n, rt.pid)));
    cr_assert(r->asked == 3 && r->level == 3 && r->lowest == 3 && r->uid == getuid());
    cr_assert(row_active(r) && !row_held(r) && r->below == 1 && r->above == 0 && r->devices == 1);
    cr_assert_eq(memcmp(r->device[0].uuid, uuid, 16), 0);
    cr_assert(r->device[0].bit < PAGE_CLIENT_BITS && r->device[0].active == 3);
    cr_assert_eq(r->device[0].cut_ins, 1);
    cr_assert((r = row_of(rows, n, be.pid)));
    cr_assert(r->level == 0 && !row_active(r) && row_held(r) && r->above == 1 && r->devices == 2);
    cr_assert_eq(memcmp(r->device[1].uuid, uuid, 16), 0);
    cr_assert_eq(r->device[1].submitted, 42);
    cr_assert_eq(r->device[1].bit, PROTOCOL_NO_BIT);
    cr_assert_str_not_empty(r->name);
    free(rows);
    actor_kill(&rt);
    actor_kill(&be);
    WAIT_UNTIL(query_clients(place.socket, &rows, &n) == 0 && (free(rows), n == 0));
}

static bool counted_before(pid_t pid, uint64_t daemon_ms)
{
    const struct message_row *r;
    struct message_row *rows;
    size_t n;

    if (query_clients(place.socket, &rows, &n) != 0)
        return false;
    r = row_of(rows, n, pid);
    bool before = r && r->age_ms > now_ms() - daemon_ms + 1;
    free(rows);
    return before;
}

/* Its counters are kept, so the time that divides them must be as old as they are. */
Test(daemon, client_age_survives_daemon_restart)
{
    struct actor be;
    uint64_t started_ms;

    place_start(&place);
    actor_new(&be, place.socket);
    actor_do(&be, DO_OPEN, 0, 0);
    actor_do(&be, DO_DEVICE, 0x11, 0);
    started_ms = now_ms();
    WAIT_UNTIL(now_ms() > started_ms + 200); /* more than an answer takes */
    place_kill(&place);
    WAIT_UNTIL(actor_do(&be, DO_CONNECTED, 0, 0) == 0);
    started_ms = now_ms();
    place_start(&place);
    WAIT_UNTIL(counted_before(be.pid, started_ms));
    actor_kill(&be);
}

Test(daemon, query_distinguishes_missing_from_dead_daemon)
{
    struct message_row *rows;
    size_t n;

    cr_assert_eq(query_clients(place.socket, &rows, &n), -ENOENT);
    cr_assert_null(rows);
    place_start(&place);
    place_kill(&place);
    cr_assert_eq(query_clients(place.socket, &rows, &n), -ECONNREFUSED);
}

/* They stay open, to fill the backlog, until the next ones. */
static int full(void)
{
    static int fds[4096], n;

    while (n > 0)
        close(fds[--n]);
    while (n < 4096 && (fds[n] = socket_connect(place.socket)) >= 0)
        n++;
    return fds[n];
}

/* How often the process has slept. */
static unsigned long sleeps(pid_t pid)
{
    unsigned long n = 0;
    char path[64], line[256];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    cr_assert_not_null(f = fopen(path, "r"));
    while (fgets(line, sizeof(line), f) && sscanf(line, "voluntary_ctxt_switches: %lu", &n) != 1)
        ;
    fclose(f);
    return n;
}

/* Asks once, of a daemon that goes on only when the process that asks has been refused some times,
 * and has slept after each. */
static int ask_one_that_is_stopped(void)
{
    int status;
    pid_t pid;

    cr_assert_eq(kill(place.daemon, SIGSTOP), 0);
    cr_assert_eq(full(), -EAGAIN);
    pid = fork();
    if (pid == 0)
        _exit(-ask());
    WAIT_UNTIL(sleeps(pid) >= 20);
    cr_assert_eq(kill(place.daemon, SIGCONT), 0);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

Test(daemon, query_waits_for_admission_and_for_a_stopped_daemon)
{
    uint64_t began;
    int rc;

    place_start(&place);
    cr_assert_eq(kill(place.daemon, SIGSTOP), 0);
    cr_assert_eq(full(), -EAGAIN);
    began = now_ms();
    cr_assert_eq(ask(), -ETIMEDOUT);
    cr_assert_geq(now_ms() - began, QUERY_WAIT_MS - 1);
    /* A busy machine's daemon may let nobody in for longer. */
    WAIT_UNTIL((rc = ask_one_that_is_stopped()) != -ETIMEDOUT);
    cr_assert_eq(rc, 0, "%d", rc);
}

static bool says(struct actor *a, const char *what)
{
    return actor_do(a, DO_LOGGED, 0, 0) >= 0 && strstr(a->said, what);
}

Test(daemon, silence_and_return_are_both_logged_as_warnings)
{
    struct actor a;

    place_start(&place);
    actor_new(&a, place.socket);
    cr_assert_eq(kill(place.daemon, SIGSTOP), 0);
    actor_do(&a, DO_OPEN, 0, 0);
    WAIT_UNTIL(says(&a, "it does not answer"));
    cr_assert_eq(actor_do(&a, DO_LOGGED, 0, 0), LOG_WARN);
    cr_assert_eq(kill(place.daemon, SIGCONT), 0);
    WAIT_UNTIL(says(&a, "registered with the scheduler"));
    cr_assert_eq(actor_do(&a, DO_LOGGED, 0, 0), LOG_WARN, "as loud as what it takes back");
    actor_kill(&a);
}

/* The program goes on after 400 ms. The link waits on, and there is no message. */
Test(daemon, answer_delayed_by_700_ms_logs_nothing)
{
    uint64_t from_ms;
    struct actor a;
    int status;
    pid_t pid;

    place_start(&place);
    actor_new(&a, place.socket);
    cr_assert_eq(kill(place.daemon, SIGSTOP), 0);
    from_ms = now_ms();
    pid = fork();
    if (pid == 0) {
        usleep(700000);
        _exit(kill(place.daemon, SIGCONT));
    }
    actor_do(&a, DO_OPEN, 0, 0);
    WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1); /* it may have given up before */
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (now_ms() - from_ms < 2000) /* else a message is allowed */
        cr_expect_eq(actor_do(&a, DO_LOGGED, 0, 0), -1, "%s", a.said);
    actor_kill(&a);
}

/* Starts a daemon that only does `be`, and a client that opens it. */
static pid_t stand_in(struct actor *a, void (*be)(int listener))
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    pid_t pid;

    strcpy(address.sun_path, place.socket);
    cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(listener, 4), 0);
    actor_new(a, place.socket);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be(listener);
    }
    close(listener);
    actor_do(a, DO_OPEN, 0, 0);
    return pid;
}

/* Answers as a daemon of another version does, whatever it is asked. */
static void be_older(int listener)
{
    union message m;
    int fd = accept(listener, NULL, NULL);

    message_init(&m, MESSAGE_DONE);
    m.header.version = PROTOCOL_VERSION - 1;
    m.done.error = -EPROTO;
    message_send(fd, &m, -1);
    pause();
}

Test(daemon, version_mismatch_names_both_versions_and_remedy)
{
    char versions[96];
    struct actor a;
    pid_t pid = stand_in(&a, be_older);

    snprintf(versions, sizeof(versions), "version %u of the protocol and this library version %u",
             PROTOCOL_VERSION - 1, PROTOCOL_VERSION);
    WAIT_UNTIL(says(&a, versions));
    cr_assert(strstr(a.said, "install the same cutin on both sides"), "%s", a.said);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    actor_kill(&a);
}

Test(daemon, stops_only_at_its_owners_request)
{
    int status;
    pid_t pid;

    place_start(&place);
    if (geteuid() == 0) {
        pid = fork();
        if (pid == 0)
            _exit(setuid(65534) == 0 && daemon_stop(place.socket) == -EPERM ? 0 : 1);
        waitpid(pid, &status, 0);
        cr_assert_eq(status, 0);
        cr_assert(alive());
    }
    cr_assert_eq(daemon_stop(place.socket), 0);
    waitpid(place.daemon, &status, 0);
    place.daemon = 0;
    cr_assert_eq(status, 0);
    cr_assert_neq(access(place.socket, F_OK), 0);
}

/* ---- hostile clients ------------------------------------------------------------------------- */

static void hello(union message *m, uint32_t level)
{
    message_init(m, MESSAGE_HELLO);
    m->hello.level = level;
    strcpy(m->hello.name, "test");
}

static void device(union message *m, uint32_t slot, int number)
{
    message_init(m, MESSAGE_DEVICE);
    m->device.slot = slot;
    memset(m->device.uuid, number, 16);
}

/* True once the daemon has closed this connection. */
static bool closed(int fd)
{
    char bytes[4096];
    ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno == ECONNRESET);
}

Test(daemon, random_bytes_end_only_their_connection)
{
    unsigned char bytes[4096];
    union message m;
    int good;

    place_start(&place);
    good = bare_connect(place.socket, (uid_t)-1);
    bare_hello(good, 0);
    srand(7);
    for (int i = 0; i < 300; i++) {
        int silent = bare_connect(place.socket, (uid_t)-1);
        int fd = bare_connect(place.socket, (uid_t)-1);
        size_t size = (size_t)rand() % sizeof(bytes);

        for (size_t k = 0; k < size; k++)
            bytes[k] = (unsigned char)rand();
        if (i % 2) { /* behind a good beginning, and with a plausible header */
            hello(&m, 3);
            cr_assert_eq(message_send(fd, &m, -1), 0);
            device(&m, (uint32_t)rand() % 20, rand() % 3);
            memcpy(bytes, &m, sizeof(m.header) + (size_t)(rand() % 30));
        }
        cr_assert_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size);
        WAIT_UNTIL(closed(fd));
        cr_assert_not(closed(silent), "an older one that says nothing would end first");
        close(fd);
        close(silent);
    }
    cr_assert_eq(bare_settle(good), 0);
    close(good);
    cr_assert(alive());
}

Test(daemon, message_out_of_order_ends_connection)
{
    static const enum message_type first[] = {MESSAGE_DEVICE, MESSAGE_JOINED, MESSAGE_WELCOME};
    union message m;
    int fd;

    place_start(&place);
    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
        cr_assert_geq(fd = socket_connect(place.socket), 0);
        message_init(&m, first[i]);
        cr_assert_eq(message_send(fd, &m, -1), 0);
        WAIT_UNTIL(closed(fd));
        close(fd);
    }
    cr_assert_geq(fd = socket_connect(place.socket), 0);
    hello(&m, 3);
    message_send(fd, &m, -1);
    message_send(fd, &m, -1); /* twice */
    WAIT_UNTIL(closed(fd));
    close(fd);
    cr_assert_geq(fd = socket_connect(place.socket), 0);
    message_send(fd, &m, -1);
    device(&m, 0, 5);
    message_send(fd, &m, -1);
    device(&m, 1, 5); /* the same device in another slot */
    message_send(fd, &m, -1);
    WAIT_UNTIL(closed(fd));
    close(fd);
    cr_assert(alive());
}

Test(daemon, client_of_another_version_gets_eproto)
{
    union message m;
    int fd, rc;

    place_start(&place);
    cr_assert_geq(fd = socket_connect(place.socket), 0);
    hello(&m, 0);
    m.header.version = PROTOCOL_VERSION + 1;
    cr_assert_eq(message_send(fd, &m, -1), 0);
    WAIT_UNTIL((rc = message_receive(fd, TO_CLIENT, &m, NULL)) != -EAGAIN);
    cr_assert_eq(rc, 0);
    cr_assert(m.header.type == MESSAGE_DONE && m.done.error == -EPROTO);
    WAIT_UNTIL(closed(fd));
    close(fd);
}

Test(daemon, unknown_request_gets_eopnotsupp_and_connection_stays)
{
    union message m;
    int fd;

    place_start(&place);
    cr_assert_geq(fd = socket_connect(place.socket), 0);
    message_init(&m, MESSAGE_LIST);
    m.header.type = MESSAGE_TYPES + 7;
    bare_send(fd, &m);
    cr_assert_eq(bare_wait(fd, MESSAGE_DONE, &m), 0);
    cr_assert_eq(m.done.error, -EOPNOTSUPP);
    message_init(&m, MESSAGE_CONTROL);
    m.control.kind = CONTROL_KIND_COUNT;
    m.control.pid = getpid();
    bare_send(fd, &m);
    cr_assert_eq(bare_wait(fd, MESSAGE_DONE, &m), 0);
    cr_assert_eq(m.done.error, -EOPNOTSUPP);
    bare_hello(fd, 0);
    cr_assert_eq(bare_wait(fd, MESSAGE_WELCOME, NULL), 0);
    close(fd);
}

/* A later release's daemon: it says what this one does not know, and does not know its
 * questions. */
static void be_later(int listener)
{
    struct cutin_page *page;
    union message m;
    int fd = accept(listener, NULL, NULL), page_fd;

    message_init(&m, MESSAGE_LEVEL);
    m.header.type = MESSAGE_TYPES + 7;
    message_send(fd, &m, -1);
    message_init(&m, MESSAGE_WELCOME);
    m.welcome.client = 77;
    if (page_new_shared(&page, &page_fd) != 0)
        _exit(1);
    message_send(fd, &m, page_fd);
    message_init(&m, MESSAGE_DONE);
    m.done.error = -EOPNOTSUPP;
    message_send(fd, &m, -1);
    message_init(&m, MESSAGE_REMOTE);
    m.remote.kind = CONTROL_KIND_COUNT;
    message_send(fd, &m, -1);
    m.remote.kind = CONTROL_BUDGET_US; /* it comes, so those before it did no harm */
    m.remote.value = 123;
    message_send(fd, &m, -1);
    pause();
}

Test(daemon, client_ignores_unknown_messages_of_later_release)
{
    struct actor a;
    pid_t pid = stand_in(&a, be_later);

    WAIT_UNTIL(actor_do(&a, DO_ORDERED, CONTROL_BUDGET_US, 0) == 123);
    cr_assert_eq(actor_do(&a, DO_CONNECTED, 0, 0), 1);
    cr_assert_eq(actor_do(&a, DO_LOGGED, 0, 0), -1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    actor_kill(&a);
}

Test(daemon, client_that_never_reads_does_not_delay_others)
{
    union message m;
    struct actor rt, be;
    int fd;

    place_start(&place);
    cr_assert_geq(fd = socket_connect(place.socket), 0);
    hello(&m, 3);
    message_send(fd, &m, -1);
    /* Far more answers than the queue takes. */
    message_init(&m, MESSAGE_LIST);
    for (int i = 0; i < 20000; i++)
        if (message_send(fd, &m, -1) == -EPIPE)
            break;
    actor_new(&rt, place.socket);
    actor_new(&be, place.socket);
    actor_do(&rt, DO_OPEN, 3, 3);
    actor_do(&be, DO_OPEN, 0, 0);
    actor_do(&rt, DO_DEVICE, 1, 0);
    actor_do(&be, DO_DEVICE, 1, 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    close(fd);
    cr_assert(alive());
    actor_kill(&rt);
    actor_kill(&be);
}

Test(daemon, corrupt_page_harms_only_its_own_client)
{
    union message m, welcome;
    struct cutin_page *page;
    struct message_row *rows;
    struct actor be;
    size_t n;
    int fd, page_fd, rc;

    place_start(&place);
    actor_new(&be, place.socket);
    actor_do(&be, DO_OPEN, 0, 0);
    actor_do(&be, DO_DEVICE, 1, 0);
    cr_assert_geq(fd = socket_connect(place.socket), 0);
    hello(&m, 0);
    message_send(fd, &m, -1);
    WAIT_UNTIL((rc = message_receive(fd, TO_CLIENT, &welcome, &page_fd)) != -EAGAIN);
    cr_assert_eq(rc, 0);
    page = page_new();
    cr_assert_eq(page_map(page_fd, page), 0);
    close(page_fd);
    memset(page, 0xff, sizeof(*page));
    device(&m, 0, 1);
    message_send(fd, &m, -1);
    WAIT_UNTIL(query_clients(place.socket, &rows, &n) == 0 && n == 2 &&
               (rows[1].devices == 1 || (free(rows), false)));
    cr_assert(rows[1].level == 0 && rows[1].pid == getpid() && rows[1].uid == getuid());
    cr_assert_eq(rows[1].device[0].uuid[0], 1);
    free(rows);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    page_unmap(page);
    close(fd);
    actor_kill(&be);
    cr_assert(alive());
}

Test(daemon, bits_run_out_and_are_reused_once_freed)
{
    enum { N = PAGE_CLIENT_BITS + 1 };
    uint32_t seen = 0;
    int fd[N], rc;
    union message m;

    place_start(&place);
    for (int i = 0; i < N; i++) {
        WAIT_UNTIL((fd[i] = socket_connect(place.socket)) >= 0);
        hello(&m, 3);
        message_send(fd[i], &m, -1);
        device(&m, 0, 1);
        message_send(fd[i], &m, -1);
        do
            WAIT_UNTIL((rc = message_receive(fd[i], TO_CLIENT, &m, NULL)) != -EAGAIN);
        while (rc == 0 && m.header.type != MESSAGE_BIT);
        cr_assert_eq(rc, 0);
        if (i < (int)PAGE_CLIENT_BITS) {
            cr_assert_not(seen >> m.bit.bit & 1, "unique");
            seen |= 1u << m.bit.bit;
        } else {
            cr_assert_eq(m.bit.bit, PROTOCOL_NO_BIT);
        }
    }
    cr_assert_eq(seen, PAGE_BITS_CLIENTS);
    for (int i = 0; i < N; i++)
        close(fd[i]);
    WAIT_UNTIL((fd[0] = socket_connect(place.socket)) >= 0);
    hello(&m, 3);
    message_send(fd[0], &m, -1);
    device(&m, 0, 1);
    message_send(fd[0], &m, -1);
    do
        WAIT_UNTIL((rc = message_receive(fd[0], TO_CLIENT, &m, NULL)) != -EAGAIN);
    while (rc == 0 && m.header.type != MESSAGE_BIT);
    cr_assert_lt(m.bit.bit, PAGE_CLIENT_BITS);
    close(fd[0]);
}

Test(daemon, survives_300_connections)
{
    enum { N = 300 };
    int fd[N];

    place_start(&place);
    for (int i = 0; i < N; i++)
        fd[i] = socket_connect(place.socket);
    for (int i = 0; i < N; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    WAIT_UNTIL(alive());
}
