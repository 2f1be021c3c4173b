/*
 * training.h - a step of training ResNet-50, as a GPU sees it: kernels from the shapes of its
 * layers, each as long as a V100 needs by its data sheet, for the check of the distance model.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_TRAINING_H
#define CUTIN_TOOLS_LAB_PREDICT_TRAINING_H

#include "tools/lab/record/workload.h"

/* Appends a step with so many pictures of 224 x 224, with mixed precision, ended by a sync. 0,
 * -ENOMEM or -E2BIG. */
int training_step(struct workload *w, uint32_t batch);

#endif
