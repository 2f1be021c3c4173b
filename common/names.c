/*
 * names.c - names kept whole and once (see names.h). Lives in libcutin.so: libc alone.
 */
#include "common/names.h"
#include "common/text.h"

#include <string.h>

enum { MOST = NAMES_SLOTS / 4 * 3 }; /* so a search always ends at a free slot */

/* The slot that has the name, or the free one where it belongs. */
static uint32_t slot_find(const struct names *n, const char *name, uint32_t *number)
{
    uint32_t at = (uint32_t)text_hash(name) % NAMES_SLOTS;

    /* Acquire: a thread that sees a number also sees its text. Partner: names_enter. */
    while ((*number = atomic_load_explicit(&n->slot[at], memory_order_acquire)) != 0 &&
           strcmp(n->text + *number, name) != 0)
        at = (at + 1) % NAMES_SLOTS;
    return at;
}

static void names_enter(struct names *n, uint32_t number)
{
    uint32_t known, at = slot_find(n, n->text + number, &known);

    if (known || n->count == MOST)
        return;
    n->count++;
    atomic_store_explicit(&n->slot[at], number, memory_order_release);
}

void names_open(struct names *n, char *text, uint32_t used, uint32_t room)
{
    memset(n, 0, sizeof(*n));
    n->text = text;
    n->room = room;
    n->used = used ? used : 1;
    if (!used)
        text[0] = '\0';
    for (uint32_t at = 1; at < used; at += (uint32_t)strlen(text + at) + 1)
        if (text[at])
            names_enter(n, at);
}

uint32_t names_find(const struct names *n, const char *name)
{
    uint32_t number = 0;

    if (name[0])
        slot_find(n, name, &number);
    return number;
}

uint32_t names_add(struct names *n, const char *name)
{
    uint32_t number = names_find(n, name);
    size_t bytes = strlen(name) + 1;

    if (number || bytes == 1 || n->count == MOST || bytes > n->room - n->used)
        return number;
    number = n->used;
    memcpy(n->text + number, name, bytes);
    n->used += (uint32_t)bytes;
    names_enter(n, number);
    return number;
}
