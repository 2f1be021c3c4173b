/*
 * lookup.c - the answers of dlsym and dlvsym.
 *
 * One rule: a lookup that would find the driver's own function without cutin finds ours; every
 * other lookup finds exactly what it would find without cutin. So:
 *
 * - For a name that is not in the table, the stub in dlsym_<arch>.S jumps to the real function,
 *   which sees the true caller.
 * - For a name in the table we ask the real function first, leaving out our own exports, and swap
 *   only an address inside the driver: functions of cuDNN and cuBLAS begin with "cu", too.
 * - The same holds for a name that the driver alone may know (unknown.h). What is not swapped is
 *   looked up again by the real function, for the true caller.
 * - The names of CUPTI in profiler.h are ours, whichever library defines them.
 *
 * Leaving out our own exports is the hard part. We are in the global search order because direct
 * links must bind to us, and RTLD_DEFAULT, RTLD_NEXT and the main program's handle search that
 * order. A search that finds us would otherwise have gone on behind us. RTLD_NEXT, asked from here,
 * does so.
 *
 * Compiled without sanitizers, whose runtimes call dlsym before instrumented code can run.
 */
#include "shim/lookup/api.h"
#include "shim/lookup/elf.h"
#include "shim/lookup/profiler.h"
#include "shim/lookup/unknown.h"

#include <dlfcn.h>

struct step {
    void *answer; /* goes to the caller if `jump` is NULL */
    void *jump;   /* where the stub jumps with the caller's arguments, or NULL */
};

struct step lookup_dlsym(void *handle, const char *name, const char *unused, const void *caller);
struct step lookup_dlvsym(void *handle, const char *name, const char *version, const void *caller);

typedef void *dlsym_fn(void *handle, const char *name);
typedef void *dlvsym_fn(void *handle, const char *name, const char *version);

/* ---- the real dlsym and dlvsym -------------------------------------------------------------- */

/*
 * The next definition behind us in load order, which our export displaced. It may be that of
 * another preload, which goes on to libc's. If we come last (linked behind libc), it is the first
 * definition in front of us. The search is by bare name, because version names differ between
 * architectures and changed with glibc 2.34.
 */
void *lookup_behind(const char *symbol)
{
    struct link_map *self = elf_self(), *map;
    struct elf_object object;
    void *found;

    if (!self)
        return NULL;
    for (map = self->l_next; map; map = map->l_next)
        if (elf_open_map(&object, map) && (found = elf_find(&object, symbol)))
            return found;
    for (map = self->l_prev; map; map = map->l_prev)
        if (elf_open_map(&object, map) && (found = elf_find(&object, symbol)))
            return found;
    return NULL;
}

/* The loader's own function, even if other libraries interpose it. Before glibc 2.34 it was in
 * libdl. */
static void *loader_definition(const char *symbol)
{
    struct elf_object object;
    void *found;

    for (struct link_map *map = elf_self(); map; map = map->l_next)
        if (elf_open_map(&object, map) && object.soname &&
            (elf_streq(object.soname, "libc.so.6") || elf_streq(object.soname, "libdl.so.2")) &&
            (found = elf_find(&object, symbol)))
            return found;
    return lookup_behind(symbol);
}

/* Looks once; every thread stores the same. */
static void *cached(void **cache, void *(*look)(const char *symbol), const char *symbol)
{
    void *found = __atomic_load_n(cache, __ATOMIC_RELAXED);

    if (unlikely(!found)) {
        found = look(symbol);
        __atomic_store_n(cache, found, __ATOMIC_RELAXED);
    }
    return found;
}

static void *real(bool versioned)
{
    static void *cache[2];
    return cached(&cache[versioned], lookup_behind, versioned ? "dlvsym" : "dlsym");
}

static void *loaders(bool versioned)
{
    static void *cache[2];
    return cached(&cache[versioned], loader_definition, versioned ? "dlvsym" : "dlsym");
}

/* ---- the answer without us ------------------------------------------------------------------ */

struct query {
    void *handle;
    const char *name, *version; /* NULL: the call was dlsym */
    const void *caller;
    void *ours;
};

/* Asks the real function from here, so for RTLD_NEXT and RTLD_DEFAULT the caller is this
 * library. */
static void *ask(const struct query *q, void *handle, const char *name)
{
    if (q->version)
        return ((dlvsym_fn *)real(true))(handle, name, q->version);
    return ((dlsym_fn *)real(false))(handle, name);
}

/* The next definition behind us, by the loader's own function: through another library's wrapper,
 * RTLD_NEXT would mean what is behind that library. */
static void *ask_behind(const struct query *q, const char *name)
{
    if (q->version)
        return ((dlvsym_fn *)loaders(true))(RTLD_NEXT, name, q->version);
    return ((dlsym_fn *)loaders(false))(RTLD_NEXT, name);
}

static struct link_map *caller_map(const struct query *q)
{
    struct link_map *map;
    Dl_info info;

    return dladdr1(q->caller, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

/* What the object that contains the caller finds in itself and in what it was linked with. Not for
 * the main program. */
static void *ask_caller_scope(const struct query *q, const char *name)
{
    struct link_map *map = caller_map(q);
    void *handle = NULL, *found = NULL;

    if (map && map->l_name[0])
        handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) {
        found = ask(q, handle, name);
        if (found) /* on failure the loader's message must stay */
            dlclose(handle);
    }
    return found;
}

/* Objects in front of us were loaded at start and stay, so their list is read without a lock. */
static bool in_front(const struct link_map *map)
{
    for (const struct link_map *m = elf_self(); m; m = m->l_prev)
        if (m == map)
            return true;
    return false;
}

/* The first definition from `first` on and in front of us. */
static void *find_in_front(const struct link_map *first, const char *name)
{
    struct elf_object object;
    void *found;

    for (const struct link_map *m = first; m && m != elf_self(); m = m->l_next)
        if (elf_open_map(&object, m) && (found = elf_find(&object, name)))
            return found;
    return NULL;
}

/*
 * RTLD_DEFAULT searches the global order, then what the calling object was linked with. Asked from
 * here it finds our export even if an object in front of us has the name, because -Bsymbolic puts
 * us first in our own order.
 */
static void *ask_default(const struct query *q)
{
    void *found = ask(q, RTLD_DEFAULT, q->name);

    if (found == q->ours) {
        const struct link_map *first = elf_self();

        while (first && first->l_prev)
            first = first->l_prev;
        found = find_in_front(first, q->name);
    }
    if (!found)
        found = ask_behind(q, q->name);
    if (!found)
        found = ask_caller_scope(q, q->name);
    return found;
}

/* A walk over the loaded objects in load order, under the loader's lock. */
struct walk {
    const struct link_map *caller;
    const char *name;
    bool passed;
    void *found; /* first definition behind the caller */
};

static int walk_object(struct dl_phdr_info *info, size_t size, void *user)
{
    struct walk *w = user;
    struct elf_object object;
    const ElfW(Dyn) *dynamic = elf_dynamic(info);

    (void)size;
    if (w->passed && elf_open(&object, info->dlpi_addr, dynamic))
        w->found = elf_find(&object, w->name);
    w->passed |= dynamic == w->caller->l_ld;
    return !!w->found;
}

/* Every driver since 6.0 exports it, we do not, and hardly any library interposes it. */
#define PROBE "cuGetErrorName"

/* Does a search that starts at the caller reach the driver? */
static bool driver_visible(const struct query *q)
{
    struct query probe = {.name = PROBE, .caller = q->caller};
    void *found = ask_behind(&probe, PROBE);

    if (!found)
        found = ask_caller_scope(&probe, PROBE);
    return found && api_driver_holds(found);
}

/*
 * RTLD_NEXT searches behind the caller. If we are behind the caller, the search would go on behind
 * us. If we are in front, nothing of ours is in the way, and the loader's own answer is right
 * (*jump). But if that would be the driver's function, the answer is ours: so a wrapper library
 * that was preloaded behind us calls us, and we call the driver.
 */
static void *ask_next(const struct query *q, bool *jump)
{
    struct link_map *caller = caller_map(q);
    struct walk w = {.caller = caller, .name = q->name};

    if (caller && in_front(caller)) {
        void *between = find_in_front(caller->l_next, q->name);
        return between ? between : ask_behind(q, q->name);
    }
    if (caller)
        elf_each_object(walk_object, &w);
    if (w.found && api_driver_holds(w.found) && driver_visible(q))
        return w.found;
    *jump = true;
    return NULL;
}

/* ---- the answer ----------------------------------------------------------------------------- */

static void *ask_any(const struct query *q, bool *jump)
{
    if (q->handle == RTLD_NEXT)
        return ask_next(q, jump);
    if (q->handle == RTLD_DEFAULT)
        return ask_default(q);
    void *found = ask(q, q->handle, q->name);
    if (found != q->ours || q->handle == elf_self())
        return found; /* the caller opened libcutin.so by name */
    return ask_behind(q, q->name);
}

static struct step answer(const struct query *q, int row, void *displaced)
{
    bool jump = false;
    void *found = ask_any(q, &jump);

    if (jump)
        return (struct step){NULL, displaced};
    if (!found)
        return (struct step){NULL, NULL}; /* dlerror() tells of our last question */
    if (api_driver_holds(found) && !atomic_load_explicit(&shim_off, memory_order_relaxed)) {
        api_say(row, q->version ? "dlvsym" : "dlsym");
        found = q->ours;
    }
    dlerror(); /* a question on the way may have failed, but the lookup has not */
    return (struct step){found, NULL};
}

/* The driver's own lookups are not swapped. */
static struct step answer_unknown(struct query *q, void *displaced)
{
    static const char not_exported;
    bool jump = false;
    void *found, *ours;

    q->ours = (void *)&not_exported;
    found = ask_any(q, &jump);
    ours = found && !jump && !api_driver_holds(q->caller) ? unknown_thunk(q->name, found) : NULL;
    dlerror(); /* the real function leaves its own message */
    return ours ? (struct step){ours, NULL} : (struct step){NULL, displaced};
}

/*
 * Another preload in front of us that interposes dlsym, too, finds the displaced function by
 * dlvsym(RTLD_NEXT, "dlsym", "GLIBC_..."). The next one is ours, which has no version.
 */
static void *own_export(const struct query *q)
{
    void *own = elf_streq(q->name, "dlsym")    ? (void *)dlsym
                : elf_streq(q->name, "dlvsym") ? (void *)dlvsym
                                               : NULL;

    if (!own || q->handle != RTLD_NEXT || !in_front(caller_map(q)))
        return NULL;
    return ask_behind(q, q->name) ? own : NULL;
}

/* If CUPTI's own function is found, answers one of ours that calls it. */
static struct step answer_profiler(struct query *q, enum profiler_call call, void *displaced)
{
    bool jump = false;
    void *found, *ours;

    q->ours = profiler_exports[call];
    found = ask_any(q, &jump);
    if (jump)
        return (struct step){NULL, displaced};
    if (!found)
        return (struct step){NULL, NULL};
    ours = profiler_stand_in(call, found);
    dlerror();
    return (struct step){ours ? ours : found, NULL};
}

void *lookup_without(const void *ours, const char *name, const void *caller)
{
    struct query q = {.handle = RTLD_DEFAULT, .name = name, .caller = caller, .ours = (void *)ours};

    return ask_default(&q);
}

static struct step answer_row(struct query *q, int row)
{
    void *displaced = real(q->version);

    if (row < 0 && unlikely(q->name && unknown_name(q->name)))
        return answer_unknown(q, displaced);
    int call = row < 0 && q->name ? profiler_find(q->name) : -1;
    if (unlikely(call >= 0))
        return answer_profiler(q, (enum profiler_call)call, displaced);
    if (likely(row < 0 || !api_ours[row]))
        return (struct step){NULL, displaced};
    q->ours = api_ours[row];
    return answer(q, row, displaced);
}

struct step lookup_dlsym(void *handle, const char *name, const char *unused, const void *caller)
{
    int row = name ? api_find(name) : -1;
    struct query q = {.handle = handle, .name = name, .caller = caller};

    (void)unused;
    return answer_row(&q, row);
}

struct step lookup_dlvsym(void *handle, const char *name, const char *version, const void *caller)
{
    int row = name && version ? api_find(name) : -1;
    struct query q = {.handle = handle, .name = name, .version = version, .caller = caller};

    if (row < 0 && name && version && (q.ours = own_export(&q)))
        return (struct step){q.ours, NULL};
    return answer_row(&q, row);
}
