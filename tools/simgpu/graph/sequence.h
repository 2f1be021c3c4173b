/*
 * sequence.h - one capture, from cuStreamBeginCapture to cuStreamEndCapture: a sequence. Each
 * stream that takes part is a member of it (struct capture), with the nodes that its next node will
 * depend on. Streams join by waiting for an event recorded in a member. Everything here is under
 * graph_lock, but for sequences_where.
 */
#ifndef CUTIN_TOOLS_SIMGPU_GRAPH_SEQUENCE_H
#define CUTIN_TOOLS_SIMGPU_GRAPH_SEQUENCE_H

#include "tools/simgpu/graph/graph.h"
#include "tools/simgpu/stream/stream.h"

struct sequence {
    struct sim_graph *graph; /* NULL once the capture has ended */
    bool into; /* cuStreamBeginCaptureToGraph: the graph is the application's already */
    CUstreamCaptureMode mode;
    CUstreamCaptureStatus status;
    pthread_t thread; /* that began it */
    uint64_t id;
    struct sim_context *ctx;
    struct sim_stream *origin;
    struct capture *members;
    struct capture *departed; /* of streams that are destroyed: what they did has to be joined */
    int holders;              /* members, marks, and the list of all while it is open */
    struct sequence *prev, *next;
};

/* A stream's part in a capture; `nodes` is also what the application may look at as an array. */
struct capture {
    struct sequence *sequence;
    struct sim_stream *stream;
    CUgraphNode *nodes;
    struct edge_data *data;
    size_t count;
    struct capture *prev, *next;
};

/* What an event recorded in a capture stands for. */
struct capture_mark {
    struct sequence *sequence;
    size_t count;
    CUgraphNode nodes[];
};

/* A capture without members, which the stream begins: into that graph, or into one of its own.
 * NULL: no memory. */
struct sequence *sequence_new(struct sim_stream *s, CUstreamCaptureMode mode,
                              struct sim_graph *into);
/* Ends the capture: every member is an ordinary stream again. */
void sequence_end(struct sequence *q);
/* One holder less. */
void sequence_let_go(struct sequence *q);
void sequence_invalidate(struct sequence *q);
/* CUDA_ERROR_STREAM_CAPTURE_INVALIDATED unless it is still good. */
CUresult sequence_usable(const struct sequence *q);
/* Is there an open capture that `hit` names? With `spoil` they are invalid afterwards. Takes
 * graph_lock. */
bool sequences_where(bool (*hit)(const struct sequence *q, const void *arg), const void *arg,
                     bool spoil);
/* Has it a member in that context which takes part in legacy order? For sequences_where. */
bool sequence_blocks(const struct sequence *q, const void *ctx);

/* The stream takes part from now on; NULL: no memory. And no more, as it is destroyed. */
struct capture *member_add(struct sequence *q, struct sim_stream *s);
void member_depart(struct capture *c);
/* The member's next node depends on this one too; false: no memory. */
bool member_depend(struct capture *c, CUgraphNode node, struct edge_data data);
/* Does the member's next node come behind that one? */
bool member_is_behind(const struct capture *c, CUgraphNode node);
/* The node is the member's next. CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: what it follows is gone. */
CUresult member_connect(struct capture *c, struct sim_node *node);

#endif
