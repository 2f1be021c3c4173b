/*
 * exec_objects.c - the user objects that an executable graph refers to: those of its graph, and
 * those of the graphs inside, each kept by the node that it is in. NVIDIA's programming guide,
 * "CUDA User Objects": an update replaces them by those of the new graph. What is given back is
 * held until the launches before have run.
 */
#include "tools/simgpu/graph/exec.h"
#include "tools/simgpu/stream/points.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/submit.h"

#include <utlist.h>

struct graph_object *exec_objects_copy(const struct sim_graph *g, struct exec_node *nodes,
                                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (nodes[i].node && nodes[i].node->child)
            nodes[i].objects = graph_objects_copy(nodes[i].node->child->objects);
    return graph_objects_copy(g->objects);
}

void exec_objects_take(struct exec_node *nodes, size_t count, struct graph_object **list)
{
    for (size_t i = 0; i < count; i++) {
        LL_CONCAT(*list, nodes[i].objects);
        nodes[i].objects = NULL;
    }
}

static CUresult objects_effect(struct work *w)
{
    graph_objects_release(w->args.ptr[0]);
    return CUDA_SUCCESS;
}

void exec_objects_release(struct sim_context *ctx, struct point end, struct graph_object *objects)
{
    struct sim_stream *s;
    struct work w = {
        .kind = WORK_HOST, .name = "user_objects", .effect = objects_effect, .even_on_error = true};
    w.args.ptr[0] = objects;
    if (!objects)
        return;
    if (!point_done(end) && stream_branch_create(ctx, 0, &s) == CUDA_SUCCESS) {
        CUresult rc = work_submit_raw(s, &w, &end, 1, NULL);
        stream_destroy(s);
        if (rc == CUDA_SUCCESS)
            return;
    }
    graph_objects_release(objects);
}
