/*
 * models.c - generates the networks of models.def, and reads others from workload files.
 */
#include "models.h"
#include "tools/cutin/statistics/random.h"
#include "tools/lab/record/workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row without a name is a shape of the model above it. */
static const struct row {
    const char *name;
    uint32_t kernels, blocks, threads, us;
} rows[] = {
#define MODEL(name_) {.name = #name_},
#define SHAPE(kernels_, blocks_, threads_, us_)                                                    \
    {.kernels = kernels_, .blocks = blocks_, .threads = threads_, .us = us_},
#include "models.def"
#undef MODEL
#undef SHAPE
};
static const struct row *const rows_end = rows + sizeof(rows) / sizeof(rows[0]);

static uint32_t count_kernels(const struct row *shape)
{
    uint32_t n = 0;

    for (; shape < rows_end && !shape->name; shape++)
        n += shape->kernels;
    return n;
}

static void shuffle(struct model *m, uint64_t seed)
{
    for (uint32_t i = m->kernels; i > 1; i--) {
        uint32_t j = (uint32_t)(random_next(&seed) % i);
        struct model_kernel k = m->kernel[i - 1];

        m->kernel[i - 1] = m->kernel[j];
        m->kernel[j] = k;
    }
}

int model_generate(struct model *m, const char *name, double speed, uint64_t seed)
{
    const struct row *r = rows;

    while (r < rows_end && (!r->name || strcmp(r->name, name) != 0))
        r++;
    if (r == rows_end)
        return -ENOENT;
    *m = (struct model){0};
    m->kernel = calloc(count_kernels(r + 1), sizeof(*m->kernel));
    if (!m->kernel)
        return -ENOMEM;
    for (r++; r < rows_end && !r->name; r++)
        for (uint32_t i = 0; i < r->kernels; i++)
            m->kernel[m->kernels++] = (struct model_kernel){
                r->blocks, r->threads, (uint64_t)((double)r->us * 1000 / speed)};
    shuffle(m, seed);
    return 0;
}

int model_read(struct model *m, const char *path, char *why, size_t why_bytes)
{
    struct workload w = {0};
    int rc = workload_read(&w, path, why, why_bytes);
    size_t end = rc == 0 ? workload_request_end(&w, 0) : 0;

    *m = (struct model){0};
    if (rc == 0 && !(m->kernel = calloc(end + 1, sizeof(*m->kernel))))
        rc = -ENOMEM;
    for (size_t i = 0; i < end && rc == 0; i++) {
        const struct workload_op *op = &w.op[i];
        uint64_t blocks = (uint64_t)op->grid[0] * op->grid[1] * op->grid[2];

        if (op->kind == WORKLOAD_KERNEL)
            m->kernel[m->kernels++] = (struct model_kernel){
                blocks > INT32_MAX ? INT32_MAX : (uint32_t)blocks,
                (uint32_t)op->block[0] * op->block[1] * op->block[2], op->duration_ns};
    }
    workload_free(&w);
    if (rc == 0 && m->kernels == 0) {
        snprintf(why, why_bytes, "%s: its first request launches no kernel", path);
        rc = -EINVAL;
    }
    if (rc != 0)
        model_free(m);
    return rc;
}

uint64_t model_ns(const struct model *m)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < m->kernels; i++)
        sum += m->kernel[i].ns;
    return sum;
}

void model_free(struct model *m)
{
    free(m->kernel);
    *m = (struct model){0};
}
