/*
 * line_cache.h - a cache of lines: 16 ways, evicts the least recently used line.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_LINE_CACHE_H
#define CUTIN_TOOLS_LAB_PREDICT_LINE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct line_cache {
    uint32_t *line; /* lines of each set, the latest first; 0: none, else 1 + the line */
    size_t sets;
};

/* With fewer than 16 lines there is no cache: no touch hits. Returns 0 or -ENOMEM. */
int line_cache_open(struct line_cache *c, size_t lines);
void line_cache_close(struct line_cache *c);
void line_cache_clear(struct line_cache *c);
/* True: the line was there. It is there afterwards. */
bool line_cache_touch(struct line_cache *c, uint32_t line);

#endif
