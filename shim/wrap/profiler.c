/*
 * profiler.c - the program asks CUPTI for records, or for no more of them (see lookup/profiler.h).
 */
#include "shim/lookup/profiler.h"

#include <pthread.h>
#include <stdatomic.h>

#include "shim/objects/stream.h"
#include "shim/path/drain.h"

/* CUptiResult */
enum { CUPTI_SUCCESS = 0, CUPTI_ERROR_UNKNOWN = 999 };

/* The type of all these functions: their arguments are integers and addresses. */
typedef int cupti_fn(uintptr_t a, uintptr_t b, uintptr_t c);

/* Records of one kind that the program wants. */
struct wanted {
    const void *copy;
    uintptr_t of; /* a context or a subscriber; 0: all */
    uint32_t kind;
    uint32_t asked; /* by calls under way */
    bool recorded;
};
enum { WANTED = 256 };
static struct wanted wanted[WANTED];
static uint32_t count;
static bool too_many; /* for good */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* All functions of `wanted` need the lock held. */
static struct wanted *wanted_find(const struct wanted *like)
{
    for (struct wanted *w = wanted; w < wanted + count; w++)
        if (w->copy == like->copy && w->of == like->of && w->kind == like->kind)
            return w;
    return NULL;
}

static void wanted_settle(struct wanted *w)
{
    if (!w->asked && !w->recorded)
        *w = wanted[--count];
    if (count || too_many)
        atomic_fetch_or(&inline_reasons, (uint32_t)INLINE_PROFILER);
    else
        atomic_fetch_and(&inline_reasons, ~(uint32_t)INLINE_PROFILER);
}

static void wanted_end(const struct wanted *like, bool all)
{
    for (struct wanted *w = wanted + count; w-- > wanted;)
        if (w->copy == like->copy && (w->of == like->of || (all && !like->of)) &&
            (all || w->kind == like->kind)) {
            w->recorded = false;
            wanted_settle(w);
        }
}

void profiler_gone(const void *base)
{
    pthread_mutex_lock(&lock);
    wanted_end(&(struct wanted){.copy = base}, true);
    pthread_mutex_unlock(&lock);
}

static int run(enum profiler_call call, void *found, uintptr_t a, uintptr_t b, uintptr_t c)
{
    cupti_fn *cupti = (cupti_fn *)found;
    const struct profiler_function *f = &profiler_functions[call];
    const uintptr_t arg[] = {a, b, c};
    bool begins = f->effect == BEGINS, all = f->effect == ENDS_ALL;
    struct wanted w = {.of = f->kind ? a : 0, .kind = all ? 0 : (uint32_t)arg[f->kind]};

    if (!cupti)
        return CUPTI_ERROR_UNKNOWN;
    if (atomic_load(&shim_off)) /* as in a forked child, where another thread may have the lock */
        return cupti(a, b, c);
    w.copy = profiler_base(found);
    if (begins) {
        pthread_mutex_lock(&lock);
        struct wanted *known = wanted_find(&w);
        if (!known && count < WANTED)
            *(known = &wanted[count++]) = w;
        too_many |= !known;
        if (known) {
            known->asked++;
            wanted_settle(known);
        }
        pthread_mutex_unlock(&lock);
        /* What the program launched before goes to the driver before the records begin. */
        if (!thread_bypasses())
            drain_all(false);
    }
    int result = cupti(a, b, c);
    pthread_mutex_lock(&lock);
    struct wanted *asked = begins ? wanted_find(&w) : NULL;
    if (asked && asked->asked) {
        asked->asked--;
        asked->recorded |= result == CUPTI_SUCCESS;
        wanted_settle(asked);
    } else if (!begins && result == CUPTI_SUCCESS) {
        wanted_end(&w, all);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

#define X(function, effect, kind)                                                                  \
    EXPORT int function(uintptr_t a, uintptr_t b, uintptr_t c);                                    \
    EXPORT int function(uintptr_t a, uintptr_t b, uintptr_t c)                                     \
    {                                                                                              \
        void *found = lookup_without(function, #function, __builtin_return_address(0));            \
        return run(PROFILER_##function, found, a, b, c);                                           \
    }
PROFILER_FUNCTIONS(X)
#undef X

/* One for each copy of CUPTI. */
#define COPIES(F, function)                                                                        \
    F(function, 0)                                                                                 \
    F(function, 1)                                                                                 \
    F(function, 2) F(function, 3) F(function, 4) F(function, 5) F(function, 6) F(function, 7)
#define FOUND(function, copy)                                                                      \
    static int function##_##copy(uintptr_t a, uintptr_t b, uintptr_t c)                            \
    {                                                                                              \
        void *found = atomic_load(&profiler_found[copy][PROFILER_##function]);                     \
        return run(PROFILER_##function, found, a, b, c);                                           \
    }
#define X(function, effect, kind) COPIES(FOUND, function)
PROFILER_FUNCTIONS(X)
#undef X

const struct profiler_function profiler_functions[] = {
#define NAME(function, copy)      function##_##copy,
#define X(function, effect, kind) {#function, effect, kind, function, {COPIES(NAME, function)}},
    PROFILER_FUNCTIONS(X)
#undef X
};
