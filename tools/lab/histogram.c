/*
 * histogram.c - `cutin-lab histogram`: turns the file of `cutin latency --latencies` into
 * histograms that can be added up and that HdrHistogram's plotters read.
 */
#include "hdr.h"
#include "lab.h"
#include "tools/cutin/result.h"
#include "tools/cutin/statistics/figures.h"
#include "common/list.h"
#include "common/atomic_file.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

enum { MOST_MODES = 8 };

struct mode {
    char name[16];
    uint64_t *ns; /* sorted, once all are read */
    size_t n, room;
    uint64_t max_ns, max_at_ns; /* the slowest one, and its arrival since 1970 */
};

static struct mode modes[MOST_MODES];

static int add(const char *name, uint64_t at_ns, uint64_t ns)
{
    struct mode *m = modes;
    int rc;

    while (m < modes + MOST_MODES && m->name[0] && strcmp(m->name, name) != 0)
        m++;
    if (m == modes + MOST_MODES)
        return -EINVAL;
    snprintf(m->name, sizeof(m->name), "%s", name);
    rc = list_grow(&m->ns, &m->room, m->n, sizeof(*m->ns));
    if (rc != 0)
        return rc;
    m->ns[m->n++] = ns;
    if (ns >= m->max_ns) {
        m->max_ns = ns;
        m->max_at_ns = at_ns;
    }
    return 0;
}

/* Returns -EINVAL also if there is no latency at all. */
static int read_latencies(const char *path)
{
    FILE *in = fopen(path, "re");
    int rc = in ? 0 : -errno, fields = 0;
    uint64_t at_ns, ns;
    char name[16];

    while (rc == 0 && (fields = fscanf(in, "%15s %" SCNu64 " %" SCNu64, name, &at_ns, &ns)) == 3)
        rc = add(name, at_ns, ns);
    if (in)
        fclose(in);
    return rc == 0 && (fields != EOF || !modes[0].n) ? -EINVAL : rc;
}

/* Lists the buckets that have counts: [the smallest value of the bucket, count]. */
static json_t *mode_json(const struct mode *m)
{
    json_t *counts = json_array();
    char when[RESULT_TIME];

    for (size_t i = 0, next; i < m->n; i = next) {
        next = hdr_bucket_end(m->ns, m->n, i);
        json_array_append_new(counts,
                              json_pack("[I, I]", (json_int_t)hdr_least_ns(hdr_bucket(m->ns[i])),
                                        (json_int_t)(next - i)));
    }
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:s, s:f, s:o}", "unit", "ns", "digits", HDR_DIGITS,
                     "count", (json_int_t)m->n, "min", (json_int_t)m->ns[0], "max",
                     (json_int_t)m->max_ns, "max_at", result_time(m->max_at_ns, when), "mean",
                     hdr_mean_ns(m->ns, m->n), "buckets", counts);
}

/* Writes the text of one mode, or JSON of all modes (`only` NULL). */
static int write_file(const struct subcommand *cmd, const struct mode *only, const char *path)
{
    struct atomic_file whole;
    FILE *out = atomic_file_open(&whole, path);
    json_t *root = json_object();
    char when[RESULT_TIME];
    int rc = out ? 0 : -errno;

    for (const struct mode *m = modes; !only && m < modes + MOST_MODES && m->n; m++)
        json_object_set_new(root, m->name, mode_json(m));
    if (out && !only) {
        rc = result_print(root, out);
    } else if (out) {
        hdr_print(only->ns, only->n, out);
        fprintf(out, "#[Max at %s]\n", result_time(only->max_at_ns, when));
    }
    json_decref(root);
    rc = out ? atomic_file_close(&whole, rc) : rc;
    return rc == 0 ? EXIT_SUCCESS : say(cmd, "%s: %s", path, strerror(-rc));
}

static int histogram(const struct subcommand *cmd, int argc, char **argv)
{
    const char *path, *slash, *dot;
    char one[4096];
    int rc;

    options_read(cmd, argc, argv);
    if (optind + 2 != argc)
        fail_usage(cmd, "give a file of latencies and a file for the histograms");
    rc = read_latencies(argv[optind]);
    if (rc != 0)
        return say(cmd, "%s: %s", argv[optind],
                   rc == -EINVAL ? "not a file that `cutin latency --latencies` wrote"
                                 : strerror(-rc));
    path = argv[optind + 1];
    slash = strrchr(path, '/');
    dot = strrchr(path, '.');
    if (!dot || (slash && dot < slash))
        dot = path + strlen(path);
    for (struct mode *m = modes; m < modes + MOST_MODES && m->n; m++)
        qsort(m->ns, m->n, sizeof(*m->ns), figures_compare);
    if (strcmp(dot, ".json") == 0)
        return write_file(cmd, NULL, path);
    for (struct mode *m = modes; m < modes + MOST_MODES && m->n && rc == 0; m++) {
        snprintf(one, sizeof(one), "%.*s.%s%s", (int)(dot - path), path, m->name, dot);
        rc = write_file(cmd, m, one);
    }
    return rc;
}

const struct subcommand subcommand_histogram = {
    .name = "histogram",
    .summary = "make HDR histograms of latencies",
    .synopsis = "LATENCIES FILE",
    .about =
        "Reads what `cutin latency --latencies` wrote. FILE.json gets the counts of all modes;\n"
        "any other FILE becomes a text file per mode for HdrHistogram's plotters\n"
        "(FILE.cutin.hgrm for FILE.hgrm).",
    .run = histogram,
};
