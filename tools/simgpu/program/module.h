/*
 * module.h - modules, libraries and the functions in them. A library is not bound to a context:
 * each context that asks gets a module of its own made from the library's image.
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

/* What the calls before CUDA 4.0 set up for cuLaunch. */
struct old_launch {
    unsigned int block[3], smem;
    size_t packed_bytes;
    unsigned char packed[4096];
};

/* What may be set. A kernel has it for each device, a function for that of its context, and what is
 * not set for the function of a library's module is its kernel's. */
enum { FUNCTION_DEVICES = 8, OF_KERNEL = INT32_MIN };
enum function_setting {
    MAX_DYNAMIC_SMEM,
    CARVEOUT,
    CLUSTER, /* x, y, z: that every launch has, unless it says so itself; 0: none */
    FUNCTION_SETTINGS = CLUSTER + 3,
};

struct sim_function {
    struct handle handle;
    const struct image_entry *entry;
    const struct kernel_model *model;         /* NULL: a kernel that the simulator does not know */
    struct sim_module *module;                /* of a CUfunction */
    struct sim_library *library;              /* of a CUkernel, and of its functions */
    struct sim_function *kernel;              /* of a library's CUfunction; NULL otherwise */
    _Atomic(const struct times_list *) times; /* of one that is not known; NULL: not looked up */
    _Atomic bool loaded;
    _Atomic bool overridden; /* a CUkernel: something is set for one of its functions */
    _Atomic int settings[FUNCTION_DEVICES][FUNCTION_SETTINGS]; /* by ordinal */
    struct old_launch *old;                                    /* NULL until used */
};

struct sim_module {
    struct handle handle;
    struct sim_context *context;
    struct sim_library *library; /* made from it; NULL otherwise */
    struct image *image;
    struct sim_function **functions; /* in the image's order */
    CUdeviceptr *globals;            /* likewise */
    struct sim_module *prev, *next;  /* all modules */
};

struct sim_library {
    struct handle handle;
    struct image *image;
    struct sim_function **kernels;
    CUdeviceptr *managed; /* in the order of the image's globals; 0 for others */
};

/* module.c */
CUresult module_make(struct sim_context *ctx, struct image *image, struct sim_library *library,
                     struct sim_module **out);
/* The newest of that context and library; NULL: of any. */
struct sim_module *module_newest(const struct sim_context *ctx, const struct sim_library *library);
void modules_of_library_end(struct sim_library *library);
/* What is loaded lazily is there from now on; the calling thread has waited for it. */
void function_load(struct sim_function *f);
/* A variable with its first value; 0: no memory. A managed one is of no context. */
CUdeviceptr global_make(struct sim_context *ctx, const struct image_global *g);
/* Of an image's variables the one of that name, if it has an address there. */
CUresult global_find(const struct image *image, const CUdeviceptr *addresses, const char *name,
                     CUdeviceptr *at, size_t *bytes);
CUmodule module_handle(const struct sim_module *m);

/* What a launch in the context heeds. */
int function_setting(const struct sim_function *f, struct sim_context *ctx, int setting);

/* All functions of an image, live; NULL without memory. */
struct sim_function **functions_make(struct image *image, struct sim_module *m,
                                     struct sim_library *l);
void functions_end(struct sim_function **functions, size_t count);
/* What GetFunction and EnumerateFunctions answer; of kernels, whose handles are alike, too. */
CUresult functions_get(struct sim_function *const *functions, const struct image *image,
                       const char *name, CUfunction *out);
CUresult functions_list(struct sim_function *const *functions, const struct image *image,
                        CUfunction *out, unsigned int count);
/* An image from memory, or from a file where `path` says so, with one user.
 * CUDA_ERROR_INVALID_VALUE: neither is given; image_read's errors. */
CUresult image_open(const void *data, const char *path, struct image **out);
struct image *image_share(struct image *image);
void image_unshare(struct image *image);

/* What a handle names, and what it says. */
/* CUfunction or CUkernel -> function; NULL unless live. */
struct sim_function *function_find(CUfunction handle);
CUfunction function_handle(const struct sim_function *f);
const struct sim_param *function_param(const struct sim_function *f, size_t index);

/* launch.c: bytes of parameters, from CUDA 12.1 on. */
enum { LAUNCH_PACKED_MAX = 32764 };
/*
 * Check a launch as cuLaunchKernelEx does and build its work: blob = `packed` (room for
 * LAUNCH_PACKED_MAX), func, node_type, name, occupancy and modelled cost. config->hStream is not
 * looked at. For kernel nodes of graphs too.
 */
CUresult launch_prepare(struct sim_context *ctx, const CUlaunchConfig *config, CUfunction f,
                        void **params, void **extra, void *packed, struct work *w);

/* function.c: how many of a launch's blocks fit an SM; 0 = none. */
int launch_blocks_per_sm(const struct sim_function *f, const CUlaunchConfig *c);

enum {
    BLOCK_THREADS = 1024,
    BLOCK_SMEM = 49152, /* without asking */
    BLOCK_SMEM_RESERVED = 1024,
};

#endif
