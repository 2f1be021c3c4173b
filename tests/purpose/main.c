/*
 * main.c - cutin-purpose: does real-time work get in, whatever best effort does?
 *
 * Draws workloads, runs them under cutin on a simulated GPU, and judges each from the device's
 * event log. A seed gives the same workload again.
 */
#include "judge.h"
#include "side.h"
#include "common/mutant.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: cutin-purpose [options]\n"
    "Runs random workloads under cutin on a simulated GPU: best-effort jobs, and a service whose\n"
    "work is to cut in. Judges from the device's event log, in its time, whether it did.\n\n"
    "  --programs N   how many workloads (default 20)\n"
    "  --seed S       seed of the first one (default 1)\n"
    "  --case NAME    this workload, which is not drawn; all: each of them\n"
    "  --seconds N    no new one after so many seconds (default 0: no limit)\n"
    "  --jobs N       so many at once (default: as there are processors), each in a time of its\n"
    "                 own; one with the host's clock\n"
    "  --clock WHOSE  step: time that moves when nobody can run, the same in every run and on a\n"
    "                 busy machine; host: the machine's (default step)\n"
    "  --native       the same without cutin, for comparison; nothing fails\n"
    "  --preload F    the libcutin.so to test\n"
    "  --mutant NAME  is a deliberate bug (common/mutant.h) found? By a workload with a name that "
    "it\n"
    "                 breaks, or makes half as bad again; all: each of them\n"
    "  --set N=V      a variable of cutin for the jobs; may be repeated\n"
    "  --budget US    what a wait may be longer than the rest of what ran (default 200),\n"
    "  --slack US     and a constant on top: switches of context, looks (default 150)\n"
    "  --rules LETTERS  which of a, b, s (settle), c to f decide; others are only shown (default\n"
    "                 all; with the host's clock not c and d, which take what threads wait for)\n"
    "  --allow RULE=PERCENT  so many of the workloads may break it: after, wait, settle, again,\n"
    "                 idle, memory or share; may be repeated\n"
    "  --keep DIR     keep each run's event log there, as SEED.log\n"
    "  --print        print the workloads and run nothing\n"
    "  --help         this text\n"
    "Exit status: 0 no rule is broken more often than allowed, 1 one is, 2 bad usage.\n";

enum { SETS = 16, NAME = 512 };

static struct {
    const char *preload, *mutant, *keep, *rules, *set[SETS];
    char worker[NAME], daemon[NAME], command[NAME], simulator[NAME], library[NAME], clock[NAME],
        folder[NAME], with_mutants[NAME];
    uint64_t seed;
    uint32_t programs, seconds, sets, jobs;
    int result; /* file to which the verdict goes; 0: none */
    double budget_us, slack_us, allowed[RULE_COUNT];
    bool native, print, stepped;
} options = {.programs = 20, .seed = 1, .budget_us = 200, .slack_us = 150, .stepped = true};

struct tally {
    uint32_t judged, failed;
    double worst;
    uint64_t worst_seed;
};

static const struct {
    const char *name, *what, *unit;
} rules[] = {
#define X(name, what, unit) {#name, what, unit},
    RULES(X)
#undef X
};

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* The machine's, for who waits for this command. */
static uint64_t machine_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

static void sleep_until(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
        ;
}

/* ---- processes ------------------------------------------------------------------------------- */

static void path_of(const char *name, char path[NAME + 32])
{
    snprintf(path, NAME + 32, "%s/%s", options.folder, name);
}

/* In the child: nothing of cutin's and the simulator's but what is said here. */
static void environment_make(const struct workload *w, uint32_t who)
{
    extern char **environ;
    char text[2 * NAME + 32];
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
    path_of("log", text);
    setenv("SIMGPU_LOG", text, 1);
    if (options.stepped)
        setenv("SIMGPU_CLOCK", "step", 1);
    setenv("SIMGPU_DATA", "0", 1); /* half a gigabyte at a time */
    setenv("LD_LIBRARY_PATH", options.simulator, 1);
    setenv("CUTIN_PROFILE", "off", 1);
    setenv("XDG_CACHE_HOME", "/dev/null", 1); /* what gates and markers cost is recorded there */
    setenv("CUTIN_GATES", w->gates ? "on" : "off", 1);
    path_of("s", text);
    setenv("CUTIN_SOCKET", text, 1);
    if (who == SERVICE)
        setenv("CUTIN_PRIORITY", w->service.level, 1);
    else if (who < JOBS) {
        snprintf(text, sizeof(text), "%u", w->job[who].weight);
        setenv("CUTIN_WEIGHT", text, 1);
        snprintf(text, sizeof(text), "%u", w->budget_us);
        if (w->budget_us)
            setenv("CUTIN_BUDGET_US", text, 1);
        for (uint32_t i = 0; i < options.sets; i++)
            putenv((char *)options.set[i]);
    }
    if (options.mutant)
        setenv("CUTIN_MUTANT", options.mutant, 1);
    bool under = !options.native && who < WORKERS;
    snprintf(text, sizeof(text), "%s%s%s", options.stepped ? options.clock : "",
             options.stepped && under ? ":" : "", under ? options.preload : "");
    setenv("LD_PRELOAD", text, 1);
}

static pid_t process_start(const struct workload *w, uint32_t who, int fd, char *const argv[])
{
    pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd >= 0)
        dup2(fd, RECORD_FD);
    environment_make(w, who);
    if (getppid() == parent)
        execv(argv[0], argv);
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

static pid_t worker_start(const struct workload *w, uint32_t who, int fd, uint64_t begin_ns)
{
    char seed[32], place[16], begin[32];
    snprintf(seed, sizeof(seed), "%" PRIu64, w->seed);
    snprintf(place, sizeof(place), "%u", who);
    snprintf(begin, sizeof(begin), "%" PRIu64, begin_ns);
    return process_start(w, who, fd, (char *[]){options.worker, seed, place, begin, NULL});
}

static pid_t daemon_start(const struct workload *w)
{
    char path[NAME + 32], config[NAME + 32];
    struct stat st;
    path_of("conf", config);
    FILE *f = fopen(config, "we");
    if (!f)
        return -1;
    fprintf(f, "[daemon]\nlog = warn\n[policy]\nname = %s\nmin_share_percent = %u\n",
            w->fair ? "fair" : "fixed", w->least);
    fclose(f);
    path_of("s", path);
    unlink(path);
    pid_t pid = process_start(
        w, WORKERS, -1, (char *[]){options.daemon, "--config", config, "--socket", path, NULL});
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
    p->fd = memfd_create("purpose", 0); /* inherited on purpose */
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

/* What an administrator changes, and how it was. */
static const char *const changes[CHANGE_COUNT][2][3] = {
    [CHANGE_pause] = {{"pause"}, {"resume"}},
    [CHANGE_weight] = {{"set", "--weight", "3"}, {"set", "--weight", "1"}},
    [CHANGE_budget] = {{"set", "--budget-us", "1000"}, {"set", "--budget-us", "200"}},
    [CHANGE_depth] = {{"set", "--depth", "64"}, {"set", "--depth", "256"}},
    [CHANGE_level] = {{"set", "--priority", "1"}, {"set", "--priority", "rt"}},
};

static pid_t change_make(const struct workload *w, pid_t whose, bool back)
{
    const char *const *what = changes[w->change.what][back];
    char pid[16], path[NAME + 32];
    path_of("s", path);
    snprintf(pid, sizeof(pid), "%d", (int)whose);
    return process_start(w, WORKERS, -1,
                         (char *[]){options.command, (char *)what[0], pid, "--socket", path,
                                    (char *)what[1], (char *)what[2], NULL});
}

/* Starts and ends everybody when their time comes. */
static void places_run(const struct workload *w, struct place *places, struct run *r)
{
    pid_t change[2] = {0};
    for (uint32_t ms = 0; ms <= w->ms; ms++) {
        sleep_until(r->begin_ns + ms * 1000000ull);
        for (uint32_t i = 0; i < WORKERS; i++) {
            struct place *p = &places[i];
            if (!p->record)
                continue;
            if (!r->pid[i] && ms >= p->start_ms)
                r->pid[i] = p->pid = worker_start(w, i, p->fd, r->begin_ns);
            if (p->pid && ms >= p->end_ms)
                process_end(&p->pid);
        }
        const struct change *c = &w->change;
        uint32_t since = ms - c->at_ms;
        if (c->what && !options.native && places[c->who].pid && (since == 0 || since == CHANGE_MS))
            change[since != 0] = change_make(w, places[c->who].pid, since != 0);
    }
    for (int i = 0; i < 2; i++)
        process_end(&change[i]);
}

static int workload_run(const struct workload *w, struct verdict *v, uint64_t *begin_ns)
{
    char log[NAME + 32], kept[NAME + 32];
    struct place places[WORKERS] = {0};
    struct run r = {.workload = w, .log = log};
    path_of("log", log);
    unlink(log);
    pid_t daemon = options.native ? 0 : daemon_start(w);
    int rc = daemon < 0 || !places_open(w, places) ? -ENOMEM : 0;
    r.budget_us = w->budget_us ? w->budget_us : options.budget_us;
    if (w->change.what == CHANGE_budget && r.budget_us < CHANGED_BUDGET_US)
        r.budget_us = CHANGED_BUDGET_US;
    r.slack_us = options.slack_us + w->slack_us;
    r.stepped = options.stepped;
    r.begin_ns = *begin_ns = now_ns();
    r.end_ns = r.begin_ns + w->ms * 1000000ull;
    if (rc == 0)
        places_run(w, places, &r);
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
    if (options.keep) {
        snprintf(kept, sizeof(kept), "%s/%" PRIu64 ".log", options.keep, w->seed);
        rename(log, kept);
    }
    return rc;
}

/* ---- what is said ---------------------------------------------------------------------------- */

static const char *seed_text(uint64_t seed)
{
    static char text[64];
    if (seed >= CASE_SEED)
        return workload_case_name((uint32_t)(seed - CASE_SEED));
    snprintf(text, sizeof(text), "seed %" PRIu64, seed);
    return text;
}

static bool rule_decides(const struct workload *w, enum rule rule)
{
    char letter = "abscdef"[rule];
    return !options.native && strchr(options.rules, letter) &&
           !(w->open && strchr(w->open, letter));
}

/* The stepped clock's: how often a thread waited for what is outside of it. */
extern uint64_t simgpu_clock_lost(void) __attribute__((weak));

static bool verdict_print(const struct workload *w, const struct verdict *v, uint64_t begin_ns)
{
    static uint64_t lost;
    char text[1024];
    bool failed = false;
    for (int i = 0; i < RULE_COUNT; i++)
        failed |= v->failed[i] && rule_decides(w, (enum rule)i);
    workload_print(w, text, sizeof(text));
    printf("%s %s %s\n    ", seed_text(w->seed), failed ? "BROKEN" : "holds", text);
    printf("%u cut-ins", v->cut_ins);
    if (v->cut_ins)
        printf("  p50 %.1f", v->wait_p50_us);
    printf("  used %.3f ", v->used);
    for (int i = 0; i < RULE_COUNT; i++) {
        if (!v->judged[i])
            continue;
        const char *mark = !v->failed[i] ? "" : rule_decides(w, (enum rule)i) ? "!" : "?";
        printf("  %s%s %.1f", mark, rules[i].name, v->figure[i]);
        if (v->failed[i] && v->at_ns[i])
            printf(" (%.3f ms)", (double)(v->at_ns[i] - begin_ns) / 1e6);
    }
    if (simgpu_clock_lost && simgpu_clock_lost() > lost)
        printf("  (another time it may be otherwise)");
    lost = simgpu_clock_lost ? simgpu_clock_lost() : 0;
    printf("\n");
    fflush(stdout);
    return failed;
}

static void tally_add(struct tally *t, const struct verdict *v, const struct workload *w)
{
    for (int i = 0; i < RULE_COUNT; i++) {
        if (!v->judged[i])
            continue;
        t[i].judged++;
        t[i].failed += v->failed[i] && rule_decides(w, (enum rule)i);
        if (t[i].judged == 1 || v->figure[i] > t[i].worst) {
            t[i].worst = v->figure[i];
            t[i].worst_seed = w->seed;
        }
    }
}

/* Returns whether no rule is broken more often than it may be. */
static bool tally_print(const struct tally *t)
{
    bool allowed = true;
    printf("\n%-72s %6s %6s %9s\n", "rule", "judged", "broken", "worst");
    for (int i = 0; i < RULE_COUNT; i++) {
        bool more = t[i].failed * 100.0 > options.allowed[i] * t[i].judged;
        allowed &= !more;
        if (t[i].judged)
            printf("%-72s %6u %6u %9.1f %-7s %s%s\n", rules[i].what, t[i].judged, t[i].failed,
                   t[i].worst, rules[i].unit, seed_text(t[i].worst_seed), more ? " (!)" : "");
    }
    return allowed;
}

/* RULE=PERCENT */
static bool allow(const char *text)
{
    size_t length = strcspn(text, "=");
    for (int i = 0; i < RULE_COUNT; i++)
        if (text[length] && strlen(rules[i].name) == length &&
            !strncmp(text, rules[i].name, length)) {
            options.allowed[i] = strtod(text + length + 1, NULL);
            return true;
        }
    return false;
}

struct result {
    bool judged; /* else it could not run */
    bool broken;
    struct verdict verdict;
};

static void workload_say(const struct workload *w, struct result *r)
{
    uint64_t begin_ns;
    char text[1024];
    int rc = workload_run(w, &r->verdict, &begin_ns);
    r->judged = rc == 0;
    if (r->judged) {
        r->broken = verdict_print(w, &r->verdict, begin_ns);
        return;
    }
    workload_print(w, text, sizeof(text));
    printf("%s could not run: %s: %s\n", seed_text(w->seed), strerror(-rc), text);
}

static int print(void)
{
    for (uint32_t i = 0; i < options.programs; i++) {
        struct workload w;
        char text[1024];
        workload_draw(&w, options.seed + i);
        workload_print(&w, text, sizeof(text));
        printf("%s %s\n", seed_text(w.seed), text);
    }
    return 0;
}

/* ---- deliberate bugs ------------------------------------------------------------------------- */

static const struct {
    const char *name, *rule;
    enum mutant mutant;
} mutants[] = {
#define X(name, rule) {#name, rule, MUTANT_##name},
    MUTANTS_OF_PURPOSE(X)
#undef X
};
/* Where each was found last; that workload runs first. */
static const char *const found_by[] = {
    [MUTANT_estimates_constant] = "one_short_three_long",
    [MUTANT_hold_ends_by_look] = "four_jobs_first",
    [MUTANT_allocation_ahead] = "pool",
    [MUTANT_feedback_ignored] = "varying_job_first",
    [MUTANT_loose_unbounded] = "four_jobs_first",
    [MUTANT_alone_untried] = "two_jobs",
    [MUTANT_gate_not_opened] = "one_job_with_gates",
    [MUTANT_guard_of_old] = "long_at_first",
    [MUTANT_glance_missing] = "turns_in_two_streams",
    [MUTANT_guard_each_time] = "streams_beside_what_stands",
    [MUTANT_marker_lost] = "varying_job_first",
    [MUTANT_copy_whole] = "long_copies",
    [MUTANT_stream_uncounted] = "four_jobs_first",
    [MUTANT_pieces_uncounted] = "two_streams_of_long_with_gates",
    [MUTANT_long_forgotten] = "one_in_eight_long",
    [MUTANT_left_uncounted] = "streams_that_come_and_go",
};
enum { MUTANTS_HERE = sizeof(mutants) / sizeof(*mutants), CASES_MOST = 64 };

/* What the mutant made of the workload that was no fault before, or less of one; RULE_COUNT:
 * nothing. */
static enum rule mutant_shows(const struct verdict *with, const struct verdict *without)
{
    int i = 0;
    while (i < RULE_COUNT && !(with->failed[i] &&
                               (!without->failed[i] || with->figure[i] > 1.5 * without->figure[i])))
        i++;
    return (enum rule)i;
}

/* Verdicts without any; `known`: they have been made. */
static struct {
    struct verdict without[CASES_MOST];
    bool known[CASES_MOST];
} cases;

/* Does it show in this workload? */
static bool mutant_in_case(const char *name, uint32_t i)
{
    struct workload w;
    struct verdict with;
    uint64_t begin_ns;
    workload_case(&w, i);
    options.mutant = "none";
    if (!cases.known[i] && workload_run(&w, &cases.without[i], &begin_ns) < 0)
        return false;
    cases.known[i] = true;
    options.mutant = name;
    int rc = workload_run(&w, &with, &begin_ns);
    enum rule shown = rc < 0 ? RULE_COUNT : mutant_shows(&with, &cases.without[i]);
    if (shown == RULE_COUNT)
        return false;
    printf("%-20s found by %s: %s %.1f, without it %.1f\n", name, workload_case_name(i),
           rules[shown].name, with.figure[shown], cases.without[i].figure[shown]);
    fflush(stdout);
    return true;
}

static bool mutant_find(uint32_t m)
{
    enum mutant mutant = mutants[m].mutant;
    const char *likely = mutant < sizeof(found_by) / sizeof(*found_by) ? found_by[mutant] : NULL;
    for (int pass = likely ? 0 : 1; pass < 2; pass++)
        for (uint32_t i = 0; i < CASES_MOST && workload_case_name(i); i++) {
            bool is_likely = likely && strcmp(workload_case_name(i), likely) == 0;
            if (is_likely == (pass == 0) && mutant_in_case(mutants[m].name, i))
                return true;
        }
    printf("%-20s MISSED: %s\n", mutants[m].name, mutants[m].rule);
    fflush(stdout);
    return false;
}

static bool mutant_find_named(const char *name)
{
    for (uint32_t i = 0; i < MUTANTS_HERE; i++)
        if (strcmp(name, mutants[i].name) == 0)
            return mutant_find(i);
    printf("%s is no bug of these\n", name);
    return false;
}

/* ---- side by side ---------------------------------------------------------------------------- */

/* The same command for the i-th workload or bug alone. */
static void work_of(uint32_t i, char *args[SIDE_ARGUMENTS])
{
    static char seed[24];
    snprintf(seed, sizeof(seed), "%" PRIu64, options.seed + i);
    args[0] = options.mutant ? "--mutant" : "--seed";
    args[1] = options.mutant ? (char *)mutants[i].name : seed;
    args[2] = options.mutant ? NULL : "--programs";
    args[3] = options.mutant ? NULL : "1";
}

static struct side side_of(uint32_t many, int argc, char **argv)
{
    return (struct side){.many = many,
                         .at_once = options.jobs,
                         .argc = argc,
                         .argv = argv,
                         .work = work_of,
                         .size = sizeof(struct result)};
}

/* Each on the stepped clock in a process of its own: a seed gives the same alone and among others.
 * On the host's clock one after the other, here. */
static int run(int argc, char **argv)
{
    struct tally tally[RULE_COUNT] = {0};
    uint64_t until = options.seconds ? machine_ns() + options.seconds * 1000000000ull : UINT64_MAX;
    uint32_t broken = 0, unable = 0, ran = 0;
    struct side side = side_of(options.programs, argc, argv);
    for (uint32_t i = 0; i < options.programs; i++, ran++) {
        struct workload w;
        struct result r = {0};
        if (machine_ns() >= until)
            side_stop(&side);
        if (options.stepped ? !side_next(&side, i, &r) : machine_ns() >= until)
            break;
        workload_draw(&w, options.seed + i);
        if (!options.stepped)
            workload_say(&w, &r);
        unable += !r.judged;
        broken += r.judged && r.broken;
        if (r.judged)
            tally_add(tally, &r.verdict, &w);
    }
    bool allowed = tally_print(tally) && !unable;
    printf("%u workloads hold, %u broken%s\n", ran - broken - unable, broken,
           broken && allowed ? ", no more than allowed" : "");
    return allowed ? 0 : 1;
}

static int run_mutants(int argc, char **argv)
{
    struct side side = side_of(MUTANTS_HERE, argc, argv);
    struct result r;
    uint32_t found = 0;
    for (uint32_t i = 0; side_next(&side, i, &r); i++)
        found += r.judged && !r.broken;
    printf("%u of %u deliberate bugs found\n", found, MUTANTS_HERE);
    return found == MUTANTS_HERE ? 0 : 1;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Here, of one workload or bug; who started this as one of many reads what came of it. */
static int run_one(void)
{
    struct workload w;
    struct result r = {0};
    if (options.mutant) {
        r.judged = true;
        r.broken = !mutant_find_named(options.mutant);
    } else {
        workload_draw(&w, options.seed);
        workload_say(&w, &r);
    }
    if (options.result && write(options.result, &r, sizeof(r)) != sizeof(r))
        return 2;
    return r.broken;
}

static void paths_make(void)
{
    char self[NAME - 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    snprintf(options.worker, NAME, "%s/tests/purpose-worker", self);
    snprintf(options.daemon, NAME, "%s/cutind", self);
    snprintf(options.command, NAME, "%s/cutin", self);
    snprintf(options.simulator, NAME, "%s/../lib/simgpu", self);
    snprintf(options.library, NAME, "%s/../lib/libcutin.so", self);
    snprintf(options.clock, NAME, "%s/../lib/simgpu/libsimgpu_clock.so", self);
    snprintf(options.with_mutants, NAME, "%s/../lib/tests/libcutin-mutants.so", self);
    options.preload = options.library;
    const char *tmp = getenv("TMPDIR");
    snprintf(options.folder, sizeof(options.folder), "%.400s/purpose.XXXXXX", tmp ? tmp : "/tmp");
}

static void folder_remove(void)
{
    char path[NAME + 32];
    for (const char *const *f = (const char *const[]){"log", "conf", "s", "s.lock", NULL}; *f;
         f++) {
        path_of(*f, path);
        unlink(path);
    }
    rmdir(options.folder);
    for (const char *const *f = (const char *const[]){"", "clock-", NULL}; *f; f++) {
        snprintf(path, sizeof(path), "/simgpu-%s%u-purpose-%d", *f, (unsigned int)getuid(),
                 (int)getpid());
        shm_unlink(path);
    }
}

/* The whole command lives in that time, from its first instruction on; where memory lies is the
 * same in every run, too. */
static void clock_enter(char **argv)
{
    char id[32];
    if (getenv("SIMGPU_CLOCK"))
        return;
    snprintf(id, sizeof(id), "purpose-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 1);
    setenv("SIMGPU_CLOCK", "step", 1);
    setenv("LD_PRELOAD", options.clock, 1);
    personality(ADDR_NO_RANDOMIZE);
    execv("/proc/self/exe", argv);
    fprintf(stderr, "cutin-purpose: cannot start itself again: %s\n", strerror(errno));
    exit(2);
}

static bool case_choose(const char *name)
{
    uint32_t n = 0;
    bool all = strcmp(name, "all") == 0;
    for (const char *is; (is = workload_case_name(n)); n++)
        if (strcmp(is, name) == 0) {
            options.seed = CASE_SEED + n;
            options.programs = 1;
            return true;
        }
    options.seed = CASE_SEED;
    options.programs = n;
    return all;
}

int main(int argc, char **argv)
{
    static const struct option table[] = {{"programs", 1, NULL, 'n'},
                                          {"seed", 1, NULL, 's'},
                                          {"seconds", 1, NULL, 't'},
                                          {"jobs", 1, NULL, 'j'},
                                          {"result", 1, NULL, 'R'},
                                          {"native", 0, NULL, 'N'},
                                          {"preload", 1, NULL, 'p'},
                                          {"mutant", 1, NULL, 'm'},
                                          {"set", 1, NULL, 'S'},
                                          {"budget", 1, NULL, 'b'},
                                          {"slack", 1, NULL, 'l'},
                                          {"rules", 1, NULL, 'r'},
                                          {"allow", 1, NULL, 'a'},
                                          {"keep", 1, NULL, 'k'},
                                          {"print", 0, NULL, 'P'},
                                          {"clock", 1, NULL, 'C'},
                                          {"case", 1, NULL, 'c'},
                                          {"help", 0, NULL, 'h'},
                                          {0}};
    paths_make();
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;)
        switch (c) {
        case 'n':
            options.programs = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 't':
            options.seconds = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'j':
            options.jobs = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 'R':
            options.result = (int)strtol(optarg, NULL, 10);
            break;
        case 'N':
            options.native = true;
            break;
        case 'c':
            if (!case_choose(optarg)) {
                fprintf(stderr, "cutin-purpose: --case=%s: there is no such workload\n", optarg);
                return 2;
            }
            break;
        case 'C':
            options.stepped = strcmp(optarg, "host") != 0;
            break;
        case 'p':
            options.preload = optarg;
            break;
        case 'm':
            options.mutant = optarg;
            options.preload = options.with_mutants;
            break;
        case 'S':
            if (options.sets < SETS)
                options.set[options.sets++] = optarg;
            break;
        case 'b':
            options.budget_us = strtod(optarg, NULL);
            break;
        case 'l':
            options.slack_us = strtod(optarg, NULL);
            break;
        case 'r':
            options.rules = optarg;
            break;
        case 'a':
            if (!allow(optarg)) {
                fprintf(stderr, "cutin-purpose: --allow=%s is not RULE=PERCENT\n", optarg);
                return 2;
            }
            break;
        case 'k':
            options.keep = optarg;
            break;
        case 'P':
            options.print = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            fputs(help, stderr);
            return 2;
        }
    if (optind < argc) {
        fprintf(stderr, "cutin-purpose: %s is not wanted\n", argv[optind]);
        return 2;
    }
    if (!options.jobs)
        options.jobs = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    if (!options.rules)
        options.rules = options.stepped ? "abscdef" : "absef";
    if (options.print)
        return print();
    bool all = options.mutant && strcmp(options.mutant, "all") == 0,
         one = options.result || (options.mutant && !all);
    if (all)
        return run_mutants(argc, argv);
    if (options.stepped && !one)
        return run(argc, argv);
    if (options.stepped)
        clock_enter(argv);
    if (options.result)
        fcntl(options.result, F_SETFD, FD_CLOEXEC);
    if (!mkdtemp(options.folder)) {
        fprintf(stderr, "cutin-purpose: %s: %s\n", options.folder, strerror(errno));
        return 2;
    }
    int rc = one ? run_one() : run(argc, argv);
    folder_remove();
    return rc;
}
