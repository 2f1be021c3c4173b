/*
 * controller.c - questions to slurmctld, by functions that srun brings along.
 */
#include "scheduler/slurm/controller.h"

#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

int controller_job_load(uint32_t id, struct controller_job *job)
{
    job_info_msg_t *answer = NULL;
    int rc = ESLURM_INVALID_JOB_ID;

    if (slurm_load_job(&answer, id, SHOW_ALL) != SLURM_SUCCESS)
        return errno;
    for (uint32_t i = 0; i < answer->record_count; i++) {
        const slurm_job_info_t *row = &answer->job_array[i];

        if (row->job_id != id)
            continue;
        copy(job->partition, sizeof(job->partition), row->partition);
        copy(job->qos, sizeof(job->qos), row->qos);
        copy(job->comment, sizeof(job->comment), row->comment);
        rc = SLURM_SUCCESS;
    }
    slurm_free_job_info_msg(answer);
    return rc;
}

int controller_comment_set(uint32_t id, const char *comment)
{
    job_desc_msg_t change;

    slurm_init_job_desc_msg(&change);
    change.job_id = id;
    change.comment = (char *)comment;
    return slurm_update_job(&change) == SLURM_SUCCESS ? SLURM_SUCCESS : errno;
}
