/*
 * player.c - runs a workload's operations (see player.h).
 */
#include "player.h"
#include "tools/cutin/progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels_ptx.h"
#include "common/clock.h"

enum {
    MOST_COPY = 64 << 20, /* larger copies are made in parts */
    SHORT_NS = 20000,     /* spins through shorter pauses, since a sleep may be this late */
    TICK_NS = 100000000,
    TICK_OPS = 256, /* ops between two looks at progress_cancel */
    PLAIN_SHARED = 48 << 10,
};

#define TRY(name, ...) DRIVER_TRY(&p->cu, p->why, #name, name, __VA_ARGS__)

/* ---- open ----------------------------------------------------------------------------------- */

static int open_work(struct player *p)
{
    uint64_t copied = 4; /* the largest copy; `shared`: the largest shared memory of a block */
    uint32_t shared = 0;

    for (size_t i = 0; i < p->w->ops; i++) {
        const struct workload_op *op = &p->w->op[i];
        if (op->kind == WORKLOAD_COPY && op->bytes > copied)
            copied = op->bytes;
        if (op->kind == WORKLOAD_KERNEL && op->shared > shared)
            shared = op->shared;
    }
    p->waves = !strstr(p->device.name, "simulated");
    TRY(cuModuleLoadData, &p->module, kernels_ptx);
    TRY(cuModuleGetFunction, &p->spin, p->module, "spin");
    if (shared > PLAIN_SHARED)
        TRY(cuFuncSetAttribute, p->spin, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            (int)shared);
    p->stream = calloc((size_t)p->w->streams + 1, sizeof(*p->stream));
    if (!p->stream)
        return -ENOMEM;
    for (uint32_t i = 0; i <= p->w->streams; i++)
        TRY(cuStreamCreate, &p->stream[i], CU_STREAM_NON_BLOCKING);
    p->memory_bytes = copied < MOST_COPY ? (size_t)copied : MOST_COPY;
    for (int i = 0; i < 2; i++)
        TRY(cuMemAlloc, &p->memory[i], p->memory_bytes);
    TRY(cuMemAllocHost, &p->host, p->memory_bytes);
    memset(p->host, 0, p->memory_bytes);
    return 0;
}

static int launch(struct player *p, const struct workload_op *op);

/* Loads the kernel by a first launch. */
static int warm_up(struct player *p)
{
    struct workload_op op = {.kind = WORKLOAD_KERNEL, .grid = {1, 1, 1}, .block = {32, 1, 1}};
    int rc = launch(p, &op);

    if (rc == 0)
        TRY(cuStreamSynchronize, p->stream[0]);
    p->kernels = 0;
    return rc;
}

int player_open(struct player *p, const struct workload *w)
{
    int rc;

    *p = (struct player){.w = w};
    rc = driver_open(&p->cu, &p->device, p->why, sizeof(p->why));
    if (rc == 0)
        rc = open_work(p);
    if (rc == 0)
        rc = warm_up(p);
    if (rc == -ENOMEM)
        snprintf(p->why, sizeof(p->why), "no memory for %u streams", w->streams);
    return rc;
}

void player_close(struct player *p)
{
    for (uint32_t i = 0; p->stream && i <= p->w->streams; i++)
        if (p->stream[i])
            p->cu.cuStreamDestroy(p->stream[i]);
    for (int i = 0; i < 2; i++)
        if (p->memory[i])
            p->cu.cuMemFree(p->memory[i]);
    if (p->host)
        p->cu.cuMemFreeHost(p->host);
    if (p->device.context)
        p->cu.cuDevicePrimaryCtxRelease(p->device.id);
    free(p->stream);
    *p = (struct player){0};
}

/* ---- one operation -------------------------------------------------------------------------- */

static uint64_t waves_of(struct player *p, const struct workload_op *op)
{
    uint64_t blocks = (uint64_t)op->grid[0] * op->grid[1] * op->grid[2], room;
    int threads = op->block[0] * op->block[1] * op->block[2], each = 0;

    if (!p->waves || p->cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, p->spin, threads,
                                                                       op->shared) != CUDA_SUCCESS)
        return 1;
    room = (uint64_t)(each > 0 ? each : 1) * (uint32_t)p->device.processors;
    return (blocks + room - 1) / room;
}

static int launch(struct player *p, const struct workload_op *op)
{
    uint64_t ns = op->duration_ns / waves_of(p, op);
    void *args[] = {&ns};

    TRY(cuLaunchKernel, p->spin, op->grid[0], op->grid[1], op->grid[2], op->block[0], op->block[1],
        op->block[2], op->shared, p->stream[op->stream], args, NULL);
    p->kernels++;
    return 0;
}

static int copy_part(struct player *p, const struct workload_op *op, size_t n)
{
    CUstream stream = p->stream[op->stream];

    switch (op->direction) {
    case WORKLOAD_TO_DEVICE:
        TRY(cuMemcpyHtoDAsync, p->memory[0], p->host, n, stream);
        break;
    case WORKLOAD_TO_HOST:
        TRY(cuMemcpyDtoHAsync, p->host, p->memory[0], n, stream);
        break;
    case WORKLOAD_ON_DEVICE:
        TRY(cuMemcpyDtoDAsync, p->memory[1], p->memory[0], n, stream);
        break;
    default:
        TRY(cuMemsetD8Async, p->memory[0], 0, n, stream);
    }
    return 0;
}

static int copy(struct player *p, const struct workload_op *op)
{
    uint64_t left = op->bytes;
    int rc = 0;

    while (left && rc == 0) {
        size_t n = left < p->memory_bytes ? (size_t)left : p->memory_bytes;
        rc = copy_part(p, op, n);
        left -= n;
    }
    p->copies++;
    return rc;
}

static int wait_all(struct player *p)
{
    for (uint32_t i = 0; i < p->w->streams; i++)
        TRY(cuStreamSynchronize, p->stream[i]);
    return 0;
}

/* ---- a request ------------------------------------------------------------------------------ */

/* True: the user wants an end. */
static bool tick(struct player *p)
{
    if (p->tick)
        p->tick(p->user);
    return progress_cancel != 0;
}

void player_sleep_until(struct player *p, uint64_t ns)
{
    for (uint64_t at_ns = clock_ns(); at_ns < ns && !tick(p); at_ns = clock_ns())
        clock_sleep_until(ns - at_ns > TICK_NS ? at_ns + TICK_NS : ns);
}

int player_run(struct player *p, size_t from, size_t to, bool paced)
{
    uint64_t origin_ns = clock_ns() - (from < to ? p->w->op[from].at_ns : 0);
    int rc = 0, rest;

    for (size_t i = from; i < to && rc == 0; i++) {
        const struct workload_op *op = &p->w->op[i];

        if (paced && clock_ns() + SHORT_NS < origin_ns + op->at_ns)
            player_sleep_until(p, origin_ns + op->at_ns);
        if ((paced || i % TICK_OPS == 0) && tick(p))
            rc = -ECANCELED;
        else if (op->kind == WORKLOAD_KERNEL)
            rc = launch(p, op);
        else if (op->kind == WORKLOAD_COPY)
            rc = copy(p, op);
        else if ((rc = wait_all(p)) == 0) /* what followed in the program began after this wait */
            origin_ns = clock_ns() - op->at_ns - op->duration_ns;
        p->ops++;
    }
    rest = wait_all(p);
    return rc != 0 ? rc : rest;
}
