/*
 * lookup.c - finds which exported symbol cuGetProcAddress returns for each name and version, and
 * where that differs from the shim's table.
 */
#include "gpu.h"

#include <dlfcn.h>
#include <string.h>

static const struct symbol {
    const char *name, *lookup; /* the exported name, and the name to look up */
    int version;
    bool per_thread;
} symbols[] = {
#define API_PASS(symbol, function, lookup, version, pt, ...)  {#symbol, #lookup, version, pt},
#define API_DRAIN(symbol, function, lookup, version, pt, ...) {#symbol, #lookup, version, pt},
#define API_WRAP(symbol, function, lookup, version, pt, ...)  {#symbol, #lookup, version, pt},
#include "shim/lookup/api.def"
};
enum { SYMBOLS = sizeof(symbols) / sizeof(symbols[0]) };

static const int versions[] = {11040, 11080, 12000, 12040, 12080, 13000, 13050};

static void *address[SYMBOLS];

typedef CUresult (*lookup_fn)(const char *, void **, int, cuuint64_t,
                              CUdriverProcAddressQueryResult *);

/* The newest row of the name that is not newer than `version`. */
static int expected(const char *lookup, int version, bool per_thread)
{
    int best = -1;

    for (int i = 0; i < SYMBOLS; i++) {
        const struct symbol *s = &symbols[i];
        if (strcmp(s->lookup, lookup) != 0 || s->version > version || s->per_thread > per_thread)
            continue;
        if (best < 0 || s->per_thread > symbols[best].per_thread ||
            (s->per_thread == symbols[best].per_thread && s->version > symbols[best].version))
            best = i;
    }
    return best;
}

/* The symbol of that name at this address; else any symbol at it; else says what was found. */
static const char *name_of(const void *found, const char *lookup)
{
    const char *other = "an address that is not exported";

    if (!found)
        return "nothing";
    for (int i = SYMBOLS - 1; i >= 0; i--)
        if (address[i] == found) {
            if (strcmp(symbols[i].lookup, lookup) == 0)
                return symbols[i].name;
            other = symbols[i].name;
        }
    return other;
}

static bool first_of_its_name(int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(symbols[k].lookup, symbols[i].lookup) == 0)
            return false;
    return true;
}

void fact_lookup(void)
{
    json_t *differs = json_array(), *missing = json_array();
    int asked = 0, as_expected = 0, exported = 0;
    lookup_fn lookup;

    gpu_init();
    *(void **)&lookup = dlsym(gpu.library, "cuGetProcAddress_v2");
    if (!lookup)
        fact_skip("no cuGetProcAddress_v2");
    for (int i = 0; i < SYMBOLS; i++) {
        address[i] = dlsym(gpu.library, symbols[i].name);
        exported += !!address[i];
        if (!address[i])
            json_array_append_new(missing, json_string(symbols[i].name));
    }
    for (int i = 0; i < SYMBOLS; i++)
        for (size_t v = 0; v < 2 * sizeof(versions) / sizeof(versions[0]) && first_of_its_name(i);
             v++) {
            bool per_thread = v % 2;
            int version = versions[v / 2], row = expected(symbols[i].lookup, version, per_thread);
            if (version > gpu.version)
                continue; /* the driver lacks these functions, and the request is not valid */
            void *found = NULL;
            CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
            CUresult result = lookup(symbols[i].lookup, &found, version,
                                     per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                                : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                                     &status);

            asked++;
            /* Versions may share an address, so the address is compared, not the symbol. */
            if (found == (row < 0 ? NULL : address[row])) {
                as_expected++;
                continue;
            }
            json_array_append_new(
                differs,
                json_pack("{s:s, s:i, s:b, s:s, s:s, s:s, s:i}", "name", symbols[i].lookup,
                          "version", version, "per_thread", per_thread, "expected",
                          row < 0 ? "nothing" : symbols[row].name, "found",
                          result == CUDA_SUCCESS ? name_of(found, symbols[i].lookup) : "nothing",
                          "result", gpu_error(result), "status", (int)status));
        }
    fact_value("driver_version", json_integer(gpu.version));
    fact_value("symbols", json_integer(SYMBOLS));
    fact_value("symbols_exported", json_integer(exported));
    fact_value("asked", json_integer(asked));
    fact_value("as_expected", json_integer(as_expected));
    fact_value("missing_symbols", missing);
    fact_value("differs", differs);
}
