/*
 * record.h - what was seen to work on this machine: a file of one line for each thing and GPU, in
 * the user's cache, or for all users in a folder of root's. The command writes them, and the
 * library goes by them. They give nothing away: any user may set CUTIN_GATES=on. Whether running
 * kernels can be stopped is recorded for a GPU, by its UUID; whether gates hold, for a kind of GPU,
 * by the key of its name: all of a kind, and all instances of a MIG profile, are alike in that.
 */
#ifndef CUTIN_COMMON_RECORD_H
#define CUTIN_COMMON_RECORD_H

#include <stdint.h>

struct record {
    char version[64]; /* the driver's */
    char way[16];     /* "suspend": one of groups_way_names; "gates": "streams", or "graphs" where
                       * they hold there, too; or "none" */
    char why[192];    /* with "none"; with "graphs", what gates cost there */
    uint64_t age_s;   /* its age when it was read */
};

/* Costs of gates in graphs, for printf, one behind the other; and the ns of one. 0: none. */
#define RECORD_GATE_COST "a gate costs %d ns in a graph"
#define RECORD_MARK_COST ", a marker %d ns"
int record_cost(const struct record *r, const char *format);

/* For all users. A container has to have it as its host has. */
#define RECORD_MACHINE_FOLDER "/var/lib/cutin"

/* Reads the user's or the machine's: the one of this version of the driver, else the newer one.
 * Returns 0; -ENOENT: there is none; -EINVAL: it makes no sense. */
int record_read(const char *what, const uint8_t key[16], const char *version, struct record *r);
/* Writes the user's. Returns 0 or -errno. */
int record_write(const char *what, const uint8_t key[16], const struct record *r);
/* Makes the user's records of that version, of all GPUs, the machine's, too, where those are older
 * or of another version; makes their folder. Returns 0 or -errno. */
int record_publish(const char *what, const char *version);
void record_key(uint8_t key[16], const char *gpu_name);
/* The driver as records of gates name it: CUDA's version, and that of the kernel module. */
void record_version(char out[64], int cuda_version);

#endif
