/*
 * rig.h - the simulated driver with cutin in front, for tests of the typed wrappers. The test
 * program links the driver directly and runs with cutin preloaded, as an application does.
 */
#ifndef TESTS_SHIM_RIG_H
#define TESTS_SHIM_RIG_H

#include <criterion/criterion.h>
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/cutin.h"

#define ok(call)                                                                                   \
    do {                                                                                           \
        CUresult ok_r = (call);                                                                    \
        cr_assert_eq(ok_r, CUDA_SUCCESS, "%s = %d", #call, ok_r);                                  \
    } while (0)
#define answers(wanted, call)                                                                      \
    do {                                                                                           \
        CUresult answers_r = (call);                                                               \
        cr_assert_eq(answers_r, (wanted), "%s = %d, not %s", #call, answers_r, #wanted);           \
    } while (0)

enum { N = 1024 };

extern CUdevice rig_device;
extern CUcontext rig_context;
extern CUmodule rig_module;
extern CUfunction rig_mix, rig_spin, rig_fill, rig_mix_spin;

/* Makes a context, current, and the kernels, for `.init` of a test. Asserts that cutin is there. */
void rig_open(void);
/* The same after setting an environment variable of cutin or the simulator. */
void rig_open_with(const char *name, const char *value);
void rig_close(void);
/* Makes a child without a driver use the device of the test's process. */
void rig_join_device(int pid);

CUcontext rig_context_new(void); /* on the same device, and current */
CUstream rig_stream(void);       /* non-blocking */
CUstream rig_stream_blocking(void);
CUstream rig_stream_first(void); /* non-blocking, of the greatest priority */
bool rig_held(CUstream stream);
CUdeviceptr rig_buffer(uint32_t value); /* N elements, each `value` */
/* x = x * a + b over a buffer of N. */
CUresult rig_launch(CUdeviceptr x, uint32_t a, uint32_t b, CUstream stream);
/* The same, `count` times, as a graph of so many nodes. */
CUgraphExec rig_graph(CUdeviceptr x, uint32_t a, uint32_t b, int count);
/* Launches a kernel that runs until 1 is written into the word that is returned. */
_Atomic uint32_t *rig_resident(CUstream stream);
/* Launches once in `stream`, so that the next launch may be deferred. */
void rig_warm(CUstream stream);
/* Waits until the cap has measured its estimates: a context begins with one command at a time.
 * After that, nothing is known of rig_mix. */
void rig_settle(CUstream stream);
/* Expects `value` in all of the buffer. `stream` is synchronised first (NULL: the whole
 * context). */
void rig_expect(CUdeviceptr x, uint32_t value, CUstream stream);
/* What mix makes of one value. */
static inline uint32_t rig_mixed(uint32_t x, uint32_t a, uint32_t b)
{
    return x * a + b;
}

/* Runs `body` in a thread. `returned` becomes true when it is done. */
struct rig_thread {
    void (*body)(void *user);
    void *user;
    _Atomic bool returned;
    unsigned long id;
};
void rig_start(struct rig_thread *t, void (*body)(void *), void *user);
void rig_join(struct rig_thread *t);
/* Asserts that it has not returned, and does not within some milliseconds. */
void rig_blocked(struct rig_thread *t);
/* How many naps of 1 ms a test waits for what a deliberate bug may prevent: 20 s, or
 * RIG_PATIENCE_MS. */
int rig_patience(void);
/* Waits until `flag` is set, 200 s at most. */
void rig_until(_Atomic bool *flag);
/* Likewise, until `stream` has no hold: a thread that finds the stream above idle ends the hold a
 * moment after it has said so. */
void rig_until_open(CUstream stream);
void rig_nap(void);
uint64_t rig_now_ms(void); /* of the host's monotonic clock */

#endif
