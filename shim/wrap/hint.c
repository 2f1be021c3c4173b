/*
 * hint.c - hints of the program: levels of threads and streams, work that will come, sections.
 *
 * To the scheduler a section is work like any other, from cutin_section_begin to cutin_section_end.
 */
#define CUTIN_LIBRARY
#include "shim/cutin.h"

#include <errno.h>
#include <pthread.h>

#include "scheduler/client/client.h"
#include "shim/objects/level.h"
#include "shim/path/call.h"

/* The section that this thread is in. */
static _Thread_local struct {
    unsigned depth;
    int device;
    uint32_t level;
} section __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_failed;

/* ---- levels --------------------------------------------------------------------------------- */

static CUresult level_allowed(int level)
{
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    if (config_get()->stream_priority == STREAM_PRIORITY_FLAT)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (level >= CUTIN_LEVELS)
        return CUDA_ERROR_INVALID_VALUE;
    /* Before the first context the daemon has not been asked which level it grants. */
    bool asked = atomic_load_explicit(&context_count, memory_order_relaxed);
    uint32_t most = asked ? level_highest() : config_get()->level;
    return level > (int)most ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

EXPORT CUresult cutin_thread_set_level(int level)
{
    CUresult r = level < CUTIN_LEVEL_OF_PROCESS ? CUDA_ERROR_INVALID_VALUE : level_allowed(level);
    if (r == CUDA_SUCCESS)
        thread_level_wanted = level;
    return r;
}

EXPORT CUresult cutin_stream_set_level(CUstream stream, unsigned int level)
{
    CUresult r = level_allowed(level < CUTIN_LEVELS ? (int)level : CUTIN_LEVELS);
    if (r != CUDA_SUCCESS)
        return r;
    struct shim_stream *s = call_stream(&stream, false);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream_is_default(stream))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (capture_active(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->level == level)
        return CUDA_SUCCESS;
    if (s->q)
        vhq_release(s->q);
    r = cuStreamSynchronize(stream);
    if (r == CUDA_SUCCESS) {
        /* To the shim, the stream goes and another one with the same handle comes. */
        CUstream handle = s->handle;
        struct shim_context *ctx = s->ctx;
        int keep = thread_level_wanted;
        context_get(ctx);
        bool captures = capture_active(s);
        stream_leave(s);
        if (s->q)
            vhq_release(s->q);
        stream_end(s, !captures);
        thread_level_wanted = (int)level;
        stream_created(handle);
        thread_level_wanted = keep;
        context_put(ctx);
    }
    return r;
}

/* ---- what will come -------------------------------------------------------------------------- */

/* The device of the current context, and the level of this thread's work there. */
static CUresult where(int *device, uint32_t *level)
{
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    const struct shim_context *ctx = context_current();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = ctx->gpu->index;
    *level = level_highest();
    if (thread_level_wanted >= 0 && (uint32_t)thread_level_wanted < *level)
        *level = (uint32_t)thread_level_wanted;
    return *device < 0 || *level == CUTIN_LEVEL_BE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

EXPORT CUresult cutin_hint_soon(unsigned int us)
{
    int device, keep = errno;
    uint32_t level;
    CUresult r = where(&device, &level);
    if (r == CUDA_SUCCESS)
        client_announce(device, level, us);
    errno = keep;
    return r;
}

EXPORT CUresult cutin_hint_deadline(unsigned int us)
{
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    client_hint_deadline(us);
    return CUDA_SUCCESS;
}

/* ---- sections -------------------------------------------------------------------------------- */

static void thread_ended(void *unused)
{
    if (section.depth && !thread_bypasses())
        client_work_end(section.device, section.level);
    section.depth = 0;
}

static void make_key(void)
{
    key_failed = pthread_key_create(&key, thread_ended);
}

EXPORT CUresult cutin_section_begin(void)
{
    int keep = errno;
    CUresult r = CUDA_SUCCESS;
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    if (section.depth == 0) {
        pthread_once(&once, make_key);
        r = where(&section.device, &section.level);
        if (r == CUDA_SUCCESS && (key_failed || pthread_setspecific(key, &section) != 0))
            r = CUDA_ERROR_OUT_OF_MEMORY;
        if (r == CUDA_SUCCESS)
            client_work_begin(section.device, section.level);
    }
    section.depth += r == CUDA_SUCCESS;
    errno = keep;
    return r;
}

EXPORT CUresult cutin_section_end(void)
{
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    if (section.depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (--section.depth == 0)
        client_work_end(section.device, section.level);
    return CUDA_SUCCESS;
}
