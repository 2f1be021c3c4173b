/*
 * user_objects.c - objects of the program whose lifetimes follow graphs: a destructor runs when the
 * last graph, or executable graph, that refers to its object was destroyed or took other objects.
 * The simulated driver calls it in that call if no launch is under way.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>

#include "shim/cutin.h"

static CUdeviceptr x;
static CUstream s;
static _Atomic int gone[2];

static bool held_by_another(void)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    return cutin_stream_state(s, &state) == CUDA_SUCCESS && state.held != 0;
}

/* A regular look of the library makes gates some milliseconds after it has found the daemon. Five
 * holds of this process by a service take longer than that. */
static void gates_come(void)
{
    for (int i = 0; i < 5 && cutin_version() && getenv("CUTIN_GATES"); i++) {
        UNTIL(held_by_another());
        UNTIL(!held_by_another());
    }
}

static void begin(void)
{
    s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    gates_come();
}

static void object_gone(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
}

/* Gives the graph the only reference to a new object. */
static void object_add(CUgraph graph, int which)
{
    CUuserObject object;
    MUST(cuUserObjectCreate(&object, &gone[which], object_gone, 1,
                            CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    MUST(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
}

static void say_gone(const char *when)
{
    printf("%s: %d %d\n", when, atomic_load(&gone[0]), atomic_load(&gone[1]));
}

/* Four kernels with unknown times, enough for gates between them, and an object. */
static CUgraph chain(uint32_t a, int which)
{
    struct mix_node m;
    CUgraphNode node = NULL, before;
    CUgraph graph;
    MUST(cuGraphCreate(&graph, 0));
    for (int i = 0; i < 4; i++) {
        before = node;
        MUST(cuGraphAddKernelNode(&node, graph, &before, i != 0, mix_node(&m, x, a, 7)));
    }
    object_add(graph, which);
    return graph;
}

static CUgraph around(CUgraph child, CUgraphNode *node)
{
    CUgraph outer;
    MUST(cuGraphCreate(&outer, 0));
    MUST(cuGraphAddChildGraphNode(node, outer, NULL, 0, child));
    MUST(cuGraphDestroy(child));
    return outer;
}

/* Destroys the graph. */
static CUgraphExec exec_of(CUgraph graph)
{
    CUgraphExec exec;
    MUST(cuGraphInstantiate(&exec, graph, 0));
    MUST(cuGraphDestroy(graph));
    return exec;
}

static void run(CUgraphExec exec)
{
    SAY(cuGraphLaunch(exec, s));
    SAY(cuStreamSynchronize(s));
}

static void update(CUgraphExec exec, CUgraph second)
{
    CUgraphExecUpdateResultInfo info = {0};
    SAY(cuGraphExecUpdate(exec, second, &info));
    SAY(cuGraphDestroy(second));
    say_gone("updated");
}

/* Destroys the last that refers to the second object. */
static void end(CUgraphExec exec)
{
    run(exec);
    say_gone("launched");
    SAY(cuGraphExecDestroy(exec));
    say_gone("destroyed");
    show("x", x);
}

HAZARD(object_is_released_with_the_executable_graph)
{
    begin();
    CUgraphExec exec = exec_of(chain(5, 1));
    say_gone("instantiated");
    end(exec);
}

HAZARD(object_is_released_when_the_executable_graph_is_updated)
{
    begin();
    CUgraphExec exec = exec_of(chain(5, 0));
    run(exec);
    update(exec, chain(11, 1));
    end(exec);
}

HAZARD(object_of_an_updated_graph_is_released_after_its_launch)
{
    begin();
    CUgraphExec exec = exec_of(chain(5, 0));
    run(exec);
    SAY(cuLaunchHostFunc(s, until_told, NULL));
    SAY(cuGraphLaunch(exec, s));
    update(exec, chain(11, 1));
    atomic_store(&told, true);
    UNTIL(atomic_load(&gone[0]) != 0);
    end(exec);
}

HAZARD(object_is_kept_when_an_update_is_refused)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUgraph other;
    begin();
    CUgraphExec exec = exec_of(chain(5, 1));
    MUST(cuGraphCreate(&other, 0));
    object_add(other, 0);
    SAY(cuGraphExecUpdate(exec, other, &info));
    say_gone("refused");
    SAY(cuGraphDestroy(other));
    say_gone("destroyed");
    end(exec);
}

HAZARD(object_is_released_when_a_child_graph_is_set)
{
    CUgraphNode node;
    begin();
    CUgraph outer = around(chain(5, 0), &node);
    CUgraphExec exec;
    MUST(cuGraphInstantiate(&exec, outer, 0));
    run(exec);
    CUgraph second = chain(11, 1);
    SAY(cuGraphExecChildGraphNodeSetParams(exec, node, second));
    SAY(cuGraphDestroy(second));
    say_gone("set");
    SAY(cuGraphDestroy(outer));
    say_gone("all graphs destroyed");
    end(exec);
}

HAZARD(object_of_a_child_graph_is_released_by_an_update)
{
    CUgraphNode node;
    begin();
    CUgraphExec exec = exec_of(around(chain(5, 0), &node));
    run(exec);
    update(exec, around(chain(11, 1), &node));
    end(exec);
}
