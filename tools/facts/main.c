/*
 * main.c - gpu-facts: asks a GPU and its driver what cutin's design assumes about them.
 *
 * Each fact runs in a process and a process group of its own, which is killed when it takes longer than
 * its row allows; what it said until then is kept. The answer is one JSON object.
 */
#include "fact.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECTIONS(n) "CUDA_DEVICE_MAX_CONNECTIONS=" #n

static const struct fact facts[] = {
    {"device", "What does the device say about itself?", NULL, 60, NULL, fact_device},
    {"lookup", "What does cuGetProcAddress return for each name and version?",
     "the newest symbol that is not newer than the version, as in shim/lookup/api.def", 60, NULL,
     fact_lookup},
    {"cost", "What do launches, events, markers, gates and batches cost?",
     "a marker costs less than an event; marker and gate share one batch", 60, NULL, fact_cost},
    {"page", "May a registered memfd page carry markers and hold words?",
     "memops work on it, and see what another process writes", 60, NULL, fact_page},
    {"page_read_only", "And one that is mapped and registered read-only?",
     "no: it may be refused, then the page is registered writable", 60, NULL, fact_page_read_only},
    {"page_replaced", "What does the GPU see when a page is mapped over a registered one?",
     "the old page, until it is registered again", 60, NULL, fact_page_replaced},
    {"gate", "How soon does a closed gate stop a queue, and an opened one let it go on?",
     "within one kernel, and a few microseconds", 90, NULL, fact_gate},
    {"behind", "Which calls wait while another stream is behind a closed gate?",
     "those that synchronise the context or free memory wait; cutin drains before them", 60, NULL,
     fact_behind},
    {"depth", "How many launches does a stream take before the thread waits?", "about 1024", 30,
     NULL, fact_depth},
    {"queue_default", "Which other streams does a closed gate stop?",
     "those that share its hardware queue: some of many", 30, NULL, fact_queue},
    {"queue_1", "The same with one connection", "all of the same priority", 30, CONNECTIONS(1),
     fact_queue},
    {"queue_8", "The same with 8 connections", "as by default", 30, CONNECTIONS(8), fact_queue},
    {"queue_32", "The same with 32 connections", "fewer", 30, CONNECTIONS(32), fact_queue},
    {"yield", "Does a process that waits at a gate leave the GPU to another?",
     "yes: a process without a kernel to run gives the device up at once", 90, NULL, fact_yield},
    {"slice", "How long are time slices, and what does a context switch cost?",
     "about 2 ms; tens of microseconds", 60, NULL, fact_slice},
    {"across", "How long does a short kernel wait beside another process?",
     "for time slices natively; less under MPS", 90, NULL, fact_across},
};
enum { FACTS = sizeof(facts) / sizeof(facts[0]) };

static const char usage[] =
    "Usage: gpu-facts [OPTIONS]\n"
    "Asks the GPU and its driver what cutin's design assumes about them; prints one JSON object.\n"
    "Each fact runs in a process of its own and is killed when it hangs, which is a finding.\n\n"
    "  --only NAME   this fact; may be repeated (all)\n"
    "  --sim         on a simulated GPU of this run's own\n"
    "  --quick       few samples\n"
    "  --limit S     no fact may take longer than S seconds (as its row says)\n"
    "  --list        the facts, and what the design assumes\n"
    "  --help        this text\n\n"
    "Exit status: 0 when every fact was measured or skipped, 1 when one hung or failed, 2 for a\n"
    "mistyped command line.\n";

struct run {
    const struct fact *fact;
    json_t *values;
    const char *status; /* measured, skipped, failed or hung */
    double seconds;
};

static bool simulated;
static unsigned int most_s = 600;

/* ---- one fact ------------------------------------------------------------------------------------ */

_Noreturn static void become_worker(const struct fact *f, int fd, pid_t parent)
{
    char *argv[] = {(char *)"gpu-facts", (char *)"--worker", (char *)f->name,
                    fact_quick ? (char *)"--quick" : NULL, NULL};

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(FACT_FAILED);
    if (fd == FACT_FD)
        fcntl(fd, F_SETFD, 0);
    else if (dup2(fd, FACT_FD) < 0)
        _exit(FACT_FAILED);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is the parent's JSON alone */
    if (f->env)
        putenv((char *)(uintptr_t)f->env);
    execv("/proc/self/exe", argv);
    _exit(FACT_FAILED);
}

/* A line "key value" of a worker. */
static void take_line(struct run *run, char *line)
{
    char *space = strchr(line, ' ');
    json_t *value;

    if (!space)
        return;
    *space = '\0';
    value = json_loads(space + 1, JSON_DECODE_ANY, NULL);
    if (value)
        json_object_set_new(run->values, line, value);
}

struct text {
    char *at;
    size_t used, size;
};

/* Takes what is there to read; false at the end. */
static bool take(struct run *run, int fd, struct text *t)
{
    ssize_t got;
    char *end;

    if (t->size - t->used < 4096) {
        t->size = t->size * 2 + 8192;
        t->at = realloc(t->at, t->size);
        if (!t->at)
            abort();
    }
    got = read(fd, t->at + t->used, t->size - t->used - 1);
    if (got <= 0)
        return got < 0 && errno == EINTR;
    t->used += (size_t)got;
    t->at[t->used] = '\0';
    while ((end = strchr(t->at, '\n'))) {
        *end = '\0';
        take_line(run, t->at);
        t->used -= (size_t)(end + 1 - t->at);
        memmove(t->at, end + 1, t->used + 1);
    }
    return true;
}

/* Its processes are gone, or cannot even be killed: then they are left behind, and that is told. */
static int reap(pid_t pid, bool *left)
{
    int status = 0;

    for (int tries = 0; tries < 1000; tries++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        sleep_us(10000);
    }
    *left = true;
    return 0;
}

static void judge(struct run *run, int status, bool hung, bool left, unsigned int limit_s)
{
    if (left)
        json_object_set_new(run->values, "why", json_string("a process could not be killed"));
    run->status = hung                                                       ? "hung"
                  : WIFEXITED(status) && WEXITSTATUS(status) == 0            ? "measured"
                  : WIFEXITED(status) && WEXITSTATUS(status) == FACT_SKIPPED ? "skipped"
                                                                             : "failed";
    if (!hung && WIFSIGNALED(status))
        json_object_set_new(run->values, "why",
                            json_sprintf("ended by signal %d", WTERMSIG(status)));
    if (hung && !left)
        json_object_set_new(run->values, "why", json_sprintf("not done after %u s", limit_s));
}

static void run_fact(struct run *run)
{
    unsigned int limit_s = run->fact->limit_s < most_s ? run->fact->limit_s : most_s;
    uint64_t from_ns = now_ns(), end_ns = from_ns + limit_s * UINT64_C(1000000000);
    pid_t parent = getpid(), pid;
    struct text text = {0};
    bool hung = false, left = false;
    int ends[2], status;

    run->values = json_object();
    if (pipe2(ends, O_CLOEXEC) != 0 || (pid = fork()) < 0) {
        run->status = "failed";
        return;
    }
    if (pid == 0)
        become_worker(run->fact, ends[1], parent);
    close(ends[1]);
    /* The pipe ends with the last process that holds it. */
    for (bool more = true; more;) {
        struct pollfd pfd = {.fd = ends[0], .events = POLLIN};
        uint64_t now = now_ns();

        if (now >= end_ns) {
            hung = true;
            break;
        }
        if (poll(&pfd, 1, (int)((end_ns - now) / 1000000) + 1) > 0)
            more = take(run, ends[0], &text);
    }
    kill(-pid, SIGKILL); /* peers that are left, or all of a fact that hangs */
    status = reap(pid, &left);
    if (hung) /* what it had said before */
        while (poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 0) > 0 &&
               take(run, ends[0], &text))
            ;
    close(ends[0]);
    free(text.at);
    judge(run, status, hung, left, limit_s);
    run->seconds = (double)(now_ns() - from_ns) / 1e9;
}

static int worker(const char *name)
{
    for (int i = 0; i < FACTS; i++)
        if (strcmp(facts[i].name, name) == 0) {
            facts[i].run();
            _exit(0); /* the driver's own handlers may wait for a stream */
        }
    return FACT_FAILED;
}

/* ---- all of them --------------------------------------------------------------------------------- */

static json_t *fact_json(struct run *run)
{
    json_t *why = json_incref(json_object_get(run->values, "why")), *object;

    json_object_del(run->values, "why");
    object = json_pack("{s:s, s:s?, s:s, s:f, s:o}", "question", run->fact->question, "assumed",
                       run->fact->assumed, "status", run->status, "seconds", run->seconds, "values",
                       run->values);
    if (why)
        json_object_set_new(object, "why", why);
    return object;
}

static int run_all(uint32_t chosen)
{
    json_t *all = json_object(), *root;
    bool sound = true;

    for (int i = 0; i < FACTS; i++) {
        struct run run = {.fact = &facts[i]};

        if (!(chosen >> i & 1))
            continue;
        run_fact(&run);
        sound &= strcmp(run.status, "hung") != 0 && strcmp(run.status, "failed") != 0;
        fprintf(stderr, "%-16s %s (%.1f s)%s%s\n", run.fact->name, run.status, run.seconds,
                json_object_get(run.values, "why") ? ": " : "",
                json_object_get(run.values, "why")
                    ? json_string_value(json_object_get(run.values, "why"))
                    : "");
        json_object_set_new(all, run.fact->name, fact_json(&run));
    }
    root = json_pack("{s:s, s:b, s:b, s:o}", "version", CUTIN_VERSION, "simulated", simulated,
                     "quick", fact_quick, "facts", all);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
    return sound ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void list(void)
{
    for (int i = 0; i < FACTS; i++)
        printf("%-16s %s\n%-16s   assumed: %s\n", facts[i].name, facts[i].question, "",
               facts[i].assumed ? facts[i].assumed : "nothing");
}

/* The simulated driver of the build, and a device that nobody else uses. */
static void use_simulator(void)
{
    const char *old = getenv("LD_LIBRARY_PATH");
    char path[8192], id[32];
    ssize_t n = readlink("/proc/self/exe", path, 4096);
    char *slash;

    path[n > 0 ? n : 0] = '\0';
    slash = strrchr(path, '/');
    strcpy(slash ? slash + 1 : path, "../lib/simgpu");
    if (old && *old && strlen(path) + strlen(old) + 2 < sizeof(path))
        strcat(strcat(path, ":"), old);
    setenv("LD_LIBRARY_PATH", path, 1);
    snprintf(id, sizeof(id), "facts-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 0);
    simulated = true;
}

static uint32_t choose(const char *name)
{
    for (int i = 0; i < FACTS; i++)
        if (strcmp(facts[i].name, name) == 0)
            return 1u << i;
    fprintf(stderr, "gpu-facts: no fact is called %s (see --list)\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option table[] = {{"only", 1, NULL, 'o'},   {"sim", 0, NULL, 's'},
                                          {"quick", 0, NULL, 'q'},  {"list", 0, NULL, 'l'},
                                          {"limit", 1, NULL, 't'},  {"help", 0, NULL, 'h'},
                                          {"worker", 1, NULL, 'w'}, {0}};
    const char *name = NULL;
    uint32_t chosen = 0;

    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;)
        switch (c) {
        case 'o':
            chosen |= choose(optarg);
            break;
        case 's':
            use_simulator();
            break;
        case 'q':
            fact_quick = true;
            break;
        case 't':
            most_s = (unsigned int)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            list();
            return EXIT_SUCCESS;
        case 'h':
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        case 'w':
            name = optarg;
            break;
        default:
            fputs("gpu-facts: see --help\n", stderr);
            return 2;
        }
    if (optind < argc) {
        fprintf(stderr, "gpu-facts: unexpected argument %s (see --help)\n", argv[optind]);
        return 2;
    }
    return name ? worker(name) : run_all(chosen ? chosen : (1u << FACTS) - 1);
}
