/*
 * library_user.c - a plug-in that is linked with the driver and does its own lookups.
 */
#include "tests/shim/lookup/lookup_say.h"

long cuStreamSynchronize(void);

VISIBLE void user_default(const char *name);
VISIBLE void user_next(const char *name);
VISIBLE void user_linked(const char *text);

void user_default(const char *name)
{
    lookup_say("default from plug-in", name, dlsym(RTLD_DEFAULT, name));
}

void user_next(const char *name)
{
    lookup_say("next from plug-in", name, dlsym(RTLD_NEXT, name));
}

void user_linked(const char *text)
{
    lookup_say("linked", text, (void *)cuStreamSynchronize);
}
