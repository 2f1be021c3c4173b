/*
 * module.c - where functions come from and go: modules, libraries, kernels, function attributes.
 */
#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/path/drain.h"
#include "shim/learn/function.h"
#include "shim/objects/memory.h"

/* ---- unload ------------------------------------------------------------------------------- */

/* All contexts are drained: a module need not be the current one's, and a library is in every
 * context that used it. Their global variables go with them. */
#define UNLOAD(sym, type)                                                                          \
    EXPORT CUresult sym(type module)                                                               \
    {                                                                                              \
        if (thread_bypasses())                                                                     \
            return REAL(sym)(module);                                                              \
        if (!MUTANT(module_unload_undrained))                                                      \
            drain_all(false);                                                                      \
        function_forget_module(module);                                                            \
        CUresult r = REAL(sym)(module);                                                            \
        memory_forget();                                                                           \
        return r;                                                                                  \
    }
UNLOAD(cuModuleUnload, CUmodule)
UNLOAD(cuLibraryUnload, CUlibrary)

/* ---- handles that come from libraries -------------------------------------------------------- */

NOTED(cuLibraryGetKernel, function_origin_add(*kernel, library, true), (CUkernel *, kernel),
      (CUlibrary, library), (const char *, name))
NOTED(cuLibraryGetModule,
      if (!MUTANT(library_module_unknown)) function_origin_add(*module, library, false),
      (CUmodule *, module), (CUlibrary, library))
NOTED(cuFuncGetModule, function_origin_copy(*module, function), (CUmodule *, module),
      (CUfunction, function))
NOTED(cuKernelGetFunction, function_origin_copy(*function, kernel), (CUfunction *, function),
      (CUkernel, kernel))

static void kernels_made(const CUkernel *kernel, unsigned n, CUlibrary library)
{
    for (unsigned i = 0; i < n; i++)
        if (kernel[i])
            function_origin_add(kernel[i], library, true);
}
NOTED(cuLibraryEnumerateKernels, kernels_made(kernel, n, library), (CUkernel *, kernel),
      (unsigned int, n), (CUlibrary, library))

/* ---- attributes --------------------------------------------------------------------------- */

/* Buffered launches go first. What the driver accepted before it may refuse from now on. */
static void attribute_changes(CUfunction handle, struct shim_function *f)
{
    drain_all(false);
    if (handle)
        function_attributes_forget(handle, f);
}

static CUresult attribute_set(CUresult r, struct shim_function *f, CUfunction_attribute attribute,
                              int value)
{
    if (f && r == CUDA_SUCCESS)
        function_attribute_set(f, attribute, value);
    return r;
}

/* True if nothing is deferred: then nothing has to be known of functions. */
static bool attribute_passes(void)
{
    return thread_bypasses() || !atomic_load(&context_queued);
}

/* The function may be of another context than the current one, so only a launch makes it known. */
EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    if (attribute_passes())
        return REAL(cuFuncSetAttribute)(hfunc, attrib, value);
    struct shim_context *ctx = context_current_known();
    struct shim_function *f = ctx ? function_known(hfunc, ctx) : NULL;
    /* Some libraries set the same value before every launch: that changes nothing. */
    if (f && function_attribute_is(f, attrib, value))
        return context_answer(ctx, CUDA_SUCCESS);
    attribute_changes(hfunc, f);
    return attribute_set(REAL(cuFuncSetAttribute)(hfunc, attrib, value), f, attrib, value);
}

EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                     CUdevice dev)
{
    if (attribute_passes())
        return REAL(cuKernelSetAttribute)(attrib, val, kernel, dev);
    struct shim_context *ctx = context_current_known();
    struct shim_function *f = ctx && (ctx->gpu->handle == dev || MUTANT(kernel_attribute_swallowed))
                                  ? function_of((CUfunction)kernel, ctx)
                                  : NULL;
    if (f && function_attribute_is(f, attrib, val))
        return context_answer(ctx, CUDA_SUCCESS);
    attribute_changes((CUfunction)kernel, f);
    return attribute_set(REAL(cuKernelSetAttribute)(attrib, val, kernel, dev), f, attrib, val);
}
