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

/* The first definition in the objects from `first` on and in front of `end`. */
static void *find(const struct link_map *first, const struct link_map *end, const char *symbol)
{
    struct elf_object object;
    void *found;

    for (const struct link_map *m = first; m && m != end; m = m->l_next)
        if (elf_open_map(&object, m) && (found = elf_find(&object, symbol)))
            return found;
    return NULL;
}

/*
 * The next definition behind us in load order, which our export displaced. It may be that of
 * another preload, which goes on to libc's. If we come last (linked behind libc), it is the first
 * definition in front of us. The search is by bare name, because version names differ between
 * architectures and changed with glibc 2.34.
 */
void *lookup_behind(const char *symbol)
{
    const struct link_map *self = elf_self();
    void *found = self ? find(self->l_next, NULL, symbol) : NULL;

    for (const struct link_map *m = self; m && m->l_prev && !found; m = m->l_prev)
        found = find(m->l_prev, m, symbol);
    return found;
}

/* What is behind us, or the loader's own, even if other libraries interpose it: that is in libc,
 * and before glibc 2.34 in libdl. Looks once; every thread stores the same. */
static void *real(bool versioned, bool loaders)
{
    static void *cache[2][2];
    const char *symbol = versioned ? "dlvsym" : "dlsym";
    void *found = __atomic_load_n(&cache[versioned][loaders], __ATOMIC_RELAXED);
    struct elf_object object;

    if (unlikely(!found)) {
        for (struct link_map *m = loaders ? elf_self() : NULL; m && !found; m = m->l_next)
            if (elf_open_map(&object, m) && object.soname &&
                (elf_strcmp(object.soname, "libc.so.6") == 0 ||
                 elf_strcmp(object.soname, "libdl.so.2") == 0))
                found = elf_find(&object, symbol);
        if (!found)
            found = lookup_behind(symbol);
        __atomic_store_n(&cache[versioned][loaders], found, __ATOMIC_RELAXED);
    }
    return found;
}

/* ---- the answer without us ------------------------------------------------------------------ */

struct query {
    void *handle;
    const char *name, *version; /* NULL: the call was dlsym */
    const void *caller;
    void *ours;
};

/* Asks the real function from here, so for RTLD_NEXT and RTLD_DEFAULT the caller is this library.
 * For RTLD_NEXT, what is behind us, that is the loader's own: through another library's wrapper it
 * would mean what is behind that library. */
static void *ask(const struct query *q, void *handle)
{
    void *function = real(q->version, handle == RTLD_NEXT);

    if (q->version)
        return ((dlvsym_fn *)function)(handle, q->name, q->version);
    return ((dlsym_fn *)function)(handle, q->name);
}

/* What is behind us, or else what the object that contains the caller finds in itself and in what
 * it was linked with; the latter not for the main program. */
static void *ask_further(const struct query *q)
{
    void *handle = NULL, *found = ask(q, RTLD_NEXT);
    const struct link_map *map = found ? NULL : elf_map_of(q->caller);

    if (map && map->l_name[0])
        handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) {
        found = ask(q, handle);
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

/*
 * RTLD_DEFAULT searches the global order, then what the calling object was linked with. Asked from
 * here it finds our export even if an object in front of us has the name, because -Bsymbolic puts
 * us first in our own order.
 */
static void *ask_default(const struct query *q)
{
    void *found = ask(q, RTLD_DEFAULT);

    if (found == q->ours) {
        const struct link_map *first = elf_self();

        while (first && first->l_prev)
            first = first->l_prev;
        found = find(first, elf_self(), q->name);
    }
    return found ? found : ask_further(q);
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

    if (w->passed && elf_open(&object, info->dlpi_addr, dynamic))
        w->found = elf_find(&object, w->name);
    w->passed |= dynamic == w->caller->l_ld;
    return !!w->found;
}

/*
 * RTLD_NEXT searches behind the caller. If we are behind the caller, the search would go on behind
 * us. If we are in front, nothing of ours is in the way, and the loader's own answer is right
 * (*jump). But if that would be the driver's function, the answer is ours: so a wrapper library
 * that was preloaded behind us calls us, and we call the driver.
 */
static void *ask_next(const struct query *q, bool *jump)
{
    struct link_map *caller = elf_map_of(q->caller);
    struct walk w = {.caller = caller, .name = q->name};

    if (caller && in_front(caller)) {
        void *between = find(caller->l_next, elf_self(), q->name);
        return between ? between : ask(q, RTLD_NEXT);
    }
    if (caller)
        elf_each_object(walk_object, &w);
    if (w.found && api_driver_holds(w.found)) {
        /* Does a search that starts at the caller reach the driver? Every driver since 6.0 exports
         * this name, we do not, and hardly any library interposes it. */
        const struct query probe = {.name = "cuGetErrorName", .caller = q->caller};
        const void *found = ask_further(&probe);

        if (found && api_driver_holds(found))
            return w.found;
    }
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
    void *found = ask(q, q->handle);
    if (found != q->ours || q->handle == elf_self())
        return found; /* the caller opened libcutin.so by name */
    return ask(q, RTLD_NEXT);
}

/* `row`: that of the name; -1: it is not in the table, or must not be. */
static struct step answer(struct query *q, int row)
{
    static const char not_exported;
    const struct step pass = {NULL, real(q->version, false)};
    bool unknown = row < 0 && q->name && unknown_name(q->name), jump = false;
    int call = row < 0 && !unknown && q->name ? profiler_find(q->name) : -1;

    if (likely(!unknown && call < 0 && (row < 0 || !api_rows[row].ours)))
        return pass;
    q->ours = unknown     ? (void *)&not_exported
              : call >= 0 ? profiler_functions[call].exported
                          : api_rows[row].ours;
    void *found = ask_any(q, &jump), *ours = NULL;
    if (unknown) { /* the driver's own lookups are not swapped */
        if (found && !jump && !api_driver_holds(q->caller))
            ours = unknown_thunk(q->name, found);
        dlerror(); /* the real function leaves its own message */
        return ours ? (struct step){ours, NULL} : pass;
    }
    if (jump)
        return pass;
    if (!found)
        return (struct step){NULL, NULL}; /* dlerror() tells of our last question */
    if (call >= 0)
        ours = profiler_stand_in((enum profiler_call)call, found);
    else if (api_driver_holds(found) && !atomic_load_explicit(&shim_off, memory_order_relaxed)) {
        api_say(row, q->version ? "dlvsym" : "dlsym");
        ours = q->ours;
    }
    dlerror(); /* a question on the way may have failed, but the lookup has not */
    return (struct step){ours ? ours : found, NULL};
}

void *lookup_without(const void *ours, const char *name, const void *caller)
{
    struct query q = {.handle = RTLD_DEFAULT, .name = name, .caller = caller, .ours = (void *)ours};

    return ask_default(&q);
}

struct step lookup_dlsym(void *handle, const char *name, const char *unused, const void *caller)
{
    struct query q = {.handle = handle, .name = name, .caller = caller};

    return answer(&q, name ? api_find(name) : -1);
}

struct step lookup_dlvsym(void *handle, const char *name, const char *version, const void *caller)
{
    struct query q = {.handle = handle, .name = name, .version = version, .caller = caller};
    void *own = NULL;

    /* Another preload in front of us that interposes dlsym, too, finds the displaced function by
     * dlvsym(RTLD_NEXT, "dlsym", "GLIBC_..."). The next one is ours, which has no version. */
    if (name && version && handle == RTLD_NEXT)
        own = elf_strcmp(name, "dlsym") == 0    ? (void *)dlsym
              : elf_strcmp(name, "dlvsym") == 0 ? (void *)dlvsym
                                                : NULL;
    if (own && in_front(elf_map_of(caller)) && ask(&q, RTLD_NEXT))
        return (struct step){own, NULL};
    return answer(&q, name && version ? api_find(name) : -1);
}
