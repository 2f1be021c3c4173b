/*
 * ablation.h - `cutin latency --ablation`.
 */
#ifndef CUTIN_ABLATION_H
#define CUTIN_ABLATION_H

#include "bench.h"

/* Measures every variant by the plan (be_kernel_us 0: 20, 200 and 2000) and prints the rows.
 * Returns the exit status. */
int ablation_run(const struct bench_plan *plan, int argc, char **argv);

#endif
