/*
 * workload.c - a workload file is read as it was written, or it is refused.
 */
#include "tools/lab/record/workload.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/cutin-workload.XXXXXX", path[64], why[256];

static void enter(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/w.cutw", folder);
}

static void leave(void)
{
    unlink(path);
    cr_expect_eq(rmdir(folder), 0, "something was left in %s", folder);
}

TestSuite(workload, .init = enter, .fini = leave);

static void add(struct workload *w, const struct workload_op *op)
{
    cr_assert_eq(workload_add(w, op), 0);
}

/* Two requests: copy, kernel, kernel, sync; kernel on another stream, sync, sync. */
static struct workload sample(void)
{
    struct workload w = {0};
    struct workload_op copy = {.kind = WORKLOAD_COPY, .bytes = 4096, .duration_ns = 2100};
    struct workload_op sync = {.kind = WORKLOAD_SYNC, .duration_ns = 30000};
    struct workload_op kernel = {.kind = WORKLOAD_KERNEL,
                                 .grid = {27, 2, 1},
                                 .block = {256, 1, 1},
                                 .shared = 1024,
                                 .duration_ns = 12345};

    add(&w, &copy);
    kernel.name = (uint32_t)workload_kernel(&w, "gemm");
    kernel.at_ns = 2000;
    add(&w, &kernel);
    kernel.name = (uint32_t)workload_kernel(&w, "relu");
    kernel.at_ns = 4000;
    add(&w, &kernel);
    sync.at_ns = 5000;
    add(&w, &sync);
    kernel.stream = 1;
    kernel.at_ns = 90000;
    add(&w, &kernel);
    sync.at_ns = 91000;
    add(&w, &sync);
    sync.at_ns = 121000;
    add(&w, &sync);
    return w;
}

static void *bytes_of(size_t *n)
{
    struct workload w = sample();
    FILE *f;
    void *data;

    cr_assert_eq(workload_write(&w, path, why, sizeof(why)), 0, "%s", why);
    workload_free(&w);
    f = fopen(path, "r");
    cr_assert_not_null(f);
    data = malloc(65536);
    *n = fread(data, 1, 65536, f);
    fclose(f);
    return data;
}

Test(workload, written_workload_is_read_back)
{
    struct workload w = sample(), r;

    cr_assert_eq(workload_write(&w, path, why, sizeof(why)), 0, "%s", why);
    cr_assert_eq(workload_read(&r, path, why, sizeof(why)), 0, "%s", why);
    cr_expect_eq(r.kernels, 2);
    cr_expect_eq(r.streams, 2);
    cr_expect_eq(r.ops, 7);
    cr_expect_eq(r.total_ns, 151000);
    cr_expect_str_eq(r.kernel[1], "relu");
    cr_expect_eq(memcmp(r.op, w.op, w.ops * sizeof(*w.op)), 0);
    workload_free(&r);
    workload_free(&w);
}

Test(workload, requests_end_with_their_syncs)
{
    struct workload w = sample();
    uint64_t ns;

    cr_expect_eq(workload_request_end(&w, 0), 4);
    cr_expect_eq(workload_request_end(&w, 4), 7);
    cr_expect_eq(workload_request_end(&w, 7), 7);
    cr_expect_eq(workload_count(&w, WORKLOAD_KERNEL, &ns), 3);
    cr_expect_eq(ns, 3 * 12345);
    workload_free(&w);
}

Test(workload, long_kernel_name_is_stored_once)
{
    struct workload w = {0}, r;
    char name[3000];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    cr_expect_eq(workload_kernel(&w, name), 0);
    cr_expect_eq(workload_kernel(&w, "y"), 1);
    cr_expect_eq(workload_kernel(&w, name), 0);
    cr_expect_str_eq(w.kernel[0], name);
    cr_assert_eq(workload_write(&w, path, why, sizeof(why)), 0, "%s", why);
    cr_assert_eq(workload_read(&r, path, why, sizeof(why)), 0, "%s", why);
    cr_expect_eq(r.kernels, 2);
    cr_expect_str_eq(r.kernel[0], name);
    cr_expect_str_eq(r.kernel[1], "y");
    workload_free(&r);
    workload_free(&w);
}

Test(workload, empty_workload_is_read_back)
{
    struct workload w = {0}, r;

    cr_assert_eq(workload_write(&w, path, why, sizeof(why)), 0, "%s", why);
    cr_assert_eq(workload_read(&r, path, why, sizeof(why)), 0, "%s", why);
    cr_expect_eq(r.ops, 0);
    workload_free(&r);
}

static void refused(const void *data, size_t n, int rc, const char *word)
{
    struct workload w;

    why[0] = '\0';
    cr_expect_eq(workload_parse(&w, data, n, why, sizeof(why)), rc, "%zu bytes: %s", n, why);
    cr_expect_not_null(strstr(why, word), "no %s in: %s", word, why);
    cr_expect_null(w.op);
}

Test(workload, truncated_or_overlong_file_is_refused)
{
    size_t n;
    char *data = bytes_of(&n);

    for (size_t i = 0; i < n; i++)
        refused(data, i, -EBADMSG, i < 8 ? "not a workload" : "truncated");
    data[n] = 0;
    refused(data, n + 1, -EBADMSG, "longer");
    free(data);
}

/* CRC-32 finds every burst of up to 32 bits: any changed byte is noticed, wherever it is. */
Test(workload, any_changed_byte_is_noticed)
{
    struct workload w;
    size_t n;
    unsigned char *data = (unsigned char *)bytes_of(&n);

    for (size_t i = 0; i < n; i++)
        for (int by = 1; by < 256; by += 51) {
            data[i] ^= (unsigned char)by;
            why[0] = '\0';
            cr_expect_lt(workload_parse(&w, data, n, why, sizeof(why)), 0, "byte %zu ^ %d", i, by);
            cr_expect(why[0] != '\0' && !strchr(why, '\n'));
            data[i] ^= (unsigned char)by;
        }
    cr_expect_eq(workload_parse(&w, data, n, why, sizeof(why)), 0, "%s", why);
    workload_free(&w);
    free(data);
}

Test(workload, other_versions_and_other_files_are_refused)
{
    size_t n;
    char *data = bytes_of(&n);
    struct workload_header h;
    struct workload w;

    memcpy(&h, data, sizeof(h));
    h.version = WORKLOAD_VERSION - 1;
    memcpy(data, &h, sizeof(h));
    refused(data, n, -EPROTONOSUPPORT, "version 1");
    h.version = WORKLOAD_VERSION;
    h.ops = UINT64_MAX / 64;
    memcpy(data, &h, sizeof(h));
    refused(data, n, -E2BIG, "larger");
    refused("\177ELF\2\1\1\0\0\0\0\0\0\0\0\0", 16, -EBADMSG, "not a workload");
    free(data);
    cr_expect_eq(workload_read(&w, folder, why, sizeof(why)), -EBADMSG);
    cr_expect_eq(workload_read(&w, "/no/such/file", why, sizeof(why)), -ENOENT);
    cr_expect_not_null(strstr(why, "/no/such/file"));
}

/* A faulty program wrote this with a right checksum. */
static void senseless(void (*spoil)(struct workload *))
{
    struct workload w = sample(), r;

    spoil(&w);
    cr_assert_eq(workload_write(&w, path, why, sizeof(why)), 0, "%s", why);
    cr_expect_eq(workload_read(&r, path, why, sizeof(why)), -EBADMSG);
    cr_expect_not_null(strstr(why, "no sense"), "%s", why);
    workload_free(&w);
}

static void spoil_kind(struct workload *w)
{
    w->op[1].kind = 9;
}
static void spoil_name(struct workload *w)
{
    w->op[1].name = 2;
}
static void spoil_grid(struct workload *w)
{
    w->op[1].grid[2] = 0;
}
static void spoil_block(struct workload *w)
{
    w->op[1].block[1] = 5;
}
static void spoil_order(struct workload *w)
{
    w->op[1].at_ns = 5001;
}
static void spoil_stream(struct workload *w)
{
    w->op[1].stream = 2;
}
static void spoil_duration(struct workload *w)
{
    w->op[1].duration_ns = WORKLOAD_MOST_OP_NS + 1;
}
Test(workload, invalid_operations_are_refused)
{
    senseless(spoil_kind);
    senseless(spoil_name);
    senseless(spoil_grid);
    senseless(spoil_block);
    senseless(spoil_order);
    senseless(spoil_stream);
    senseless(spoil_duration);
}

/* CRC-32 (IEEE 802.3), bit by bit. */
static uint32_t crc_of(const unsigned char *data, size_t n)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* The names are "gemm", "relu" and 6 bytes of padding. Changes one byte and makes the checksum
 * right. */
static void names_refused(size_t at, char change, const char *word)
{
    struct workload_header h;
    size_t n;
    char *data = bytes_of(&n);

    data[sizeof(h) + at] = change;
    memcpy(&h, data, sizeof(h));
    cr_assert_eq(h.name_bytes, 16);
    h.crc = 0;
    memcpy(data, &h, sizeof(h));
    h.crc = crc_of((unsigned char *)data, n);
    memcpy(data, &h, sizeof(h));
    refused(data, n, -EBADMSG, word);
    free(data);
}

Test(workload, bytes_behind_the_names_are_refused)
{
    names_refused(15, 'x', "after the names");
    names_refused(10, 'x', "after the names");
}

Test(workload, a_name_without_an_end_is_refused)
{
    struct workload_header h;
    size_t n;
    char *data = bytes_of(&n);

    memset(data + sizeof(h) + 5, 'x', 11);
    memcpy(&h, data, sizeof(h));
    h.crc = 0;
    memcpy(data, &h, sizeof(h));
    h.crc = crc_of((unsigned char *)data, n);
    memcpy(data, &h, sizeof(h));
    refused(data, n, -EBADMSG, "no end");
    free(data);
}

/* Any bytes are read or refused, and what was read keeps its bounds. */
Test(workload, random_mutations_never_break_the_reader)
{
    uint64_t state = 42;
    size_t n;
    unsigned char *good = bytes_of(&n), *bad = malloc(n);

    for (int round = 0; round < 20000; round++) {
        struct workload w;
        size_t cut;

        memcpy(bad, good, n);
        for (int k = 0; k < 1 + round % 4; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            bad[(state >> 33) % n] = (unsigned char)(state >> 20);
        }
        cut = round % 3 ? n : (size_t)(state >> 40) % n;
        if (workload_parse(&w, bad, cut, why, sizeof(why)) == 0) {
            cr_expect_eq(memcmp(bad, good, n), 0, "a changed file was taken for a good one");
            workload_free(&w);
        }
    }
    free(bad);
    free(good);
}
