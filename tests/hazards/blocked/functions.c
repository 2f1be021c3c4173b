/*
 * functions.c - see functions.h. A function without a row does not compile, and neither does a row
 * without a function.
 */
#include "tests/hazards/blocked/functions.h"

#include <string.h>

#include "tests/hazards/hazard.h"

/* ---- calls whose arguments are no words ------------------------------------------------------ */

static CUresult event_opened(void *address)
{
    CUipcEventHandle handle;
    MUST(cuIpcGetEventHandle(&handle, (CUevent)ipc_event));
    return ((CUresult (*)(CUevent *, CUipcEventHandle))address)((CUevent *)out, handle);
}

static CUresult memory_opened(void *address)
{
    CUipcMemHandle handle;
    MUST(cuIpcGetMemHandle(&handle, mem));
    return ((CUresult (*)(CUdeviceptr *, CUipcMemHandle, unsigned int))address)(
        (CUdeviceptr *)out, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

/* ---- the tables ------------------------------------------------------------------------------ */

#define WORDS(function_, ...)                                                                      \
    static void function_(word *to)                                                                \
    {                                                                                              \
        const word from[] = {__VA_ARGS__};                                                         \
        memcpy(to, from, sizeof(from));                                                            \
    }
#define CALL(name, how, ...)                                                                       \
    WORDS(words_##name, __VA_ARGS__)                                                               \
    static const struct function function_##name = {.waits = how, .arguments = words_##name};
#define CALL_BY(name, how, by)                                                                     \
    static const struct function function_##name = {.waits = how, .call = by};
#define VERSION(symbol, ...)         WORDS(version_##symbol, __VA_ARGS__)
#define CASE(symbol, what, how, ...) CALL(symbol##_##what, how, __VA_ARGS__)
#include "tests/hazards/blocked/functions.def"
#undef CALL
#undef CALL_BY
#undef VERSION
#undef CASE

const struct symbol symbols[] = {
#define API_PASS(symbol, function, ...)  {#symbol, &function_##function},
#define API_DRAIN(symbol, function, ...) {#symbol, &function_##function},
#define API_WRAP(symbol, function, ...)  {#symbol, &function_##function},
#include "shim/lookup/api.def"
#define CALL(name, how, ...)
#define CALL_BY(name, how, by)
#define VERSION(symbol, ...)
#define CASE(symbol, what, how, ...) {#symbol, &function_##symbol##_##what, #what},
#include "tests/hazards/blocked/functions.def"
#undef VERSION
#undef CASE
};
const int symbol_count = sizeof(symbols) / sizeof(*symbols);

static const struct version {
    const char *symbol;
    void (*arguments)(word *to);
} versions[] = {
#define VERSION(symbol, ...) {#symbol, version_##symbol},
#define CASE(symbol, what, how, ...)
#include "tests/hazards/blocked/functions.def"
};
enum { VERSIONS = sizeof(versions) / sizeof(*versions) };

/* The versions for per-thread default streams have the same arguments. */
static bool names(const struct version *v, const char *symbol)
{
    size_t length = strlen(v->symbol);
    return strncmp(v->symbol, symbol, length) == 0 &&
           (!symbol[length] || strcmp(symbol + length, "_ptds") == 0 ||
            strcmp(symbol + length, "_ptsz") == 0);
}

void symbol_arguments(const struct symbol *s, word *to)
{
    for (int i = 0; i < VERSIONS && !s->what; i++) {
        if (names(&versions[i], s->name)) {
            versions[i].arguments(to);
            return;
        }
    }
    if (s->function->arguments)
        s->function->arguments(to);
}
