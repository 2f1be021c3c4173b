/*
 * controller.h - what slurmctld knows of a job. Asked by srun alone, once a step: never by the
 * nodes.
 */
#ifndef CUTIN_SCHEDULER_SLURM_CONTROLLER_H
#define CUTIN_SCHEDULER_SLURM_CONTROLLER_H

#include <stdint.h>

enum { CONTROLLER_NAME = 64, CONTROLLER_COMMENT = 1024 };

struct controller_job {
    char partition[CONTROLLER_NAME], qos[CONTROLLER_NAME]; /* qos: "" where there is none */
    char comment[CONTROLLER_COMMENT];
};

/* Returns 0 or one of Slurm's error numbers. */
int controller_job_load(uint32_t id, struct controller_job *job);
/* Of a job of the calling user's own, or of any for root. Returns 0 or one of Slurm's error
 * numbers. */
int controller_comment_set(uint32_t id, const char *comment);

#endif
