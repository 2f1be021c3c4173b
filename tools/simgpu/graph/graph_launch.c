/*
 * graph_launch.c - the nodes of an executable graph go into their lanes. Lane 0 is the stream that
 * the graph is launched into. The others are streams of the exec. Points tie the lanes together.
 */
#include "tools/simgpu/graph/exec.h"
#include "tools/simgpu/stream/event.h"
#include "tools/simgpu/stream/points.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/submit.h"

/* The lanes of a launch have the priority of its stream. */
CUresult launch_open_lanes(struct sim_exec *x, int first, int priority)
{
    for (int i = first; i < x->lanes; i++) {
        if (x->branches[i] && x->priority != priority) {
            stream_destroy(x->branches[i]);
            x->branches[i] = NULL;
        }
        if (!atomic_load(&x->lane_ctx[i]->alive))
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;
        if (!x->branches[i]) {
            TRY(stream_branch_create(x->lane_ctx[i], priority, &x->branches[i]));
        }
    }
    x->priority = priority;
    return CUDA_SUCCESS;
}

/* What a node has to wait for besides its lane: nodes of other lanes, or the start. */
static size_t node_points(const struct sim_exec *x, const struct exec_node *n, struct point start,
                          struct point *out)
{
    size_t count = 0;
    for (size_t i = 0; i < n->after_count; i++)
        if (x->nodes[n->after[i]].lane != n->lane)
            out[count++] = x->nodes[n->after[i]].done;
    if (n->after_count == 0 && n->lane != 0)
        out[count++] = start;
    return count;
}

/* Submits a copy of the work with its own reference, which the submission gives back. */
static CUresult work_launch(const struct work *w, struct sim_stream *s, const struct point *after,
                            size_t n, struct point *done)
{
    struct work copy = *w;
    if (copy.retain)
        copy.retain(&copy);
    else
        copy.drop = NULL; /* there is one reference, and the node keeps it */
    return work_submit_raw(s, &copy, after, n, done);
}

static CUresult mark_launch(const char *name, struct sim_stream *s, const struct point *after,
                            size_t n, struct point *done)
{
    struct work w = {.kind = WORK_MARK};
    w.name = name;
    return work_submit_raw(s, &w, after, n, done);
}

static CUresult event_launch(struct exec_node *n, struct sim_stream *s, struct point *after,
                             size_t count)
{
    CUevent event = n->works[0].args.ptr[0];
    if (n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
        return event_record_after(event, s, after, count, &n->done);
    CUresult rc = event_last_point(event, &after[count]);
    struct work w = event_wait_work(after[count]);
    return rc == CUDA_SUCCESS ? work_submit_raw(s, &w, after, count + 1, &n->done) : rc;
}

static CUresult node_launch(struct exec_node *n, struct sim_stream *s, struct point *after,
                            size_t count)
{
    if (n->disabled || n->count == 0)
        return mark_launch("empty", s, after, count, &n->done);
    if (n->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || n->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
        return event_launch(n, s, after, count);
    if (n->type == TYPE_CONDITIONAL) {
        struct work w = n->works[0];
        w.args.u64[LAUNCH_PRIORITY] = (uint64_t)s->priority;
        return work_launch(&w, s, after, count, &n->done);
    }
    CUresult rc = work_launch(&n->works[0], s, after, count, &n->done);
    for (size_t i = 1; i < n->count && rc == CUDA_SUCCESS; i++)
        rc = work_launch(&n->works[i], s, NULL, 0, &n->done);
    return rc;
}

CUresult launch_nodes(struct sim_exec *x, struct sim_stream *s, struct point start)
{
    struct point ends[LANES_MAX] = {{0, 0}}; /* the last node of each lane */
    size_t most = 1;                         /* the most points that one node waits for */
    for (size_t i = 0; i < x->count; i++)
        most = x->nodes[i].after_count > most ? x->nodes[i].after_count : most;
    struct point *points = calloc(most + 1, sizeof(struct point));
    CUresult rc = points ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < x->count && rc == CUDA_SUCCESS; i++) {
        struct exec_node *n = &x->nodes[i];
        size_t count = node_points(x, n, start, points);
        rc = node_launch(n, n->lane == 0 ? s : x->branches[n->lane], points, count);
        ends[n->lane] = n->done;
    }
    free(points);
    if (rc != CUDA_SUCCESS)
        return rc;
    return mark_launch("graph_end", s, ends + 1, (size_t)x->lanes - 1, &x->end);
}
