/*
 * whatif.c - `cutin-lab whatif`: a recorded program on a machine that is not there.
 *
 * The program is run twice as a model: on the machine that it was recorded on, and on the one that
 * the options describe. Their ratio is the prediction; how well the first fits the recording is
 * said beside it.
 */
#include "tools/lab/lab.h"
#include "whatif_print.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_RTT,
    OPT_TAGS,
    OPT_REQUEST_BYTES,
    OPT_NATIVE_RTT,
    OPT_MODULES,
    OPT_LINK,
    OPT_DRAM,
    OPT_BLOCKS,
    OPT_PAGES,
    OPT_REMOTE_CACHE,
    OPT_PATTERN,
    OPT_MEMORY,
    OPT_SPEED,
    OPT_HOST_SPEED,
    OPT_SMS,
    OPT_RECORDED_SMS,
    OPT_RATE,
    OPT_REQUESTS,
    OPT_RT,
    OPT_RT_RATE,
    OPT_BUDGET_US,
    OPT_SEED,
    OPT_SKIP,
    OPT_PAPERS,
    OPT_JSON,
};

static const struct option_row options[] = {
    [OPT_RTT] = {"rtt", "TIME", "the GPU is a round trip away, such as 8us (docs/whatif.md)"},
    [OPT_TAGS] = {"tags", "N", "reads of the host's memory in flight at once (140)"},
    [OPT_REQUEST_BYTES] = {"request-bytes", "N", "of each of these (128)"},
    [OPT_NATIVE_RTT] = {"native-rtt", "TIME", "round trip where it was recorded (1.2us)"},
    [OPT_MODULES] = {"modules", "N", "the GPU is parted into modules, 2 to 16"},
    [OPT_LINK] = {"link", "GB/s", "what a module exchanges with others, in and out (768)"},
    [OPT_DRAM] = {"dram", "GB/s", "of the memories of all modules (3072)"},
    [OPT_BLOCKS] = {"blocks", "HOW", "round-robin or batches: blocks over modules"},
    [OPT_PAGES] = {"pages", "HOW", "interleaved or first-touch"},
    [OPT_REMOTE_CACHE] = {"remote-cache", "MB",
                          "of 16 MB of L2, for remote data alone; where none of\n"
                          "these three is given, each step is shown"},
    [OPT_PATTERN] = {"pattern", "NAME",
                     "what kernels read, which no recording says: stream,\n"
                     "stencil (unless given), mesh, sparse, table, graph, uneven"},
    [OPT_MEMORY] = {"memory", "SHARE",
                    "part of a kernel's time that memory needs for it (0.6,\n"
                    "from where on the paper calls it memory-intensive)"},
    [OPT_SPEED] = {"speed", "X", "kernels are X times as fast"},
    [OPT_HOST_SPEED] = {"host-speed", "X", "the program is X times as fast between its calls"},
    [OPT_SMS] = {"sms", "N", "multiprocessors (as recorded)"},
    [OPT_RECORDED_SMS] = {"recorded-sms", "N", "of the GPU of the recording (108)"},
    [OPT_RATE] = {"rate", "N", "requests come at random, N a second; latency is from arrival"},
    [OPT_REQUESTS] = {"requests", "N", "so many, with --rate (1000)"},
    [OPT_RT] = {"rt", "FILE", "the recording of a real-time program beside it (FILE itself)"},
    [OPT_RT_RATE] = {"rt-rate", "N", "requests of that one cut in at random, N a second"},
    [OPT_BUDGET_US] = {"budget-us", "N", "of FILE's work that a cut-in finds in flight (200)"},
    [OPT_SEED] = {"seed", "N", "of arrivals (1)"},
    [OPT_SKIP] = {"skip", "N", "leave out the first N requests: what a program does once"},
    [OPT_PAPERS] = {"papers", NULL, "no FILE: the models beside their papers' figures"},
    [OPT_JSON] = {"json", NULL, "one JSON object on stdout"},
    {0},
};

static const char *const block_words[] = {"round-robin", "batches", NULL};
static const char *const page_words[] = {"interleaved", "first-touch", NULL};
enum { MB = 1 << 20, L2_MB = 16, MOST_REQUESTS = 1000000 };

struct plan {
    struct whatif_print print;
    struct machine machine;
    struct forecast_load load, rt_load;
    uint64_t budget_ns, skip;
    const char *path, *rt_path;
    bool steps, papers; /* all steps of a GPU of modules */
};

/* ---- options -------------------------------------------------------------------------------- */

/* "8us", "0.5ms", "800ns"; microseconds where no unit is given. */
static uint64_t option_time(int row, const char *text)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e3}, {"us", 1e3}, {"ns", 1}, {"ms", 1e6}};
    char *end;
    double n = strtod(text, &end);

    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (end != text && strcmp(end, units[i].unit) == 0 && n >= 0 && n * units[i].ns <= 1e9)
            return (uint64_t)(n * units[i].ns + 0.5);
    fail_usage(&subcommand_whatif, "--%s=%s is not a time up to a second, such as 8us",
               options[row].name, text);
}

static const struct access_pattern *option_pattern(const char *text)
{
    const struct access_pattern *p = access_pattern_find(text);
    char all[256] = "";

    for (size_t i = 0; !p && access_pattern(i); i++)
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s%s", i ? ", " : "",
                 access_pattern(i)->name);
    if (!p)
        fail_usage(&subcommand_whatif, "--pattern=%s is none of %s", text, all);
    return p;
}

static void take_distance(struct plan *p, int row)
{
    const struct subcommand *cmd = &subcommand_whatif;
    struct distance *d = &p->machine.distance;

    if (row == OPT_RTT)
        d->rtt_ns = option_time(row, optarg);
    else if (row == OPT_TAGS)
        d->tags = (uint32_t)options_number(cmd, row, optarg, 1, 65536);
    else if (row == OPT_REQUEST_BYTES)
        d->request_bytes = (uint32_t)options_number(cmd, row, optarg, 1, 4096);
    else
        d->native_rtt_ns = option_time(row, optarg);
}

static void take_modules(struct plan *p, int row)
{
    const struct subcommand *cmd = &subcommand_whatif;
    struct modules *m = &p->machine.modules;

    if (row == OPT_BLOCKS || row == OPT_PAGES || row == OPT_REMOTE_CACHE)
        p->steps = false;
    if (row == OPT_MODULES) {
        m->modules = (uint32_t)options_number(cmd, row, optarg, 2, MODULES_MOST);
        p->machine.modular = true;
    } else if (row == OPT_LINK)
        m->link_gbs = options_decimal(cmd, row, optarg, 1, 1e6);
    else if (row == OPT_DRAM)
        m->dram_gbs = options_decimal(cmd, row, optarg, 1, 1e6);
    else if (row == OPT_BLOCKS)
        m->batches = options_word(cmd, row, optarg, block_words) == 1;
    else if (row == OPT_PAGES)
        m->first_touch = options_word(cmd, row, optarg, page_words) == 1;
    else
        m->remote_bytes = options_number(cmd, row, optarg, 0, L2_MB) * MB;
}

static void take_load(struct plan *p, int row)
{
    const struct subcommand *cmd = &subcommand_whatif;

    if (row == OPT_RATE)
        p->load.per_s = options_decimal(cmd, row, optarg, 0.001, 1e6);
    else if (row == OPT_REQUESTS)
        p->load.requests = options_number(cmd, row, optarg, 1, MOST_REQUESTS);
    else if (row == OPT_RT)
        p->rt_path = optarg;
    else if (row == OPT_RT_RATE)
        p->rt_load.per_s = options_decimal(cmd, row, optarg, 0.001, 1e6);
    else if (row == OPT_BUDGET_US)
        p->budget_ns = options_number(cmd, row, optarg, 1, 1000000) * 1000;
    else
        p->load.seed = options_number(cmd, row, optarg, 0, UINT64_MAX);
}

static void take(struct plan *p, int row)
{
    const struct subcommand *cmd = &subcommand_whatif;
    struct machine *m = &p->machine;

    if (row <= OPT_NATIVE_RTT)
        take_distance(p, row);
    else if (row <= OPT_REMOTE_CACHE)
        take_modules(p, row);
    else if (row == OPT_PATTERN)
        m->pattern = option_pattern(optarg);
    else if (row == OPT_MEMORY)
        m->memory = options_decimal(cmd, row, optarg, 0.001, 1);
    else if (row == OPT_SPEED)
        m->speed = options_decimal(cmd, row, optarg, 0.001, 1000);
    else if (row == OPT_HOST_SPEED)
        m->host_speed = options_decimal(cmd, row, optarg, 0.001, 1000);
    else if (row == OPT_SMS)
        m->processors = (uint32_t)options_number(cmd, row, optarg, 1, 1024);
    else if (row == OPT_RECORDED_SMS)
        m->recorded_processors = (uint32_t)options_number(cmd, row, optarg, 1, 1024);
    else if (row <= OPT_SEED)
        take_load(p, row);
    else if (row == OPT_SKIP)
        p->skip = options_number(cmd, row, optarg, 0, WORKLOAD_MOST_OPS);
    else if (row == OPT_PAPERS)
        p->papers = true;
    else
        p->print.json = true;
}

/* ---- the machines, one after another -------------------------------------------------------- */

static int add(struct plan *p, const char *name, const struct machine *m, bool rt)
{
    struct whatif_row *row = &p->print.row[p->print.rows++];

    row->name = name;
    return forecast_run(&row->forecast, m, &p->print.w, &p->load,
                        rt && p->rt_load.per_s > 0 ? &p->print.rt : NULL, &p->rt_load,
                        p->budget_ns);
}

/* The paper's three, one upon the other. */
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

/* The real-time program has the machine for itself. */
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
        rc = p->machine.modular && p->steps ? add_steps(p) : add(p, "what if", &p->machine, true);
    return rc;
}

/* More real-time requests than the slowest machine here is asked for, within reason. */
static void rt_requests(struct plan *p)
{
    double s = (double)p->print.w.total_ns / 1e9;

    if (p->load.per_s > 0)
        s = (double)p->load.requests / p->load.per_s;
    p->rt_load.requests = (size_t)fmin(MOST_REQUESTS, 100 + 20 * s * p->rt_load.per_s);
    p->rt_load.seed = p->load.seed + 1;
}

/* The recording begins with the first request that is left. */
static void requests_skip(struct workload *w, uint64_t n)
{
    uint64_t first_ns;
    size_t at = 0;

    while (n-- && at < w->ops)
        at = workload_request(w, at);
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
        snprintf(why, sizeof(why), "%s: there is nothing in it, or left of it", p->path);
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
                rc == -EINVAL ? "no such machine: more modules than multiprocessors, or too small"
                              : strerror(-rc));
    }
    if (rc == 0)
        printed = whatif_print(&p->print, p->path, &p->machine);
    workload_free(&p->print.w);
    workload_free(&p->print.rt);
    return printed;
}

/* ---- the command ---------------------------------------------------------------------------- */

static const struct plan unless_given = {
    .machine =
        {.recorded_processors = 108, /* the simulated GPU's, and an A100's */
         .speed = 1,
         .host_speed = 1,
         .distance = {0, 1200, 140, 128},
         .modules = {.modules = 1, .dram_gbs = 3072, .link_gbs = 768, .l2_bytes = L2_MB * MB},
         .memory = 0.6},
    .load = {.requests = 1000, .seed = 1},
    .budget_ns = 200000,
    .steps = true};

static int whatif(int argc, char **argv)
{
    const struct subcommand *cmd = &subcommand_whatif;
    struct plan p = unless_given;
    int row;

    while ((row = options_next(cmd, argc, argv)) != OPTIONS_END)
        take(&p, row);
    if (!p.machine.pattern)
        p.machine.pattern = access_pattern_find("stencil");
    if (!p.machine.processors)
        p.machine.processors = p.machine.recorded_processors;
    if (optind >= argc && !p.papers)
        fail_usage(cmd, "which workload file?");
    if (!p.papers)
        p.path = argv[optind++];
    options_no_operands(cmd, argc, argv);
    if (p.rt_path && p.rt_load.per_s <= 0)
        fail_usage(cmd, "--rt asks for --rt-rate");
    return p.papers ? whatif_print_papers(p.print.json) : answer(&p);
}

const struct subcommand subcommand_whatif = {
    .name = "whatif",
    .summary = "predict how slow a recorded program is on another machine",
    .synopsis = "[OPTIONS] FILE",
    .about =
        "Runs a workload file of cutin-lab record on a modelled machine: a GPU at a distance "
        "(--rtt),\n"
        "one made of modules (--modules), a faster or smaller one, under another load, or all of\n"
        "these. Nothing is measured, and no GPU is needed. What the models say beside their\n"
        "papers is --papers; what they leave out is in docs/whatif.md.",
    .anywhere = true,
    .options = options,
    .run = whatif,
};
