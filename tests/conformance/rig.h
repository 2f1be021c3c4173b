/*
 * rig.h - what every test of the driver needs: a device, a context, the example kernels, and a gate
 * that holds a stream until it is opened, so that order is tested without times.
 */
#ifndef CONFORMANCE_RIG_H
#define CONFORMANCE_RIG_H

#include <cuda.h>

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define OK(call) cr_assert_eq((call), CUDA_SUCCESS, "%s", #call)
#define FAILS(expected, call)                                                                      \
    do {                                                                                           \
        CUresult fails_rc = (call);                                                                \
        cr_assert_eq(fails_rc, (expected), "%s gave %d, not %s", #call, (int)fails_rc, #expected); \
    } while (0)

enum { WORDS = 1024, BYTES = WORDS * 4 };

struct rig {
    CUdevice dev;
    CUcontext ctx;
    CUmodule module;
    CUfunction spin, fill, copy, axpy, mix, mix_spin;
};
extern struct rig rig;

/* .init of most tests: makes everything above. Skips the test if there is no device. */
void rig_open(void);
/* The same, and pinned words that the device may read and write at any time. Skips the test if
 * streams cannot wait for them. */
void rig_open_words(_Atomic uint32_t **word, CUdeviceptr *address);
/* Like rig_open; the simulated driver is the newest that it can be. A real one is what it is. */
void rig_open_newest(void);
/* A function that cuda.h may not have yet. Skips the test if the driver has none. */
void *rig_function(const char *name, int version);
/* Only cuInit and a device. */
void rig_init(void);
/* The path of examples/kernels.ptx, or KERNELS_PTX if this was built on another machine. */
const char *rig_kernels(void);
CUresult rig_context(CUcontext *ctx); /* a second one, which becomes current */
int rig_attribute(CUdevice_attribute attribute);

CUstream stream_new(void);             /* non-blocking */
CUstream stream_new_blocking(void);    /* ordered with the legacy stream */
CUevent event_new(void);               /* without timing */
CUdeviceptr words_new(uint32_t value); /* WORDS words of device memory */
void *pinned_new(void);                /* BYTES bytes, zeroed */
uint32_t word_of(CUdeviceptr p);       /* the first word, read by a synchronous copy */
/* All words equal `value`. */
void words_are(CUdeviceptr p, uint32_t value);

CUresult launch_spin(CUstream s, uint64_t ns);
CUresult launch_fill(CUstream s, CUdeviceptr p, uint32_t v);
CUresult launch_copy(CUstream s, CUdeviceptr dst, CUdeviceptr src);
/* x = x * a + b */
CUresult launch_mix(CUstream s, CUdeviceptr p, uint32_t a, uint32_t b);

/* Parameters of a node that does the same. They refer to `args`, which must live as long. */
struct mix_args {
    CUdeviceptr p;
    uint32_t a, b, n;
    void *list[4];
};
CUDA_KERNEL_NODE_PARAMS mix_params(struct mix_args *args, CUdeviceptr p, uint32_t a, uint32_t b);
CUgraph graph_new(void);
CUgraphNode mix_node(CUgraph g, const CUgraphNode *after, size_t n, CUdeviceptr p, uint32_t a,
                     uint32_t b);
CUgraphExec exec_new(CUgraph g);

/* Closed when queued: the stream waits there until gate_open. */
struct gate {
    atomic_int open;
};
void gate_queue(struct gate *g, CUstream s);
void gate_open(struct gate *g);

/* Waits for a condition with a generous deadline: 20 s. */
#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        int until_tries = 0;                                                                       \
        bool until_came;                                                                           \
        while (!(until_came = (condition)) && until_tries++ < 20000)                               \
            rig_pause();                                                                           \
        cr_assert(until_came, "%s did not come true", #condition);                                 \
    } while (0)
void rig_pause(void); /* 1 ms */

/* Runs fn(arg) in another thread, with the rig's context current, and waits for it. */
void in_thread(void (*fn)(void *), void *arg);

#endif
