/*
 * sim.h - what the tests of the simulated driver share: a device of their own, a context, the known
 * kernels, and the device event log.
 */
#ifndef TESTS_SIMGPU_SIM_H
#define TESTS_SIMGPU_SIM_H

#include <criterion/criterion.h>
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        CUresult check_ = (call);                                                                  \
        cr_assert_eq(check_, CUDA_SUCCESS, "%s: %d", #call, check_);                               \
    } while (0)
#define EXPECT(call, result)                                                                       \
    do {                                                                                           \
        CUresult expect_ = (call);                                                                 \
        cr_expect_eq(expect_, result, "%s: %d, not %d", #call, expect_, result);                   \
    } while (0)

enum { US = 1000, MS = 1000000 };

extern struct sim {
    CUcontext ctx;
    CUmodule module;
    CUfunction spin, fill, copy, axpy, mix, mix_spin;
    char id[64], log[64];
} sim;

/* Names a device and a log after this process; opens nothing yet. */
void sim_name(void);
/* Inits, and gets the primary context and kernels of the device that SIMGPU_ID names. */
void sim_join(void);
/* Init and fini of a suite: sim_open does both of the above. */
void sim_open(void);
void sim_close(void);

void launch_spin(CUstream s, unsigned int blocks, uint64_t ns);
void launch_mix(CUstream s, CUdeviceptr x, uint32_t a, uint32_t b, uint32_t n);
/* Words that streams wait for and that the test writes; they live as long as the context. */
_Atomic uint32_t *host_words(CUdeviceptr *at);
/* Waits for a condition with a generous deadline. */
bool wait_until(bool (*condition)(void *), void *arg);
uint64_t now_ns(void);

/* One line of the device event log. */
struct log_line {
    int pid;
    unsigned int context, stream;
    unsigned long long seq, submit, start, end, cost;
    char kind[16], name[32];
    int ran;
};
/* Reads the log. Returns the number of lines, at most `room`. */
size_t log_read(struct log_line *lines, size_t room);

#endif
