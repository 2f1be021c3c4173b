/*
 * function.h - a kernel as the shim sees it: how its parameters lie, which launches of it have been
 * seen to work, how long it runs.
 */
#ifndef CUTIN_SHIM_LEARN_FUNCTION_H
#define CUTIN_SHIM_LEARN_FUNCTION_H

#include "shim/learn/estimate.h"
#include "shim/learn/profile.h"
#include "shim/handles/table.h"

struct gpu_device;
struct shim_context;

enum { FUNCTION_SHAPES = 32, FUNCTION_ATTRIBUTES = 20 };

struct shim_function {
    struct table_node node;               /* by CUfunction, or CUkernel where that is launched */
    struct table_node of_module, of_name; /* by what is forgotten of it together */
    void *free_next;
    /* A CUkernel is launched in any context, and what the driver accepts differs from device to
     * device: the CUcontext whose launches this is for. NULL: a CUfunction, which has one
     * context. */
    _Atomic(const void *) only;
    const void *module;  /* CUmodule or CUlibrary that it goes with; NULL: not known */
    const void *context; /* CUcontext that it goes with */
    bool of_library; /* shares its attributes with a kernel and functions in other contexts ... */
    uint64_t alike;  /* ... of this name, hashed; 0: which ones is not known */
    struct profile_param *param;
    uint32_t params;
    size_t param_room;
    uint32_t bytes; /* of all parameters, packed as the kernel sees them */
    bool copyable;  /* the driver told the layout */
    /* Launch shapes that the driver has accepted (launch.c), hashed. Lock free, may forget. */
    _Atomic uint64_t shape[FUNCTION_SHAPES];
    _Atomic uint32_t
        room[FUNCTION_SHAPES]; /* blocks of it that fit the device at a time; 0: not known */
    /* Blocks of a cluster, 16 bits for each dimension, where its code says so; 0: it does not, or
     * no shape is known. */
    _Atomic uint64_t cluster;
    CUcontext _Atomic accepted; /* the context in which its shapes were; a green one's primary */
    /* Values that the application has set: 1 + value, 0 = none. */
    _Atomic int64_t attribute[FUNCTION_ATTRIBUTES];
    struct estimate estimate[ESTIMATE_BUCKETS];
    _Atomic bool seeded; /* function_seed was here */
    struct profile_key key;
    _Atomic uint32_t trace_name; /* 0: not asked for yet */
    _Atomic uint32_t waits;      /* waiting.c's */
};

/* The one that a thread asked for last. Void when some have been forgotten since. */
extern _Atomic uint32_t function_generation;
extern _Thread_local struct function_last {
    CUfunction handle;
    const struct shim_context *context;
    struct shim_function *function;
    uint32_t generation;
} function_last __attribute__((tls_model("initial-exec")));
struct shim_function *function_find(CUfunction handle, const struct shim_context *ctx,
                                    uint32_t now);
/* The function of a handle that is being launched in `ctx`; NULL: no memory. */
static inline struct shim_function *function_of(CUfunction handle, const struct shim_context *ctx)
{
    uint32_t now = atomic_load_explicit(&function_generation, memory_order_acquire);
    bool last = likely(function_last.handle == handle && function_last.context == ctx &&
                       function_last.generation == now);
    return last ? function_last.function : function_find(handle, ctx, now);
}
/* The same, NULL where it has not been launched. */
struct shim_function *function_known(CUfunction handle, const struct shim_context *ctx);
/* The driver is sure to know the function: what the profile knows about it becomes its estimate. */
void function_seed(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu);
/* `room`: how many of its blocks fit the device at a time, 0 where that is not known. */
static inline bool function_shape_known(const struct shim_function *f, uint64_t shape,
                                        uint32_t *room)
{
    /* two places for each */
    uint32_t at = (uint32_t)(shape >> 32) % FUNCTION_SHAPES;
    if (atomic_load_explicit(&f->shape[at], memory_order_relaxed) != shape)
        at ^= 1;
    *room = atomic_load_explicit(&f->room[at], memory_order_relaxed);
    return atomic_load_explicit(&f->shape[at], memory_order_relaxed) == shape;
}
void function_shape_add(struct shim_function *f, uint64_t shape, uint32_t room); /* one not known */
/* A launch without attributes, told by a number; 0: there is no room for it. Fields of 59 bits, and
 * what is spread over the word by an odd factor still differs where it differed. */
static inline uint64_t function_shape_plain(const unsigned block[3], unsigned shared)
{
    enum { X = 11, Y = 11, Z = 7, SHARED = 30 };
    if (block[0] >> X || block[1] >> Y || block[2] >> Z || shared >> SHARED)
        return 0;
    uint64_t fields = ((uint64_t)block[0] << Y | block[1]) << Z | block[2];
    return (UINT64_C(1) << 63 | fields << SHARED | shared) * UINT64_C(0x9e3779b97f4a7c15);
}
/* Before a shape is added: in this context. In another one the driver refuses a module's
 * function. */
void function_accepted(struct shim_function *f, CUcontext base);
static inline bool function_belongs(const struct shim_function *f, CUcontext base)
{
    return atomic_load_explicit(&f->accepted, memory_order_relaxed) == base;
}
/* Before a shape is added: ask what clusters the code makes. */
void function_cluster_ask(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu);

/* And so may its attributes, by way of this handle. */
void function_attributes_forget(CUfunction handle, struct shim_function *f); /* NULL: not known */
bool function_attribute_is(const struct shim_function *f, CUfunction_attribute which, int value);
void function_attribute_set(struct shim_function *f, CUfunction_attribute which, int value);

/* What the driver calls it; "kernel" where it does not say. */
const char *function_name(CUfunction handle);
/* What it is called in the trace that is written. */
uint32_t function_trace_name(struct shim_function *f, CUfunction handle);

/* Life cycle of what functions come from. */
void function_made(const void *handle, CUlibrary library,
                   bool kernel); /* else a module, a function */
/* A function or a module that the driver told for a kernel or a function: of the same library. */
void function_handle_made(const void *made, const void *of);
void function_forget_module(const void *module);

#endif
