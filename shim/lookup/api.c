/*
 * api.c - every driver symbol: its row, our function for it, and the driver's own address.
 *
 * The driver's addresses are read from its symbol table. dlsym is not asked: another preload that
 * interposes dlsym would answer with its own wrappers, and those may well call us.
 *
 * No lock: a thread inside dlopen may be running a constructor that looks up CUDA symbols while
 * another thread loads the table and waits for the loader. Instead, every thread that gets here
 * early stores the same values.
 */
#include "shim/lookup/api.h"
#include "shim/lookup/elf.h"

#include <dlfcn.h>

void *api_real[API_COUNT], *api_driver[API_COUNT];

/* Our functions, by their exported names, since an older cuda.h lacks some prototypes. */
#define API_PASS(symbol, ...)
#define API_DRAIN(symbol, ...) extern char ours_##symbol[] __asm__(#symbol);
#define API_WRAP(symbol, ...)  extern char ours_##symbol[] __asm__(#symbol);
#include "shim/lookup/api.def"

const struct api_row api_rows[API_COUNT] = {
#define API_PASS(symbol, function, name, version, per_thread, ...)                                 \
    {#symbol, #name, NULL, version, per_thread, DRAIN_CONTEXT},
#define API_DRAIN(symbol, function, name, version, per_thread, class, action, scope)               \
    {#symbol, #name, ours_##symbol, version, per_thread, scope},
#define API_WRAP(symbol, function, name, version, per_thread, ...)                                 \
    {#symbol, #name, ours_##symbol, version, per_thread, DRAIN_CONTEXT},
#include "shim/lookup/api.def"
};

static const uint16_t by_symbol[] = {
#define API_BY_SYMBOL(symbol) API_##symbol,
#include "api_index.h"
#undef API_BY_SYMBOL
};

/* For each name its first row and the number of its rows. */
static const uint16_t by_name[] = {
#define API_BY_NAME(name, first, count) API_##first, count,
#include "api_index.h"
#undef API_BY_NAME
};

/* Finds a name or symbol in a sorted table with `step` numbers for each entry; NULL: not there. */
static const uint16_t *find(const char *text, bool names, const uint16_t *table, size_t high,
                            size_t step)
{
    size_t low = 0;

    while (low < high) {
        size_t middle = (low + high) / 2;
        const uint16_t *at = &table[middle * step];
        int order = elf_strcmp(text, names ? api_rows[*at].name : api_rows[*at].symbol);
        if (order == 0)
            return at;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

int api_find(const char *symbol)
{
    if (symbol[0] != 'c' || symbol[1] != 'u')
        return -1; /* nearly every lookup of a program ends here */
    const uint16_t *found =
        find(symbol, false, by_symbol, sizeof(by_symbol) / sizeof(*by_symbol), 1);
    return found ? *found : -1;
}

const uint16_t *api_find_name(const char *name)
{
    return find(name, true, by_name, sizeof(by_name) / sizeof(*by_name) / 2, 2);
}

#define DRIVER "libcuda.so.1"

/* Atomic; set after api_real was filled. NULL: it is not bound yet. */
static struct link_map *driver;

static void real_store(int row, void *address)
{
    void *front = address ? shim_stand_in(row) : NULL;

    __atomic_store_n(&api_driver[row], address, __ATOMIC_RELEASE);
    __atomic_store_n(&api_real[row], front ? front : address, __ATOMIC_RELEASE);
}

void api_say(int row, const char *route)
{
    static _Atomic uint64_t said[API_COUNT]; /* a bit of each route; equal hashes share one */

    if (!log_enabled(LOG_DEBUG))
        return;
    uint64_t bit = UINT64_C(1) << text_hash(route) % 64;
    if (!(atomic_fetch_or_explicit(&said[row], bit, memory_order_relaxed) & bit))
        log_line(LOG_DEBUG, "%s -> cutin (%s)", api_rows[row].symbol, route);
}

/* Every loaded object with an undefined symbol that names a driver function is bound to our
 * exports. */
static int say_object(struct dl_phdr_info *info, size_t size, void *user)
{
    struct elf_object object;
    const char *name;
    uint32_t at = 0;

    if (!elf_open(&object, info->dlpi_addr, elf_dynamic(info)))
        return 0;
    while ((name = elf_undefined(&object, &at))) {
        int row = api_find(name);
        if (row >= 0 && api_rows[row].ours)
            api_say(row, "direct link");
    }
    return 0;
}

/* The driver as the loader finds it, bound; NULL: there is none. May be called any number of times,
 * from any thread, also from constructors of other libraries. The handle is never closed, so the
 * addresses in api_real stay valid even when the program closes its own handle. */
static struct link_map *driver_open(int flags)
{
    struct link_map *map = __atomic_load_n(&driver, __ATOMIC_ACQUIRE), *there = NULL;
    struct elf_object object;
    void *handle;

    if (map)
        return map;
    handle = dlopen(DRIVER, RTLD_LAZY | flags);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !elf_open_map(&object, map))
        return NULL;
    for (int row = 0; row < API_COUNT; row++)
        if (api_rows[row].ours)
            real_store(row, elf_find(&object, api_rows[row].symbol));
    if (!__atomic_compare_exchange_n(&driver, &there, map, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return there;
    log_line(LOG_INFO, "version %s in front of %s", CUTIN_VERSION, map->l_name);
    if (log_enabled(LOG_DEBUG))
        elf_each_object(say_object, NULL);
    process_cuda_seen();
    return map;
}

bool api_driver_holds(const void *address)
{
    const struct link_map *map = elf_map_of(address);

    return map && map == driver_open(RTLD_NOLOAD);
}

/* dladdr tells the symbol at an address. If there is none, the address came from cuGetProcAddress,
 * which returns only functions. */
bool api_driver_function(const void *address)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (!api_driver_holds(address))
        return false;
    if (!dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) || info.dli_saddr != address)
        return true;
    return symbol && (symbol->st_info & 0xf) == STT_FUNC;
}

bool api_driver_exports(const char *symbol)
{
    const struct link_map *map = __atomic_load_n(&driver, __ATOMIC_ACQUIRE);
    struct elf_object object;
    const ElfW(Sym) *found = map && elf_open_map(&object, map) ? elf_symbol(&object, symbol) : NULL;

    return found && (found->st_info & 0xf) == STT_FUNC;
}

void api_adopt(int row, void *address)
{
    if (!__atomic_load_n(&api_real[row], __ATOMIC_ACQUIRE))
        real_store(row, address); /* every thread stores the same */
}

/* Called in place of a function that the driver lacks, with any arguments. */
static CUresult no_driver(void)
{
    return CUDA_ERROR_NOT_INITIALIZED;
}

static CUresult no_function(void)
{
    return CUDA_ERROR_NOT_FOUND;
}

void *api_get(enum api_index index)
{
    static bool said;
    const struct link_map *map = driver_open(RTLD_NOLOAD);
    struct elf_object object;
    void *real;

    if (!map && !(map = driver_open(0))) {
        if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
            log_line(LOG_ERROR, "the loader finds no " DRIVER ": %s", dlerror());
        return (void *)no_driver;
    }
    real = __atomic_load_n(&api_real[index], __ATOMIC_ACQUIRE);
    if (!real && elf_open_map(&object, map)) {
        real = elf_find(&object, api_rows[index].symbol); /* API_PASS rows are found on demand */
        if (real)
            real_store((int)index, real);
    }
    return real ? real : (void *)no_function;
}
