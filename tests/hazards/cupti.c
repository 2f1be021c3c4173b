/*
 * cupti.c - a stand-in for CUPTI: prints what it was asked for, and which copy of it was asked.
 */
#include "tests/hazards/cupti.h"

#include <stdio.h>

static int say(const char *what, long of, int kind)
{
    printf("%s: %s %ld %d\n", COPY, what, of, kind);
    return kind < 0 ? CUPTI_STAND_IN_INVALID_KIND : 0;
}

int cuptiActivityEnable(int kind)
{
    return say("enable", 0, kind);
}

int cuptiActivityEnableAndDump(int kind)
{
    return say("enable and dump", 0, kind);
}

int cuptiActivityEnableContext(void *context, int kind)
{
    return say("enable of a context", !!context, kind);
}

int cuptiActivityEnable_v2(void *subscriber, int kind, void *config)
{
    return say("enable of a subscriber", !!subscriber, kind + !!config);
}

int cuptiActivityEnableAndDump_v2(void *subscriber, int kind, void *config)
{
    return say("enable and dump of a subscriber", !!subscriber, kind + !!config);
}

int cuptiActivityDisable(int kind)
{
    return say("disable", 0, kind);
}

int cuptiActivityDisableContext(void *context, int kind)
{
    return say("disable of a context", !!context, kind);
}

int cuptiActivityDisable_v2(void *subscriber, int kind, void *config)
{
    return say("disable of a subscriber", !!subscriber, kind + !!config);
}

int cuptiUnsubscribe(void *subscriber)
{
    return say("unsubscribe", !!subscriber, 0);
}

int cuptiFinalize(void)
{
    return say("finalize", 0, 0);
}
