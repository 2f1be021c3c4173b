/*
 * plugin.c - cutin as a SPANK plugin of Slurm.
 *
 * srun decides what a step asks for (its options, else what the site says of QOS and partition),
 * shows it in the job's comment, and passes it on in the environment. On each node the job's prolog
 * keeps the account, which slurmctld signed. The step's slurmstepd, as root, tells the daemon that
 * its children belong to that account (scheduler/policy/job.h), and puts library and settings into
 * the environment of the tasks. The batch script and srun itself run without the library.
 *
 * If anything fails here, a message says so and the job runs without cutin.
 */
#include <errno.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/bounds.h"
#include "common/text.h"
#include "scheduler/policy/job.h"
#include "scheduler/slurm/site.h"

SPANK_PLUGIN(cutin, 1)

/* From srun to slurmstepd: the level that the site gives a step without --cutin. */
#define RESOLVED "SLURM_CUTIN"

static struct site site;
static int request = REQUEST_NONE; /* the level of a step */
static uint32_t weight, budget_us; /* 0: not given */

static int take_level(int row, const char *text, int remote)
{
    int level = request_level(text ? text : "");

    if (level == -EINVAL) {
        slurm_error("--cutin=%s is not be, 1, 2, rt or off", text);
        return -1;
    }
    request = level;
    return 0;
}

enum { WEIGHT, BUDGET, NUMBERS };

static const struct {
    const char *option, *variable;
    uint32_t most, *at;
} numbers[NUMBERS] = {
    [WEIGHT] = {"weight", "CUTIN_WEIGHT", WEIGHT_MOST, &weight},
    [BUDGET] = {"budget", "CUTIN_BUDGET_US", BUDGET_US_MOST, &budget_us},
};

static int take_number(int row, const char *text, int remote)
{
    uint64_t n;

    if (number_read(text ? text : "", 1, numbers[row].most, &n)) {
        *numbers[row].at = (uint32_t)n;
        return 0;
    }
    slurm_error("--cutin-%s=%s is not a number from 1 to %u", numbers[row].option, text,
                numbers[row].most);
    return -1;
}

static struct spank_option options[] = {
    {"cutin", "LEVEL", "level on a shared GPU: be, 1, 2, rt, or off for no cutin", 1, 0,
     take_level},
    {"cutin-weight", "N", "share among tasks of one level, 1 to 1000, where the policy is fair", 1,
     WEIGHT, take_number},
    {"cutin-budget", "US", "GPU time that may be in flight below rt, in microseconds", 1, BUDGET,
     take_number},
};

static bool site_read(int argc, char *argv[])
{
    char why[256];

    if (site_parse(&site, argc, argv, why, sizeof(why)) == 0)
        return true;
    slurm_error("cutin: plugstack.conf: %s", why);
    return false;
}

int slurm_spank_init(spank_t spank, int argc, char *argv[])
{
    if (!site_read(argc, argv))
        return ESPANK_ERROR;
    if (spank_context() == S_CTX_SLURMD)
        return ESPANK_SUCCESS;
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
        if (spank_option_register(spank, &options[i]) != ESPANK_SUCCESS)
            return ESPANK_ERROR;
    return ESPANK_SUCCESS;
}

/* Sets the comment of a job of the calling user or, for root, of any job. */
static void comment_show(uint32_t id, const char *comment)
{
    char old[1024], new[sizeof(old)];
    job_desc_msg_t change;

    snprintf(old, sizeof(old), "%s", comment ? comment : "");
    request_comment(request, old, new, sizeof(new));
    if (strcmp(old, new) == 0)
        return;
    slurm_init_job_desc_msg(&change);
    change.job_id = id;
    change.comment = new;
    if (slurm_update_job(&change) != SLURM_SUCCESS)
        slurm_verbose("cutin: cannot set the job's comment: %s", slurm_strerror(errno));
}

/* What slurmctld knows of a job is asked once a step, by srun; the nodes never ask. */
int slurm_spank_local_user_init(spank_t spank, int argc, char *argv[])
{
    job_info_msg_t *answer = NULL;
    const slurm_job_info_t *job = NULL;
    uint32_t id;

    unsetenv(RESOLVED); /* may be from a step around this one */
    if ((site.comment || (site.rules && request == REQUEST_NONE)) &&
        spank_get_item(spank, S_JOB_ID, &id) == ESPANK_SUCCESS &&
        slurm_load_job(&answer, id, SHOW_ALL) == SLURM_SUCCESS)
        for (uint32_t i = 0; i < answer->record_count; i++)
            if (answer->job_array[i].job_id == id)
                job = &answer->job_array[i];
    if (request == REQUEST_NONE) {
        request = site_level(&site, job ? job->partition : NULL, job ? job->qos : NULL);
        setenv(RESOLVED, request_level_name(request), 1);
    }
    if (site.comment && job)
        comment_show(id, job->comment);
    if (answer)
        slurm_free_job_info_msg(answer);
    return ESPANK_SUCCESS;
}

/* ---- prolog and epilog of the job on a node, as root ----------------------------------------- */

static bool job_of(spank_t spank, struct job *job, uid_t *uid)
{
    uint32_t id;

    *job = (struct job){.account = ""};
    if (spank_get_item(spank, S_JOB_ID, &id) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_UID, uid) != ESPANK_SUCCESS)
        return false;
    snprintf(job->id, sizeof(job->id), "%u", id);
    return true;
}

/* slurm_spank_init does not run before these two. The environment of a prolog is slurmd's: what
 * users can set begins with SPANK_ there. */
int slurm_spank_job_prolog(spank_t spank, int argc, char *argv[])
{
    const char *account = getenv("SLURM_JOB_ACCOUNT");
    struct job job;
    uid_t uid;
    int rc;

    if (!account || !site_read(argc, argv) || !job_of(spank, &job, &uid))
        return ESPANK_SUCCESS;
    rc = job_account_check(account);
    snprintf(job.account, sizeof(job.account), "%s", account);
    if (rc == 0)
        rc = job_keep(site.jobs, uid, &job);
    if (rc != 0)
        slurm_error("cutin: cannot write the account of job %s to %s: %s", job.id, site.jobs,
                    strerror(-rc));
    return ESPANK_SUCCESS;
}

int slurm_spank_job_epilog(spank_t spank, int argc, char *argv[])
{
    struct job job;
    uid_t uid;

    if (site_read(argc, argv) && job_of(spank, &job, &uid))
        job_forget(site.jobs, job.id);
    return ESPANK_SUCCESS;
}

/* The user's own CUTIN_PRIORITY goes before the site's level, and an option before both. */
static void tasks_set(spank_t spank)
{
    bool given = request != REQUEST_NONE;
    char resolved[16] = "", number[16];

    if (!given && spank_getenv(spank, RESOLVED, resolved, sizeof(resolved)) == ESPANK_SUCCESS)
        request = request_level(resolved);
    spank_unsetenv(spank, RESOLVED);
    if (request < 0)
        return;
    if (access(site.library, R_OK) != 0) {
        slurm_spank_log("cutin: %s: %s; running without cutin", site.library, strerror(errno));
        return;
    }
    spank_setenv(spank, "CUTIN_PRIORITY", request_level_name(request), given);
    /* A login node's XDG_RUNTIME_DIR may have come along, which names another daemon or none. */
    spank_setenv(spank, "CUTIN_SOCKET", site.socket, 1);
    for (size_t i = 0; i < NUMBERS; i++) {
        snprintf(number, sizeof(number), "%u", *numbers[i].at);
        if (*numbers[i].at)
            spank_setenv(spank, numbers[i].variable, number, 1);
    }
    char old[4096] = "", new[sizeof(old) + SITE_PATH + 1];
    spank_err_t rc = spank_getenv(spank, "LD_PRELOAD", old, sizeof(old));

    if (rc != ESPANK_SUCCESS && rc != ESPANK_ENV_NOEXIST) {
        slurm_spank_log("cutin: LD_PRELOAD is too long; running without cutin");
        return;
    }
    if (strstr(old, site.library))
        return;
    snprintf(new, sizeof(new), "%s%s%s", site.library, old[0] ? ":" : "", old);
    spank_setenv(spank, "LD_PRELOAD", new, 1);
}

int slurm_spank_init_post_opt(spank_t spank, int argc, char *argv[])
{
    struct job job;
    uint32_t step;
    uid_t uid;
    int rc;

    if (spank_context() != S_CTX_REMOTE || !job_of(spank, &job, &uid) ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
        return ESPANK_SUCCESS;
    /* As root, before there are tasks. Also for the batch step: a script may use `cutin run`. */
    rc = job_recall(site.jobs, uid, &job);
    if (rc == 0 || rc == -ESRCH)
        rc = job_begin(site.jobs, uid, &job);
    if (rc != 0)
        slurm_error("cutin: cannot write job %s to %s: %s", job.id, site.jobs, strerror(-rc));
    /* Higher numbers are scripts, interactive shells and what belongs to no step. */
    if (step < SLURM_MAX_NORMAL_STEP_ID)
        tasks_set(spank);
    return ESPANK_SUCCESS;
}

int slurm_spank_exit(spank_t spank, int argc, char *argv[])
{
    if (spank_context() == S_CTX_REMOTE)
        job_end(site.jobs);
    return ESPANK_SUCCESS;
}
