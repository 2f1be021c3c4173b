/*
 * nvrm.h - how a process calls NVIDIA's resource manager, as far as it is public: numbers and
 * layouts of the few calls that make and control channel groups.
 *
 * Facts of the open GPU kernel modules (github.com/NVIDIA/open-gpu-kernel-modules, MIT), releases
 * 515.43.04 to 595.45.04: nv_escape.h, nv-ioctl.h, nv-ioctl-numbers.h, nvos.h, class/cla06c.h,
 * ctrl/ctrla06c.h, ctrl/ctrla06f/ctrla06fgpfifo.h, ctrl/ctrl2080/ctrl2080gpu.h,
 * ctrl/ctrl0000/ctrl0000system.h. In all of them the controls of a channel group below are flagged
 * non-privileged (0x10 up to 550, 0x8 since 555). The manager refuses parameters of a size that it
 * does not know, hence the table.
 *
 * A call uses the descriptor of /dev/nvidiactl with which its client was made. Its answer is in
 * `status`; ioctl itself fails only where the manager could not read the call.
 */
#ifndef CUTIN_SHIM_SUSPEND_NVRM_H
#define CUTIN_SHIM_SUSPEND_NVRM_H

#include <assert.h>
#include <stdint.h>
#include <sys/ioctl.h>

/* X(first branch, last branch, bytes of nvrm_alloc with rights, bytes of nvrm_schedule). A branch
 * is the version up to its first dot: 580 of 580.65.06. */
#define NVRM_BRANCHES(X)                                                                           \
    X(515, 530, 40, 2)                                                                             \
    X(535, 570, 48, 2) /* 535: both forms of alloc have the length of their parameters */          \
    X(575, 595, 48, 3) /* 575: nvrm_schedule has skip_enable */

enum { NVRM_MAGIC = 'F' };
enum {
    NVRM_FREE = 0x29,
    NVRM_CONTROL = 0x2a,
    NVRM_ALLOC = 0x2b,
    NVRM_IDLE_CHANNELS = 0x41,
    NVRM_TRANSFER = 211, /* another call: the parameters are its number, size and address */
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
/* The common begin of all forms. In the short form, of 32 bytes, `status` is the last word. In the
 * form with rights it is at 32 of 40 bytes, or at 40 of 48. */
struct nvrm_alloc {
    uint32_t client, parent, object /* 0: the manager chooses */, class_id;
    uint64_t params;
    uint32_t bytes, status; /* up to 530: the status, and padding */
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
    NVRM_CLASS_GROUP = 0xa06c, /* KEPLER_CHANNEL_GROUP_A, on every GPU since; below a device */
};

/* Parameters of a group's allocation begin with: */
struct nvrm_group {
    uint32_t error, ecc_error, space, engine;
};

/* A command is its class and a number in that class. */
enum {
    NVRM_BUILD_VERSION = 0x101, /* of a client: the module's. libcuda 470 to 580 asks at once */
    NVRM_GROUP_SCHEDULE = 0xa06c0101,
    NVRM_GROUP_SET_TIMESLICE = 0xa06c0103, /* takes effect at once, rounded down to what exists */
    NVRM_GROUP_GET_TIMESLICE = 0xa06c0104, /* the value that was set, not rounded */
    NVRM_GROUP_PREEMPT = 0xa06c0105,
    NVRM_SUBDEVICE_GID = 0x2080014a,
};
struct nvrm_version {
    uint32_t bytes;                  /* size of each text buffer */
    uint64_t driver, version, title; /* addresses of buffers; the first text is like 580.65.06 */
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

/* Some of the manager's answers. 0 is success. */
enum {
    NVRM_NO_PERMISSION = 0x1b,
    NVRM_INVALID_ARGUMENT = 0x1f,
    NVRM_INVALID_CLIENT = 0x23,
    NVRM_INVALID_OBJECT = 0x33,
    NVRM_INVALID_PARAMS = 0x3a,
    NVRM_NOT_SUPPORTED = 0x56,
};

#endif
