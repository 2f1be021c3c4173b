/*
 * whatif.c - `cutin-lab whatif`: predicts a recorded program on a machine that is not at hand.
 *
 * A model of the program runs twice: on the machine of the recording, and on the one that the
 * options describe. The ratio of the two is the prediction. How well the first run fits the
 * recording is shown beside it.
 */
#include "tools/lab/lab.h"
#include "whatif_print.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const block_words[] = {"round-robin", "batches", NULL};
static const char *const page_words[] = {"interleaved", "first-touch", NULL};
enum { MB = 1 << 20, L2_MB = 16, MOST_REQUESTS = 1000000 };

static struct plan {
    struct whatif_print print;
    struct machine machine;
    struct forecast_load load, rt_load;
    uint64_t budget_us, skip;
    const char *path, *rt_path;
    const char *blocks, *pages; /* words; NULL: not given */
    uint32_t remote_mb;         /* above any possible size: not given */
    bool papers;
} given = {.machine = {.recorded_processors = 108, /* the simulated GPU's, and an A100's */
                       .speed = 1,
                       .host_speed = 1,
                       .distance = {0, 1200, 140, 128},
                       .modules = {.modules = 1,
                                   .dram_gbs = 3072,
                                   .link_gbs = 768,
                                   .l2_bytes = L2_MB * MB},
                       .memory = 0.6},
           .load = {.requests = 1000, .seed = 1},
           .budget_us = 200,
           .remote_mb = UINT32_MAX};

/* ---- options -------------------------------------------------------------------------------- */

/* Reads "8us", "0.5ms", "800ns"; without a unit it is microseconds. */
static void take_time(const struct subcommand *cmd, int row, void *at)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e3}, {"us", 1e3}, {"ns", 1}, {"ms", 1e6}};
    char *end;
    double n = strtod(optarg, &end);

    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (end != optarg && strcmp(end, units[i].unit) == 0 && n >= 0 && n * units[i].ns <= 1e9) {
            *(uint64_t *)at = (uint64_t)(n * units[i].ns + 0.5);
            return;
        }
    fail_usage(cmd, "--%s=%s is not a time up to a second, such as 8us", cmd->options[row].name,
               optarg);
}

static void take_pattern(const struct subcommand *cmd, int row, void *at)
{
    const struct access_pattern *p = access_pattern_find(optarg);
    char all[256] = "";

    for (size_t i = 0; !p && access_pattern(i); i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "",
                 access_pattern(i)->name);
    if (!p)
        fail_usage(cmd, "--pattern=%s is not one of: %s", optarg, all);
    *(const struct access_pattern **)at = p;
}

static const struct option_row options[] = {
    {"rtt", "TIME", "round trip to a GPU at a distance, such as 8us",
     TAKE_BY(take_time, given.machine.distance.rtt_ns)},
    {"tags", "N", "reads of host memory in flight at once (140)",
     TAKE_NUMBER(given.machine.distance.tags, 1, 65536)},
    {"request-bytes", "N", "size of each of these reads (128)",
     TAKE_NUMBER(given.machine.distance.request_bytes, 1, 4096)},
    {"native-rtt", "TIME", "round trip of the recording machine (1.2us)",
     TAKE_BY(take_time, given.machine.distance.native_rtt_ns)},
    {"modules", "N", "split the GPU into N modules, 2 to 16",
     TAKE_NUMBER(given.machine.modules.modules, 2, MODULES_MOST)},
    {"link", "GB/s", "bandwidth of a module to the others, in plus out (768)",
     TAKE_DECIMAL(given.machine.modules.link_gbs, 1, 1e6)},
    {"dram", "GB/s", "memory bandwidth of all modules together (3072)",
     TAKE_DECIMAL(given.machine.modules.dram_gbs, 1, 1e6)},
    {"blocks", "HOW", "assign blocks to modules round-robin or in batches",
     TAKE_WORD(given.blocks, block_words)},
    {"pages", "HOW", "place pages interleaved or by first-touch",
     TAKE_WORD(given.pages, page_words)},
    {"remote-cache", "MB",
     "part of the 16 MB of L2 that caches remote data only;\n"
     "without these three options, each step is shown",
     TAKE_NUMBER(given.remote_mb, 0, L2_MB)},
    {"pattern", "NAME",
     "what kernels read, which is not recorded: stream, stencil\n"
     "(the default), mesh, sparse, table, graph or uneven",
     TAKE_BY(take_pattern, given.machine.pattern)},
    {"memory", "SHARE",
     "share of a kernel's time that memory needs (0.6, the least\n"
     "that the paper calls memory-intensive)",
     TAKE_DECIMAL(given.machine.memory, 0.001, 1)},
    {"speed", "X", "kernels are X times as fast", TAKE_DECIMAL(given.machine.speed, 0.001, 1000)},
    {"host-speed", "X", "the program is X times as fast between its calls",
     TAKE_DECIMAL(given.machine.host_speed, 0.001, 1000)},
    {"sms", "N", "multiprocessors (as recorded)", TAKE_NUMBER(given.machine.processors, 1, 1024)},
    {"recorded-sms", "N", "multiprocessors of the recorded GPU (108)",
     TAKE_NUMBER(given.machine.recorded_processors, 1, 1024)},
    {"rate", "N", "N random requests per second; latency counts from arrival",
     TAKE_DECIMAL(given.load.per_s, 0.001, 1e6)},
    {"requests", "N", "number of requests, with --rate (1000)",
     TAKE_NUMBER(given.load.requests, 1, MOST_REQUESTS)},
    {"rt", "FILE", "recording of the real-time program (the same recording)",
     TAKE_TEXT(given.rt_path)},
    {"rt-rate", "N", "N random real-time requests per second, which cut in",
     TAKE_DECIMAL(given.rt_load.per_s, 0.001, 1e6)},
    {"budget-us", "N", "work in flight that a cut-in waits for (200)",
     TAKE_NUMBER(given.budget_us, 1, 1000000)},
    {"seed", "N", "random seed of arrivals (1)", TAKE_NUMBER(given.load.seed, 0, UINT64_MAX)},
    {"skip", "N", "leave out the first N requests, such as start-up",
     TAKE_NUMBER(given.skip, 0, WORKLOAD_MOST_OPS)},
    {"papers", NULL, "without FILE: compare the models with their papers", TAKE_FLAG(given.papers)},
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(given.print.json)},
    {0},
};

/* ---- the machines, one after another -------------------------------------------------------- */

static int add(struct plan *p, const char *name, const struct machine *m, bool rt)
{
    struct whatif_row *row = &p->print.row[p->print.rows++];

    row->name = name;
    return forecast_run(&row->forecast, m, &p->print.w, &p->load,
                        rt && p->rt_load.per_s > 0 ? &p->print.rt : NULL, &p->rt_load,
                        p->budget_us * 1000);
}

/* The paper's three steps, each in addition to the one before. */
static int add_steps(struct plan *p)
{
    struct machine m = p->machine;
    int rc = add(p, "modules", &m, true);

    m.modules.remote_bytes = m.modules.l2_bytes / 2;
    if (rc == 0)
        rc = add(p, "+ remote cache", &m, true);
    m.modules.batches = true;
    if (rc == 0)
        rc = add(p, "+ batches", &m, true);
    m.modules.first_touch = true;
    return rc == 0 ? add(p, "+ first touch", &m, true) : rc;
}

/* Runs the real-time program with the machine to itself. */
static int alone(struct plan *p)
{
    struct forecast_load load = p->rt_load;
    struct forecast f;
    int rc;

    if (load.per_s <= 0)
        return 0;
    load.requests = p->load.requests;
    rc = forecast_run(&f, &p->machine, &p->print.rt, &load, NULL, NULL, 0);
    p->print.rt_alone = f.latency;
    return rc;
}

static int predict(struct plan *p)
{
    struct machine recorded = {.recorded_processors = p->machine.recorded_processors,
                               .processors = p->machine.recorded_processors,
                               .speed = 1,
                               .host_speed = 1};
    const struct forecast_load once = {0};
    struct forecast plain = {0};
    int rc = forecast_calibrate(&p->print.w, &recorded);

    if (rc == 0)
        rc = forecast_calibrate(&p->print.rt, &recorded);
    if (rc == 0)
        rc = forecast_run(&plain, &recorded, &p->print.w, &once, NULL, NULL, 0);
    p->print.modelled_ns = plain.total_ns;
    if (rc == 0)
        rc = add(p, "as recorded", &recorded, false);
    if (rc == 0)
        rc = alone(p);
    if (rc == 0)
        rc = p->machine.modular && !p->blocks && !p->pages && p->remote_mb > L2_MB
                 ? add_steps(p)
                 : add(p, "what if", &p->machine, true);
    return rc;
}

/* Makes more real-time requests than come before the slowest machine is done, within reason. */
static void rt_requests(struct plan *p)
{
    double s = (double)p->print.w.total_ns / 1e9;

    if (p->load.per_s > 0)
        s = (double)p->load.requests / p->load.per_s;
    p->rt_load.requests = (size_t)fmin(MOST_REQUESTS, 100 + 20 * s * p->rt_load.per_s);
    p->rt_load.seed = p->load.seed + 1;
}

/* Removes the first `n` requests: the recording then begins with the next one. */
static void requests_skip(struct workload *w, uint64_t n)
{
    uint64_t first_ns;
    size_t at = 0;

    while (n-- && at < w->ops)
        at = workload_request_end(w, at);
    if (!at)
        return;
    first_ns = at < w->ops ? w->op[at].at_ns : 0;
    w->ops -= at;
    w->total_ns -= first_ns;
    memmove(w->op, w->op + at, w->ops * sizeof(*w->op));
    for (size_t i = 0; i < w->ops; i++)
        w->op[i].at_ns -= first_ns;
}

static int read_files(struct plan *p)
{
    char why[512];
    int rc = workload_read(&p->print.w, p->path, why, sizeof(why));

    if (rc == 0 && p->rt_load.per_s > 0)
        rc = workload_read(&p->print.rt, p->rt_path ? p->rt_path : p->path, why, sizeof(why));
    if (rc == 0 && p->print.w.ops) {
        requests_skip(&p->print.w, p->skip);
        requests_skip(&p->print.rt, p->rt_path ? 0 : p->skip);
    }
    if (rc == 0 && p->print.w.ops == 0) {
        snprintf(why, sizeof(why), "%s: the workload is empty, or --skip leaves nothing", p->path);
        rc = -ENODATA;
    }
    if (rc != 0)
        say(&subcommand_whatif, "%s", why);
    return rc;
}

static int answer(struct plan *p)
{
    int rc = read_files(p), printed = EXIT_FAILURE;

    if (rc == 0) {
        rt_requests(p);
        rc = predict(p);
        if (rc != 0)
            say(&subcommand_whatif, "%s",
                rc == -EINVAL ? "impossible machine: it has more modules than multiprocessors, or "
                                "is too small"
                              : strerror(-rc));
    }
    if (rc == 0)
        printed = whatif_print(&p->print, p->path, &p->machine);
    workload_free(&p->print.w);
    workload_free(&p->print.rt);
    return printed;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int whatif(const struct subcommand *cmd, int argc, char **argv)
{
    struct machine *m = &given.machine;

    options_read(cmd, argc, argv);
    m->modular = m->modules.modules > 1;
    m->modules.batches = given.blocks == block_words[1];
    m->modules.first_touch = given.pages == page_words[1];
    if (given.remote_mb <= L2_MB)
        m->modules.remote_bytes = given.remote_mb * MB;
    if (!m->pattern)
        m->pattern = access_pattern_find("stencil");
    if (!m->processors)
        m->processors = m->recorded_processors;
    if (optind >= argc && !given.papers)
        fail_usage(cmd, "no workload file given");
    if (!given.papers)
        given.path = argv[optind++];
    options_no_operands(cmd, argc, argv);
    if (given.rt_path && given.rt_load.per_s <= 0)
        fail_usage(cmd, "--rt needs --rt-rate");
    return given.papers ? whatif_print_papers(given.print.json) : answer(&given);
}

const struct subcommand subcommand_whatif = {
    .name = "whatif",
    .summary = "predict how a recorded program runs on another machine",
    .synopsis = "[OPTIONS] FILE",
    .about =
        "Runs a workload file of cutin-lab record on a modelled machine: a GPU at a distance\n"
        "(--rtt), one made of modules (--modules), a faster or smaller one, another load, or any\n"
        "combination. Nothing is measured, and no GPU is needed. docs/whatif.md has the models\n"
        "and what they leave out.",
    .anywhere = true,
    .options = options,
    .run = whatif,
};
