/*
 * hazard.h - small CUDA programs that do what a library in between easily gets wrong, and print
 * what they see. compare.c runs each of them on the bare driver and under cutin: the outputs and
 * the exit statuses must be equal, because no program may be able to tell the difference.
 *
 * A program is a table of hazards, and runs one of them: `hazard_copies NAME`. It prints return
 * codes and results only, no addresses and no times. What only cutin can do (hold a stream) is done
 * by helpers that do nothing on the bare driver.
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
    bool raw; /* the hazard opens the GPU itself, if it needs it */
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

/* Prints the result of a call. */
#define SAY(call) say_answer(#call, call)
/* For a call that must succeed for the rest to make sense. */
#define MUST(call) must(#call, call)
CUresult say_answer(const char *what, CUresult r);
void must(const char *what, CUresult r);
_Noreturn void give_up(const char *why);

/* ---- a GPU --------------------------------------------------------------------------------- */

enum { N = 1024, BYTES = N * 4 };
extern CUdevice device;
extern CUcontext context; /* the primary context */
extern CUmodule module;
extern CUfunction mix, fill, spin, mix_spin;

void gpu_open(void); /* makes a context current, and loads the kernels of examples/kernels.ptx */
CUcontext context_new(void);
char *kernels_text(void);
CUstream stream_new(unsigned int flags);
CUevent event_new(void);
CUdeviceptr buffer_new(uint32_t value); /* N words */
uint32_t *pinned_new(uint32_t value);   /* N words */

/* x = x * a + b over a buffer. Overwrites the arguments that it passed before it returns. */
CUresult launch_mix(CUdeviceptr x, uint32_t a, uint32_t b, CUstream s);
/* The same as a node of a graph; the result is valid as long as `m`. */
struct mix_node {
    CUdeviceptr x;
    uint32_t a, b, n;
    void *params[4];
    CUDA_KERNEL_NODE_PARAMS node;
};
const CUDA_KERNEL_NODE_PARAMS *mix_node(struct mix_node *m, CUdeviceptr x, uint32_t a, uint32_t b);
/* Like launch_mix, and busy for `us` after it. */
CUresult launch_slow(CUdeviceptr x, uint32_t a, uint32_t b, uint32_t us, CUstream s);
/* Launches each of the two once in `s`, so that the next launch may be deferred. */
void warm(CUstream s);
/* Prints a buffer as a checksum, after a synchronous copy on the legacy stream. */
void show(const char *what, CUdeviceptr x);
void show_host(const char *what, const uint32_t *x);
/* Waits for a condition, 20 s at most. Asks once each time, since what came true may end again. */
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
/* A host function that keeps its stream waiting until `told`. */
void until_told(void *unused);
extern _Atomic bool told;

/* ---- cutin, where there is one --------------------------------------------------------------- */

/* Holds a stream until release(), or until a helper thread assumes that the caller waits for it: a
 * call that cannot be buffered must not wait for ever. Several streams may be held. */
void hold(CUstream s);
void release(CUstream s);
bool held(CUstream s); /* hold() was called, and the hold has not ended */
/* Fails the program if the stream is held and nothing of it is buffered: the test would test
 * nothing. */
void buffered(CUstream s);
/* Fails the program if the stream's hold has ended by now: a call has waited for it. */
void still_held(CUstream s);
/* The patience in milliseconds of holds from now on; 25 by default. */
extern unsigned int hold_ms;
/* Sets hold_ms for programs that end their hold themselves. Under a profiler, where launches wait
 * for the hold, sets a few milliseconds. */
void hold_for(unsigned int ms);
/* Gives the library time to submit what must not go yet: some milliseconds. With a deliberate bug a
 * second, so that it is found on a busy machine, too. */
void time_to_go(void);

/* Runs fn(arg) in another thread with `context` current. */
struct thread;
struct thread *thread_start(void (*fn)(void *), void *arg);
void thread_join(struct thread *t);
/* Waits until the thread is in a call that waits, and not for a lock. */
void thread_waits(const struct thread *t);
/* The same for the thread with the kernel's id `id`. Returns where it is. */
struct place {
    unsigned long stack, instruction;
};
struct place id_waits(pid_t id);
/* The same, and cutin has done what it does after 100 ms without progress. */
struct place id_waits_long(pid_t id);
/* Fails the program if it does not end within two minutes, or within HAZARD_HANG_S seconds. */
void hang_watch(const char *why);

#endif
