/*
 * elf.h - reading loaded ELF objects: the shim's own symbol search.
 *
 * It serves where the loader's dlsym cannot: to find dlsym itself, to read the driver's own
 * addresses even if dlsym is interposed, and to see where in the search order a caller is. No libc
 * string functions, no allocation, no instrumentation: it runs inside sanitizer start-up.
 */
#ifndef CUTIN_SHIM_LOOKUP_ELF_H
#define CUTIN_SHIM_LOOKUP_ELF_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_object {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const char *soname;        /* NULL = none */
    const uint32_t *gnu_hash;  /* NULL = none */
    const uint32_t *sysv_hash; /* NULL = none */
    const ElfW(Half) * versions;
};

/* False when the object has no dynamic symbol table. */
bool elf_open(struct elf_object *object, uintptr_t base, const ElfW(Dyn) * dynamic);
/* The dynamic section of a loaded object; NULL: it has none. */
const ElfW(Dyn) * elf_dynamic(const struct dl_phdr_info *info);
bool elf_open_map(struct elf_object *object, const struct link_map *map);

/* A defined function or variable by exact name, default version first; NULL = absent. */
const ElfW(Sym) * elf_symbol(const struct elf_object *object, const char *name);
/* The address of that. */
void *elf_find(const struct elf_object *object, const char *name);

/* Number of symbols. Only the hash tables tell it: the strings need not lie behind the symbols once
 * a tool has patched the file, as NixOS and Python's wheels do. */
size_t elf_count(const struct elf_object *object);
/* The name of the next symbol behind `*at` (0 at first) that the object expects from others; NULL:
 * none is left. */
const char *elf_undefined(const struct elf_object *object, uint32_t *at);

int elf_strcmp(const char *a, const char *b);

/*
 * dl_iterate_phdr, for which a fork waits. It holds the lock of the loader's list, which glibc does
 * not free in a child, so any dlopen there would hang. The fork waits a second at most, because the
 * thread that has the lock may wait for the thread that forks.
 */
void elf_each_object(int (*visit)(struct dl_phdr_info *info, size_t size, void *user), void *user);
void elf_before_fork(void);
void elf_after_fork(bool child);

/* The loader's entry for the object that contains the address; NULL: there is none. */
struct link_map *elf_map_of(const void *address);
/* The same for this library. */
struct link_map *elf_self(void);

#endif
