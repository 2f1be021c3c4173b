/*
 * workload.h - a workload file (.cutw): what a CUDA program asked of the GPU, operation by
 * operation.
 *
 * `cutin-lab record` writes them, `cutin-lab replay` and `cutin-lab disb` read them. The file,
 * little-endian:
 *
 *   header    64 bytes   struct workload_header: magic "CUTINWL", version, counts, check sum
 *   names    multiple of 8 bytes: the kernels' names, whole, each with its NUL, then NULs
 *   ops       64 bytes   each: struct workload_op, in the order of the program's calls
 *
 * and nothing after them. In memory a workload has the same kernels and ops.
 *
 * An op is a kernel, a copy (or memset), or a sync: the program waited until its work was complete.
 *   at_ns        when the program made the call, counted from the first op's; it never falls. The
 *                gap before an op is the difference to the op before it. In a generated workload
 *                all of them may be 0: then nothing waits between the calls.
 *   duration_ns  how long the device took by itself; for a sync, how long the program waited.
 *   stream       0 to streams - 1, in the order of first use. A sync concerns the whole program.
 *
 * A *request* is all ops up to the next sync, with that sync and any directly after it
 * (workload_request_end): one inference or training step, for most programs. A workload without a
 * sync is one request. So is a generated model that ends with a sync.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Not thread safe. Errors are -errno, with one line in
 * `why`: -EBADMSG (foreign, truncated or damaged), -EPROTONOSUPPORT (another version), -E2BIG (too
 * large), -ENOMEM.
 */
#ifndef CUTIN_TOOLS_LAB_RECORD_WORKLOAD_H
#define CUTIN_TOOLS_LAB_RECORD_WORKLOAD_H

#include "common/list.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
    WORKLOAD_VERSION = 2,
    WORKLOAD_MOST_NAME_BYTES = 64 * 1024 * 1024,
    WORKLOAD_MOST_KERNELS = 65536,
    WORKLOAD_MOST_STREAMS = 4096,
    WORKLOAD_MOST_OPS = 16 * 1024 * 1024,
};
/* No op of a file takes longer, and no file lasts longer. */
#define WORKLOAD_MOST_OP_NS (3600 * UINT64_C(1000000000))
#define WORKLOAD_MOST_NS    (24 * WORKLOAD_MOST_OP_NS)

enum workload_kind { WORKLOAD_KERNEL = 1, WORKLOAD_COPY, WORKLOAD_SYNC };
enum workload_direction {
    WORKLOAD_TO_DEVICE,
    WORKLOAD_TO_HOST,
    WORKLOAD_ON_DEVICE,
    WORKLOAD_SET,
    WORKLOAD_DIRECTIONS
};

struct workload_op {
    uint64_t at_ns, duration_ns;
    uint64_t bytes; /* of a copy */
    uint32_t name;  /* of a kernel: the index of its name */
    uint32_t grid[3];
    uint32_t shared;   /* dynamic shared memory per block */
    uint16_t block[3]; /* threads */
    uint16_t stream;
    uint8_t kind;      /* enum workload_kind */
    uint8_t direction; /* enum workload_direction, of a copy */
    uint8_t zero[10];
};
static_assert(sizeof(struct workload_op) == 64 && offsetof(struct workload_op, kind) == 52,
              "the file's layout");

struct workload_header {
    char magic[8];         /* "CUTINWL" */
    uint32_t version;      /* WORKLOAD_VERSION */
    uint32_t header_bytes; /* 64 */
    uint32_t kernels, streams;
    uint64_t ops;
    uint64_t total_ns; /* from the first call until the last op was known complete */
    uint32_t crc;      /* CRC-32 (IEEE 802.3) of the whole file, with 0 here */
    uint32_t name_bytes;
    uint8_t zero[16];
};
static_assert(sizeof(struct workload_header) == 64, "the file's layout");

struct workload {
    char **kernel; /* names of the kernels */
    struct workload_op *op;
    uint64_t total_ns;
    uint32_t kernels, streams;
    size_t ops;
    size_t kernel_room, op_room;
};

/* A zeroed struct is an empty workload. Appending an op makes `streams` and `total_ns` at least as
 * large as it needs. */
int workload_add(struct workload *w, const struct workload_op *op);
/* The index of the kernel called `name`, which is added if it is new; or -ENOMEM, -E2BIG. */
int workload_kernel(struct workload *w, const char *name);
void workload_free(struct workload *w);

/* One past the last op of the request that begins with op `from`. */
size_t workload_request_end(const struct workload *w, size_t from);
/* Writes where each request begins, and where the last one ends: `start` has room for w->ops + 1.
 * Returns the number of requests. */
size_t workload_request_starts(const struct workload *w, size_t *start);
/* How many ops are of this kind. `sum_ns` gets the sum of their durations. */
size_t workload_count(const struct workload *w, enum workload_kind kind, uint64_t *sum_ns);

/* Writes a file beside `path`, which then replaces it, so `path` never has half a workload. */
int workload_write(const struct workload *w, const char *path, char *why, size_t why_bytes);
/* Checks everything: a workload that was read satisfies all that is said above. */
int workload_read(struct workload *w, const char *path, char *why, size_t why_bytes);
/* The same from memory. */
int workload_parse(struct workload *w, const void *data, size_t bytes, char *why, size_t why_bytes);

#endif
