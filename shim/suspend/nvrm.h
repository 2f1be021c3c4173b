/*
 * nvrm.h - what is public of how a process speaks to NVIDIA's resource manager: numbers and layouts
 * of the few calls that channel groups are made and controlled by.
 *
 * Facts of the open GPU kernel modules (github.com/NVIDIA/open-gpu-kernel-modules, MIT), releases
 * 515.43.04 to 595.45.04: nv_escape.h, nv-ioctl.h, nv-ioctl-numbers.h, nvos.h, class/cla06c.h,
 * ctrl/ctrla06c.h, ctrl/ctrla06f/ctrla06fgpfifo.h, ctrl/ctrl2080/ctrl2080gpu.h,
 * ctrl/ctrl0000/ctrl0000system.h. The controls of a
 * channel group below are flagged non-privileged in all of them (the flag is 0x10 up to 550 and 0x8
 * since 555). The manager refuses parameters of another size than it knows, hence the table.
 *
 * A call is made on the descriptor of /dev/nvidiactl by which its client was made, and answers in
 * `status`; ioctl itself fails only where the call could not be looked at.
 */
#ifndef CUTIN_SHIM_SUSPEND_NVRM_H
#define CUTIN_SHIM_SUSPEND_NVRM_H

#include <assert.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* X(first and last branch, bytes of nvrm_alloc with rights, bytes of nvrm_schedule). A branch is
 * what stands before the first dot of a version: 580.65.06. */
#define NVRM_BRANCHES(X)                                                                           \
    X(515, 530, 40, 2)                                                                             \
    X(535, 570, 48, 2) /* 535: both forms of alloc say how long their parameters are */            \
    X(575, 595, 48, 3) /* 575: nvrm_schedule has skip_enable */

enum { NVRM_MAGIC = 'F' };
enum {
    NVRM_FREE = 0x29,
    NVRM_CONTROL = 0x2a,
    NVRM_ALLOC = 0x2b,
    NVRM_IDLE_CHANNELS = 0x41,
    NVRM_TRANSFER = 211, /* another call, with its number, size and address as parameters */
};
#define NVRM_REQUEST(number, bytes) _IOC(_IOC_READ | _IOC_WRITE, NVRM_MAGIC, number, bytes)

struct nvrm_free {
    uint32_t client, parent, object, status;
};
struct nvrm_control {
    uint32_t client, object, command, flags;
    uint64_t params;
    uint32_t bytes, status;
};
/* How every form of it begins. `status` is the last word of the short form, of 32 bytes; of the one
 * with rights it is at 32 of 40 bytes, and at 40 of 48. */
struct nvrm_alloc {
    uint32_t client, parent, object /* 0: the manager chooses */, class_id;
    uint64_t params;
    uint32_t bytes, status; /* up to 530: the status, and nothing */
};
enum { NVRM_ALLOC_SHORT = 32 };
struct nvrm_transfer {
    uint32_t number, bytes;
    uint64_t params;
};
static_assert(sizeof(struct nvrm_free) == 16 && sizeof(struct nvrm_control) == 32 &&
                  sizeof(struct nvrm_alloc) == NVRM_ALLOC_SHORT &&
                  sizeof(struct nvrm_transfer) == 16,
              "as the manager has them");

enum {
    NVRM_CLASS_CLIENT = 0x41, /* its own parent */
    NVRM_CLASS_DEVICE = 0x80,
    NVRM_CLASS_SUBDEVICE = 0x2080,
    NVRM_CLASS_GROUP = 0xa06c, /* KEPLER_CHANNEL_GROUP_A, of every GPU since; below a device */
};

/* Parameters of a group's allocation begin with: */
struct nvrm_group {
    uint32_t error, ecc_error, space, engine;
};

/* A command is its class, and the number there. */
enum {
    NVRM_BUILD_VERSION = 0x101, /* of a client: the module's. libcuda 470 to 580 ask at once */
    NVRM_GROUP_SCHEDULE = 0xa06c0101,
    NVRM_GROUP_SET_TIMESLICE = 0xa06c0103, /* takes effect at once; rounded down to what there is */
    NVRM_GROUP_GET_TIMESLICE = 0xa06c0104, /* what was set, not what it was rounded to */
    NVRM_GROUP_PREEMPT = 0xa06c0105,
    NVRM_SUBDEVICE_GID = 0x2080014a,
};
struct nvrm_version {
    uint32_t bytes;                  /* that each of the texts has room for */
    uint64_t driver, version, title; /* where texts go; the first is such as 580.65.06 */
    uint32_t change, official;
};
struct nvrm_schedule {
    uint8_t enable; /* 0: off the run list */
    uint8_t skip_submit, skip_enable;
};
struct nvrm_timeslice {
    uint64_t us;
};
struct nvrm_preempt {
    uint8_t wait, own_timeout, spare[2];
    uint32_t timeout_us;
};
struct nvrm_gid {
    uint32_t index, flags, bytes;
    uint8_t data[256];
};
enum { NVRM_GID_BINARY = 2 };
static_assert(sizeof(struct nvrm_schedule) == 3 && sizeof(struct nvrm_preempt) == 8 &&
                  sizeof(struct nvrm_gid) == 268 && sizeof(struct nvrm_version) == 40,
              "as the manager has them");

/* Of its answers. 0 is success. */
enum {
    NVRM_NO_PERMISSION = 0x1b,
    NVRM_INVALID_ARGUMENT = 0x1f,
    NVRM_INVALID_CLIENT = 0x23,
    NVRM_INVALID_OBJECT = 0x33,
    NVRM_INVALID_PARAMS = 0x3a,
    NVRM_NOT_SUPPORTED = 0x56,
};

#endif
