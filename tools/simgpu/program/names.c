/* names.c - a table of strings under one lock. Nothing is ever removed. */
#include "tools/simgpu/program/image.h"

struct name {
    struct name *next;
    size_t length;
    char text[];
};

enum { BUCKETS = 4096 };
static struct name *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *name_keep(const char *text, size_t length)
{
    uint32_t hash = 0x811c9dc5; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)text[i]) * 0x01000193;
    struct name **bucket = &buckets[hash % BUCKETS];
    SCOPED_LOCK(&lock);
    struct name *n = *bucket;
    while (n && (n->length != length || memcmp(n->text, text, length) != 0))
        n = n->next;
    if (!n && (n = malloc(sizeof(*n) + length + 1))) {
        n->length = length;
        memcpy(n->text, text, length);
        n->text[length] = '\0';
        n->next = *bucket;
        *bucket = n;
    }
    return n ? n->text : NULL;
}
