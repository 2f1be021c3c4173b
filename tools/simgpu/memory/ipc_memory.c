/*
 * ipc_memory.c - cuIpcGetMemHandle and its kin: an allocation of another process is mapped here.
 * Device memory is one file (space.c), so a handle is a stretch of it. In CUDA it is undefined to
 * free memory that another process has mapped; here its bytes are zero afterwards.
 */
#include "tools/simgpu/device/ipc.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/pool.h"
#include "tools/simgpu/memory/space.h"
#include "tools/simgpu/stream/stream.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

enum { PAGE = 4096 };

/* The bytes of a CUipcMemHandle. */
struct memory_handle {
    struct ipc_file file;
    uint64_t offset, bytes;
    int32_t ordinal;
};
static_assert(sizeof(struct memory_handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

/* A context maps an allocation once, however often it opens it. */
struct import {
    struct memory_handle handle;
    struct sim_context *ctx;
    CUdeviceptr ptr;
    int opened;
    CUmemoryPool pool; /* imported from a pool, to be freed; NULL: by a handle, to be closed */
    struct import *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct import *imports; /* under lock */

/* ---- export ---------------------------------------------------------------------------------- */

static CUresult handle_make(const struct memory *m, void *out)
{
    struct memory_handle h = {.bytes = m->bytes, .ordinal = m->ordinal};
    if (!space_file(m->base, &h.file, &h.offset))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!ipc_file_there(&h.file))
        return CUDA_ERROR_OPERATING_SYSTEM;
    memset(out, 0, sizeof(CUipcMemHandle));
    memcpy(out, &h, sizeof(h));
    return CUDA_SUCCESS;
}

/* `ptr` may be any address inside the allocation. The handle is of the whole allocation. */
SIM_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr ptr)
{
    TRY(context_current_ok(NULL));
    struct memory m;
    if (!out || !memory_find(ptr, &m) || m.kind != MEMORY_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return handle_make(&m, out);
}

SIM_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr ptr)
{
    struct memory m;
    TRY(driver_ready());
    bool exports = out && memory_find_base(ptr, &m) && memory_pool(&m);
    return exports && pool_shared(memory_pool(&m)) ? handle_make(&m, out)
                                                   : CUDA_ERROR_INVALID_VALUE;
}

/* ---- import ---------------------------------------------------------------------------------- */

/* Whole pages are mapped. What comes first on them may be other memory, which is not used here. */
static size_t head_of(const struct memory_handle *h)
{
    return h->offset % PAGE;
}

static size_t mapped_bytes(const struct memory_handle *h)
{
    return head_of(h) + h->bytes;
}

static void import_unmap(const struct import *i)
{
    munmap((void *)(uintptr_t)(i->ptr - head_of(&i->handle)), mapped_bytes(&i->handle));
}

/* Under lock. NULL: no memory. */
static struct import *import_add(const struct memory_handle *h, struct sim_context *ctx,
                                 CUmemoryPool pool, int fd)
{
    struct import *i = calloc(1, sizeof(*i));
    char *p = i ? mmap(NULL, mapped_bytes(h), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       (off_t)(h->offset - head_of(h)))
                : MAP_FAILED;
    if (p == MAP_FAILED) {
        free(i);
        return NULL;
    }
    *i = (struct import){.handle = *h, .ctx = ctx, .pool = pool, .ptr = (uintptr_t)p + head_of(h)};
    struct memory m = {.base = i->ptr,
                       .bytes = h->bytes,
                       .kind = MEMORY_IPC,
                       .ordinal = h->ordinal,
                       .ctx = ctx,
                       .owner = i};
    if (memory_add(&m) != 0) {
        import_unmap(i);
        free(i);
        return NULL;
    }
    LL_PREPEND(imports, i);
    return i;
}

static CUresult import_open(CUdeviceptr *out, const struct memory_handle *h,
                            struct sim_context *ctx, CUmemoryPool pool)
{
    int fd = ipc_file_open(&h->file);
    if (fd < 0) /* -EEXIST: a process cannot open its own memory */
        return fd == -EEXIST ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    SCOPED_LOCK(&lock);
    struct import *i = imports;
    while (i && (i->ctx != ctx || i->pool != pool || i->handle.file.number != h->file.number ||
                 i->handle.offset != h->offset))
        i = i->next;
    i = i ? i : import_add(h, ctx, pool, fd);
    close(fd);
    if (!i)
        return CUDA_ERROR_OUT_OF_MEMORY;
    i->opened++;
    *out = i->ptr;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle,
                                          unsigned int flags)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    struct memory_handle h;
    memcpy(&h, &handle, sizeof(h));
    if (h.bytes == 0)
        return CUDA_ERROR_INVALID_HANDLE;
    TRY(device_check(h.ordinal));
    if (h.ordinal != ctx->ordinal && !devices_are_peers(h.ordinal, ctx->ordinal))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    return import_open(out, &h, ctx, NULL);
}
SIM_ALIAS(cuIpcOpenMemHandle, (CUdeviceptr * out, CUipcMemHandle handle, unsigned int flags),
          cuIpcOpenMemHandle_v2, out, handle, flags)

SIM_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool pool,
                                           CUmemPoolPtrExportData *data)
{
    struct sim_context *ctx;
    struct memory_handle h;
    TRY(context_current_ok(&ctx));
    if (!out || !data)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&h, data, sizeof(h));
    if (h.bytes == 0 || !pool_imports(pool, h.file.number))
        return CUDA_ERROR_INVALID_VALUE;
    return import_open(out, &h, ctx, pool);
}

/* ---- close ----------------------------------------------------------------------------------- */

/* Closes it once. After the last time it has to be unmapped: `last` tells one thread alone. */
static CUresult import_drop(CUdeviceptr ptr, bool pooled, struct import **last)
{
    struct memory m;
    *last = NULL;
    SCOPED_LOCK(&lock);
    struct import *i = memory_find_base(ptr, &m) && m.kind == MEMORY_IPC ? m.owner : NULL;
    if (!i || i->opened == 0 || !!i->pool != pooled)
        return CUDA_ERROR_INVALID_VALUE;
    if (--i->opened == 0) {
        LL_DELETE(imports, i);
        *last = i;
    }
    return CUDA_SUCCESS;
}

static CUresult import_end(CUdeviceptr ptr, bool pooled)
{
    struct sim_context *ctx;
    struct import *last;
    TRY(context_current_ok(&ctx));
    TRY(import_drop(ptr, pooled, &last));
    if (!last)
        return CUDA_SUCCESS;
    CUresult rc = context_wait_idle(last->ctx);
    if (memory_remove(ptr, NULL))
        ipc_memory_release(last);
    return rc;
}

SIM_CALL(cuIpcCloseMemHandle, (CUdeviceptr ptr), import_end(ptr, false))

CUresult ipc_memory_free(CUdeviceptr ptr)
{
    return import_end(ptr, true);
}

CUmemoryPool ipc_memory_pool(const void *owner)
{
    return ((const struct import *)owner)->pool;
}

static CUresult import_end_effect(struct work *w)
{
    if (w->args.ptr[1] && memory_remove(w->args.u64[0], NULL))
        ipc_memory_release(w->args.ptr[1]);
    return CUDA_SUCCESS;
}

bool ipc_memory_free_work(CUdeviceptr ptr, struct work *w)
{
    struct import *last;
    if (import_drop(ptr, true, &last) != CUDA_SUCCESS)
        return false;
    w->effect = import_end_effect;
    w->args.u64[0] = ptr;
    w->args.ptr[1] = last;
    return true;
}

void ipc_memory_release(void *owner)
{
    struct import *i = owner, *listed;
    pthread_mutex_lock(&lock);
    LL_FOREACH (imports, listed) {
        if (listed == i)
            break;
    }
    if (listed)
        LL_DELETE(imports, i);
    pthread_mutex_unlock(&lock);
    import_unmap(i);
    free(i);
}
