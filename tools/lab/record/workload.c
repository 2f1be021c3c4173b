/*
 * workload.c - reads, checks and writes workload files (see workload.h).
 */
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/atomic_file.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are written as they lie in memory");

static const char magic[8] = "CUTINWL";

__attribute__((format(printf, 4, 5))) static int refuse(int rc, char *why, size_t why_bytes,
                                                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, why_bytes, format, args);
    va_end(args);
    return rc;
}

/* ---- in memory ------------------------------------------------------------------------------ */

static int kernel_append(struct workload *w, const char *name)
{
    int rc = list_grow(&w->kernel, &w->kernel_room, w->kernels, sizeof(*w->kernel));

    if (rc != 0)
        return rc;
    w->kernel[w->kernels] = strdup(name);
    return w->kernel[w->kernels] ? (int)w->kernels++ : -ENOMEM;
}

int workload_kernel(struct workload *w, const char *name)
{
    for (uint32_t i = 0; i < w->kernels; i++)
        if (strcmp(w->kernel[i], name) == 0)
            return (int)i;
    if (w->kernels == WORKLOAD_MOST_KERNELS)
        return -E2BIG;
    return kernel_append(w, name);
}

int workload_add(struct workload *w, const struct workload_op *op)
{
    uint64_t end_ns = op->at_ns + (op->kind == WORKLOAD_SYNC ? op->duration_ns : 0);
    int rc = w->ops < WORKLOAD_MOST_OPS ? list_grow(&w->op, &w->op_room, w->ops, sizeof(*w->op))
                                        : -E2BIG;

    if (rc != 0)
        return rc;
    w->op[w->ops++] = *op;
    if (w->streams <= op->stream)
        w->streams = op->stream + 1u;
    if (w->total_ns < end_ns)
        w->total_ns = end_ns;
    return 0;
}

void workload_free(struct workload *w)
{
    for (uint32_t i = 0; i < w->kernels; i++)
        free(w->kernel[i]);
    free(w->kernel);
    free(w->op);
    *w = (struct workload){0};
}

size_t workload_request_end(const struct workload *w, size_t from)
{
    while (from < w->ops && w->op[from].kind != WORKLOAD_SYNC)
        from++;
    while (from < w->ops && w->op[from].kind == WORKLOAD_SYNC)
        from++;
    return from;
}

size_t workload_request_starts(const struct workload *w, size_t *start)
{
    size_t n = 0;

    for (size_t at = 0; at < w->ops; at = workload_request_end(w, at))
        start[n++] = at;
    start[n] = w->ops;
    return n;
}

size_t workload_count(const struct workload *w, enum workload_kind kind, uint64_t *sum_ns)
{
    size_t n = 0;

    *sum_ns = 0;
    for (size_t i = 0; i < w->ops; i++) {
        if (w->op[i].kind != kind)
            continue;
        n++;
        *sum_ns += w->op[i].duration_ns;
    }
    return n;
}

/* ---- the file ------------------------------------------------------------------------------- */

static uint32_t crc_add(uint32_t crc, const void *data, size_t bytes)
{
    static uint32_t table[256];
    const unsigned char *p = data;

    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            table[i] = i;
            for (int bit = 0; bit < 8; bit++)
                table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
        }
    for (; bytes; p++, bytes--)
        crc = crc >> 8 ^ table[(crc ^ *p) & 0xff];
    return crc;
}

static uint32_t file_crc(const struct workload_header *h, const void *names, const void *ops)
{
    struct workload_header clean = *h;
    uint32_t crc = UINT32_MAX;

    clean.crc = 0;
    crc = crc_add(crc, &clean, sizeof(clean));
    crc = crc_add(crc, names, h->name_bytes);
    return ~crc_add(crc, ops, h->ops * sizeof(struct workload_op));
}

/* ---- checks --------------------------------------------------------------------------------- */

static bool zeros(const uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i])
            return false;
    return true;
}

static bool kernel_valid(const struct workload_op *op, uint32_t kernels)
{
    uint32_t threads = (uint32_t)op->block[0] * op->block[1];

    for (int i = 0; i < 3; i++)
        if (op->grid[i] == 0 || op->grid[i] > INT32_MAX || op->block[i] == 0 || op->block[i] > 1024)
            return false;
    return threads <= 1024 && threads * op->block[2] <= 1024 && op->name < kernels &&
           op->bytes == 0 && op->direction == 0;
}

static bool op_valid(const struct workload_op *op, const struct workload_header *h)
{
    static const struct workload_op none;

    if (op->stream >= h->streams || op->duration_ns > WORKLOAD_MOST_OP_NS ||
        op->at_ns > h->total_ns || !zeros(op->zero, sizeof(op->zero)))
        return false;
    if (op->kind == WORKLOAD_KERNEL)
        return kernel_valid(op, h->kernels);
    return (op->kind == WORKLOAD_COPY || op->kind == WORKLOAD_SYNC) &&
           op->direction < WORKLOAD_DIRECTIONS && (op->kind == WORKLOAD_COPY || op->bytes == 0) &&
           op->name == 0 && op->shared == 0 &&
           memcmp(op->grid, none.grid, sizeof(none.grid)) == 0 &&
           memcmp(op->block, none.block, sizeof(none.block)) == 0;
}

static int header_check(const struct workload_header *h, size_t bytes, char *why, size_t why_bytes)
{
    uint64_t expected;

    if (bytes < sizeof(magic) || memcmp(h->magic, magic, sizeof(magic)) != 0)
        return refuse(-EBADMSG, why, why_bytes, "it is not a workload file");
    if (bytes < sizeof(*h))
        return refuse(-EBADMSG, why, why_bytes, "it is truncated: %zu bytes are less than a header",
                      bytes);
    if (h->version != WORKLOAD_VERSION || h->header_bytes != sizeof(*h))
        return refuse(-EPROTONOSUPPORT, why, why_bytes,
                      "it has version %u of the format; this cutin reads version %d", h->version,
                      WORKLOAD_VERSION);
    if (h->kernels > WORKLOAD_MOST_KERNELS || h->streams > WORKLOAD_MOST_STREAMS ||
        h->name_bytes > WORKLOAD_MOST_NAME_BYTES || h->ops > WORKLOAD_MOST_OPS ||
        h->total_ns > WORKLOAD_MOST_NS)
        return refuse(
            -E2BIG, why, why_bytes,
            "it is larger than a workload may be (%u kernels, %u streams, %llu operations)",
            h->kernels, h->streams, (unsigned long long)h->ops);
    expected = sizeof(*h) + h->name_bytes + h->ops * sizeof(struct workload_op);
    if (bytes != expected)
        return refuse(-EBADMSG, why, why_bytes, "it is %s: %zu bytes instead of %llu",
                      bytes < expected ? "truncated" : "longer than it says", bytes,
                      (unsigned long long)expected);
    return zeros(h->zero, sizeof(h->zero)) && h->name_bytes % 8 == 0
               ? 0
               : refuse(-EBADMSG, why, why_bytes, "its header has unknown bytes");
}

static int content_check(const struct workload *w, const struct workload_header *h, char *why,
                         size_t why_bytes)
{
    uint64_t last_ns = 0;

    for (size_t i = 0; i < w->ops; i++) {
        if (!op_valid(&w->op[i], h) || w->op[i].at_ns < last_ns)
            return refuse(-EBADMSG, why, why_bytes, "operation %zu makes no sense", i);
        last_ns = w->op[i].at_ns;
    }
    return 0;
}

/* ---- read ----------------------------------------------------------------------------------- */

static void *copy_of(const void *data, size_t bytes)
{
    void *copy = malloc(bytes ? bytes : 1);

    return copy ? memcpy(copy, data, bytes) : NULL;
}

/* Takes the name of each kernel. After the last name only padding may follow. */
static int names_take(struct workload *w, const struct workload_header *h, const char *names,
                      char *why, size_t why_bytes)
{
    const char *at = names, *end = names + h->name_bytes;

    for (uint32_t i = 0; i < h->kernels; i++) {
        size_t n = strnlen(at, (size_t)(end - at));
        int rc;

        if (at + n == end)
            return refuse(-EBADMSG, why, why_bytes, "the name of kernel %u has no end", i);
        rc = kernel_append(w, at);
        if (rc < 0)
            return refuse(rc, why, why_bytes, "no memory for the name of kernel %u", i);
        at += n + 1;
    }
    return end - at < 8 && zeros((const uint8_t *)at, (size_t)(end - at))
               ? 0
               : refuse(-EBADMSG, why, why_bytes, "there are bytes after the names");
}

int workload_parse(struct workload *w, const void *data, size_t bytes, char *why, size_t why_bytes)
{
    struct workload_header h = {0};
    const char *names = (const char *)data + sizeof(h), *ops;
    int rc;

    *w = (struct workload){0};
    memcpy(&h, data, bytes < sizeof(h) ? bytes : sizeof(h));
    rc = header_check(&h, bytes, why, why_bytes);
    if (rc != 0)
        return rc;
    ops = names + h.name_bytes;
    if (file_crc(&h, names, ops) != h.crc)
        return refuse(-EBADMSG, why, why_bytes, "it is damaged: wrong checksum");
    w->op = copy_of(ops, h.ops * sizeof(*w->op));
    w->streams = h.streams;
    w->ops = w->op_room = h.ops;
    w->total_ns = h.total_ns;
    if (!w->op)
        rc = refuse(-ENOMEM, why, why_bytes, "no memory for %zu bytes", bytes);
    else
        rc = names_take(w, &h, names, why, why_bytes);
    if (rc == 0)
        rc = content_check(w, &h, why, why_bytes);
    if (rc != 0)
        workload_free(w);
    return rc;
}

int workload_read(struct workload *w, const char *path, char *why, size_t why_bytes)
{
    char inner[256] = "";
    struct stat st;
    void *at;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

    *w = (struct workload){0};
    if (fd < 0 || fstat(fd, &st) != 0)
        rc = -errno;
    else if (!S_ISREG(st.st_mode))
        rc = -EBADMSG;
    if (rc == 0 && st.st_size == 0) {
        rc = workload_parse(w, "", 0, inner, sizeof(inner));
    } else if (rc == 0) {
        at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        rc = at == MAP_FAILED ? -errno
                              : workload_parse(w, at, (size_t)st.st_size, inner, sizeof(inner));
        if (at != MAP_FAILED)
            munmap(at, (size_t)st.st_size);
    }
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        return 0;
    return refuse(rc, why, why_bytes, "%s: %s", path,
                  inner[0]         ? inner
                  : rc == -EBADMSG ? "it is not a regular file"
                                   : strerror(-rc));
}

/* ---- write ---------------------------------------------------------------------------------- */

/* Joins the names as in the file. `bytes` gets the length. NULL: no memory. */
static char *names_join(const struct workload *w, size_t *bytes)
{
    char *names, *at;

    *bytes = 0;
    for (uint32_t i = 0; i < w->kernels; i++)
        *bytes += strlen(w->kernel[i]) + 1;
    *bytes = (*bytes + 7) / 8 * 8;
    at = names = calloc(1, *bytes + 1);
    for (uint32_t i = 0; names && i < w->kernels; i++)
        at = stpcpy(at, w->kernel[i]) + 1;
    return names;
}

static bool write_parts(FILE *out, const struct workload *w)
{
    struct workload_header h = {.version = WORKLOAD_VERSION,
                                .header_bytes = sizeof(h),
                                .kernels = w->kernels,
                                .streams = w->streams,
                                .ops = w->ops,
                                .total_ns = w->total_ns};
    size_t bytes;
    char *names = names_join(w, &bytes);
    bool ok = names && bytes <= WORKLOAD_MOST_NAME_BYTES;

    if (names && !ok)
        errno = E2BIG;
    if (ok) {
        memcpy(h.magic, magic, sizeof(magic));
        h.name_bytes = (uint32_t)bytes;
        h.crc = file_crc(&h, names, w->op);
        ok = fwrite(&h, sizeof(h), 1, out) == 1 && fwrite(names, 1, bytes, out) == bytes &&
             (!w->ops || fwrite(w->op, sizeof(*w->op), w->ops, out) == w->ops);
    }
    free(names);
    return ok;
}

int workload_write(const struct workload *w, const char *path, char *why, size_t why_bytes)
{
    struct atomic_file whole;
    int rc = atomic_file_open(&whole, path) && write_parts(whole.out, w) ? 0 : -errno;

    if (whole.out)
        rc = atomic_file_close(&whole, rc);
    return rc == 0 ? 0 : refuse(rc, why, why_bytes, "%s: %s", path, strerror(-rc));
}
