/*
 * models.c - the generated networks are the published ones: number of kernels, blocks, and times.
 */
#include "tools/lab/disb/models.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct published {
    const char *name;
    uint32_t kernels, least_blocks, most_blocks, least_us, most_us, sum_us;
    uint64_t sum_blocks;
} published[] = {
    {"vgg19", 71, 1, 1000, 14, 252, 5294, 4733},
    {"resnet152", 207, 1, 1000, 12, 240, 15864, 10333},
    {"densenet201", 207, 1, 1000, 16, 660, 6132, 7308},
    {"inception3", 146, 1, 2738, 16, 464, 9492, 43422},
    {"distilbert", 205, 2, 720, 12, 84, 7472, 34640},
};
enum { MODELS = sizeof(published) / sizeof(published[0]) };

Test(models, generated_kernels_match_the_published_figures)
{
    for (int i = 0; i < MODELS; i++) {
        const struct published *p = &published[i];
        uint32_t least_blocks = UINT32_MAX, most_blocks = 0;
        uint64_t least_ns = UINT64_MAX, most_ns = 0, blocks = 0;
        struct model m;

        cr_assert_eq(model_generate(&m, p->name, 1, 7), 0);
        cr_expect_eq(m.kernels, p->kernels, "%s: %u kernels", p->name, m.kernels);
        for (uint32_t k = 0; k < m.kernels; k++) {
            const struct model_kernel *kernel = &m.kernel[k];

            cr_expect(kernel->threads >= 1 && kernel->threads <= 1024);
            blocks += kernel->blocks;
            least_blocks = kernel->blocks < least_blocks ? kernel->blocks : least_blocks;
            most_blocks = kernel->blocks > most_blocks ? kernel->blocks : most_blocks;
            least_ns = kernel->ns < least_ns ? kernel->ns : least_ns;
            most_ns = kernel->ns > most_ns ? kernel->ns : most_ns;
        }
        cr_expect_eq(blocks, p->sum_blocks, "%s", p->name);
        cr_expect_eq(least_blocks, p->least_blocks, "%s", p->name);
        cr_expect_eq(most_blocks, p->most_blocks, "%s", p->name);
        cr_expect_eq(least_ns, p->least_us * 1000, "%s", p->name);
        cr_expect_eq(most_ns, p->most_us * 1000, "%s", p->name);
        cr_expect_eq(model_ns(&m), p->sum_us * 1000ull, "%s", p->name);
        model_free(&m);
    }
}

static int rising(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct model_kernel)); /* it has no gaps */
}

Test(models, seed_determines_the_order_of_kernels_alone)
{
    struct model a, b, c;
    size_t bytes;

    cr_assert_eq(model_generate(&a, "vgg19", 1, 7), 0);
    cr_assert_eq(model_generate(&b, "vgg19", 1, 7), 0);
    cr_assert_eq(model_generate(&c, "vgg19", 1, 8), 0);
    bytes = a.kernels * sizeof(*a.kernel);
    cr_expect_eq(memcmp(a.kernel, b.kernel, bytes), 0);
    cr_expect_neq(memcmp(a.kernel, c.kernel, bytes), 0);
    cr_assert_eq(c.kernels, a.kernels);
    qsort(a.kernel, a.kernels, sizeof(*a.kernel), rising);
    qsort(c.kernel, c.kernels, sizeof(*c.kernel), rising);
    cr_expect_eq(memcmp(a.kernel, c.kernel, bytes), 0, "other kernels, not another order");
    model_free(&a);
    model_free(&b);
    model_free(&c);
}

Test(models, twice_the_gpu_speed_halves_the_time)
{
    struct model slow, fast;

    cr_assert_eq(model_generate(&slow, "inception3", 1, 1), 0);
    cr_assert_eq(model_generate(&fast, "inception3", 2, 1), 0);
    cr_expect_eq(model_ns(&slow), 2 * model_ns(&fast));
    model_free(&slow);
    model_free(&fast);
}

Test(models, unknown_name_and_missing_file_are_refused)
{
    struct model m;
    char why[256];

    cr_expect_eq(model_generate(&m, "vgg", 1, 1), -ENOENT);
    cr_expect_neq(model_read(&m, "/nonexistent/x.cutw", why, sizeof(why)), 0);
    cr_expect_null(m.kernel);
}
