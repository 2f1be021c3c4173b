/*
 * function.h - a kernel as the shim sees it: the layout of its parameters, the launches of it that
 * the driver has accepted, how long it runs, and whether it waits.
 */
#ifndef CUTIN_SHIM_LEARN_FUNCTION_H
#define CUTIN_SHIM_LEARN_FUNCTION_H

#include "shim/learn/estimate.h"
#include "shim/learn/profile.h"
#include "shim/handles/table.h"

enum { FUNCTION_SHAPES = 32, FUNCTION_ATTRIBUTES = 20 };

struct shim_function {
    struct table_node node;               /* by CUfunction, or by CUkernel if that is launched */
    struct table_node of_module, of_name; /* by what is forgotten together */
    void *free_next;
    /* A CUkernel may be launched in any context, and what the driver accepts depends on the device.
     * So this is for launches in that CUcontext. NULL: a CUfunction, which has one context. */
    _Atomic(const void *) only;
    const void *module;  /* CUmodule or CUlibrary with which it ends; NULL: not known */
    const void *context; /* CUcontext with which it ends */
    bool of_library; /* shares its attributes with a kernel and functions in other contexts ... */
    uint64_t alike;  /* ... of this name, hashed; 0: which ones is not known */
    struct profile_param *param;
    uint32_t params;
    size_t param_room;
    uint32_t bytes; /* all parameters, packed as the kernel sees them */
    bool copyable;  /* the driver told the layout */
    /* Launch shapes that the driver has accepted (launch.c), hashed. Lock free, may forget. */
    _Atomic uint64_t shape[FUNCTION_SHAPES];
    _Atomic uint32_t
        room[FUNCTION_SHAPES]; /* blocks of it that fit the device at a time; 0: not known */
    /* Blocks of a cluster, 16 bits for each dimension, if the code fixes them. 0: it does not, or
     * no shape is known. */
    _Atomic uint64_t cluster;
    CUcontext _Atomic accepted; /* the context in which shapes were; of a green one the primary */
    /* Values that the application has set: 1 + value, 0 = none. */
    _Atomic int64_t attribute[FUNCTION_ATTRIBUTES];
    struct estimate estimate[ESTIMATE_BUCKETS];
    _Atomic bool seeded; /* function_seed was called */
    struct profile_key key;
    _Atomic uint32_t trace_name; /* 0: not asked for yet */
    _Atomic uint32_t waits;      /* for waiting_kernel */
};

/* The function that the thread asked for last. Void once any has been forgotten since. */
extern _Atomic uint32_t function_generation;
extern _Thread_local struct function_last {
    CUfunction handle;
    const struct shim_context *context;
    struct shim_function *function;
    uint32_t generation;
} function_last __attribute__((tls_model("initial-exec")));
struct shim_function *function_find(CUfunction handle, const struct shim_context *ctx,
                                    uint32_t now);
/* The function of a handle that is launched in `ctx`; NULL: no memory. */
static inline struct shim_function *function_of(CUfunction handle, const struct shim_context *ctx)
{
    uint32_t now = atomic_load_explicit(&function_generation, memory_order_acquire);
    bool last = likely(function_last.handle == handle && function_last.context == ctx &&
                       function_last.generation == now);
    return last ? function_last.function : function_find(handle, ctx, now);
}
/* The same; NULL if it has not been launched. */
struct shim_function *function_known(CUfunction handle, const struct shim_context *ctx);
/* Called once the driver is known to accept the function: its estimates start from the profile. */
void function_seed(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu);
/* `room`: how many blocks of that shape fit the device at a time; 0: not known. */
static inline bool function_shape_known(const struct shim_function *f, uint64_t shape,
                                        uint32_t *room)
{
    /* each shape has two possible places */
    uint32_t at = (uint32_t)(shape >> 32) % FUNCTION_SHAPES;
    if (atomic_load_explicit(&f->shape[at], memory_order_relaxed) != shape)
        at ^= 1;
    *room = atomic_load_explicit(&f->room[at], memory_order_relaxed);
    return atomic_load_explicit(&f->shape[at], memory_order_relaxed) == shape;
}
void function_shape_add(struct shim_function *f, uint64_t shape, uint32_t room); /* if not known */
/* The number of a launch shape without attributes; 0: it does not fit. The fields have 59 bits; the
 * odd factor spreads them over the word, and different shapes stay different. */
static inline uint64_t function_shape_plain(const unsigned block[3], unsigned shared)
{
    enum { X = 11, Y = 11, Z = 7, SHARED = 30 };
    if (block[0] >> X || block[1] >> Y || block[2] >> Z || shared >> SHARED)
        return 0;
    uint64_t fields = ((uint64_t)block[0] << Y | block[1]) << Z | block[2];
    return (UINT64_C(1) << 63 | fields << SHARED | shared) * UINT64_C(0x9e3779b97f4a7c15);
}
/* Call before adding a shape: the driver has accepted it in this context. In any other it refuses a
 * module's function. */
void function_accepted(struct shim_function *f, CUcontext base);
/* Call before adding a shape: asks for the clusters that the code fixes. */
void function_cluster_ask(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu);

/* Its attributes may have changed by this handle: forgets what depends on them. */
void function_attributes_forget(CUfunction handle, struct shim_function *f); /* NULL: not known */
static inline bool function_attribute_is(const struct shim_function *f, CUfunction_attribute which,
                                         int value)
{
    return (unsigned)which < FUNCTION_ATTRIBUTES &&
           atomic_load_explicit(&f->attribute[which], memory_order_relaxed) == (int64_t)value + 1 &&
           value >= 0;
}
static inline void function_attribute_set(struct shim_function *f, CUfunction_attribute which,
                                          int value)
{
    if ((unsigned)which < FUNCTION_ATTRIBUTES)
        atomic_store_explicit(&f->attribute[which], (int64_t)value + 1, memory_order_relaxed);
}

/* The driver's name for it; "kernel" where the driver does not tell. */
const char *function_name(CUfunction handle);
/* Its name in the trace that is being written. */
uint32_t function_trace_name(struct shim_function *f, CUfunction handle);

/*
 * Kernels that wait for I/O which they began themselves, of storage or a network. How long one runs
 * says nothing about what it computes. So it is not learned from, and for the cap it is as long as
 * the budget, whatever that is: others of its process go beside it, and at most one more of its own
 * stream. CUTIN_WAITING_KERNELS names such kernels. Others are recognised: those that take a
 * millisecond in a process that has registered I/O memory with the driver.
 */
extern _Atomic bool waiting_possible; /* set with each context if there is a list of names, too */
/* May this process have such kernels? Costs one load. */
static inline bool waiting_any(void)
{
    return unlikely(atomic_load_explicit(&waiting_possible, memory_order_relaxed));
}
/* I/O memory has been registered. */
void waiting_registered(void);
/* Does a launch of it wait, by its name or by the time that its grid takes? Then the process's page
 * shows its name. */
bool waiting_kernel(struct shim_function *f, CUfunction handle, const struct estimate *e,
                    const struct gpu_device *gpu);

/* Life cycle of what functions come from: a library's handle was made. */
void function_origin_add(const void *handle, CUlibrary library,
                         bool kernel); /* else a module or function */
/* The driver returned `made` for `of`, a kernel or function: both are of the same library. */
void function_origin_copy(const void *made, const void *of);
void function_forget_module(const void *module);

#endif
