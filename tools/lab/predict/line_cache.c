/*
 * line_cache.c - a cache of lines in sets (see line_cache.h).
 */
#include "line_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 16 };

int line_cache_open(struct line_cache *c, size_t lines)
{
    c->sets = lines / WAYS;
    c->line = calloc(c->sets * WAYS + 1, sizeof(*c->line));
    return c->line ? 0 : -ENOMEM;
}

void line_cache_close(struct line_cache *c)
{
    free(c->line);
    *c = (struct line_cache){0};
}

void line_cache_clear(struct line_cache *c)
{
    memset(c->line, 0, c->sets * WAYS * sizeof(*c->line));
}

bool line_cache_touch(struct line_cache *c, uint32_t line)
{
    uint32_t *set;
    bool there;
    int way = 0;

    if (!c->sets)
        return false;
    set = &c->line[line * UINT64_C(0x9e3779b97f4a7c15) / 65536 % c->sets * WAYS];
    while (way < WAYS - 1 && set[way] != line + 1)
        way++;
    there = set[way] == line + 1; /* otherwise the last line is evicted */
    memmove(set + 1, set, (size_t)way * sizeof(*set));
    set[0] = line + 1;
    return there;
}
