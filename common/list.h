/*
 * list.h - lists that grow.
 */
#ifndef CUTIN_COMMON_LIST_H
#define CUTIN_COMMON_LIST_H

#include <errno.h>
#include <stdlib.h>

/* Makes room for one more element of `size` bytes; `list` points to the pointer. 0 or -ENOMEM. */
static inline int list_grow(void *list, size_t *room, size_t used, size_t size)
{
    void **at = list, *more;
    size_t n = *room ? *room * 2 : 16;

    if (used < *room)
        return 0;
    more = realloc(*at, n * size);
    if (!more)
        return -ENOMEM;
    *at = more;
    *room = n;
    return 0;
}

#endif
