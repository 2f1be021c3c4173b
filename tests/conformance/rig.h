/*
 * rig.h - what every check of the driver needs: a device, a context, the example kernels, and a
 * gate that holds a stream until it is opened, so that order is tested without time.
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

/* .init of most tests: everything above, or the test is skipped for want of a device. */
void rig_open(void);
/* The same, and pinned words that the device reads and writes whenever it likes; skipped where
 * streams cannot wait for them. */
void rig_open_words(_Atomic uint32_t **word, CUdeviceptr *address);
/* The same with the newest driver that the simulated one can be; a real one is what it is. */
void rig_open_newest(void);
/* A function that is newer than cuda.h may be; the test is skipped where the driver has none. */
void *rig_function(const char *name, int version);
/* Just cuInit and a device. */
void rig_init(void);
/* The path of examples/kernels.ptx; KERNELS_PTX where this was built elsewhere. */
const char *rig_kernels(void);
CUresult rig_context(CUcontext *ctx); /* another one, current */
int rig_attribute(CUdevice_attribute attribute);

CUstream stream_new(void);             /* non-blocking */
CUstream stream_new_blocking(void);    /* in legacy order */
CUevent event_new(void);               /* without timing */
CUdeviceptr words_new(uint32_t value); /* WORDS words of device memory */
void *pinned_new(void);                /* BYTES bytes, zeroed */
uint32_t word_of(CUdeviceptr p);       /* the first word, by a synchronous copy */
/* All words equal `value`. */
void words_are(CUdeviceptr p, uint32_t value);

CUresult launch_spin(CUstream s, uint64_t ns);
CUresult launch_fill(CUstream s, CUdeviceptr p, uint32_t v);
CUresult launch_copy(CUstream s, CUdeviceptr dst, CUdeviceptr src);
/* x = x * a + b */
CUresult launch_mix(CUstream s, CUdeviceptr p, uint32_t a, uint32_t b);

/* What a node that does so is made from; the struct lives as long as the parameters. */
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

/* Closed when queued; the stream stays behind it until gate_open. */
struct gate {
    atomic_int open;
};
void gate_queue(struct gate *g, CUstream s);
void gate_open(struct gate *g);

/* Wait for a condition with a generous deadline: 20 s. */
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
