/*
 * elf.c - reading loaded ELF objects: dynamic section, GNU and System V hash tables.
 */
#include "shim/lookup/elf.h"
#include "common/clock.h"

#include <dlfcn.h>
#include <pthread.h>

/* libc's strcmp may be a sanitizer's interceptor, which calls dlsym before it works. */
int elf_strcmp(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}

bool elf_open(struct elf_object *object, uintptr_t base, const ElfW(Dyn) * dynamic)
{
    uintptr_t soname = 0;

    *object = (struct elf_object){.base = base};
    if (!dynamic)
        return false;
    for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
        /* glibc relocates these addresses, except where the section is read-only (vdso). */
        uintptr_t value = d->d_un.d_ptr;
        const void *at = (const void *)(value < base ? base + value : value);
        if (d->d_tag == DT_SYMTAB)
            object->symbols = at;
        else if (d->d_tag == DT_STRTAB)
            object->strings = at;
        else if (d->d_tag == DT_GNU_HASH)
            object->gnu_hash = at;
        else if (d->d_tag == DT_HASH)
            object->sysv_hash = at;
        else if (d->d_tag == DT_VERSYM)
            object->versions = at;
        else if (d->d_tag == DT_SONAME)
            soname = value;
    }
    if (soname && object->strings)
        object->soname = object->strings + soname;
    return object->symbols && object->strings;
}

const ElfW(Dyn) * elf_dynamic(const struct dl_phdr_info *info)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

bool elf_open_map(struct elf_object *object, const struct link_map *map)
{
    return elf_open(object, map->l_addr, map->l_ld);
}

/* Notes a definition of this name as found; that of the default version counts most. True: it is
 * that one. */
static bool take(const struct elf_object *object, uint32_t index, const char *name, uint32_t *found)
{
    const ElfW(Sym) *symbol = &object->symbols[index];
    unsigned type = symbol->st_info & 0xf, bind = symbol->st_info >> 4;

    if (symbol->st_shndx == SHN_UNDEF || (bind != STB_GLOBAL && bind != STB_WEAK) ||
        (type != STT_NOTYPE && type != STT_FUNC && type != STT_OBJECT) ||
        elf_strcmp(object->strings + symbol->st_name, name) != 0)
        return false;
    /* An old version is kept for programs linked against it. */
    bool old = object->versions && (object->versions[index] & 0x8000);
    if (!old || !*found)
        *found = index;
    return !old;
}

static uint32_t find_gnu(const struct elf_object *object, const char *name)
{
    const uint32_t *h = object->gnu_hash;
    uint32_t buckets = h[0], first = h[1], words = h[2], shift = h[3];
    const ElfW(Addr) *bloom = (const ElfW(Addr) *)(h + 4);
    const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
    const uint32_t bits = sizeof(*bloom) * 8;
    uint32_t hash = 5381, found = 0;

    for (const char *s = name; *s; s++)
        hash = hash * 33 + (unsigned char)*s;
    if (!buckets || !words)
        return 0;
    ElfW(Addr) word = bloom[hash / bits % words];
    if (!(word >> (hash % bits) & word >> ((hash >> shift) % bits) & 1))
        return 0;
    uint32_t index = bucket[hash % buckets];
    if (index < first)
        return 0;
    for (;; index++) {
        uint32_t here = chain[index - first];
        if (((here | 1) == (hash | 1) && take(object, index, name, &found)) || here & 1)
            return found;
    }
}

static uint32_t find_sysv(const struct elf_object *object, const char *name)
{
    const uint32_t *h = object->sysv_hash;
    const uint32_t *bucket = h + 2, *chain = bucket + h[0];
    uint32_t hash = 0, found = 0;

    for (const char *s = name; *s; s++) {
        hash = (hash << 4) + (unsigned char)*s;
        uint32_t top = hash & 0xf0000000;
        hash = (hash ^ top >> 24) & ~top;
    }
    if (!h[0])
        return 0;
    for (uint32_t index = bucket[hash % h[0]]; index; index = chain[index])
        if (take(object, index, name, &found))
            break;
    return found;
}

const ElfW(Sym) * elf_symbol(const struct elf_object *object, const char *name)
{
    uint32_t index = object->gnu_hash    ? find_gnu(object, name)
                     : object->sysv_hash ? find_sysv(object, name)
                                         : 0;

    return index ? &object->symbols[index] : NULL;
}

void *elf_find(const struct elf_object *object, const char *name)
{
    const ElfW(Sym) *symbol = elf_symbol(object, name);

    return symbol ? (void *)(object->base + symbol->st_value) : NULL;
}

/* By a GNU hash table the last symbol is the end of the chain that begins last. */
size_t elf_count(const struct elf_object *object)
{
    const uint32_t *gnu = object->gnu_hash;

    if (object->sysv_hash || !gnu)
        return object->sysv_hash ? object->sysv_hash[1] : 0;
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

/* In a GNU hash table the symbols in front of the first are the undefined ones; a System V table
 * counts all symbols. */
const char *elf_undefined(const struct elf_object *object, uint32_t *at)
{
    uint32_t end = object->gnu_hash    ? object->gnu_hash[1]
                   : object->sysv_hash ? object->sysv_hash[1]
                                       : 0;

    while (++*at < end)
        if (object->symbols[*at].st_shndx == SHN_UNDEF)
            return object->strings + object->symbols[*at].st_name;
    return NULL;
}

/* Recursive, because a signal handler may fork in the middle of a walk. */
static pthread_mutex_t walking = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void elf_each_object(int (*visit)(struct dl_phdr_info *info, size_t size, void *user), void *user)
{
    pthread_mutex_lock(&walking);
    dl_iterate_phdr(visit, user);
    pthread_mutex_unlock(&walking);
}

void elf_before_fork(void)
{
    enum { LOOKS = 10000, APART_NS = 100000 };

    for (int i = 0; i < LOOKS && pthread_mutex_trylock(&walking) != 0; i++)
        clock_nap(APART_NS);
}

void elf_after_fork(bool child)
{
    /* Fails where the wait timed out, and in a child, whose thread has another number. */
    pthread_mutex_unlock(&walking);
    if (child)
        walking = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

struct link_map *elf_map_of(const void *address)
{
    struct link_map *map;
    Dl_info info;

    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

struct link_map *elf_self(void)
{
    static struct link_map *self; /* every thread would store the same */
    struct link_map *map = __atomic_load_n(&self, __ATOMIC_RELAXED);

    if (!map && (map = elf_map_of((const void *)elf_self)))
        __atomic_store_n(&self, map, __ATOMIC_RELAXED);
    return map;
}
