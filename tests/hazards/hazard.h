/*
 * hazard.h - small CUDA programs that do what a library in between gets wrong easily, and print
 * what they see. compare.c runs each of them on the bare driver and under cutin: the outputs and
 * the exit statuses must be equal, because no program may be able to tell.
 *
 * A program is a table of hazards, one per invocation: `hazard_copies NAME`. It prints return codes
 * and results only, no addresses and no times. What cutin alone can do (hold a stream) is done by
 * helpers that do nothing on the bare driver.
 */
#ifndef TESTS_HAZARD_H
#define TESTS_HAZARD_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

struct hazard {
    const char *name;
    void (*run)(void);
    bool raw; /* the hazard opens the GPU itself, if at all */
    struct hazard *next;
};
void hazard_add(struct hazard *h);

#define HAZARD(name_)     HAZARD_(name_, false)
#define HAZARD_RAW(name_) HAZARD_(name_, true)
#define HAZARD_(name_, raw_)                                                                       \
    static void name_(void);                                                                       \
    static struct hazard name_##_hazard = {.name = #name_, .run = name_, .raw = raw_};             \
    static void __attribute__((constructor)) name_##_add(void)                                     \
    {                                                                                              \
        hazard_add(&name_##_hazard);                                                               \
    }                                                                                              \
    static void name_(void)

/* Prints the answer of a call. */
#define SAY(call) say_answer(#call, call)
/* A call that has to succeed for the rest to make sense. */
#define MUST(call) must(#call, call)
CUresult say_answer(const char *what, CUresult r);
void must(const char *what, CUresult r);
_Noreturn void give_up(const char *why);

/* ---- a GPU --------------------------------------------------------------------------------- */

enum { N = 1024, BYTES = N * 4 };
extern CUdevice device;
extern CUcontext context; /* the primary one */
extern CUmodule module;
extern CUfunction mix, fill, spin, mix_spin;

void gpu_open(void); /* a context, current, and the kernels of examples/kernels.ptx */
CUcontext context_new(void);
char *kernels_text(void);
CUstream stream_new(unsigned int flags);
CUevent event_new(void);
CUdeviceptr buffer_new(uint32_t value); /* N words */
uint32_t *pinned_new(uint32_t value);   /* N words */

/* x = x * a + b over a buffer; the caller's arguments are overwritten when it returns. */
CUresult launch_mix(CUdeviceptr x, uint32_t a, uint32_t b, CUstream s);
/* The same as a node of a graph; what is returned lasts as long as `m`. */
struct mix_node {
    CUdeviceptr x;
    uint32_t a, b, n;
    void *params[4];
    CUDA_KERNEL_NODE_PARAMS node;
};
const CUDA_KERNEL_NODE_PARAMS *mix_node(struct mix_node *m, CUdeviceptr x, uint32_t a, uint32_t b);
/* The same, and busy for `us` after it. */
CUresult launch_slow(CUdeviceptr x, uint32_t a, uint32_t b, uint32_t us, CUstream s);
/* Launch each once in `s`, so that the next launch may be deferred. */
void warm(CUstream s);
/* Prints a buffer as a checksum, after a synchronous copy on the legacy stream. */
void show(const char *what, CUdeviceptr x);
void show_host(const char *what, const uint32_t *x);
/* Waits for a condition, 20 s at most: asked once each time, as what came may go again. */
#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        int until_tries = 0;                                                                       \
        bool until_came;                                                                           \
        while (!(until_came = (condition)) && until_tries++ < 20000)                               \
            nap();                                                                                 \
        if (!until_came)                                                                           \
            give_up(#condition " did not come true");                                              \
    } while (0)
void nap(void); /* 1 ms */
/* A host function, behind which its stream stands until `told`. */
void until_told(void *unused);
extern _Atomic bool told;

/* ---- cutin, where there is one --------------------------------------------------------------- */

/* Hold a stream until release(), or until a helper thread thinks that the caller waits for it: a
 * call that cannot be buffered must not wait for ever. Several may be held. */
void hold(CUstream s);
void release(CUstream s);
bool held(CUstream s); /* by hold(), and that is not over */
/* Fails the program if the stream was held and nothing of it is buffered: the test tests nothing
 * then. */
void buffered(CUstream s);
/* Fails the program if the stream was held and that is over by now: a call has waited for it. */
void still_held(CUstream s);
/* Milliseconds of patience of holds from now on; standard is 25. */
extern unsigned int hold_ms;
/* The same for what needs no patience to end; under a profiler, where the launches themselves wait
 * for the hold, it is a few milliseconds. */
void hold_for(unsigned int ms);
/* For whoever would submit what is not to go yet: some milliseconds, and a second for a deliberate
 * bug, which is to be found on a busy machine, too. */
void time_to_go(void);

/* Runs fn(arg) in another thread with `context` current. */
struct thread;
struct thread *thread_start(void (*fn)(void *), void *arg);
void thread_join(struct thread *t);
/* It is in a call that waits, and for no lock. */
void thread_waits(const struct thread *t);
/* Likewise the thread that the kernel knows by `id`. Returns where it is. */
struct place {
    unsigned long stack, instruction;
};
struct place id_waits(pid_t id);
/* The same, and what cutin does after 100 ms without progress is done. */
struct place id_waits_long(pid_t id);
/* Fails the program if it does not end within two minutes, or HAZARD_HANG_S=N seconds. */
void hang_watch(const char *why);

#endif
