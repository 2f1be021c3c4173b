/*
 * training.h - a step of training ResNet-50, as a GPU sees it: kernels from the shapes of its
 * layers, each as long as a V100 needs by its data sheet. This checks the distance model.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_TRAINING_H
#define CUTIN_TOOLS_LAB_PREDICT_TRAINING_H

#include "tools/lab/record/workload.h"

/* Appends a step with `batch` pictures of 224 x 224, in mixed precision, which ends with a sync.
 * Returns 0, -ENOMEM or -E2BIG. */
int training_step(struct workload *w, uint32_t batch);

#endif
