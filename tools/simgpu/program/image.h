/*
 * image.h - what a module image declares, in any form (PTX text, cubin, fat binary): entries with
 * the places of their parameters, and global variables. ptx.c reads the text, image.c cubins,
 * fatbin.c what contains both.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_IMAGE_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_IMAGE_H

#include "tools/simgpu/face/sim.h"

/* The place of a kernel's parameter in the packed buffer. */
struct sim_param {
    size_t offset, size;
};

struct image_entry {
    const char *name; /* from name_keep */
    struct sim_param *params;
    size_t param_count;
    size_t packed_bytes;
    unsigned int max_threads; /* .maxntid, .reqntid; 1024 if it has neither */
    size_t static_smem;
    size_t local_bytes;     /* of a thread */
    unsigned int registers; /* of a thread; 32 if the image does not say */
};

struct image_global {
    char *name;
    size_t bytes;
    bool managed;
    void *initial; /* NULL: zero */
};

struct image {
    struct image_entry *entries;
    struct image_global *globals;
    size_t entry_count, global_count;
    size_t const_bytes; /* of the program's own constants */
    unsigned int ptx_arch,
        binary_arch;    /* 80 means 8.0; of text binary_arch is 0: it is compiled for the device */
    unsigned int users; /* modules and libraries that share it; under module.c's lock */
};

/* Reads an image in any form. CUDA_ERROR_INVALID_VALUE (NULL), _INVALID_PTX, _INVALID_IMAGE,
 * _NO_BINARY_FOR_GPU (a container without a readable image), _OUT_OF_MEMORY. */
CUresult image_read(const void *data, struct image **out);
CUresult image_read_file(const char *path, struct image **out);
void image_free(struct image *image);

/* ptx.c: `text` ends with NUL or after `bytes`. CUDA_ERROR_INVALID_PTX, _OUT_OF_MEMORY. */
CUresult ptx_parse(const char *text, size_t bytes, struct image *into);
/* The same for one cubin (`bytes` 0: unknown), and for a fat binary without its wrapper. */
CUresult cubin_read(const unsigned char *data, size_t bytes, struct image *into);
CUresult fatbin_read(const unsigned char *data, size_t bytes, struct image *into);

/* names.c: one copy of these `length` bytes, as a string that lives as long as the process. Works
 * in flight, graph nodes and the event log name kernels whose image may be gone. NULL: no memory.
 * Thread safe. */
const char *name_keep(const char *text, size_t length);

/* For the readers: append an entry, a global, a parameter. The name is copied. NULL: no memory. */
struct image_entry *image_add_entry(struct image *image, const char *name, size_t length);
struct image_global *image_add_global(struct image *image, const char *name, size_t length);
bool entry_add_param(struct image_entry *e, size_t offset, size_t size);

#endif
