/*
 * replay.c - `cutin-lab replay`: runs a workload file on this machine's GPU or a simulated one.
 *
 * Requests of the workload arrive by a clock of their own, and latency counts from the arrival. So
 * a request that waits for a late one is late, too.
 */
#include "tools/lab/lab.h"
#include "tools/cutin/statistics/figures.h"
#include "tools/cutin/statistics/random.h"
#include "tools/cutin/paths.h"
#include "player.h"
#include "tools/cutin/progress.h"
#include "common/clock.h"
#include "common/level.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const levels[] = {LEVEL_NAMES, NULL};
enum { TRACED, PERIODIC, POISSON, CLOSED };
static const char *const arrival_names[] = {"traced", "periodic", "poisson", "closed", NULL};

enum { MOST_REQUESTS = 10000000 };

static struct plan {
    const char *path, *level;
    int arrivals;
    uint64_t period_us, requests, seconds, seed;
    bool sim, json, here;
} given = {.seed = 1};

static const struct option_row options[] = {
    {"sim", NULL, "run on the simulated GPU", TAKE_FLAG(given.sim)},
    {"priority", "LEVEL",
     "run under cutin at this level: be, 1, 2 or rt (none: on the\n"
     "plain driver)",
     TAKE_WORD(given.level, levels)},
    {"arrivals", "HOW",
     "traced: as recorded, with the pauses within requests (the\n"
     "default); periodic, poisson: by --period-us; closed: the\n"
     "next when one is done",
     TAKE_WORD(given.arrivals, arrival_names)},
    {"period-us", "N", "time between two arrivals, or its mean (as recorded)",
     TAKE_NUMBER(given.period_us, 1, 3600000000u)},
    {"requests", "N", "number of requests; the file repeats as needed (all, once)",
     TAKE_NUMBER(given.requests, 1, MOST_REQUESTS)},
    {"seconds", "N", "start no request after this time", TAKE_NUMBER(given.seconds, 1, 86400)},
    {"seed", "N", "random seed of poisson arrivals (1)", TAKE_NUMBER(given.seed, 0, UINT64_MAX)},
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(given.json)},
    {"here", NULL, NULL, TAKE_FLAG(given.here)},
    {0},
};

struct replay {
    const struct plan *plan;
    struct workload w;
    struct player player;
    size_t *start, starts; /* the op that begins each request, and one past the last op */
    uint64_t *latency_ns;
    size_t served, wanted;
    uint64_t begin_ns, total_ns, random;
    double period_ns;
    struct figures figures;
    bool cancelled;
};

/* ---- requests ------------------------------------------------------------------------------- */

/* When the n-th request arrives, counted from the first one. `last`: the arrival before it. */
static uint64_t arrival_ns(struct replay *r, size_t n, uint64_t last)
{
    switch (r->plan->arrivals) {
    case PERIODIC:
        return (uint64_t)((double)n * r->period_ns);
    case POISSON:
        return n ? last + (uint64_t)(random_exponential(&r->random) * r->period_ns) : 0;
    default: /* as recorded, again and again */
        return n / r->starts * r->w.total_ns + r->w.op[r->start[n % r->starts]].at_ns;
    }
}

/* Shows the progress: by time if --seconds was given, else by ops. */
static void show(void *user)
{
    struct replay *r = user;
    double passes = (double)(r->wanted / r->starts);
    double all = passes * (double)r->w.ops + (double)r->start[r->wanted % r->starts];

    if (r->plan->seconds)
        progress_show((double)(clock_ns() - r->begin_ns) / 1e9, (double)r->plan->seconds, "replay");
    else
        progress_show((double)r->player.ops, all, "replay");
}

static int serve(struct replay *r)
{
    const struct plan *p = r->plan;
    uint64_t begin_ns = clock_ns(), arrival = 0, end_ns;
    int rc = 0;

    r->begin_ns = begin_ns;
    r->player.tick = show;
    r->player.user = r;
    while (r->served < r->wanted && rc == 0 && !progress_cancel) {
        size_t k = r->served % r->starts;

        arrival = p->arrivals == CLOSED ? clock_ns() - begin_ns : arrival_ns(r, r->served, arrival);
        if (p->seconds && arrival > p->seconds * 1000000000u)
            break;
        player_sleep_until(&r->player, begin_ns + arrival);
        rc = player_run(&r->player, r->start[k], r->start[k + 1], p->arrivals == TRACED);
        if (rc != 0)
            break;
        r->latency_ns[r->served++] = clock_ns() - begin_ns - arrival;
    }
    end_ns = clock_ns();
    progress_end();
    r->total_ns = end_ns - begin_ns;
    r->cancelled = progress_cancel != 0;
    return rc == -ECANCELED ? 0 : rc;
}

/* ---- report --------------------------------------------------------------------------------- */

static uint64_t recorded_kernels(const struct replay *r)
{
    uint64_t ns;

    return workload_count(&r->w, WORKLOAD_KERNEL, &ns);
}

static int print_json(const struct replay *r)
{
    json_t *latency = json_object(), *top;

#define FIGURE(field, heading, percent)                                                            \
    json_object_set_new(latency, #field, json_real(r->figures.field));
    FIGURES(FIGURE)
#undef FIGURE
    top =
        json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:f,s:b,s:o,s:{s:I,s:I,s:f,s:s}}", "gpu",
                  r->player.device.name, "arrivals", arrival_names[r->plan->arrivals], "priority",
                  r->plan->level ? r->plan->level : "native", "requests", (json_int_t)r->served,
                  "kernels", (json_int_t)r->player.kernels, "copies", (json_int_t)r->player.copies,
                  "wanted", (json_int_t)r->wanted, "total_s", (double)r->total_ns / 1e9,
                  "interrupted", r->cancelled, "latency", latency, "recorded", "requests",
                  (json_int_t)r->starts, "kernels", (json_int_t)recorded_kernels(r), "total_s",
                  (double)r->w.total_ns / 1e9, "version", CUTIN_VERSION);
    return print_object(top, JSON_REAL_PRECISION(9));
}

static void print_text(const struct replay *r)
{
    double total = (double)r->total_ns / 1e9, recorded = (double)r->w.total_ns / 1e9;

    printf("%s, %s arrivals\n", r->player.device.name, arrival_names[r->plan->arrivals]);
    printf("%zu requests, %llu kernels, %llu copies in %.3f s\n", r->served,
           (unsigned long long)r->player.kernels, (unsigned long long)r->player.copies, total);
    printf("recorded: %zu requests, %llu kernels in %.3f s", r->starts,
           (unsigned long long)recorded_kernels(r), recorded);
    if (r->served == r->starts && recorded > 0)
        printf(" (%+.1f %%)", (total / recorded - 1) * 100);
    printf("\nlatency from arrival, us:");
#define FIGURE(field, heading, percent) printf("  " heading " %.1f", r->figures.field);
    FIGURES(FIGURE)
#undef FIGURE
    putchar('\n');
}

static int report(struct replay *r)
{
    int rc = EXIT_SUCCESS;

    figures_make(&r->figures, r->latency_ns, r->served);
    if (r->plan->json)
        rc = print_json(r);
    else
        print_text(r);
    if (r->cancelled)
        say(&subcommand_replay, "interrupted; the figures cover what was replayed");
    return fflush(stdout) == 0 ? rc : EXIT_FAILURE;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int prepare(struct replay *r)
{
    const struct plan *p = r->plan;

    r->start = calloc(r->w.ops + 1, sizeof(*r->start));
    if (r->start)
        r->starts = workload_request_starts(&r->w, r->start);
    if (r->start && r->starts == 0) {
        say(&subcommand_replay, "%s: the workload is empty", p->path);
        return -ENODATA;
    }
    r->wanted = p->requests ? p->requests : p->seconds ? MOST_REQUESTS : r->starts;
    r->period_ns = p->period_us ? (double)p->period_us * 1000
                   : r->starts  ? (double)r->w.total_ns / (double)r->starts
                                : 0;
    if (r->wanted > MOST_REQUESTS)
        r->wanted = MOST_REQUESTS;
    r->latency_ns = calloc(r->wanted, sizeof(*r->latency_ns));
    r->random = p->seed;
    if (!r->start || !r->latency_ns) {
        say(&subcommand_replay, "no memory for %zu requests", r->wanted);
        return -ENOMEM;
    }
    return 0;
}

static int play(const struct plan *p)
{
    struct replay r = {.plan = p};
    char why[512];
    int rc = workload_read(&r.w, p->path, why, sizeof(why));

    if (rc != 0)
        say(&subcommand_replay, "%s", why);
    else
        rc = prepare(&r);
    if (rc == 0) {
        progress_begin();
        rc = player_open(&r.player, &r.w);
        if (rc == 0)
            rc = serve(&r);
        if (rc != 0)
            say(&subcommand_replay, "%s", r.player.why);
    }
    if (rc == 0)
        rc = report(&r);
    else
        rc = EXIT_FAILURE;
    player_close(&r.player);
    workload_free(&r.w);
    free(r.start);
    free(r.latency_ns);
    return rc;
}

/* The loader has to load the library and the simulator, so the command starts itself again, under
 * `cutin run` if a level was given. */
static int again(const struct plan *p, int argc, char **argv)
{
    struct paths paths;
    char **more = calloc((size_t)argc + 8, sizeof(*more));
    size_t n = 0;

    paths_find(&paths);
    if (!more || (p->sim && !paths.simulator[0])) {
        say(&subcommand_replay,
            more ? "the simulated driver is not installed beside cutin" : "no memory");
        free(more);
        return EXIT_FAILURE;
    }
    more[n++] = p->level ? paths.command : paths.self;
    if (p->level) {
        more[n++] = (char *)"run";
        more[n++] = (char *)"--priority";
        more[n++] = (char *)(uintptr_t)p->level;
        more[n++] = (char *)"--";
        more[n++] = paths.self;
    }
    more[n++] = (char *)"replay";
    more[n++] = (char *)"--here";
    for (int i = 1; i < argc; i++)
        more[n++] = argv[i];
    if (p->sim)
        environment_preload(NULL, paths.simulator);
    execv(more[0], more);
    say(&subcommand_replay, "%s: %s", more[0], strerror(errno));
    free(more);
    return EXIT_FAILURE;
}

static int replay(const struct subcommand *cmd, int argc, char **argv)
{
    options_read(cmd, argc, argv);
    if (optind >= argc)
        fail_usage(cmd, "no workload file given");
    given.path = argv[optind++];
    options_no_operands(cmd, argc, argv);
    return !given.here && (given.sim || given.level) ? again(&given, argc, argv) : play(&given);
}

const struct subcommand subcommand_replay = {
    .name = "replay",
    .summary = "run a recorded workload",
    .synopsis = "[OPTIONS] FILE",
    .about =
        "Runs a workload file of cutin-lab record: kernels of the same shape and duration, and\n"
        "copies of the same size, on as many streams. A request is all that the program asked for\n"
        "up to its next wait. Latency counts from a request's arrival.",
    .options = options,
    .run = replay,
};
