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
    pthread_mutex_t lock; /* of all below; made once, kept over reuse of the slot */
    bool made;
    unsigned int users; /* the handle, and records that are on their way */
    uint64_t records;   /* how often recorded */
    uint64_t reached;   /* the last record that was reached */
    uint64_t reached_ns;
    struct point at;          /* of this process's last record */
    _Atomic uint64_t *shared; /* event_ipc.c's: of whichever process's; NULL: its own alone */
    bool imported;
    struct capture_mark *capture_mark; /* capture.c's; NULL unless last recorded while capturing */
};

/* A live event, or NULL. */
struct sim_event *event_find(CUevent handle);
/* The work of a wait for a point: another process's has to be looked for. */
struct work event_wait_work(struct point at);
/* A fresh event of a context; NULL: too many. It has no handle before handle_publish. */
struct sim_event *event_make(struct sim_context *ctx, unsigned int flags);

/* Record the event as the next work of s, after the points too; CUDA_ERROR_INVALID_HANDLE. */
CUresult event_record_after(CUevent event, struct sim_stream *s, const struct point *after,
                            size_t n, struct point *out);
/* What a wait for the event waits for now ({0, 0}: nothing); CUDA_ERROR_INVALID_HANDLE. */
CUresult event_last_point(CUevent event, struct point *out);

/* ---- event_ipc.c: events that several processes record and wait for -------------------------- */

/* A shared word for a fresh event with CU_EVENT_INTERPROCESS; false: no memory. */
bool event_share(struct sim_event *e);
/* Its end, as far as this process is concerned. */
void event_unshare(struct sim_event *e);
/* What the word says, and its change when a record was submitted. */
struct point event_shared_point(const struct sim_event *e);
void event_shared_store(struct sim_event *e, struct point at);

#endif
