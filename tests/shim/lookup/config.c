/*
 * config.c - the environment: defaults, good values, and one clear message for each bad one.
 */
#include "shim/lookup/conf.h"
#include "shim/lookup/shim.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Every test is a process of its own, and reads the environment once. */
static int captured;

static void setup(void)
{
    for (size_t i = 0; setting_names[i]; i++)
        unsetenv(setting_names[i]);
    unsetenv("CUTIN_CONF");
    unsetenv("CUDA_INJECTION64_PATH");
    setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
    captured = memfd_create("stderr", MFD_CLOEXEC);
    cr_assert_geq(captured, 0);
    cr_assert_geq(dup2(captured, STDERR_FILENO), 0);
}

TestSuite(shim_config, .init = setup);

/* Returns what was written to stderr. */
static const char *said(void)
{
    static char text[8192];
    ssize_t n = pread(captured, text, sizeof(text) - 1, 0);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

Test(shim_config, defaults_match_documentation)
{
    const struct config *c = config_get();

    cr_expect_eq(c->level, CUTIN_LEVEL_BE);
    cr_expect_eq(c->stream_priority, STREAM_PRIORITY_FLAT);
    cr_expect_eq(c->budget_us, 200);
    cr_expect_eq(c->depth, 256);
    cr_expect_eq(c->queue, 4096);
    cr_expect_eq(c->gates, GATES_AUTO);
    cr_expect_eq(c->graph_gates, GATES_AUTO);
    cr_expect_eq(c->linger_us, 0);
    cr_expect_eq(c->max_hold_ms, 0);
    cr_expect_eq(c->stuck_ms, 10000);
    cr_expect_eq(c->deadline_ms, 0);
    cr_expect_eq(c->peer_us, 10000);
    cr_expect_eq(c->copy_bytes, 0);
    cr_expect_str_eq(c->socket, "/run/user/1/cutin/cutin.sock");
    cr_expect_str_empty(c->cpus);
    cr_expect_eq(c->pad, PAD_OFF);
    cr_expect_str_empty(c->trace);
    cr_expect_eq(c->log, LOG_WARN);
    cr_expect_not(c->disabled);
    cr_expect_not(calls_are_inline());
    cr_expect_str_empty(said());
}

Test(shim_config, valid_values_are_taken)
{
    setenv("CUTIN_PRIORITY", "rt", 1);
    setenv("CUTIN_STREAM_PRIORITY", "inherit", 1);
    setenv("CUTIN_BUDGET_US", "1000000", 1);
    setenv("CUTIN_DEPTH", "1", 1);
    setenv("CUTIN_QUEUE", "64", 1);
    setenv("CUTIN_GATES", "on", 1);
    setenv("CUTIN_PAD", "on", 1);
    setenv("CUTIN_WAITING_KERNELS", "a*,b", 1);
    setenv("CUTIN_LINGER_US", "5", 1);
    setenv("CUTIN_MAX_HOLD_MS", "6", 1);
    setenv("CUTIN_DEADLINE_MS", "7", 1);
    setenv("CUTIN_SOCKET", "/tmp/s", 1);
    setenv("CUTIN_CPUS", "0-3,8", 1);
    setenv("CUTIN_TRACE", "/tmp/t", 1);
    setenv("CUTIN_LOG", "error", 1);
    setenv("CUTIN_DISABLE", "1", 1);
    setenv("CUDA_INJECTION64_PATH", "/opt/profiler.so", 1);
    const struct config *c = config_get();

    cr_expect_eq(c->level, CUTIN_LEVEL_RT);
    cr_expect_eq(c->stream_priority, STREAM_PRIORITY_INHERIT);
    cr_expect_eq(c->budget_us, 1000000);
    cr_expect_eq(c->depth, 1);
    cr_expect_eq(c->queue, 64);
    cr_expect_eq(c->gates, GATES_ON);
    cr_expect_eq(c->pad, PAD_ON);
    cr_expect_str_eq(c->waiting_kernels, "a*,b");
    cr_expect_eq(c->linger_us, 5);
    cr_expect_eq(c->max_hold_ms, 6);
    cr_expect_eq(c->deadline_ms, 7);
    cr_expect_str_eq(c->socket, "/tmp/s");
    cr_expect_str_eq(c->cpus, "0-3,8");
    cr_expect_str_eq(c->trace, "/tmp/t");
    cr_expect_eq(c->log, LOG_ERROR);
    cr_expect(c->disabled);
    cr_expect(calls_are_inline());
    cr_expect_str_empty(said());
}

Test(shim_config, nonzero_launch_blocking_makes_calls_inline)
{
    setenv("CUDA_LAUNCH_BLOCKING", " 02", 1);
    config_get();
    cr_expect(calls_are_inline());
}

Test(shim_config, zero_launch_blocking_leaves_calls_deferred)
{
    setenv("CUDA_LAUNCH_BLOCKING", "00 1", 1);
    config_get();
    cr_expect_not(calls_are_inline());
}

Test(shim_config, microseconds_may_have_decimals)
{
    setenv("CUTIN_DISTANCE_US", "6.8", 1);
    cr_expect_eq(config_get()->distance_ns, 6800);
    cr_expect_str_empty(said());
}

Test(shim_config, microseconds_with_four_decimals_are_refused)
{
    setenv("CUTIN_DISTANCE_US", "6.8001", 1);
    cr_expect_eq(config_get()->distance_ns, 0);
    cr_expect_str_eq(said(),
                     "cutin: CUTIN_DISTANCE_US=6.8001 is not a number from 0 to 10000; using 0\n");
}

Test(shim_config, lone_point_is_not_a_number)
{
    setenv("CUTIN_DISTANCE_US", ".", 1);
    cr_expect_eq(config_get()->distance_ns, 0);
    cr_expect_str_eq(said(),
                     "cutin: CUTIN_DISTANCE_US=. is not a number from 0 to 10000; using 0\n");
}

Test(shim_config, middle_level_is_read_as_number)
{
    setenv("CUTIN_PRIORITY", "2", 1);
    cr_expect_eq(config_get()->level, 2);
    cr_expect_str_empty(said());
}

/* For words and numbers of the table: a bad value names variable, value and replacement, once. */
static void bad(const char *variable, const char *value)
{
    char start[256];

    setenv(variable, value, 1);
    config_get();
    config_get();
    snprintf(start, sizeof(start), "cutin: %s=%s is not ", variable, value);
    cr_expect(strncmp(said(), start, strlen(start)) == 0, "%s", said());
    cr_expect(strstr(said(), "; using "), "%s", said());
    cr_expect_eq(strchr(said(), '\n') - said() + 1, (long)strlen(said()), "said more than once: %s",
                 said());
}

#define CONFIG_WORD(variable, field, fallback, words, help)                                        \
    Test(shim_config, misspelt_##variable)                                                         \
    {                                                                                              \
        bad(#variable, "Sometimes");                                                               \
        cr_expect_eq((int)config_get()->field, fallback);                                          \
    }
#define CONFIG_NUMBER(variable, field, fallback, least, most, help)                                \
    Test(shim_config, bad_number_in_##variable)                                                    \
    {                                                                                              \
        bad(#variable, "12abc");                                                                   \
        cr_expect_eq(config_get()->field, fallback);                                               \
    }                                                                                              \
    Test(shim_config, too_large_##variable)                                                        \
    {                                                                                              \
        char text[32];                                                                             \
        snprintf(text, sizeof(text), "%lld", (long long)(most) + 1);                               \
        bad(#variable, text);                                                                      \
        cr_expect_eq(config_get()->field, fallback);                                               \
    }                                                                                              \
    Test(shim_config, negative_##variable)                                                         \
    {                                                                                              \
        bad(#variable, "-1");                                                                      \
        cr_expect_eq(config_get()->field, fallback);                                               \
    }
#define CONFIG_MICROS CONFIG_NUMBER
#define CONFIG_PATH(...)
#include "shim/lookup/config.def"

/* Daemons and sandboxes clear their environment so. */
Test(shim_config, settings_survive_clearenv_after_load)
{
    setenv("CUTIN_PRIORITY", "rt", 1);
    setenv("CUTIN_DEPTH", "7", 1);
    setenv("CUTIN_SOCKET", "/there", 1);
    config_load();
    clearenv();
    cr_expect_eq(config_get()->level, CUTIN_LEVEL_RT);
    cr_expect_eq(config_get()->depth, 7);
    cr_expect_str_eq(config_get()->socket, "/there");
    cr_expect_str_empty(said());
}

/* Python programs set variables so late, before the first import that uses the GPU. */
Test(shim_config, settings_changed_after_load_count)
{
    setenv("CUTIN_DEPTH", "7", 1);
    config_load();
    setenv("CUTIN_PRIORITY", "rt", 1);
    setenv("CUTIN_DEPTH", "9", 1);
    cr_expect_eq(config_get()->level, CUTIN_LEVEL_RT);
    cr_expect_eq(config_get()->depth, 9);
}

Test(shim_config, bad_number_gives_documented_message)
{
    setenv("CUTIN_DEPTH", "abc", 1);
    config_get();
    cr_expect_str_eq(said(), "cutin: CUTIN_DEPTH=abc is not a number from 1 to 1024; using 256\n");
}

/* A name that is nearly a setting's: the message says, once, which setting was meant. */
static void meant(const char *name, const char *setting)
{
    char message[256] = "";

    setenv(name, "1", 1);
    config_get();
    config_get();
    if (setting)
        snprintf(message, sizeof(message), "cutin: %s is not a setting; did you mean %s?\n", name,
                 setting);
    cr_expect_str_eq(said(), message);
}

Test(shim_config, name_missing_a_letter_suggests_setting)
{
    meant("CUTIN_PRORITY", "CUTIN_PRIORITY");
}
Test(shim_config, name_with_swapped_letters_suggests_setting)
{
    meant("CUTIN_WIEGHT", "CUTIN_WEIGHT");
}
Test(shim_config, truncated_name_suggests_setting)
{
    meant("CUTIN_BUDGET", "CUTIN_BUDGET_US");
}
Test(shim_config, name_with_suffix_suggests_setting)
{
    meant("CUTIN_LOG_LEVEL", "CUTIN_LOG");
}
Test(shim_config, singular_name_suggests_setting)
{
    meant("CUTIN_GATE", "CUTIN_GATES");
}
Test(shim_config, port_variable_of_orchestrator_is_ignored)
{
    meant("CUTIN_PORT", NULL);
}
Test(shim_config, service_variable_of_orchestrator_is_ignored)
{
    meant("CUTIN_SERVICE_HOST", NULL);
}
Test(shim_config, bare_prefix_is_ignored)
{
    meant("CUTIN_", NULL);
}
Test(shim_config, very_long_name_is_ignored)
{
    meant("CUTIN_PRIORITYPRIORITYPRIORITYPRIORITYPRIORITYPRIORITYPRIORITY", NULL);
}

/* ---- CUTIN_CONF ------------------------------------------------------------------------------ */

static const struct config *conf(const char *text)
{
    setenv("CUTIN_CONF", text, 1);
    return config_get();
}

Test(shim_config, conf_sets_several_settings)
{
    const struct config *c = conf("budget_us=50,gates=on,distance_us=6.8");

    cr_expect_eq(c->budget_us, 50);
    cr_expect_eq(c->gates, GATES_ON);
    cr_expect_eq(c->distance_ns, 6800);
    cr_expect_eq(c->depth, 256);
    cr_expect_str_empty(said());
}

Test(shim_config, conf_accepts_lists)
{
    const struct config *c = conf("cpus=0-3,8,10,waiting_kernels=a*,b,depth=7");

    cr_expect_str_eq(c->cpus, "0-3,8,10");
    cr_expect_str_eq(c->waiting_kernels, "a*,b");
    cr_expect_eq(c->depth, 7);
    cr_expect_str_empty(said());
}

Test(shim_config, variable_overrides_conf)
{
    setenv("CUTIN_DEPTH", "9", 1);
    cr_expect_eq(conf("depth=7,queue=64")->depth, 9);
    cr_expect_eq(config_get()->queue, 64);
}

Test(shim_config, empty_conf_is_silent)
{
    cr_expect_eq(conf("")->depth, 256);
    cr_expect_str_empty(said());
}

Test(shim_config, bad_value_in_conf_is_reported)
{
    cr_expect_eq(conf("depth=abc,queue=64")->depth, 256);
    cr_expect_eq(config_get()->queue, 64);
    cr_expect_str_eq(said(),
                     "cutin: CUTIN_CONF: depth=abc is not a number from 1 to 1024; using 256\n");
}

Test(shim_config, conf_key_without_value_is_reported)
{
    cr_expect_eq(conf("gates")->gates, GATES_AUTO);
    cr_expect_str_eq(said(), "cutin: CUTIN_CONF: gates= is not one of: auto on off; using auto\n");
}

Test(shim_config, misspelt_conf_key_suggests_setting)
{
    conf("dpeth=7,queue=64");
    cr_expect_eq(config_get()->queue, 64);
    cr_expect_str_eq(said(), "cutin: CUTIN_CONF: dpeth is not a setting; did you mean depth?\n");
}

Test(shim_config, unknown_conf_key_is_reported)
{
    conf("colour=red");
    cr_expect_str_eq(said(), "cutin: CUTIN_CONF: colour is not a setting\n");
}

Test(shim_config, conf_refuses_setting_with_own_variable)
{
    cr_expect_eq(conf("priority=rt")->level, CUTIN_LEVEL_BE);
    cr_expect_str_eq(said(),
                     "cutin: CUTIN_CONF: priority has a variable of its own, CUTIN_PRIORITY\n");
}

Test(shim_config, too_long_list_in_conf_is_refused)
{
    char text[600] = "waiting_kernels=";

    memset(text + strlen(text), 'k', 520);
    cr_expect_str_empty(conf(text)->waiting_kernels);
    cr_expect(strstr(said(), "is longer than 511 characters; using none\n"), "%s", said());
}

Test(shim_config, conf_is_read_at_load)
{
    setenv("CUTIN_CONF", "depth=7", 1);
    config_load();
    clearenv();
    cr_expect_eq(config_get()->depth, 7);
}

Test(shim_config, misspelt_conf_variable_suggests_conf)
{
    meant("CUTIN_CONFIG", "CUTIN_CONF");
}

Test(shim_config, unknown_priority_lists_choices)
{
    setenv("CUTIN_PRIORITY", "realtime", 1);
    config_get();
    cr_expect_str_eq(said(), "cutin: CUTIN_PRIORITY=realtime is not one of: be 1 2 rt; using be\n");
}

Test(shim_config, too_long_socket_path_gives_default)
{
    char path[300];

    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    setenv("CUTIN_SOCKET", path, 1);
    cr_expect_str_eq(config_get()->socket, "/run/user/1/cutin/cutin.sock");
    cr_expect(strstr(said(), "cutin: CUTIN_SOCKET=/xxx"), "%s", said());
    cr_expect(strstr(said(), "is longer than 107 characters; using /run/user/1/cutin/cutin.sock\n"),
              "%s", said());
}

Test(shim_config, too_long_runtime_folder_falls_back_to_run)
{
    char path[300];

    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    setenv("XDG_RUNTIME_DIR", path, 1);
    cr_expect_str_eq(config_get()->socket, "/run/cutin/cutin.sock");
    unsetenv("XDG_RUNTIME_DIR");
}

Test(shim_config, empty_socket_is_accepted)
{
    setenv("CUTIN_SOCKET", "", 1);
    cr_expect_str_empty(config_get()->socket);
    cr_expect_str_empty(said());
}

Test(shim_config, messages_keep_errno_and_obey_level)
{
    setenv("CUTIN_LOG", "info", 1);
    errno = EDOM;
    log_line(LOG_DEBUG, "too detailed");
    log_line(LOG_INFO, "%s", "good");
    cr_expect_eq(errno, EDOM);
    cr_expect_str_eq(said(), "cutin: good\n");
    cr_expect(log_enabled(LOG_INFO) && !log_enabled(LOG_DEBUG));
}

Test(shim_config, message_to_closed_stderr_keeps_errno)
{
    close(STDERR_FILENO);
    errno = EDOM;
    log_line(LOG_ERROR, "nobody hears");
    cr_expect_eq(errno, EDOM);
}

Test(shim_config, long_message_is_cut_to_one_line)
{
    char text[5000];

    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_line(LOG_ERROR, "%s", text);
    cr_expect_eq(strlen(said()), 1024 - 1);
    cr_expect_eq(said()[strlen(said()) - 1], '\n');
}
