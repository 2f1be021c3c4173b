/*
 * cutind.c - the daemon's command line.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/number.h"
#include "scheduler/daemon/daemon.h"
#include "scheduler/daemon/listener.h"

enum { EXIT_USAGE = 2, EXIT_OTHER_DAEMON = 3, FIRST_FD = 3 };

struct command_line {
    char socket[4096];
    const char *config;
    uint64_t idle_exit;
    int ready_fd;
};

static const struct {
    const char *name, *argument, *help;
} options[] = {
    {"socket", "PATH", "listen on this socket instead of the default"},
    {"config", "FILE", "read this configuration instead of the default"},
    {"idle-exit", "SECONDS", "exit after this long without clients (0: never)"},
    {"ready-fd", "N", "write a byte to this file descriptor when ready"},
    {"version", NULL, "show the version"},
    {"help", NULL, "show this text"},
};
enum { SOCKET, CONFIG, IDLE_EXIT, READY_FD, VERSION, HELP, OPTIONS };

static void show_help(void)
{
    printf(
        "Usage: cutind [OPTION]...\n"
        "The scheduler of cutin: lets real-time work hold best-effort work on a shared GPU.\n\n");
    for (int i = 0; i < OPTIONS; i++) {
        char left[40];

        snprintf(left, sizeof(left), "--%s%s%s", options[i].name, options[i].argument ? " " : "",
                 options[i].argument ? options[i].argument : "");
        printf("  %-22s %s\n", left, options[i].help);
    }
    printf(
        "\nExit status: 0 stopped as asked, 1 failed, 2 wrong option or configuration, 3 another\n"
        "cutind serves this socket.\n");
}

/* Returns 0, or -1 after a message. */
static int take_number(uint64_t *out, int row, int most)
{
    if (number_read(optarg, 0, (uint64_t)most, out))
        return 0;
    fprintf(stderr, "cutind: --%s=%s is not a number from 0 to %d\n", options[row].name, optarg,
            most);
    return -1;
}

/* Returns 0, 1 to end with success, or -1 to end with EXIT_USAGE. */
static int parse(struct command_line *line, int argc, char **argv)
{
    struct option table[OPTIONS + 1] = {0};
    uint64_t number;
    int row, rc = 0;

    for (int i = 0; i < OPTIONS; i++)
        table[i] = (struct option){options[i].name, !!options[i].argument, NULL, i};
    opterr = 0;
    while (rc == 0 && (row = getopt_long(argc, argv, ":", table, NULL)) >= 0)
        switch (row) {
        case SOCKET:
            snprintf(line->socket, sizeof(line->socket), "%s", optarg);
            break;
        case CONFIG:
            line->config = optarg;
            break;
        case IDLE_EXIT:
            rc = take_number(&line->idle_exit, row, 1000000);
            break;
        case READY_FD:
            rc = take_number(&number, row, INT_MAX);
            line->ready_fd = (int)number;
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
            rc = -1;
        }
    if (rc != 0 || optind == argc)
        return rc;
    fprintf(stderr, "cutind: unexpected argument %s; see cutind --help\n", argv[optind]);
    return -1;
}

/* ---- what a service manager hands over --------------------------------------------------------
 *
 * sd_listen_fds(3): variables and descriptors, documented as stable, so no library is needed. */

static bool has(int fd, int option, int value)
{
    int is;
    socklen_t size = sizeof(is);

    return getsockopt(fd, SOL_SOCKET, option, &is, &size) == 0 && is == value;
}

/* The listening sockets that cutind was started with, non-blocking; -1: none. To be asked once. */
struct activation {
    int clients, metrics;
};

static struct activation activation_sockets(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    struct activation given = {-1, -1};
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
            given.metrics = fd;
        else if (has(fd, SO_DOMAIN, AF_UNIX) && has(fd, SO_TYPE, SOCK_SEQPACKET))
            given.clients = fd;
    }
    return given;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static int open_listener(struct listener *l, struct command_line *line, const struct conf *conf,
                         int given)
{
    char why[512];
    int rc;

    if (given >= 0) {
        *l = (struct listener){.fd = given, .folder = -1, .lock = -1};
        return 0;
    }
    if (!line->socket[0] && socket_default_path(line->socket, sizeof(line->socket)) != 0) {
        fprintf(stderr, "cutind: XDG_RUNTIME_DIR is too long for a socket; use --socket\n");
        return EXIT_FAILURE;
    }
    rc = listener_open(l, line->socket, conf, why, sizeof(why));
    if (rc == 0)
        return 0;
    fprintf(stderr, "cutind: %s\n", why);
    return rc == -EADDRINUSE ? EXIT_OTHER_DAEMON : EXIT_FAILURE;
}

static void tell_ready(const struct command_line *line)
{
    notify("READY=1");
    if (line->ready_fd < 0)
        return;
    if (write(line->ready_fd, "", 1) != 1)
        fprintf(stderr, "cutind: --ready-fd %d: %s\n", line->ready_fd, strerror(errno));
    if (line->ready_fd > 2)
        close(line->ready_fd);
}

static int serve(struct listener *l, const struct command_line *line, struct conf *conf,
                 int metrics)
{
    struct daemon *d = daemon_new(l, (uint32_t)line->idle_exit, conf, line->config);
    int rc;

    if (!d || daemon_serve_metrics(d, metrics) != 0) {
        fprintf(stderr, "cutind: cannot start: %s\n", strerror(errno));
        if (d)
            daemon_free(d);
        return EXIT_FAILURE;
    }
    log_line(LOG_INFO, "version " CUTIN_VERSION ", at %s, configuration: %s, policy %s",
             line->socket[0] ? line->socket : "a socket from systemd",
             conf->loaded ? conf->path : "defaults", conf->policy->name);
    tell_ready(line);
    rc = daemon_run(d);
    notify("STOPPING=1");
    /* First the path, then the clients: one that loses its daemon can start the next at once. */
    listener_close(l);
    daemon_free(d);
    if (rc == -EADDRINUSE)
        return EXIT_OTHER_DAEMON;
    if (rc != 0)
        fprintf(stderr, "cutind: %s\n", strerror(-rc));
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct command_line line = {.ready_fd = -1};
    struct activation given;
    struct listener listener;
    struct conf conf;
    char why[512];
    int rc = parse(&line, argc, argv);

    if (rc != 0)
        return rc > 0 ? EXIT_SUCCESS : EXIT_USAGE;
    signal(SIGPIPE, SIG_IGN); /* --ready-fd may be a pipe whose reader has gone */
    signal(SIGXFSZ, SIG_IGN); /* of a shell that limits file sizes: log and pages are files */
    conf_default(&conf, id_is_outside(geteuid(), "/proc/self/uid_map") ? ID_UNKNOWN : geteuid());
    if (conf_load(&conf, line.config, why, sizeof(why)) != 0) {
        fprintf(stderr, "cutind: %s\n", why);
        return EXIT_USAGE;
    }
    log_most = conf.log;
    given = activation_sockets();
    rc = open_listener(&listener, &line, &conf, given.clients);
    if (rc == 0) {
        rc = serve(&listener, &line, &conf, given.metrics);
        listener_close(&listener);
    }
    conf_clear(&conf);
    return rc;
}
