/* times.c - a table of the times of kernels, read from a file (see times.h). */
#include "tools/simgpu/device/times.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    struct line *next;
    char *pattern;
    uint64_t base_ns, wave_ns;
    uint32_t grid[3], block[3]; /* 0: any */
};

struct times_list {
    struct times_list *next; /* the next of the same bucket */
    const char *name;
    size_t n;
    const struct line *line[];
};

enum { BUCKETS = 4096, MESSAGES = 8, MOST_US = 10000000 };

struct times {
    struct line *first;
    pthread_mutex_t lock;
    struct times_list *bucket[BUCKETS];
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads microseconds, which may have a fraction. */
static bool time_read(const char *word, uint64_t *ns)
{
    char *end;
    double us = strtod(word, &end);
    if (end == word || *end != '\0' || !(us >= 0 && us <= MOST_US))
        return false;
    *ns = (uint64_t)(us * 1000 + 0.5);
    return true;
}

static bool shape_read(const char *word, uint32_t shape[3])
{
    int end = 0;
    if (sscanf(word, "%u,%u,%u%n", &shape[0], &shape[1], &shape[2], &end) != 3 || word[end])
        return false;
    return shape[0] && shape[1] && shape[2];
}

/* Says what is wrong with the word; NULL: nothing. `at` is the number of words before it. */
static const char *word_read(struct line *l, size_t at, const char *word)
{
    if (at == 0)
        return (l->pattern = strdup(word)) ? NULL : "cannot be kept: no memory";
    if (at == 1)
        return time_read(word, &l->base_ns) ? NULL
                                            : "is not a time in microseconds from 0 to 10000000";
    if (!strncmp(word, "grid=", 5))
        return shape_read(word + 5, l->grid) ? NULL : "is not grid=X,Y,Z";
    if (!strncmp(word, "block=", 6))
        return shape_read(word + 6, l->block) ? NULL : "is not block=X,Y,Z";
    if (at == 2)
        return time_read(word, &l->wave_ns) ? NULL
                                            : "is not a time in microseconds from 0 to 10000000";
    return "is neither grid=X,Y,Z nor block=X,Y,Z";
}

/* NULL: the line says nothing (`bad` stays NULL), or makes no sense (`bad`: the word, `why`). */
static struct line *line_read(char *text, const char **bad, const char **why)
{
    char *save = NULL, *word = strtok_r(text, " \t\r\n", &save);
    struct line *l;
    if (!word || *word == '#' || !(l = calloc(1, sizeof(*l))))
        return NULL;
    size_t at = 0;
    do {
        *bad = word;
        *why = word_read(l, at++, word);
    } while (!*why && (word = strtok_r(NULL, " \t\r\n", &save)));
    if (!*why && at == 1)
        *why = "has no time after it";
    if (*why) {
        free(l->pattern);
        free(l);
        return NULL;
    }
    *bad = NULL;
    return l;
}

static void file_read(struct times *t, FILE *f, const char *path)
{
    struct line **last = &t->first;
    char *text = NULL;
    size_t room = 0, number = 0, messages = 0;
    while (getline(&text, &room, f) > 0) {
        const char *bad = NULL, *why = NULL;
        struct line *l = line_read(text, &bad, &why);
        number++;
        if (l) {
            *last = l;
            last = &l->next;
        }
        if (bad && messages++ < MESSAGES)
            fprintf(stderr,
                    "simgpu: SIMGPU_KERNEL_TIMES: %s:%zu: %.200s %s; the line is left out\n", path,
                    number, bad, why);
    }
    if (messages > MESSAGES)
        fprintf(stderr, "simgpu: SIMGPU_KERNEL_TIMES: %s: %zu more lines make no sense\n", path,
                messages - MESSAGES);
    free(text);
}

struct times *times_open(const char *path)
{
    FILE *f = fopen(path, "re");
    struct times *t = f ? calloc(1, sizeof(*t)) : NULL;
    if (t) {
        pthread_mutex_init(&t->lock, NULL);
        file_read(t, f, path);
    } else {
        fprintf(stderr,
                "simgpu: SIMGPU_KERNEL_TIMES=%s cannot be read: %s; kernels take "
                "SIMGPU_KERNEL_US\n",
                path, strerror(errno));
    }
    if (f)
        fclose(f);
    return t;
}

/* ---- looking up ------------------------------------------------------------------------------ */

static struct times_list *list_make(const struct times *t, const char *name)
{
    size_t n = 0, all = 0;
    for (const struct line *l = t->first; l; l = l->next)
        all++;
    struct times_list *list = calloc(1, sizeof(*list) + all * sizeof(list->line[0]));
    if (!list)
        return NULL;
    for (const struct line *l = t->first; l; l = l->next)
        if (fnmatch(l->pattern, name, 0) == 0)
            list->line[n++] = l;
    list->n = n;
    list->name = name;
    return list;
}

const struct times_list *times_of(struct times *t, const char *name)
{
    static const struct times_list none;
    struct times_list **bucket = &t->bucket[((uintptr_t)name >> 4) % BUCKETS], *list;
    pthread_mutex_lock(&t->lock);
    for (list = *bucket; list && list->name != name; list = list->next)
        ;
    if (!list && (list = list_make(t, name))) {
        list->next = *bucket;
        *bucket = list;
    }
    pthread_mutex_unlock(&t->lock);
    return list ? list : &none;
}

static bool shape_fits(const uint32_t wanted[3], const uint32_t is[3])
{
    return !wanted[0] || !memcmp(wanted, is, 3 * sizeof(is[0]));
}

uint64_t times_ns(const struct times_list *list, const struct times_shape *shape,
                  uint64_t otherwise)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct line *l = list->line[i];
        if (shape_fits(l->grid, shape->grid) && shape_fits(l->block, shape->block))
            return l->base_ns + l->wave_ns * shape->waves;
    }
    return otherwise;
}
