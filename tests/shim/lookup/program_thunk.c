/*
 * program_thunk.c - linked with the driver; calls functions that have no wrapper. Prints the
 * results. With the probe preloaded it also prints how many drains there were and of what scope,
 * and whether the stack could be unwound through the thunk.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/shim/lookup/thunk_calls.h"

int cuCtxSetCacheConfig(void);
int cuMulticastUnbind(void);
int cuMemsetD8(void);

#define WEAK __attribute__((weak))
extern WEAK int cutin_test_drains, cutin_test_scope, cutin_test_depth;
extern WEAK void *cutin_test_stack[64];

static int stack_reaches(const void *function)
{
    for (int i = 0; i < cutin_test_depth; i++) {
        Dl_info info;
        if (dladdr(cutin_test_stack[i], &info) && info.dli_saddr == function)
            return 1;
    }
    return 0;
}

static void drained(const char *what)
{
    if (&cutin_test_drains)
        fprintf(stderr, "%s: drains %d scope %d\n", what, cutin_test_drains, cutin_test_scope);
}

__attribute__((visibility("default"))) int main(void)
{
    struct many m = cuParamSetv(1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9,
                                9.5, 10, 10.5, 11, 12);
    printf("many %ld %g\n", m.integers, m.doubles);
    drained("many");
    errno = EDOM;
    printf("double %g errno %d\n", cuParamSetf(1.25, 40), errno);
    drained("double");
    struct large l = cuMemcpy(100);
    printf("large %ld %ld\n", l.word[0], l.word[7]);
    drained("large");
    printf("context %d\n", cuCtxSetCacheConfig());
    drained("context");
    printf("all %d\n", cuMulticastUnbind());
    drained("all");
    printf("legacy %d\n", cuMemsetD8());
    drained("legacy");
    if (&cutin_test_drains)
        fprintf(stderr, "unwound to main: %d\n", stack_reaches((const void *)main));
    return 0;
}
