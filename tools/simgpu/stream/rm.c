/*
 * rm.c - the driver's calls to the resource manager (see rm.h).
 */
#include "tools/simgpu/stream/rm.h"
#include "shim/suspend/nvrm.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/rm/preload.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The client chooses its handles. */
enum { CLIENT = 0xc1d00001, DEVICE = 0x5c000000, SUBDEVICE = 0x5d000000, GROUP = 0x5e000000 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int fd = -1;

static bool rm_alloc(uint32_t parent, uint32_t object, uint32_t class_id, void *params,
                     uint32_t bytes)
{
    struct nvrm_alloc call = {
        .client = CLIENT, .parent = parent, .object = object, .class_id = class_id};
    bool counted = strtoul(config_get()->rm_version, NULL, 10) >= 535;
    call.params = (uintptr_t)params;
    call.bytes = counted ? bytes : 0;
    return ioctl(fd, NVRM_REQUEST(NVRM_ALLOC, sizeof(call)), &call) == 0 &&
           (counted ? call.status : call.bytes) == 0;
}

/* Asks for the version, as libcuda does once it has a client. */
static bool version_ask(void)
{
    char driver[80] = "", version[80], title[80];
    struct nvrm_version of = {
        sizeof(driver), (uintptr_t)driver, (uintptr_t)version, (uintptr_t)title, 0, 0};
    struct nvrm_control call = {.client = CLIENT,
                                .object = CLIENT,
                                .command = NVRM_BUILD_VERSION,
                                .params = (uintptr_t)&of,
                                .bytes = sizeof(of)};
    return ioctl(fd, NVRM_REQUEST(NVRM_CONTROL, sizeof(call)), &call) == 0 && call.status == 0 &&
           driver[0];
}

static void rm_open(void)
{
    if (config_get()->rm == SIM_RM_OFF || config_get()->null_mode)
        return;
    rm_serve_fn *serve = (rm_serve_fn *)dlsym(RTLD_DEFAULT, RM_SERVE);
    if (!serve) {
        if (getenv("SIMGPU_RM")) /* SIMGPU_LIKE takes a resource manager only if there is one */
            fprintf(stderr, "simgpu: SIMGPU_RM needs libsimgpu_rm.so preloaded; it is not used\n");
        return;
    }
    fd = memfd_create("nvidiactl", MFD_CLOEXEC);
    if (fd < 0)
        return;
    serve(fd, rm_manage);
    if (!rm_alloc(CLIENT, CLIENT, NVRM_CLASS_CLIENT, NULL, 0) || !version_ask())
        return;
    for (uint32_t i = 0; i < (uint32_t)config_get()->devices; i++) {
        rm_alloc(CLIENT, DEVICE + i, NVRM_CLASS_DEVICE, NULL, 0);
        rm_alloc(DEVICE + i, SUBDEVICE + i, NVRM_CLASS_SUBDEVICE, NULL, 0);
    }
}

static uint32_t schedule_bytes(void)
{
    uint32_t branch = (uint32_t)strtoul(config_get()->rm_version, NULL, 10);
#define BRANCH(first, last, alloc, schedule)                                                       \
    if (branch <= (last))                                                                          \
        return schedule;
    NVRM_BRANCHES(BRANCH)
#undef BRANCH
    return sizeof(struct nvrm_schedule);
}

void rm_group_open(uint32_t context, int ordinal)
{
    struct nvrm_group group = {.space = context, .engine = 1};
    struct nvrm_schedule on = {.enable = 1};
    struct nvrm_control call = {.client = CLIENT,
                                .object = GROUP + context,
                                .command = NVRM_GROUP_SCHEDULE,
                                .params = (uintptr_t)&on,
                                .bytes = schedule_bytes()};
    pthread_once(&once, rm_open);
    if (fd >= 0 && rm_alloc(DEVICE + (uint32_t)ordinal, GROUP + context, NVRM_CLASS_GROUP, &group,
                            sizeof(group)))
        ioctl(fd, NVRM_REQUEST(NVRM_CONTROL, sizeof(call)), &call);
}

void rm_group_close(uint32_t context, int ordinal)
{
    struct nvrm_free call = {
        .client = CLIENT, .parent = DEVICE + (uint32_t)ordinal, .object = GROUP + context};
    if (fd >= 0)
        ioctl(fd, NVRM_REQUEST(NVRM_FREE, sizeof(call)), &call);
}
