/*
 * rm.c - the simulated resource manager: the driver's calls that make channel groups pass an
 * interposed `ioctl`, and what the controls of a group do. This program interposes it.
 */
#include "sim.h"

#include "shim/suspend/nvrm.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- in front -------------------------------------------------------------------------------- */

static struct {
    int fd;
    char version[64];
    uint32_t client, device, subdevice, group, frees;
    bool scheduled;
} seen;

typedef int ioctl_fn(int fd, unsigned long request, void *arg);

static int pass(int fd, unsigned long request, void *arg)
{
    static ioctl_fn *next;
    if (!next)
        next = (ioctl_fn *)dlsym(RTLD_NEXT, "ioctl");
    return next(fd, request, arg);
}

static void see_alloc(const struct nvrm_alloc *call)
{
    if (call->class_id == NVRM_CLASS_CLIENT)
        seen.client = call->client;
    if (call->class_id == NVRM_CLASS_DEVICE)
        seen.device = call->object;
    if (call->class_id == NVRM_CLASS_SUBDEVICE)
        seen.subdevice = call->object;
    if (call->class_id != NVRM_CLASS_GROUP)
        return;
    cr_expect_eq(call->parent, seen.device);
    seen.group = call->object;
}

static void see_control(const struct nvrm_control *call)
{
    const void *p = (const void *)(uintptr_t)call->params;
    if (call->command == NVRM_BUILD_VERSION && call->status == 0)
        snprintf(seen.version, sizeof(seen.version), "%s",
                 (const char *)(uintptr_t)((const struct nvrm_version *)p)->driver);
    seen.scheduled = call->command == NVRM_GROUP_SCHEDULE && call->status == 0 &&
                     ((const struct nvrm_schedule *)p)->enable;
}

__attribute__((visibility("default"))) int ioctl_seen(int fd, unsigned long request,
                                                      void *arg) __asm__("ioctl");
int ioctl_seen(int fd, unsigned long request, void *arg)
{
    int rc = pass(fd, request, arg);
    seen.fd = fd;
    if (_IOC_NR(request) == NVRM_ALLOC)
        see_alloc(arg);
    if (_IOC_NR(request) == NVRM_FREE)
        seen.frees++;
    if (_IOC_NR(request) == NVRM_CONTROL)
        see_control(arg);
    return rc;
}

/* ---- what a process does to its own ---------------------------------------------------------- */

static uint32_t control(uint32_t object, uint32_t command, void *params, uint32_t bytes)
{
    struct nvrm_control call = {.client = seen.client,
                                .object = object,
                                .command = command,
                                .params = (uintptr_t)params,
                                .bytes = bytes};
    cr_assert_eq(pass(seen.fd, NVRM_REQUEST(NVRM_CONTROL, sizeof(call)), &call), 0);
    return call.status;
}

static uint32_t schedule(bool on, uint32_t bytes)
{
    struct nvrm_schedule p = {.enable = on};
    return control(seen.group, NVRM_GROUP_SCHEDULE, &p, bytes);
}

static uint32_t timeslice(uint64_t us)
{
    struct nvrm_timeslice p = {us};
    return control(seen.group, NVRM_GROUP_SET_TIMESLICE, &p, sizeof(p));
}

static uint32_t preempt(void)
{
    struct nvrm_preempt p = {.wait = 1};
    return control(seen.group, NVRM_GROUP_PREEMPT, &p, sizeof(p));
}

static void managed(const char *how, const char *version)
{
    setenv("SIMGPU_RM", how, 1);
    setenv("SIMGPU_RM_VERSION", version, 1);
    sim_open();
}

TestSuite(rm, .fini = sim_close);

Test(rm, driver_calls_pass_an_interposed_ioctl)
{
    managed("accept", "580.65.06");
    cr_expect_str_eq(seen.version, "580.65.06");
    cr_expect(seen.client && seen.device && seen.subdevice && seen.group && seen.scheduled);
    CHECK(cuDevicePrimaryCtxReset(0));
    cr_expect_eq(seen.frees, 1);
}

Test(rm, resource_manager_is_off_by_default)
{
    sim_open();
    cr_expect_eq(seen.client, 0);
}

Test(rm, subdevice_gid_is_the_device_uuid)
{
    struct nvrm_gid gid = {.flags = NVRM_GID_BINARY};
    CUuuid uuid;
    managed("accept", "580.65.06");
    cr_expect_eq(control(seen.subdevice, NVRM_SUBDEVICE_GID, &gid, sizeof(gid)), 0);
    CHECK(cuDeviceGetUuid(&uuid, 0));
    cr_expect_eq(gid.bytes, 16);
    cr_expect_eq(memcmp(gid.data, uuid.bytes, 16), 0);
}

/* Returns the time that the only kernel in the log took beyond its cost. */
static uint64_t paused_ns(void)
{
    static struct log_line lines[16];
    size_t count = log_read(lines, 16);
    for (size_t i = 0; i < count; i++)
        if (strcmp(lines[i].kind, "kernel") == 0)
            return lines[i].end - lines[i].start - lines[i].cost;
    cr_assert_fail("no kernel in the log");
    return 0;
}

/* Stops a kernel of a second for at least 20 ms, if stopping has an effect. */
static uint64_t stopped_for(void (*stop)(void), void (*go)(void))
{
    CUevent ahead;
    CHECK(cuEventCreate(&ahead, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(ahead, NULL));
    launch_spin(NULL, 1, 1000 * MS);
    CHECK(cuEventSynchronize(ahead)); /* the kernel runs now */
    stop();
    uint64_t until = now_ns() + 20 * MS;
    while (now_ns() < until)
        ;
    go();
    CHECK(cuCtxSynchronize());
    return paused_ns();
}

static void off(void)
{
    cr_expect_eq(schedule(false, 3), 0);
}

static void on(void)
{
    cr_expect_eq(schedule(true, 3), 0);
}

Test(rm, group_off_run_list_stops_its_kernel)
{
    managed("accept", "580.65.06");
    cr_expect_geq(stopped_for(off, on), 19 * MS);
}

Test(rm, ignore_mode_reports_success_without_stopping)
{
    managed("ignore", "580.65.06");
    cr_expect_eq(stopped_for(off, on), 0);
}

Test(rm, refuse_mode_denies_all_but_group_enable)
{
    managed("refuse", "580.65.06");
    cr_expect_eq(schedule(false, 3), NVRM_NO_PERMISSION);
    cr_expect_eq(schedule(true, 3), 0);
    cr_expect_eq(timeslice(0), NVRM_NO_PERMISSION);
    cr_expect_eq(preempt(), NVRM_NO_PERMISSION);
}

Test(rm, timeslice_mode_allows_slices_and_preempt_only)
{
    struct nvrm_timeslice got;
    managed("timeslice", "580.65.06");
    cr_expect_eq(schedule(false, 3), NVRM_NOT_SUPPORTED);
    cr_expect_eq(control(seen.group, NVRM_GROUP_GET_TIMESLICE, &got, sizeof(got)), 0);
    cr_expect_eq(got.us, 2000);
    cr_expect_eq(timeslice(0), 0);
    cr_expect_eq(preempt(), 0);
    cr_expect_eq(timeslice(got.us), 0);
}

Test(rm, schedule_parameters_of_another_version_are_refused)
{
    managed("accept", "550.163.01");
    cr_expect(seen.scheduled);
    cr_expect_eq(schedule(false, 3), NVRM_INVALID_PARAMS);
    cr_expect_eq(schedule(false, 2), 0);
    cr_expect_eq(schedule(true, 2), 0);
}

Test(rm, call_of_another_client_is_refused)
{
    managed("accept", "580.65.06");
    seen.client++;
    cr_expect_eq(schedule(false, 3), NVRM_INVALID_CLIENT);
}
