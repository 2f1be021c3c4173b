/*
 * program_unknown.c - looks up and calls driver functions that no table has. Prints what came back;
 * with the probe in front also, to stderr, how often and for what was drained.
 *
 *   calls     one function, found in three ways, and a variable
 *   many N    N functions
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim/lookup/thunk_calls.h"

#define WEAK __attribute__((weak))
extern WEAK int cutin_test_drains, cutin_test_scope;

static void *driver;
static int (*get4)(const char *, void **, int, uint64_t);
static int (*get5)(const char *, void **, int, uint64_t, int *);

static void drained(const char *what)
{
    if (&cutin_test_drains)
        fprintf(stderr, "%s: drains %d scope %d\n", what, cutin_test_drains, cutin_test_scope);
}

static void *by_get4(const char *name)
{
    void *found = NULL;
    return get4(name, &found, 11080, 0) == 0 ? found : NULL;
}

static void *by_get5(const char *name)
{
    void *found = NULL;
    int status = -1;
    return get5(name, &found, 12000, 0, &status) == 0 && status == 0 ? found : NULL;
}

static void call_many(const char *how, void *found)
{
    struct many (*many)(MANY_PARAMETERS);

    *(void **)&many = found;
    struct many m = many(1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, 10,
                         10.5, 11, 12);
    printf("%s: %ld %g\n", how, m.integers, m.doubles);
    drained(how);
}

static void calls(void)
{
    const char *name = "cuFakeMany";
    void *found = dlsym(driver, name);

    call_many("dlsym", found);
    call_many("four", by_get4(name));
    call_many("five", by_get5(name));
    printf("no version %d\n", !!dlvsym(driver, name, "NO_SUCH_VERSION"));
    printf("same %d %d %d\n", found == dlsym(driver, name), found == by_get4(name),
           found == by_get5(name));
    int *data = dlsym(driver, "cuFakeData"), *again = by_get5("cuFakeData");
    printf("data %d %d\n", *data, *again);
}

static void many(int count)
{
    long sum = 0;

    for (int i = 0; i < count; i++) {
        char name[32];
        long (*function)(void);
        snprintf(name, sizeof(name), "cuFakeNumber%d", i);
        *(void **)&function = by_get5(name);
        sum += function();
    }
    printf("sum %ld\n", sum);
    drained("many");
}

int main(int argc, char **argv)
{
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || argc < 2)
        return 1;
    *(void **)&get4 = dlsym(driver, "cuGetProcAddress");
    *(void **)&get5 = dlsym(driver, "cuGetProcAddress_v2");
    if (argc > 2)
        many(atoi(argv[2]));
    else
        calls();
    return 0;
}
