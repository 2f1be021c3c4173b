/*
 * bounds.h - the most that a process may ask of the scheduler; the least is 1.
 */
#ifndef CUTIN_COMMON_BOUNDS_H
#define CUTIN_COMMON_BOUNDS_H

enum { WEIGHT_MOST = 1000, BUDGET_US_MOST = 1000000, DEPTH_MOST = 1024 };

#endif
