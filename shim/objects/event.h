/*
 * event.h - a CUDA event as the shim sees it: the fence of its latest record.
 */
#ifndef CUTIN_SHIM_OBJECTS_EVENT_H
#define CUTIN_SHIM_OBJECTS_EVENT_H

#include "shim/objects/stream.h"

struct shim_event {
    struct table_node node; /* by CUevent */
    CUevent handle;
    CUcontext context;                 /* in which it was created */
    _Atomic uint32_t locked;           /* spinlock, held for a few instructions */
    _Atomic(struct vhq_fence *) fence; /* of the latest record; NULL: that was submitted. Release:
                                        * it is read without a reference */
    void *free_next;                   /* shares a cache line with what the event's end reads */
    bool waited;                       /* some vHQ was told to wait for that record */
    bool interprocess;                 /* shared with other processes: never deferred */
    bool untimed;                      /* created with CU_EVENT_DISABLE_TIMING */
    _Atomic bool captured;             /* the latest record went into a graph */
    _Atomic bool recorded;             /* the latest record was captured into a graph */
    /* Where the latest record went: its completion tells about that stream (stream.h). Two
     * threads may record at a time: the three fields belong to one record if `seal` is computed
     * from the other two. */
    _Atomic(struct shim_stream *) stream;
    _Atomic uint64_t epoch, seal;
};

/* NULL: the event is not known. */
struct shim_event *event_find(CUevent handle);
void event_add(CUevent handle, unsigned flags); /* new, created with these flags */
/* Makes a handle of unknown origin known, once the driver has accepted it as an event. */
struct shim_event *event_adopt(CUevent handle);
void event_forget(struct shim_event *ev);

/* Replaces the fence of the latest record, and returns the old one. */
struct vhq_fence *event_fence_swap(struct shim_event *ev, struct vhq_fence *fence, bool *waited);
/* A reference to the fence of the latest record; NULL: that was submitted. `waits`: for a wait. */
struct vhq_fence *event_fence_get(struct shim_event *ev, bool waits);
/* For a record that goes to the driver at once and needs no fence. Without one a wait follows
 * nothing. That is right if the record before was submitted and no wait for it is buffered: another
 * thread's wait may mean either record now. False: there is a fence to displace. */
bool event_unfence(struct shim_event *ev);
/* Is the latest record still buffered? */
bool event_buffered(struct shim_event *ev);
/* The context of the latest record, or else the event's own; NULL: neither is known. */
struct shim_context *event_context(const struct shim_event *ev);
/* The event is shared with other processes: its records and waits are never deferred. */
void event_share(CUevent handle);

/* Makes two events with timing in the current context. False: the driver gives none. */
bool event_pair(CUevent *start, CUevent *end);

/* A record, read before the driver gets the call that depends on it. */
struct event_seen {
    struct shim_stream *stream;
    uint64_t epoch, seal;
};
/* Before the driver gets a record: from then on its answers may be about this record. */
static inline void event_unseal(struct shim_event *ev)
{
    atomic_store_explicit(&ev->seal, 0, memory_order_relaxed);
}
/* The latest record went into that stream, as the call that `epoch` stands for. */
void event_note(struct shim_event *ev, struct shim_stream *s, uint64_t epoch);
struct event_seen event_snapshot(const struct shim_event *ev);
/* Is `seen` still the latest record, and was it when the driver got the call? False for events that
 * other processes may record, too. */
bool event_same(const struct shim_event *ev, const struct event_seen *seen);

/* The event was recorded in the driver by something other than a record into a stream. */
void event_clear_captured(CUevent handle);

/* Some graph of this process has or had nodes that record an event or wait for one. */
extern _Atomic bool event_nodes_seen;
/* Such a node is being made. From now on the launch of any graph goes after everything buffered
 * before it, and before anything later, because no fence stands for the records that it makes. */
static inline void event_node_begins(void)
{
    atomic_store_explicit(&event_nodes_seen, true, memory_order_relaxed);
}

#endif
