/*
 * scratch.c - a private folder (see paths.h).
 */
#include "paths.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int scratch_make(struct scratch *s, const char *name, size_t most)
{
    const char *tmp = getenv("TMPDIR");
    int rc = 0;

    if (!tmp || !*tmp || strlen(tmp) + strlen(name) + sizeof("/.XXXXXX") > most)
        tmp = "/tmp";
    snprintf(s->folder, sizeof(s->folder), "%s/%s.XXXXXX", tmp, name);
    if (!mkdtemp(s->folder)) {
        rc = -errno;
        s->folder[0] = '\0';
    }
    return rc;
}

static int is_file(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

char **scratch_list(const struct scratch *s, size_t *count)
{
    struct dirent **entries = NULL;
    int n = scandir(s->folder, &entries, is_file, alphasort);
    char **list = calloc((size_t)(n > 0 ? n : 0) + 1, sizeof(*list));

    *count = 0;
    for (int i = 0; i < n; i++) {
        if (list && asprintf(&list[*count], "%s/%s", s->folder, entries[i]->d_name) > 0)
            ++*count;
        free(entries[i]);
    }
    free(entries);
    if (list)
        list[*count] = NULL;
    return list;
}

void scratch_list_free(char **list)
{
    for (char **at = list; at && *at; at++)
        free(*at);
    free(list);
}

void scratch_remove(struct scratch *s)
{
    size_t n;
    char **list = s->folder[0] ? scratch_list(s, &n) : NULL;

    for (char **at = list; at && *at; at++)
        unlink(*at);
    scratch_list_free(list);
    if (s->folder[0])
        rmdir(s->folder);
    s->folder[0] = '\0';
}
