/*
 * programs.c - runs synthetic programs on machines (see programs.h).
 */
#include "programs.h"

#include <math.h>

enum { BYTES = 256 << 20, BLOCKS_AT_ONCE = 8, WARPS = 8, THREE = PROGRAMS_LOADS };

/* Memory's time over computing's, on the single chip. The paper's memory-intensive programs lose a
 * fifth with memory half as fast, which is so from 0.6 on. At 1 both are always busy. */
static const struct {
    double memory[PROGRAMS_LOADS];
    uint64_t blocks;
} groups[PROGRAMS_GROUPS] = {
    [PROGRAMS_MEMORY] = {{0.6, 0.8, 1.0}, 16384},
    [PROGRAMS_COMPUTE] = {{0.1, 0.25, 0.4}, 16384},
    [PROGRAMS_LIMITED] = {{0.25, 0.5, 1.0}, 128}, /* half of the multiprocessors get no block */
};

static double waves_of(const struct modules *m, uint64_t blocks)
{
    return ceil((double)blocks / (m->processors * BLOCKS_AT_ONCE));
}

/* The two groups with the same number of blocks ask for the same memory and share one run. */
static void loads_set(struct modules_kernel *k, const struct modules *like,
                      enum programs_group group, double dram_ns)
{
    for (int i = 0; i < THREE; i++) {
        double waves = waves_of(like, k->blocks);
        double second =
            group == PROGRAMS_MEMORY ? groups[PROGRAMS_COMPUTE].memory[i] : groups[group].memory[i];

        k->wave_ns[i] = dram_ns / groups[group].memory[i] / waves;
        k->wave_ns[THREE + i] = dram_ns / second / waves;
    }
}

static int pattern_run(const struct modules *like, const struct modules *m, size_t pattern,
                       enum programs_group group, struct programs_times *out)
{
    struct modules_kernel k = {.pattern = access_pattern(pattern),
                               .blocks = groups[group].blocks,
                               .blocks_at_once = BLOCKS_AT_ONCE,
                               .warps = WARPS,
                               .bytes = BYTES};
    struct modules_time t;
    int rc = modules_run(like, &k, &t);

    if (rc != 0)
        return rc;
    loads_set(&k, like, group, t.dram_ns);
    rc = modules_run(m, &k, &t);
    for (int i = 0; i < THREE && rc == 0; i++) {
        out->ns[group][pattern][i] = t.ns[i];
        if (group == PROGRAMS_MEMORY)
            out->ns[PROGRAMS_COMPUTE][pattern][i] = t.ns[THREE + i];
    }
    out->link_bytes += rc == 0 ? t.link_bytes : 0;
    return rc;
}

int programs_run(const struct modules *like, const struct modules *m, struct programs_times *out)
{
    int rc = 0;

    *out = (struct programs_times){0};
    for (size_t i = 0; access_pattern(i) && i < PROGRAMS_MOST_PATTERNS && rc == 0; i++) {
        rc = pattern_run(like, m, i, PROGRAMS_MEMORY, out);
        if (rc == 0)
            rc = pattern_run(like, m, i, PROGRAMS_LIMITED, out);
        out->patterns = i + 1;
    }
    return rc;
}

double programs_gain(const struct programs_times *a, const struct programs_times *b,
                     enum programs_group group)
{
    double sum = 0;

    for (size_t p = 0; p < a->patterns; p++)
        for (int i = 0; i < THREE; i++)
            sum += log(a->ns[group][p][i] / b->ns[group][p][i]);
    return exp(sum / (double)(a->patterns * THREE));
}

double programs_gain_all(const struct programs_times *a, const struct programs_times *b)
{
    double product = 1;

    for (enum programs_group g = 0; g < PROGRAMS_GROUPS; g++)
        product *= programs_gain(a, b, g);
    return cbrt(product);
}

double programs_share(const struct programs_times *a, const struct programs_times *b, int sign)
{
    size_t n = 0;

    for (enum programs_group g = 0; g < PROGRAMS_GROUPS; g++)
        for (size_t p = 0; p < a->patterns; p++)
            for (int i = 0; i < THREE; i++)
                n += sign * log(a->ns[g][p][i] / b->ns[g][p][i]) > 0.01;
    return (double)n / (double)(PROGRAMS_GROUPS * a->patterns * THREE);
}
