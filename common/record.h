/*
 * record.h - what was seen to work on this machine: a file of one line for each thing and GPU, in
 * the user's cache, or for all users of the machine in a folder of root's. The command writes them,
 * the library goes by them. Nothing is given away by them: everybody may set CUTIN_GATES=on.
 * Whether kernels that run can be stopped is recorded of a GPU, by its UUID; whether gates hold, of
 * a kind of GPU, by the key of its name: all of a kind, and all instances of a MIG profile, are
 * alike there.
 */
#ifndef CUTIN_COMMON_RECORD_H
#define CUTIN_COMMON_RECORD_H

#include <stdint.h>

struct record {
    char version[64]; /* the driver's */
    char way[16];     /* "suspend": one of groups_way_names; "gates": "streams", or "graphs" where
                         they hold there, too; or "none" */
    char why[192];    /* with "none"; with "graphs", what gates cost there */
    uint64_t age_s;   /* when it was read */
};

/* Of gates in graphs, for printf one behind the other; and what the one says, ns. 0: nothing. */
#define RECORD_GATE_COST "a gate costs %d ns in a graph"
#define RECORD_MARK_COST ", a marker %d ns"
int record_cost(const struct record *r, const char *format);

/* For all users. A container is to have it as its host does. */
#define RECORD_MACHINE_FOLDER "/var/lib/cutin"

/* The user's or the machine's: the one of this version of the driver, else the newer one. 0;
 * -ENOENT: there is none; -EINVAL: it makes no sense. */
int record_read(const char *what, const uint8_t key[16], const char *version, struct record *r);
/* The user's. 0 or -errno. */
int record_write(const char *what, const uint8_t key[16], const struct record *r);
/* Makes the user's of that version, of all GPUs, the machine's, too, where that is older or another
 * version's, and its folder. 0 or -errno. */
int record_share(const char *what, const char *version);
void record_key(uint8_t key[16], const char *gpu_name);
/* The driver as records of gates name it: CUDA's version, and the kernel module's. */
void record_version(char out[64], int cuda_version);

#endif
