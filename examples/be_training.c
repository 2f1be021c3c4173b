/*
 * be_training.c - a small training job: endless steps of kernels and copies over three streams,
 * ordered by events that are recorded again in every step.
 *
 * Every kernel multiplies and adds, so the checksum depends on the order of every launch and copy:
 * two runs of the same number of steps print the same one, whatever else the GPU does meanwhile.
 * Steps per second are counted after the warm-up.
 *
 *   be_training --seconds 10
 *   cutin run -- be_training --steps 2000 --json
 *   cutin-lab distance --sim --rtt 6.8us -- be_training --steps 20 --batch 64
 */
#include "common.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WEIGHTS = 1024, /* elements */
    BATCH = 256,
    SEGMENTS = 4, /* of the side array; each step overwrites one of them with its batch */
    AHEAD = 32,   /* steps that may be queued: programs launch about this far ahead */
    LOSS_EVERY = 8,
    SHAPED = 300,  /* kernels of a step with --batch */
    WARM_UP = 100, /* first steps: the driver loads kernels, and cutin learns their times */
};

static double steps = 0, seconds = 0, kernels = 16, kernel_us = 200, batch = 0;
static bool json, announce, progress;

static const struct setting settings[] = {
    {"steps", &steps, NULL, 0, 1e12, "stop after this many; 0: no limit"},
    {"seconds", &seconds, NULL, 0, 1e6, "stop after this many; 0: no limit"},
    {"kernels", &kernels, NULL, 1, 64, "long kernels per step"},
    {"kernel-us", &kernel_us, NULL, 0, 1e6, "microseconds per long kernel"},
    {"batch", &batch, NULL, 0, 4096,
     "kernels like those of training ResNet-50 with this batch size"},
    {"announce", NULL, &announce, 0, 0, "say on stderr when it is warm: after 100 steps"},
    {"progress", NULL, &progress, 0, 0,
     "on stderr, every ten steps: step, checksum of the losses read, CLOCK_MONOTONIC seconds"},
    {"json", NULL, &json, 0, 0, "one JSON object on stdout"},
    {0},
};

struct training {
    struct gpu gpu;
    CUstream data, compute, side;
    CUevent loaded, trained, mixed, loss_read;
    CUevent done[AHEAD];
    CUdeviceptr weights, batch, mix;
    uint32_t *input; /* pinned, AHEAD x BATCH */
    uint32_t *loss;  /* pinned, AHEAD x 2 */
    uint64_t step, launch, folded, checksum;
};

static void open_events(struct training *t)
{
    CUevent *all[] = {&t->loaded, &t->trained, &t->mixed, &t->loss_read};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        CHECK(cuEventCreate(all[i], CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < AHEAD; i++)
        CHECK(cuEventCreate(&t->done[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
}

static void training_open(struct training *t)
{
    t->checksum = CHECKSUM_SEED;
    gpu_open(&t->gpu);
    CHECK(cuStreamCreate(&t->data, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&t->compute, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&t->side, CU_STREAM_NON_BLOCKING));
    open_events(t);
    CHECK(cuMemAlloc(&t->weights, WEIGHTS * sizeof(uint32_t)));
    CHECK(cuMemAlloc(&t->batch, BATCH * sizeof(uint32_t)));
    CHECK(cuMemAlloc(&t->mix, SEGMENTS * BATCH * sizeof(uint32_t)));
    CHECK(cuMemsetD32(t->weights, 1, WEIGHTS));
    CHECK(cuMemsetD32(t->mix, 2, SEGMENTS * BATCH));
    CHECK(cuStreamSynchronize(NULL)); /* our streams do not wait for memsets, nor do the calls */
    CHECK(cuMemAllocHost((void **)&t->input, AHEAD * BATCH * sizeof(uint32_t)));
    CHECK(cuMemAllocHost((void **)&t->loss, AHEAD * 2 * sizeof(uint32_t)));
}

static void training_close(struct training *t)
{
    CUevent all[] = {t->loaded, t->trained, t->mixed, t->loss_read};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        CHECK(cuEventDestroy(all[i]));
    for (int i = 0; i < AHEAD; i++)
        CHECK(cuEventDestroy(t->done[i]));
    CHECK(cuStreamDestroy(t->data));
    CHECK(cuStreamDestroy(t->compute));
    CHECK(cuStreamDestroy(t->side));
    CHECK(cuMemFree(t->weights));
    CHECK(cuMemFree(t->batch));
    CHECK(cuMemFree(t->mix));
    CHECK(cuMemFreeHost(t->input));
    CHECK(cuMemFreeHost(t->loss));
    gpu_close(&t->gpu);
}

/* Adds the losses of finished steps to the checksum, until at most `ahead` steps are queued. */
static void fold(struct training *t, uint64_t ahead)
{
    for (; t->step - t->folded > ahead; t->folded++) {
        uint64_t slot = t->folded % AHEAD;
        CHECK(cuEventSynchronize(t->done[slot]));
        if (t->folded % LOSS_EVERY == 0)
            t->checksum = checksum(t->checksum, t->loss + slot * 2, 2);
    }
}

static void load_batch(struct training *t, uint64_t slot)
{
    uint32_t *input = t->input + slot * BATCH;

    for (uint32_t i = 0; i < BATCH; i++)
        input[i] = (uint32_t)t->step * 31u + i;
    CHECK(cuStreamWaitEvent(t->data, t->mixed, 0)); /* the previous batch was used */
    CHECK(cuMemcpyHtoDAsync(t->batch, input, BATCH * sizeof(uint32_t), t->data));
    CHECK(cuEventRecord(t->loaded, t->data));
}

static void read_loss(struct training *t, uint64_t slot)
{
    CHECK(cuStreamWaitEvent(t->side, t->trained, 0));
    CHECK(cuMemcpyDtoHAsync(t->loss + slot * 2, t->weights, sizeof(uint32_t), t->side));
    CHECK(cuMemcpyDtoHAsync(t->loss + slot * 2 + 1, t->mix, sizeof(uint32_t), t->side));
    CHECK(cuEventRecord(t->loss_read, t->side));
    CHECK(cuStreamWaitEvent(t->compute, t->loss_read, 0));
}

/* Kernels of training ResNet-50 on a V100, as published for a batch of 64 (He et al., "DxPU", TACO
 * 2023): more than half take at most 10 us, and those of 200 to 800 us take 54 to 69 % of the time.
 * Within its class a time is drawn evenly by its logarithm, and is the same in each step. Times
 * above the shortest class grow with the batch. */
static double shaped_us(int kernel)
{
    static const struct {
        double share, from_us, to_us;
    } classes[] = {{0.57, 3, 10}, {0.33, 10, 200}, {0.10, 200, 800}};
    double drawn = fmod(0.5 + kernel * 0.7548776662, 1), at = fmod(0.5 + kernel * 0.5698402910, 1);
    int c = 0;

    for (; c < 2 && drawn >= classes[c].share; c++)
        drawn -= classes[c].share;
    return classes[c].from_us * pow(classes[c].to_us / classes[c].from_us, at) *
           (c > 0 ? batch / 64 : 1);
}

static uint64_t layer_ns(int layer)
{
    const double own_us = 3; /* time of a kernel that is not told to take longer */
    double us = batch > 0 ? fmax(shaped_us(layer) - own_us, 0.001) : kernel_us;

    return (uint64_t)(us * 1000);
}

static void train_step(struct training *t)
{
    uint64_t slot = t->step % AHEAD;
    CUdeviceptr segment = t->mix + t->step % SEGMENTS * BATCH * sizeof(uint32_t);

    fold(t, AHEAD - 1);
    load_batch(t, slot);

    CHECK(cuStreamWaitEvent(t->compute, t->loaded, 0));
    t->gpu.blocks = t->gpu.full;
    for (int layer = 0; layer < (batch > 0 ? SHAPED : (int)kernels); layer++, t->launch++)
        gpu_mix(&t->gpu, t->compute, t->weights, t->launch, WEIGHTS, layer_ns(layer));
    CHECK(cuEventRecord(t->trained, t->compute));

    CHECK(cuStreamWaitEvent(t->side, t->loaded, 0));
    t->gpu.blocks = 1;
    gpu_copy(&t->gpu, t->side, segment, t->batch, BATCH);
    gpu_mix(&t->gpu, t->side, t->mix, t->launch++, SEGMENTS * BATCH, 0);
    CHECK(cuEventRecord(t->mixed, t->side));

    if (t->step % LOSS_EVERY == 0)
        read_loss(t, slot);
    CHECK(cuStreamWaitEvent(t->compute, t->mixed, 0));
    CHECK(cuEventRecord(t->done[slot], t->compute));
    t->step++;
}

static void finish(struct training *t)
{
    static uint32_t result[WEIGHTS + SEGMENTS * BATCH];

    fold(t, 0);
    CHECK(cuMemcpyDtoH(result, t->weights, WEIGHTS * sizeof(uint32_t)));
    CHECK(cuMemcpyDtoH(result + WEIGHTS, t->mix, SEGMENTS * BATCH * sizeof(uint32_t)));
    t->checksum = checksum(t->checksum, result, WEIGHTS + SEGMENTS * BATCH);
}

/* The pace counts from this time, and from this number of finished steps on. */
struct pace {
    uint64_t since_ns, steps;
};

static void pace_begin(struct pace *p, const struct training *t)
{
    *p = (struct pace){now_ns(), t->folded};
}

static double pace_steps_per_s(const struct pace *p, const struct training *t)
{
    return (double)(t->step - p->steps) / ((double)(now_ns() - p->since_ns) / 1e9);
}

static void train(struct training *t, struct pace *pace)
{
    uint64_t end_ns = UINT64_MAX;

    pace_begin(pace, t);
    if (seconds > 0)
        end_ns = pace->since_ns + (uint64_t)(seconds * 1e9);
    do {
        train_step(t);
        if (t->step == WARM_UP) {
            if (announce)
                fprintf(stderr, "training\n");
            pace_begin(pace, t);
        }
        if (progress && t->step % 10 == 0)
            fprintf(stderr, "%llu %016llx %.6f\n", (unsigned long long)t->step,
                    (unsigned long long)t->checksum, (double)now_ns() / 1e9);
    } while (!stopped && (steps <= 0 || (double)t->step < steps) && now_ns() < end_ns);
    finish(t);
}

int main(int argc, char **argv)
{
    static struct training t;
    struct pace pace;
    double steps_per_s;

    settings_read(settings, argc, argv, "Trains on the GPU until stopped; prints steps/s.");
    stop_on_signals();
    training_open(&t);
    train(&t, &pace);
    steps_per_s = pace_steps_per_s(&pace, &t);
    printf(json ? "{\"gpu\": \"%s\", \"steps\": %llu, \"steps_per_s\": %.1f, "
                  "\"checksum\": \"%016llx\"}\n"
                : "%s: %llu steps, %.1f steps/s, checksum %016llx\n",
           t.gpu.name, (unsigned long long)t.step, steps_per_s, (unsigned long long)t.checksum);
    training_close(&t);
    return EXIT_SUCCESS;
}
