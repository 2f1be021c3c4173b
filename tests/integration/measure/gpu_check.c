/*
 * gpu_check.c - tools/gpu-check and gpu-facts work on the simulator as they should on a GPU. No
 * figure is judged here.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define FACTS     BIN_DIR "/gpu-facts"
#define GPU_CHECK SOURCE_DIR "/tools/gpu-check"

TestSuite(gpu_check, .init = sandbox_enter, .fini = sandbox_leave);

static json_t *parse(struct process *p)
{
    json_error_t error;
    json_t *root = json_loads(process_out(p), 0, &error);

    cr_assert_not_null(root, "%s in %s", error.text, process_out(p));
    return root;
}

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "(none)";
}

/* The stage reports the outcome of each of its steps, and none failed. */
static void stage_is_sound(const char *folder, const char *stage)
{
    char path[4200];
    json_error_t error;
    json_t *root, *step;
    size_t i;

    snprintf(path, sizeof(path), "%s/%s.json", folder, stage);
    root = json_load_file(path, 0, &error);
    cr_assert_not_null(root, "%s: %s", path, error.text);
    cr_expect_str_eq(text(root, "stage"), stage);
    cr_expect_gt(json_array_size(json_object_get(root, "steps")), 0, "%s has no steps", stage);
    json_array_foreach(json_object_get(root, "steps"), i, step)
    {
        const char *status = text(step, "status");
        bool passed = strcmp(status, "passed") == 0, skipped = strcmp(status, "skipped") == 0;

        cr_expect(passed || skipped, "%s: %s %s: %s", stage, text(step, "name"), status,
                  text(step, "why"));
        cr_expect(!passed || json_is_object(json_object_get(step, "result")),
                  "%s: %s has no result", stage, text(step, "name"));
        cr_expect(!skipped || strlen(text(step, "why")) > 0, "%s: %s is skipped without a reason",
                  stage, text(step, "name"));
    }
    json_decref(root);
}

Test(gpu_check, dry_run_reports_every_stage)
{
    static const char *const stages[] = {"suspend",    "driver",  "facts", "shim",
                                         "frameworks", "latency", "disb",  "colocation"};
    const char *out = sandbox_path("report");
    struct process *p = process_run(
        (const char *[]){GPU_CHECK, "--dry-run", "--build", BUILD_FOLDER, "--out", out, NULL},
        (const char *[]){"BXFI_MAP", NULL},
        270); /* with BXFI_MAP its suite would run as one of these tests */

    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        stage_is_sound(out, stages[i]);
    cr_expect_eq(p->status, 0, "status %d\n%s%s", p->status, process_out(p), process_err(p));
    process_free(p);
}

/* Everything is at its worst. What is slow by itself is not taken for waiting at a gate, no more is
 * queued behind a gate than fits, and the record of another device is neither believed nor
 * replaced. */
Test(gpu_check, first_stage_judges_a_hostile_device_right)
{
    const char *out = sandbox_path("report");
    struct process *p =
        process_run((const char *[]){GPU_CHECK, "--dry-run", "--build", BUILD_FOLDER, "--out", out,
                                     "--stage", "first", "--step", "doctor", "--step",
                                     "facts_gates", "--step", "example_rt_inference", NULL},
                    (const char *[]){"BXFI_MAP", "SIMGPU_LIKE=hostile", NULL}, 200);
    json_t *root, *steps, *behind, *gate;
    glob_t found;

    cr_assert_eq(p->status, 0, "status %d\n%s%s", p->status, process_out(p), process_err(p));
    stage_is_sound(out, "first");
    root = json_load_file(sandbox_path("report/first.json"), 0, NULL);
    steps = json_object_get(root, "steps");
    cr_assert_eq(json_unpack(json_array_get(steps, 1), "{s:{s:{s:{s:o}, s:o}}}", "result", "facts",
                             "behind", "values", &behind, "gate", &gate),
                 0);
    cr_expect_str_eq(text(gate, "status"), "measured");
    cr_expect_eq(glob(sandbox_path("cutin/*"), 0, NULL, &found), GLOB_NOMATCH);
    globfree(&found);
    cr_expect_str_eq(text(json_object_get(behind, "first_launch_of_a_kernel"), "behind_gate"),
                     "returns");
    cr_expect_str_eq(text(json_object_get(behind, "synchronize_the_gated_stream"), "behind_gate"),
                     "waits");
    cr_expect_str_eq(text(json_object_get(behind, "mem_free"), "behind_gate"), "waits");
    json_decref(root);
    process_free(p);
}

Test(gpu_check, unknown_stage_is_named)
{
    struct process *p =
        process_run((const char *[]){GPU_CHECK, "--stage", "nonsense", NULL}, NULL, 30);

    cr_expect_eq(p->status, 2);
    cr_expect_not_null(strstr(process_err(p), "nonsense"));
    process_free(p);
}

Test(gpu_check, fact_without_gpu_is_skipped_with_reason)
{
    struct process *p = process_run((const char *[]){FACTS, "--only", "device", NULL},
                                    (const char *[]){"CUDA_VISIBLE_DEVICES=", NULL}, 60);
    json_t *root = parse(p), *fact = json_object_get(json_object_get(root, "facts"), "device");

    cr_expect_str_eq(text(fact, "status"), "skipped");
    cr_expect_gt(strlen(text(fact, "why")), 0);
    json_decref(root);
    process_free(p);
}

Test(gpu_check, hanging_fact_is_reported_as_hung)
{
    struct process *p = process_run((const char *[]){FACTS, "--sim", "--limit", "1", "--only",
                                                     "slice", "--only", "device", NULL},
                                    NULL, 60);
    json_t *root = parse(p), *facts = json_object_get(root, "facts");

    cr_expect_eq(p->status, 1);
    cr_expect_str_eq(text(json_object_get(facts, "slice"), "status"), "hung");
    json_decref(root);
    process_free(p);
}

/* What facts says about gates is what the simulator is known to do. */
Test(gpu_check, facts_match_behaviour_of_simulator)
{
    struct process *p = process_run((const char *[]){FACTS, "--sim", "--quick", "--only", "behind",
                                                     "--only", "depth", "--only", "lookup", NULL},
                                    NULL, 100);
    json_t *root = parse(p), *facts = json_object_get(root, "facts"), *behind, *lookup, *depth;

    behind = json_object_get(json_object_get(facts, "behind"), "values");
    cr_expect_str_eq(text(json_object_get(behind, "synchronize_the_gated_stream"), "behind_gate"),
                     "waits");
    cr_expect_str_eq(text(json_object_get(behind, "mem_free"), "behind_gate"), "waits");
    lookup = json_object_get(json_object_get(facts, "lookup"), "values");
    cr_expect_gt(json_integer_value(json_object_get(lookup, "asked")), 5000);
    cr_expect_eq(json_integer_value(json_object_get(lookup, "as_expected")),
                 json_integer_value(json_object_get(lookup, "asked")));
    depth = json_object_get(json_object_get(facts, "depth"), "values");
    cr_expect(json_is_true(json_object_get(depth, "launching_thread_waits")));
    cr_expect_eq(json_integer_value(json_object_get(depth, "launches_queued")), 1023,
                 "%lld launches were queued behind the gate",
                 (long long)json_integer_value(json_object_get(depth, "launches_queued")));
    json_decref(root);
    process_free(p);
}
