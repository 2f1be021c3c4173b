/*
 * papers.c - compares the models with their papers (see papers.h).
 */
#include "papers.h"
#include "forecast.h"
#include "programs.h"
#include "training.h"

#include <errno.h>
#include <stdlib.h>

struct table {
    struct papers_row *row;
    size_t n;
    int rc;
};

static void put(struct table *t, const char *model, const char *what, const char *unit,
                double theirs, double ours, double tolerance)
{
    if (t->n < PAPERS_MOST)
        t->row[t->n++] = (struct papers_row){model, what, unit, theirs, ours, tolerance};
}

/* ---- a GPU at a distance -------------------------------------------------------------------- */

enum { V100_PROCESSORS = 80, COPY_BYTES = 256 << 20, TAGS = 140, REQUEST_BYTES = 128 };

static double total_ns(struct table *t, const struct workload *w, uint64_t rtt_ns)
{
    const struct machine m = {.recorded_processors = V100_PROCESSORS,
                              .processors = V100_PROCESSORS,
                              .speed = 1,
                              .host_speed = 1,
                              .distance = {rtt_ns, 1200, TAGS, REQUEST_BYTES}};
    const struct forecast_load once = {0};
    struct forecast f = {0};

    if (t->rc == 0)
        t->rc = forecast_run(&f, &m, w, &once, NULL, NULL, 0);
    return t->rc == 0 ? f.total_ns : 1;
}

/* The speed that training keeps, in percent. */
static double keeps(struct table *t, uint32_t batch, uint64_t rtt_ns)
{
    struct workload w = {0};
    double percent;

    if (t->rc == 0)
        t->rc = training_step(&w, batch);
    percent = 100 * total_ns(t, &w, 0) / total_ns(t, &w, rtt_ns);
    workload_free(&w);
    return percent;
}

static double copy_gbs(struct table *t, enum workload_direction direction, double native_gbs,
                       uint64_t rtt_ns)
{
    struct workload w = {0};
    struct workload_op op = {.kind = WORKLOAD_COPY,
                             .direction = (uint8_t)direction,
                             .bytes = COPY_BYTES,
                             .duration_ns = (uint64_t)(COPY_BYTES / native_gbs)};
    double gbs;

    if (t->rc == 0)
        t->rc = workload_add(&w, &op);
    gbs = COPY_BYTES / total_ns(t, &w, rtt_ns);
    workload_free(&w);
    return gbs;
}

/* The percentage of kernels that take up to 10 us, or of time in those that take 200 to 800 us. */
static double shape_of(struct table *t, bool shorts)
{
    struct workload w = {0};
    double some = 0, all = 0;

    if (t->rc == 0)
        t->rc = training_step(&w, 64);
    for (size_t i = 0; i < w.ops; i++) {
        uint64_t ns = w.op[i].duration_ns;
        double weight = shorts ? 1 : (double)ns;

        if (w.op[i].kind != WORKLOAD_KERNEL)
            continue;
        all += weight;
        some += (shorts ? ns <= 10000 : ns >= 200000 && ns <= 800000) ? weight : 0;
    }
    workload_free(&w);
    return 100 * some / (all > 0 ? all : 1);
}

static void distance_rows(struct table *t)
{
    static const char name[] = "DxPU";

    put(t, name, "ResNet-50: kernels of up to 10 us (more than half)", "%", 50, shape_of(t, true),
        15);
    put(t, name, "ResNet-50: time in kernels of 200 to 800 us (54 to 69)", "%", 61.5,
        shape_of(t, false), 7.5);
    put(t, name, "ResNet-50, batch 64, at 4.9 us: speed kept", "%", 91.50, keeps(t, 64, 4900), 5);
    put(t, name, "ResNet-50, batch 64, at 6.8 us: speed kept", "%", 89.56, keeps(t, 64, 6800), 5);
    put(t, name, "ResNet-50, batch 64, at 8 us: speed kept", "%", 90, keeps(t, 64, 8000), 5);
    put(t, name, "ResNet-50, batch 64, at 19 us: speed kept", "%", 80, keeps(t, 64, 19000), 5);
    put(t, name, "ResNet-50, batch 32, at 4.9 us: speed kept", "%", 85.2, keeps(t, 32, 4900), 5);
    put(t, name, "ResNet-50, batch 128, at 4.9 us: speed kept", "%", 95.5, keeps(t, 128, 4900), 5);
    put(t, name, "host to device, 140 tags, where it was", "GB/s", 11.2,
        copy_gbs(t, WORKLOAD_TO_DEVICE, 11.2, 1200), 0.1);
    put(t, name, "host to device, 140 tags, at 4.9 us", "GB/s", 3.9,
        copy_gbs(t, WORKLOAD_TO_DEVICE, 11.2, 4900), 0.4);
    put(t, name, "host to device, 140 tags, at 6.8 us", "GB/s", 2.7,
        copy_gbs(t, WORKLOAD_TO_DEVICE, 11.2, 6800), 0.2);
    put(t, name, "device to host, at 6.8 us", "GB/s", 11.6,
        copy_gbs(t, WORKLOAD_TO_HOST, 12.5, 6800), 1);
}

/* ---- a GPU of modules ----------------------------------------------------------------------- */

enum {
    SINGLE,
    WIDE,
    FAST,
    BASIC,
    SLOW,
    CACHE,
    LARGE_CACHE,
    BATCHES,
    TOUCH,
    CACHE_BATCHES,
    ALL,
    SMALL,
    MACHINES
};
enum { MB = 1 << 20 };

static const struct modules machines[MACHINES] = {
#define PAPER .processors = 256, .dram_gbs = 3072, .l2_bytes = 16 * MB
#define RING  PAPER, .modules = 4
    [SINGLE] = {PAPER, .modules = 1},
    [WIDE] = {RING, .link_gbs = 6144},
    [FAST] = {RING, .link_gbs = 1536},
    [BASIC] = {RING, .link_gbs = 768},
    [SLOW] = {RING, .link_gbs = 384},
    [CACHE] = {RING, .link_gbs = 768, .remote_bytes = 8 * MB},
    [LARGE_CACHE] = {RING, .link_gbs = 768, .remote_bytes = 16 * MB - (32 << 10)},
    [BATCHES] = {RING, .link_gbs = 768, .batches = true},
    [TOUCH] = {RING, .link_gbs = 768, .first_touch = true},
    [CACHE_BATCHES] = {RING, .link_gbs = 768, .remote_bytes = 8 * MB, .batches = true},
    [ALL] = {RING, .link_gbs = 768, .remote_bytes = 8 * MB, .batches = true, .first_touch = true},
    /* The largest chip that can be built: half of everything. */
    [SMALL] = {.modules = 1, .processors = 128, .dram_gbs = 1536, .l2_bytes = 8 * MB},
#undef RING
#undef PAPER
};

static double percent_slower(const struct programs_times *t, int than, int machine)
{
    return 100 * (1 - programs_gain(&t[than], &t[machine], PROGRAMS_MEMORY));
}

static double percent_faster(const struct programs_times *t, int than, int machine)
{
    return 100 * (programs_gain_all(&t[than], &t[machine]) - 1);
}

static void link_rows(struct table *t, const struct programs_times *p)
{
    static const char name[] = "MCM-GPU";

    put(t, name, "memory-intensive, links of 1536 GB/s: loss", "%", 12,
        percent_slower(p, WIDE, FAST), 5);
    put(t, name, "memory-intensive, links of 768 GB/s: loss", "%", 40,
        percent_slower(p, WIDE, BASIC), 15);
    put(t, name, "memory-intensive, links of 384 GB/s: loss", "%", 57,
        percent_slower(p, WIDE, SLOW), 22);
}

static void step_rows(struct table *t, const struct programs_times *p)
{
    static const char name[] = "MCM-GPU";

    put(t, name, "remote cache of 8 MB alone: gain", "%", 5.2, percent_faster(p, BASIC, CACHE), 3);
    put(t, name, "memory-intensive, remote cache of 16 MB: gain", "%", 11.4,
        100 * (programs_gain(&p[BASIC], &p[LARGE_CACHE], PROGRAMS_MEMORY) - 1), 5);
    put(t, name, "batches alone: gain (little)", "%", 0, percent_faster(p, BASIC, BATCHES), 3);
    put(t, name, "first touch alone: gain (it needs batches)", "%", 0,
        percent_faster(p, BASIC, TOUCH), 3);
    put(t, name, "batches, over the remote cache: gain", "%", 4.9,
        percent_faster(p, CACHE, CACHE_BATCHES), 5);
    put(t, name, "all three: gain", "%", 22.8, percent_faster(p, BASIC, ALL), 12);
    put(t, name, "all three: traffic on links, basic over it", "x", 5,
        p[BASIC].link_bytes / p[ALL].link_bytes, 2.5);
    put(t, name, "all three, over a chip of 128 multiprocessors: gain", "%", 45.5,
        percent_faster(p, SMALL, ALL), 10);
    put(t, name, "all three, below a chip of 256 (within 10)", "%", 10,
        -percent_faster(p, SINGLE, ALL), 5);
    put(t, name, "all three: programs that gain (31 of 48)", "%", 100 * 31.0 / 48,
        100 * programs_share(&p[BASIC], &p[ALL], 1), 10);
    put(t, name, "all three: programs that lose (9 of 48)", "%", 100 * 9.0 / 48,
        100 * programs_share(&p[BASIC], &p[ALL], -1), 15);
}

static void modules_rows(struct table *t)
{
    struct programs_times *p = calloc(MACHINES, sizeof(*p));

    if (!p)
        t->rc = -ENOMEM;
    for (int i = 0; i < MACHINES && t->rc == 0; i++)
        t->rc = programs_run(&machines[SINGLE], &machines[i], &p[i]);
    if (t->rc == 0) {
        link_rows(t, p);
        step_rows(t, p);
    }
    free(p);
}

int papers_compare(struct papers_row rows[PAPERS_MOST], size_t *n)
{
    struct table t = {.row = rows};

    distance_rows(&t);
    if (t.rc == 0)
        modules_rows(&t);
    *n = t.n;
    return t.rc;
}
