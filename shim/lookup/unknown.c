/*
 * unknown.c - driver functions that the table does not have (see unknown.h), and what all thunks
 * do: drain, then jump to the driver's function.
 *
 * No lock and no allocation, because a lookup may come from anywhere, even from a constructor.
 * Slots are taken by compare and swap and never given back.
 */
#include "shim/lookup/unknown.h"

#include <errno.h>
#include <string.h>

#include "shim/lookup/api.h"
#include "shim/lookup/elf.h"

extern const char unknown_thunks[] __attribute__((visibility("hidden"))); /* thunk_<arch>.S */

/* The driver's naming scheme. Names of cuDNN, cuBLAS and others have a small letter behind "cu". */
bool unknown_name(const char *symbol)
{
    return symbol[0] == 'c' && symbol[1] == 'u' && symbol[2] >= 'A' && symbol[2] <= 'Z' &&
           api_find(symbol) < 0;
}

/* True the first time for each name. */
static bool name_is_new(const char *name)
{
    static _Atomic uint64_t said[2 * UNKNOWN_THUNKS];
    /* Hashes are kept, because the names are the callers' and may go away. */
    const uint64_t hash = text_hash(name) | 1; /* 0: free */

    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
        uint64_t there = atomic_load_explicit(&said[i], memory_order_relaxed);
        if (there == 0 && atomic_compare_exchange_strong(&said[i], &there, hash))
            return true;
        if (there == hash)
            return false;
    }
    return false;
}

static void *_Atomic real[UNKNOWN_THUNKS];
static _Atomic bool begins[UNKNOWN_THUNKS]; /* it begins a capture */

void *unknown_thunk(const char *name, void *address)
{
    if (atomic_load_explicit(&shim_off, memory_order_relaxed) || !api_driver_function(address))
        return NULL;
    int slot = 0;
    for (; slot < UNKNOWN_THUNKS; slot++) {
        void *there = atomic_load_explicit(&real[slot], memory_order_relaxed);
        if ((!there && atomic_compare_exchange_strong(&real[slot], &there, address)) ||
            there == address)
            break;
    }
    if (slot == UNKNOWN_THUNKS) {
        atomic_fetch_or(&inline_reasons, (uint32_t)INLINE_UNKNOWN);
        static _Atomic bool said;

        if (!atomic_exchange(&said, true))
            log_line(LOG_WARN,
                     "buffering off, calls wait in their thread: %s is unknown to version %s, and "
                     "so are %d others",
                     name, CUTIN_VERSION, UNKNOWN_THUNKS);
        return NULL;
    }
    /* Up to CUDA 13.5 the names of all functions that begin a capture start like this. */
    if (strncmp(name, "cuStreamBegin", strlen("cuStreamBegin")) == 0)
        atomic_store_explicit(&begins[slot], true, memory_order_relaxed);
    if (log_enabled(LOG_INFO) && name_is_new(name))
        log_line(LOG_INFO, "%s is unknown to version %s: its calls wait for buffered work", name,
                 CUTIN_VERSION);
    return (void *)(unknown_thunks + (size_t)slot * UNKNOWN_THUNK_BYTES);
}

void *thunk_enter(uint32_t index);

/* Called by the thunks with the argument registers saved; returns where to jump. `index`: a row of
 * the table, or behind them a place in the pool. */
void *thunk_enter(uint32_t index)
{
    const bool known = index < API_COUNT;
    int saved = errno;
    void *to = known ? __atomic_load_n(&api_real[index], __ATOMIC_ACQUIRE)
                     : atomic_load_explicit(&real[index - API_COUNT], memory_order_relaxed);

    if (unlikely(!to))
        to = api_get((enum api_index)index);
    if (!atomic_load_explicit(&shim_off, memory_order_relaxed))
        shim_drain(known ? (enum drain_scope)api_rows[index].scope
                   : atomic_load_explicit(&begins[index - API_COUNT], memory_order_relaxed)
                       ? DRAIN_UNKNOWN_BEGIN
                       : DRAIN_UNKNOWN);
    errno = saved;
    return to;
}

/* Called with the lock of the loader's list, so it must not ask the loader: dladdr takes the
 * loader's other lock, and dlopen takes the two in the opposite order. */
static int object_look(struct dl_phdr_info *info, size_t size, void *user)
{
    static _Atomic unsigned long long looked; /* number of objects ever loaded, at the last look */
    unsigned long long *loaded = user;
    struct elf_object object;
    uint32_t at = 0;

    if (!*loaded) {
        *loaded = info->dlpi_adds;
        if (atomic_exchange(&looked, *loaded) == *loaded)
            return 1;
    }
    if (!elf_open(&object, info->dlpi_addr, elf_dynamic(info)))
        return 0;
    for (const char *name; (name = elf_undefined(&object, &at));) {
        if (!unknown_name(name) || !api_driver_exports(name))
            continue;
        atomic_fetch_or(&inline_reasons, (uint32_t)INLINE_UNKNOWN);
        if (log_enabled(LOG_INFO) && name_is_new(name))
            log_line(LOG_INFO,
                     "buffering off, calls wait in their thread: %s is linked with %s, which is "
                     "unknown to version %s",
                     info->dlpi_name && info->dlpi_name[0] ? info->dlpi_name : "the program", name,
                     CUTIN_VERSION);
    }
    return 0;
}

void unknown_look_links(void)
{
    unsigned long long loaded = 0;

    if (!shim_bypassed())
        elf_each_object(object_look, &loaded);
}
