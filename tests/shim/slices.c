/*
 * slices.c - the time slices of channel groups, set and set back. The resource manager is a fake.
 */
#include "shim/lookup/shim.h"
#include "shim/suspend/groups.h"
#include "shim/suspend/nvrm.h"
#include "shim/suspend/objects.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { GROUPS = 2, ORIGINAL_US = 2000, OTHER_US = 5000, SHORT_US = 100 };

struct object objects[OBJECTS];
_Atomic uint32_t objects_changing, objects_stopped, objects_schedule_bytes = 3;
_Atomic bool objects_lost;
char groups_version[64] = "580.65.06";

static struct {
    uint64_t slice_us[GROUPS];
    uint32_t answer[GROUPS]; /* to the next call that sets one */
    int calls;
} manager;

void log_line(int severity, const char *format, ...)
{
}

int objects_ioctl(int fd, unsigned long request, void *arg)
{
    struct nvrm_control *call = arg;
    struct nvrm_timeslice *p = (void *)(uintptr_t)call->params;

    manager.calls++;
    cr_expect_gt(atomic_load(&objects_stopped), 0, "the driver may end what is changed here");
    call->status = 0;
    if (call->command == NVRM_GROUP_GET_TIMESLICE)
        p->us = manager.slice_us[call->object];
    else if (call->command == NVRM_GROUP_SET_TIMESLICE &&
             !(call->status = manager.answer[call->object]))
        manager.slice_us[call->object] = p->us;
    return 0;
}

static void setup(void)
{
    struct stat file;
    int fd = open("/dev/null", O_RDONLY);

    cr_assert_eq(fstat(fd, &file), 0);
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct object *o = &objects[i];
        o->handle = i;
        o->class_id = NVRM_CLASS_GROUP;
        o->fd = fd;
        o->dev = file.st_dev;
        o->ino = file.st_ino;
        atomic_store(&o->scheduled, true);
        atomic_store(&o->state, OBJECT_LIVE);
        manager.slice_us[i] = ORIGINAL_US;
    }
}

TestSuite(slices, .init = setup);

static void expect_slices(uint64_t first_us, uint64_t second_us)
{
    cr_expect_eq(manager.slice_us[0], first_us, "%d", (int)manager.slice_us[0]);
    cr_expect_eq(manager.slice_us[1], second_us, "%d", (int)manager.slice_us[1]);
}

Test(slices, are_set_once_and_restored)
{
    cr_expect_eq(groups_set_slice(NULL, SHORT_US), 0);
    expect_slices(SHORT_US, SHORT_US);
    int calls = manager.calls;
    cr_expect_eq(groups_set_slice(NULL, SHORT_US), 0);
    cr_expect_eq(manager.calls, calls);
    cr_expect_eq(groups_set_slice(NULL, 0), 0);
    expect_slices(ORIGINAL_US, ORIGINAL_US);
}

Test(slices, later_driver_slice_is_restored)
{
    groups_set_slice(NULL, SHORT_US);
    groups_set_slice(NULL, 0);
    manager.slice_us[1] = OTHER_US;
    groups_set_slice(NULL, SHORT_US);
    groups_set_slice(NULL, 0);
    expect_slices(ORIGINAL_US, OTHER_US);
}

Test(slices, are_restored_off_run_list)
{
    groups_set_slice(NULL, SHORT_US);
    atomic_store(&objects[0].scheduled, false);
    atomic_store(&objects[1].scheduled, false);
    groups_set_slice(NULL, 0);
    expect_slices(ORIGINAL_US, ORIGINAL_US);
    cr_expect_eq(groups_set_slice(NULL, SHORT_US), -ENOENT);
    expect_slices(ORIGINAL_US, ORIGINAL_US);
}

Test(slices, refused_restore_does_not_stop_others)
{
    groups_set_slice(NULL, SHORT_US);
    manager.answer[0] = NVRM_NO_PERMISSION;
    cr_expect_eq(groups_set_slice(NULL, 0), NVRM_NO_PERMISSION);
    expect_slices(SHORT_US, ORIGINAL_US);
    manager.answer[0] = 0;
    cr_expect_eq(groups_set_slice(NULL, 0), 0);
    expect_slices(ORIGINAL_US, ORIGINAL_US);
}

Test(slices, are_left_alone_while_driver_changes_groups)
{
    atomic_store(&objects_changing, 1);
    cr_expect_eq(groups_set_slice(NULL, SHORT_US), -EBUSY);
    cr_expect_eq(manager.calls, 0);
    atomic_store(&objects_changing, 0);
    cr_expect_eq(groups_set_slice(NULL, SHORT_US), 0);
    expect_slices(SHORT_US, SHORT_US);
}

Test(slices, survive_stop_and_go)
{
    groups_set_slice(NULL, SHORT_US);
    cr_expect_eq(groups_stop(NULL, GROUPS_TIMESLICE), 0);
    cr_expect_eq(groups_set_slice(NULL, 0), -EBUSY);
    cr_expect_eq(groups_resume(NULL), 0);
    expect_slices(SHORT_US, SHORT_US);
    groups_set_slice(NULL, 0);
    expect_slices(ORIGINAL_US, ORIGINAL_US);
}

Test(slices, are_restored_at_end)
{
    groups_set_slice(NULL, SHORT_US);
    groups_end();
    expect_slices(ORIGINAL_US, ORIGINAL_US);
    cr_expect_eq(groups_set_slice(NULL, SHORT_US), -ENOENT);
    expect_slices(ORIGINAL_US, ORIGINAL_US);
}
