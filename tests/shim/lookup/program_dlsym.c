/*
 * program_dlsym.c - does the lookups that its arguments name, one line of output each.
 *
 *   open FILE, global FILE   dlopen, RTLD_LOCAL or RTLD_GLOBAL; the handle for what follows
 *   sym NAME, vsym NAME      dlsym and dlvsym in that handle
 *   default NAME, next NAME, main NAME   RTLD_DEFAULT, RTLD_NEXT, the program's own handle
 *   call NAME TEXT           calls void NAME(const char *TEXT) of that handle
 *   page 0                   getpagesize(), which a preload may have changed
 */
#include <stdlib.h>
#include <unistd.h>

#include "tests/shim/lookup/lookup_say.h"

static void *handle;

static void *open_library(const char *file, int flags)
{
    void *h = dlopen(file, RTLD_NOW | flags);

    if (!h)
        printf("open: %s\n", dlerror());
    return h;
}

static void one(const char *how, const char *name)
{
    if (strcmp(how, "open") == 0)
        handle = open_library(name, RTLD_LOCAL);
    else if (strcmp(how, "global") == 0)
        handle = open_library(name, RTLD_GLOBAL);
    else if (strcmp(how, "sym") == 0)
        lookup_say(how, name, dlsym(handle, name));
    else if (strcmp(how, "vsym") == 0)
        lookup_say(how, name, dlvsym(handle, name, "NO_SUCH_VERSION"));
    else if (strcmp(how, "default") == 0)
        lookup_say(how, name, dlsym(RTLD_DEFAULT, name));
    else if (strcmp(how, "next") == 0)
        lookup_say(how, name, dlsym(RTLD_NEXT, name));
    else if (strcmp(how, "main") == 0)
        lookup_say(how, name, dlsym(dlopen(NULL, RTLD_NOW), name));
    else if (strcmp(how, "page") == 0)
        printf("page %+ld\n", getpagesize() - sysconf(_SC_PAGESIZE));
    else
        exit(2);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "call") == 0 && i + 2 < argc) {
            void (*function)(const char *) = NULL;
            *(void **)&function = dlsym(handle ? handle : RTLD_DEFAULT, argv[i + 1]);
            if (!function)
                return 3;
            function(argv[i + 2]);
            i++;
        } else {
            one(argv[i], argv[i + 1]);
        }
    }
    return 0;
}
