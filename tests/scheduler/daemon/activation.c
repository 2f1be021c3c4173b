/*
 * activation.c - the daemon as systemd starts it: with a socket that listens already, and a place
 * for the message that it is ready.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"

static int listen_at(const char *path, int type)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type, 0);

    strcpy(address.sun_path, path);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* With a second socket for the metrics, unless that is -1. */
static pid_t start(int listener, int metrics, const char *notify)
{
    pid_t pid = fork();
    char number[16];

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(metrics, 63); /* neither may be at the other's new number */
    dup2(listener, 3);
    dup2(63, 4);
    snprintf(number, sizeof(number), "%d", (int)getpid());
    setenv("LISTEN_PID", number, 1);
    setenv("LISTEN_FDS", metrics < 0 ? "1" : "2", 1);
    if (notify)
        setenv("NOTIFY_SOCKET", notify, 1);
    setenv("WATCHDOG_USEC", "200000", 1);
    setenv("WATCHDOG_PID", number, 1);
    execl(BIN_DIR "/cutind", "cutind", (char *)NULL);
    _exit(127);
}

Test(activation, daemon_serves_passed_socket_and_notifies_systemd)
{
    char notify[160], said[256] = "";
    int listener, ready, status;
    struct place place;
    struct actor a;
    pid_t pid;

    place_new(&place);
    snprintf(notify, sizeof(notify), "%s/notify", place.folder);
    listener = listen_at(place.socket, SOCK_SEQPACKET);
    cr_assert_eq(listen(listener, 16), 0);
    ready = listen_at(notify, SOCK_DGRAM);
    actor_new(&a, place.socket);
    pid = start(listener, -1, notify);
    cr_assert_gt(recv(ready, said, sizeof(said) - 1, 0), 0);
    cr_assert(strstr(said, "READY=1"), "%s", said);
    for (int i = 0; i < 3; i++) {
        memset(said, 0, sizeof(said));
        cr_assert_gt(recv(ready, said, sizeof(said) - 1, 0), 0);
        cr_assert_str_eq(said, "WATCHDOG=1", "as long as its loop turns");
    }
    actor_do(&a, DO_OPEN, 3, 3);
    WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1);
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(access(place.socket, F_OK), 0, "it is systemd's");
    actor_kill(&a);
    close(listener);
    close(ready);
    unlink(notify);
    cr_assert(place_free(&place));
}

Test(activation, metrics_are_served_on_second_passed_socket)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\n\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener, metrics, fd;
    char said[16] = "";
    struct place place;
    pid_t pid;

    place_new(&place);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/m", place.folder);
    listener = listen_at(place.socket, SOCK_SEQPACKET);
    metrics = listen_at(address.sun_path, SOCK_STREAM);
    cr_assert_eq(listen(listener, 16), 0);
    cr_assert_eq(listen(metrics, 16), 0);
    pid = start(listener, metrics, NULL);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_gt(send(fd, request, sizeof(request) - 1, 0), 0);
    cr_assert_gt(recv(fd, said, sizeof(said) - 1, 0), 0);
    cr_assert(strstr(said, "200"), "%s", said);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    cr_assert_eq(access(address.sun_path, F_OK), 0, "it is systemd's");
    close(fd);
    close(listener);
    close(metrics);
    unlink(address.sun_path);
    cr_assert(place_free(&place));
}

/* They come before it could forbid that: alone, behind a message, and from a user not let in. */
Test(activation, descriptors_sent_before_start_do_not_stop_daemon)
{
    enum { MANY = 20 };
    int listener, fds[MANY];
    struct place place;
    union message m;
    struct actor a;
    pid_t pid;

    place_new(&place);
    listener = listen_at(place.socket, SOCK_SEQPACKET);
    cr_assert_eq(listen(listener, MANY), 0);
    cr_assert_eq(chmod(place.socket, 0666), 0);
    actor_new(&a, place.socket);
    for (int i = 0; i < MANY; i++) {
        fds[i] = bare_connect(place.socket, geteuid() == 0 ? 65534 : (uid_t)-1);
        message_init(&m, i % 4 == 1 ? MESSAGE_JOINED : MESSAGE_POLICY);
        if (i % 2)
            cr_assert_eq(message_send(fds[i], &m, -1), 0);
        cr_assert_eq(bare_send_lingering(fds[i], &m), 0);
        if (i < MANY / 2)
            close(fds[i]);
    }
    pid = start(listener, -1, NULL);
    actor_do(&a, DO_OPEN, 3, 3);
    WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1);
    for (int i = MANY / 2; i < MANY; i++) {
        cr_expect_eq(bare_wait(fds[i], MESSAGE_STOP, NULL), -ECONNRESET);
        close(fds[i]);
    }
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    actor_kill(&a);
    close(listener);
    cr_assert(place_free(&place));
}
