/*
 * cupti.h - what the programs here use of CUPTI.
 */
#ifndef TESTS_HAZARDS_CUPTI_H
#define TESTS_HAZARDS_CUPTI_H

enum { CUPTI_STAND_IN_INVALID_KIND = 21 };

#define CUPTI __attribute__((visibility("default"))) int
CUPTI cuptiActivityEnable(int kind);
CUPTI cuptiActivityEnableAndDump(int kind);
CUPTI cuptiActivityEnableContext(void *context, int kind);
CUPTI cuptiActivityEnable_v2(void *subscriber, int kind, void *config);
CUPTI cuptiActivityEnableAndDump_v2(void *subscriber, int kind, void *config);
CUPTI cuptiActivityDisable(int kind);
CUPTI cuptiActivityDisableContext(void *context, int kind);
CUPTI cuptiActivityDisable_v2(void *subscriber, int kind, void *config);
CUPTI cuptiUnsubscribe(void *subscriber);
CUPTI cuptiFinalize(void);
#undef CUPTI

#endif
