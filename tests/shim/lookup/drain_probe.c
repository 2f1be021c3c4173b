/*
 * drain_probe.c - a shim_drain for tests of the thunks. It counts, records the stack, and leaves
 * garbage in every register that a call may change.
 */
#include <errno.h>
#include <execinfo.h>
#include <string.h>

#include "shim/lookup/profiler.h"
#include "shim/lookup/shim.h"

EXPORT int cutin_test_drains;
EXPORT int cutin_test_scope = -1;
EXPORT int cutin_test_depth;
EXPORT void *cutin_test_stack[64];

static void spoil_registers(void)
{
#if defined(__x86_64__)
    __asm__ volatile("mov $-1, %%rax; mov %%rax, %%rcx; mov %%rax, %%rdx; mov %%rax, %%rsi;"
                     "mov %%rax, %%rdi; mov %%rax, %%r8; mov %%rax, %%r9; mov %%rax, %%r10;"
                     "mov %%rax, %%r11;"
                     "pcmpeqd %%xmm0, %%xmm0; pcmpeqd %%xmm1, %%xmm1; pcmpeqd %%xmm2, %%xmm2;"
                     "pcmpeqd %%xmm3, %%xmm3; pcmpeqd %%xmm4, %%xmm4; pcmpeqd %%xmm5, %%xmm5;"
                     "pcmpeqd %%xmm6, %%xmm6; pcmpeqd %%xmm7, %%xmm7"
                     :
                     :
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0", "xmm1",
                       "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "cc");
#elif defined(__aarch64__)
    __asm__ volatile("mov x0, #-1; mov x1, x0; mov x2, x0; mov x3, x0; mov x4, x0; mov x5, x0;"
                     "mov x6, x0; mov x7, x0; mov x8, x0; mov x9, x0; mov x16, x0; mov x17, x0;"
                     "movi v0.16b, #255; movi v1.16b, #255; movi v2.16b, #255; movi v3.16b, #255;"
                     "movi v4.16b, #255; movi v5.16b, #255; movi v6.16b, #255; movi v7.16b, #255"
                     :
                     :
                     : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x16", "x17",
                       "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
#endif
}

void shim_drain(enum drain_scope scope)
{
    cutin_test_drains++;
    cutin_test_scope = (int)scope;
    cutin_test_depth = backtrace(cutin_test_stack, 64);
    errno = ENOTTY;
    spoil_registers();
}

/* As if the shim had called every function of the driver itself. */
EXPORT void cutin_test_use_all(void);
void cutin_test_use_all(void)
{
    for (int row = 0; row < API_COUNT; row++)
        api_get((enum api_index)row);
}

const struct profiler_function profiler_functions[] = {
#define X(function, effect, kind) {.name = #function},
    PROFILER_FUNCTIONS(X)
#undef X
};

void profiler_gone(const void *base)
{
}

void *shim_stand_in(int row)
{
    return NULL;
}

void shim_fork_child(void)
{
}

void shim_exit_drain(void)
{
    log_line(LOG_ERROR, "exit: drains %d", cutin_test_drains);
}
