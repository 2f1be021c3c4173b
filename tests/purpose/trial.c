/*
 * trial.c - runs one workload once and judges it (see trial.h).
 */
#include "trial.h"
#include "common/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH_ROOM = TRIAL_NAME + 32 };

/* ---- processes ------------------------------------------------------------------------------- */

static void path_of(const struct trial *t, const char *name, char path[PATH_ROOM])
{
    snprintf(path, PATH_ROOM, "%s/%s", t->folder, name);
}

/* In the child. Of cutin's and the simulator's variables it keeps only those set here. */
static void environment_make(const struct trial *t, const struct workload *w, uint32_t who)
{
    extern char **environ;
    char text[2 * TRIAL_NAME + 32];
    for (char **e = environ; *e;) {
        if (!strncmp(*e, "CUTIN_", 6) || !strncmp(*e, "SIMGPU_", 7)) {
            snprintf(text, sizeof(text), "%.*s", (int)strcspn(*e, "="), *e);
            unsetenv(text);
        } else {
            e++;
        }
    }
    snprintf(text, sizeof(text), "purpose-%d", (int)getppid());
    setenv("SIMGPU_ID", text, 1);
    path_of(t, "log", text);
    setenv("SIMGPU_LOG", text, 1);
    if (t->stepped)
        setenv("SIMGPU_CLOCK", "step", 1);
    setenv("SIMGPU_DATA", "0", 1); /* else half a gigabyte is moved at a time */
    setenv("LD_LIBRARY_PATH", t->simulator, 1);
    setenv("CUTIN_PROFILE", "off", 1);
    setenv("XDG_CACHE_HOME", "/dev/null", 1); /* costs of gates and markers are recorded there */
    setenv("CUTIN_GATES", w->gates ? "on" : "off", 1);
    path_of(t, "s", text);
    setenv("CUTIN_SOCKET", text, 1);
    if (who == SERVICE)
        setenv("CUTIN_PRIORITY", w->service.level, 1);
    else if (who < JOBS) {
        snprintf(text, sizeof(text), "%u", w->job[who].weight);
        setenv("CUTIN_WEIGHT", text, 1);
        snprintf(text, sizeof(text), "%u", w->budget_us);
        if (w->budget_us)
            setenv("CUTIN_BUDGET_US", text, 1);
        for (uint32_t i = 0; i < t->sets; i++)
            putenv((char *)t->set[i]);
    }
    if (t->mutant)
        setenv("CUTIN_MUTANT", t->mutant, 1);
    bool under = !t->native && who < WORKERS;
    snprintf(text, sizeof(text), "%s%s%s", t->stepped ? t->clock : "",
             t->stepped && under ? ":" : "", under ? t->preload : "");
    setenv("LD_PRELOAD", text, 1);
}

static pid_t process_start(const struct trial *t, const struct workload *w, uint32_t who, int fd,
                           const char *const *argv)
{
    pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd >= 0)
        dup2(fd, RECORD_FD);
    environment_make(t, w, who);
    if (getppid() == parent)
        execv(argv[0], (char *const *)(unsigned long)argv);
    _exit(127);
}

static void process_end(pid_t *pid)
{
    if (*pid > 0) {
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
    }
    *pid = 0;
}

static pid_t worker_start(const struct trial *t, const struct workload *w, uint32_t who, int fd,
                          uint64_t begin_ns)
{
    char seed[32], place[16], begin[32];
    snprintf(seed, sizeof(seed), "%" PRIu64, w->seed);
    snprintf(place, sizeof(place), "%u", who);
    snprintf(begin, sizeof(begin), "%" PRIu64, begin_ns);
    return process_start(t, w, who, fd, (const char *[]){t->worker, seed, place, begin, NULL});
}

static pid_t daemon_start(const struct trial *t, const struct workload *w)
{
    char path[PATH_ROOM], config[PATH_ROOM];
    struct stat st;
    path_of(t, "conf", config);
    FILE *f = fopen(config, "we");
    if (!f)
        return -1;
    fprintf(f, "[daemon]\nlog = warn\n[policy]\nname = %s\nmin_share_percent = %u\n",
            w->fair ? "fair" : "fixed", w->least);
    fclose(f);
    path_of(t, "s", path);
    unlink(path);
    pid_t pid = process_start(
        t, w, WORKERS, -1, (const char *[]){t->daemon, "--config", config, "--socket", path, NULL});
    for (int i = 0; stat(path, &st) && i < 5000; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return pid;
}

/* ---- one workload ---------------------------------------------------------------------------- */

struct place {
    pid_t pid;
    int fd;
    struct record *record;
    uint32_t start_ms, end_ms;
};

static bool place_open(struct place *p)
{
    p->fd = memfd_create("purpose", 0); /* the worker inherits it on purpose */
    if (p->fd < 0 || ftruncate(p->fd, sizeof(*p->record)))
        return false;
    p->record = mmap(NULL, sizeof(*p->record), PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    return p->record != MAP_FAILED;
}

static void place_close(struct place *p)
{
    process_end(&p->pid);
    if (p->record && p->record != MAP_FAILED)
        munmap(p->record, sizeof(*p->record));
    if (p->fd > 0)
        close(p->fd);
}

static bool places_open(const struct workload *w, struct place *places)
{
    bool there[WORKERS] = {false};
    for (uint32_t i = 0; i < w->jobs; i++) {
        there[i] = true;
        places[i].start_ms = w->job[i].start_ms;
        places[i].end_ms = w->job[i].end_ms;
    }
    there[SERVICE] = w->service.there;
    places[SERVICE].start_ms = w->service.start_ms;
    places[SERVICE].end_ms = w->ms;
    for (uint32_t i = 0; i < WORKERS; i++)
        if (there[i] && !place_open(&places[i]))
            return false;
    return true;
}

static bool worker_failed(const struct place *p, uint64_t seed, uint32_t who)
{
    uint32_t failed = p->record ? atomic_load(&p->record->failed) : 0;
    if (p->record && !p->record->begun_ns && !failed) {
        printf("seed %" PRIu64 ": worker %u never began\n", seed, who);
        return true;
    }
    if (failed)
        printf("seed %" PRIu64 ": worker %u was answered %u in line %u\n", seed, who, failed,
               p->record->failed_line);
    return failed;
}

/* What an administrator changes, and how to undo it. */
static const char *const changes[CHANGE_COUNT][2][3] = {
    [CHANGE_pause] = {{"pause"}, {"resume"}},
    [CHANGE_weight] = {{"set", "--weight", "3"}, {"set", "--weight", "1"}},
    [CHANGE_budget] = {{"set", "--budget-us", "1000"}, {"set", "--budget-us", "200"}},
    [CHANGE_depth] = {{"set", "--depth", "64"}, {"set", "--depth", "256"}},
    [CHANGE_level] = {{"set", "--priority", "1"}, {"set", "--priority", "rt"}},
};

static pid_t change_make(const struct trial *t, const struct workload *w, pid_t whose, bool back)
{
    const char *const *what = changes[w->change.what][back];
    char pid[16], path[PATH_ROOM];
    path_of(t, "s", path);
    snprintf(pid, sizeof(pid), "%d", (int)whose);
    return process_start(
        t, w, WORKERS, -1,
        (const char *[]){t->command, what[0], pid, "--socket", path, what[1], what[2], NULL});
}

static bool solo_is_done(const struct workload *w, const struct place *places)
{
    return w->solo && __atomic_load_n(&places[0].record->done_ns, __ATOMIC_ACQUIRE);
}

/* Starts and ends each process when its time comes. */
static void places_run(const struct trial *t, const struct workload *w, struct place *places,
                       struct run *r)
{
    pid_t change[2] = {0};
    for (uint32_t ms = 0; ms <= w->ms && !solo_is_done(w, places); ms++) {
        clock_sleep_until(r->begin_ns + ms * 1000000ull);
        for (uint32_t i = 0; i < WORKERS; i++) {
            struct place *p = &places[i];
            if (!p->record)
                continue;
            if (!r->pid[i] && ms >= p->start_ms)
                r->pid[i] = p->pid = worker_start(t, w, i, p->fd, r->begin_ns);
            if (p->pid && ms >= p->end_ms)
                process_end(&p->pid);
        }
        const struct change *c = &w->change;
        uint32_t since = ms - c->at_ms;
        if (c->what && !t->native && places[c->who].pid && (since == 0 || since == CHANGE_MS))
            change[since != 0] = change_make(t, w, places[c->who].pid, since != 0);
    }
    for (int i = 0; i < 2; i++)
        process_end(&change[i]);
}

/* `native_ns` is for struct run. */
static int trial_run_once(const struct trial *t, const struct workload *w, struct verdict *v,
                          uint64_t *begin_ns, uint64_t native_ns)
{
    char log[PATH_ROOM], kept[PATH_ROOM];
    struct place places[WORKERS] = {0};
    struct run r = {.workload = w, .log = log, .native_ns = native_ns};
    path_of(t, "log", log);
    unlink(log);
    pid_t daemon = t->native ? 0 : daemon_start(t, w);
    int rc = daemon < 0 || !places_open(w, places) ? -ENOMEM : 0;
    r.budget_us = w->budget_us ? w->budget_us : t->budget_us;
    if (w->change.what == CHANGE_budget && r.budget_us < CHANGED_BUDGET_US)
        r.budget_us = CHANGED_BUDGET_US;
    r.slack_us = t->slack_us + w->slack_us;
    r.stepped = t->stepped;
    r.begin_ns = *begin_ns = clock_ns();
    r.end_ns = r.begin_ns + w->ms * 1000000ull;
    if (rc == 0)
        places_run(t, w, places, &r);
    for (uint32_t i = 0; i < WORKERS; i++) {
        process_end(&places[i].pid);
        r.record[i] = places[i].record;
        if (rc == 0 && worker_failed(&places[i], w->seed, i))
            rc = -EIO;
    }
    process_end(&daemon);
    if (rc == 0)
        rc = judge(&r, v);
    for (uint32_t i = 0; i < WORKERS; i++)
        place_close(&places[i]);
    if (t->keep) {
        snprintf(kept, sizeof(kept), "%s/%" PRIu64 ".log", t->keep, w->seed);
        rename(log, kept);
    }
    return rc;
}

int trial_run(const struct trial *t, const struct workload *w, struct verdict *v,
              uint64_t *begin_ns)
{
    struct trial without = *t;
    without.native = true;
    without.keep = NULL;
    int rc = w->solo ? trial_run_once(&without, w, v, begin_ns, 0) : 0;
    return rc ? rc : trial_run_once(t, w, v, begin_ns, w->solo ? v->took_ns : 0);
}

/* ---- the programs and the folder ------------------------------------------------------------- */

void trial_find(struct trial *t)
{
    char self[TRIAL_NAME - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    snprintf(t->worker, TRIAL_NAME, "%s/tests/purpose-worker", self);
    snprintf(t->daemon, TRIAL_NAME, "%s/cutind", self);
    snprintf(t->command, TRIAL_NAME, "%s/cutin", self);
    snprintf(t->simulator, TRIAL_NAME, "%s/../lib/simgpu", self);
    snprintf(t->library, TRIAL_NAME, "%s/../lib/libcutin.so", self);
    snprintf(t->clock, TRIAL_NAME, "%s/../lib/simgpu/libsimgpu_clock.so", self);
    snprintf(t->with_mutants, TRIAL_NAME, "%s/../lib/tests/libcutin-mutants.so", self);
    t->preload = t->library;
}

bool trial_open(struct trial *t)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(t->folder, sizeof(t->folder), "%.400s/purpose.XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(t->folder);
}

void trial_close(const struct trial *t)
{
    char path[PATH_ROOM];
    for (const char *const *f = (const char *const[]){"log", "conf", "s", "s.lock", NULL}; *f;
         f++) {
        path_of(t, *f, path);
        unlink(path);
    }
    rmdir(t->folder);
    for (const char *const *f = (const char *const[]){"", "clock-", NULL}; *f; f++) {
        snprintf(path, sizeof(path), "/simgpu-%s%u-purpose-%d", *f, (unsigned int)getuid(),
                 (int)getpid());
        shm_unlink(path);
    }
}
