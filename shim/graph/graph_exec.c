/* graph_exec.c - see graph_exec.h. */
#include "shim/graph/graph_exec.h"

#include "shim/graph/graph_copy.h"
#include "shim/graph/other_devices.h"
#include "shim/handles/table.h"

TABLE(execs);
POOL(exec_pool, struct exec, free_next);
_Atomic bool exec_waits_seen;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

struct exec *exec_find(CUgraphExec handle)
{
    return handle ? (struct exec *)(void *)table_find(&execs, handle) : NULL;
}

struct exec *exec_of(CUgraphExec handle)
{
    struct exec *e = exec_find(handle);
    if (e || !handle)
        return e;
    pthread_mutex_lock(&adding);
    e = exec_find(handle);
    if (!e && (e = pool_get(&exec_pool))) {
        e->fence = NULL;
        e->ctx = NULL;
        e->kernels_ns = 0;
        e->memory = false;
        e->waits = false;
        atomic_store(&e->launched, false);
        estimate_reset(&e->estimate, NULL, 0);
        table_insert(&execs, &e->node, handle);
    }
    pthread_mutex_unlock(&adding);
    return e;
}

/* A record of that handle is left from a context that ended: no destroy removed it. */
struct exec *exec_new(CUgraphExec handle)
{
    struct exec *stale = exec_find(handle);
    if (stale) {
        vhq_fence_put(exec_fence_swap(stale, NULL));
        exec_remove(stale);
        exec_free(stale);
    }
    return exec_of(handle);
}

struct vhq_fence *exec_fence_swap(struct exec *e, struct vhq_fence *fence)
{
    spin_lock(&e->locked);
    struct vhq_fence *old = e->fence;
    e->fence = fence;
    spin_unlock(&e->locked);
    return old;
}

bool exec_unfence(struct exec *e)
{
    struct vhq_fence *over = NULL;
    spin_lock(&e->locked);
    if (e->fence && vhq_fence_submitted(e->fence)) {
        over = e->fence;
        e->fence = NULL;
    }
    bool none = !e->fence;
    spin_unlock(&e->locked);
    vhq_fence_put(over);
    return none;
}

void exec_remove(struct exec *e)
{
    table_remove(&execs, &e->node);
}

void exec_free(struct exec *e)
{
    graph_copy_free(e->copy);
    other_devices_free(e->other_devices);
    e->copy = NULL;
    e->other_devices = NULL;
    pool_put(&exec_pool, e);
}

uint64_t exec_estimate_ns(const struct exec *e)
{
    bool timed = atomic_load_explicit(&e->estimate.learned.mean_ns, memory_order_relaxed) != 0;
    return timed || !e->kernels_ns ? estimate_ns(&e->estimate) : e->kernels_ns;
}
