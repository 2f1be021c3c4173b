/*
 * function.c - kernels and their parameter layouts (see function.h).
 */
#include "shim/learn/function.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "common/list.h"
#include "scheduler/client/client.h"
#include "shim/objects/context.h"
#include "common/trace.h"

TABLE(functions);
TABLE(functions_of_module);
TABLE(functions_of_name); /* library functions, with any context and handle */
POOL(function_pool, struct shim_function, free_next);

/* A handle that came from a library: a CUkernel, a CUfunction of one, or the CUmodule that the
 * library has in a context. Its module is the library. The layout of a CUkernel is asked by a
 * driver function of its own. */
struct origin {
    struct table_node node; /* by handle */
    struct table_node of_library;
    CUlibrary library;
    bool kernel;
    void *free_next;
};
TABLE(origins);
TABLE(origins_of_library);
POOL(origin_pool, struct origin, free_next);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for adding and forgetting */
_Atomic uint32_t function_generation = 1;
_Thread_local struct function_last function_last __attribute__((tls_model("initial-exec")));

/* ---- table -------------------------------------------------------------------------------- */

static struct origin *origin_of(const void *handle)
{
    return (struct origin *)(void *)table_find(&origins, handle);
}

/* The module or library that unloads the function. */
static const void *module_of(CUfunction handle, bool *of_library)
{
    CUmodule module = NULL;
    const struct origin *origin = origin_of(handle);
    if (!origin && REAL(cuFuncGetModule)(&module, handle) == CUDA_SUCCESS)
        origin = origin_of(module);
    *of_library = origin;
    return origin ? (const void *)origin->library : module;
}

/* From 12.3 and 12.4 on; what is asked of a CUfunction and of a CUkernel has one shape each. */
typedef CUresult (*name_fn)(const char **name, const void *handle);
typedef CUresult (*param_info_fn)(const void *handle, size_t index, size_t *offset, size_t *size);

static bool is_kernel(CUfunction handle)
{
    const struct origin *origin = origin_of(handle);
    return origin && origin->kernel;
}

/* NULL: the driver does not tell. */
static const char *name_ask(CUfunction handle)
{
    name_fn ask = (name_fn)api_get(is_kernel(handle) ? API_cuKernelGetName : API_cuFuncGetName);
    const char *name = NULL;
    return ask(&name, handle) == CUDA_SUCCESS ? name : NULL;
}

/* 0: not known. */
static uint64_t name_hash(CUfunction handle)
{
    const char *name = name_ask(handle);
    return name ? text_hash(name) | 1 : 0;
}

const char *function_name(CUfunction handle)
{
    const char *name = name_ask(handle);
    return name ? name : "kernel";
}

/* What the driver accepts of this function may have changed. */
static void shapes_forget(struct shim_function *f)
{
    for (int i = 0; i < FUNCTION_SHAPES; i++)
        atomic_store_explicit(&f->shape[i], 0, memory_order_relaxed);
}

static void attributes_forget(struct shim_function *f)
{
    shapes_forget(f);
    for (int i = 0; i < FUNCTION_ATTRIBUTES; i++)
        atomic_store_explicit(&f->attribute[i], 0, memory_order_relaxed);
}

static void function_describe(struct shim_function *f, CUfunction handle,
                              const struct shim_context *ctx)
{
    bool kernel = is_kernel(handle);
    param_info_fn info =
        (param_info_fn)api_get(kernel ? API_cuKernelGetParamInfo : API_cuFuncGetParamInfo);
    size_t offset, size;
    CUresult r;
    f->module = module_of(handle, &f->of_library);
    f->alike = f->of_library ? name_hash(handle) : 0;
    f->context = ctx->handle;
    atomic_store_explicit(&f->only, kernel ? ctx->handle : NULL, memory_order_relaxed);
    attributes_forget(f);
    atomic_store_explicit(&f->accepted, NULL, memory_order_relaxed);
    for (uint32_t i = 0; i < ESTIMATE_BUCKETS; i++)
        estimate_reset(&f->estimate[i], &f->key, i);
    atomic_store(&f->key.hash, 0);
    atomic_store(&f->seeded, false);
    atomic_store_explicit(&f->trace_name, 0, memory_order_relaxed);
    atomic_store_explicit(&f->waits, 0, memory_order_relaxed);
    f->params = f->bytes = 0;
    f->copyable = false;
    while ((r = info(handle, f->params, &offset, &size)) == CUDA_SUCCESS &&
           list_grow(&f->param, &f->param_room, f->params, sizeof(*f->param)) == 0) {
        f->param[f->params++] = (struct profile_param){(uint32_t)offset, (uint32_t)size};
        if (offset + size > f->bytes)
            f->bytes = (uint32_t)(offset + size);
    }
    /* INVALID_VALUE: one past the last parameter. Other errors: the driver cannot tell. */
    f->copyable = r == CUDA_ERROR_INVALID_VALUE;
}

static bool launched_in(const struct table_node *node, const void *context)
{
    const struct shim_function *f = (const struct shim_function *)(const void *)node;
    const void *only = atomic_load_explicit(&f->only, memory_order_relaxed);
    return !only || only == context || MUTANT(kernel_shape_shared);
}

struct shim_function *function_known(CUfunction handle, const struct shim_context *ctx)
{
    return (struct shim_function *)(void *)table_find_where(&functions, handle, launched_in,
                                                            ctx->handle);
}

/* Key of functions whose module or name is not known: any module or name may be theirs. */
static const char unknown;

/* Two names with one key are forgotten together, which costs little. */
static const void *name_key(const void *module, uint64_t alike)
{
    return alike ? (const void *)((uintptr_t)module ^ (uintptr_t)alike) : &unknown;
}

struct shim_function *function_find(CUfunction handle, const struct shim_context *ctx, uint32_t now)
{
    if (!handle)
        return NULL;
    struct shim_function *f = function_known(handle, ctx);
    struct shim_function *fresh = f ? NULL : pool_get(&function_pool);
    if (fresh) {
        /* The driver is asked before taking the lock, because it may load a module. */
        function_describe(fresh, handle, ctx);
        pthread_mutex_lock(&lock);
        f = function_known(handle, ctx);
        if (!f) {
            f = fresh;
            table_insert(&functions_of_module, &f->of_module, f->module ? f->module : &unknown);
            if (f->of_library || !f->module)
                table_insert(&functions_of_name, &f->of_name, name_key(f->module, f->alike));
            table_insert(&functions, &f->node, handle);
        }
        pthread_mutex_unlock(&lock);
        if (f != fresh)
            pool_put(&function_pool, fresh);
    }
    function_last = (struct function_last){handle, ctx, f, f ? now : 0};
    return f;
}

uint32_t function_trace_name(struct shim_function *f, CUfunction handle)
{
    uint32_t name = atomic_load_explicit(&f->trace_name, memory_order_relaxed);
    if (!name) {
        name = trace_name(function_name(handle));
        atomic_store_explicit(&f->trace_name, name, memory_order_relaxed);
    }
    return name;
}

void function_seed(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu)
{
    if (unlikely(!atomic_load_explicit(&f->seeded, memory_order_relaxed)) &&
        !atomic_exchange(&f->seeded, true)) {
        struct profile_row row[ESTIMATE_BUCKETS] = {0};
        uint64_t hash = profile_find(&f->key, handle, name_ask(handle), f->param, f->params, gpu,
                                     row, ESTIMATE_BUCKETS);
        for (uint32_t bucket = 0; bucket < ESTIMATE_BUCKETS; bucket++)
            if (row[bucket].mean_ns)
                estimate_seed(&f->estimate[bucket], row[bucket].mean_ns, row[bucket].upper_ns,
                              !row[bucket].at_most);
        atomic_store_explicit(&f->key.hash, hash, memory_order_release);
    }
}

/* ---- shapes ------------------------------------------------------------------------------- */

void function_shape_add(struct shim_function *f, uint64_t shape, uint32_t room)
{
    uint32_t at = (uint32_t)(shape >> 32) % FUNCTION_SHAPES;
    if (atomic_load_explicit(&f->shape[at], memory_order_relaxed))
        at ^= 1;
    /* A shape that is just being displaced may get this room for a moment. That affects only the
     * cap. */
    atomic_store_explicit(&f->room[at], room, memory_order_relaxed);
    atomic_store_explicit(&f->shape[at], shape, memory_order_relaxed);
}

void function_accepted(struct shim_function *f, CUcontext base)
{
    if (atomic_exchange_explicit(&f->accepted, base, memory_order_relaxed) != base)
        shapes_forget(f);
}

void function_cluster_ask(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu)
{
    bool kernel = is_kernel(handle);
    uint64_t cluster = 0;
    for (int i = 0; i < 3; i++) {
        CUfunction_attribute which =
            (CUfunction_attribute)(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i);
        int value = 0; /* drivers before 11.8 do not know the attribute */
        if (kernel)
            REAL(cuKernelGetAttribute)(&value, which, (CUkernel)(void *)handle, gpu->handle);
        else
            REAL(cuFuncGetAttribute)(&value, which, handle);
        cluster |= (uint64_t)(value & 0xffff) << 16 * i;
    }
    atomic_store_explicit(&f->cluster, cluster, memory_order_relaxed);
}

static void forget_any(struct table_node *n, void *unused)
{
    attributes_forget((struct shim_function *)(void *)n);
}

static void forget_of_name(struct table_node *n, void *unused)
{
    attributes_forget(TABLE_OWNER(struct shim_function, of_name, n));
}

void function_attributes_forget(CUfunction handle, struct shim_function *f)
{
    bool of_library = f && f->of_library;
    const void *module = f ? f->module : module_of(handle, &of_library);
    if (!of_library && module) {
        if (f)
            shapes_forget(f);
        return;
    }
    uint64_t alike = !of_library ? 0 : f ? f->alike : name_hash(handle);
    if (!alike || MUTANT(attributes_forget_all)) {
        table_each(&functions, NULL, forget_any, NULL);
        return;
    }
    table_each(&functions_of_name, name_key(module, alike), forget_of_name, NULL);
    table_each(&functions_of_name, &unknown, forget_of_name, NULL);
}

/* ---- kernels that wait -------------------------------------------------------------------- */

enum { LONG_NS = 1000000 };

/* values of shim_function.waits */
enum { NOT_ASKED, NOT_NAMED, WAITS };

_Atomic bool waiting_possible;
static _Atomic bool registered;

void waiting_registered(void)
{
    atomic_store_explicit(&registered, true, memory_order_relaxed);
    atomic_store_explicit(&waiting_possible, true, memory_order_relaxed);
}

bool waiting_kernel(struct shim_function *f, CUfunction handle, const struct estimate *e,
                    const struct gpu_device *gpu)
{
    static pthread_mutex_t page_lock = PTHREAD_MUTEX_INITIALIZER;
    static _Atomic(struct shim_function *) shown;
    struct cutin_page *page = client_page();
    uint32_t waits = atomic_load_explicit(&f->waits, memory_order_relaxed);
    if (waits == NOT_ASKED) {
        /* Patterns of fnmatch(3), separated by commas. */
        char list[sizeof(((struct config *)0)->waiting_kernels)], *rest = list, *pattern;
        const char *name = function_name(handle);
        strcpy(list, config_get()->waiting_kernels);
        for (waits = NOT_NAMED; (pattern = strsep(&rest, ","));)
            if (fnmatch(pattern, name, 0) == 0)
                waits = WAITS;
        atomic_store_explicit(&f->waits, waits, memory_order_relaxed);
    }
    if (waits == NOT_NAMED && atomic_load_explicit(&registered, memory_order_relaxed) &&
        atomic_load_explicit(&e->learned.mean_ns, memory_order_relaxed) >= LONG_NS) {
        atomic_store_explicit(&f->waits, waits = WAITS, memory_order_relaxed);
        log_line(LOG_INFO,
                 "kernel %.64s counts as waiting for I/O: it takes over a millisecond, and the "
                 "process has registered I/O memory",
                 function_name(handle));
    }
    if (waits == WAITS && page && gpu->index >= 0 && atomic_exchange(&shown, f) != f) {
        char *to = page->device[gpu->index].io_kernel;
        pthread_mutex_lock(&page_lock);
        snprintf(to, sizeof(page->device[gpu->index].io_kernel), "%s", function_name(handle));
        pthread_mutex_unlock(&page_lock);
    }
    return waits == WAITS;
}

/* ---- life cycle --------------------------------------------------------------------------- */

void function_origin_add(const void *handle, CUlibrary library, bool kernel)
{
    pthread_mutex_lock(&lock);
    struct origin *o = origin_of(handle);
    bool known = o, moves = !known || o->library != library;
    if (known && moves)
        table_remove(&origins_of_library, &o->of_library);
    if (known || (o = pool_get(&origin_pool))) {
        o->library = library;
        o->kernel = kernel;
        if (moves)
            table_insert(&origins_of_library, &o->of_library, library);
        if (!known)
            table_insert(&origins, &o->node, handle);
    }
    pthread_mutex_unlock(&lock);
}

void function_origin_copy(const void *made, const void *of)
{
    const struct origin *o = origin_of(of);
    if (o && made != of)
        function_origin_add(made, o->library, false);
}

static bool function_of_context(const struct table_node *node, const void *context)
{
    return TABLE_OWNER(struct shim_function, of_module, node)->context == context;
}

/* The functions are no longer in `functions_of_module`. */
static void functions_forget(struct table_node *n)
{
    for (struct table_node *next; n; n = next) {
        struct shim_function *f = TABLE_OWNER(struct shim_function, of_module, n);
        next = n->next[0];
        table_remove(&functions_of_name, &f->of_name);
        table_remove(&functions, &f->node);
        pool_put(&function_pool, f);
    }
}

void function_forget_module(const void *module)
{
    pthread_mutex_lock(&lock);
    struct table_node *next, *n = NULL;
    if (module) {
        functions_forget(table_take(&functions_of_module, module, NULL, NULL));
        n = table_take(&origins_of_library, module, NULL, NULL);
    }
    functions_forget(table_take(&functions_of_module, &unknown, NULL, NULL));
    for (; n; n = next) {
        struct origin *o = TABLE_OWNER(struct origin, of_library, n);
        next = n->next[0];
        table_remove(&origins, &o->node);
        pool_put(&origin_pool, o);
    }
    atomic_fetch_add_explicit(&function_generation, 1, memory_order_release);
    pthread_mutex_unlock(&lock);
}

static void functions_end(struct shim_context *ctx, bool alive)
{
    pthread_mutex_lock(&lock);
    functions_forget(table_take(&functions_of_module, NULL, function_of_context, ctx->handle));
    atomic_fetch_add_explicit(&function_generation, 1, memory_order_release);
    pthread_mutex_unlock(&lock);
}
CONTEXT_END(CONTEXT_ENDED, functions_end)
