/*
 * cutind.c - the daemon's command line, and its service manager.
 */
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/text.h"
#include "scheduler/daemon/daemon.h"

enum { EXIT_USAGE = 2, EXIT_OTHER_DAEMON = 3, FIRST_FD = 3 };

static const struct {
    const char *name, *argument, *help;
} options[] = {
    {"socket", "PATH", "listen on this socket instead of the default"},
    {"config", "FILE", "read this configuration instead of the default"},
    {"idle-exit", "SECONDS", "exit after this long without clients (0: never)"},
    {"ready-fd", "N", "write a byte to this file descriptor when ready"},
    {"version", "", "show the version"},
    {"help", "", "show this text"},
};
enum { SOCKET, CONFIG, IDLE_EXIT, READY_FD, VERSION, HELP, OPTIONS };

static void show_help(void)
{
    printf(
        "Usage: cutind [OPTION]...\n"
        "The scheduler of cutin: lets real-time work hold best-effort work on a shared GPU.\n\n");
    for (int i = 0; i < OPTIONS; i++)
        printf("  --%s %-*s %s\n", options[i].name, 19 - (int)strlen(options[i].name),
               options[i].argument, options[i].help);
    printf(
        "\nExit status: 0 stopped as asked, 1 failed, 2 wrong option or configuration, 3 another\n"
        "cutind serves this socket.\n");
}

/* Returns 0, 1 to end with success, or -1 to end with EXIT_USAGE. */
static int parse(struct daemon *d, const char **socket, int *ready_fd, int argc, char **argv)
{
    struct option table[OPTIONS + 1] = {0};
    uint64_t number = 0;
    int row;

    for (int i = 0; i < OPTIONS; i++)
        table[i] = (struct option){options[i].name, options[i].argument[0] != 0, NULL, i};
    opterr = 0;
    while ((row = getopt_long(argc, argv, ":", table, NULL)) >= 0) {
        int most = row == IDLE_EXIT ? 1000000 : INT_MAX;

        if ((row == IDLE_EXIT || row == READY_FD) &&
            !number_read(optarg, 0, (uint64_t)most, &number)) {
            fprintf(stderr, "cutind: --%s=%s is not a number from 0 to %d\n", options[row].name,
                    optarg, most);
            return -1;
        }
        switch (row) {
        case SOCKET:
            *socket = *optarg ? optarg : NULL;
            break;
        case CONFIG:
            d->conf_path = optarg;
            break;
        case IDLE_EXIT:
            d->idle_exit_s = (uint32_t)number;
            break;
        case READY_FD:
            *ready_fd = (int)number;
            break;
        case VERSION:
            printf("cutind %s\n", CUTIN_VERSION);
            return 1;
        case HELP:
            show_help();
            return 1;
        default:
            fprintf(stderr, "cutind: %s %s; see cutind --help\n", argv[optind - 1],
                    row == ':' ? "needs a value" : "is not an option, or takes no value");
            return -1;
        }
    }
    if (optind == argc)
        return 0;
    fprintf(stderr, "cutind: unexpected argument %s; see cutind --help\n", argv[optind]);
    return -1;
}

/* ---- what a service manager hands over, and is told -------------------------------------------
 *
 * sd_listen_fds(3), sd_notify(3): variables, descriptors and a datagram, documented as stable, so
 * no library is needed. */

static bool has(int fd, int option, int value)
{
    int is;
    socklen_t size = sizeof(is);

    return getsockopt(fd, SOL_SOCKET, option, &is, &size) == 0 && is == value;
}

/* Stores the listening sockets that cutind was started with, non-blocking. To be asked once. */
static void take_sockets(int *clients, int *metrics)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    int end = pid && fds && atol(pid) == getpid() ? FIRST_FD + atoi(fds) : 0;

    unsetenv("LISTEN_PID"); /* not for a child of cutind */
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    for (int fd = FIRST_FD; fd < end; fd++) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
        if (!has(fd, SO_ACCEPTCONN, 1))
            continue;
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        if (has(fd, SO_TYPE, SOCK_STREAM))
            *metrics = fd;
        else if (has(fd, SO_DOMAIN, AF_UNIX) && has(fd, SO_TYPE, SOCK_SEQPACKET))
            *clients = fd;
    }
}

/* Sends "READY=1" and the like to the service manager, if it asked for that. */
static void notify(const char *state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    int fd;

    if (length < 2 || length >= sizeof(to.sun_path) || !strchr("/@", path[0]))
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    memcpy(to.sun_path, path, length);
    if (path[0] == '@') /* an abstract name */
        to.sun_path[0] = '\0';
    /* If this fails there is nothing left that could be told. */
    (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

int notify_alive(uint64_t now_ns)
{
    static uint64_t due_ns;
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t every_ns = us ? strtoull(us, NULL, 10) * 1000 / 2 : 0;

    if (!every_ns || (pid && atol(pid) != getpid()))
        return -1;
    if (now_ns >= due_ns) {
        notify("WATCHDOG=1");
        due_ns = now_ns + every_ns;
    }
    return (int)((due_ns - now_ns) / NS_PER_MS) + 1;
}

static int open_listener(struct listener *l, const char *path, const struct conf *conf)
{
    char standard[SOCKET_PATH_MAX];
    int rc;

    if (!path && socket_default_path(standard) != 0) {
        fprintf(stderr, "cutind: XDG_RUNTIME_DIR is too long for a socket; use --socket\n");
        return EXIT_FAILURE;
    }
    rc = listener_open(l, path ? path : standard, conf);
    if (rc == 0)
        return 0;
    fprintf(stderr, "cutind: %s\n", l->why);
    return rc == -EADDRINUSE ? EXIT_OTHER_DAEMON : EXIT_FAILURE;
}

static int serve(struct daemon *d, const char *socket, int ready_fd, int metrics)
{
    int rc = daemon_open(d, metrics);

    if (rc != 0) {
        fprintf(stderr, "cutind: cannot start: %s\n", strerror(-rc));
        listener_close(d->listener);
        return EXIT_FAILURE;
    }
    log_line(LOG_INFO, "version " CUTIN_VERSION ", at %s, configuration: %s, policy %s",
             d->listener->path[0] ? d->listener->path
             : socket             ? socket
                                  : "a socket from systemd",
             d->conf->loaded ? d->conf->path : "defaults", d->conf->policy->name);
    notify("READY=1");
    if (ready_fd >= 0 && write(ready_fd, "", 1) != 1)
        fprintf(stderr, "cutind: --ready-fd %d: %s\n", ready_fd, strerror(errno));
    if (ready_fd > 2)
        close(ready_fd);
    rc = daemon_run(d);
    notify("STOPPING=1");
    /* First the path, then the clients: one that loses its daemon can start the next at once. */
    listener_close(d->listener);
    daemon_close(d);
    if (rc == -EADDRINUSE)
        return EXIT_OTHER_DAEMON;
    if (rc != 0)
        fprintf(stderr, "cutind: %s\n", strerror(-rc));
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct listener listener = {.fd = -1, .folder = -1, .lock = -1};
    struct conf conf;
    struct daemon d = {.listener = &listener, .conf = &conf};
    const char *socket = NULL;
    char why[512];
    int ready_fd = -1, metrics = -1, rc = parse(&d, &socket, &ready_fd, argc, argv);

    if (rc != 0)
        return rc > 0 ? EXIT_SUCCESS : EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN); /* --ready-fd may be a pipe whose reader has gone */
    signal(SIGXFSZ, SIG_IGN); /* of a shell that limits file sizes: log and pages are files */
    conf_default(&conf, id_known(geteuid(), "/proc/self/uid_map"));
    if (conf_load(&conf, d.conf_path, why, sizeof(why)) != 0) {
        fprintf(stderr, "cutind: %s\n", why);
        return EXIT_USAGE;
    }
    log_most = conf.log;
    take_sockets(&listener.fd, &metrics);
    rc = listener.fd >= 0 ? 0 : open_listener(&listener, socket, &conf);
    if (rc == 0)
        rc = serve(&d, socket, ready_fd, metrics);
    conf_clear(&conf);
    return rc;
}
