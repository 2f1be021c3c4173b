/*
 * profile_file.h - the file that keeps what was learned about kernels: one per GPU.
 *
 * $XDG_CACHE_HOME/cutin/UUID.profile has a header, rows, and the kernels' names, whole. A file that
 * is short, of another version or damaged (checksum) counts as empty. Writers take turns by a lock
 * on the temporary file, merge with what others wrote meanwhile, and rename: a reader sees the old
 * file or the new one. Nothing here knows CUDA; `cutin profile` reads with it, too.
 */
#ifndef CUTIN_COMMON_PROFILE_FILE_H
#define CUTIN_COMMON_PROFILE_FILE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PROFILE_ROWS = 2048,            /* of a file; those used longest ago go first */
    PROFILE_AGED_H = 24 * 30,       /* a row that was not used for so long is no estimate */
    PROFILE_BINS = 48,              /* half powers of two from 256 ns on, the last one open */
    PROFILE_TEXT = 4 * 1024 * 1024, /* of all names together */
    PROFILE_PATH = 512,
};

struct profile_row {
    uint64_t key; /* name, parameters and resources of the function, hashed */
    uint64_t launches;
    uint32_t mean_ns, upper_ns; /* mean of the latest samples; what one will hardly exceed */
    uint32_t samples;
    uint32_t used_h; /* hours since 1970 */
    uint32_t bucket; /* of grids from 4^bucket to 4^(bucket + 1) - 1 blocks; the last one is open */
    uint32_t changed;           /* in memory only: samples that no file knows */
    uint16_t bin[PROFILE_BINS]; /* samples by duration; all halved when one is full */
    uint32_t name;    /* where it begins in the text, as the module has it; 0: no room for it */
    uint32_t at_most; /* 1: no sample was exact, and the time may be much shorter */
};
static_assert(sizeof(struct profile_row) == 144, "profile_row");
/* A row of an hour in the future is not: the clock was set back. */
static inline bool profile_row_aged(const struct profile_row *row, uint32_t now_h)
{
    return now_h > row->used_h && now_h - row->used_h >= PROFILE_AGED_H;
}

struct profile_header {
    char magic[8];
    uint32_t version, rows;
    uint64_t checksum;   /* of all rows, and of the text behind them */
    uint64_t text_bytes; /* a multiple of 8 */
    uint8_t uuid[16];
    char gpu[88];
};
static_assert(sizeof(struct profile_header) == 136, "profile_header");

/* Names one behind the other (names.h), of which `bytes` are used. */
struct profile_text {
    uint32_t bytes;
    char text[PROFILE_TEXT];
};

/* $XDG_CACHE_HOME/cutin, or $HOME/.cache/cutin; "" if neither is set, absolute and short enough,
 * and in set-user-id programs. */
void profile_folder(char out[PROFILE_PATH]);
/* Makes that folder. Returns 0 or -errno. */
int profile_folder_make(void);
/* Makes a folder with that mode, if there is none. Returns the mode that it has; -EPERM: another
 * user owns it; or -errno. If others can write, a name could lead to any file of this user. */
int folder_own(const char *folder, mode_t mode);
/* The file of a GPU in that folder; "" without a folder. */
void profile_path(char out[PROFILE_PATH], const uint8_t uuid[16]);
/* Reads a file: at most PROFILE_ROWS rows into `rows`, and their names. Returns the number of rows,
 * or -errno (-EBADMSG: it is damaged, or of another version). `header` may be NULL. */
int profile_read(const char *path, struct profile_header *header, struct profile_row *rows,
                 struct profile_text *text);
/*
 * Merges rows into the file of this GPU: a row replaces the file's, launches and bins add up, and a
 * row without `changed` samples leaves the file's as it is. `text` has the rows' names. Makes the
 * folder. Returns 0 or -errno; -EAGAIN: another process is writing.
 */
int profile_merge(const uint8_t uuid[16], const char *gpu, const struct profile_row *rows,
                  uint32_t n, const char *text);

/* The bin of a duration, and the least duration of a bin, in nanoseconds. */
uint32_t profile_bin(uint32_t ns);
uint32_t profile_bin_ns(uint32_t bin);
/* The duration that `percent` of the samples do not exceed, by the bins; 0 without samples. */
uint32_t profile_percentile_ns(const struct profile_row *row, double percent);

#endif
