/*
 * user_object.c - reference-counted objects of the application, which live as long as graphs refer
 * to them. The destructor is the application's code, so no lock is held when it is called.
 */
#include "tools/simgpu/graph/graph.h"

#include <utlist.h>

struct user_object {
    struct handle handle;
    void *data;
    CUhostFn destroy;
    _Atomic unsigned int count;
};

static struct handle_pool pool = HANDLE_POOL(struct user_object, 1 << 16);

static void object_release(struct user_object *o, unsigned int count)
{
    if (atomic_fetch_sub(&o->count, count) != count || !handle_retire(o))
        return;
    o->destroy(o->data);
    handle_give(&pool, o);
}

/* The references of a clone or an executable graph; if memory is short, those that fit. */
struct graph_object *graph_objects_copy(const struct graph_object *from)
{
    struct graph_object *copy = NULL;
    for (; from; from = from->next) {
        struct graph_object *o = malloc(sizeof(*o));
        if (!o)
            break;
        *o = *from;
        atomic_fetch_add(&o->object->count, o->count);
        LL_PREPEND(copy, o);
    }
    return copy;
}

void graph_objects_release(struct graph_object *objects)
{
    while (objects) {
        struct graph_object *next = objects->next;
        object_release(objects->object, objects->count);
        free(objects);
        objects = next;
    }
}

SIM_EXPORT CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy,
                                       unsigned int count, unsigned int flags)
{
    TRY(driver_ready());
    if (!out || !destroy || count == 0 || count > INT32_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    struct user_object *o = handle_take(&pool);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->data = data;
    o->destroy = destroy;
    atomic_store(&o->count, count);
    handle_publish(o);
    *out = (CUuserObject)(void *)o;
    return CUDA_SUCCESS;
}

static CUresult object_check(CUuserObject handle, unsigned int count, struct user_object **out)
{
    TRY(driver_ready());
    *out = handle_find(&pool, handle);
    return *out && count != 0 && count <= INT32_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
    struct user_object *o;
    TRY(object_check(handle, count, &o));
    atomic_fetch_add(&o->count, count);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
    struct user_object *o;
    TRY(object_check(handle, count, &o));
    if (count > atomic_load(&o->count))
        return CUDA_ERROR_INVALID_VALUE;
    object_release(o, count);
    return CUDA_SUCCESS;
}

/* The graph's entry for the object; with `make` it is made if there is none. Under graph_lock. */
static struct graph_object *entry_of(struct sim_graph *g, struct user_object *o, bool make)
{
    struct graph_object *e;
    LL_FOREACH (g->objects, e) {
        if (e->object == o)
            return e;
    }
    e = make ? calloc(1, sizeof(*e)) : NULL;
    if (e) {
        e->object = o;
        LL_PREPEND(g->objects, e);
    }
    return e;
}

SIM_EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned int count,
                                            unsigned int flags)
{
    struct user_object *o;
    TRY(object_check(handle, count, &o));
    if ((flags & ~(unsigned int)CU_GRAPH_USER_OBJECT_MOVE) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&graph_lock);
    struct sim_graph *g = graph_find(graph);
    struct graph_object *e = g ? entry_of(g, o, true) : NULL;
    if (!e)
        return !g ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    e->count += count;
    if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0)
        atomic_fetch_add(&o->count, count); /* else the graph takes the caller's references */
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle, unsigned int count)
{
    struct user_object *o;
    TRY(object_check(handle, count, &o));
    pthread_mutex_lock(&graph_lock);
    struct sim_graph *g = graph_find(graph);
    struct graph_object *e = g ? entry_of(g, o, false) : NULL;
    bool fits = e && e->count >= count;
    if (fits && (e->count -= count) == 0) {
        LL_DELETE(g->objects, e);
        free(e);
    }
    pthread_mutex_unlock(&graph_lock);
    if (!fits)
        return CUDA_ERROR_INVALID_VALUE;
    object_release(o, count);
    return CUDA_SUCCESS;
}
