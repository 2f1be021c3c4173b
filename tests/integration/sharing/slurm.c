/*
 * slurm.c - jobs of a real Slurm on one simulated GPU: which job cuts in on which, by which
 * permission, and what the plugin sets where. Each test starts a cluster of one node.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLUGIN LIB_DIR "/spank_cutin.so"

static struct process *cluster;

/* Returns NULL if the cluster runs, else why not. */
static const char *cluster_start(void)
{
    if (geteuid() != 0)
        return "only root can start Slurm for another user";
    if (access(PLUGIN, R_OK) != 0)
        return "the plugin is not built: there was no slurm/spank.h (libslurm-dev)";
    chmod(sandbox_folder(), 0711);
    cluster = process_start((const char *[]){"unshare", "--mount", "--pid", "--fork",
                                             "--kill-child", "--mount-proc",
                                             SOURCE_DIR "/tests/integration/sharing/slurm_cluster",
                                             sandbox_path("cutin"), BUILD_FOLDER "/slurm", PLUGIN,
                                             LIBRARY, BIN_DIR "/cutind", LIB_DIR "/simgpu", NULL},
                            NULL);
    if (process_says(cluster, "ready", 300))
        return NULL;
    if (strncmp(process_err(cluster), "unshare: ", 9) == 0)
        return process_err(cluster); /* in a chroot whose root is no mount point, for example */
    cr_assert_eq(process_wait(cluster, 5), 77, "%s%s", process_out(cluster), process_err(cluster));
    return process_out(cluster);
}

static void set_up(void)
{
    const char *why;

    sandbox_enter();
    why = cluster_start();
    if (why)
        cr_skip("%s", why);
}

static void tear_down(void)
{
    if (cluster && process_running(cluster)) {
        close(open(sandbox_path("cutin/end"), O_WRONLY | O_CLOEXEC));
        cr_expect_eq(process_wait(cluster, 20), 0);
    }
    process_free(cluster);
    sandbox_leave();
}

TestSuite(slurm, .init = set_up, .fini = tear_down);

#define AS_USER(...) ((const char *[]){sandbox_path("cutin/user"), __VA_ARGS__, NULL})
#define SERVE                                                                                      \
    EXAMPLE("rt_inference"), "--rate", "60", "--kernels", "70", "--seconds", "3600", "--json"

/* What a job prints; it must end as it should. */
static char *job_says(const char *const argv[])
{
    struct process *p = process_run(argv, NULL, 60);
    char *out;

    cr_assert_eq(p->status, 0, "%s: status %d, %s%s", argv[1], p->status, process_out(p),
                 process_err(p));
    out = strdup(process_out(p));
    process_free(p);
    return out;
}

static void serving_end(struct process *p)
{
    free(job_says(AS_USER("scancel", "--name=serve", "--signal=TERM")));
    process_wait(p, 60);
    cr_expect_eq(p->status, 0, "status %d, %s", p->status, process_err(p));
    cr_expect_eq(number_after(process_out(p), "\"wrong\""), 0);
    process_free(p);
}

static uint64_t cut_ins(const struct message_row *row)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < row->devices; i++)
        sum += row->device[i].cut_ins;
    return sum;
}

static bool any(const struct message_row *row)
{
    return true;
}

static bool held_somebody(const struct message_row *row)
{
    return row->level == 3 && row->below == 1 && cut_ins(row) >= 3;
}

static bool was_held(const struct message_row *row)
{
    return row->level == 0 && row->above == 1 && client_holds(row) >= 3;
}

Test(slurm, a_real_time_job_cuts_in_on_a_best_effort_job)
{
    struct process *serve, *train;
    struct message_row row, above;

    serve = process_start(
        AS_USER("srun", "--job-name=serve", "--account=inference", "--cutin=rt", SERVE), NULL);
    cr_assert(client_wait("rt_inference", any, 60, NULL), "%s", process_err(serve));
    train = process_start(
        AS_USER("srun", "--job-name=train", "--cutin-weight=7", EXAMPLE("be_training"), "--json"),
        NULL);
    cr_assert(client_wait("be_training", was_held, 60, &row), "never held: %s", process_err(train));
    cr_expect(client_wait("rt_inference", held_somebody, 60, &above), "never cut in");
    cr_expect_eq(above.uid, 65534);
    cr_expect_eq(row.weight, 7);
    cr_expect_eq(row.uid, 65534);
    free(job_says(AS_USER("scancel", "--name=train", "--signal=TERM")));
    training_done(train, 80);
    cr_expect_null(strstr(process_err(train), "cutin"), "%s", process_err(train));
    serving_end(serve);
    process_free(train);
}

static bool got_two_of_three(const struct message_row *row)
{
    return row->asked == 3 && row->level == 2;
}

static bool got_nothing(const struct message_row *row)
{
    return row->asked == 3 && row->level == 0;
}

Test(slurm, job_account_decides_level_not_user_environment)
{
    static const struct {
        const char *account, *says;
        bool (*got)(const struct message_row *row);
    } cases[] = {
        {"--account=students", "no rule gives account students or user 65534 level rt",
         got_two_of_three},
        {"--account=", "no rule gives user 65534 level rt", got_nothing},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct process *serve = process_start(
            AS_USER("srun", "--job-name=serve", cases[i].account, "--cutin=rt", SERVE),
            (const char *[]){"SLURM_JOB_ACCOUNT=inference", "SLURM_ACCOUNT", NULL});

        cr_expect(client_wait("rt_inference", cases[i].got, 60, NULL), "%s", process_err(serve));
        cr_expect(process_says(serve, cases[i].says, 20), "%s", process_err(serve));
        serving_end(serve);
    }
}

/* Prints cutin's variables in the environment of a task or script. */
#define SHOW "echo \"$0: $CUTIN_PRIORITY $CUTIN_WEIGHT $CUTIN_BUDGET_US $CUTIN_SOCKET\" $LD_PRELOAD"
#define COMMENT "; scontrol show job $SLURM_JOB_ID | grep Comment="

static void expect_says(const char *const argv[], const char *wanted)
{
    char *out = job_says(argv);

    cr_expect(strstr(out, wanted), "wanted %s, got %s", wanted, out);
    free(out);
}

static void expect_silent(const char *const argv[], const char *unwanted)
{
    char *out = job_says(argv);

    cr_expect_not(strstr(out, unwanted), "%s", out);
    free(out);
}

Test(slurm, options_override_environment_and_site_default)
{
    char wanted[512];

    snprintf(wanted, sizeof(wanted), "bash: 1 7 123 %s " LIBRARY "\n", daemon_path());
    expect_says(
        AS_USER("srun", "--cutin=1", "--cutin-weight=7", "--cutin-budget=123", "bash", "-c", SHOW),
        wanted);
    expect_says(AS_USER("srun", "bash", "-c", SHOW), "bash: be  ");
    expect_says(AS_USER("srun", "-p", "urgent", "bash", "-c", SHOW), "bash: 2  ");
    expect_says(AS_USER("srun", "-p", "urgent", "--export=NONE", "/bin/bash", "-c", SHOW),
                "/bin/bash: 2  ");
    expect_says(AS_USER("env", "CUTIN_PRIORITY=1", "srun", "bash", "-c", SHOW), "bash: 1  ");
    expect_says(AS_USER("env", "CUTIN_PRIORITY=1", "srun", "--cutin=be", "bash", "-c", SHOW),
                "bash: be  ");
    expect_says(AS_USER("srun", "--cutin=off", "bash", "-c", SHOW), "bash:    \n");
}

Test(slurm, job_comment_shows_level_after_users_comment)
{
    expect_says(AS_USER("srun", "--cutin=rt", "bash", "-c", SHOW COMMENT), "Comment=cutin=rt ");
    expect_says(AS_USER("srun", "--comment=my words", "bash", "-c", SHOW COMMENT),
                "Comment=my words cutin=be ");
    expect_silent(AS_USER("srun", "--cutin=off", "bash", "-c",
                          SHOW "; scontrol show job "
                               "$SLURM_JOB_ID"),
                  "cutin=");
}

/* The script's level is for its steps, not for itself. */
Test(slurm, tasks_of_a_script_are_preloaded_but_the_script_is_not)
{
    const char *script = sandbox_path("script"), *output;
    FILE *f = fopen(script, "w");
    char rt[512], one[512], *text;

    cr_assert_not_null(f);
    fprintf(f, "#!/bin/bash\necho \"script:$CUTIN_PRIORITY$LD_PRELOAD.\"\n"
               "srun bash -c '" SHOW "'\nsrun --cutin=1 bash -c '" SHOW "'\n");
    cr_assert_eq(fclose(f), 0);
    cr_assert_eq(chmod(script, 0755), 0);
    output = sandbox_path("out");
    cr_assert(mkdir(output, 0777) == 0 && chmod(output, 0777) == 0);
    output = sandbox_path("out/text");
    free(job_says(AS_USER("sbatch", "--wait", "--cutin=rt", "--account=inference", "--output",
                          output, script)));
    text = file_text(output);
    cr_expect(strstr(text, "script:.\n"), "%s", text);
    snprintf(rt, sizeof(rt), "bash: rt   %s " LIBRARY "\n", daemon_path());
    snprintf(one, sizeof(one), "bash: 1   %s " LIBRARY "\n", daemon_path());
    cr_expect(strstr(text, rt), "%s", text);
    cr_expect(strstr(text, one), "%s", text);
    free(text);
}

Test(slurm, invalid_option_is_refused)
{
    static const char *const wrong[] = {"--cutin=3", "--cutin-weight=1001", "--cutin-budget=0"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        struct process *p = process_run(AS_USER("srun", wrong[i], "true"), NULL, 60);

        cr_expect_neq(p->status, 0);
        cr_expect(strstr(process_err(p), wrong[i]) && strstr(process_err(p), " is not "), "%s",
                  process_err(p));
        process_free(p);
    }
}
