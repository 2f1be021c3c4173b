/*
 * names.h - names kept whole and once, one behind the other in text that others may map or read
 * from a file.
 *
 * The number of a name is the byte where it begins; byte 0 is the empty name's, and number 0 means
 * "none". Names are found by hash, in slots of this process alone. Nothing is allocated and no
 * system call made. names_find may run beside one names_add: a name that it finds is complete. A
 * thread that adds holds a lock.
 */
#ifndef CUTIN_COMMON_NAMES_H
#define CUTIN_COMMON_NAMES_H

#include <stdatomic.h>
#include <stdint.h>

enum { NAMES_SLOTS = 8192 };

struct names {
    char *text; /* `room` bytes, of which `used` are names with their ends */
    uint32_t used, room;
    uint32_t count;
    _Atomic uint32_t slot[NAMES_SLOTS]; /* numbers; 0: free */
};

/* Takes over text that already has `used` bytes of names, or 0. */
void names_open(struct names *n, char *text, uint32_t used, uint32_t room);
/* The number of a name; 0: it is not there, or empty. */
uint32_t names_find(const struct names *n, const char *name);
/* The same, and adds a name that is not there. 0: it is empty, or there is no room for all of
 * it. */
uint32_t names_add(struct names *n, const char *name);

#endif
