/*
 * event.h - an event: a point in a stream, and when it was reached.
 */
#ifndef SIMGPU_EVENT_H
#define SIMGPU_EVENT_H

#include "tools/simgpu/handle.h"
#include "tools/simgpu/sim.h"

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
    struct point at;                   /* of the last record */
    struct capture_mark *capture_mark; /* capture.c's; NULL unless last recorded while capturing */
};

/* A live event, or NULL. */
struct sim_event *event_find(CUevent handle);
/* Record into, or let wait, a stream that does not capture. For green contexts too. */
CUresult event_record_in(struct sim_event *e, struct sim_stream *s);
CUresult event_wait_in(struct sim_event *e, struct sim_stream *s);
/* The last record's point; stream 0 when never recorded. */
struct point event_point(struct sim_event *e);

#endif
