/*
 * draw.h - numbers and objects from which right and wrong arguments of calls are drawn, and a list
 * of the calls (arguments.c). Every version of every function is declared, including those of newer
 * headers.
 */
#ifndef TESTS_HAZARDS_DRAW_H
#define TESTS_HAZARDS_DRAW_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "shim/lookup/newer.h"
#include "tests/hazards/hazard.h"

/* ---- calls ---------------------------------------------------------------------------------- */

struct drawn_call {
    const char *name;
    CUresult (*call)(void);
    struct drawn_call *next;
};
void drawn_call_add(struct drawn_call *d);

/* A function of the driver with drawn arguments; the body returns the result. */
#define DRAWN(sym)                                                                                 \
    static CUresult sym##_drawn(void);                                                             \
    static struct drawn_call sym##_row = {.name = #sym, .call = sym##_drawn};                      \
    static void __attribute__((constructor)) sym##_add(void)                                       \
    {                                                                                              \
        drawn_call_add(&sym##_row);                                                                \
    }                                                                                              \
    static CUresult sym##_drawn(void)
/* Calls the function by either of its names. */
#define CALL(sym, ...) (draw(4) ? sym(__VA_ARGS__) : sym##_ptsz(__VA_ARGS__))
#define DRAWN_CALL(sym, ...)                                                                       \
    DRAWN(sym)                                                                                     \
    {                                                                                              \
        return CALL(sym, __VA_ARGS__);                                                             \
    }

/* Functions that newer.h declares have a second name, too. */
#define ALSO(sym) extern __typeof__(sym) sym##_ptsz;
ALSO(cuMemPrefetchAsync_v2)
ALSO(cuMemcpyBatchAsync)
ALSO(cuMemcpyBatchAsync_v2)
ALSO(cuMemcpy3DBatchAsync)
ALSO(cuMemcpy3DBatchAsync_v2)
ALSO(cuMemcpyWithAttributesAsync)
ALSO(cuMemcpy3DWithAttributesAsync)
ALSO(cuMemPrefetchBatchAsync)
ALSO(cuMemDiscardBatchAsync)
ALSO(cuMemDiscardAndPrefetchBatchAsync)
ALSO(cuLaunchHostFunc_v2)

/* ---- numbers -------------------------------------------------------------------------------- */

void draw_seed(uint64_t seed);
uint32_t draw(uint32_t below);
/* Decides whether the next call is right. In a wrong one some arguments are right. */
void draw_mood(void);
bool odd(void);

#define PICK(array) (array)[draw(sizeof(array) / sizeof(*(array)))]
/* One of the right values, or one of the wrong ones. */
#define EITHER(yes, no) (odd() ? PICK(no) : PICK(yes))

/* ---- objects -------------------------------------------------------------------------------- */

enum { ROOM = 1 << 20 };

extern CUstream stream; /* the stream of this round */
extern CUdeviceptr x, y, managed, pooled, nowhere, words;
extern uint32_t *pinned, *pages;
extern CUevent event, others_event;
extern CUcontext other;
extern CUfunction others; /* a function of the other context */
extern CUkernel kernel;   /* mix, from a library */
extern CUarray flat, row; /* two-dimensional, one-dimensional */
extern CUmemoryPool pool;

void objects_new(void);

CUdeviceptr address(void);
bool is_pinned(CUdeviceptr at);
/* There are ROOM bytes, because natively the driver touches them whatever the length is. */
void *host(void);
size_t host_length(void);
size_t length(void);
size_t pitch(void);
unsigned flag(void);
CUcontext any_context(void);
CUevent any_event(void);
CUarray any_array(void), any_row(void);
CUmemLocation place(void);
void nothing(void *unused);

#endif
