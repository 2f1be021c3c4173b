/*
 * fake_calls.c - the fake driver's functions that have bodies of their own.
 *
 * The argument lists are not CUDA's, because a thunk must not depend on them. cuParamSetv takes
 * more integers and more doubles than there are registers.
 */
#include <stdint.h>

#include "tests/shim/lookup/thunk_calls.h"

#define EXPORTED __attribute__((visibility("default")))

int fake_proc_address(const char *name, void **function, int version, uint64_t flags, int *status);

EXPORTED int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);
int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    int result = fake_proc_address(name, function, version, flags, 0);

    return result == 500 ? 0 : result; /* the old function answers success, and stores NULL */
}

EXPORTED int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                 int *status);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
    return fake_proc_address(name, function, version, flags, status);
}

EXPORTED struct many cuParamSetv(MANY_PARAMETERS)
{
    struct many sum = {0, 0};

    sum.integers = i1 + 2 * i2 + 3 * i3 + 4 * i4 + 5 * i5 + 6 * i6 + 7 * i7 + 8 * i8 + 9 * i9 +
                   10 * i10 + 11 * i11 + 12 * i12;
    sum.doubles =
        d1 + 2 * d2 + 3 * d3 + 4 * d4 + 5 * d5 + 6 * d6 + 7 * d7 + 8 * d8 + 9 * d9 + 10 * d10;
    return sum;
}

/* No table has this one. */
EXPORTED struct many cuFakeMany(MANY_PARAMETERS)
{
    return cuParamSetv(i1, d1, i2, d2, i3, d3, i4, d4, i5, d5, i6, d6, i7, d7, i8, d8, i9, d9, i10,
                       d10, i11, i12);
}

EXPORTED int cuFakeData = 17;

EXPORTED double cuParamSetf(double a, long b)
{
    return a * 2 + (double)b;
}

EXPORTED struct large cuMemcpy(long seed)
{
    struct large l;

    for (int i = 0; i < 8; i++)
        l.word[i] = seed + i;
    return l;
}
