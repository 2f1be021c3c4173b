/*
 * bench.c - what the scheduler costs, with a real daemon: cutting in above 1, 8 and 64 clients, and
 * beside a hostile user; the least that writing one word costs; registering 1,000 clients; and the
 * daemon with no client and with 64 busy ones. Arguments name the parts to run. Without any, all
 * run but `siege`: four hostile users for SIEGE_S seconds (600). Clients that only have to be there
 * are bare connections.
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
#include "bare.h"
#include "place.h"
#include "scheduler/client/client.h"
#include "common/clock.h"
#include "scheduler/wire/query.h"

enum { ROUNDS = 20000, CLIENTS = 1000, BUSY = 64, SECONDS = 10 };

static struct place place;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- clients --------------------------------------------------------------------------------- */

/* Says HELLO and names its device, as if each came from its own process. */
static int connect_client(uint32_t level)
{
    static uint32_t seed;
    int fd = bare_connect(place.socket, (uid_t)-1);

    bare_hello(fd, level);
    bare_device(fd, page_first_slot(seed++), 1);
    return fd;
}

static void wait_for(int fd, enum message_type type)
{
    if (bare_wait(fd, type, NULL) != 0)
        die("receive");
}

/* ---- cutting in ------------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Waits until this process has been told of all `n`, and then for their pages to come. */
static void wait_below(uint32_t n)
{
    struct message_row *rows;
    uint32_t told;
    size_t count;

    do {
        usleep(1000);
        told = 0;
        if (query_clients(place.socket, &rows, &count) != 0)
            continue;
        for (size_t i = 0; i < count; i++)
            told += rows[i].above > 0;
        free(rows);
    } while (told < n);
    usleep(200000);
}

/* The median of ROUNDS cut-ins, in ns, one every `pace_ns`. */
static double cut_in(uint64_t pace_ns, uint64_t *p99)
{
    static uint64_t took[ROUNDS], empty[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = clock_ns(), between;

        between = clock_ns();
        client_work_begin(0, 3);
        took[i] = clock_ns() - between;
        empty[i] = between - start;
        client_work_end(0, 3);
        while (pace_ns && clock_ns() < start + pace_ns)
            ;
    }
    qsort(took, ROUNDS, sizeof(took[0]), ascending);
    qsort(empty, ROUNDS, sizeof(empty[0]), ascending);
    *p99 = took[ROUNDS / 100 * 99];
    return (double)took[ROUNDS / 2] - (double)empty[ROUNDS / 2];
}

static void report_cutting_in(uint32_t n)
{
    uint64_t p99;
    double ns = cut_in(0, &p99);

    printf("cutting in, %4u clients below: median %5.0f ns, p99 %5llu ns, bound %5.0f ns\n", n, ns,
           (unsigned long long)p99, 200 + 15.0 * n);
}

static void open_realtime(void)
{
    struct client_config config = {.level = 3, .lowest = 3, .socket = place.socket};
    uint8_t uuid[16];

    memset(uuid, 1, sizeof(uuid));
    if (client_open(&config) != 0 || client_device(uuid) != 0)
        die("client");
}

static void cutting_in(void)
{
    static const uint32_t counts[] = {1, 8, 64};
    int fds[64];
    uint32_t n = 0;

    open_realtime();
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

/* ---- a hostile user -------------------------------------------------------------------------- */

enum { HOSTILE = 65534, QUIET = 8, TOLD = 8, HORDE = 128, PACE_NS = 20000 };

static int client_page_fd(struct cutin_page **page)
{
    struct pollfd p = {.events = POLLIN};
    union message m;
    int page_fd;

    p.fd = connect_client(0);
    while (message_receive(p.fd, TO_CLIENT, &m, &page_fd) == -EAGAIN)
        poll(&p, 1, 1000);
    if (page && page_map_other(page_fd, page) != 0)
        die("page");
    return page_fd;
}

static struct cutin_page *quiet[QUIET];

/* What clients with work do: they look whether they are held. This is no attack. */
static void look(void)
{
    for (;;)
        for (int i = 0; i < QUIET; i++)
            for (uint32_t d = 0; d < PAGE_DEVICES; d++)
                atomic_load(&quiet[i]->device[d].hold[0]);
}

static void attack_by_numbers(void)
{
    for (int i = 0; i < HORDE; i++)
        close(client_page_fd(NULL));
    for (;;)
        pause();
}

static void attack_by_coming_and_going(void)
{
    for (;;) {
        int fd = connect_client(0);

        wait_for(fd, MESSAGE_WELCOME);
        close(fd);
    }
}

/* Asks for lists on many connections, and reads no answer. */
static void attack_by_asking(void)
{
    union message list;
    int fds[HORDE];

    for (int i = 0; i < HORDE; i++)
        fds[i] = connect_client(0);
    message_init(&list, MESSAGE_LIST);
    for (;;)
        for (int i = 0; i < HORDE; i++)
            if (message_send(fds[i], &list, -1) == -EPIPE) {
                close(fds[i]);
                fds[i] = connect_client(0);
            }
}

/* Writes to the same words as real time. */
static void attack_the_words(void)
{
    struct cutin_page *page[TOLD];

    for (int i = 0; i < TOLD; i++)
        close(client_page_fd(&page[i]));
    for (;;)
        for (int i = 0; i < TOLD; i++)
            for (uint32_t d = 0; d < PAGE_DEVICES; d++)
                atomic_fetch_or(&page[i]->device[d].hold[0], 0);
}

/* Gives back the memory of its pages, so that the next write to them is a page fault. Connects
 * again when the daemon ends its connection. */
static void attack_the_memory(void)
{
    for (;;) {
        int fds[TOLD];

        for (int i = 0; i < TOLD; i++)
            fds[i] = client_page_fd(NULL);
        for (int k = 0; k < 20000; k++)
            fallocate(fds[k % TOLD], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      sizeof(struct cutin_page));
        for (int i = 0; i < TOLD; i++)
            close(fds[i]);
    }
}

static const struct attack {
    const char *name;
    void (*run)(void);
    uint32_t below; /* its clients that real time holds, once it is under way */
} attacks[] = {
    {"nothing", NULL, 0},
    {"looks at its words", look, 0},
    {"128 clients", attack_by_numbers, TOLD},
    {"clients that come and go", attack_by_coming_and_going, 0},
    {"questions without end", attack_by_asking, TOLD},
    {"writes to words", attack_the_words, TOLD},
    {"holes in pages", attack_the_memory, 0},
};

/* Becomes another user, in a process that ends with its parent. */
static void become(uid_t uid)
{
    if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0)
        die("another user");
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of user clears it */
}

static pid_t attack_start(const struct attack *a)
{
    pid_t pid = a->run ? fork() : 0;

    if (pid != 0 || !a->run)
        return pid;
    become(HOSTILE);
    a->run();
    return -1;
}

/* What cutting in above 8 clients costs while another user attacks: the least of three. There are
 * pauses between cut-ins, because attacks need time. */
static void hostile(void)
{
    double alone = 0;

    if (geteuid() != 0) {
        printf("hostile: only root can become a second user\n");
        return;
    }
    open_realtime();
    for (int i = 0; i < QUIET; i++)
        close(client_page_fd(&quiet[i]));
    for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++) {
        pid_t pid = attack_start(&attacks[i]);
        double ns = 0, best = 0;
        uint64_t p99, best_p99 = UINT64_MAX;

        wait_below(QUIET + attacks[i].below);
        usleep(500000);
        for (int k = 0; k < 3; k++) {
            if ((ns = cut_in(PACE_NS, &p99)) < best || k == 0)
                best = ns;
            best_p99 = p99 < best_p99 ? p99 : best_p99;
        }
        alone = i == 0 ? best : alone;
        printf("cutting in beside %-26s median %5.0f ns, %.2f of the quiet one, p99 %5llu ns\n",
               attacks[i].name, best, best / alone, (unsigned long long)best_p99);
        if (pid > 0) {
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        usleep(500000); /* until the daemon sees that it has gone */
    }
    client_close();
}

/* ---- a word of its own ----------------------------------------------------------------------- */

/* What cutting in would cost if real time wrote one word, and all clients below read that. */
static double own_word(_Atomic uint32_t *word)
{
    static uint64_t took[ROUNDS], empty[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = clock_ns(), between = clock_ns();

        atomic_store(word, 1);
        took[i] = clock_ns() - between;
        empty[i] = between - start;
        atomic_store(word, 0);
        while (clock_ns() < start + PACE_NS)
            ;
    }
    qsort(took, ROUNDS, sizeof(took[0]), ascending);
    qsort(empty, ROUNDS, sizeof(empty[0]), ascending);
    return (double)took[ROUNDS / 2] - (double)empty[ROUNDS / 2];
}

static void one_word(void)
{
    struct cutin_page *page;
    double alone, read;
    int fd;
    pid_t pid;

    if (page_new_shared(&page, &fd) != 0)
        die("page");
    alone = own_word(&page->device[0].hold[0]);
    if ((pid = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            atomic_load(&page->device[0].hold[0]);
    }
    read = own_word(&page->device[0].hold[0]);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    printf("a single word: %.0f ns, %.0f ns while another process reads it\n", alone, read);
}

/* ---- registering ----------------------------------------------------------------------------- */

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

/* ---- the daemon ------------------------------------------------------------------------------ */

static void read_proc(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
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

    read_proc(place.daemon, "schedstat", text, sizeof(text));
    *ns = atof(text);
    read_proc(place.daemon, "status", text, sizeof(text));
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

/* Runs `cutin top` once a second, without a terminal. */
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

/* Eight of them are real time, with bursts of work. All have their own thread, as in programs. */
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

/* ---- a siege --------------------------------------------------------------------------------- */

enum { BESIEGERS = 4, FIRST_BESIEGER = 60001, NAMED = 65533, CROWD = 200, EVERY_US = 50000 };

static void besiege_by_coming(void)
{
    for (;;)
        close(connect_client(0));
}

/* Uses as many connections as the user may have, without reading answers: asks for lists, and gives
 * its own processes orders, each of which is a line of the log. */
static void besiege_by_asking(void)
{
    union message list, order;
    int fds[CROWD];

    for (int i = 0; i < CROWD; i++)
        fds[i] = connect_client(0);
    message_init(&list, MESSAGE_LIST);
    message_init(&order, MESSAGE_CONTROL);
    order.control.pid = getpid();
    order.control.kind = CONTROL_WEIGHT;
    order.control.value = 1;
    for (;;)
        for (int i = 0; i < CROWD; i++)
            if (message_send(fds[i], &list, -1) == -EPIPE ||
                message_send(fds[i], &order, -1) == -EPIPE) {
                close(fds[i]);
                fds[i] = connect_client(0);
            }
}

/* Sends packets of all sizes; most begin like a message. */
static void besiege_by_garbage(void)
{
    for (;;) {
        union message m;
        int fd = connect_client(0);

        for (int i = 0; i < 100; i++) {
            message_init(&m, 1 + (unsigned)rand() % (MESSAGE_TYPES - 1));
            for (int k = 0; k < 8; k++)
                m.most[(unsigned)rand() % 64] = (char)rand();
            if (message_send(fd, &m, -1) == -EPIPE)
                break;
        }
        close(fd);
    }
}

/* Writes garbage into its pages, and takes their memory away. */
static void besiege_by_pages(void)
{
    for (;;) {
        struct pollfd p = {.fd = connect_client(0), .events = POLLIN};
        struct cutin_page *page;
        union message m;
        int page_fd, rc;

        while ((rc = message_receive(p.fd, TO_CLIENT, &m, &page_fd)) == -EAGAIN)
            poll(&p, 1, 1000);
        if (rc == 0 && page_fd >= 0 && page_map_other(page_fd, &page) == 0) {
            for (int k = 0; k < 1000; k++)
                memset(page, rand(), sizeof(*page));
            fallocate(page_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof(*page));
            page_unmap_other(page);
            close(page_fd);
        }
        close(p.fd);
    }
}

static void (*const besiege[])(void) = {besiege_by_coming, besiege_by_asking, besiege_by_garbage,
                                        besiege_by_pages};
enum { WAYS = sizeof(besiege) / sizeof(besiege[0]) };

static long daemon_kb(void)
{
    char text[4096], *at;

    read_proc(place.daemon, "status", text, sizeof(text));
    at = strstr(text, "VmHWM:");
    return at ? atol(at + strlen("VmHWM:")) : -1;
}

/* How long this process was kept from a processor, for which no daemon is responsible. */
static uint64_t kept_ns(void)
{
    unsigned long long kept = 0;
    char text[128];

    read_proc(getpid(), "schedstat", text, sizeof(text));
    sscanf(text, "%*u %llu", &kept);
    return kept;
}

/* From connecting to being able to hold others, in ns; 0: it was not let in. */
static uint64_t register_once(uint64_t *of_it_kept)
{
    uint64_t kept = kept_ns(), began = clock_ns();
    int fd = bare_connect(place.socket, NAMED), rc;

    bare_hello(fd, 3);
    bare_device(fd, 0, 1);
    rc = bare_wait(fd, MESSAGE_BIT, NULL);
    began = clock_ns() - began;
    *of_it_kept = kept_ns() - kept;
    close(fd);
    return rc == 0 ? began : 0;
}

static void print_times(const char *what, uint64_t *ns, size_t n)
{
    qsort(ns, n, sizeof(ns[0]), ascending);
    if (n > 0)
        printf("%s: median %.1f ms, p99 %.1f ms, longest %.1f ms\n", what, (double)ns[n / 2] / 1e6,
               (double)ns[n * 99 / 100] / 1e6, (double)ns[n - 1] / 1e6);
}

static void siege(void)
{
    uint64_t seconds = getenv("SIEGE_S") ? strtoull(getenv("SIEGE_S"), NULL, 10) : 600;
    size_t most = seconds * 1000000 / EVERY_US, n = 0, refused = 0;
    uint64_t *took = calloc(most + 1, sizeof(*took)), *of_daemon = calloc(most + 1, sizeof(*took));
    uint64_t end, kept;
    pid_t pid[BESIEGERS * WAYS];

    if (geteuid() != 0) {
        printf("siege: only root can become other users\n");
        return;
    }
    setpriority(PRIO_PROCESS, (id_t)place.daemon, -10); /* as in its unit */
    for (int i = 0; i < BESIEGERS * WAYS; i++) {
        pid[i] = fork();
        if (pid[i] != 0)
            continue;
        become((uid_t)(FIRST_BESIEGER + i / WAYS));
        besiege[i % WAYS]();
    }
    for (end = clock_ns() + seconds * 1000000000; n < most && clock_ns() < end; usleep(EVERY_US)) {
        took[n] = register_once(&kept);
        of_daemon[n] = took[n] > kept ? took[n] - kept : 0;
        refused += !took[n];
        n += took[n] != 0;
    }
    printf("siege of %d users in %d ways, %llu s: the daemon has had %ld kB at most\n", BESIEGERS,
           WAYS, (unsigned long long)seconds, daemon_kb());
    printf("registering as real time meanwhile: %zu times; not let in: %zu\n", n, refused);
    print_times("from connecting to the bit", took, n);
    print_times("without what its own process had to wait for a processor", of_daemon, n);
    for (int i = 0; i < BESIEGERS * WAYS; i++) {
        int status;

        if (waitpid(pid[i], &status, WNOHANG) == pid[i])
            printf("besieger %d has given up: %x\n", i, (unsigned)status);
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    free(took);
    free(of_daemon);
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {{"cut", cutting_in},       {"hostile", hostile}, {"word", one_word},
             {"register", registering}, {"idle", idle},       {"busy", busy},
             {"siege", siege}};

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc == 1 && strcmp(name, "siege") != 0;
}

int main(int argc, char **argv)
{
    bare_many();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (!wanted(parts[i].name, argc, argv))
            continue;
        place_new(&place);
        if (parts[i].run == siege)
            place_configure(&place, "[allow]\nrt = uid:65533\n");
        place_start(&place);
        parts[i].run();
        place_free(&place);
    }
    return 0;
}
