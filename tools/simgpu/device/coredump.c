/*
 * coredump.c - the settings of core dumps. They are kept and given back; no dump is ever made.
 */
#include "tools/simgpu/device/context.h"

#include <stdio.h>
#include <unistd.h>

#if CUDA_VERSION >= 12010
enum { TEXT = 1024, FLAGS_ATTRIBUTE = 7 }; /* CU_COREDUMP_GENERATION_FLAGS, 12.5 */

struct settings {
    bool on[CU_COREDUMP_FILE];
    char text[2][TEXT]; /* file, pipe */
    unsigned int flags;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct settings global = {.on[CU_COREDUMP_TRIGGER_HOST] = true}; /* under lock */

/* Where the setting is, and its size; NULL: there is no such setting. Under lock. */
static void *setting(struct settings *s, int which, size_t *bytes)
{
    bool text = which == CU_COREDUMP_FILE || which == CU_COREDUMP_PIPE;
    char host[256] = "";
    *bytes = text ? TEXT : which == FLAGS_ATTRIBUTE ? sizeof(s->flags) : sizeof(bool);
    if (which < CU_COREDUMP_ENABLE_ON_EXCEPTION || which > FLAGS_ATTRIBUTE)
        return NULL;
    if (which == FLAGS_ATTRIBUTE)
        return &s->flags;
    if (!text)
        return &s->on[which];
    char *at = s->text[which - CU_COREDUMP_FILE];
    gethostname(host, sizeof(host) - 1);
    if (!*at)
        snprintf(at, TEXT, "%s.cuda.%s.%d", which == CU_COREDUMP_FILE ? "core" : "corepipe", host,
                 (int)getpid());
    return at;
}

/* "If the caller calls this function with value equal to NULL, the size of the memory region (in
 * bytes) expected for attrib will be placed in size" (cuda.h). */
SIM_EXPORT CUresult cuCoredumpGetAttributeGlobal(CUcoredumpSettings which, void *value,
                                                 size_t *size)
{
    TRY(driver_ready());
    size_t bytes = 0;
    SCOPED_LOCK(&lock);
    const void *at = setting(&global, (int)which, &bytes);
    bool fits = at && size && (!value || *size >= bytes || bytes == TEXT);
    if (fits && value)
        memcpy(value, at, *size < bytes ? *size : bytes);
    else if (fits)
        *size = bytes;
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuCoredumpSetAttributeGlobal(CUcoredumpSettings which, void *value,
                                                 size_t *size)
{
    TRY(driver_ready());
    size_t bytes = 0;
    SCOPED_LOCK(&lock);
    void *at = setting(&global, (int)which, &bytes);
    bool text = bytes == TEXT;
    bool fits = at && value && size && (text ? *size < TEXT : *size >= bytes);
    if (fits && text)
        snprintf(at, TEXT, "%.*s", (int)*size, (const char *)value);
    else if (fits)
        memcpy(at, value, bytes);
    return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A context has the global settings unless it was given its own, which is NOT_SUPPORTED here. */
SIM_EXPORT CUresult cuCoredumpGetAttribute(CUcoredumpSettings which, void *value, size_t *size)
{
    TRY(context_current_ok(NULL));
    return cuCoredumpGetAttributeGlobal(which, value, size);
}
#endif
