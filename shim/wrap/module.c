/*
 * module.c - where functions come from and go: modules, libraries, kernels, function attributes.
 */
#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/path/drain.h"
#include "shim/learn/function.h"
#include "shim/objects/memory.h"

/* All contexts are drained: a module need not be the current one's, and a library is in every
 * context that used it. Their global variables go with them. */
static void unloading(const void *module)
{
    if (thread_bypasses())
        return;
    if (!MUTANT(module_unload_undrained))
        drain_all(false);
    function_forget_module(module);
}
WRAPPED(cuModuleUnload, unloading(module), memory_forget(), (CUmodule, module))
WRAPPED(cuLibraryUnload, unloading(library), memory_forget(), (CUlibrary, library))

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

/* `kernel`: it is a CUkernel, whose attribute is set for `device` alone. */
static inline __attribute__((always_inline)) CUresult attribute_set(CUfunction handle,
                                                                    CUfunction_attribute which,
                                                                    int value, bool kernel,
                                                                    CUdevice device)
{
    struct shim_function *f = NULL;
    /* If nothing is deferred, nothing has to be known of functions. */
    if (!thread_bypasses() && atomic_load(&context_queued)) {
        struct shim_context *ctx = context_current_known();
        /* A function may be of another context than the current one, so only a launch makes it
         * known. */
        if (ctx && !kernel)
            f = function_known(handle, ctx);
        else if (ctx && (ctx->gpu->handle == device || MUTANT(kernel_attribute_swallowed)))
            f = function_of(handle, ctx);
        /* Some libraries set the same value before every launch: that changes nothing. */
        if (f && function_attribute_is(f, which, value))
            return context_answer(ctx, CUDA_SUCCESS);
        /* Buffered launches go first. What the driver accepted before it may refuse from now on. */
        drain_all(false);
        if (handle)
            function_attributes_forget(handle, f);
    }
    CUresult r = kernel ? REAL(cuKernelSetAttribute)(which, value, (CUkernel)handle, device)
                        : REAL(cuFuncSetAttribute)(handle, which, value);
    if (f && r == CUDA_SUCCESS)
        function_attribute_set(f, which, value);
    return r;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    return attribute_set(hfunc, attrib, value, false, 0);
}
EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                     CUdevice dev)
{
    return attribute_set((CUfunction)kernel, attrib, val, true, dev);
}
