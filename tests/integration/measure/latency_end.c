/*
 * latency_end.c - when `cutin latency` ends, its processes, socket and simulated GPU are removed.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CUTIN BIN_DIR "/cutin"

TestSuite(latency_end, .init = sandbox_enter, .fini = sandbox_leave);

enum { MOST_CHILDREN = 16 };

struct children {
    pid_t pid[MOST_CHILDREN];
    int n;
    pid_t rt, be; /* workers */
};

static pid_t parent_of(pid_t pid)
{
    char path[64], line[512] = "", *after_name;
    int parent = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (!f)
        return 0;
    if (fgets(line, sizeof(line), f) && (after_name = strrchr(line, ')')))
        sscanf(after_name, ") %*c %d", &parent);
    fclose(f);
    return parent;
}

static void children_find(pid_t parent, struct children *c)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    c->n = 0;
    cr_assert_not_null(proc);
    while ((entry = readdir(proc))) {
        pid_t pid = atoi(entry->d_name);
        if (pid > 0 && c->n < MOST_CHILDREN && parent_of(pid) == parent)
            c->pid[c->n++] = pid;
    }
    closedir(proc);
}

/* The child whose command line ends with `role`, or 0. */
static pid_t children_worker(const struct children *c, const char *role)
{
    char path[64], text[4096], word[16];

    snprintf(word, sizeof(word), "--worker%c%s", 0, role);
    for (int i = 0; i < c->n; i++) {
        FILE *f;
        size_t n, length = strlen("--worker") + 1 + strlen(role) + 1;
        snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)c->pid[i]);
        f = fopen(path, "r");
        if (!f)
            continue;
        n = fread(text, 1, sizeof(text), f);
        fclose(f);
        if (n >= length && memcmp(text + n - length, word, length) == 0)
            return c->pid[i];
    }
    return 0;
}

static void nap(void)
{
    const struct timespec ms = {.tv_nsec = 10000000};

    nanosleep(&ms, NULL);
}

/* Starts a measurement that would take a minute, with a daemon and workers of both levels. */
static struct process *start(struct children *c, int at_least)
{
    struct process *p = process_start(
        (const char *[]){CUTIN, "latency", "--sim", "--samples", "20000", "--json", NULL}, NULL);

    do {
        cr_assert(process_running(p), "%s", process_err(p));
        nap();
        children_find(p->pid, c);
        c->rt = children_worker(c, "rt");
        c->be = children_worker(c, "be");
    } while (c->n < at_least || !c->rt || !c->be);
    return p;
}

static bool gone(pid_t pid)
{
    char path[64], line[512] = "", *after_name;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (!f)
        return true;
    after_name = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
    fclose(f);
    /* There may be no process that reaps an orphan. */
    return after_name && after_name[2] == 'Z';
}

static void all_gone(const struct children *c, double seconds)
{
    for (int i = 0; i < c->n; i++) {
        for (int ms = 0; !gone(c->pid[i]) && ms < seconds * 1000; ms += 10)
            nap();
        cr_expect(gone(c->pid[i]), "process %d is left", (int)c->pid[i]);
    }
}

static int folders_left(void)
{
    DIR *folder = opendir(sandbox_folder());
    struct dirent *entry;
    int n = 0;

    cr_assert_not_null(folder);
    while ((entry = readdir(folder)))
        n += strncmp(entry->d_name, "cutin-latency", 13) == 0;
    closedir(folder);
    return n;
}

Test(latency_end, interrupt_leaves_no_process_or_folder)
{
    struct children c;
    struct process *p = start(&c, 5); /* with cutin's real-time worker, which comes last */

    process_signal(p, SIGINT);
    process_wait(p, 60);
    cr_expect_eq(p->status, 128 + SIGINT, "status %d, %s", p->status, process_err(p));
    cr_expect_not_null(strstr(process_err(p), "interrupted"), "%s", process_err(p));
    if (*process_out(p)) /* without output it had no figures yet */
        cr_expect_not_null(strstr(process_out(p), "\"interrupted\": true"), "%s", process_out(p));
    all_gone(&c, 20);
    cr_expect_eq(folders_left(), 0);
    process_free(p);
}

Test(latency_end, dead_worker_ends_run_with_error)
{
    struct children c;
    struct process *p = start(&c, 4);

    cr_assert_eq(kill(c.be, SIGKILL), 0);
    cr_expect_eq(process_wait(p, 90), 1);
    cr_expect_str_eq(process_out(p), "");
    cr_expect_not_null(strstr(process_err(p), "cutin latency: the be worker"), "%s",
                       process_err(p));
    all_gone(&c, 20);
    cr_expect_eq(folders_left(), 0);
    process_free(p);
}

static int gpus_of(pid_t pid, bool remove)
{
    char pattern[64];
    glob_t found;
    int n = 0;

    snprintf(pattern, sizeof(pattern), "/dev/shm/*latency-%d", (int)pid);
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (; n < (int)found.gl_pathc; n++)
            if (remove)
                unlink(found.gl_pathv[n]);
        globfree(&found);
    }
    return n;
}

Test(latency_end, simulated_gpu_is_removed_at_end)
{
    struct process *p = process_run(
        (const char *[]){CUTIN, "latency", "--sim", "--samples", "50", "--solo-ms", "20", NULL},
        NULL, 60);

    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_eq(gpus_of(p->pid, false), 0);
    process_free(p);
}

/* A killed command cannot tidy up: its files stay, but no process does. */
Test(latency_end, killing_command_ends_its_processes)
{
    struct children c;
    struct process *p = start(&c, 4);

    process_signal(p, SIGKILL);
    cr_expect_eq(process_wait(p, 20), 128 + SIGKILL);
    all_gone(&c, 20);
    gpus_of(p->pid, true);
    process_free(p);
}
