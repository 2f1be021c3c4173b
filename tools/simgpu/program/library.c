/*
 * library.c - libraries, which are images without a context, and their kernels.
 */
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/program/module.h"

enum { LIBRARY_POOL = 65536 };

static struct handle_pool pool = HANDLE_POOL(struct sim_library, LIBRARY_POOL);
/* So that there is one module for each library and context, however many threads ask. */
static pthread_mutex_t instance_lock = PTHREAD_MUTEX_INITIALIZER;

static struct sim_library *library_find(CUlibrary handle)
{
    return handle_find(&pool, handle);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void library_free(struct sim_library *l)
{
    for (size_t i = 0; l->managed && i < l->image->global_count; i++)
        if (l->managed[i])
            memory_give(l->managed[i]);
    free(l->managed);
    functions_end(l->kernels, l->image->entry_count);
    image_unshare(l->image);
    handle_give(&pool, l);
}

static CUresult library_make(struct image *image, CUlibrary *out)
{
    struct sim_library *l = handle_take(&pool);
    if (!l)
        return CUDA_ERROR_OUT_OF_MEMORY;
    l->image = image_share(image);
    l->kernels = functions_make(image, NULL, l);
    l->managed = calloc(image->global_count + 1, sizeof(*l->managed));
    bool whole = l->managed && l->kernels;
    for (size_t i = 0; whole && i < image->global_count; i++)
        if (image->globals[i].managed) /* all contexts share it */
            whole = (l->managed[i] = global_make(NULL, &image->globals[i])) != 0;
    if (!whole) {
        library_free(l);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    handle_publish(l);
    *out = (CUlibrary)(void *)l;
    return CUDA_SUCCESS;
}

static CUresult load(CUlibrary *out, const void *data, const char *path)
{
    struct image *image;
    TRY(driver_ready());
    TRY(out ? image_open(data, path, &image) : CUDA_ERROR_INVALID_VALUE);
    CUresult rc = library_make(image, out);
    image_unshare(image);
    return rc;
}

SIM_EXPORT CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit,
                                      void **jit_values, unsigned int jit_count,
                                      CUlibraryOption *options, void **values, unsigned int count)
{
    if ((jit_count && (!jit || !jit_values)) || (count && !options))
        return CUDA_ERROR_INVALID_VALUE;
    return load(out, code, NULL);
}

SIM_EXPORT CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit,
                                          void **jit_values, unsigned int jit_count,
                                          CUlibraryOption *options, void **values,
                                          unsigned int count)
{
    if ((jit_count && (!jit || !jit_values)) || (count && !options))
        return CUDA_ERROR_INVALID_VALUE;
    return load(out, NULL, path);
}

SIM_EXPORT CUresult cuLibraryUnload(CUlibrary handle)
{
    TRY(driver_ready());
    struct sim_library *l = library_find(handle);
    if (!l || !handle_retire(l))
        return CUDA_ERROR_INVALID_HANDLE;
    modules_of_library_end(l);
    library_free(l);
    return CUDA_SUCCESS;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static CUresult library_arg(CUlibrary handle, struct sim_library **l)
{
    TRY(driver_ready());
    *l = library_find(handle);
    return *l ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
    struct sim_library *l;
    TRY(library_arg(handle, &l));
    return functions_get(l->kernels, l->image, name, (void *)out);
}

SIM_GETTER(cuLibraryGetKernelCount, (unsigned int *out, CUlibrary handle), out,
           (unsigned int)l->image->entry_count, struct sim_library *l;
           TRY(library_arg(handle, &l)))

CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned int count, CUlibrary handle);
SIM_EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned int count, CUlibrary handle)
{
    struct sim_library *l;
    TRY(library_arg(handle, &l));
    return functions_list(l->kernels, l->image, (void *)out, count);
}

static CUresult kernel_arg(CUkernel handle, struct sim_function **f)
{
    TRY(driver_ready());
    *f = function_find((CUfunction)(void *)handle);
    return *f && (*f)->library ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_GETTER(cuKernelGetLibrary, (CUlibrary * out, CUkernel handle), out,
           (CUlibrary)(void *)f->library, struct sim_function *f;
           TRY(kernel_arg(handle, &f)))

/* ---- in the current context ------------------------------------------------------------------ */

static CUresult instance(struct sim_library *l, struct sim_module **out)
{
    struct sim_context *ctx;
    TRY(context_current_ok(&ctx));
    SCOPED_LOCK(&instance_lock);
    *out = module_newest(ctx, l);
    return *out ? CUDA_SUCCESS : module_make(ctx, l->image, l, out);
}

SIM_EXPORT CUresult cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
    struct sim_library *l;
    struct sim_module *m;
    TRY(library_arg(handle, &l));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(instance(l, &m));
    *out = module_handle(m);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
    struct sim_function *f;
    struct sim_module *m;
    TRY(kernel_arg(handle, &f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(instance(f->library, &m));
    *out = function_handle(m->functions[f->entry - m->image->entries]);
    return CUDA_SUCCESS;
}

static CUresult global_arg(const CUdeviceptr *at, const size_t *bytes, CUlibrary handle,
                           const char *name, struct sim_library **l)
{
    TRY(library_arg(handle, l));
    return !name || (!at && !bytes) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr *at, size_t *bytes, CUlibrary handle,
                                       const char *name)
{
    struct sim_library *l;
    struct sim_module *m;
    TRY(global_arg(at, bytes, handle, name, &l));
    TRY(instance(l, &m));
    return global_find(m->image, m->globals, name, at, bytes);
}

/* No context has to be current: the runtime asks before it has made one. */
SIM_EXPORT CUresult cuLibraryGetManaged(CUdeviceptr *at, size_t *bytes, CUlibrary handle,
                                        const char *name)
{
    struct sim_library *l;
    TRY(global_arg(at, bytes, handle, name, &l));
    return global_find(l->image, l->managed, name, at, bytes);
}

SIM_EXPORT CUresult cuLibraryGetUnifiedFunction(void **out, CUlibrary handle, const char *symbol)
{
    struct sim_library *l;
    TRY(library_arg(handle, &l));
    if (!out || !symbol)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_FOUND;
}
