/*
 * module.h - modules, libraries and their functions. A library has no context: for each context
 * that asks, a module is made from the library's image.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_MODULE_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_MODULE_H

#include "tools/simgpu/device/context.h"
#include "tools/simgpu/face/handle.h"
#include "tools/simgpu/program/image.h"
#include "tools/simgpu/program/kernels.h"
#include "tools/simgpu/device/times.h"

struct sim_module;
struct sim_library;

/* What the calls from before CUDA 4.0 prepare for cuLaunch. */
struct old_launch {
    unsigned int block[3], smem;
    size_t packed_bytes;
    unsigned char packed[4096];
};

/* What may be set. A kernel has a value for each device, a function for that of its context. Where
 * the function of a library's module has none (OF_KERNEL), the kernel's holds. */
enum { FUNCTION_DEVICES = 8, OF_KERNEL = INT32_MIN };
enum function_setting {
    MAX_DYNAMIC_SMEM,
    CARVEOUT,
    CLUSTER, /* x, y, z of every launch that does not give its own; 0: none */
    FUNCTION_SETTINGS = CLUSTER + 3,
};

struct sim_function {
    struct handle handle;
    const struct image_entry *entry;
    const struct kernel_model *model;         /* NULL: the simulator does not know the kernel */
    struct sim_module *module;                /* of a CUfunction */
    struct sim_library *library;              /* of a CUkernel, and of its functions */
    struct sim_function *kernel;              /* of a library's CUfunction; NULL otherwise */
    _Atomic(const struct times_list *) times; /* of an unknown kernel; NULL: not looked up */
    _Atomic bool loaded;
    _Atomic bool overridden; /* of a CUkernel: one of its functions has a setting */
    _Atomic int settings[FUNCTION_DEVICES][FUNCTION_SETTINGS]; /* by ordinal */
    struct old_launch *old;                                    /* NULL until it is used */
};

struct sim_module {
    struct handle handle;
    struct sim_context *context;
    struct sim_library *library; /* the one that it was made from; NULL: none */
    struct image *image;
    struct sim_function **functions; /* in the image's order */
    CUdeviceptr *globals;            /* in the image's order */
    struct sim_module *prev, *next;  /* all modules */
};

struct sim_library {
    struct handle handle;
    struct image *image;
    struct sim_function **kernels;
    CUdeviceptr *managed; /* in the order of the image's globals; 0: not managed */
};

/* module.c */
CUresult module_make(struct sim_context *ctx, struct image *image, struct sim_library *library,
                     struct sim_module **out);
/* The newest module of that context and library; NULL: of any. */
struct sim_module *module_newest(const struct sim_context *ctx, const struct sim_library *library);
void modules_of_library_end(struct sim_library *library);
/* Loads what is loaded lazily. The calling thread waits for as long as that takes. */
void function_load(struct sim_function *f);
/* Makes a variable with its first value; 0: no memory. A managed one belongs to no context. */
CUdeviceptr global_make(struct sim_context *ctx, const struct image_global *g);
/* Finds the image's variable of that name, if `addresses` has one for it. */
CUresult global_find(const struct image *image, const CUdeviceptr *addresses, const char *name,
                     CUdeviceptr *at, size_t *bytes);
CUmodule module_handle(const struct sim_module *m);

/* The value that holds for a launch in the context. */
int function_setting(const struct sim_function *f, struct sim_context *ctx, int setting);

/* Makes all functions of an image, live. NULL: no memory. */
struct sim_function **functions_make(struct image *image, struct sim_module *m,
                                     struct sim_library *l);
void functions_end(struct sim_function **functions, size_t count);
/* The answers of GetFunction and EnumerateFunctions, for functions and for kernels, whose handles
 * are alike. */
CUresult functions_get(struct sim_function *const *functions, const struct image *image,
                       const char *name, CUfunction *out);
CUresult functions_list(struct sim_function *const *functions, const struct image *image,
                        CUfunction *out, unsigned int count);
/* Reads an image from memory, or from a file if `path` is not NULL; it has one user.
 * CUDA_ERROR_INVALID_VALUE: both are NULL; the errors of image_read. */
CUresult image_open(const void *data, const char *path, struct image **out);
struct image *image_share(struct image *image);
void image_unshare(struct image *image);

/* The function of a CUfunction or CUkernel; NULL unless live. */
struct sim_function *function_find(CUfunction handle);
CUfunction function_handle(const struct sim_function *f);
const struct sim_param *function_param(const struct sim_function *f, size_t index);

/* launch.c: the most bytes of parameters, from CUDA 12.1 on. */
enum { LAUNCH_PACKED_MAX = 32764 };
/*
 * Checks a launch as cuLaunchKernelEx does, and builds its work: blob = `packed` (room for
 * LAUNCH_PACKED_MAX), func, node_type, name, occupancy and modelled cost. It ignores
 * config->hStream. Kernel nodes of graphs use it, too.
 */
CUresult launch_prepare(struct sim_context *ctx, const CUlaunchConfig *config, CUfunction f,
                        void **params, void **extra, void *packed, struct work *w);

/* function.c: how many blocks of a launch fit an SM; 0: none. */
int launch_blocks_per_sm(const struct sim_function *f, const CUlaunchConfig *c);

enum {
    BLOCK_THREADS = 1024,
    BLOCK_SMEM = 49152, /* unless the function is given more */
    BLOCK_SMEM_RESERVED = 1024,
};

#endif
