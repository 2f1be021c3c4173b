/*
 * bounds.h - the most that a process may ask of the scheduler; the least is 1. And how long a shift
 * is before it is doubled (vhq/shift.c), which the daemon reckons with (scheduler/peers/shifts.c).
 */
#ifndef CUTIN_COMMON_BOUNDS_H
#define CUTIN_COMMON_BOUNDS_H

enum { WEIGHT_MOST = 1000, BUDGET_US_MOST = 1000000, DEPTH_MOST = 1024 };
enum { SHIFT_BASE_US = 3907 }; /* not a multiple of usual request periods */

#endif
