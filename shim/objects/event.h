/*
 * event.h - a CUDA event as the shim sees it: the fence of its latest record.
 */
#ifndef CUTIN_SHIM_OBJECTS_EVENT_H
#define CUTIN_SHIM_OBJECTS_EVENT_H

#include "shim/objects/stream.h"

struct shim_event {
    struct table_node node; /* by CUevent */
    CUevent handle;
    CUcontext context;                 /* that it was created in */
    _Atomic uint32_t locked;           /* a few instructions at most */
    _Atomic(struct vhq_fence *) fence; /* latest record; NULL: it was submitted. Release: some read
                                          its state without a reference */
    void *free_next;                   /* in one line of the cache with what its end looks at */
    bool waited;                       /* some vHQ was told to wait for that record */
    bool interprocess;                 /* others see its records: never deferred */
    bool untimed;                      /* created with CU_EVENT_DISABLE_TIMING */
    _Atomic bool captured;             /* the latest record went into a graph */
    _Atomic bool recorded;             /* somewhere, once, as far as is known */
    /* Where the latest record went, for what its completion says about the stream (schedule.h). Two
     * threads may record at a time: the three are of one record where `seal` is made of the
     * others. */
    _Atomic(struct shim_stream *) stream;
    _Atomic uint64_t epoch, seal;
};

/* NULL: not known. */
struct shim_event *event_find(CUevent handle);
struct shim_event *event_add(CUevent handle); /* new; NULL: no memory */
/* A handle of unknown origin that the driver has accepted. Until then nothing is kept of it: it may
 * be no event at all. */
struct shim_event *event_adopt(CUevent handle);
void event_forget(struct shim_event *ev);

/* Puts a new fence in place of that of the latest record, which is returned. */
struct vhq_fence *event_swap(struct shim_event *ev, struct vhq_fence *fence, bool *waited);
/* A reference to the fence of the latest record, NULL if that was submitted. Marks it as waited for
 * when `waits`. */
struct vhq_fence *event_fence(struct shim_event *ev, bool waits);
/* For a record that goes at once, and needs no fence. While there is none a wait asks nobody, and
 * so it may be if the record before was submitted and no wait for it is buffered: another thread's
 * wait at this moment may be for either record. False: there is a fence to displace. */
bool event_unfence(struct shim_event *ev);
/* The latest record was not submitted. */
bool event_buffered(struct shim_event *ev);
/* Where the latest record went; NULL: the event was never recorded, and its context is not
 * known. */
struct shim_context *event_context(const struct shim_event *ev);
/* The shared event's records and waits are never deferred. */
void event_share(CUevent handle);

/* Two events of the current context that tell times. False: the driver gives none. */
bool event_pair(CUevent *start, CUevent *end);

/* A record, seen before the driver hears of what is called. */
struct event_seen {
    struct shim_stream *stream;
    uint64_t epoch, seal;
};
/* Before the driver hears of a record: from then on its answers may be about this one. */
void event_unseal(struct shim_event *ev);
/* It went there, as the call that `epoch` stands for. */
void event_note(struct shim_event *ev, struct shim_stream *s, uint64_t epoch);
struct event_seen event_see(const struct shim_event *ev);
/* It is still the latest one, and was when the driver heard of the call. What other processes
 * record, too, may be theirs. */
bool event_same(const struct shim_event *ev, const struct event_seen *seen);

/* It was recorded in the driver by something else than a record of a stream. */
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
