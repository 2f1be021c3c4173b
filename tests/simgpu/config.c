/*
 * config.c - the SIMGPU_* variables: values, defaults, and one message about what is wrong.
 */
#include "tools/simgpu/face/simconfig.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdlib.h>
#include <string.h>

static void redirect(void)
{
    cr_redirect_stderr();
}

/* Independent of the caller's environment. */
static void start(void)
{
    static const char *const names[] = {"SIMGPU_ID", "SIMGPU_DEVICES", "SIMGPU_SMS",
                                        "SIMGPU_SPEED"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
    redirect();
}

TestSuite(config, .init = start);

static void expect_message(const char *message)
{
    fflush(stderr);
    cr_expect_stderr_eq_str(message);
}

Test(config, defaults_are_as_documented)
{
    const struct sim_config *c = config_get();
    cr_expect_str_eq(c->id, "default");
    cr_expect_eq(c->devices, 1);
    cr_expect_eq(c->sms, 108);
    cr_expect_eq(c->memory_percent, 0);
    cr_expect_eq(c->link_percent, 90);
    cr_expect_eq(c->within_gbps, 25);
    cr_expect_eq(c->speed, 1.0);
    cr_expect_eq(c->timeslice_us, 2000);
    cr_expect_eq(c->switch_us, 20);
    cr_expect_eq(c->mem_mb, 16384);
    cr_expect_eq(c->kernel_us, 10);
    cr_expect_eq(c->garbage, 0);
    cr_expect_eq(c->driver_version, 13000);
    cr_expect(c->memops);
    cr_expect(c->host_register);
    cr_expect_eq(c->write_ns, 500);
    cr_expect_eq(c->wait_ns, 800);
    cr_expect_eq(c->poll_us, 20);
    cr_expect_eq(c->waits, WAITS_HONOURED);
    cr_expect(c->peers);
    cr_expect_not(c->null_mode);
}

Test(config, like_sets_values_not_set_explicitly)
{
    setenv("SIMGPU_LIKE", "h100-580", 1);
    setenv("SIMGPU_SWITCH_US", "100", 1);
    const struct sim_config *c = config_get();
    cr_expect_eq(c->sms, 132);
    cr_expect_eq(c->timeslice_us, 2085);
    cr_expect_eq(c->switch_us, 100);
    cr_expect_eq(c->write_ns, 1700);
    cr_expect_eq(c->rm, SIM_RM_TIMESLICE);
    expect_message("");
}

Test(config, like_hostile_sets_worst_values)
{
    setenv("SIMGPU_LIKE", "hostile", 1);
    setenv("SIMGPU_LOAD_US", "7", 1);
    const struct sim_config *c = config_get();
    cr_expect_eq(c->sms, 108);
    cr_expect_eq(config_context_sms(), 27);
    cr_expect_eq(c->switch_us, 500);
    cr_expect_eq(c->load_us, 7);
    cr_expect_eq(c->depth, 256);
    cr_expect(c->full_locks);
    cr_expect_not(c->host_register);
    expect_message("");
}

Test(config, cuda_device_max_connections_sets_hardware_queues)
{
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "3", 1);
    cr_expect_eq(config_get()->connections, 3);
}

Test(config, valid_values_are_taken)
{
    setenv("SIMGPU_ID", "a.b-c_1", 1);
    setenv("SIMGPU_SPEED", "2.5", 1);
    setenv("SIMGPU_MEMOPS", "0", 1);
    setenv("SIMGPU_FAULT", "kernel=mix:nth=3:error=700", 1);
    const struct sim_config *c = config_get();
    cr_expect_str_eq(c->id, "a.b-c_1");
    cr_expect_eq(c->speed, 2.5);
    cr_expect_not(c->memops);
    cr_expect_str_eq(c->fault_kernel, "mix");
    cr_expect_eq(c->fault_nth, 3);
    cr_expect_eq(c->fault_error, 700);
}

Test(config, value_out_of_range_gives_message_and_default)
{
    setenv("SIMGPU_SMS", "0", 1);
    cr_expect_eq(config_get()->sms, 108);
    expect_message("simgpu: SIMGPU_SMS=0 is not a whole number from 1 to 1024; using 108\n");
}

Test(config, non_number_gives_message_and_default)
{
    setenv("SIMGPU_TIMESLICE_US", "2ms", 1);
    cr_expect_eq(config_get()->timeslice_us, 2000);
    expect_message("simgpu: SIMGPU_TIMESLICE_US=2ms is not a whole number from 50 to 1000000; "
                   "using 2000\n");
}

Test(config, unknown_compute_capability_gives_message_and_default)
{
    setenv("SIMGPU_COMPUTE", "7.5", 1);
    cr_expect_eq(simconfig_compute()->arch, 80);
    expect_message("simgpu: SIMGPU_COMPUTE=7.5 is not one of 8.0 8.6; using 8.0\n");
}

Test(config, unknown_variable_gives_message)
{
    setenv("SIMGPU_SPED", "2", 1);
    cr_expect_eq(config_get()->speed, 1.0);
    expect_message("simgpu: SIMGPU_SPED is not a variable of the simulated driver; ignored\n");
}

Test(config, path_in_id_gives_message_and_default)
{
    setenv("SIMGPU_ID", "../x", 1);
    cr_expect_str_eq(config_get()->id, "default");
    expect_message(
        "simgpu: SIMGPU_ID=../x is not a word of 1 to 63 letters, digits, '_', '.', '-'; "
        "using default\n");
}

/* The bad variables are removed. So the simulated NVML and the programs that this one starts, which
 * read the same environment later, do not report them again. */
Test(config, reported_variables_are_removed_from_environment)
{
    setenv("SIMGPU_RM", "true", 1);
    setenv("SIMGPU_SPED", "2", 1);
    setenv("SIMGPU_DEVICES", "2", 1);
    cr_expect_eq(config_get()->devices, 2);
    cr_expect_eq(config_get()->rm, SIM_RM_OFF);
    cr_expect_null(getenv("SIMGPU_RM"));
    cr_expect_null(getenv("SIMGPU_SPED"));
    cr_expect_str_eq(getenv("SIMGPU_DEVICES"), "2");
    expect_message(
        "simgpu: SIMGPU_RM=true is not one of off accept ignore refuse timeslice; using off\n"
        "simgpu: SIMGPU_SPED is not a variable of the simulated driver; ignored\n");
}

Test(config, long_unknown_name_is_cut_in_its_message)
{
    setenv("SIMGPU_ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ", "2", 1);
    cr_expect_eq(config_get()->speed, 1.0);
    expect_message("simgpu: SIMGPU_ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZABCD is not "
                   "a variable of the simulated driver; ignored\n");
}
