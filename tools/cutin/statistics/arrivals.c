/*
 * arrivals.c - draws the gaps between requests (see arrivals.h).
 */
#include "arrivals.h"
#include "random.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOSED_MOST_MEANS = 10 }; /* bounds a pause, and so the time that a closed loop takes */

/* Mean 1. The greater the shape (above 0), the more even; shape 1 is the exponential. The method of
 * Marsaglia and Tsang; for shapes below 1 they go back from shape + 1. */
static double gamma_gap(uint64_t *state, double shape)
{
    double a = shape < 1 ? shape + 1 : shape, d = a - 1.0 / 3, c = 1 / sqrt(9 * d), v, x;

    do {
        do {
            /* The method of Box and Muller. */
            x = sqrt(2 * random_exponential(state));
            x *= cos(2 * 3.14159265358979323846 * random_unit(state));
            v = 1 + c * x;
        } while (v <= 0);
        v = v * v * v;
    } while (log(random_unit(state)) >= 0.5 * x * x + d - d * v + d * log(v));
    if (shape < 1)
        v *= pow(random_unit(state), 1 / shape);
    return d * v / shape;
}

/* Draws a gap as a multiple of the mean; not for a trace. */
static double gap(const struct arrivals *a, uint64_t *seed)
{
    switch (a->kind) {
    case ARRIVALS_UNIFORM:
        return 1 + a->parameter * (2 * random_unit(seed) - 1);
    case ARRIVALS_GAMMA:
        return gamma_gap(seed, a->parameter);
    case ARRIVALS_CLOSED:
        /* Half of the pause is constant, so that best effort runs again. The rest is exponential,
         * so that no phase of its kernels is favoured. */
        return fmin(0.5 + 0.5 * random_exponential(seed), CLOSED_MOST_MEANS);
    default:
        return random_exponential(seed);
    }
}

static const struct row {
    const char *name;
    bool has, needs; /* a parameter */
    double least, most, usual;
} rows[ARRIVALS_KINDS] = {
    [ARRIVALS_POISSON] = {"poisson"},
    [ARRIVALS_UNIFORM] = {"uniform", .has = true, .most = 1, .usual = 1},
    [ARRIVALS_GAMMA] = {"gamma", .has = true, .needs = true, .least = 0.01, .most = 10000},
    [ARRIVALS_TRACE] = {"trace", .has = true, .needs = true},
    [ARRIVALS_CLOSED] = {"closed"},
};

int arrivals_parse(struct arrivals *a, const char *text, char *why, size_t why_bytes)
{
    size_t length = strcspn(text, ":");
    const char *parameter = text[length] ? text + length + 1 : NULL;
    char *end;

    for (int kind = 0; kind < ARRIVALS_KINDS; kind++) {
        const struct row *r = &rows[kind];
        if (strlen(r->name) != length || strncmp(text, r->name, length) != 0)
            continue;
        if (parameter ? !r->has || !*parameter : r->needs)
            break;
        *a = (struct arrivals){.kind = (enum arrivals_kind)kind, .parameter = r->usual};
        if (kind == ARRIVALS_TRACE)
            a->path = parameter;
        if (!parameter || a->path)
            return 0;
        a->parameter = strtod(parameter, &end);
        if (end != parameter && !*end && a->parameter >= r->least && a->parameter <= r->most)
            return 0;
        snprintf(why, why_bytes, "%s is not %s: and a number from %g to %g", text, r->name,
                 r->least, r->most);
        return -EINVAL;
    }
    snprintf(why, why_bytes,
             "%s is not poisson, uniform, uniform:SPREAD, gamma:SHAPE, trace:FILE or closed", text);
    return -EINVAL;
}

const char *arrivals_text(const struct arrivals *a, char *out, size_t size)
{
    const struct row *r = &rows[a->kind];

    if (a->path)
        snprintf(out, size, "%s:%s", r->name, a->path);
    else if (r->has)
        snprintf(out, size, "%s:%g", r->name, a->parameter);
    else
        snprintf(out, size, "%s", r->name);
    return out;
}

static int read_gaps(FILE *file, const char *path, uint64_t *gap_ns, uint32_t n, char *why,
                     size_t why_bytes)
{
    double before_ms = 0, at_ms;
    char line[256], *end;
    uint32_t have = 0;

    for (uint32_t number = 1; have < n && fgets(line, sizeof(line), file); number++) {
        if (line[0] == '#' || line[strspn(line, " \t\n")] == '\0')
            continue;
        at_ms = strtod(line, &end);
        if (end == line || end[strspn(end, " \t\r\n")] || !(at_ms >= before_ms && at_ms < 1e9)) {
            snprintf(why, why_bytes, "%s, line %u: not a time in milliseconds that rises from 0 on",
                     path, number);
            return -EINVAL;
        }
        gap_ns[have++] = (uint64_t)((at_ms - before_ms) * 1e6);
        before_ms = at_ms;
    }
    if (have == n)
        return 0;
    snprintf(why, why_bytes, "%s has %u arrivals, and %u are to be measured", path, have, n);
    return -EINVAL;
}

int arrivals_draw(const struct arrivals *a, double mean_ns, uint64_t seed, uint64_t *gap_ns,
                  uint32_t n, char *why, size_t why_bytes)
{
    FILE *file;
    int rc;

    for (uint32_t i = 0; a->kind != ARRIVALS_TRACE && i < n; i++)
        gap_ns[i] = (uint64_t)(mean_ns * gap(a, &seed));
    if (a->kind != ARRIVALS_TRACE)
        return 0;
    if (!(file = fopen(a->path, "re"))) {
        rc = -errno;
        snprintf(why, why_bytes, "%s: %s", a->path, strerror(-rc));
        return rc;
    }
    rc = read_gaps(file, a->path, gap_ns, n, why, why_bytes);
    fclose(file);
    return rc;
}
