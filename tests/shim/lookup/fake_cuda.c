/*
 * fake_cuda.c - a libcuda.so.1 for lookup tests: exports every symbol of api.def, each a function
 * that returns its row number, and answers cuGetProcAddress by the same table.
 *
 *   FAKE_INTERNAL=1  cuGetProcAddress hands out functions that are not the exported ones
 *   FAKE_NEWER=1     from 13.1 on, cuLaunchKernel is a function that cutin cannot know
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum row {
#define API_PASS(symbol, ...) ROW_##symbol,
#define API_DRAIN             API_PASS
#define API_WRAP              API_PASS
#include "shim/lookup/api.def"
};

/* Weak, because some have a body of their own below. */
#define API_DRAIN API_PASS
#define API_WRAP  API_PASS
#define API_PASS(symbol, ...)                                                                      \
    __attribute__((weak, visibility("default"))) long symbol(void);                                \
    long symbol(void)                                                                              \
    {                                                                                              \
        return ROW_##symbol;                                                                       \
    }                                                                                              \
    static long internal_##symbol(void)                                                            \
    {                                                                                              \
        return ROW_##symbol;                                                                       \
    }
#include "shim/lookup/api.def"

static const struct entry {
    const char *name;
    int version, per_thread;
    long (*exported)(void), (*internal)(void);
} entries[] = {
#define API_DRAIN API_PASS
#define API_WRAP  API_PASS
#define API_PASS(symbol, function, name, version, per_thread, ...)                                 \
    {#name, version, per_thread, symbol, internal_##symbol},
#include "shim/lookup/api.def"
};

/* Functions that no table has, such as "cuFakeNumber7", as many as are asked for. */
static long (*numbered(const char *name))(void)
{
    static const char start[] = "cuFakeNumber";

    if (strncmp(name, start, sizeof(start) - 1) != 0)
        return NULL;
    unsigned long number = strtoul(name + sizeof(start) - 1, NULL, 10);
    return number < sizeof(entries) / sizeof(*entries) ? entries[number].internal : NULL;
}

static long newer_launch(void)
{
    return -1;
}

static const struct entry *choose(const char *name, int version, uint64_t flags)
{
    const struct entry *best = NULL;
    int per_thread = (flags & 2) != 0;

    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        const struct entry *e = &entries[i];
        if (strcmp(e->name, name) != 0 || e->version > version || e->per_thread > per_thread)
            continue;
        if (!best || e->per_thread > best->per_thread || e->version >= best->version)
            best = e;
    }
    return best;
}

extern char cuFakeMany[], cuFakeData[]; /* fake_calls.c */

static void *unlisted(const char *name)
{
    if (strcmp(name, "cuFakeMany") == 0)
        return cuFakeMany;
    return strcmp(name, "cuFakeData") == 0 ? cuFakeData : NULL;
}

/* The driver's own answer, under a name that is not intercepted. */
__attribute__((visibility("default"))) int
fake_proc_address(const char *name, void **function, int version, uint64_t flags, int *status);
int fake_proc_address(const char *name, void **function, int version, uint64_t flags, int *status)
{
    const struct entry *e = choose(name, version, flags);

    *function = numbered(name) ? (void *)numbered(name) : unlisted(name);
    if (*function) {
        if (status)
            *status = 0;
        return 0;
    }
    if (status)
        *status = e ? 0 : choose(name, 99999, flags) ? 2 : 1;
    if (!e)
        return 500; /* CUDA_ERROR_NOT_FOUND */
    *function = getenv("FAKE_INTERNAL") ? (void *)e->internal : (void *)e->exported;
    if (getenv("FAKE_NEWER") && strcmp(name, "cuLaunchKernel") == 0 && version > 13050)
        *function = (void *)newer_launch;
    return 0;
}
