/*
 * compare.c - runs each hazard of a program on the bare driver and under cutin in several ways, and
 * compares how it ends, what it prints, and what it leaves behind (outcome.h).
 *
 *   hazard_compare PROGRAM [HAZARD...]
 *
 * CUTIN_PRELOAD is the value of LD_PRELOAD for cutin. A difference prints both outcomes, and makes
 * the exit status 1. HAZARD_MODES=a,b restricts the ways, and alone selects those with company
 * (company.h); "all" means all.
 * HAZARD_KEEP=FOLDER keeps what is printed, as HAZARD.WAY.WORLD, where WORLD is HAZARD_WORLD.
 * HAZARD_TABLE=FILE gets a line for each way: program, hazard, way, what differs, milliseconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hazards/compare/company.h"
#include "tests/hazards/compare/outcome.h"

/* A way to run; `reference` is the way whose outcome it must equal. */
struct mode {
    const char *name;
    int reference;
    const char *env[4];
    enum company company;
};
static const struct mode modes[] = {
    {"bare", -1, {NULL}},
    {"bare without memops", -1, {"SIMGPU_MEMOPS=0"}},
    {"cutin", 0, {"PRELOAD"}},
    {"small doses", 0, {"PRELOAD", "CUTIN_BUDGET_US=1", "CUTIN_DEPTH=1", "CUTIN_QUEUE=16"}},
    {"no memops", 1, {"PRELOAD", "SIMGPU_MEMOPS=0"}},
    {"profiler", 0, {"PRELOAD", "CUDA_INJECTION64_PATH=/nonexistent/libprofiler.so"}},
    {"real time", 0, {"PRELOAD", "CUTIN_PRIORITY=rt"}},
    {"beside a daemon", 0, {"PRELOAD"}, DAEMON},
    {"beside a service", 0, {"PRELOAD"}, SERVED},
    {"under pulses", 0, {"PRELOAD"}, PULSED},
    {"held for long", 0, {"PRELOAD"}, HELD},
    {"real time of a daemon", 0, {"PRELOAD", "CUTIN_PRIORITY=rt"}, SERVED},
    {"others come and go", 0, {"PRELOAD"}, CROWD},
    {"daemon comes and goes", 0, {"PRELOAD"}, KILLED},
    {"daemon is killed", 0, {"PRELOAD"}, LOST},
};
enum { MODES = sizeof(modes) / sizeof(*modes) };

/* ---- one run --------------------------------------------------------------------------------- */

static char folder[] = "/tmp/cutin-hazards-XXXXXX", work[sizeof(folder) + 8];

struct entry {
    const char *program, *hazard;
    const struct mode *mode;
};

static void enter(const void *arg)
{
    const struct entry *e = arg;
    const struct mode *m = e->mode;
    const char *cutin = NULL;
    unsetenv("CUDA_INJECTION64_PATH");
    if (m->company != ALONE)
        setenv("CUTIN_SOCKET", company_socket(), 1);
    for (unsigned int i = 0; i < sizeof(m->env) / sizeof(*m->env) && m->env[i]; i++) {
        if (strchr(m->env[i], '='))
            putenv((char *)(unsigned long)m->env[i]);
        else
            cutin = getenv("CUTIN_PRELOAD");
    }
    company_preload(cutin);
    execl(e->program, e->program, e->hazard, (char *)NULL);
    fprintf(stderr, "%s: %s\n", e->program, strerror(errno));
}

/* Programs with the same id share a simulated clock, so each run gets its own id. */
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

static void run(const char *program, const char *hazard, const struct mode *m, struct outcome *r)
{
    const struct entry e = {program, hazard, m};
    id_new();
    company_begin(m->company);
    outcome_of(r, work, enter, &e);
    bool stayed = company_end(m->company);
    outcome_orphans_end();
    time_remove();
    if (!stayed)
        exit(1);
}

static void keep(const char *hazard, const char *way, const struct outcome *r)
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

static void print_end(const char *way, const struct outcome *r)
{
    if (r->status == -1)
        printf("-- %s: did not end\n", way);
    else if (WIFSIGNALED(r->status))
        printf("-- %s: signal %d\n", way, WTERMSIG(r->status));
    else
        printf("-- %s: exit status %d\n", way, WEXITSTATUS(r->status));
}

static void table_line(const char *program, const char *hazard, const char *way, const char *what,
                       const struct outcome *r)
{
    const char *path = getenv("HAZARD_TABLE");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s\t%s\t%s\t%s\t%llu\n", strrchr(program, '/') + 1, hazard, way, what,
            (unsigned long long)r->ms);
    fclose(f);
}

static void print_left(const struct outcome *r)
{
    printf("files:\n%sdescriptors:\n%schildren: %d, running: %d\n", r->files, r->descriptors,
           r->children, r->running);
}

/* What failed is repeated in the last line, because only the end of a long log is kept. */
static char failures[1024];

static void failure_note(const char *hazard, const char *way, const char *what)
{
    size_t n = strlen(failures);
    snprintf(failures + n, sizeof(failures) - n, "%s%s with %s (%s)", n ? ", " : ": ", hazard, way,
             what);
}

/* Prints both outcomes from the first line on in which they differ. */
static void print_difference(const char *reference, const struct outcome *bare, const char *way,
                             const struct outcome *r)
{
    size_t same = 0;
    while (bare->out[same] && bare->out[same] == r->out[same])
        same++;
    while (same > 0 && bare->out[same - 1] != '\n')
        same--;
    print_end(reference, bare);
    printf("%.240s\n", bare->out + same);
    print_left(bare);
    print_end(way, r);
    printf("%.240s\n%.600s\n", r->out + same, r->err);
    print_left(r);
}

static int named(const struct mode *m)
{
    const char *only = getenv("HAZARD_MODES");
    if (only && strcmp(only, "all") == 0)
        return m->reference >= 0;
    return m->reference >= 0 && (only ? !!strstr(only, m->name) : m->company == ALONE);
}

/* A reference is needed by the ways that refer to it, and the first one always. */
static int wanted(int mode)
{
    if (mode == 0 || named(&modes[mode]))
        return 1;
    for (int i = 0; i < MODES; i++)
        if (named(&modes[i]) && modes[i].reference == mode)
            return 1;
    return 0;
}

/* Returns the number of ways in which the program differs. */
static int compare(const char *program, const char *hazard)
{
    static struct outcome results[MODES];
    int differences = 0;
    for (int i = 0; i < MODES; i++) {
        const struct mode *m = &modes[i];
        struct outcome *r = &results[i];
        if (!wanted(i))
            continue;
        run(program, hazard, m, r);
        keep(hazard, m->name, r);
        if (m->reference < 0) {
            table_line(program, hazard, m->name, r->status == -1 ? "does not end" : "", r);
            if (r->status != -1)
                continue;
            printf("%s: %s does not end\n", hazard, m->name);
            failure_note(hazard, m->name, "does not end");
            differences++;
            continue;
        }
        char what[128];
        const struct outcome *bare = &results[m->reference];
        outcome_difference(bare, r, what, sizeof(what));
        table_line(program, hazard, m->name, *what ? what : "same", r);
        if (!*what)
            continue;
        differences++;
        printf("%s: differs with %s: %s\n", hazard, m->name, what);
        failure_note(hazard, m->name, what);
        print_difference(modes[m->reference].name, bare, m->name, r);
        if (r->status == -1)
            break;
    }
    /* A hazard must also work natively. */
    if (!strstr(results[0].out, "end\n") && !strstr(results[0].out, "ends\n")) {
        printf("%s: does not work on the bare driver\n", hazard);
        failure_note(hazard, "bare", "does not work");
        print_end("bare", &results[0]);
        printf("%s%s", results[0].out, results[0].err);
        differences++;
    }
    printf("%-60s %s\n", hazard, differences ? "FAILED" : "ok");
    fflush(stdout);
    return differences;
}

/* Closes the descriptors that the process was started with, such as ctest's log. */
static void world(void)
{
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
    setenv("CUTIN_SOCKET", "", 1);
    snprintf(work, sizeof(work), "%s/work", mkdtemp(folder) ? folder : "");
    if (mkdir(work, 0777) != 0)
        exit(2);
    company_place(folder);
}

/* An absolute path, since the program runs in a folder of its own. */
static const char *absolute(const char *path, char *text)
{
    return realpath(path, text) ? text : path;
}

int main(int argc, char **argv)
{
    static struct outcome names;
    int failed = 0, count = 0;
    char *rest = NULL, cutin[PATH_MAX], program[PATH_MAX];
    if (argc < 2 || !getenv("CUTIN_PRELOAD"))
        return 2;
    setenv("CUTIN_PRELOAD", absolute(getenv("CUTIN_PRELOAD"), cutin), 1);
    argv[1] = (char *)absolute(argv[1], program);
    world();
    for (int i = 2; i < argc; i++, count++)
        failed += compare(argv[1], argv[i]) != 0;
    if (argc == 2) {
        run(argv[1], "--list", &modes[0], &names);
        for (char *name = strtok_r(names.out, "\n", &rest); name;
             name = strtok_r(NULL, "\n", &rest)) {
            failed += compare(argv[1], name) != 0;
            count++;
        }
    }
    printf("%d hazards, %d failed%s\n", count, failed, failures);
    rmdir(work);
    rmdir(folder);
    return failed || !count;
}
