/*
 * context_error.c - what is wrong with a context, and which calls return the error.
 *
 * A deferred command that fails has returned success already. If its error makes the context
 * unusable, every later call returns it, as the driver does. Any other error (no memory for a graph
 * launch, say) the application could have dealt with: the next call that may return it does so,
 * once, and the context works on. That call is not made, unless it is a synchronisation: that is
 * made, and returns the error of what came before, as it may natively.
 */
#include "shim/objects/context.h"

/* By cuda.h these make the context or the process unusable. Old headers lack those with numbers. */
static bool makes_unusable(CUresult r)
{
    switch ((int)r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case 220: /* CUDA_ERROR_NVLINK_UNCORRECTABLE */
    case 226: /* CUDA_ERROR_CONTAINED */
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case 721: /* CUDA_ERROR_TENSOR_MEMORY_LEAK */
    case 810: /* CUDA_ERROR_MPS_CLIENT_TERMINATED */
    case 911: /* CUDA_ERROR_EXTERNAL_DEVICE */
        return true;
    default:
        return false;
    }
}

/* The first error stays, but an error that lasts replaces one that does not. */
static bool error_keep(struct shim_context *ctx, int err, bool lasts)
{
    int seen = atomic_load(&ctx->error);
    while (lasts ? seen <= 0 : !seen)
        if (atomic_compare_exchange_weak(&ctx->error, &seen, lasts ? err : -err))
            return true;
    return false;
}

bool context_error_note(void *user, struct vhq *q, int err)
{
    static _Atomic bool said; /* there may be many, and the application gets each */
    bool lasts = makes_unusable((CUresult)err);
    if (error_keep(user, err, lasts) && err != CUDA_ERROR_DEINITIALIZED && /* the process ends */
        (lasts || !atomic_exchange(&said, true)))
        log_line(LOG_WARN,
                 "a queued command failed with CUDA error %d; %s call in its context returns it",
                 err, lasts ? "every later" : "the next");
    return lasts;
}

bool context_unusable(const struct shim_context *ctx)
{
    return atomic_load_explicit(&ctx->error, memory_order_relaxed) > 0;
}

CUresult context_error_take(struct shim_context *ctx)
{
    int seen = atomic_load_explicit(&ctx->error, memory_order_relaxed);
    while (unlikely(seen < 0))
        if (atomic_compare_exchange_weak(&ctx->error, &seen, 0))
            return (CUresult)-seen;
    return (CUresult)seen;
}

CUresult context_answer(struct shim_context *ctx, CUresult r)
{
    bool failed = unlikely(r != CUDA_SUCCESS && r != CUDA_ERROR_NOT_READY);
    if (failed && makes_unusable(r))
        error_keep(ctx, (int)r, true);
    if (failed && !context_unusable(ctx))
        return r;
    CUresult error = context_error(ctx);
    return error ? error : r;
}
