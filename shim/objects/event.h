/*
 * event.h - a CUDA event as the shim sees it: the fence of its latest record.
 */
#ifndef CUTIN_SHIM_EVENT_H
#define CUTIN_SHIM_EVENT_H

#include "shim/lookup/shim.h"
#include "shim/objects/stream.h"
#include "shim/objects/table.h"
#include "vhq/vhq.h"

struct shim_event {
    struct table_node node; /* by CUevent */
    CUevent handle;
    CUcontext context;                 /* that it was created in */
    _Atomic uint32_t locked;           /* a few instructions at most */
    _Atomic(struct vhq_fence *) fence; /* latest record; NULL: it was submitted */
    bool waited;                       /* some vHQ was told to wait for that record */
    bool interprocess;                 /* others see its records: never deferred */
    _Atomic bool captured;             /* the latest record went into a graph */
    /* Where the latest record went, for what its completion says about the stream (schedule.h). Two
     * threads may record at a time: the three are of one record where `seal` is made of the
     * others. */
    _Atomic(struct shim_stream *) stream;
    _Atomic uint64_t epoch, seal;
    void *free_next;
};

/* A reference to the fence of the latest record, NULL if that was submitted. Marks it as waited for
 * when `waits`. */
struct vhq_fence *event_fence(struct shim_event *ev, bool waits);
/* The shared event's records and waits are never deferred. */
void event_share(CUevent handle);

/* It is recorded in the driver, behind everything of some context, and stands for no stream. */
void event_record_begins(CUevent handle);
void event_recorded(CUevent handle);

/* Some graph of this process has nodes that record an event or wait for one, or had: one relaxed
 * load. */
extern _Atomic bool event_nodes_seen;
/* Such a node is being made. From now on a launch of any graph goes after everything buffered, and
 * before anything later: what it records no fence stands for. */
static inline void event_node_begins(void)
{
    atomic_store_explicit(&event_nodes_seen, true, memory_order_relaxed);
}

#endif
