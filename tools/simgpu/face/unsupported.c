/*
 * unsupported.c - every symbol of the driver exists. Those that no other file defines answer
 * CUDA_ERROR_NOT_SUPPORTED. They are weak definitions from the shared API table, so a definition
 * elsewhere wins.
 *
 * This does not include cuda.h, whose prototypes differ. A function that ignores its arguments can
 * be called with any.
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
