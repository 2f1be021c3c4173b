/*
 * permission.c - processes of another user at a daemon of ours. Needs root, for the second user.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"
#include "scheduler/policy/job.h"
#include "scheduler/wire/query.h"

enum { OTHER = 65534 };

static struct place place;

static void set_up(void)
{
    if (geteuid() != 0)
        cr_skip("only root can become a second user");
    place_new(&place);
    cr_assert_eq(chmod(place.folder, 0755), 0);
}

static void tear_down(void)
{
    if (geteuid() == 0)
        cr_assert(place_free(&place));
}

TestSuite(permission, .init = set_up, .fini = tear_down);

static void join_as_other(struct actor *a, uint32_t level)
{
    actor_new(a, place.socket);
    cr_assert_eq(actor_do(a, DO_USER, OTHER, 0), 0);
    cr_assert_eq(actor_do(a, DO_OPEN, level, level), 0);
    cr_assert_eq(actor_do(a, DO_DEVICE, 0x11, 0), 0);
}

Test(permission, refusal_runs_client_at_best_effort_and_proposes_rule)
{
    struct actor rt, be;
    struct message_row *rows;
    size_t n;

    place_start(&place);
    join_as_other(&rt, 3);
    WAIT_UNTIL(actor_do(&rt, DO_CONNECTED, 0, 0) == 1);
    cr_assert_eq(actor_do(&rt, DO_LEVEL, 0, 0), 0);
    WAIT_UNTIL(strstr(rt.said, "CUTIN_PRIORITY=rt was not granted, running as be"));
    cr_assert(strstr(rt.said, "allow it with `rt = uid:65534` under [allow] in "
                              "/etc/cutin/cutind.conf"),
              "%s", rt.said);
    actor_new(&be, place.socket);
    actor_do(&be, DO_OPEN, 0, 0);
    actor_do(&be, DO_DEVICE, 0x11, 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    cr_assert_eq(query_clients(place.socket, &rows, &n), 0);
    cr_assert(n == 2 && rows[0].asked == 3 && rows[0].level == 0 && rows[0].below == 0);
    free(rows);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0, "nobody is held by it");
    actor_kill(&rt);
    actor_kill(&be);
}

Test(permission, rule_grants_its_level_and_refusal_names_the_file)
{
    struct actor a;

    place_configure(&place, "[allow]\n2 = user:nobody\n");
    place_start(&place);
    join_as_other(&a, 2);
    cr_assert_eq(actor_do(&a, DO_LEVEL, 0, 0), 2);
    cr_assert_eq(actor_do(&a, DO_LOGGED, 0, 0), -1);
    actor_kill(&a);
    join_as_other(&a, 3);
    cr_assert_eq(actor_do(&a, DO_LEVEL, 0, 0), 2, "the highest it may have");
    WAIT_UNTIL(strstr(a.said, place.config));
    actor_kill(&a);
}

Test(permission, reloaded_rules_reach_running_processes)
{
    struct actor a;

    place_configure(&place, "");
    place_start(&place);
    join_as_other(&a, 3);
    cr_assert_eq(actor_do(&a, DO_LEVEL, 0, 0), 0);
    place_configure(&place, "[allow]\nrt = gid:65534\n");
    kill(place.daemon, SIGHUP);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 3);
    place_configure(&place, "[allow]\nrt = this is no rule\n");
    kill(place.daemon, SIGHUP);
    place_configure(&place, "[allow]\nrt = uid:1\n");
    kill(place.daemon, SIGHUP);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 0);
    actor_kill(&a);
}

/* This process plays the batch system: its children are the processes of jobs. */
Test(permission, account_rule_applies_only_to_processes_of_its_jobs)
{
    char jobs[96], text[256];
    struct actor a;

    snprintf(jobs, sizeof(jobs), "%s/jobs", place.folder);
    snprintf(text, sizeof(text), "[allow]\nrt = account:inference\n[jobs]\nfolder = %s\n", jobs);
    place_configure(&place, text);
    place_start(&place);
    join_as_other(&a, 3);
    WAIT_UNTIL(strstr(a.said, "no rule gives user 65534 level rt"));
    actor_kill(&a);
    cr_assert_eq(job_begin(jobs, OTHER, &(struct job){.account = "inference", .id = "1"}), 0);
    join_as_other(&a, 3);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 3);
    actor_kill(&a);
    cr_assert_eq(job_begin(jobs, OTHER, &(struct job){.account = "students", .id = "1"}), 0);
    join_as_other(&a, 3);
    WAIT_UNTIL(strstr(a.said, "no rule gives account students or user 65534 level rt; allow it "
                              "with `rt = account:students` under [allow]"));
    cr_assert_eq(actor_do(&a, DO_LEVEL, 0, 0), 0);
    actor_kill(&a);
    cr_assert_eq(job_begin(jobs, OTHER + 1, &(struct job){.account = "inference", .id = "1"}), 0);
    join_as_other(&a, 3);
    WAIT_UNTIL(strstr(a.said, "no rule gives user 65534 level rt"));
    actor_kill(&a);
    job_end(jobs);
    rmdir(jobs);
}

static int raise_as_other(const struct actor *a)
{
    int fd = bare_connect(place.socket, OTHER);
    union message m;

    message_init(&m, MESSAGE_CONTROL);
    m.control.pid = a->pid;
    m.control.kind = CONTROL_LEVEL;
    m.control.value = 3;
    bare_send(fd, &m);
    cr_assert_eq(bare_wait(fd, MESSAGE_DONE, &m), 0);
    close(fd);
    return m.done.error;
}

Test(permission, account_rule_lets_user_raise_only_job_processes)
{
    char jobs[96], text[256];
    struct actor before, in;

    snprintf(jobs, sizeof(jobs), "%s/jobs", place.folder);
    snprintf(text, sizeof(text), "[allow]\nrt = account:inference\n[jobs]\nfolder = %s\n", jobs);
    place_configure(&place, text);
    place_start(&place);
    join_as_other(&before, 0);
    cr_assert_eq(job_begin(jobs, OTHER, &(struct job){.account = "inference", .id = "1"}), 0);
    join_as_other(&in, 0);
    cr_expect_eq(raise_as_other(&before), -EPERM);
    cr_expect_eq(raise_as_other(&in), 0);
    WAIT_UNTIL(actor_do(&in, DO_LEVEL, 0, 0) == 3);
    cr_expect_eq(actor_do(&before, DO_LEVEL, 0, 0), 0);
    actor_kill(&before);
    actor_kill(&in);
    job_end(jobs);
    rmdir(jobs);
}

Test(permission, self_raised_level_is_lost_with_its_rule)
{
    struct actor a;

    place_configure(&place, "[allow]\nrt = uid:65534\n");
    place_start(&place);
    join_as_other(&a, 0);
    cr_assert_eq(raise_as_other(&a), 0);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 3);
    place_configure(&place, "[allow]\nrt = uid:1\n");
    kill(place.daemon, SIGHUP);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 0);
    actor_kill(&a);
}

Test(permission, client_limit_is_per_user_and_reported)
{
    struct actor a[3], mine;

    place_configure(&place, "[limits]\nclients_per_user = 2\n");
    place_start(&place);
    for (int i = 0; i < 2; i++) {
        join_as_other(&a[i], 0);
        WAIT_UNTIL(actor_do(&a[i], DO_CONNECTED, 0, 0) == 1);
    }
    join_as_other(&a[2], 0);
    WAIT_UNTIL(strstr(a[2].said, "too many clients"));
    cr_assert_eq(actor_do(&a[2], DO_CONNECTED, 0, 0), 0);
    actor_new(&mine, place.socket);
    actor_do(&mine, DO_OPEN, 0, 0);
    WAIT_UNTIL(actor_do(&mine, DO_CONNECTED, 0, 0) == 1); /* the limit of another user */
    actor_kill(&a[0]);
    WAIT_UNTIL(actor_do(&a[2], DO_CONNECTED, 0, 0) == 1);
    for (int i = 1; i < 3; i++)
        actor_kill(&a[i]);
    actor_kill(&mine);
}

Test(permission, socket_mode_and_group_keep_other_user_out)
{
    struct stat st;
    struct actor a;

    place_configure(&place, "[socket]\nmode = 0660\ngroup = daemon\n");
    place_start(&place);
    cr_assert_eq(stat(place.socket, &st), 0);
    cr_assert(((st.st_mode & 0777) == 0660) && st.st_gid == 1);
    join_as_other(&a, 0);
    cr_assert_eq(actor_do(&a, DO_CONNECTED, 0, 0), 0);
    cr_assert(strstr(a.said, "Permission denied"), "%s", a.said);
    actor_kill(&a);
}

Test(permission, socket_path_under_another_users_control_is_refused)
{
    char real[128], link[128], socket[160], errors[512];
    char *argv[] = {"cutind", "--socket", socket, NULL};

    snprintf(real, sizeof(real), "%s/real", place.folder);
    snprintf(link, sizeof(link), "%s/link", place.folder);
    cr_assert_eq(mkdir(real, 0755), 0);
    cr_assert_eq(symlink(real, link), 0);
    cr_assert_eq(lchown(link, OTHER, OTHER), 0);
    snprintf(socket, sizeof(socket), "%s/s", link);
    cr_assert_eq(place_run(errors, sizeof(errors), argv), 1);
    cr_assert(strstr(errors, "belongs to user 65534"), "%s", errors);
    unlink(link);
    snprintf(socket, sizeof(socket), "%s/deeper/s", real);
    cr_assert_eq(chown(real, OTHER, OTHER), 0);
    cr_assert_eq(place_run(errors, sizeof(errors), argv), 1);
    cr_assert(strstr(errors, "part of the path to the socket"), "%s", errors);
    snprintf(socket, sizeof(socket), "%s/deeper", real);
    rmdir(socket);
    rmdir(real);
}

Test(permission, bad_or_missing_configuration_prevents_start)
{
    char errors[512];
    char *argv[] = {"cutind", "--socket", place.socket, "--config", place.config, NULL};

    place_configure(&place, "[allow]\n\nrt = nobody\n");
    cr_assert_eq(place_run(errors, sizeof(errors), argv), 2);
    cr_assert(strstr(errors, "conf:3: rt: nobody is not"), "%s", errors);
    cr_assert_neq(access(place.socket, F_OK), 0);
    unlink(place.config);
    cr_assert_eq(place_run(errors, sizeof(errors), argv), 2);
}

Test(permission, cgroup_decides_level_even_for_root)
{
    char folder[PLACE_CGROUP], text[256];
    struct actor in, out;

    if (!place_cgroup(folder, "cgroup.procs"))
        cr_skip("no cgroup can be made here");
    snprintf(text, sizeof(text),
             "[allow]\n2 = cgroup:/cutin-test-%d\ncontained = cgroup:/cutin-*\n", (int)getpid());
    place_configure(&place, text);
    place_start(&place);
    actor_new(&in, place.socket);
    place_enter(folder, in.pid);
    actor_do(&in, DO_OPEN, 3, 3); /* as root, which may have any level elsewhere */
    cr_assert_eq(actor_do(&in, DO_LEVEL, 0, 0), 2);
    WAIT_UNTIL(strstr(in.said, "no rule gives the cgroup of process"));
    actor_new(&out, place.socket);
    actor_do(&out, DO_OPEN, 3, 3);
    cr_assert_eq(actor_do(&out, DO_LEVEL, 0, 0), 3);
    actor_kill(&in);
    actor_kill(&out);
    WAIT_UNTIL(rmdir(folder) == 0);
}

/* Connects behind many parents, each of which could have begun a job. */
static void come_far_below(int depth, int times, int end)
{
    while (depth-- > 0) {
        pid_t pid = fork();

        if (pid == 0)
            continue;
        waitpid(pid, NULL, 0);
        _exit(0);
    }
    while (times-- > 0)
        close(bare_connect(place.socket, (uid_t)-1));
    _exit(write(end, "", 1) != 1 ||
          read(end, &times, 1) != 0); /* when all of them have been looked at */
}

/* Read system calls of the daemon: it makes one for each parent. */
static unsigned long daemon_reads(void)
{
    unsigned long reads = 0;
    char path[64];
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/io", (int)place.daemon);
    cr_assert_not_null(f = fopen(path, "re"));
    cr_assert_eq(fscanf(f, "rchar: %*u wchar: %*u syscr: %lu", &reads), 1);
    fclose(f);
    return reads;
}

Test(permission, job_lookups_of_contained_processes_are_rate_limited)
{
    enum { TIMES = 1000, DEPTH = 50, AT_ONCE = 8, EACH_SECOND = 128, PARENTS = 64, FEW = 4 };
    char folder[PLACE_CGROUP], jobs[96], text[256], byte;
    unsigned long reads, most;
    uint64_t began;
    int fd, end[2];
    pid_t pid;

    if (!place_cgroup(folder, "cgroup.procs"))
        cr_skip("no cgroup can be made here");
    snprintf(jobs, sizeof(jobs), "%s/jobs", place.folder);
    snprintf(text, sizeof(text),
             "[allow]\ncontained = cgroup:/cutin-*\n[jobs]\nfolder = %s\n"
             "[limits]\nconnections_per_user = 8\n",
             jobs);
    place_configure(&place, text);
    cr_assert_eq(mkdir(jobs, 0755), 0);
    place_start(&place);
    began = now_ms();
    reads = daemon_reads();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
    if ((pid = fork()) == 0) {
        place_enter(folder, getpid());
        close(end[1]);
        come_far_below(DEPTH, TIMES, end[0]);
    }
    close(end[0]);
    cr_assert_eq(read(end[1], &byte, 1), 1);
    fd = bare_connect(place.socket, (uid_t)-1); /* behind them */
    bare_hello(fd, 3);
    cr_expect_eq(bare_wait(fd, MESSAGE_WELCOME, NULL), 0);
    close(fd);
    reads = daemon_reads() - reads;
    most = TIMES * FEW + (AT_ONCE + 1 + EACH_SECOND * (now_ms() - began) / 1000) * PARENTS;
    cr_expect_leq(reads, most, "%lu reads, of at most %lu", reads, most);
    close(end[1]);
    waitpid(pid, NULL, 0);
    rmdir(jobs);
    WAIT_UNTIL(rmdir(folder) == 0);
}

/* All are root, as users in containers often are. */
Test(permission, client_limit_counts_each_contained_cgroup_separately)
{
    enum { MOST = 2 };
    char folder[PLACE_CGROUP], below[2][PLACE_CGROUP + 16];
    struct actor in[MOST + 1], other;

    if (!place_cgroup(folder, "cgroup.procs"))
        cr_skip("no cgroup can be made here");
    for (int i = 0; i < 2; i++) {
        snprintf(below[i], sizeof(below[i]), "%s/%d", folder, i);
        cr_assert_eq(mkdir(below[i], 0755), 0);
    }
    place_configure(&place,
                    "[allow]\ncontained = cgroup:/cutin-*\n[limits]\nclients_per_user = 2\n");
    place_start(&place);
    for (int i = 0; i <= MOST; i++) {
        actor_new(&in[i], place.socket);
        place_enter(below[0], in[i].pid);
        actor_do(&in[i], DO_OPEN, 0, 0);
        cr_expect_eq(actor_do(&in[i], DO_CONNECTED, 0, 0), i < MOST);
    }
    actor_new(&other, place.socket);
    place_enter(below[1], other.pid);
    actor_do(&other, DO_OPEN, 0, 0);
    cr_expect_eq(actor_do(&other, DO_CONNECTED, 0, 0), 1, "%s", other.said);
    for (int i = 0; i <= MOST; i++)
        actor_kill(&in[i]);
    actor_kill(&other);
    WAIT_UNTIL(rmdir(below[0]) == 0);
    WAIT_UNTIL(rmdir(below[1]) == 0);
    WAIT_UNTIL(rmdir(folder) == 0);
}

Test(permission, contained_cgroup_shares_one_limit_across_users)
{
    struct actor in[2], out;
    char folder[PLACE_CGROUP];

    if (!place_cgroup(folder, "cgroup.procs"))
        cr_skip("no cgroup can be made here");
    place_configure(&place,
                    "[allow]\ncontained = cgroup:/cutin-*\n[limits]\nclients_per_user = 1\n");
    place_start(&place);
    for (int i = 0; i < 2; i++) {
        actor_new(&in[i], place.socket);
        place_enter(folder, in[i].pid);
        actor_do(&in[i], DO_USER, OTHER - i, 0);
        actor_do(&in[i], DO_OPEN, 0, 0);
        cr_expect_eq(actor_do(&in[i], DO_CONNECTED, 0, 0), i == 0);
    }
    join_as_other(&out, 0); /* with the first one's user id */
    cr_expect_eq(actor_do(&out, DO_CONNECTED, 0, 0), 1, "%s", out.said);
    for (int i = 0; i < 2; i++)
        actor_kill(&in[i]);
    actor_kill(&out);
    WAIT_UNTIL(rmdir(folder) == 0);
}

/* A user to whom a cgroup is delegated names the cgroups below it. */
Test(permission, control_characters_in_cgroup_name_do_not_reach_log)
{
    char folder[PLACE_CGROUP], below[640], log[4096] = "";
    int fd = memfd_create("stderr", MFD_CLOEXEC), old = dup(2);
    struct actor a;

    if (!place_cgroup(folder, "cgroup.procs"))
        cr_skip("no cgroup can be made here");
    snprintf(below, sizeof(below), "%s/the-longest-of-all-that-it-is-in-so-that-it-is-named\033[2J",
             folder);
    cr_assert_eq(mkdir(below, 0755), 0);
    place_configure(&place, "[allow]\ncontained = cgroup:/cutin-*\n");
    dup2(fd, 2);
    place_start(&place);
    dup2(old, 2);
    actor_new(&a, place.socket);
    place_enter(below, a.pid);
    actor_do(&a, DO_OPEN, 3, 3);
    actor_kill(&a);
    WAIT_UNTIL(pread(fd, log, sizeof(log) - 1, 0) > 0 && strstr(log, "runs at level be"));
    cr_expect(strstr(log, "named?[2J` under") && !strchr(log, '\033'), "%s", log);
    WAIT_UNTIL(rmdir(below) == 0);
    WAIT_UNTIL(rmdir(folder) == 0);
}

/* Runs when the main thread has ended. */
static void *say_level_granted(void *out)
{
    union message welcome;
    char path[64], line[256] = "", level;
    FILE *in;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
    while (!strstr(line, ") Z ")) {
        in = fopen(path, "re");
        if (!in || !fgets(line, sizeof(line), in))
            _exit(1);
        fclose(in);
    }
    fd = bare_connect(place.socket, (uid_t)-1);
    bare_hello(fd, 3);
    if (bare_wait(fd, MESSAGE_WELCOME, &welcome) != 0)
        _exit(1);
    level = (char)welcome.welcome.level;
    _exit(write(*(int *)out, &level, 1) != 1);
}

Test(permission, process_without_main_thread_stays_in_its_cgroup)
{
    char folder[PLACE_CGROUP], text[256], level = -1;
    pthread_t thread;
    int out[2];
    pid_t pid;

    if (!place_cgroup(folder, "cgroup.procs"))
        cr_skip("no cgroup can be made here");
    snprintf(text, sizeof(text), "[allow]\ncontained = cgroup:/cutin-test-%d\n", (int)getpid());
    place_configure(&place, text);
    place_start(&place);
    cr_assert_eq(pipe(out), 0);
    pid = fork();
    if (pid == 0) {
        place_enter(folder, getpid());
        pthread_create(&thread, NULL, say_level_granted, &out[1]);
        pthread_exit(NULL);
    }
    close(out[1]);
    cr_assert_eq(read(out[0], &level, 1), 1);
    cr_assert_eq(level, 0, "root, and contained");
    waitpid(pid, NULL, 0);
    WAIT_UNTIL(rmdir(folder) == 0);
}

Test(permission, cgroup_rules_are_refused_in_own_cgroup_namespace)
{
    char errors[1024];
    char *argv[] = {"cutind", "--socket", place.socket, "--config", place.config, NULL};
    struct actor a;

    if (unshare(CLONE_NEWCGROUP) != 0)
        cr_skip("no cgroup namespace can be made here: %s", strerror(errno));
    for (int i = 0; i < 3; i++) {
        place_configure(&place, (const char *[]){"[allow]\ncontained = cgroup:/kubepods*\n",
                                                 "[allow]\nrt = cgroup:/kubepods/pod*\n",
                                                 "[allow]\ncontrol = cgroup:/kubepods\n"}[i]);
        cr_assert_eq(place_run(errors, sizeof(errors), argv), 2);
        cr_assert(strstr(errors, "needs the machine's cgroup namespace"), "%s", errors);
        cr_assert(strstr(errors, "in a privileged container"), "%s", errors);
    }
    place_configure(&place, "[allow]\n2 = uid:65534\n");
    place_start(&place);
    place_configure(&place, "[allow]\nrt = uid:65534\ncontained = cgroup:/kubepods*\n");
    kill(place.daemon, SIGHUP);
    join_as_other(&a, 3);
    cr_assert_eq(actor_do(&a, DO_LEVEL, 0, 0), 2, "as before");
    actor_kill(&a);
}

static bool write_map(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    close(fd);
    return written;
}

/* The level of a client outside, at a daemon in a user namespace that has only root; -errno: none
 * can be made. */
static int level_across(struct actor *outside)
{
    int level;

    if (unshare(CLONE_NEWUSER) != 0 || !write_map("/proc/self/setgroups", "deny") ||
        !write_map("/proc/self/uid_map", "0 0 1") || !write_map("/proc/self/gid_map", "0 0 1"))
        return -errno;
    place_start(&place);
    actor_do(outside, DO_OPEN, 3, 3);
    level = (int)actor_do(outside, DO_LEVEL, 0, 0);
    place_stop(&place);
    return level;
}

Test(permission, users_from_outside_user_namespace_match_no_rule)
{
    struct actor before, outside;
    int status, level;
    pid_t pid;

    place_configure(&place, "[allow]\nrt = user:nobody gid:65534 uid:1-70000\n");
    place_start(&place);
    join_as_other(&before, 3);
    cr_assert_eq(actor_do(&before, DO_LEVEL, 0, 0), 3, "where users can be told apart");
    actor_kill(&before);
    place_stop(&place);
    actor_new(&outside, place.socket);
    cr_assert_eq(actor_do(&outside, DO_USER, OTHER, 0), 0);
    pid = fork(); /* it has one thread, as unshare of a user namespace needs */
    if (pid == 0)
        _exit(level_across(&outside) & 0xff);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    actor_kill(&outside);
    place.daemon = 0;
    cr_assert(WIFEXITED(status));
    level = (int8_t)WEXITSTATUS(status);
    if (level < 0)
        cr_skip("no user namespace can be made here: %s", strerror(-level));
    cr_assert_eq(level, 0);
}
