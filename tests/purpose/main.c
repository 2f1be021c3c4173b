/*
 * main.c - cutin-purpose: does real-time work get in, whatever best effort does?
 *
 * Draws workloads, runs them under cutin on a simulated GPU, and judges each from the device's
 * event log. A seed gives the same workload again.
 */
#include "side.h"
#include "trial.h"
#include "tests/mutants.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: cutin-purpose [options]\n"
    "Runs random workloads under cutin on a simulated GPU: best-effort jobs, and a service whose\n"
    "work is to cut in. Judges from the device's event log, in its time, whether it did.\n\n"
    "  --programs N   how many workloads (default 20)\n"
    "  --seed S       seed of the first one (default 1)\n"
    "  --case NAME    this workload, which is not drawn; all: each of them\n"
    "  --solo         draw programs in several streams that nobody above disturbs: their time is\n"
    "                 judged by what they take without cutin\n"
    "  --seconds N    no new one after so many seconds (default 0: no limit)\n"
    "  --jobs N       so many at once (default: as there are processors), each in a time of its\n"
    "                 own; one with the host's clock\n"
    "  --clock WHOSE  step: time that moves when nobody can run, the same in every run and on a\n"
    "                 busy machine; host: the machine's (default step)\n"
    "  --native       the same without cutin, for comparison; nothing fails\n"
    "  --preload F    the libcutin.so to test\n"
    "  --mutant NAME  is a deliberate bug (tests/mutants.h) found? By a workload with a name that "
    "it\n"
    "                 breaks, or makes half as bad again; all: each of them\n"
    "  --set N=V      a variable of cutin for the jobs; may be repeated\n"
    "  --budget US    what a wait may be longer than the rest of what ran (default 200),\n"
    "  --slack US     and a constant on top: switches of context, looks (default 150)\n"
    "  --rules LETTERS  which of a, b, s (settle), c to g decide; others are only shown (default\n"
    "                 all; with the host's clock not c and d, which take what threads wait for)\n"
    "  --allow RULE=PERCENT  so many of the workloads may break it: after, wait, settle, again,\n"
    "                 idle, memory, share or pace; may be repeated\n"
    "  --keep DIR     keep each run's event log there, as SEED.log\n"
    "  --print        print the workloads and run nothing\n"
    "  --help         this text\n"
    "Exit status: 0 no rule is broken more often than allowed, 1 one is, 2 bad usage.\n";

static struct {
    struct trial trial;
    const char *rules;
    uint64_t seed;
    uint32_t programs, seconds, jobs;
    int result; /* file for the verdict; 0: none */
    double allowed[RULE_COUNT];
    bool print, solo;
} options = {
    .trial = {.budget_us = 200, .slack_us = 150, .stepped = true}, .programs = 20, .seed = 1};

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

/* The machine's time: people wait for this command. */
static uint64_t machine_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- output ---------------------------------------------------------------------------------- */

static const char *seed_text(uint64_t seed)
{
    static char text[64];
    if (seed >= SOLO_SEED)
        snprintf(text, sizeof(text), "solo %" PRIu64, seed - SOLO_SEED);
    else if (seed >= CASE_SEED)
        return workload_case_name((uint32_t)(seed - CASE_SEED));
    else
        snprintf(text, sizeof(text), "seed %" PRIu64, seed);
    return text;
}

static bool rule_decides(const struct workload *w, enum rule rule)
{
    char letter = "abscdefg"[rule];
    return !options.trial.native && strchr(options.rules, letter) &&
           !(w->open && strchr(w->open, letter));
}

/* Of the stepped clock: how often a thread waited for something outside of it. */
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
    if (w->solo) {
        printf("%.3f ms ", (double)v->took_ns / 1e6);
    } else {
        printf("%u cut-ins", v->cut_ins);
        if (v->cut_ins)
            printf("  p50 %.1f", v->wait_p50_us);
        printf("  used %.3f ", v->used);
    }
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

/* Returns whether every rule is broken no more often than it may be. */
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

/* Reads RULE=PERCENT. */
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
    bool judged; /* false: it could not run */
    bool broken;
    struct verdict verdict;
};

static void workload_say(const struct workload *w, struct result *r)
{
    uint64_t begin_ns;
    char text[1024];
    int rc = trial_run(&options.trial, w, &r->verdict, &begin_ns);
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
/* The workload by which each was found last. It runs first. */
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
    [MUTANT_ungated_uncounted] = "two_streams_of_long_with_gates",
    [MUTANT_long_forgotten] = "one_in_eight_long",
    [MUTANT_left_uncounted] = "streams_that_come_and_go",
    [MUTANT_priority_goes_round] = "solo_urgent_behind_long",
    [MUTANT_fresh_uncounted] = "eight_streams_with_gates",
    [MUTANT_per_thread_untimed] = "per_thread_stream",
    [MUTANT_loose_in_line] = "solo_alone",
    [MUTANT_narrow_in_line] = "solo_long_side_by_side",
    [MUTANT_slices_measured] = "short_beside_kernels_of_a_second",
    [MUTANT_slices_learned] = "short_beside_kernels_of_a_second_with_gates",
};
enum { MUTANTS_HERE = sizeof(mutants) / sizeof(*mutants), CASES_MOST = 96 };

/* A rule that is broken only with the mutant, or less without it. RULE_COUNT: none. */
static enum rule mutant_shows(const struct verdict *with, const struct verdict *without)
{
    int i = 0;
    while (i < RULE_COUNT && !(with->failed[i] &&
                               (!without->failed[i] || with->figure[i] > 1.5 * without->figure[i])))
        i++;
    return (enum rule)i;
}

/* Verdicts without a mutant; `known`: those that were made. */
static struct {
    struct verdict without[CASES_MOST];
    bool known[CASES_MOST];
} cases;

/* Whether the mutant shows in this workload. */
static bool mutant_in_case(const char *name, uint32_t i)
{
    struct workload w;
    struct verdict with;
    uint64_t begin_ns;
    workload_case(&w, i);
    options.trial.mutant = "none";
    if (!cases.known[i] && trial_run(&options.trial, &w, &cases.without[i], &begin_ns) < 0)
        return false;
    cases.known[i] = true;
    options.trial.mutant = name;
    int rc = trial_run(&options.trial, &w, &with, &begin_ns);
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

/* The arguments for a command that runs only the i-th workload or bug. */
static void work_of(uint32_t i, char *args[SIDE_ARGUMENTS])
{
    static char seed[24];
    snprintf(seed, sizeof(seed), "%" PRIu64, options.seed + i);
    args[0] = options.trial.mutant ? "--mutant" : "--seed";
    args[1] = options.trial.mutant ? (char *)mutants[i].name : seed;
    args[2] = options.trial.mutant ? NULL : "--programs";
    args[3] = options.trial.mutant ? NULL : "1";
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

/* On the stepped clock each workload has a process of its own, so a seed gives the same result
 * alone and among others. On the host's clock they run here, one after another. */
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
        if (options.trial.stepped ? !side_next(&side, i, &r) : machine_ns() >= until)
            break;
        workload_draw(&w, options.seed + i);
        if (!options.trial.stepped)
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

/* Runs one workload or bug in this process. The command that started this one as one of many reads
 * the result. */
static int run_one(void)
{
    struct workload w;
    struct result r = {0};
    if (options.trial.mutant) {
        r.judged = true;
        r.broken = !mutant_find_named(options.trial.mutant);
    } else {
        workload_draw(&w, options.seed);
        workload_say(&w, &r);
    }
    if (options.result && write(options.result, &r, sizeof(r)) != sizeof(r))
        return 2;
    return r.broken;
}

/* Starts the command again, so that it is in the stepped time from its first instruction on.
 * Addresses of memory are then the same in every run. */
static void clock_enter(char **argv)
{
    char id[32];
    if (getenv("SIMGPU_CLOCK"))
        return;
    snprintf(id, sizeof(id), "purpose-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 1);
    setenv("SIMGPU_CLOCK", "step", 1);
    setenv("LD_PRELOAD", options.trial.clock, 1);
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
    static const struct option table[] = {{"programs", 1, NULL, 'n'}, {"seed", 1, NULL, 's'},
                                          {"seconds", 1, NULL, 't'},  {"jobs", 1, NULL, 'j'},
                                          {"result", 1, NULL, 'R'},   {"native", 0, NULL, 'N'},
                                          {"preload", 1, NULL, 'p'},  {"mutant", 1, NULL, 'm'},
                                          {"set", 1, NULL, 'S'},      {"budget", 1, NULL, 'b'},
                                          {"slack", 1, NULL, 'l'},    {"rules", 1, NULL, 'r'},
                                          {"allow", 1, NULL, 'a'},    {"keep", 1, NULL, 'k'},
                                          {"print", 0, NULL, 'P'},    {"clock", 1, NULL, 'C'},
                                          {"case", 1, NULL, 'c'},     {"solo", 0, NULL, 'o'},
                                          {"help", 0, NULL, 'h'},     {0}};
    trial_find(&options.trial);
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
            options.trial.native = true;
            break;
        case 'c':
            if (!case_choose(optarg)) {
                fprintf(stderr, "cutin-purpose: --case=%s: there is no such workload\n", optarg);
                return 2;
            }
            break;
        case 'C':
            options.trial.stepped = strcmp(optarg, "host") != 0;
            break;
        case 'p':
            options.trial.preload = optarg;
            break;
        case 'm':
            options.trial.mutant = optarg;
            options.trial.preload = options.trial.with_mutants;
            break;
        case 'S':
            if (options.trial.sets < TRIAL_SETS)
                options.trial.set[options.trial.sets++] = optarg;
            break;
        case 'b':
            options.trial.budget_us = strtod(optarg, NULL);
            break;
        case 'l':
            options.trial.slack_us = strtod(optarg, NULL);
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
            options.trial.keep = optarg;
            break;
        case 'P':
            options.print = true;
            break;
        case 'o':
            options.solo = true;
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
    if (options.solo && options.seed < CASE_SEED)
        options.seed += SOLO_SEED;
    if (!options.jobs)
        options.jobs = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    if (!options.rules)
        options.rules = options.trial.stepped ? "abscdefg" : "absef";
    if (options.print)
        return print();
    bool all = options.trial.mutant && strcmp(options.trial.mutant, "all") == 0,
         one = options.result || (options.trial.mutant && !all);
    if (all)
        return run_mutants(argc, argv);
    if (options.trial.stepped && !one)
        return run(argc, argv);
    if (options.trial.stepped)
        clock_enter(argv);
    if (options.result)
        fcntl(options.result, F_SETFD, FD_CLOEXEC);
    if (!trial_open(&options.trial)) {
        fprintf(stderr, "cutin-purpose: %s: %s\n", options.trial.folder, strerror(errno));
        return 2;
    }
    int rc = one ? run_one() : run(argc, argv);
    trial_close(&options.trial);
    return rc;
}
