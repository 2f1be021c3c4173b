/*
 * cupti.h - what programs here use of CUPTI.
 */
#ifndef TESTS_HAZARDS_CUPTI_H
#define TESTS_HAZARDS_CUPTI_H

enum { CUPTI_STAND_IN_INVALID_KIND = 21 };

__attribute__((visibility("default"))) int cuptiActivityEnable(int kind);
__attribute__((visibility("default"))) int cuptiActivityDisable(int kind);
__attribute__((visibility("default"))) int cuptiFinalize(void);

#endif
