/*
 * pieces.h - a large copy of a stream with a queue goes to the driver in pieces, so that holds and
 * other copies can come between them. To the program it is one command: it has one place in the
 * order, and is complete with its last piece.
 *
 * A copy that fails reports the error at its call, and copies nothing. So a copy is cut only if the
 * driver cannot refuse its range: its memory is known to be there, in whole rows, with no arrays.
 */
#ifndef CUTIN_SHIM_PATH_PIECES_H
#define CUTIN_SHIM_PATH_PIECES_H

#include "shim/path/call.h"

enum copy_way { COPY_UP, COPY_DOWN, COPY_WITHIN, COPY_WAYS };

struct pieces {
    const struct vhq_learned *learned; /* comes first, as VHQ_LEARNS demands */
    CUstream stream;
    struct vhq *q;
    struct estimate *estimate;
    struct shim_context *ctx;
    CUresult (*copy)(const struct pieces *p, size_t at, size_t *n); /* copies `n` or fewer */
    size_t total, each, most, done; /* in bytes or rows; `most`: at a time, while alone */
};

/* What describes a copy, on the stack of the function that calls the driver. */
typedef CUresult linear_copy(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream);
struct linear {
    struct pieces pieces;
    linear_copy *copy;
    CUdeviceptr dst, src;
};
typedef CUresult box_copy(const CUDA_MEMCPY3D *op, CUstream stream);
struct box {
    struct pieces pieces;
    box_copy *copy;
    CUDA_MEMCPY3D op;
};

enum { PIECES_FROM = 4 << 20 };
static inline bool pieces_large(const struct shim_stream *s, size_t bytes)
{
    uint32_t least = config_get()->copy_bytes;
    return s && s->q && unlikely(bytes > (least ? least : PIECES_FROM));
}

/* Lets the prepared call `c` on `s` go in pieces, or leaves it as it is. */
void linear_cut(struct linear *l, struct call *c, const struct shim_stream *s, enum copy_way way,
                linear_copy *copy, CUdeviceptr dst, CUdeviceptr src, size_t bytes);
void box_cut(struct box *b, struct call *c, const struct shim_stream *s, box_copy *copy,
             CUDA_MEMCPY3D op);
/* One side of a copy: rows `pitch` apart, layers of `height` rows. */
struct side {
    CUmemorytype type;
    uintptr_t base;
    size_t x, y, z, pitch, height;
};
#define SIDE(op, side)                                                                             \
    {(op)->side##MemoryType,                                                                       \
     (op)->side##MemoryType == CU_MEMORYTYPE_HOST ? (uintptr_t)(op)->side##Host                    \
                                                  : (uintptr_t)(op)->side##Device,                 \
     (op)->side##XInBytes,                                                                         \
     (op)->side##Y,                                                                                \
     (op)->side##Z,                                                                                \
     (op)->side##Pitch,                                                                            \
     (op)->side##Height}

/* A rectangle is a box of one layer. */
CUDA_MEMCPY3D box_of(const CUDA_MEMCPY2D *op);
/* The way of a copy between any two addresses. */
enum copy_way copy_way(CUdeviceptr dst, CUdeviceptr src);

/* Cut the call of a wrapper that has a `sym`_piece. */
#define ADDRESS(p) ((CUdeviceptr)(uintptr_t)(p))
#define CUT(sym, way, dst, src)                                                                    \
    struct linear l;                                                                               \
    if (pieces_large(s, ByteCount))                                                                \
        linear_cut(&l, &c, s, way, sym##_piece, ADDRESS(dst), ADDRESS(src), ByteCount);
#define CUT_ROWS(sym, bytes, all)                                                                  \
    struct box b;                                                                                  \
    if (pieces_large(s, bytes))                                                                    \
        box_cut(&b, &c, s, sym##_piece, all);

#endif
