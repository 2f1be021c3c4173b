/*
 * data.c - the files that draw, installed beside the command.
 */
#include "data.h"
#include "tools/cutin/paths.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int data_path(const char *name, char path[PATH_MAX], char *why, size_t why_bytes)
{
    struct paths paths;
    int n;

    paths_find(&paths);
    if (!paths.data[0]) {
        snprintf(why, why_bytes,
                 "the plot scripts are not installed beside %s: no folder share/cutin", paths.self);
        return -ENOENT;
    }
    n = snprintf(path, PATH_MAX, "%s/%s", paths.data, name);
    if (n < PATH_MAX && access(path, R_OK) == 0)
        return 0;
    snprintf(why, why_bytes, "cannot read %s: %s", path, strerror(errno));
    return -ENOENT;
}

char *data_read(const char *name, char *why, size_t why_bytes)
{
    char path[PATH_MAX], *text = NULL;
    size_t size;
    FILE *file, *out;

    if (data_path(name, path, why, why_bytes) != 0)
        return NULL;
    file = fopen(path, "re");
    out = file ? open_memstream(&text, &size) : NULL;
    if (!out)
        snprintf(why, why_bytes, "cannot read %s: %s", path, strerror(errno));
    for (int c; out && (c = fgetc(file)) != EOF;)
        fputc(c, out);
    if (out)
        fclose(out);
    if (file)
        fclose(file);
    return text;
}
