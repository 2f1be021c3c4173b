/*
 * lookup_say.h - prints what a lookup found: the library that has the address, or the loader's
 * message.
 */
#ifndef CUTIN_TESTS_LOOKUP_SAY_H
#define CUTIN_TESTS_LOOKUP_SAY_H

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static inline const char *lookup_owner(void *address)
{
    Dl_info info;
    const char *slash;

    if (!dladdr(address, &info))
        return "nobody";
    slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

/* Call it right after the lookup. A lookup that succeeded leaves no message, but the start of a
 * sanitizer's run time may (libasan.so, libtsan.so: "undefined symbol: swift_demangle"). */
static inline void lookup_say(const char *how, const char *name, void *found)
{
    const char *error = dlerror();

    if (error && strstr(error, "san.so"))
        error = NULL;
    if (!found)
        printf("%s %s: null, %s\n", how, name, error ? error : "no message");
    else
        printf("%s %s: %s%s%s\n", how, name, lookup_owner(found), error ? ", stale message " : "",
               error ? error : "");
    fflush(stdout);
}

#define VISIBLE __attribute__((visibility("default")))

#endif
