/*
 * each.h - the arguments of a driver function as a list of (type, name). From it come the
 * parameters, the values, the fields of a struct, and a wrapper.
 */
#ifndef CUTIN_SHIM_LOOKUP_EACH_H
#define CUTIN_SHIM_LOOKUP_EACH_H

#define EACH_1(f, a)                                       f a
#define EACH_2(f, a, ...)                                  f a EACH_1(f, __VA_ARGS__)
#define EACH_3(f, a, ...)                                  f a EACH_2(f, __VA_ARGS__)
#define EACH_4(f, a, ...)                                  f a EACH_3(f, __VA_ARGS__)
#define EACH_5(f, a, ...)                                  f a EACH_4(f, __VA_ARGS__)
#define EACH_6(f, a, ...)                                  f a EACH_5(f, __VA_ARGS__)
#define EACH_7(f, a, ...)                                  f a EACH_6(f, __VA_ARGS__)
#define EACH_8(f, a, ...)                                  f a EACH_7(f, __VA_ARGS__)
#define EACH_9(f, a, ...)                                  f a EACH_8(f, __VA_ARGS__)
#define EACH_10(f, a, ...)                                 f a EACH_9(f, __VA_ARGS__)
#define EACH_11(f, a, ...)                                 f a EACH_10(f, __VA_ARGS__)
#define EACH_PICK(a, b, c, d, e, g, h, i, j, k, l, n, ...) EACH_##n
#define EACH(f, ...) EACH_PICK(__VA_ARGS__, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)(f, __VA_ARGS__)
#define OP_FIELD(type, name)  type name;
#define OP_PARAM_(type, name) , type name
#define OP_VALUE_(type, name) , name
#define OP_INIT(type, name)   .name = name,
#define OP_USE(type, name)    a->name,
#define OP_USE_(type, name)   , a->name

/* `, x, y` -> `x, y` */
#define OP_COMMAS(...)           OP_COMMAS_(__VA_ARGS__)
#define OP_COMMAS_(nothing, ...) __VA_ARGS__
#define EACH_PARAM(...)          OP_COMMAS(EACH(OP_PARAM_, __VA_ARGS__))
#define EACH_VALUE(...)          OP_COMMAS(EACH(OP_VALUE_, __VA_ARGS__))

/* A wrapper that does something before the call, and something with the driver's answer `r`. */
#define WRAPPED(sym, before, after, ...)                                                           \
    EXPORT CUresult sym(EACH_PARAM(__VA_ARGS__))                                                   \
    {                                                                                              \
        before;                                                                                    \
        CUresult r = REAL(sym)(EACH_VALUE(__VA_ARGS__));                                           \
        after;                                                                                     \
        return r;                                                                                  \
    }

/* The same, with a note that is made if the driver succeeded and the shim does not pass through. */
#define NOTED(sym, note, ...)                                                                      \
    WRAPPED(sym, , if (r == CUDA_SUCCESS && !thread_bypasses()) note, __VA_ARGS__)

/* Defines both variants of a function with the body that follows. `ptds`: the call is of the
 * variant whose default stream is the thread's own. */
#define BOTH(sym, ...) BOTH_WITH(sym, _ptsz, __VA_ARGS__)
#define BOTH_WITH(sym, suffix, ...)                                                                \
    static CUresult sym##_call(bool ptds EACH(OP_PARAM_, __VA_ARGS__));                            \
    EXPORT CUresult sym(EACH_PARAM(__VA_ARGS__))                                                   \
    {                                                                                              \
        return sym##_call(false EACH(OP_VALUE_, __VA_ARGS__));                                     \
    }                                                                                              \
    EXPORT CUresult sym##suffix(EACH_PARAM(__VA_ARGS__))                                           \
    {                                                                                              \
        return sym##_call(true EACH(OP_VALUE_, __VA_ARGS__));                                      \
    }                                                                                              \
    static CUresult sym##_call(bool ptds EACH(OP_PARAM_, __VA_ARGS__))

#endif
