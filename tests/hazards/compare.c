/*
 * compare.c - run each hazard of a program on the bare driver and under cutin in several ways, and
 * compare what it prints and how it ends.
 *
 *   hazard_compare PROGRAM [HAZARD...]
 *
 * The environment brings CUTIN_PRELOAD, the value of LD_PRELOAD for cutin. Exit status 1 and both
 * outputs on a difference. HAZARD_MODES=a,b restricts the ways, and names those that want company:
 * a daemon and a real-time service (HAZARD_DAEMON, HAZARD_SERVICE: the programs). HAZARD_CLOCK, the
 * simulator's clock that steps, and HAZARD_RM, its resource manager, are preloaded if they are set.
 * HAZARD_KEEP=FOLDER keeps there what is printed, as HAZARD.WAY.WORLD, by HAZARD_WORLD.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Far more than any takes beside much other work. */
enum { LIMIT_MS = 400000, TEXT = 1 << 16, HAZARDS = 128 };

/* A way to run; `reference` is the way whose output it must equal. */
struct mode {
    const char *name;
    int reference;
    const char *env[4];
    enum company { ALONE, SERVED, PULSED, KILLED } company;
};
static const struct mode modes[] = {
    {"bare", -1, {NULL}},
    {"bare without memops", -1, {"SIMGPU_MEMOPS=0"}},
    {"cutin", 0, {"PRELOAD"}},
    {"small doses", 0, {"PRELOAD", "CUTIN_BUDGET_US=1", "CUTIN_DEPTH=1", "CUTIN_QUEUE=16"}},
    {"no memops", 1, {"PRELOAD", "SIMGPU_MEMOPS=0"}},
    {"profiler", 0, {"PRELOAD", "CUDA_INJECTION64_PATH=/nonexistent/libprofiler.so"}},
    {"real time", 0, {"PRELOAD", "CUTIN_PRIORITY=rt"}},
    {"beside a service", 0, {"PRELOAD"}, SERVED},
    {"under pulses", 0, {"PRELOAD"}, PULSED},
    {"real time of a daemon", 0, {"PRELOAD", "CUTIN_PRIORITY=rt"}, SERVED},
    {"daemon comes and goes", 0, {"PRELOAD"}, KILLED},
};
enum { MODES = sizeof(modes) / sizeof(*modes) };

struct result {
    int status; /* of waitpid; -1: it took too long */
    char out[TEXT], err[TEXT];
};

/* ---- company --------------------------------------------------------------------------------- */

static char folder[] = "/tmp/cutin-hazards-XXXXXX", place[sizeof(folder) + 8];
static pid_t companions[2];

/* Ends with its parent, also if that has ended before it could ask for that. */
static pid_t fork_bound(void)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    return 0;
}

/* What goes in front of a program, in this order. */
static void preload(const char *cutin)
{
    const char *const all[] = {getenv("HAZARD_CLOCK"), cutin, getenv("HAZARD_RM")};
    char text[4096] = "";
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(text);
        if (all[i])
            snprintf(text + n, sizeof(text) - n, "%s%s", n ? ":" : "", all[i]);
    }
    if (*text)
        setenv("LD_PRELOAD", text, 1);
    if (getenv("HAZARD_CLOCK"))
        personality(ADDR_NO_RANDOMIZE); /* the same in every run */
}

static pid_t companion(const char *const argv[], const char *const env[], const char *cutin)
{
    pid_t pid = fork_bound();
    if (pid != 0)
        return pid;
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    preload(cutin);
    for (; *env; env++)
        putenv((char *)(unsigned long)*env);
    execv(argv[0], (char *const *)(unsigned long)argv);
    _exit(127);
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static pid_t daemon_new(void)
{
    return companion((const char *[]){getenv("HAZARD_DAEMON"), "--socket", place, NULL},
                     (const char *[]){NULL}, NULL);
}

/* The program's own end ends this one: a daemon that is there for 20 ms, and not for 20. */
static pid_t daemons_come_and_go(void)
{
    pid_t pid = fork_bound();
    if (pid != 0)
        return pid;
    for (;;) {
        pid_t one = daemon_new();
        usleep(20000);
        end(one);
        usleep(20000);
    }
}

static pid_t service_new(enum company company)
{
    char socket[sizeof(place) + 16];
    snprintf(socket, sizeof(socket), "CUTIN_SOCKET=%s", place);
    return companion((const char *[]){getenv("HAZARD_SERVICE"), "--rate",
                                      company == PULSED ? "1000" : "100", "--kernels", "3",
                                      "--kernel-us", "100", "--seconds", "3600", NULL},
                     (const char *[]){socket, "CUTIN_PRIORITY=rt", NULL}, getenv("CUTIN_PRELOAD"));
}

static void company_begin(enum company company)
{
    if (company == ALONE)
        return;
    companions[0] = company == KILLED ? daemons_come_and_go() : daemon_new();
    for (int i = 0; i < 20000 && access(place, F_OK) != 0; i++)
        usleep(1000);
    companions[1] = service_new(company);
}

static void company_end(enum company company)
{
    for (int i = 0; i < 2 && company != ALONE; i++) {
        if (waitpid(companions[i], NULL, WNOHANG) != 0) {
            printf("the %s did not stay\n", i ? "service" : "daemon");
            exit(1);
        }
        end(companions[i]);
    }
    unlink(place);
}

/* ---- one run --------------------------------------------------------------------------------- */

static void child(const char *program, const char *hazard, const struct mode *m, const int fds[2])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(fds[0], STDOUT_FILENO);
    dup2(fds[1], STDERR_FILENO);
    unsetenv("CUDA_INJECTION64_PATH");
    if (m->company != ALONE)
        setenv("CUTIN_SOCKET", place, 1);
    const char *cutin = NULL;
    for (unsigned int i = 0; i < sizeof(m->env) / sizeof(*m->env) && m->env[i]; i++) {
        if (strchr(m->env[i], '='))
            putenv((char *)(unsigned long)m->env[i]);
        else
            cutin = getenv("CUTIN_PRELOAD");
    }
    preload(cutin);
    execl(program, program, hazard, (char *)NULL);
    fprintf(stderr, "%s: %s\n", program, strerror(errno));
    _exit(127);
}

static void text_of(int fd, char *text)
{
    ssize_t got = pread(fd, text, TEXT - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    close(fd);
}

/* A time is of those that name an id, so each run has its own. */
static void id_new(void)
{
    static unsigned int runs;
    char id[48];
    snprintf(id, sizeof(id), "hazard-%d-%u", (int)getpid(), runs++);
    setenv("SIMGPU_ID", id, 1);
}

static void time_remove(void)
{
    char name[96];
    snprintf(name, sizeof(name), "/simgpu-clock-%u-%s", (unsigned)getuid(), getenv("SIMGPU_ID"));
    shm_unlink(name);
}

static void run(const char *program, const char *hazard, const struct mode *m, struct result *r)
{
    id_new();
    int fds[2] = {memfd_create("stdout", MFD_CLOEXEC), memfd_create("stderr", MFD_CLOEXEC)};
    company_begin(m->company);
    pid_t pid = fork();
    if (pid == 0)
        child(program, hazard, m, fds);
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    int ended = poll(&end, 1, LIMIT_MS);
    if (ended <= 0)
        kill(pid, SIGKILL);
    close(end.fd);
    waitpid(pid, &r->status, 0);
    if (ended <= 0)
        r->status = -1;
    text_of(fds[0], r->out);
    text_of(fds[1], r->err);
    company_end(m->company);
    time_remove();
}

static void keep(const char *hazard, const char *way, const struct result *r)
{
    const char *where = getenv("HAZARD_KEEP"), *world = getenv("HAZARD_WORLD");
    char path[512];
    if (!where)
        return;
    snprintf(path, sizeof(path), "%s/%s.%s.%s", where, hazard, way, world ? world : "");
    FILE *f = fopen(path, "w");
    if (!f || fputs(r->out, f) < 0 || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
}

static void print_end(const char *way, const struct result *r)
{
    if (r->status == -1)
        printf("-- %s: did not end\n", way);
    else if (WIFSIGNALED(r->status))
        printf("-- %s: signal %d\n", way, WTERMSIG(r->status));
    else
        printf("-- %s: exit status %d\n", way, WEXITSTATUS(r->status));
}

/* From the first line on in which they differ. */
static void print_difference(const char *reference, const struct result *bare, const char *way,
                             const struct result *r)
{
    size_t same = 0;
    while (bare->out[same] && bare->out[same] == r->out[same])
        same++;
    while (same > 0 && bare->out[same - 1] != '\n')
        same--;
    print_end(reference, bare);
    printf("%.240s\n", bare->out + same);
    print_end(way, r);
    printf("%.240s\n%.600s\n", r->out + same, r->err);
}

static int named(const struct mode *m)
{
    const char *only = getenv("HAZARD_MODES");
    return m->reference >= 0 && (only ? !!strstr(only, m->name) : m->company == ALONE);
}

/* A reference is wanted by those that refer to it, and the first one always. */
static int wanted(int mode)
{
    if (mode == 0 || named(&modes[mode]))
        return 1;
    for (int i = 0; i < MODES; i++)
        if (named(&modes[i]) && modes[i].reference == mode)
            return 1;
    return 0;
}

/* Returns the number of ways in which the program could tell. */
static int compare(const char *program, const char *hazard)
{
    static struct result results[MODES];
    int differences = 0;
    for (int i = 0; i < MODES; i++) {
        const struct mode *m = &modes[i];
        struct result *r = &results[i];
        if (!wanted(i))
            continue;
        run(program, hazard, m, r);
        keep(hazard, m->name, r);
        if (m->reference < 0) {
            if (r->status != -1)
                continue;
            printf("%s: %s does not end\n", hazard, m->name);
            differences++;
            continue;
        }
        const struct result *bare = &results[m->reference];
        if (r->status == bare->status && strcmp(r->out, bare->out) == 0)
            continue;
        differences++;
        printf("%s: differs with %s\n", hazard, m->name);
        print_difference(modes[m->reference].name, bare, m->name, r);
        if (r->status == -1)
            break;
    }
    /* What a hazard shows is to be shown natively too. */
    if (!strstr(results[0].out, "end\n") && !strstr(results[0].out, "ends\n")) {
        printf("%s: does not work on the bare driver\n", hazard);
        print_end("bare", &results[0]);
        printf("%s%s", results[0].out, results[0].err);
        differences++;
    }
    printf("%-60s %s\n", hazard, differences ? "FAILED" : "ok");
    fflush(stdout);
    return differences;
}

static void world(void)
{
    setenv("CUTIN_SOCKET", "", 1);
    if (!mkdtemp(folder))
        exit(2);
    snprintf(place, sizeof(place), "%s/s", folder);
}

int main(int argc, char **argv)
{
    static struct result list;
    int failed = 0, count = 0;
    char *rest = NULL;
    if (argc < 2 || !getenv("CUTIN_PRELOAD"))
        return 2;
    world();
    for (int i = 2; i < argc; i++, count++)
        failed += compare(argv[1], argv[i]) != 0;
    if (argc == 2) {
        run(argv[1], "--list", &modes[0], &list);
        for (char *name = strtok_r(list.out, "\n", &rest); name;
             name = strtok_r(NULL, "\n", &rest)) {
            failed += compare(argv[1], name) != 0;
            count++;
        }
    }
    printf("%d hazards, %d failed\n", count, failed);
    rmdir(folder);
    return failed || !count;
}
