/*
 * bench.c - what the scheduler costs: cutting in above 1, 8 and 64 clients, registering 1,000,
 * and the daemon with nobody to serve and with 64 busy clients. Arguments name the parts to run; none:
 * all. Against a real daemon; clients that only have to be there are bare connections.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actor.h"
#include "place.h"
#include "scheduler/client.h"
#include "scheduler/clock.h"
#include "scheduler/query.h"
#include "scheduler/socket.h"

enum { ROUNDS = 20000, CLIENTS = 1000, BUSY = 64, SECONDS = 10 };

static struct place place;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- clients ----------------------------------------------------------------------------------- */

static void send_message(int fd, const union message *m)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int rc;

    while ((rc = message_send(fd, m, -1)) == -EAGAIN)
        poll(&p, 1, 1000);
    if (rc != 0)
        die("send");
}

/* Says HELLO and names its device, as if each came from a process of its own. */
static int connect_client(uint32_t level)
{
    static uint32_t seed;
    int fd = socket_connect(place.socket);
    union message m;

    while (fd == -EAGAIN) { /* the backlog is full */
        usleep(100);
        fd = socket_connect(place.socket);
    }
    if (fd < 0)
        die("connect");
    message_init(&m, MESSAGE_HELLO);
    m.hello.level = m.hello.lowest = level;
    m.hello.flat = 1;
    strcpy(m.hello.name, "bench");
    send_message(fd, &m);
    message_init(&m, MESSAGE_DEVICE);
    m.device.slot = page_first_slot(seed++);
    memset(m.device.uuid, 1, sizeof(m.device.uuid));
    send_message(fd, &m);
    return fd;
}

static void wait_for(int fd, enum message_type type)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    union message m;

    for (;;) {
        int page, rc = message_receive(fd, TO_CLIENT, &m, &page);

        if (page >= 0)
            close(page);
        if (rc == 0 && m.header.type == type)
            return;
        if (rc != 0 && rc != -EAGAIN)
            die("receive");
        if (rc == -EAGAIN)
            poll(&p, 1, 1000);
    }
}

/* ---- cutting in -------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Until this process has the pages of all `n`, and holds them. */
static void wait_below(uint32_t n)
{
    struct client_row *rows;
    uint32_t held = 0;
    size_t count;

    client_active(0, 3);
    while (held < n) {
        usleep(1000);
        if (query_clients(place.socket, &rows, &count) != 0)
            continue;
        held = 0;
        for (size_t i = 0; i < count; i++)
            held += rows[i].held;
        free(rows);
    }
    client_idle(0, 3);
}

static void report_cutting_in(uint32_t n)
{
    static uint64_t took[ROUNDS], empty[ROUNDS];
    double ns, limit = 200 + 15.0 * n;

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = clock_ns(), between;

        between = clock_ns();
        client_active(0, 3);
        took[i] = clock_ns() - between;
        empty[i] = between - start;
        client_idle(0, 3);
    }
    qsort(took, ROUNDS, sizeof(took[0]), ascending);
    qsort(empty, ROUNDS, sizeof(empty[0]), ascending);
    ns = (double)took[ROUNDS / 2] - (double)empty[ROUNDS / 2];
    printf("cutting in, %4u clients below: median %5.0f ns, p99 %5llu ns, bound %5.0f ns\n", n, ns,
           (unsigned long long)took[ROUNDS / 100 * 99], limit);
}

static void cutting_in(void)
{
    static const uint32_t counts[] = {1, 8, 64};
    struct client_config config = {.level = 3, .lowest = 3, .socket = place.socket};
    uint8_t uuid[16];
    int fds[64];
    uint32_t n = 0;

    memset(uuid, 1, sizeof(uuid));
    if (client_open(&config) != 0 || client_device(uuid) != 0)
        die("client");
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        while (n < counts[i])
            fds[n++] = connect_client(0);
        wait_below(n);
        report_cutting_in(n);
    }
    client_close();
    while (n-- > 0)
        close(fds[n]);
}

/* ---- registering ------------------------------------------------------------------------------- */

static void registering(void)
{
    static int fds[CLIENTS];
    int owner = connect_client(3);
    uint64_t start;

    wait_for(owner, MESSAGE_BIT);
    start = clock_ns();
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = connect_client(0);
        wait_for(owner, MESSAGE_JOIN);
    }
    for (int i = 0; i < CLIENTS; i++)
        wait_for(fds[i], MESSAGE_WELCOME);
    printf("registering %d clients, each told to one above: %.3f s\n", CLIENTS,
           (double)(clock_ns() - start) / 1e9);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    close(owner);
}

/* ---- the daemon -------------------------------------------------------------------------------- */

static void read_proc(const char *name, char *text, size_t size)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)place.daemon, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (n <= 0)
        die(path);
    close(fd);
    text[n] = '\0';
}

/* Processor time, and how often it slept and woke up. */
static void usage(double *ns, double *wakeups)
{
    static const char field[] = "\nvoluntary_ctxt_switches:";
    char text[4096], *at;

    read_proc("schedstat", text, sizeof(text));
    *ns = atof(text);
    read_proc("status", text, sizeof(text));
    at = strstr(text, field);
    *wakeups = at ? atof(at + strlen(field)) : -1;
}

static void watch(const char *what)
{
    double ns[2], wakeups[2];

    sleep(1);
    usage(&ns[0], &wakeups[0]);
    sleep(SECONDS);
    usage(&ns[1], &wakeups[1]);
    printf("daemon with %s, %d s: %.3f %% of a core, %.1f wake-ups a second\n", what, SECONDS,
           (ns[1] - ns[0]) / 1e7 / SECONDS, (wakeups[1] - wakeups[0]) / SECONDS);
}

static void idle(void)
{
    watch("no client");
}

/* Once a second, on nobody's screen. */
static pid_t top_start(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("CUTIN_SOCKET", place.socket, 1);
        if (!freopen("/dev/null", "w", stdout) ||
            execl(BIN_DIR "/cutin", "cutin", "top", "--json", NULL) != 0)
            die("cutin top");
    }
    return pid;
}

/* Eight of them real time, with bursts of work; all with a thread of their own, as in programs. */
static void busy(void)
{
    static struct actor actors[BUSY];
    pid_t top;

    for (int i = 0; i < BUSY; i++) {
        int level = i < 8 ? 3 : 0;

        actor_new(&actors[i], place.socket);
        if (actor_do(&actors[i], DO_OPEN, level, level) != 0)
            die("open");
        actor_do(&actors[i], DO_DEVICE, 1, 0);
        actor_do(&actors[i], DO_WORK, 0, level);
    }
    top = top_start();
    watch("64 busy clients and top");
    kill(top, SIGTERM);
    waitpid(top, NULL, 0);
    for (int i = 0; i < BUSY; i++)
        actor_kill(&actors[i]);
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {{"cut", cutting_in}, {"register", registering}, {"idle", idle}, {"busy", busy}};

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 1;
}

int main(int argc, char **argv)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (!wanted(parts[i].name, argc, argv))
            continue;
        place_new(&place);
        place_start(&place);
        parts[i].run();
        place_free(&place);
    }
    return 0;
}
