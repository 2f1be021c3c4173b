/*
 * event.h - an event: a point in a stream, and when it was reached.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_EVENT_H
#define CUTIN_TOOLS_SIMGPU_STREAM_EVENT_H

#include "tools/simgpu/face/handle.h"
#include "tools/simgpu/face/sim.h"

#include <pthread.h>
#include <stdatomic.h>

struct sim_event {
    struct handle handle;
    struct sim_context *context;
    unsigned int flags;   /* CU_EVENT_* */
    pthread_mutex_t lock; /* of all below; made once, and kept when the slot is used again */
    bool made;
    unsigned int users; /* the handle, and the records on their way */
    uint64_t records;   /* how often recorded */
    uint64_t reached;   /* the last record that was reached */
    uint64_t reached_at_ns;
    struct point at;          /* the last record of this process */
    _Atomic uint64_t *shared; /* event_ipc.c: the last record of any process; NULL: not shared */
    bool imported;
    struct capture_mark *capture_mark; /* capture.c's; NULL unless last recorded while capturing */
};

/* The live event with this handle, or NULL. */
struct sim_event *event_find(CUevent handle);
/* The work of a wait for a point. A wait for another process's point has to poll. */
struct work event_wait_work(struct point at);
/* Makes an event of a context; NULL: too many. It has no handle before handle_publish. */
struct sim_event *event_make(struct sim_context *ctx, unsigned int flags);

/* Records the event as the next work of s, behind the points as well. CUDA_ERROR_INVALID_HANDLE. */
CUresult event_record_after(CUevent event, struct sim_stream *s, const struct point *after,
                            size_t n, struct point *out);
/* The point that a wait for the event would wait for ({0, 0}: none); CUDA_ERROR_INVALID_HANDLE. */
CUresult event_last_point(CUevent event, struct point *out);

/* ---- event_ipc.c: events that several processes record and wait for -------------------------- */

/* Gives a new event with CU_EVENT_INTERPROCESS a shared word; false: no memory. */
bool event_share(struct sim_event *e);
/* Ends this process's use of the word. */
void event_unshare(struct sim_event *e);
/* What the word says, and the change of it when a record was submitted. */
struct point event_shared_point(const struct sim_event *e);
void event_shared_store(struct sim_event *e, struct point at);

#endif
