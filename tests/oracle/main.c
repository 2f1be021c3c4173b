/*
 * main.c - cutin-oracle: does a preloaded program see what a bare one sees?
 *
 * Random programs run bare and under cutin, held and released at random; the results must be equal.
 * A program that fails is shrunk to a minimal one, and printed with its seed.
 */
#include "jobs.h"
#include "pair.h"
#include "side.h"
#include "tests/oracle/program/recorded.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/mutants.h"

static const char help[] =
    "usage: cutin-oracle [options]\n"
    "Runs random CUDA driver programs bare and under cutin and compares what they see: on two\n"
    "simulated devices, in two contexts and a green one, by up to three threads.\n\n"
    "  --programs N   how many programs (default 2000)\n"
    "  --seed S       seed of the first one (default 1)\n"
    "  --mask M       only these intents of each program (hexadecimal; what shrinking prints)\n"
    "  --jobs N       in so many processes side by side (default 6 for each processor)\n"
    "  --repeat N     run each program N times, 256 at most (default 1)\n"
    "  --progress N   a line every N programs (default 10000; 0: none)\n"
    "  --hang S       seconds without progress that count as a hang (default 20; with --mutant 3)\n"
    "  --preload F    the libcutin.so to test\n"
    "  --recorded     run each program that once failed, 20 times\n"
    "  --record       print the first program as recorded.c wants it, and run nothing\n"
    "  --bug NAME     give the library a deliberate bug (tests/mutants.h)\n"
    "  --mutant NAME    how many programs until a deliberate bug is found; all: each of them\n"
    "  --gates MODE   CUTIN_GATES; on: with one after every few kernels; mirrored: the same, and "
    "a\n"
    "                 driver that does not register memory (default auto)\n"
    "  --distance US  CUTIN_DISTANCE_US: the GPU is a round trip of that long away\n"
    "  --unkind       gates; what they and markers cost, and how late they are seen, is drawn; "
    "some\n"
    "                 holds are long, and a profiler comes and goes (simulated driver)\n"
    "  --suspend      CUTIN_SUSPEND=on: holds stop what runs (simulated driver)\n"
    "  --real         use the real driver instead of the simulated one\n"
    "  --stop-after N stop after N failures (default 3)\n"
    "  --no-shrink    print failing programs whole\n"
    "  --print        print the programs and run nothing\n"
    "  --help         this text\n"
    "Exit status: 0 all passed, 1 a program failed, 2 bad usage.\n";

struct options {
    unsigned programs, repeat, stop_after, progress, jobs;
    uint64_t seed, mask;
    bool shrink, print, real;
    const char *mutant;
    bool recorded, record;
};

enum { HANG_SECONDS = 20 };

static struct program program;

static void prepare(uint64_t seed, uint64_t mask)
{
    program_draw(&program, seed);
    program_lower(&program, mask);
}

/* Whether the program under `mask` fails in one of `tries` runs. */
static bool fails(uint64_t seed, uint64_t mask, unsigned tries, char *why, size_t size)
{
    const struct outcome *bare, *cutin;
    prepare(seed, mask);
    unsigned done = pair_run(seed, 0, tries, mask, &bare, &cutin);
    for (unsigned i = 0; i < done; i++)
        if (pair_compare(&program, &bare[i], &cutin[i], why, size))
            return true;
    if (done == tries)
        return false;
    snprintf(why, size, "%s",
             bare[done].done ? "under cutin: hung, or ended its process"
                             : "bare: hung, or ended its process");
    return true;
}

/* Removes ever shorter runs of intents as long as the program still fails. */
static uint64_t shrink(uint64_t seed, uint64_t mask, char *why, size_t size)
{
    for (unsigned run = 32; run; run /= 2)
        for (unsigned at = 0; at < 64; at += run) {
            uint64_t part = (run == 64 ? ~0ull : (1ull << run) - 1) << at;
            if ((mask & part) && fails(seed, mask & ~part, 24, why, size))
                mask &= ~part;
        }
    return mask;
}

static void report(uint64_t seed, const struct options *o, const char *first)
{
    char why[256];
    uint64_t mask = o->mask;
    snprintf(why, sizeof(why), "%s", first);
    printf("FAILED seed %" PRIu64 ": %s\n", seed, why);
    fflush(stdout);
    if (o->shrink && fails(seed, mask, 48, why, sizeof(why)))
        mask = shrink(seed, mask, why, sizeof(why));
    prepare(seed, mask);
    printf("smallest found: %s\n  cutin-oracle --seed %" PRIu64
           " --programs 1 --repeat 48 --mask %" PRIx64 "\n",
           first, seed, mask);
    fflush(stdout);
    program_print(&program, STDOUT_FILENO);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Tells how far a long run is. If stderr is a terminal, it does so for every batch. */
static void progress(const struct options *o, struct tally *t, unsigned ran, double since)
{
    unsigned before = atomic_fetch_add(&t->ran, ran), now = before + ran;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, now < o->programs ? "\r%u of %u" : "\r%u of %u\n", now, o->programs);
    if (!o->progress || before / o->progress == now / o->progress)
        return;
    printf("%u of %u from seed %" PRIu64 ", %u failed, %.0f per second\n", now, o->programs,
           o->seed, t->failed, now / (seconds() - since));
    fflush(stdout);
}

/* The jobs take batches of one setting in turn. */
static bool is_mine(const struct options *o, uint64_t seed, unsigned job)
{
    return seed / SETTING_SEEDS % o->jobs == job;
}

static void run_share(const struct options *o, unsigned job, struct tally *t)
{
    char why[256];
    double since = seconds();
    for (unsigned i = 0; i < o->programs && t->failed < o->stop_after;) {
        const struct outcome *bare, *cutin;
        unsigned want = pair_batch(o->seed + i, o->programs - i), before = i;
        unsigned step = 1;
        if (!is_mine(o, o->seed + i, job)) {
            i += want;
            continue;
        }
        if (o->repeat > 1) {
            want = o->repeat;
            step = 0;
        }
        unsigned done = pair_run(o->seed + i, step, want, o->mask, &bare, &cutin), bad = 0;
        for (unsigned k = 0; k < done && !bad; k++) {
            prepare(o->seed + i + k * step, o->mask);
            bad = (unsigned)pair_compare(&program, &bare[k], &cutin[k], why, sizeof(why));
            if (bad)
                done = k;
        }
        if (!bad && done < want) {
            bad = 1;
            snprintf(why, sizeof(why), "%s: hung, or ended its process",
                     bare[done].done ? "under cutin" : "bare");
        }
        unsigned ok = step ? done : !bad;
        t->passed += ok;
        i += ok;
        if (bad) {
            t->failed++;
            report(o->seed + i, o, why);
            i++;
        }
        progress(o, t, i - before, since);
    }
}

/* ---- does the oracle find deliberate bugs? --------------------------------------------------- */

static const struct {
    const char *name, *rule, *gates;
} mutants[] = {
#define X(name, rule) {#name, rule, NULL},
    MUTANTS(X)
#undef X
#define X(name, rule) {#name, rule, NULL},
#if CUDA_VERSION >= 12050
        MUTANTS_OF_GREEN(X)
#endif
#undef X
#define X(name, rule) {#name, rule, "on"},
            MUTANTS_OF_GATES(X)
#undef X
};
enum { MUTANTS_HERE = sizeof(mutants) / sizeof(*mutants) };

/* Returns which of `count` programs is the first to show that something is wrong; 0: none. There is
 * no bare run: the model says what is right. */
static unsigned mutant_find(const struct options *o, char *why, size_t size)
{
    unsigned want;
    for (unsigned i = 0; i < o->programs; i += want) {
        const struct outcome *cutin;
        want = pair_batch(o->seed + i, o->programs - i);
        unsigned done = pair_run(o->seed + i, 1, want, o->mask, NULL, &cutin);
        for (unsigned k = 0; k < done; k++) {
            prepare(o->seed + i + k, o->mask);
            if (pair_compare(&program, NULL, &cutin[k], why, size))
                return i + k + 1;
        }
        if (done < want) {
            snprintf(why, size, "under cutin: hung, or ended its process");
            return i + done + 1;
        }
    }
    return 0;
}

/* Prints the result for each deliberate bug that was asked for and that this job has. */
static void run_mutants(const struct options *o, struct pair_config *config, unsigned job,
                        struct tally *t)
{
    char why[256];
    const char *gates = config->gates;
    for (unsigned b = 0, asked = 0; b < MUTANTS_HERE; b++) {
        if (strcmp(o->mutant, "all") && strcmp(o->mutant, mutants[b].name))
            continue;
        if (asked++ % o->jobs != job)
            continue;
        config->mutant = mutants[b].name;
        config->gates = mutants[b].gates ? mutants[b].gates : gates;
        unsigned found = mutant_find(o, why, sizeof(why));
        if (found)
            printf("%-24s found by program %-5u %s\n", mutants[b].name, found, why);
        else
            printf("%-24s MISSED in %u programs: %s\n", mutants[b].name, o->programs,
                   mutants[b].rule);
        fflush(stdout);
        t->ran++;
        t->passed += found != 0;
    }
    config->gates = gates;
}

/* The library without a bug has to pass where the others failed, or their failures prove nothing.
 * It runs with gates as well, as some of the bugs do. */
static void run_control(const struct options *o, struct pair_config *config, unsigned job,
                        struct tally *t)
{
    char why[256];
    struct options control = *o;
    const char *gates = config->gates, *const both[] = {gates, "on"};
    if (job != o->jobs - 1)
        return;
    config->mutant = "none";
    config->hang_seconds = HANG_SECONDS;
    control.programs = o->programs < 512 ? o->programs : 512;
    for (int i = 0; i < 2; i++) {
        config->gates = both[i];
        unsigned found = mutant_find(&control, why, sizeof(why));
        if (found)
            printf("%-24s FAILED program %u%s: %s\n", "no bug", found, i ? ", with gates on" : "",
                   why);
        t->failed += found != 0;
    }
    config->gates = gates;
}

/* ---- what once failed ------------------------------------------------------------------------ */

static void run_recorded(const struct options *o, unsigned job, struct tally *t)
{
    for (unsigned i = job; i < recorded_count(); i += o->jobs) {
        struct tally one_tally = {0};
        struct options one = *o;
        one.programs = one.jobs = 1;
        one.repeat = 20;
        one.seed = RECORDED_SEED + i;
        run_share(&one, 0, &one_tally);
        printf("%s: %s\n", recorded_name(i), one_tally.failed ? "FAILED" : "passed");
        fflush(stdout);
        t->passed += one_tally.passed;
        t->failed += one_tally.failed;
    }
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct errand {
    const struct options *o;
    struct pair_config *config;
};

static int job_run(void *user, unsigned job, struct tally *t)
{
    const struct errand *e = user;
    snprintf(e->config->id, sizeof(e->config->id), "oracle-%d", (int)getpid());
    int err = pair_open(e->config, e->o->seed + job);
    if (err) {
        fprintf(stderr, "cutin-oracle: cannot start %s: %s\n", e->config->daemon, strerror(-err));
        return 1;
    }
    if (e->o->recorded) {
        run_recorded(e->o, job, t);
    } else if (e->o->mutant) {
        run_mutants(e->o, e->config, job, t);
        run_control(e->o, e->config, job, t);
    } else {
        run_share(e->o, job, t);
    }
    pair_close();
    return 0;
}

/* Returns whether everything passed. */
static bool run(const struct options *o, struct pair_config *config)
{
    struct errand errand = {o, config};
    struct tally t = {0};
    unsigned lost = jobs_run(o->jobs, job_run, &errand, &t);
    if (lost)
        printf("%u of %u processes ended early\n", lost, o->jobs);
    if (o->mutant)
        printf("%u of %u deliberate bugs found\n", t.passed, t.ran);
    else if (o->recorded)
        printf("%u recorded programs passed, %u failed\n", t.passed, t.failed);
    else
        printf("%u passed, %u failed\n", t.passed, t.failed);
    return !lost && !t.failed && (!o->mutant || (t.ran && t.passed == t.ran));
}

int main(int argc, char **argv)
{
    static const struct option table[] = {{"programs", 1, NULL, 'n'},   {"seed", 1, NULL, 's'},
                                          {"mask", 1, NULL, 'm'},       {"repeat", 1, NULL, 'r'},
                                          {"preload", 1, NULL, 'p'},    {"mutant", 1, NULL, 'b'},
                                          {"gates", 1, NULL, 'g'},      {"unkind", 0, NULL, 'k'},
                                          {"suspend", 0, NULL, 'u'},    {"distance", 1, NULL, 'd'},
                                          {"bug", 1, NULL, 'B'},        {"progress", 1, NULL, 'o'},
                                          {"hang", 1, NULL, 'H'},       {"recorded", 0, NULL, 'c'},
                                          {"record", 0, NULL, 'C'},     {"real", 0, NULL, 'R'},
                                          {"stop-after", 1, NULL, 'x'}, {"jobs", 1, NULL, 'j'},
                                          {"no-shrink", 0, NULL, 'S'},  {"print", 0, NULL, 'P'},
                                          {"help", 0, NULL, 'h'},       {0}};
    struct options o = {.programs = 2000,
                        .progress = 10000,
                        .repeat = 1,
                        .jobs = jobs_default(),
                        .stop_after = 3,
                        .seed = 1,
                        .mask = ~0ull,
                        .shrink = true};
    struct pair_config config = {.preload = beside("../lib/libcutin.so"),
                                 .simulator = beside("../lib/simgpu"),
                                 .worker = beside("tests/oracle-worker"),
                                 .daemon = beside("cutind"),
                                 .hang_seconds = HANG_SECONDS};
    for (int c; (c = getopt_long(argc, argv, "", table, NULL)) != -1;)
        switch (c) {
        case 'n':
            o.programs = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 's':
            o.seed = strtoull(optarg, NULL, 10);
            break;
        case 'm':
            o.mask = strtoull(optarg, NULL, 16);
            break;
        case 'r':
            o.repeat = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'o':
            o.progress = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'j':
            o.jobs = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'p':
            config.preload = optarg;
            break;
        case 'g':
            config.gates = optarg;
            break;
        case 'd':
            config.distance = optarg;
            break;
        case 'k': /* this library has LET_OUT_MS; it has no bug unless one is asked for */
            config.unkind = true;
            config.gates = config.gates ? config.gates : "on";
            config.preload = beside("../lib/tests/libcutin-mutants.so");
            break;
        case 'u':
            config.suspend = true;
            break;
        case 'H':
            config.hang_seconds = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'c':
            o.recorded = true;
            break;
        case 'C':
            o.record = true;
            break;
        case 'B':
            config.mutant = optarg;
            config.preload = beside("../lib/tests/libcutin-mutants.so");
            break;
        case 'b':
            o.mutant = optarg;
            config.preload = beside("../lib/tests/libcutin-mutants.so");
            config.hang_seconds = 3;
            break;
        case 'R':
            config.simulator = NULL;
            program_real = true;
            break;
        case 'x':
            o.stop_after = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'S':
            o.shrink = false;
            break;
        case 'P':
            o.print = true;
            break;
        case 'h':
            fputs(help, stdout);
            return 0;
        default:
            return 2;
        }
    char both[1200];
    if (config.distance) {
        snprintf(both, sizeof(both), "%s:%s", config.preload,
                 beside("../lib/libcutin_distance.so"));
        config.preload = both;
    }
    if (o.repeat > BATCH_MAX) {
        fprintf(stderr, "cutin-oracle: --repeat is %d at most\n", BATCH_MAX);
        return 2;
    }
    if (o.jobs < 1 || o.jobs > JOBS_MAX) {
        fprintf(stderr, "cutin-oracle: --jobs is from 1 to %d\n", JOBS_MAX);
        return 2;
    }
    if (!o.mutant && !o.recorded && o.jobs > o.programs / SETTING_SEEDS + 1)
        o.jobs = o.programs / SETTING_SEEDS + 1;
    if (o.record) {
        prepare(o.seed, o.mask);
        recorded_print(&program, o.mask, STDOUT_FILENO);
        return 0;
    }
    if (o.print) {
        for (unsigned i = 0; i < o.programs; i++) {
            prepare(o.seed + i, o.mask);
            program_print(&program, STDOUT_FILENO);
        }
        return 0;
    }
    return !run(&o, &config);
}
