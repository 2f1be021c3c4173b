/*
 * graph_exec.h - an executable graph as the shim sees it.
 */
#ifndef CUTIN_SHIM_GRAPH_GRAPH_EXEC_H
#define CUTIN_SHIM_GRAPH_GRAPH_EXEC_H

#include "shim/objects/context.h"
#include "shim/learn/estimate.h"

struct other_devices;
struct graph_copy;

struct exec {
    struct table_node node; /* by CUgraphExec */
    _Atomic uint32_t locked;
    struct vhq_fence *fence; /* of the latest launch */
    struct shim_context *ctx;
    _Atomic bool launched; /* the driver has accepted a launch */
    bool memory;           /* it allocates: at a launch the driver checks that it was freed */
    bool waits;            /* some nodes may wait for something outside */
    struct estimate estimate;
    uint64_t kernels_ns;     /* estimate of all its kernels, until launches are timed; 0: unknown */
    struct graph_copy *copy; /* the copy with gates; NULL: none */
    struct other_devices *other_devices; /* on other devices; NULL: none */
    void *free_next;
};

/* exec_find: the record of a handle; NULL: none. exec_of makes one (NULL: no memory). */
struct exec *exec_find(CUgraphExec handle);
struct exec *exec_of(CUgraphExec handle);
/* A new record: the driver has just made this handle. NULL: no memory. */
struct exec *exec_new(CUgraphExec handle);
/* Some executable graph has nodes that may wait. */
extern _Atomic bool exec_waits_seen;

/* Replaces the fence of the latest launch. Returns the old one with its reference. */
struct vhq_fence *exec_fence_swap(struct exec *e, struct vhq_fence *fence);
/* True: all its launches have been submitted, and it has no fence now. */
bool exec_unfence(struct exec *e);
/* The handle is about to end: it is not found any more. */
void exec_remove(struct exec *e);
/* The record is not used any more. */
void exec_free(struct exec *e);

/* The time for which a launch counts. */
uint64_t exec_estimate_ns(const struct exec *e);

#endif
