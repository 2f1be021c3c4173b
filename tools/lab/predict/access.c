/*
 * access.c - the patterns of access (see access.h). Shares and sizes are stated, not measured.
 * docs/whatif-modules.md says which of them were set a second time.
 */
#include "access.h"

#include <string.h>

static const struct access_pattern patterns[] = {
    {"stream", "each block its own part", .own = 1},
    {"stencil", "its own part and its neighbours' edges", .own = 0.6, .halo = 0.4},
    {"mesh", "its own part, neighbours, and some of anywhere", .own = 0.5, .halo = 0.3,
     .random = 0.2},
    {"sparse", "rows of its own and a vector of 8 MB that all read", .own = 0.6, .shared = 0.4,
     .shared_bytes = 8 << 20},
    {"table", "its own part and a table of 1 MB that all read", .own = 0.5, .shared = 0.5,
     .shared_bytes = 1 << 20},
    {"graph", "mostly anywhere", .own = 0.3, .random = 0.7},
    {"uneven", "its own part and edges; later blocks have more to do", .own = 0.6, .halo = 0.4,
     .uneven = 0.2},
};

const struct access_pattern *access_pattern(size_t i)
{
    return i < sizeof(patterns) / sizeof(*patterns) ? &patterns[i] : NULL;
}

const struct access_pattern *access_pattern_find(const char *name)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
        if (strcmp(patterns[i].name, name) == 0)
            return &patterns[i];
    return NULL;
}
