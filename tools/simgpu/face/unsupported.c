/*
 * unsupported.c - every symbol of the driver exists here. What no other file defines answers
 * CUDA_ERROR_NOT_SUPPORTED: weak definitions from the shared API table, so a real one elsewhere
 * wins.
 *
 * cuda.h is not included on purpose: the prototypes differ, and a function that ignores its
 * arguments can be called with any.
 */
enum { NOT_SUPPORTED = 801 /* CUDA_ERROR_NOT_SUPPORTED */ };

#define UNSUPPORTED(symbol)                                                                        \
    int symbol(void);                                                                              \
    __attribute__((weak, visibility("default"))) int symbol(void)                                  \
    {                                                                                              \
        return NOT_SUPPORTED;                                                                      \
    }
#define API_PASS(symbol, ...)  UNSUPPORTED(symbol)
#define API_DRAIN(symbol, ...) UNSUPPORTED(symbol)
#define API_WRAP(symbol, ...)  UNSUPPORTED(symbol)
#include "shim/lookup/api.def"
