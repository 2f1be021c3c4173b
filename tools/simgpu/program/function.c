/*
 * function.c - what can be asked and set of functions, and occupancy: how many blocks fit.
 */
#include "tools/simgpu/program/module.h"
#include "tools/simgpu/face/simconfig.h"

/* ---- occupancy ------------------------------------------------------------------------------- */

static int function_blocks_per_sm(const struct sim_function *f, uint64_t threads,
                                  size_t dynamic_smem)
{
    const struct sim_compute *most = simconfig_compute();
    size_t smem = f->entry->static_smem + dynamic_smem;
    if (threads == 0 || threads > f->entry->max_threads || smem > most->block_smem)
        return 0;
    uint64_t warps = (threads + 31) / 32;
    uint64_t blocks = most->sm_threads / 32 / warps;
    uint64_t by_smem = most->sm_smem / (smem + BLOCK_SMEM_RESERVED);
    blocks = blocks < by_smem ? blocks : by_smem;
    return (int)(blocks < most->sm_blocks ? blocks : most->sm_blocks);
}

int launch_blocks_per_sm(const struct sim_function *f, const CUlaunchConfig *c)
{
    uint64_t threads = (uint64_t)c->blockDimX * c->blockDimY * c->blockDimZ;
    return function_blocks_per_sm(f, threads, c->sharedMemBytes);
}

static CUresult function_arg(CUfunction handle, struct sim_function **f)
{
    TRY(context_current_ok(NULL));
    *f = function_find(handle);
    return *f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out,
                                                                         CUfunction handle,
                                                                         int threads, size_t smem,
                                                                         unsigned int flags)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    if (!out || threads < 1 || flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = function_blocks_per_sm(f, (uint64_t)threads, smem);
    return CUDA_SUCCESS;
}

SIM_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
         (int *out, CUfunction f, int threads, size_t smem),
         cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, f, threads, smem, 0))

/* Finds the largest block size that keeps the most threads of an SM busy. */
SIM_EXPORT CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
                                                              CUfunction handle,
                                                              CUoccupancyB2DSize smem_of,
                                                              size_t smem, int limit,
                                                              unsigned int flags)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    if (!grid || !block || limit < 0 ||
        flags & ~(unsigned int)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
        return CUDA_ERROR_INVALID_VALUE;
    int most = f->entry->max_threads < BLOCK_THREADS ? (int)f->entry->max_threads : BLOCK_THREADS;
    int busiest = 0;
    *grid = *block = 0;
    if (limit > 0 && limit < most)
        most = limit;
    for (int threads = most < 32 ? most : most / 32 * 32; threads > 0; threads -= 32) {
        size_t bytes = smem_of ? smem_of(threads) : smem;
        int blocks = function_blocks_per_sm(f, (uint64_t)threads, bytes);
        if (blocks * threads <= busiest)
            continue;
        busiest = blocks * threads;
        *block = threads;
        *grid = blocks * config_get()->sms;
    }
    return CUDA_SUCCESS;
}

SIM_CALL(cuOccupancyMaxPotentialBlockSize,
         (int *grid, int *block, CUfunction f, CUoccupancyB2DSize smem_of, size_t smem, int limit),
         cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, f, smem_of, smem, limit, 0))

/* The function's context. If a kernel was given as a function, it is the current one. */
static struct sim_context *context_of(const struct sim_function *f)
{
    struct sim_context *ctx = NULL;
    if (f->module)
        return f->module->context;
    context_current(&ctx);
    return ctx;
}

SIM_EXPORT CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *out, CUfunction handle,
                                                            int blocks, int threads)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    if (!out || blocks < 1 || threads < 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (function_blocks_per_sm(f, (uint64_t)threads, 0) < blocks)
        return CUDA_ERROR_INVALID_VALUE;
    size_t each = simconfig_compute()->sm_smem / (size_t)blocks;
    size_t taken = BLOCK_SMEM_RESERVED + f->entry->static_smem;
    size_t left = each > taken ? each - taken : 0;
    size_t most = (size_t)function_setting(f, context_of(f), MAX_DYNAMIC_SMEM);
    *out = left < most ? left : most;
    return CUDA_SUCCESS;
}

enum { CLUSTER_BLOCKS = 8 };

SIM_GETTER(cuOccupancyMaxPotentialClusterSize,
           (int *out, CUfunction handle, const CUlaunchConfig *config), out, CLUSTER_BLOCKS,
           struct sim_function *f;
           TRY(function_arg(handle, &f)); TRY(config ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE))

SIM_EXPORT CUresult cuOccupancyMaxActiveClusters(int *out, CUfunction handle,
                                                 const CUlaunchConfig *c)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    if (!out || !c || (c->numAttrs && !c->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    unsigned int i = 0;
    while (i < c->numAttrs && c->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        i++;
    const CUlaunchAttributeValue *v = i < c->numAttrs ? &c->attrs[i].value : NULL;
    uint64_t per_cluster = v ? (uint64_t)v->clusterDim.x * v->clusterDim.y * v->clusterDim.z : 1;
    if (per_cluster == 0 || per_cluster > CLUSTER_BLOCKS)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    uint64_t blocks = (uint64_t)launch_blocks_per_sm(f, c) * (uint64_t)config_get()->sms;
    *out = (int)(blocks / per_cluster);
    return CUDA_SUCCESS;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static struct image *image_of(const struct sim_function *f)
{
    return f->module ? f->module->image : f->library->image;
}

/* 80 means 8.0. Text (0) is compiled for the device. */
static int arch_or_device(unsigned int arch)
{
    return arch ? (int)arch : (int)simconfig_compute()->arch;
}

static int setting_of(CUfunction_attribute id)
{
    if (id == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return MAX_DYNAMIC_SMEM;
    if (id == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT)
        return CARVEOUT;
    if (id >= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH &&
        id <= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH)
        return CLUSTER + (int)id - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
    return -1;
}

/* Attributes that cannot be set, or have no effect here: caching mode, other cluster properties. */
static CUresult property_get(const struct sim_function *f, CUfunction_attribute id, int *out)
{
    const int values[CU_FUNC_ATTRIBUTE_MAX] = {
        [CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = (int)f->entry->max_threads,
        [CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] = (int)f->entry->static_smem,
        [CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES] = (int)image_of(f)->const_bytes,
        [CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES] = (int)f->entry->local_bytes,
        [CU_FUNC_ATTRIBUTE_NUM_REGS] = (int)f->entry->registers,
        [CU_FUNC_ATTRIBUTE_PTX_VERSION] = arch_or_device(image_of(f)->ptx_arch),
        [CU_FUNC_ATTRIBUTE_BINARY_VERSION] = arch_or_device(image_of(f)->binary_arch),
    };
    bool known = (int)id >= 0 && id < CU_FUNC_ATTRIBUTE_MAX;
    *out = known ? values[id] : 0;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult setting_set(struct sim_function *f, int ordinal, CUfunction_attribute id, int value)
{
    int setting = setting_of(id);
    if (setting < 0) {
        bool other = id >= CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET && id < CU_FUNC_ATTRIBUTE_MAX;
        return other ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (value < (setting == CARVEOUT ? -1 : 0) || (setting == CARVEOUT && value > 100) ||
        (setting == MAX_DYNAMIC_SMEM &&
         (size_t)value + f->entry->static_smem > simconfig_compute()->block_smem))
        return CUDA_ERROR_INVALID_VALUE;
    atomic_store(&f->settings[ordinal][setting], value);
    if (f->kernel)
        atomic_store(&f->kernel->overridden, true);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncGetAttribute(int *out, CUfunction_attribute id, CUfunction handle)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (setting_of(id) < 0)
        return property_get(f, id, out);
    *out = function_setting(f, context_of(f), setting_of(id));
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute id, int value)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    return setting_set(f, context_of(f)->ordinal, id, value);
}

/* A kernel has no context. Its attributes are set for each device. */
static CUresult kernel_arg(CUkernel handle, CUdevice device, struct sim_function **f)
{
    TRY(driver_ready());
    *f = function_find((CUfunction)(void *)handle);
    if (!*f)
        return CUDA_ERROR_INVALID_HANDLE;
    if ((*f)->kernel)
        *f = (*f)->kernel;
    return device_check(device);
}

SIM_EXPORT CUresult cuKernelGetAttribute(int *out, CUfunction_attribute id, CUkernel kernel,
                                         CUdevice device)
{
    struct sim_function *f;
    TRY(kernel_arg(kernel, device, &f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (setting_of(id) < 0)
        return property_get(f, id, out);
    *out = atomic_load(&f->settings[device][setting_of(id)]);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute id, int value, CUkernel kernel,
                                         CUdevice device)
{
    struct sim_function *f;
    TRY(kernel_arg(kernel, device, &f));
    return setting_set(f, device, id, value);
}

static CUresult hint_check(unsigned int value, unsigned int last)
{
    return value > last ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
    struct sim_function *f;
    TRY(kernel_arg(kernel, device, &f));
    return hint_check(config, CU_FUNC_CACHE_PREFER_EQUAL);
}

SIM_EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    return hint_check(config, CU_FUNC_CACHE_PREFER_EQUAL);
}

SIM_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    return hint_check(config, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
}

/* ---- what it is ------------------------------------------------------------------------------ */

SIM_EXPORT CUresult cuFuncGetModule(CUmodule *out, CUfunction handle)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!f->module)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = module_handle(f->module);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **out, CUfunction f);
SIM_EXPORT CUresult cuFuncGetName(const char **out, CUfunction handle)
{
    TRY(driver_ready());
    struct sim_function *f = function_find(handle);
    if (!f || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = f->entry->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *size);
SIM_EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset,
                                       size_t *size)
{
    TRY(driver_ready());
    struct sim_function *f = function_find(handle);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct sim_param *p = function_param(f, index);
    if (!p || !offset)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = p->offset;
    if (size)
        *size = p->size;
    return CUDA_SUCCESS;
}

SIM_CALL(cuKernelGetName, (const char **out, CUkernel kernel),
         cuFuncGetName(out, (CUfunction)(void *)kernel))

SIM_CALL(cuKernelGetParamInfo, (CUkernel kernel, size_t index, size_t *offset, size_t *size),
         cuFuncGetParamInfo((CUfunction)(void *)kernel, index, offset, size))

#if CUDA_VERSION >= 12040
SIM_GETTER(cuFuncIsLoaded, (CUfunctionLoadingState * out, CUfunction handle), out,
           atomic_load(&f->loaded) ? CU_FUNCTION_LOADING_STATE_LOADED
                                   : CU_FUNCTION_LOADING_STATE_UNLOADED,
           struct sim_function *f;
           TRY(function_arg(handle, &f)))

SIM_EXPORT CUresult cuFuncLoad(CUfunction handle)
{
    struct sim_function *f;
    TRY(function_arg(handle, &f));
    function_load(f);
    return CUDA_SUCCESS;
}
#endif
