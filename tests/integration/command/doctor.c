/*
 * doctor.c - `cutin doctor` finds what is wrong, and its exit status tells. No time is judged.
 */
#include "tests/integration/sharing/device_log.h"
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <glob.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(doctor, .init = sandbox_enter, .fini = sandbox_leave);

#define TOO_BUSY "not used, because this machine is too busy to tell"

static json_t *doctor(const char *const *env, int status)
{
    struct process *p =
        process_run((const char *[]){CUTIN, "doctor", "--sim", "--json", NULL}, env, 80);
    json_error_t error;
    json_t *root = json_loads(process_out(p), 0, &error);

    cr_assert_eq(p->status, status, "status %d instead of %d: %s %s", p->status, status,
                 process_out(p), process_err(p));
    cr_assert_not_null(root, "%s in %s", error.text, process_out(p));
    cr_expect_eq(json_is_true(json_object_get(root, "holds_effective")), status == 0);
    process_free(p);
    return root;
}

/* The check of this name has this verdict, and a remedy if there is something to do. */
static void says(json_t *root, const char *name, const char *verdict)
{
    json_t *check;
    size_t i;

    json_array_foreach(json_object_get(root, "checks"), i, check)
    {
        const char *is = json_string_value(json_object_get(check, "verdict"));

        if (strcmp(json_string_value(json_object_get(check, "name")), name) != 0)
            continue;
        cr_expect_str_eq(is, verdict, "%s: %s", name,
                         json_string_value(json_object_get(check, "detail")));
        cr_expect_gt(strlen(json_string_value(json_object_get(check, "detail"))), 0);
        if (strcmp(is, "failed") == 0 || strcmp(is, "warning") == 0)
            cr_expect_gt(strlen(json_string_value(json_object_get(check, "remedy"))), 0,
                         "%s has no remedy", name);
        return;
    }
    cr_expect(false, "no check %s", name);
}

static void is_unknown(json_t *root, const char *function)
{
    json_t *name;
    bool found = false;
    size_t i;

    json_array_foreach(json_object_get(root, "unknown_functions"), i, name)
    {
        found |= strcmp(json_string_value(name), function) == 0;
    }
    cr_expect(found, "%s is not among the unknown functions", function);
}

Test(doctor, finds_nothing_wrong_on_the_simulator)
{
    static const char *const checks[] = {"driver", "gpu",          "preload", "settings", "hold",
                                         "memops", "registration", "glibc",   "memfd",    "mps"};
    static const char *const figures[] = {"launch_us", "marker_us", "gate_us", "gate_open_us"};
    json_t *root = doctor(NULL, 0);

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        says(root, checks[i], "ok");
    says(root, "daemon", "note"); /* `cutin run` would start one */
    says(root, "functions", "note");
    is_unknown(root, "cuSimgpuMemcpyAsync"); /* deliberately in no table */
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        cr_expect(json_is_number(json_object_get(json_object_get(root, "measured"), figures[i])),
                  "%s", figures[i]);
    json_decref(root);
}

/* On this device markers are seen late, gates cost too much and keep the device from others, a
 * shared page is refused, and kernels cannot be stopped. */
Test(doctor, reports_unusable_features_of_hostile_device)
{
    json_t *root = doctor((const char *[]){"SIMGPU_LIKE=hostile", NULL}, 0);

    says(root, "hold", "ok");
    says(root, "memops", "note");
    says(root, "registration", "warning");
    says(root, "gate", "warning");
    says(root, "gates", "note");
    says(root, "suspend", "note");
    json_decref(root);
}

static const char *detail(json_t *root, const char *name)
{
    json_t *check;
    size_t i;

    json_array_foreach(json_object_get(root, "checks"), i, check)
    {
        if (strcmp(json_string_value(json_object_get(check, "name")), name) == 0)
            return json_string_value(json_object_get(check, "detail"));
    }
    return "";
}

/* Runs root's commands in a namespace whose /var/lib is empty, and compares what they print. Status
 * 78: the machine was too busy for the test of gates, or to see the GPU's writes in time. */
static void for_all(const char *commands, const char *expected)
{
    static const char begin[] =
        "mount -t tmpfs none /var/lib || exit 77\n"
        "umask 077\n"
        "cutin=$1 own=$XDG_CACHE_HOME/cutin all=/var/lib/cutin\n"
        "doctor() {\n"
        "    $cutin doctor --sim $1 >/dev/null || exit\n"
        "    cat $own/gates-* >gates 2>/dev/null || exit 78\n"
        "    grep -Eq 'not done after|see a marker|second process' gates && exit 78\n"
        "    rm gates\n"
        "}\n"
        "in_time() { case \"$said\" in *'memory arrive late'*) exit 78;; esac; }\n"
        "untested() {\n"
        "    said=$($1 run --sim -- $2 2>&1); in_time\n"
        "    printf '%s\\n' \"$said\" | grep -c 'not tested here yet'\n"
        "}\n"
        "objects() {\n"
        "    said=$(LD_PRELOAD=" LIBRARY " LD_LIBRARY_PATH=" LIB_DIR "/simgpu $2 2>&1); in_time\n"
        "    printf '%s\\n' \"$said\" | grep -o 'no gates: [^ ]* [^ ]*' || echo none\n"
        "}\n"
        "cd $XDG_CACHE_HOME || exit\n";
    char script[4096];
    struct process *p;

    snprintf(script, sizeof(script), "%s%s", begin, commands);
    p = process_run((const char *[]){"unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                                     script, "sh", CUTIN,
                                     BIN_DIR "/examples/be_training --steps 20", NULL},
                    (const char *[]){"CUTIN_LOG=info", NULL}, 200);
    if (strncmp(process_err(p), "unshare: ", 9) == 0 || p->status == 77)
        cr_skip("no /var/lib of one's own can be made here: %s", process_err(p));
    if (p->status == 78)
        cr_skip("this host was too busy to say whether gates hold");
    cr_expect_eq(p->status, 0, "status %d: %s", p->status, process_err(p));
    cr_expect_str_eq(process_out(p), expected, "%s%s", process_out(p), process_err(p));
    process_free(p);
}

/* A user without a folder of their own goes by root's record, and without that by none. */
Test(doctor, for_all_record_serves_user_without_cache)
{
    for_all("doctor --for-all\n"
            "find $all -printf '%m\n' | sort\n"
            "export XDG_CACHE_HOME=/proc/none\n"
            "untested $1 \"$2\"\n"
            "rm -r $all\n"
            "untested $1 \"$2\"\n",
            "644\n755\n0\n1\n");
}

/* The records of all kinds of GPUs are copied, but not those of another driver or machine. A folder
 * that others could write to becomes root's only. */
Test(doctor, for_all_copies_records_of_this_driver_only)
{
    for_all("doctor\n"
            "cp $own/gates-* $own/gates-0123456789abcdef0123456789abcdef\n"
            "echo '1/other graphs' >$own/gates-00000000000000000000000000000000\n"
            "cp $own/gates-0123456789abcdef0123456789abcdef $own/gates-0\n"
            "mkdir -m 1777 $all\n"
            "doctor --for-all\n"
            "find $all -printf '%m\n' | sort\n"
            "ls $all | grep -c gates-0123\n",
            "644\n644\n755\n1\n");
}

/* The user's record may be of another driver, from a program of theirs in a container. */
Test(doctor, record_of_current_driver_is_chosen)
{
    for_all("doctor --for-all\n"
            "cd $all && record=$(echo gates-*) && touch -d '1 hour ago' $record\n"
            "objects $1 \"$2\"\n"
            "echo '1/other graphs' >$own/$record\n"
            "objects $1 \"$2\"\n"
            "cp $record $own && echo '1/other graphs' >$record\n"
            "objects $1 \"$2\"\n"
            "echo '1/other graphs' >$own/$record\n"
            "objects $1 \"$2\"\n",
            "none\nnone\nnone\nno gates: tested with\n");
}

Test(doctor, truncated_record_is_ignored)
{
    for_all("doctor\n"
            "cd $own && record=$(echo gates-*) && printf %s \"$(cut -c 1-24 $record)\" >$record\n"
            "objects $1 \"$2\"\n",
            "no gates: not tested\n");
}

Test(doctor, suggests_name_for_misspelt_setting)
{
    json_t *root = doctor((const char *[]){"CUTIN_PRORITY=rt", NULL}, 0);

    says(root, "settings", "warning");
    cr_expect_str_eq(detail(root, "settings"),
                     "CUTIN_PRORITY is not a setting; did you mean CUTIN_PRIORITY?");
    json_decref(root);
}

Test(doctor, suggests_name_for_misspelt_key)
{
    json_t *root = doctor((const char *[]){"CUTIN_CONF=gates=off,dpeth=7", NULL}, 0);

    says(root, "settings", "warning");
    cr_expect_str_eq(detail(root, "settings"),
                     "CUTIN_CONF: dpeth is not a setting; did you mean depth?");
    json_decref(root);
}

Test(doctor, suggests_one_variable_for_several_settings)
{
    json_t *root = doctor(
        (const char *[]){"CUTIN_CONF=depth=7", "CUTIN_BUDGET_US=100", "CUTIN_PRIORITY=rt", NULL},
        0);

    says(root, "settings", "note");
    cr_expect_str_eq(detail(root, "settings"), "settings are in separate variables; "
                                               "CUTIN_CONF=depth=7,budget_us=100 says the same");
    json_decref(root);
    root = doctor((const char *[]){"CUTIN_CONF=depth=7", "CUTIN_PRIORITY=rt", NULL}, 0);
    says(root, "settings", "ok");
    json_decref(root);
}

/* Compares the record of the only GPU. */
static void recorded(const char *what)
{
    glob_t found;
    char *text;

    cr_assert_eq(glob(sandbox_path("cutin/suspend-*"), 0, NULL, &found), 0);
    text = file_text(found.gl_pathv[0]);
    cr_expect_str_eq(text, what);
    free(text);
    globfree(&found);
}

static bool anything_recorded(void)
{
    glob_t found;
    bool any = glob(sandbox_path("cutin/suspend-*"), 0, NULL, &found) == 0;

    globfree(&found);
    return any;
}

/* On a machine that is too busy to tell, doctor must say this and record nothing; then skips. */
static json_t *doctor_unless_busy(const char *const *env)
{
    json_t *root = doctor(env, 0);

    if (strcmp(detail(root, "suspend"), TOO_BUSY) == 0 && !anything_recorded())
        cr_skip_test("%s", TOO_BUSY);
    return root;
}

static void can_be_stopped(const char *const *env)
{
    json_t *root = doctor_unless_busy(env);

    says(root, "suspend", "ok");
    recorded("580.65.06 schedule\n");
    json_decref(root);
}

/* A kernel that stood still for half as long as doctor looks at stopped ones. */
static int was_stopped(const struct device_work *w, const void *unused)
{
    enum { STOPPED_NS = 50000000 };

    return strcmp(w->kind, "kernel") == 0 && w->end_ns - w->start_ns > w->cost_ns + STOPPED_NS;
}

Test(doctor, detects_stoppable_kernel)
{
    device_log_open();
    can_be_stopped((const char *[]){"SIMGPU_RM=accept", NULL});
    cr_expect_gt(device_log_count(was_stopped, NULL), 0);
}

/* If calls take longer than the work that they queue, doctor asks with longer kernels. */
Test(doctor, detects_stoppable_kernel_despite_slow_calls)
{
    can_be_stopped((const char *[]){"SIMGPU_RM=accept", "SIMGPU_LAUNCH_NS=1000000", NULL});
}

/* What could not be told is not recorded, so that it is asked again another time. */
Test(doctor, records_nothing_if_calls_are_too_slow)
{
    json_t *root =
        doctor((const char *[]){"SIMGPU_RM=accept", "SIMGPU_LAUNCH_NS=7500000", NULL}, 0);

    says(root, "suspend", "note");
    cr_expect_str_eq(detail(root, "suspend"), TOO_BUSY);
    cr_expect(!anything_recorded());
    json_decref(root);
}

static void not_used(const char *const *env, const char *why, const char *record)
{
    json_t *root = doctor_unless_busy(env);
    char text[256];

    snprintf(text, sizeof(text), "not used, because %s", why);
    says(root, "suspend", "note");
    cr_expect_str_eq(detail(root, "suspend"), text);
    recorded(record);
    json_decref(root);
}

Test(doctor, records_refusal_to_stop_kernels)
{
    not_used((const char *[]){"SIMGPU_RM=refuse", NULL},
             "the resource manager refuses it (answer 0x1b)",
             "580.65.06 none the resource manager refuses it (answer 0x1b)\n");
}

Test(doctor, records_stop_without_effect_as_unusable)
{
    not_used((const char *[]){"SIMGPU_RM=ignore", NULL},
             "the control succeeds, and the kernel runs on",
             "580.65.06 none the control succeeds, and the kernel runs on\n");
}

Test(doctor, records_unknown_driver_as_unusable)
{
    device_log_open();
    not_used((const char *[]){"SIMGPU_RM=accept", "SIMGPU_RM_VERSION=470.256.02", NULL},
             "the resource manager of driver 470.256.02 is not known",
             "470.256.02 none the resource manager of driver 470.256.02 is not known\n");
    cr_expect_eq(device_log_count(was_stopped, NULL), 0);
}

Test(doctor, reports_permission_from_daemon)
{
    struct process *daemon = daemon_start();
    json_t *root = doctor(NULL, 0);

    says(root, "daemon", "ok");
    says(root, "permission", "ok");
    json_decref(root);
    process_signal(daemon, SIGTERM);
    process_free(daemon);
}

Test(doctor, reports_daemon_that_does_not_answer)
{
    struct process *daemon = daemon_start(), *p;

    process_signal(daemon, SIGSTOP);
    p = process_run((const char *[]){CUTIN, "doctor", "--sim", NULL}, NULL, 80);
    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_out(p), "does not answer; is it stopped?"), "%s",
                       process_out(p));
    process_signal(daemon, SIGCONT);
    process_signal(daemon, SIGTERM);
    process_free(p);
    process_free(daemon);
}

Test(doctor, fails_when_cutin_is_disabled)
{
    json_t *root = doctor((const char *[]){"CUTIN_DISABLE=1", NULL}, 1);

    says(root, "settings", "failed");
    says(root, "functions", "warning");
    says(root, "hold", "failed");
    says(root, "memops", "ok");
    json_decref(root);
}

Test(doctor, fails_with_empty_socket_setting)
{
    json_t *root = doctor((const char *[]){"CUTIN_SOCKET=", NULL}, 1);

    says(root, "daemon", "failed");
    says(root, "hold", "ok");
    json_decref(root);
}

Test(doctor, warns_about_costly_holds)
{
    json_t *root = doctor((const char *[]){"SIMGPU_MEMOPS=0", "CUDA_DEVICE_MAX_CONNECTIONS=1",
                                           "CUDA_LAUNCH_BLOCKING=1", NULL},
                          0);

    says(root, "memops", "warning");
    says(root, "connections", "warning");
    says(root, "settings", "warning");
    says(root, "hold", "warning"); /* the launch waits in the calling thread */
    json_decref(root);
}

Test(doctor, missing_driver_fails_with_remedy)
{
    if (dlopen("libcuda.so.1", RTLD_NOW))
        cr_skip("there is a CUDA driver here");
    struct process *p = process_run((const char *[]){CUTIN, "doctor", NULL}, NULL, 80);

    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_out(p), "failed   driver"), "%s", process_out(p));
    cr_expect_not_null(strstr(process_out(p), "--sim"), "%s", process_out(p));
    process_free(p);
}
