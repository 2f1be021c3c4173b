/*
 * library_sibling.c - another preload, built with -O0 so that no call becomes a jump. It wraps a
 * libc function and a driver function, and finds what it wraps by RTLD_NEXT. With SIBLING_DLSYM it
 * also interposes dlsym, in C, so the loader takes it for the caller of every lookup.
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/shim/lookup/lookup_say.h"

VISIBLE int getpagesize(void)
{
    static int (*next)(void);

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "getpagesize");
    return next() + 1;
}

static long launch(void)
{
    long (*next)(void);

    *(void **)&next = dlsym(RTLD_NEXT, "cuLaunchKernel");
    lookup_say("next from sibling", "cuLaunchKernel", (void *)next);
    return next ? 0 : -1;
}

VISIBLE long cuLaunchKernel(void);
long cuLaunchKernel(void)
{
    return launch();
}

VISIBLE void sibling_next(const char *name);
void sibling_next(const char *name)
{
    lookup_say("next from sibling", name, dlsym(RTLD_NEXT, name));
}

VISIBLE void sibling_call(const char *text);
void sibling_call(const char *text)
{
    (void)text;
    launch(); /* not through the export: another preload may be in front of that */
}

#ifdef SIBLING_DLSYM
static int depth, calls;

VISIBLE void *dlsym(void *restrict handle, const char *restrict name)
{
    static void *(*real)(void *, const char *);
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *volatile found; /* this prevents a tail call, whatever the compiler's options */

    for (int i = 0; !real && i < 3; i++)
        *(void **)&real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (++depth > 10) { /* the recursion that this test is about */
        static const char text[] = "endless recursion\n";
        ssize_t n = write(1, text, sizeof(text) - 1);
        (void)n;
        _exit(9);
    }
    calls++;
    found = real(handle, name);
    depth--;
    return found;
}

__attribute__((destructor)) static void count(void)
{
    printf("sibling saw lookups: %s\n", calls ? "yes" : "no");
}
#endif
