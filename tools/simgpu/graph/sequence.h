/*
 * sequence.h - a sequence is one capture, from cuStreamBeginCapture to cuStreamEndCapture. Each
 * stream that takes part is a member of it (struct capture). A member has the nodes that its next
 * node will depend on. A stream joins by waiting for an event that was recorded in a member. All
 * functions are called under graph_lock, except sequences_any.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_SEQUENCE_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_SEQUENCE_H

#include "tools/simgpu/graph/graph.h"
#include "tools/simgpu/stream/stream.h"

struct sequence {
    struct sim_graph *graph; /* NULL once the capture has ended */
    bool into;               /* cuStreamBeginCaptureToGraph: the application owns the graph */
    CUstreamCaptureMode mode;
    CUstreamCaptureStatus status;
    pthread_t thread; /* the one that began it */
    uint64_t id;
    struct sim_context *ctx;
    struct sim_stream *origin;
    struct capture *members;
    struct capture *departed; /* members whose streams are destroyed: their work has to be joined */
    int refs;                 /* members, marks, and the list of open ones while it is in it */
    struct sequence *prev, *next;
};

/* A stream's part in a capture. The application may look at `nodes` as an array. */
struct capture {
    struct sequence *sequence;
    struct sim_stream *stream;
    CUgraphNode *nodes;
    struct edge_data *data;
    size_t count;
    struct capture *prev, *next;
};

/* What an event that was recorded in a capture means. */
struct capture_mark {
    struct sequence *sequence;
    size_t count;
    CUgraphNode nodes[];
};

/* Makes a capture that the stream begins, without members: into that graph, or into a new one.
 * NULL: no memory. */
struct sequence *sequence_new(struct sim_stream *s, CUstreamCaptureMode mode,
                              struct sim_graph *into);
/* Ends the capture. Every member is an ordinary stream again. */
void sequence_end(struct sequence *q);
/* Gives up one reference. */
void sequence_put(struct sequence *q);
void sequence_invalidate(struct sequence *q);
/* CUDA_ERROR_STREAM_CAPTURE_INVALIDATED if it is not valid any more. */
CUresult sequence_usable(const struct sequence *q);
/* Whether `hit` is true of an open capture. With `spoil` it invalidates those. Takes graph_lock. */
bool sequences_any(bool (*hit)(const struct sequence *q, const void *arg), const void *arg,
                   bool spoil);
/* Whether a member in that context takes part in legacy order. For sequences_any. */
bool sequence_has_blocking(const struct sequence *q, const void *ctx);

/* The stream takes part from now on; NULL: no memory. And no longer, as it is destroyed. */
struct capture *member_add(struct sequence *q, struct sim_stream *s);
void member_depart(struct capture *c);
/* The member's next node will depend on this one, too. False: no memory. */
bool member_depend(struct capture *c, CUgraphNode node, struct edge_data data);
/* Whether the member's next node comes behind that one. */
bool member_is_behind(const struct capture *c, CUgraphNode node);
/* It is the member's next node. CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: what it follows is gone. */
CUresult member_connect(struct capture *c, struct sim_node *node);

#endif
