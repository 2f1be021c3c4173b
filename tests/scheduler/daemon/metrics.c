/*
 * metrics.c - the metrics over HTTP: read by this test, and by promtool if there is one.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/place.h"
#include "scheduler/policy/job.h"
#include "scheduler/policy/conf.h"

static struct place place;
static char path[128], text[65536];

static void set_up(void)
{
    char conf[256];

    place_new(&place);
    snprintf(path, sizeof(path), "%s/m", place.folder);
    snprintf(conf, sizeof(conf), "[metrics]\nlisten = unix:%s\n", path);
    place_configure(&place, conf);
}

static void tear_down(void)
{
    unlink(path);
    cr_assert(place_free(&place));
}

TestSuite(metrics, .init = set_up, .fini = tear_down);

static struct sockaddr_in tcp; /* where the daemon listens; port 0: at `path` */

static int open_http(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct sockaddr *to = tcp.sin_port ? (struct sockaddr *)&tcp : (struct sockaddr *)&address;
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    strcpy(address.sun_path, path);
    cr_assert_eq(connect(fd, to, tcp.sin_port ? sizeof(tcp) : sizeof(address)), 0);
    return fd;
}

/* Returns the status; the body is in `text`. */
static int get(const char *url)
{
    char request[256], *body;
    int fd = open_http(), status = 0;
    size_t used = 0;
    ssize_t n;

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             url);
    cr_assert_eq(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    while (used + 1 < sizeof(text) && (n = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)n;
    text[used] = '\0';
    close(fd);
    sscanf(text, "HTTP/1.1 %d", &status);
    body = strstr(text, "\r\n\r\n");
    cr_assert_not_null(body, "%s", text);
    memmove(text, body + 4, strlen(body + 4) + 1);
    return status;
}

/* The figure with this name, which has no labels, in `text`. */
static double figure(const char *name)
{
    const char *at = strstr(text, name);
    double value = -1;

    cr_assert(at && sscanf(at + strlen(name), "%lf", &value) == 1, "no %s in %s", name, text);
    return value;
}

Test(metrics, report_clients_and_their_work)
{
    struct stat st;
    struct actor a;

    place_start(&place);
    cr_assert_eq(stat(path, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0660);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 2, 2);
    actor_do(&a, DO_DEVICE, 0x11, 0);
    actor_do(&a, DO_COUNT, 0, 40);
    actor_do(&a, DO_GPU, 0, 1500000000); /* and two commands */
    WAIT_UNTIL(get("/metrics") == 200 && strstr(text, "cutin_clients{level=\"2\"} 1\n") &&
               strstr(text, "cutin_submitted_total{"));
    cr_assert(strstr(text, "level=\"2\""), "%s", text);
    cr_assert(strstr(text, "device=\"GPU-11111111-1111-1111-1111-111111111111\"} 42\n"), "%s",
              text);
    cr_assert(strstr(text, "} 1.500000000\n"), "%s", text);
    cr_assert_eq(get("/"), 404);
    cr_assert_eq(get("/metrics/../etc/passwd"), 404);
    actor_kill(&a);
    place_stop(&place);
    cr_assert_neq(access(path, F_OK), 0, "its socket goes with it");
}

Test(metrics, report_the_daemon_itself)
{
    char connections[64];
    struct actor a;

    place_start(&place);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 0, 0);
    snprintf(connections, sizeof(connections), "cutin_connections{uid=\"%u\"} 1\n",
             (unsigned)geteuid());
    WAIT_UNTIL(get("/metrics") == 200 && strstr(text, connections));
    cr_assert(strstr(text, "cutin_build_info{version=\"" CUTIN_VERSION "\"} 1\n"), "%s", text);
    cr_assert(strstr(text, "cutin_refused_total{what=\"level\"} 0\n"), "%s", text);
    cr_assert(strstr(text, "\ncutin_log_dropped_total 0\n"), "%s", text);
    cr_assert_gt(figure("\ncutin_loop_lag_seconds "), 0, "%s", text);
    actor_kill(&a);
}

Test(metrics, count_log_lines_lost_to_full_disk)
{
    int old = dup(2), full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    cr_assert_geq(full, 0);
    dup2(full, 2);
    place_start(&place);
    dup2(old, 2);
    close(old);
    close(full);
    cr_assert_eq(get("/metrics"), 200);
    cr_assert_geq(figure("\ncutin_log_dropped_total "), 1, "%s", text);
}

Test(metrics, name_holder_of_each_held_process)
{
    struct actor rt, be;
    uint64_t began = now_ms();
    char holder[96];
    double held_s;

    place_start(&place);
    actor_new(&rt, place.socket);
    actor_new(&be, place.socket);
    actor_do(&rt, DO_OPEN, 3, 3);
    actor_do(&be, DO_OPEN, 0, 0);
    actor_do(&rt, DO_DEVICE, 0x11, 0);
    actor_do(&be, DO_DEVICE, 0x11, 0);
    cr_assert_eq(get("/metrics"), 200);
    cr_assert_null(strstr(text, "cutin_held_seconds{"));
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    snprintf(holder, sizeof(holder), "holder_pid=\"%d\",holder_name=\"%.15s\"} ", (int)rt.pid,
             program_invocation_short_name);
    WAIT_UNTIL(get("/metrics") == 200 && strstr(text, "cutin_held_seconds{"));
    cr_assert(strstr(text, holder), "%s", text);
    held_s = figure(holder);
    cr_assert(held_s > 0 && held_s <= (double)(now_ms() - began + 1) / 1000, "%s", text);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(metrics, name_job_and_account_of_process)
{
    char conf[320], jobs[96];
    struct actor a;

    snprintf(jobs, sizeof(jobs), "%s/jobs", place.folder);
    snprintf(conf, sizeof(conf), "[metrics]\nlisten = unix:%s\n[jobs]\nfolder = %s\n", path, jobs);
    place_configure(&place, conf);
    place_start(&place);
    cr_assert_eq(job_begin(jobs, geteuid(), &(struct job){.account = "students", .id = "42"}), 0);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 0, 0);
    actor_do(&a, DO_DEVICE, 0x11, 0);
    WAIT_UNTIL(get("/metrics") == 200 && strstr(text, ",job_id=\"42\",account=\"students\",dev"));
    actor_kill(&a);
    job_end(jobs);
    rmdir(jobs);
}

/* Finds a port that is free now. */
static void find_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(tcp);

    tcp = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(bind(fd, (struct sockaddr *)&tcp, size), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&tcp, &size), 0);
    close(fd);
}

static bool is_served(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool served = connect(fd, (struct sockaddr *)&tcp, sizeof(tcp)) == 0;

    close(fd);
    return served;
}

Test(metrics, are_served_on_loopback)
{
    char conf[64];

    find_port();
    snprintf(conf, sizeof(conf), "[metrics]\nlisten = 127.0.0.1:%d\n", ntohs(tcp.sin_port));
    place_configure(&place, conf);
    place_start(&place);
    cr_assert_eq(get("/metrics"), 200);
    cr_assert(strstr(text, "cutin_clients{level=\"be\"} 0\n"), "%s", text);
}

Test(metrics, public_address_is_refused)
{
    char errors[512],
        *argv[] = {"cutind", "--socket", place.socket, "--config", place.config, NULL};

    place_configure(&place, "[metrics]\nlisten = 0.0.0.0:9475\n");
    cr_assert_eq(place_run(errors, sizeof(errors), argv), 2);
    cr_assert(strstr(errors, "other machines could reach 0.0.0.0:9475"), "%s", errors);
}

Test(metrics, silent_and_wrong_requests_do_not_stop_the_daemon)
{
    struct actor a;
    int fds[40];

    place_start(&place);
    for (int i = 0; i < 40; i++)
        fds[i] = open_http();
    for (int i = 0; i < 40; i += 2)
        send(fds[i], "\x16\x03\x01 nonsense\r\n\r\n", 16, MSG_NOSIGNAL);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 0, 0);
    WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1);
    for (int i = 0; i < 40; i++)
        close(fds[i]);
    WAIT_UNTIL(get("/metrics") == 200);
    actor_kill(&a);
    place_kill(&place);
    place_start(&place); /* over the socket that a dead one left */
    cr_assert_eq(get("/metrics"), 200);
}

static void drip(const int *fds, int n)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0;; i = (i + 1) % n) {
        send(fds[i], "G", 1, MSG_NOSIGNAL);
        usleep(1000);
    }
}

/* They never finish their requests. */
Test(metrics, dripping_requests_do_not_block_others)
{
    enum { DRIPPING = 64 };
    int fds[DRIPPING];
    char byte;
    pid_t pid;

    place_start(&place);
    for (int i = 0; i < DRIPPING; i++)
        fds[i] = open_http();
    pid = fork();
    if (pid == 0)
        drip(fds, DRIPPING);
    cr_assert_eq(get("/metrics"), 200);
    for (int i = 0; i < DRIPPING; i++) /* the last ones too, in time */
        cr_assert_leq(recv(fds[i], &byte, 1, 0), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < DRIPPING; i++)
        close(fds[i]);
}

Test(metrics, occupied_address_is_served_once_free)
{
    char conf[64];
    int thief;

    find_port();
    thief = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(thief, (struct sockaddr *)&tcp, sizeof(tcp)), 0);
    cr_assert_eq(listen(thief, 1), 0);
    snprintf(conf, sizeof(conf), "[metrics]\nlisten = 127.0.0.1:%d\n", ntohs(tcp.sin_port));
    place_configure(&place, conf);
    place_start(&place);
    close(thief);
    WAIT_UNTIL(is_served());
    cr_assert_eq(get("/metrics"), 200, "and it has it when it is free");
}

static bool is_open(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool open;

    strcpy(address.sun_path, path);
    open = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return open;
}

Test(metrics, removed_socket_is_recreated_and_foreign_file_kept)
{
    place_start(&place);
    cr_assert_eq(unlink(path), 0);
    WAIT_UNTIL(is_open());
    cr_assert_eq(get("/metrics"), 200);
    cr_assert_eq(unlink(path), 0);
    fclose(fopen(path, "w"));
    cr_assert_eq(place_stop(&place), 0);
    cr_assert_eq(access(path, F_OK), 0, "this is not its own");
}

Test(metrics, listen_without_descriptors_fails_with_reason)
{
    char why[256] = "";
    struct rlimit old, none;
    int rc;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){0, old.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    rc = metrics_listen("127.0.0.1:9475", why, sizeof(why));
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    cr_expect_eq(rc, -EMFILE);
    cr_expect_str_eq(why, "metrics at 127.0.0.1:9475: Too many open files");
}

Test(metrics, negative_counters_are_shown_as_zero)
{
    struct actor a;

    place_start(&place);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 0, 0);
    actor_do(&a, DO_DEVICE, 0x11, 0);
    WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1);
    actor_do(&a, DO_COUNT, 0, -2);
    WAIT_UNTIL(get("/metrics") == 200 && strstr(text, "cutin_submitted_total{"));
    cr_assert(strstr(text, "device=\"GPU-11111111-1111-1111-1111-111111111111\"} 0\n"), "%s", text);
    cr_assert_null(strstr(text, "} 1844"), "%s", text);
    actor_kill(&a);
}

Test(metrics, pass_promtool_check)
{
    struct actor a;
    FILE *tool;

    if (system("command -v promtool >/dev/null 2>&1") != 0)
        cr_skip("promtool is not installed (Debian package prometheus)");
    place_start(&place);
    actor_new(&a, place.socket);
    actor_do(&a, DO_OPEN, 0, 0);
    actor_do(&a, DO_DEVICE, 0x11, 0);
    WAIT_UNTIL(get("/metrics") == 200 && strstr(text, "cutin_submitted_total{"));
    tool = popen("promtool check metrics", "w");
    cr_assert_not_null(tool);
    fputs(text, tool);
    cr_assert_eq(pclose(tool), 0);
    actor_kill(&a);
}
