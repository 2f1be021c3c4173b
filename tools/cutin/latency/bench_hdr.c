/*
 * bench_hdr.c - the latencies of each mode as histograms in files: text that HdrHistogram's
 * plotters read, or JSON that can be added up with that of other runs.
 */
#include "bench.h"
#include "tools/cutin/statistics/hdr.h"
#include "tools/cutin/plot/result.h"

#include <errno.h>
#include <string.h>

#include "common/whole.h"

/* Only what was counted: [the least value of the bucket, count]. */
static json_t *hdr_json(const struct bench_result *r)
{
    const uint64_t *ns = r->latency_ns; /* sorted */
    json_t *counts = json_array();
    char when[RESULT_TIME];

    for (size_t i = 0, next; i < r->n; i = next) {
        next = hdr_next(ns, r->n, i);
        json_array_append_new(counts,
                              json_pack("[I, I]", (json_int_t)hdr_least_ns(hdr_bucket(ns[i])),
                                        (json_int_t)(next - i)));
    }
    return json_pack("{s:s, s:i, s:I, s:I, s:I, s:s, s:f, s:o}", "unit", "ns", "digits", HDR_DIGITS,
                     "count", (json_int_t)r->n, "min", (json_int_t)ns[0], "max",
                     (json_int_t)ns[r->n - 1], "max_at", result_time(r->max_ns, when), "mean",
                     hdr_mean_ns(ns, r->n), "buckets", counts);
}

/* JSON of all modes, or the text of one. */
static int write_file(const struct bench *b, int only, const char *path)
{
    struct whole whole;
    FILE *out = whole_open(&whole, path);
    json_t *root = json_object();
    char when[RESULT_TIME];
    int rc = out ? 0 : -errno;

    for (int m = 0; m < BENCH_MODES && only == BENCH_MODES; m++)
        if (bench_has(b, m))
            json_object_set_new(root, bench_mode_names[m], hdr_json(&b->mode[m]));
    if (out && only == BENCH_MODES) {
        rc = result_print(root, out);
    } else if (out) {
        hdr_print(b->mode[only].latency_ns, b->mode[only].n, out);
        fprintf(out, "#[Max at %s]\n", result_time(b->mode[only].max_ns, when));
    }
    json_decref(root);
    return out ? whole_close(&whole, rc) : rc;
}

int bench_histogram(const struct bench *b, const char *path, char *why, size_t why_bytes)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    char one[4096];
    int rc = 0;

    if (!dot || (slash && dot < slash))
        dot = path + strlen(path);
    snprintf(one, sizeof(one), "%s", path);
    if (strcmp(dot, ".json") == 0)
        rc = write_file(b, BENCH_MODES, path);
    else
        for (int m = 0; m < BENCH_MODES && rc == 0; m++)
            if (bench_has(b, m)) {
                snprintf(one, sizeof(one), "%.*s.%s%s", (int)(dot - path), path,
                         bench_mode_names[m], dot);
                rc = write_file(b, m, one);
            }
    if (rc != 0)
        snprintf(why, why_bytes, "%s: %s", one, strerror(-rc));
    return rc;
}
