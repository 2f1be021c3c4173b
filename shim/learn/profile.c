/*
 * profile.c - what is learned about kernels, in memory and in its file (see profile.h).
 *
 * A row is found by its key in a table of fixed size. Nothing is removed, so pointers stay valid.
 * All of a row but the averages counts only what this process has done since the last write: the
 * file adds it up.
 */
#include "shim/learn/profile.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "scheduler/client/waker.h"
#include "shim/objects/gpu_device.h"
#include "common/names.h"

enum { GPUS = 16, SLOTS = 2 * PROFILE_ROWS };
#define WRITE_EVERY_NS (30ull * 1000 * NS_PER_MS)

struct profile {
    uint8_t uuid[16];
    char gpu[88];
    uint32_t rows;
    uint16_t slot[SLOTS]; /* 1 + index of a row, by hash; 0: free */
    struct profile_row row[PROFILE_ROWS];
    struct names names; /* of kernels, in `text` */
    struct profile_text text;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct profile *profiles[GPUS];
static struct waker writer;

/* The place of the GPU's profile, or a free one, or GPUS. Lock held. */
static int profile_place(const struct gpu_device *gpu)
{
    int i = 0;

    while (i < GPUS && profiles[i] && memcmp(profiles[i]->uuid, gpu->uuid, 16) != 0)
        i++;
    return i;
}

/* ---- rows (lock held) ---------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0xff51afd7ed558ccd);
    return hash ^ hash >> 32;
}

static struct profile_row *row_find(struct profile *p, uint64_t key, uint32_t bucket, bool make)
{
    uint32_t at = (uint32_t)mix(key, bucket) % SLOTS;
    struct profile_row *row;

    for (; p->slot[at]; at = (at + 1) % SLOTS) {
        row = &p->row[p->slot[at] - 1];
        if (row->key == key && row->bucket == bucket)
            return row;
    }
    if (!make || p->rows == PROFILE_ROWS)
        return NULL;
    row = &p->row[p->rows++];
    p->slot[at] = (uint16_t)p->rows;
    row->key = key;
    row->bucket = bucket;
    return row;
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void write_all(void)
{
    struct profile_row *copy = calloc(PROFILE_ROWS, sizeof(*copy));

    for (int place = 0; copy && place < GPUS; place++) {
        uint32_t n = 0;

        pthread_mutex_lock(&lock);
        struct profile *p = profiles[place];
        for (uint32_t i = 0; p && i < p->rows; i++)
            if (p->row[i].changed)
                copy[n++] = p->row[i];
        pthread_mutex_unlock(&lock);
        int rc = n ? profile_merge(p->uuid, p->gpu, copy, n, p->text.text) : 0;
        if (rc != 0 && rc != -EAGAIN)
            log_line(LOG_DEBUG, "cannot save the profile of kernels: %s", strerror(-rc));
        pthread_mutex_lock(&lock);
        for (uint32_t i = 0; rc == 0 && i < n; i++) {
            struct profile_row *row = row_find(p, copy[i].key, copy[i].bucket, false);

            row->launches -= copy[i].launches;
            row->samples -= copy[i].samples;
            row->changed -= copy[i].changed;
            for (int b = 0; b < PROFILE_BINS; b++)
                row->bin[b] = (uint16_t)(row->bin[b] - copy[i].bin[b]);
        }
        pthread_mutex_unlock(&lock);
    }
    free(copy);
}

static uint64_t write_in_time(void *unused, uint64_t now_ns)
{
    static uint64_t next;

    if (next && now_ns >= next && !shim_bypassed())
        write_all();
    next = now_ns + WRITE_EVERY_NS;
    return next;
}

void profile_close(void)
{
    if (!atomic_load(&writer.running))
        return;
    waker_stop(&writer);
    write_all();
}

void profile_open(const struct gpu_device *gpu)
{
    struct profile_row *from = NULL;
    struct profile *p = NULL;
    char path[PROFILE_PATH];

    if (config_get()->profile == PROFILE_OFF)
        return;
    pthread_mutex_lock(&lock);
    int i = profile_place(gpu);
    if (i < GPUS && !profiles[i] && (p = calloc(1, sizeof(*p))) &&
        (from = calloc(PROFILE_ROWS, sizeof(*from)))) {
        memcpy(p->uuid, gpu->uuid, sizeof(p->uuid));
        memcpy(p->gpu, gpu->name, sizeof(gpu->name));
        profile_path(path, p->uuid);
        int rows = path[0] ? profile_read(path, NULL, from, &p->text) : 0;
        names_open(&p->names, p->text.text, rows > 0 ? p->text.bytes : 0, PROFILE_TEXT);
        for (int n = 0; n < rows; n++) {
            struct profile_row *row = row_find(p, from[n].key, from[n].bucket, true);

            *row = from[n];
            row->launches = row->samples = row->changed = 0; /* the file counts those */
            memset(row->bin, 0, sizeof(row->bin));
        }
        log_line(LOG_DEBUG, "read a profile of %d kernels on %s", rows > 0 ? rows : 0, p->gpu);
        profiles[i] = p;
        p = NULL;
        waker_start(&writer, write_in_time, NULL);
    }
    pthread_mutex_unlock(&lock);
    free(from);
    free(p);
}

static uint32_t now_h(void)
{
    return (uint32_t)(time(NULL) / 3600);
}

uint64_t profile_find(struct profile_key *key, CUfunction handle, const char *name,
                      const struct profile_param *param, uint32_t params,
                      const struct gpu_device *gpu, struct profile_row *found, uint32_t buckets)
{
    /* What a kernel needs; what the driver does not answer counts as 0. The function has run, so
     * asking loads nothing. */
    static const CUfunction_attribute asked[] = {
        CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES,
        CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES,  CU_FUNC_ATTRIBUTE_NUM_REGS,
        CU_FUNC_ATTRIBUTE_PTX_VERSION,       CU_FUNC_ATTRIBUTE_BINARY_VERSION,
    };
    if (config_get()->profile != PROFILE_ON || !name)
        return 0;
    uint64_t hash = mix(0, params);
    for (const char *c = name; *c; c++)
        hash = mix(hash, (unsigned char)*c);
    for (uint32_t i = 0; i < params; i++)
        hash = mix(hash, (uint64_t)param[i].offset << 32 | param[i].size);
    for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
        int value = 0;
        if (REAL(cuFuncGetAttribute)(&value, asked[i], handle) != CUDA_SUCCESS)
            value = 0;
        hash = mix(hash, (uint64_t)(uint32_t)value);
    }
    hash |= 1; /* 0 means none */
    pthread_mutex_lock(&lock);
    int place = profile_place(gpu);
    struct profile *p = key->profile = place < GPUS ? profiles[place] : NULL;
    key->name = p ? names_add(&p->names, name) : 0;
    for (uint32_t bucket = 0; p && bucket < buckets; bucket++) {
        const struct profile_row *row = row_find(p, hash, bucket, false);
        if (row && row->mean_ns && !profile_row_aged(row, now_h()))
            found[bucket] = *row;
    }
    pthread_mutex_unlock(&lock);
    return p ? hash : 0;
}

struct profile_row *profile_row_of(const struct profile_key *key, uint32_t bucket)
{
    uint64_t hash = atomic_load_explicit(&key->hash, memory_order_acquire);
    if (!hash)
        return NULL;
    pthread_mutex_lock(&lock);
    struct profile_row *row = row_find(key->profile, hash, bucket, true);
    if (row && !row->name)
        row->name = key->name;
    pthread_mutex_unlock(&lock);
    return row;
}

void profile_sample(struct profile_row *row, uint32_t ns, bool at_most,
                    const struct vhq_learned *learned, uint32_t launches)
{
    uint32_t bin = profile_bin(ns);
    pthread_mutex_lock(&lock);
    row->mean_ns = atomic_load_explicit(&learned->mean_ns, memory_order_relaxed);
    row->upper_ns = atomic_load_explicit(&learned->upper_ns, memory_order_relaxed);
    row->at_most = at_most;
    row->launches += launches;
    row->used_h = now_h();
    row->samples++;
    row->changed++;
    row->bin[bin] = (uint16_t)(row->bin[bin] + (ns && row->bin[bin] < UINT16_MAX));
    pthread_mutex_unlock(&lock);
}
