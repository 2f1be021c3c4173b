/*
 * kinds.c - finds which kind of result an object is.
 */
#include "plot.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const struct result_kind kinds[] = {
    {.name = "latency",
     .title = "cutin latency",
     .members = "modes",
     .unique_key = "added_us",
     .figures = {"p50_us", "p99_us"},
     .cdf = "cdf_us"},
    {.name = "overhead",
     .title = "cutin-lab overhead",
     .groups = "runs",
     .members = "",
     .label = "threads",
     .unique_key = "pass_through",
     .figures = {"launch.added_ns_p50", "event_record.added_ns_p50", "memcpy_async.added_ns_p50"}},
    {.name = "disb",
     .title = "cutin-lab disb",
     .groups = "workloads",
     .members = "modes",
     .unique_key = "models",
     .figures = {"rt_vs_alone", "throughput_vs_rt_only"},
     .cdf = "rt.cdf_us"},
    {.name = "ablation",
     .title = "cutin-lab ablation",
     .members = "rows",
     .label = "variant",
     .unique_key = "added_us",
     .figures = {"added_us.p50", "added_us.p99", "be_throughput_ratio", "be_kernel_us"}},
};

json_t *result_get(const json_t *root, const char *path)
{
    char key[64];

    while (root && *path) {
        size_t length = strcspn(path, ".");

        snprintf(key, sizeof(key), "%.*s", (int)length, path);
        root = json_object_get(root, key);
        path += length + (path[length] == '.');
    }
    return (json_t *)(uintptr_t)root;
}

static bool is(const struct result_kind *kind, const json_t *root)
{
    const json_t *all = result_get(root, kind->groups ? kind->groups : kind->members);

    return json_is_array(all)
               ? kind->label && result_get(json_array_get(all, 0), kind->unique_key)
               : !kind->label && json_object_size(all) > 0 && result_get(root, kind->unique_key);
}

const struct result_kind *result_kind_of(const json_t *root)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (is(&kinds[i], root))
            return &kinds[i];
    return NULL;
}
