/*
 * sim.c - what the tests of the simulated driver share; see sim.h.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct sim sim;

void sim_name(void)
{
    snprintf(sim.id, sizeof(sim.id), "test%d", (int)getpid());
    snprintf(sim.log, sizeof(sim.log), "/tmp/simgpu-test-%d.log", (int)getpid());
    setenv("SIMGPU_ID", sim.id, 1);
    setenv("SIMGPU_LOG", sim.log, 1);
}

static CUfunction function(const char *name)
{
    CUfunction f;
    CHECK(cuModuleGetFunction(&f, sim.module, name));
    return f;
}

void sim_join(void)
{
    CUdevice device;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&sim.ctx, device));
    CHECK(cuCtxSetCurrent(sim.ctx));
    CHECK(cuModuleLoad(&sim.module, KERNELS));
    sim.spin = function("spin");
    sim.fill = function("fill");
    sim.copy = function("copy");
    sim.axpy = function("axpy");
    sim.mix = function("mix");
    sim.mix_spin = function("mix_spin");
}

void sim_open(void)
{
    sim_name();
    sim_join();
}

void sim_close(void)
{
    char name[96];
    snprintf(name, sizeof(name), "/simgpu-%u-%s", (unsigned)getuid(), sim.id);
    shm_unlink(name);
    unlink(sim.log);
}

void launch_spin(CUstream s, unsigned int blocks, uint64_t ns)
{
    void *params[] = {&ns};
    CHECK(cuLaunchKernel(sim.spin, blocks, 1, 1, 1024, 1, 1, 0, s, params, NULL));
}

void launch_mix(CUstream s, CUdeviceptr x, uint32_t a, uint32_t b, uint32_t n)
{
    void *params[] = {&x, &a, &b, &n};
    CHECK(cuLaunchKernel(sim.mix, 4, 1, 1, 256, 1, 1, 0, s, params, NULL));
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool wait_until(bool (*condition)(void *), void *arg)
{
    uint64_t deadline = now_ns() + 30000000000ull;
    while (!condition(arg)) {
        if (now_ns() > deadline)
            return false;
        usleep(200);
    }
    return true;
}

_Atomic uint32_t *host_words(CUdeviceptr *at)
{
    void *p;
    CHECK(cuMemHostAlloc(&p, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemHostGetDevicePointer(at, p, 0));
    memset(p, 0, 4096);
    return p;
}

static bool line_read(const char *text, struct log_line *l)
{
    return sscanf(text,
                  "pid=%d context=%u stream=%u seq=%llu kind=%15s name=%31s submit=%llu start=%llu "
                  "end=%llu cost=%llu ran=%d",
                  &l->pid, &l->context, &l->stream, &l->seq, l->kind, l->name, &l->submit,
                  &l->start, &l->end, &l->cost, &l->ran) == 11;
}

size_t log_read(struct log_line *lines, size_t room)
{
    char text[512];
    size_t n = 0;
    FILE *f = fopen(sim.log, "r");
    while (f && n < room && fgets(text, sizeof(text), f)) {
        cr_assert(line_read(text, &lines[n]), "not a line of the log: %s", text);
        n++;
    }
    if (f)
        fclose(f);
    return n;
}
