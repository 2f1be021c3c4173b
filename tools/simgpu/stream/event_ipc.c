/*
 * event_ipc.c - events between processes. The meaning of such an event is one word of a file that
 * all the processes map: the point of its last record, in a stream of the devices that they share.
 * A wait reads the word when the call is made, and then follows that stream.
 */
#include "tools/simgpu/device/context.h"
#include "tools/simgpu/stream/event.h"
#include "tools/simgpu/device/ipc.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORDS = 1 << 16, PAGE = 4096, WORDS_PER_PAGE = PAGE / sizeof(uint64_t) };

/* The bytes of a CUipcEventHandle. */
struct event_handle {
    struct ipc_file file;
    uint32_t word;
};
static_assert(sizeof(struct event_handle) <= sizeof(CUipcEventHandle), "a handle has 64 bytes");

/* The words of this process's own events. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ipc_file file;
static _Atomic uint64_t *words; /* NULL before the first such event */
static uint32_t used, unused[WORDS], unused_count;

/* ---- words ----------------------------------------------------------------------------------- */

/* Makes the file of words. Under lock. */
static bool words_make(void)
{
    if (words)
        return true;
    if (ipc_file_make(&file, WORDS * sizeof(*words)) != 0)
        return false;
    void *p = mmap(NULL, WORDS * sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
    if (p == MAP_FAILED)
        close(file.fd);
    else
        words = p;
    return p != MAP_FAILED;
}

bool event_share(struct sim_event *e)
{
    SCOPED_LOCK(&lock);
    bool room = words_make() && (unused_count || used < WORDS);
    if (room)
        e->shared = &words[unused_count ? unused[--unused_count] : used++];
    return room;
}

void event_unshare(struct sim_event *e)
{
    if (!e->shared)
        return;
    if (e->imported) {
        munmap((void *)((uintptr_t)e->shared & ~(uintptr_t)(PAGE - 1)), PAGE);
    } else {
        atomic_store(e->shared, 0); /* no wait needs the meaning of an event that is gone */
        pthread_mutex_lock(&lock);
        unused[unused_count++] = (uint32_t)(e->shared - words);
        pthread_mutex_unlock(&lock);
    }
    e->shared = NULL;
}

static uint64_t point_word(struct point at)
{
    return (uint64_t)at.stream << 32 | (uint32_t)at.seq;
}

/* Gives the whole sequence number if the last record was this process's. */
struct point event_shared_point(const struct sim_event *e)
{
    uint64_t word = atomic_load(e->shared);
    return word == point_word(e->at) ? e->at
                                     : (struct point){(uint32_t)(word >> 32), (uint32_t)word};
}

void event_shared_store(struct sim_event *e, struct point at)
{
    atomic_store(e->shared, point_word(at));
}

/* ---- API ------------------------------------------------------------------------------------- */

/* An event that was imported cannot be exported. */
SIM_EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent handle)
{
    TRY(driver_ready());
    struct sim_event *e = event_find(handle);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || e->imported)
        return CUDA_ERROR_INVALID_VALUE;
    if (!e->shared) /* hip-tests expect the same of CUDA (Unit_hipIpcEventHandle) */
        return CUDA_ERROR_INVALID_HANDLE;
    struct event_handle h = {.file = file, .word = (uint32_t)(e->shared - words)};
    if (!ipc_file_there(&h.file))
        return CUDA_ERROR_OPERATING_SYSTEM;
    memset(out, 0, sizeof(*out));
    memcpy(out, &h, sizeof(h));
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    struct event_handle h;
    memcpy(&h, &handle, sizeof(h));
    int fd = h.word < WORDS ? ipc_file_open(&h.file) : -ENOENT;
    if (fd < 0)
        return fd == -EEXIST ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    off_t at = (off_t)(h.word / WORDS_PER_PAGE) * PAGE;
    _Atomic uint64_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    close(fd);
    if (page == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_event *e = event_make(ctx, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (!e) {
        munmap(page, PAGE);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->shared = page + h.word % WORDS_PER_PAGE;
    e->imported = true;
    handle_publish(e);
    *out = (CUevent)(void *)e;
    return CUDA_SUCCESS;
}
