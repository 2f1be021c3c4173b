/*
 * kernel_times.c - writes the times of recorded kernels as a table (see kernel_times.h).
 */
#include "kernel_times.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/atomic_file.h"

/* One shape of one kernel. */
struct shape {
    const struct workload_op *op; /* the first op of this shape */
    uint64_t ns, total_ns;
    size_t n;
};

struct shapes {
    const struct workload_op **op; /* ops that were measured, by shape and duration */
    size_t ops;
    struct shape *list;
    size_t n;
};

static bool measured(const struct workload *w, const struct workload_op *op)
{
    return op->kind == WORKLOAD_KERNEL && op->duration_ns != UINT64_MAX &&
           strcmp(w->kernel[op->name], "cuGraphLaunch") != 0;
}

static int by_shape(const struct workload_op *x, const struct workload_op *y)
{
    int order = x->name != y->name ? (x->name > y->name) - (x->name < y->name)
                                   : memcmp(x->grid, y->grid, sizeof(x->grid));

    return order ? order : memcmp(x->block, y->block, sizeof(x->block));
}

static int by_shape_and_duration(const void *a, const void *b)
{
    const struct workload_op *x = *(const struct workload_op *const *)a;
    const struct workload_op *y = *(const struct workload_op *const *)b;
    int order = by_shape(x, y);

    return order ? order : (x->duration_ns > y->duration_ns) - (x->duration_ns < y->duration_ns);
}

static int by_total(const void *a, const void *b)
{
    const struct shape *x = a, *y = b;

    return x->total_ns != y->total_ns ? (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns)
                                      : by_shape(x->op, y->op);
}

static void shapes_gather(struct shapes *s, const struct workload *w)
{
    for (size_t i = 0; i < w->ops; i++)
        if (measured(w, &w->op[i]))
            s->op[s->ops++] = &w->op[i];
    qsort(s->op, s->ops, sizeof(*s->op), by_shape_and_duration);
    for (size_t from = 0, to; from < s->ops; from = to) {
        struct shape *shape = &s->list[s->n++];

        *shape = (struct shape){.op = s->op[from]};
        for (to = from; to < s->ops && by_shape(s->op[from], s->op[to]) == 0; to++)
            shape->total_ns += s->op[to]->duration_ns;
        shape->n = to - from;
        shape->ns = s->op[from + shape->n / 4]->duration_ns;
    }
    qsort(s->list, s->n, sizeof(*s->list), by_total);
}

/* Prints the name as a pattern that matches only this name. */
static void pattern_print(FILE *out, const char *name)
{
    if (*name == '#')
        fputc('\\', out);
    for (; *name; name++) {
        if (strchr("*?[\\", *name))
            fputc('\\', out);
        fputc(*name > ' ' ? *name : '?', out);
    }
}

static void print_shape(FILE *out, const struct workload *w, const struct shape *s)
{
    const struct workload_op *op = s->op;

    pattern_print(out, w->kernel[op->name]);
    fprintf(out, " %.3f 0 grid=%u,%u,%u block=%u,%u,%u\n", (double)s->ns / 1000, op->grid[0],
            op->grid[1], op->grid[2], op->block[0], op->block[1], op->block[2]);
}

/* For each name, the shape that took most time stands for all shapes that did not occur. */
static int print_rest(FILE *out, const struct workload *w, const struct shapes *s)
{
    bool *seen = calloc(w->kernels, sizeof(*seen));

    if (!seen)
        return -ENOMEM;
    fputs("\n# Other shapes of the same kernels\n", out);
    for (size_t i = 0; i < s->n; i++) {
        uint32_t name = s->list[i].op->name;

        if (!seen[name]) {
            pattern_print(out, w->kernel[name]);
            fprintf(out, " %.3f\n", (double)s->list[i].ns / 1000);
        }
        seen[name] = true;
    }
    free(seen);
    return 0;
}

static int print_all(const char *path, const struct workload *w, const struct shapes *s)
{
    struct atomic_file whole;
    FILE *out = atomic_file_open(&whole, path);

    if (!out)
        return -errno;
    fprintf(
        out,
        "# Times of kernels, for SIMGPU_KERNEL_TIMES; written by cutin-lab record %s: %zu shapes,\n"
        "# %zu launches. pattern, us, us of each wave of blocks, shape\n\n",
        CUTIN_VERSION, s->n, s->ops);
    for (size_t i = 0; i < s->n; i++)
        print_shape(out, w, &s->list[i]);
    return atomic_file_close(&whole, print_rest(out, w, s));
}

int kernel_times_write(const struct workload *w, const char *path, size_t *lines, char *why,
                       size_t why_bytes)
{
    struct shapes s = {.op = calloc(w->ops + 1, sizeof(struct workload_op *)),
                       .list = calloc(w->ops + 1, sizeof(*s.list))};
    int rc = s.op && s.list ? 0 : -ENOMEM;

    if (rc == 0) {
        shapes_gather(&s, w);
        rc = s.n ? print_all(path, w, &s) : -ENODATA;
    }
    *lines = s.n;
    free((void *)s.op);
    free(s.list);
    if (rc != 0)
        snprintf(why, why_bytes, "%s: %s", path,
                 rc == -ENODATA ? "no kernel was timed; it was not written" : strerror(-rc));
    return rc;
}
