/*
 * module.c - where functions come from and go: modules, libraries, kernels, function attributes.
 */
#include "shim/path/call.h"
#include "shim/path/drain.h"
#include "shim/learn/function.h"
#include "shim/objects/memory.h"
#include "common/mutant.h"
#include "shim/objects/thread.h"
#include "shim/objects/context.h"

/* ---- unload ------------------------------------------------------------------------------- */

/* Of whichever context: a module need not be the current one's, and a library is in every context
 * that used it. Their globals go with them. */
static CUresult unloaded(CUresult r)
{
    memory_forget();
    return r;
}

EXPORT CUresult cuModuleUnload(CUmodule hmod)
{
    if (thread_bypasses())
        return REAL(cuModuleUnload)(hmod);
    if (!MUTANT(module_unload_undrained))
        drain_all(false);
    function_forget_module(hmod);
    return unloaded(REAL(cuModuleUnload)(hmod));
}

EXPORT CUresult cuLibraryUnload(CUlibrary library)
{
    if (thread_bypasses())
        return REAL(cuLibraryUnload)(library);
    drain_all(false);
    function_forget_module(library);
    return unloaded(REAL(cuLibraryUnload)(library));
}

/* ---- handles that come from libraries -------------------------------------------------------- */

EXPORT CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    CUresult r = REAL(cuLibraryGetKernel)(pKernel, library, name);
    if (r == CUDA_SUCCESS && !thread_bypasses())
        function_kernel_made(*pKernel, library);
    return r;
}

EXPORT CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
    CUresult r = REAL(cuLibraryEnumerateKernels)(kernels, numKernels, lib);
    if (r == CUDA_SUCCESS && !thread_bypasses())
        for (unsigned i = 0; i < numKernels; i++)
            if (kernels[i])
                function_kernel_made(kernels[i], lib);
    return r;
}

EXPORT CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    CUresult r = REAL(cuLibraryGetModule)(pMod, library);
    if (r == CUDA_SUCCESS && !thread_bypasses() && !MUTANT(library_module_unknown))
        function_library_module(*pMod, library);
    return r;
}

EXPORT CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    CUresult r = REAL(cuFuncGetModule)(hmod, hfunc);
    if (r == CUDA_SUCCESS && !thread_bypasses())
        function_handle_made(*hmod, hfunc);
    return r;
}

EXPORT CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    CUresult r = REAL(cuKernelGetFunction)(pFunc, kernel);
    if (r == CUDA_SUCCESS && !thread_bypasses())
        function_handle_made(*pFunc, kernel);
    return r;
}

/* ---- attributes --------------------------------------------------------------------------- */

/* Buffered launches go first, and what was accepted before may not be any more. */
static void attribute_changes(CUfunction handle, struct shim_function *f)
{
    drain_all(false);
    if (handle)
        function_attributes_forget(handle, f);
}

/* Some libraries set the same value before every launch: that changes nothing. */
static CUresult attribute_same(struct shim_context *ctx)
{
    return context_answer(ctx, CUDA_SUCCESS);
}

static CUresult attribute_set(CUresult r, struct shim_function *f, CUfunction_attribute attribute,
                              int value)
{
    if (f && r == CUDA_SUCCESS)
        function_attribute_set(f, attribute, value);
    return r;
}

/* Nothing is deferred, so nothing has to be known of functions. */
static bool attribute_passes(void)
{
    return thread_bypasses() || !atomic_load(&context_queued);
}

/* The function may be another context's than the current one: it becomes known by a launch. */
EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    if (attribute_passes())
        return REAL(cuFuncSetAttribute)(hfunc, attrib, value);
    struct shim_context *ctx = context_known();
    struct shim_function *f = ctx ? function_known(hfunc, ctx) : NULL;
    if (f && function_attribute_is(f, attrib, value))
        return attribute_same(ctx);
    attribute_changes(hfunc, f);
    return attribute_set(REAL(cuFuncSetAttribute)(hfunc, attrib, value), f, attrib, value);
}

EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                     CUdevice dev)
{
    if (attribute_passes())
        return REAL(cuKernelSetAttribute)(attrib, val, kernel, dev);
    struct shim_context *ctx = context_known();
    struct shim_function *f = ctx && (ctx->gpu->handle == dev || MUTANT(kernel_attribute_swallowed))
                                  ? function_of((CUfunction)kernel, ctx)
                                  : NULL;
    if (f && function_attribute_is(f, attrib, val))
        return attribute_same(ctx);
    attribute_changes((CUfunction)kernel, f);
    return attribute_set(REAL(cuKernelSetAttribute)(attrib, val, kernel, dev), f, attrib, val);
}
