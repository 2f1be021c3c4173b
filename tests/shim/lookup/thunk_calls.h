/*
 * thunk_calls.h - what thunk tests call: driver functions with arguments that fill all registers.
 */
#ifndef CUTIN_TESTS_THUNK_CALLS_H
#define CUTIN_TESTS_THUNK_CALLS_H

struct many {
    long integers; /* returned in an integer register; the other one in a vector register */
    double doubles;
};
struct large {
    long word[8]; /* returned in memory, whose address is passed in a register of its own */
};

#define MANY_PARAMETERS                                                                            \
    long i1, double d1, long i2, double d2, long i3, double d3, long i4, double d4, long i5,       \
        double d5, long i6, double d6, long i7, double d7, long i8, double d8, long i9, double d9, \
        long i10, double d10, long i11, long i12

struct many cuParamSetv(MANY_PARAMETERS); /* API_DRAIN */
struct many cuFakeMany(MANY_PARAMETERS);  /* in no table */
extern int cuFakeData;                    /* not a function */
double cuParamSetf(double a, long b);     /* API_DRAIN */
struct large cuMemcpy(long seed);         /* API_WRAP: the weak thunk */

#endif
