/*
 * training.c - the kernels of a ResNet-50 training step (see training.h).
 *
 * The layers are the published ones (He et al., 2016). A kernel takes as long as its arithmetic or
 * its memory needs, whichever is more. The V100's data sheet has 125 Tflop/s of tensor cores and
 * 900 GB/s. Half of the former and three quarters of the latter, 2 us for the shortest kernel and 6
 * us of the host for each call are assumptions, which were stated before any result was seen.
 */
#include "training.h"

enum {
    FLOPS_PER_NS = 125000 / 2,
    BYTES_PER_NS = 900 * 3 / 4,
    LEAST_NS = 2000,
    CALL_NS = 6000,
    HALF = 2, /* bytes of an activation, and of a weight that is in use */
    SINGLE = 4,
    UPDATES = 4, /* for a parameter: decay, two of the momentum, the step */
};

struct step {
    struct workload *w;
    uint64_t batch, at_ns;
    uint64_t parameters[200]; /* elements of each tensor */
    uint32_t n;
    uint32_t side; /* side of the picture, in this layer */
    int rc;
};

static void kernel(struct step *s, const char *name, double flops, double bytes)
{
    double ns = flops / FLOPS_PER_NS;
    int index = s->rc == 0 ? workload_kernel(s->w, name) : s->rc;
    struct workload_op op = {
        .at_ns = s->at_ns, .kind = WORKLOAD_KERNEL, .grid = {1, 1, 1}, .block = {256, 1, 1}};

    if (ns < bytes / BYTES_PER_NS)
        ns = bytes / BYTES_PER_NS;
    op.duration_ns = ns > LEAST_NS ? (uint64_t)ns : LEAST_NS;
    op.grid[0] = 1 + (uint32_t)(bytes / 256 / 16);
    op.name = (uint32_t)index;
    s->at_ns += CALL_NS;
    s->rc = index < 0 ? index : workload_add(s->w, &op);
}

static void parameter(struct step *s, uint64_t elements)
{
    s->parameters[s->n++] = elements;
}

/* An elementwise kernel, or a similar one: all elements are read or written `times` times. */
static void passes(struct step *s, const char *name, uint64_t elements, int times)
{
    kernel(s, name, 0, (double)elements * HALF * times);
}

/* A convolution with its batch normalisation, forwards and backwards. The order within a step does
 * not matter to a device that is always busy. Returns the elements of its output. */
static uint64_t convolution(struct step *s, uint32_t in, uint32_t out, uint32_t window,
                            uint32_t stride)
{
    uint64_t x = s->batch * in * s->side * s->side, weights = (uint64_t)in * out * window * window;
    uint32_t side = s->side / stride;
    uint64_t y = s->batch * out * side * side;
    double flops = 2.0 * (double)weights * (double)(s->batch * side * side);
    double bytes = (double)(x + y + weights) * HALF;

    kernel(s, "cast", 0, (double)weights * (SINGLE + HALF));
    kernel(s, "convolution", flops, bytes);
    kernel(s, "convolution_data", flops, bytes);
    kernel(s, "convolution_weights", flops, bytes);
    kernel(s, "cast", 0, (double)weights * (SINGLE + HALF));
    passes(s, "normalise", y, 3);      /* statistics, then the data, read and written */
    passes(s, "normalise_back", y, 5); /* both read twice, and the result */
    parameter(s, weights);
    parameter(s, out);
    parameter(s, out);
    return y;
}

static void rectify(struct step *s, uint64_t elements)
{
    passes(s, "rectify", elements, 2);
    passes(s, "rectify_back", elements, 3);
}

static void bottleneck(struct step *s, uint32_t in, uint32_t width, uint32_t stride, int first)
{
    uint32_t side = s->side;
    uint64_t y;

    rectify(s, convolution(s, in, width, 1, 1));
    y = convolution(s, width, width, 3, stride);
    s->side = side / stride;
    rectify(s, y);
    y = convolution(s, width, 4 * width, 1, 1);
    if (first) {
        s->side = side;
        convolution(s, in, 4 * width, 1, stride);
        s->side = side / stride;
    }
    passes(s, "add", y, 3);
    passes(s, "add_back", y, 3);
    rectify(s, y);
}

static void layers(struct step *s)
{
    static const int blocks[] = {3, 4, 6, 3};
    uint32_t in = 64;
    uint64_t y;

    s->side = 224;
    y = convolution(s, 3, 64, 7, 2);
    rectify(s, y);
    passes(s, "pool", y, 2);
    passes(s, "pool_back", y, 3);
    s->side = 56;
    for (uint32_t stage = 0; stage < 4; stage++)
        for (int i = 0; i < blocks[stage]; i++) {
            bottleneck(s, in, 64u << stage, stage && i == 0 ? 2 : 1, i == 0);
            in = 256u << stage;
        }
    passes(s, "mean", s->batch * in * s->side * s->side, 1);
    passes(s, "mean_back", s->batch * in * s->side * s->side, 1);
    for (int i = 0; i < 3; i++) /* the classifier: once forwards, twice backwards */
        kernel(s, "matrix", 2.0 * (double)s->batch * in * 1000, (double)in * 1000 * HALF);
    for (int i = 0; i < 4; i++)
        passes(s, "loss", s->batch * 1000, 2);
    parameter(s, (uint64_t)in * 1000);
    parameter(s, 1000);
}

int training_step(struct workload *w, uint32_t batch)
{
    struct step s = {.w = w, .batch = batch, .at_ns = w->total_ns};
    struct workload_op sync = {.kind = WORKLOAD_SYNC};

    layers(&s);
    for (uint32_t i = 0; i < s.n; i++)
        for (int update = 0; update < UPDATES; update++)
            kernel(&s, "update", 0, (double)s.parameters[i] * SINGLE * 3);
    sync.at_ns = s.at_ns;
    return s.rc == 0 ? workload_add(w, &sync) : s.rc;
}
