/*
 * cupti.c - a stand-in for CUPTI: says what it was asked, and who it is.
 */
#include "tests/hazards/cupti.h"

#include <stdio.h>

int cuptiActivityEnable(int kind)
{
    printf("%s: enable %d\n", COPY, kind);
    return kind < 0 ? CUPTI_STAND_IN_INVALID_KIND : 0;
}

int cuptiActivityDisable(int kind)
{
    printf("%s: disable %d\n", COPY, kind);
    return kind < 0 ? CUPTI_STAND_IN_INVALID_KIND : 0;
}

int cuptiFinalize(void)
{
    printf("%s: finalize\n", COPY);
    return 0;
}
