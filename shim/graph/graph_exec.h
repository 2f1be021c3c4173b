/*
 * graph_exec.h - an executable graph as the shim sees it.
 */
#ifndef CUTIN_SHIM_GRAPH_GRAPH_EXEC_H
#define CUTIN_SHIM_GRAPH_GRAPH_EXEC_H

#include "shim/objects/context.h"
#include "shim/learn/estimate.h"

struct asides;
struct graph_copy;

struct exec {
    struct table_node node; /* by CUgraphExec */
    _Atomic uint32_t locked;
    struct vhq_fence *fence; /* latest launch */
    struct shim_context *ctx;
    _Atomic bool launched; /* the driver has accepted one launch */
    bool memory;           /* it allocates: the driver looks at a launch whether that was freed */
    bool waits;            /* it has nodes that may wait for something outside */
    struct estimate estimate;
    uint64_t kernels_ns; /* estimated sum of its kernels, until launches are timed; 0: unknown */
    struct graph_copy *copy; /* with gates; NULL: none */
    struct asides *asides;   /* other devices; NULL: none */
    void *free_next;
};

/* The record of a handle; NULL: none. exec_of makes one (NULL: no memory). */
struct exec *exec_find(CUgraphExec handle);
struct exec *exec_of(CUgraphExec handle);
/* The driver has made this handle anew: a record without a past. NULL: no memory. */
struct exec *exec_new(CUgraphExec handle);
/* Some executable graph has nodes that wait. */
extern _Atomic bool exec_waits_seen;

/* The fence of the latest launch, in exchange for another; with the reference. */
struct vhq_fence *exec_swap(struct exec *e, struct vhq_fence *fence);
/* All its launches have been submitted. */
bool exec_unfence(struct exec *e);
/* The handle is about to go: nobody finds it any more. */
void exec_remove(struct exec *e);
/* Nobody uses the record any more. */
void exec_put(struct exec *e);

/* What a launch counts as. */
uint64_t exec_estimate_ns(const struct exec *e);

#endif
