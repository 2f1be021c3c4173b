/*
 * fatbin.c - fat binaries. Such a file lists PTX texts and cubins of one program for several
 * architectures, most of them compressed (LZ4 before CUDA 12.8, Zstandard since). The simulator
 * chooses as a driver does: the cubin of the device's own generation that is nearest to the device,
 * or else the newest PTX that the device can run.
 */
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/program/image.h"

#ifdef HAVE_LZ4
#include <lz4.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

enum {
    KIND_PTX = 1,
    KIND_ELF = 2,
    FLAG_LZ4 = 0x2000,
    FLAG_ZSTD = 0x8000,
    ENTRY_LEAST = 32, /* of an entry's header, up to its architecture */
    FULL_MAX = 1 << 30,
};

struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of all entries together */
};

struct fatbin_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes; /* of the payload, padded */
    uint32_t compressed_bytes, unknown;
    uint16_t minor, major;
    uint32_t arch, name_at, name_bytes;
    uint64_t flags, zero, full_bytes;
    const unsigned char *payload; /* not in the file */
};

/* The entry with the highest rank is taken. 0: it is not for this device. */
static uint32_t entry_rank(const struct fatbin_entry *e)
{
    enum { CUBIN_FIRST = 1000 };
    uint32_t device = simconfig_compute()->arch;
    bool runs = e->arch <= device;
    if (e->kind == KIND_ELF && runs && e->arch / 10 == device / 10)
        return CUBIN_FIRST + e->arch;
    return e->kind == KIND_PTX && runs ? e->arch + 1 : 0;
}

/* The number of bytes written; any other number is an error. */
static size_t entry_expand(const struct fatbin_entry *e, char *to)
{
#ifdef HAVE_LZ4
    if (e->flags & FLAG_LZ4)
        return (size_t)LZ4_decompress_safe((const char *)e->payload, to, (int)e->compressed_bytes,
                                           (int)e->full_bytes);
#endif
#ifdef HAVE_ZSTD
    if (e->flags & FLAG_ZSTD)
        return ZSTD_decompress(to, e->full_bytes, e->payload, e->compressed_bytes);
#endif
    return 0;
}

static CUresult part_read(uint16_t kind, const unsigned char *data, size_t bytes,
                          struct image *into)
{
    return kind == KIND_PTX ? ptx_parse((const char *)data, bytes, into)
                            : cubin_read(data, bytes, into);
}

static CUresult entry_read(const struct fatbin_entry *e, struct image *into)
{
    if (!(e->flags & (FLAG_LZ4 | FLAG_ZSTD)))
        return part_read(e->kind, e->payload, e->bytes, into);
    if (e->full_bytes > FULL_MAX || e->compressed_bytes > e->bytes)
        return CUDA_ERROR_INVALID_IMAGE;
    unsigned char *full = calloc(1, e->full_bytes + 1);
    if (!full)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = entry_expand(e, (char *)full) == e->full_bytes
                      ? part_read(e->kind, full, e->full_bytes, into)
                      : CUDA_ERROR_INVALID_IMAGE;
    free(full);
    return rc;
}

/* Whether this simulator was built with what expands it. */
static bool entry_readable(const struct fatbin_entry *e)
{
    uint64_t unreadable = 0;
#ifndef HAVE_LZ4
    unreadable |= FLAG_LZ4;
#endif
#ifndef HAVE_ZSTD
    unreadable |= FLAG_ZSTD;
#endif
    return (e->flags & unreadable) == 0;
}

/* Older headers are shorter. The members that are missing are zero. */
static bool entry_at(const unsigned char *p, const unsigned char *end, struct fatbin_entry *e)
{
    size_t left = (size_t)(end - p), whole = offsetof(struct fatbin_entry, payload);
    *e = (struct fatbin_entry){.kind = 0};
    memcpy(e, p, left < ENTRY_LEAST ? left : ENTRY_LEAST);
    if (left < ENTRY_LEAST || e->header_bytes < ENTRY_LEAST || e->header_bytes > left ||
        e->bytes > left - e->header_bytes)
        return false;
    memcpy(e, p, e->header_bytes < whole ? e->header_bytes : whole);
    e->payload = p + e->header_bytes;
    return true;
}

CUresult fatbin_read(const unsigned char *data, size_t bytes, struct image *into)
{
    struct fatbin_header header;
    struct fatbin_entry e, best = {.kind = 0};
    memcpy(&header, data, sizeof(header));
    if (header.bytes > bytes || header.header_bytes > bytes - header.bytes)
        return CUDA_ERROR_INVALID_IMAGE;
    const unsigned char *p = data + header.header_bytes, *end = p + header.bytes;
    for (; p < end; p = e.payload + e.bytes) {
        if (!entry_at(p, end, &e))
            return CUDA_ERROR_INVALID_IMAGE;
        if (entry_readable(&e) && entry_rank(&e) > entry_rank(&best))
            best = e;
    }
    return entry_rank(&best) ? entry_read(&best, into) : CUDA_ERROR_NO_BINARY_FOR_GPU;
}
