/*
 * current.c - the contexts of the calling thread: a stack, whose top is the current one.
 */
#include "tools/simgpu/device/context.h"

static _Thread_local struct stack {
    struct sim_context **items;
    size_t depth;
} stack;

static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

/* At the end of a thread. Another destructor may still call CUDA, and then has no context. */
static void stack_free(void *items)
{
    stack = (struct stack){NULL, 0};
    free(items);
}

static void stack_key_make(void)
{
    pthread_key_create(&stack_key, stack_free);
}

static struct sim_context *stack_top(void)
{
    return stack.depth != 0 ? stack.items[stack.depth - 1] : NULL;
}

CUresult context_push(struct sim_context *ctx)
{
    struct sim_context **items = array_grow(stack.items, stack.depth, sizeof(*items));
    if (!items)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_once(&stack_once, stack_key_make);
    pthread_setspecific(stack_key, items);
    stack.items = items;
    stack.items[stack.depth++] = ctx;
    return CUDA_SUCCESS;
}

void context_pop_if_top(const struct sim_context *ctx)
{
    if (stack_top() == ctx)
        stack.depth--;
}

static _Thread_local bool in_callback_thread;

void callback_thread_begin(void)
{
    in_callback_thread = true;
}

bool on_callback_thread(void)
{
    return in_callback_thread;
}

/* ---- what other files ask -------------------------------------------------------------------- */

CUresult context_arg_inactive(CUcontext handle, struct sim_context **out)
{
    TRY(driver_ready());
    if (!handle && on_callback_thread())
        return CUDA_ERROR_NOT_PERMITTED;
    struct sim_context *ctx = handle ? context_any(handle) : stack_top();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!atomic_load(&ctx->alive) && !ctx->primary)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult context_arg(CUcontext handle, struct sim_context **out)
{
    struct sim_context *ctx;
    TRY(context_arg_inactive(handle, &ctx));
    if (!atomic_load(&ctx->alive))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = ctx;
    return CUDA_SUCCESS;
}

CUresult context_current(struct sim_context **out)
{
    return context_arg(NULL, out);
}

CUresult context_current_ok(struct sim_context **out)
{
    struct sim_context *ctx;
    TRY(context_current(&ctx));
    if (out)
        *out = ctx;
    return atomic_load(&ctx->error);
}

/* ---- API ------------------------------------------------------------------------------------- */

SIM_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
    TRY(driver_ready());
    struct sim_context *ctx = handle ? context_any(handle) : NULL;
    return ctx ? context_push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

SIM_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    TRY(driver_ready());
    if (stack.depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out)
        *out = context_handle(stack_top());
    stack.depth--;
    return CUDA_SUCCESS;
}
SIM_ALIAS(cuCtxPushCurrent, (CUcontext ctx), cuCtxPushCurrent_v2, ctx)

SIM_ALIAS(cuCtxPopCurrent, (CUcontext * out), cuCtxPopCurrent_v2, out)

SIM_EXPORT CUresult cuCtxSetCurrent(CUcontext handle)
{
    TRY(driver_ready());
    struct sim_context *ctx = handle ? context_any(handle) : NULL;
    if (handle && !ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.depth != 0)
        stack.depth--;
    return ctx ? context_push(ctx) : CUDA_SUCCESS;
}

SIM_GETTER(cuCtxGetCurrent, (CUcontext * out), out,
           stack_top() ? context_handle(stack_top()) : NULL, TRY(driver_ready()))
