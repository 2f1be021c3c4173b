/*
 * module.c - modules of contexts: loading, unloading, functions and globals by name.
 */
#include "tools/simgpu/program/module.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/stream/engine.h"

#include <utlist.h>

enum { MODULE_POOL = 65536, FUNCTION_POOL = 1 << 20 };

static struct handle_pool modules = HANDLE_POOL(struct sim_module, MODULE_POOL);
static struct handle_pool functions = HANDLE_POOL(struct sim_function, FUNCTION_POOL);
/* Guards the list of modules and the users of images. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_module *all;

/* ---- functions ------------------------------------------------------------------------------- */

struct sim_function *function_find(CUfunction handle)
{
    return handle_find(&functions, handle);
}

CUfunction function_handle(const struct sim_function *f)
{
    return (CUfunction)(void *)(uintptr_t)f;
}

const struct sim_param *function_param(const struct sim_function *f, size_t index)
{
    return index < f->entry->param_count ? &f->entry->params[index] : NULL;
}

/* CUDA_MODULE_LOADING=EAGER loads everything at once. Lazy loading is the default since 12.2. */
static bool loading_is_eager(void)
{
    const char *mode = getenv("CUDA_MODULE_LOADING");
    return mode && !strcmp(mode, "EAGER");
}

static void settings_reset(struct sim_function *f)
{
    for (int i = 0; i < FUNCTION_DEVICES; i++)
        for (int k = 0; k < FUNCTION_SETTINGS; k++)
            atomic_store(&f->settings[i][k], f->kernel ? OF_KERNEL
                                             : k == MAX_DYNAMIC_SMEM
                                                 ? BLOCK_SMEM - (int)f->entry->static_smem
                                             : k == CARVEOUT ? -1
                                                             : 0);
}

int function_setting(const struct sim_function *f, struct sim_context *ctx, int setting)
{
    struct sim_module *m = NULL;
    if (atomic_load(&f->overridden))
        m = module_newest(ctx, f->library);
    if (m)
        f = m->functions[f->entry - m->image->entries];
    int value = atomic_load(&f->settings[ctx->ordinal][setting]);
    return value != OF_KERNEL ? value : atomic_load(&f->kernel->settings[ctx->ordinal][setting]);
}

void function_load(struct sim_function *f)
{
    if (!atomic_load_explicit(&f->loaded, memory_order_relaxed) &&
        !atomic_exchange(&f->loaded, true))
        host_spend(sim_now_ns(), (uint64_t)config_get()->load_us * 1000);
}

static struct sim_function *function_make(const struct image_entry *entry, struct sim_module *m,
                                          struct sim_library *l)
{
    struct sim_function *f = handle_take(&functions);
    if (!f)
        return NULL;
    f->entry = entry;
    f->model = kernel_model_find(entry->name, entry->packed_bytes);
    atomic_store_explicit(&f->times, NULL, memory_order_relaxed);
    f->module = m;
    f->library = l;
    f->kernel = m && l ? l->kernels[entry - l->image->entries] : NULL;
    atomic_store(&f->overridden, false);
    atomic_store(&f->loaded, loading_is_eager());
    settings_reset(f);
    f->old = NULL;
    handle_publish(f);
    return f;
}

void functions_end(struct sim_function **list, size_t count)
{
    for (size_t i = 0; list && i < count; i++) {
        if (!list[i] || !handle_retire(list[i]))
            continue;
        free(list[i]->old);
        list[i]->old = NULL;
        handle_give(&functions, list[i]);
    }
    free(list);
}

struct sim_function **functions_make(struct image *image, struct sim_module *m,
                                     struct sim_library *l)
{
    struct sim_function **list = calloc(image->entry_count + 1, sizeof(*list));
    for (size_t i = 0; list && i < image->entry_count; i++) {
        list[i] = function_make(&image->entries[i], m, l);
        if (!list[i]) {
            functions_end(list, image->entry_count);
            return NULL;
        }
    }
    return list;
}

CUresult functions_get(struct sim_function *const *list, const struct image *image,
                       const char *name, CUfunction *out)
{
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < image->entry_count; i++)
        if (!strcmp(image->entries[i].name, name)) {
            *out = function_handle(list[i]);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult functions_list(struct sim_function *const *list, const struct image *image,
                        CUfunction *out, unsigned int count)
{
    if (!out || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && i < image->entry_count; i++)
        out[i] = function_handle(list[i]);
    return CUDA_SUCCESS;
}

/* ---- images ---------------------------------------------------------------------------------- */

CUresult image_open(const void *data, const char *path, struct image **out)
{
    if (!data && !path)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(path ? image_read_file(path, out) : image_read(data, out));
    image_share(*out);
    return CUDA_SUCCESS;
}

struct image *image_share(struct image *image)
{
    SCOPED_LOCK(&lock);
    image->users++;
    return image;
}

void image_unshare(struct image *image)
{
    pthread_mutex_lock(&lock);
    bool last = --image->users == 0;
    pthread_mutex_unlock(&lock);
    if (last)
        image_free(image);
}

/* ---- life ------------------------------------------------------------------------------------ */

CUmodule module_handle(const struct sim_module *m)
{
    return (CUmodule)(void *)(uintptr_t)m;
}

static struct sim_module *module_find(CUmodule handle)
{
    return handle_find(&modules, handle);
}

CUdeviceptr global_make(struct sim_context *ctx, const struct image_global *g)
{
    size_t bytes = g->bytes ? g->bytes : 1;
    CUdeviceptr at = memory_take(g->managed ? NULL : ctx, bytes);
    if (at && g->initial)
        memcpy((void *)(uintptr_t)at, g->initial, g->bytes);
    else if (at)
        memset((void *)(uintptr_t)at, 0, g->bytes);
    return at;
}

static bool is_of_library(const struct sim_module *m, size_t global)
{
    return m->library && m->image->globals[global].managed;
}

static void module_free(struct sim_module *m)
{
    functions_end(m->functions, m->image->entry_count);
    for (size_t i = 0; m->globals && i < m->image->global_count; i++)
        if (m->globals[i] && !is_of_library(m, i))
            memory_give(m->globals[i]);
    free(m->globals);
    image_unshare(m->image);
    handle_give(&modules, m);
}

CUresult module_make(struct sim_context *ctx, struct image *image, struct sim_library *library,
                     struct sim_module **out)
{
    struct sim_module *m = handle_take(&modules);
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->context = ctx;
    m->library = library;
    m->image = image_share(image);
    m->functions = functions_make(image, m, library);
    m->globals = m->functions ? calloc(image->global_count + 1, sizeof(*m->globals)) : NULL;
    bool whole = m->globals;
    for (size_t i = 0; whole && i < image->global_count; i++)
        whole = (m->globals[i] = is_of_library(m, i) ? library->managed[i]
                                                     : global_make(ctx, &image->globals[i])) != 0;
    if (!whole) {
        module_free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    SCOPED_LOCK(&lock);
    DL_PREPEND(all, m);
    handle_publish(m);
    *out = m;
    return CUDA_SUCCESS;
}

/* Functions that were launched need nothing of the module until they finish. But they may touch its
 * globals, so this waits as the driver does. */
static CUresult module_end(struct sim_module *m)
{
    if (!handle_retire(m))
        return CUDA_ERROR_INVALID_HANDLE;
    if (m->image->global_count)
        context_wait_idle(m->context);
    pthread_mutex_lock(&lock);
    DL_DELETE(all, m);
    pthread_mutex_unlock(&lock);
    module_free(m);
    return CUDA_SUCCESS;
}

struct sim_module *module_newest(const struct sim_context *ctx, const struct sim_library *library)
{
    SCOPED_LOCK(&lock);
    struct sim_module *m = all;
    while (m && ((ctx && m->context != ctx) || (library && m->library != library)))
        m = m->next;
    return m;
}

void modules_of_library_end(struct sim_library *library)
{
    struct sim_module *m;
    while ((m = module_newest(NULL, library)) && module_end(m) == CUDA_SUCCESS)
        ;
}

static void modules_close(struct sim_context *ctx)
{
    struct sim_module *m;
    while ((m = module_newest(ctx, NULL)) && module_end(m) == CUDA_SUCCESS)
        ;
}
CONTEXT_PART(CONTEXT_MODULES, NULL, modules_close)

/* ---- by name --------------------------------------------------------------------------------- */

CUresult global_find(const struct image *image, const CUdeviceptr *addresses, const char *name,
                     CUdeviceptr *at, size_t *bytes)
{
    for (size_t i = 0; i < image->global_count; i++) {
        if (!addresses[i] || strcmp(image->globals[i].name, name) != 0)
            continue;
        if (at)
            *at = addresses[i];
        if (bytes)
            *bytes = image->globals[i].bytes;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

/* ---- API ------------------------------------------------------------------------------------- */

static CUresult load(CUmodule *out, const void *data, const char *path)
{
    struct sim_context *ctx;
    struct image *image;
    struct sim_module *m;
    TRY(context_current_ok(&ctx));
    TRY(out ? image_open(data, path, &image) : CUDA_ERROR_INVALID_VALUE);
    CUresult rc = module_make(ctx, image, NULL, &m);
    image_unshare(image);
    if (rc == CUDA_SUCCESS)
        *out = module_handle(m);
    return rc;
}

SIM_CALL(cuModuleLoad, (CUmodule * out, const char *path), load(out, NULL, path))
SIM_CALL(cuModuleLoadData, (CUmodule * out, const void *image), load(out, image, NULL))

SIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                                       CUjit_option *options, void **values)
{
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    return load(out, image, NULL);
}
SIM_ALIAS(cuModuleLoadFatBinary, (CUmodule * out, const void *image), cuModuleLoadData, out, image)

SIM_EXPORT CUresult cuModuleUnload(CUmodule handle)
{
    TRY(context_current_ok(NULL));
    struct sim_module *m = module_find(handle);
    return m && !m->library ? module_end(m) : CUDA_ERROR_INVALID_HANDLE;
}

SIM_GETTER(cuModuleGetLoadingMode, (CUmoduleLoadingMode * out), out,
           loading_is_eager() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING,
           TRY(driver_ready()))

static CUresult module_arg(CUmodule handle, struct sim_module **m)
{
    TRY(context_current_ok(NULL));
    *m = module_find(handle);
    return *m ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
    struct sim_module *m;
    TRY(module_arg(handle, &m));
    return functions_get(m->functions, m->image, name, out);
}

SIM_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *at, size_t *bytes, CUmodule handle,
                                         const char *name)
{
    struct sim_module *m;
    TRY(module_arg(handle, &m));
    if (!name || (!at && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return global_find(m->image, m->globals, name, at, bytes);
}

SIM_BODY(cuModuleGetGlobal,
         (CUdeviceptr_v1 * at, unsigned int *bytes, CUmodule handle, const char *name),
         /* Addresses here do not fit the 32 bits of this version. */ return at || bytes ||
                 handle || name
             ? CUDA_ERROR_NOT_SUPPORTED
             : CUDA_ERROR_INVALID_VALUE)

SIM_GETTER(cuModuleGetFunctionCount, (unsigned int *out, CUmodule handle), out,
           (unsigned int)m->image->entry_count, struct sim_module *m;
           TRY(module_arg(handle, &m)))

CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned int count, CUmodule handle);
SIM_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned int count, CUmodule handle)
{
    struct sim_module *m;
    TRY(module_arg(handle, &m));
    return functions_list(m->functions, m->image, out, count);
}

/* Linking is not simulated. "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES [...] OUT: Amount of log buffer
 * filled with messages" (cuda.h): the caller reads that much of the log, so it is set to 0. */
SIM_EXPORT CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values,
                                    CUlinkState *out)
{
    TRY(context_current_ok(NULL));
    if (!out || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++)
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
            options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            values[i] = NULL;
    return CUDA_ERROR_NOT_SUPPORTED;
}
SIM_ALIAS(cuLinkCreate,
          (unsigned int count, CUjit_option *options, void **values, CUlinkState *out),
          cuLinkCreate_v2, count, options, values, out)
