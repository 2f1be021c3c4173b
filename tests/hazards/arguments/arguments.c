/*
 * arguments.c - draws right and wrong arguments from a seed, for each function that may be
 * deferred, in a stream that is held and in one that is not. The driver judges at the call: each
 * call returns what it returns natively, and no call suffers from another one's arguments.
 *
 *   HAZARD_SEED=7 HAZARD_CALLS=12800 hazard_compare .../hazard_arguments \
 *       drawn_calls_return_the_same
 *
 * HAZARD_NAMES=1 prints each call's name beside its result.
 */
#include "launches.h"

#include <string.h>

enum { LINE = 64, HELD = 16, CALLS = 256 };

/* ---- the calls that there are --------------------------------------------------------------- */

static struct drawn_call *calls;

void drawn_call_add(struct drawn_call *d)
{
    d->next = calls;
    calls = d;
}

static const struct drawn_call *drawn_find(const char *name, size_t length)
{
    const struct drawn_call *d = calls;
    while (d && (strlen(d->name) != length || memcmp(d->name, name, length) != 0))
        d = d->next;
    return d;
}

/* Sorted by name, so that the order of the files at linking does not matter. */
static unsigned drawn_list(const struct drawn_call *list[CALLS])
{
    unsigned n = 0;
    for (const struct drawn_call *d = calls; d; d = d->next) {
        unsigned i = n++;
        for (; i > 0 && strcmp(list[i - 1]->name, d->name) > 0; i--)
            list[i] = list[i - 1];
        list[i] = d;
    }
    return n;
}

/* ---- what may be deferred is drawn ---------------------------------------------------------- */

/* Functions that are not drawn, and why. */
static const char *const not_drawn[][2] = {
    {"cuSignalExternalSemaphoresAsync", "its objects come from other interfaces"},
    {"cuWaitExternalSemaphoresAsync", "its objects come from other interfaces"},
    {"cuGraphExecExternalSemaphoresSignalNodeSetParams", "its objects come from other interfaces"},
    {"cuGraphExecExternalSemaphoresWaitNodeSetParams", "its objects come from other interfaces"},
    {"cuGraphicsMapResources", "its objects come from other interfaces"},
    {"cuGraphicsUnmapResources", "its objects come from other interfaces"},
    {"cuMemMapArrayAsync", "the simulated driver has no sparse arrays"},
    {"cuMemBatchDecompressAsync", "the simulated driver decompresses nothing"},
};

static bool excused(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof(not_drawn) / sizeof(*not_drawn); i++)
        if (strlen(not_drawn[i][0]) == length && memcmp(not_drawn[i][0], name, length) == 0)
            return true;
    return false;
}

/* Such a call is kept for later, may be left out, or comes behind what is kept. */
static bool deferring(const char *class, const char *action)
{
    return strncmp(action, "ENQ", 3) == 0 || strcmp(action, "HOIST") == 0 ||
           strcmp(class, "STREAM_ORDERED") == 0 || strcmp(class, "LAUNCH") == 0 ||
           strcmp(action, "DRAIN_EXEC_THEN_INLINE") == 0 ||
           strcmp(action, "DRAIN_FUNC_THEN_INLINE_IF_CHANGED") == 0;
}

/* Symbols for a thread's own default stream are drawn with the others. */
static size_t name_length(const char *symbol, bool per_thread)
{
    return strlen(symbol) - (per_thread ? strlen("_ptsz") : 0);
}

static bool accounted(const char *symbol, bool per_thread, const char *class, const char *action)
{
    size_t length = name_length(symbol, per_thread);
    if (!deferring(class, action) || drawn_find(symbol, length) || excused(symbol, length))
        return true;
    printf("%s is not drawn\n", symbol);
    return false;
}

/* No function in not_drawn may be drawn either. */
HAZARD_RAW(every_function_that_may_be_deferred_is_drawn)
{
    bool all = true;
#define API_PASS(...)
#define API_DRAIN(...)
#define API_WRAP(symbol, function, name, version, per_thread, class, action)                       \
    all &= accounted(#symbol, per_thread, #class, #action);
#include "shim/lookup/api.def"
    for (size_t i = 0; i < sizeof(not_drawn) / sizeof(*not_drawn); i++)
        all &= !drawn_find(not_drawn[i][0], strlen(not_drawn[i][0]));
    if (!all)
        give_up("not every function that may be deferred is drawn");
}

/* ---- the hazard ----------------------------------------------------------------------------- */

static unsigned long setting(const char *name, unsigned long standard)
{
    const char *value = getenv(name);
    return value ? strtoul(value, NULL, 0) : standard;
}

static const struct drawn_call *list[CALLS];
static unsigned count;
static bool names;

static int any_call(void)
{
    const struct drawn_call *d = list[draw(count)];
    draw_mood();
    int answer = (int)d->call();
    if (names)
        printf("%s = %d\n", d->name, answer);
    return answer;
}

static CUstream stream_of(unsigned round)
{
    static CUstream made;
    if (!made)
        made = stream;
    return round % 16 == 5 ? NULL : round % 16 == 10 ? CU_STREAM_PER_THREAD : made;
}

static uint32_t sum(CUdeviceptr at)
{
    static uint32_t words_there[N];
    uint32_t sum = 2166136261u;
    MUST(cuMemcpyDtoH_v2(words_there, at, BYTES));
    for (int i = 0; i < N; i++)
        sum = (sum ^ words_there[i]) * 16777619u;
    return sum;
}

/* In every second round the stream is held again and again: some calls ask the driver at once,
 * others are buffered. */
static void some_calls(unsigned round)
{
    char line[LINE * 5 + 1];
    int at = 0;
    stream = stream_of(round);
    for (int i = 0; i < LINE; i++) {
        if (round % 2 && i % HELD == 0)
            hold(stream);
        at += snprintf(line + at, sizeof(line) - (size_t)at, " %d", any_call());
        if (i % HELD == HELD - 1)
            release(stream);
    }
    printf("%u:%s; %d", round, line, cuCtxSynchronize());
    printf(" %08x %08x\n", sum(x) ^ sum(managed), sum(y) ^ sum(pooled));
}

HAZARD(drawn_calls_return_the_same)
{
    unsigned long wanted = setting("HAZARD_CALLS", 12800), seed = setting("HAZARD_SEED", 1);
    names = setting("HAZARD_NAMES", 0);
    draw_seed(seed);
    hold_ms = 2;
    count = drawn_list(list);
    objects_new();
    graphs_new(seed % 4 == 3);
    warm(stream);
    for (unsigned round = 0; round < wanted / LINE; round++)
        some_calls(round);
    SAY(cuCtxSynchronize());
    show("x", x);
    show("y", y);
    show_host("pinned", pinned);
}
