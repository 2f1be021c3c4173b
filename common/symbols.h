/*
 * symbols.h - the dynamic symbols of a loaded object.
 */
#ifndef CUTIN_COMMON_SYMBOLS_H
#define CUTIN_COMMON_SYMBOLS_H

#include <link.h>
#include <stddef.h>
#include <stdint.h>

struct symbols {
    const ElfW(Sym) * symbol; /* NULL: none */
    const char *strings;
    size_t count;
};

/* The last symbol is the end of the chain that begins last. */
static inline size_t symbols_hashed(const uint32_t *gnu)
{
    uint32_t buckets = gnu[0], first = gnu[1], words = gnu[2], last = 0;
    const uint32_t *bucket = gnu + 4 + words * (sizeof(ElfW(Addr)) / sizeof(*gnu));
    const uint32_t *chain = bucket + buckets;

    for (uint32_t i = 0; i < buckets; i++)
        last = bucket[i] > last ? bucket[i] : last;
    if (last < first)
        return first;
    while (!(chain[last - first] & 1))
        last++;
    return last + 1;
}

/* No table says how many there are but those of hashes: strings lie behind the symbols only until
 * somebody has patched the file, as NixOS and wheels of Python do. */
static inline struct symbols symbols_of(const struct link_map *map)
{
    const uint32_t *sysv = NULL, *gnu = NULL;
    struct symbols all = {0};

    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        const void *at = (const void *)d->d_un.d_ptr;
        if (d->d_tag == DT_SYMTAB)
            all.symbol = at;
        else if (d->d_tag == DT_STRTAB)
            all.strings = at;
        else if (d->d_tag == DT_HASH)
            sysv = at;
        else if (d->d_tag == DT_GNU_HASH)
            gnu = at;
    }
    if (all.symbol && all.strings)
        all.count = sysv ? sysv[1] : gnu ? symbols_hashed(gnu) : 0;
    return all;
}

#endif
