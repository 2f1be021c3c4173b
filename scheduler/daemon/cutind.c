/*
 * cutind.c - the daemon's command line. One option is one row of a table.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "scheduler/daemon/daemon.h"
#include "scheduler/daemon/listener.h"
#include "scheduler/daemon/notify.h"
#include "scheduler/peers/log.h"

enum { EXIT_USAGE = 2, EXIT_OTHER_DAEMON = 3, FIRST_FD = 3 };

struct command_line {
    char socket[4096];
    const char *config;
    long idle_exit, ready_fd;
};

static int show_help(struct command_line *line, const char *value);

static int show_version(struct command_line *line, const char *value)
{
    printf("cutind %s\n", CUTIN_VERSION);
    return 1;
}

static int set_socket(struct command_line *line, const char *value)
{
    snprintf(line->socket, sizeof(line->socket), "%s", value);
    return 0;
}

static int set_config(struct command_line *line, const char *value)
{
    line->config = value;
    return 0;
}

static int set_foreground(struct command_line *line, const char *value)
{
    return 0; /* and there is no other way to run */
}

static int set_number(long *out, const char *option, const char *value, long least, long most)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(value, &end, 10);
    if (errno || end == value || *end || n < least || n > most) {
        fprintf(stderr, "cutind: %s=%s is not a number from %ld to %ld\n", option, value, least,
                most);
        return -1;
    }
    *out = n;
    return 0;
}

static int set_idle_exit(struct command_line *line, const char *value)
{
    return set_number(&line->idle_exit, "--idle-exit", value, 0, 1000000);
}

static int set_ready_fd(struct command_line *line, const char *value)
{
    return set_number(&line->ready_fd, "--ready-fd", value, 0, INT_MAX);
}

/* `set` returns 0, 1 to end with success, or -1 to end with EXIT_USAGE. */
static const struct option {
    const char *name, *argument, *help;
    int (*set)(struct command_line *line, const char *value);
} options[] = {
    {"--socket", "PATH", "listen on this socket instead of the default", set_socket},
    {"--config", "FILE", "read this configuration instead of the default", set_config},
    {"--foreground", NULL, "stay in the foreground (always done)", set_foreground},
    {"--idle-exit", "SECONDS", "exit after this long without clients (0: never)", set_idle_exit},
    {"--ready-fd", "N", "write a byte to this file descriptor when ready", set_ready_fd},
    {"--version", NULL, "show the version", show_version},
    {"--help", NULL, "show this text", show_help},
};
#define OPTIONS (sizeof(options) / sizeof(options[0]))

static int show_help(struct command_line *line, const char *value)
{
    printf(
        "Usage: cutind [OPTION]...\n"
        "The scheduler of cutin: lets real-time work hold best-effort work on a shared GPU.\n\n");
    for (size_t i = 0; i < OPTIONS; i++) {
        char left[40];

        snprintf(left, sizeof(left), "%s%s%s", options[i].name, options[i].argument ? " " : "",
                 options[i].argument ? options[i].argument : "");
        printf("  %-22s %s\n", left, options[i].help);
    }
    printf(
        "\nExit status: 0 stopped as asked, 1 failed, 2 wrong option or configuration, 3 another\n"
        "cutind serves this socket.\n");
    return 1;
}

static const struct option *find_option(const char *text, size_t length)
{
    for (size_t i = 0; i < OPTIONS; i++)
        if (strlen(options[i].name) == length && memcmp(options[i].name, text, length) == 0)
            return &options[i];
    return NULL;
}

/* Both `--name value` and `--name=value`. */
static int parse(struct command_line *line, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '='), *value = equals ? equals + 1 : NULL;
        size_t length = equals ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        const struct option *o = find_option(argv[i], length);
        int rc;

        if (!o) {
            fprintf(stderr, "cutind: unknown option %s; see cutind --help\n", argv[i]);
            return -1;
        }
        if (o->argument && !value)
            value = argv[++i];
        if (!!o->argument != !!value) {
            fprintf(stderr, "cutind: %s %s\n", o->name,
                    o->argument ? "needs a value" : "takes no value");
            return -1;
        }
        rc = o->set(line, value);
        if (rc != 0)
            return rc;
    }
    return 0;
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

/* The listening sockets that it was started with, not blocking; -1: none. To be asked once. */
struct activation {
    int clients, metrics;
};

static struct activation activation_sockets(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    struct activation given = {-1, -1};
    int end = pid && fds && atol(pid) == getpid() ? FIRST_FD + atoi(fds) : 0;

    unsetenv("LISTEN_PID"); /* not for a child of ours */
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
        listener_adopt(l, given);
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
    if (write((int)line->ready_fd, "", 1) != 1)
        fprintf(stderr, "cutind: --ready-fd %ld: %s\n", line->ready_fd, strerror(errno));
    if (line->ready_fd > 2)
        close((int)line->ready_fd);
}

static int serve(struct listener *l, const struct command_line *line, struct conf *conf,
                 int metrics)
{
    struct daemon *d = daemon_new(l->fd, (uint32_t)line->idle_exit, conf, line->config);
    int rc;

    if (!d || daemon_serve_metrics(d, metrics) != 0) {
        fprintf(stderr, "cutind: cannot start: %s\n", strerror(errno));
        if (d)
            daemon_free(d);
        return EXIT_FAILURE;
    }
    tell_ready(line);
    rc = daemon_run(d);
    notify("STOPPING=1");
    /* First the path, then the clients: whoever sees us go can start the next one at once. */
    listener_close(l);
    daemon_free(d);
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
    signal(SIGPIPE, SIG_IGN); /* --ready-fd may be a pipe that nobody reads any more */
    conf_default(&conf, id_is_outside(geteuid(), "/proc/self/uid_map") ? ID_UNKNOWN : geteuid());
    if (conf_load(&conf, line.config, why, sizeof(why)) != 0) {
        fprintf(stderr, "cutind: %s\n", why);
        return EXIT_USAGE;
    }
    log_set_level(conf.log);
    given = activation_sockets();
    rc = open_listener(&listener, &line, &conf, given.clients);
    if (rc == 0) {
        rc = serve(&listener, &line, &conf, given.metrics);
        listener_close(&listener);
    }
    conf_clear(&conf);
    return rc;
}
