/*
 * coverage_doc.c - prints docs/coverage.md: what cutin does with every driver function.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <stdio.h>
#include <string.h>

enum how { PASS, DRAIN, WRAP };

static const struct row {
    const char *symbol;
    int version, per_thread;
    enum how how;
    const char *class, *action, *scope;
} rows[] = {
#define API_PASS(symbol, function, name, version, per_thread, class, action)                       \
    {#symbol, version, per_thread, PASS, #class, #action, ""},
#define API_DRAIN(symbol, function, name, version, per_thread, class, action, scope)               \
    {#symbol, version, per_thread, DRAIN, #class, #action, #scope},
#define API_WRAP(symbol, function, name, version, per_thread, class, action)                       \
    {#symbol, version, per_thread, WRAP, #class, #action, ""},
#include "shim/lookup/api.def"
};
enum { ROWS = sizeof(rows) / sizeof(*rows), NEVER = 99990 };

static const char *what(const struct row *r)
{
    if (r->how == PASS)
        return "passes";
    if (r->how == WRAP)
        return "wrapped";
    if (strcmp(r->scope, "DRAIN_ALL") == 0 || strcmp(r->scope, "DRAIN_WORK") == 0)
        return "drains every context";
    return strcmp(r->scope, "DRAIN_LEGACY") == 0 ? "drains the legacy stream's order"
                                                 : "drains the context";
}

int main(void)
{
    int count[3] = {0}, holes = 0;

    for (int i = 0; i < ROWS; i++) {
        count[rows[i].how]++;
        /* Classes of calls that could overtake buffered work; passing one would be a hole. */
        holes += rows[i].how == PASS &&
                 (strcmp(rows[i].class, "STREAM_ORDERED") == 0 ||
                  strcmp(rows[i].class, "LAUNCH") == 0 || strcmp(rows[i].class, "SYNC_POINT") == 0);
    }
    printf(
        "# What cutin does with every driver function\n\n"
        "Generated from `shim/lookup/api.def` by `cmake --build build --target coverage`; do not "
        "edit.\n\n"
        "%d functions are classified: all of `cuda.h`, `cudaProfiler.h`, `cudaGL.h`, `cudaEGL.h` "
        "and "
        "`cudaVDPAU.h` from CUDA 12.0 to 13.5, and those that real libraries export and no header "
        "declares. %d are wrapped, %d drain first, %d pass untouched. Of those that pass, %d could "
        "overtake buffered work. A function that a newer driver brings drains.\n\n"
        "- *passes*: no ordering effect; the program calls the driver directly.\n"
        "- *drains*: buffered work is submitted first, then the driver is called.\n"
        "- *wrapped*: queued, tracked or answered by a wrapper of its own.\n\n"
        "*since*: the version of CUDA from which on `cuGetProcAddress` finds it; -: by `dlsym` "
        "alone.\n\n",
        ROWS, count[WRAP], count[DRAIN], count[PASS], holes);
    printf("| symbol | since | stream | class | cutin | action |\n|---|---|---|---|---|---|\n");
    for (int i = 0; i < ROWS; i++) {
        const struct row *r = &rows[i];
        char since[16] = "-";
        if (r->version < NEVER)
            snprintf(since, sizeof(since), "%d.%d", r->version / 1000, r->version % 1000 / 10);
        printf("| `%s` | %s | %s | %s | %s | %s |\n", r->symbol, since,
               r->per_thread ? "per-thread" : "-", r->class, what(r), r->action);
    }
    return ferror(stdout) || fflush(stdout) != 0;
}
