/*
 * simgpu_runtime.c - the tables for the CUDA runtime: which there are, storage in contexts with its
 * destructors, the digest under the validity check.
 */
#include "tools/simgpu/runtime/md2.h"

#include <criterion/criterion.h>
#include <cuda.h>
#include <stdio.h>
#include <string.h>

static const CUuuid storage_id = {
    "\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93"};
static const CUuuid interface_id = {
    "\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9"};

typedef void destructor(CUcontext, void *, void *);
struct storage {
    CUresult (*put)(CUcontext, void *, void *, destructor *);
    CUresult (*forget)(CUcontext, void *);
    CUresult (*get)(void **, CUcontext, void *);
};

static const struct storage *storage;
static CUcontext ctx;

static void open_driver(void)
{
    const void *table;
    cr_assert_eq(cuInit(0), CUDA_SUCCESS);
    cr_assert_eq(cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_SUCCESS);
    cr_assert_eq(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
    cr_assert_eq(cuGetExportTable(&table, &storage_id), CUDA_SUCCESS);
    storage = table;
}

TestSuite(runtime, .init = open_driver);

Test(runtime, unknown_table_is_an_error)
{
    static const CUuuid nobody = {"nobody's table!"};
    const void *table = &nobody;
    cr_expect_eq(cuGetExportTable(&table, &nobody), CUDA_ERROR_NOT_FOUND);
    cr_expect_null(table);
}

Test(runtime, table_begins_with_its_size)
{
    const void *table;
    cr_assert_eq(cuGetExportTable(&table, &interface_id), CUDA_SUCCESS);
    cr_expect_eq(*(const size_t *)table, 13 * sizeof(void *));
}

/* A runtime wants the handle before it decides to make the context active. */
Test(runtime, primary_context_is_named_without_becoming_active)
{
    typedef CUresult primary(CUcontext *, CUdevice);
    const void *table;
    CUcontext named = NULL;
    unsigned int flags;
    int active = 1;
    cuDevicePrimaryCtxRelease(0);
    cr_assert_eq(cuGetExportTable(&table, &interface_id), CUDA_SUCCESS);
    cr_expect_eq(((primary *const *)table)[2](&named, 0), CUDA_SUCCESS);
    cr_expect_eq(named, ctx);
    cr_expect_eq(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    cr_expect_eq(active, 0);
    cr_expect_eq(((primary *const *)table)[2](&named, 99), CUDA_ERROR_INVALID_DEVICE);
}

/* Success without a value is what a runtime dies of. */
Test(runtime, storage_without_a_value_is_an_error)
{
    int key;
    void *value = &key;
    cr_expect_eq(storage->get(&value, ctx, &key), CUDA_ERROR_INVALID_HANDLE);
    cr_expect_eq(value, &key);
}

Test(runtime, storage_is_kept_by_context_and_key)
{
    int keys[2], values[3];
    void *value = NULL;
    CUcontext other;
    cr_assert_eq(cuCtxCreate(&other, NULL, 0, 0), CUDA_SUCCESS);
    cr_expect_eq(storage->put(ctx, &keys[0], &values[0], NULL), CUDA_SUCCESS);
    cr_expect_eq(storage->put(ctx, &keys[1], &values[1], NULL), CUDA_SUCCESS);
    cr_expect_eq(storage->put(NULL, &keys[0], &values[2], NULL),
                 CUDA_SUCCESS); /* the current one */
    cr_expect_eq(storage->get(&value, ctx, &keys[0]), CUDA_SUCCESS);
    cr_expect_eq(value, &values[0]);
    cr_expect_eq(storage->get(&value, other, &keys[0]), CUDA_SUCCESS);
    cr_expect_eq(value, &values[2]);
    cr_expect_eq(storage->forget(ctx, &keys[0]), CUDA_SUCCESS);
    cr_expect_eq(storage->get(&value, ctx, &keys[0]), CUDA_ERROR_INVALID_HANDLE);
    cr_expect_eq(storage->get(&value, ctx, &keys[1]), CUDA_SUCCESS);
    cr_expect_eq(storage->put((CUcontext)&value, &keys[0], &values[0], NULL),
                 CUDA_ERROR_INVALID_CONTEXT);
}

static int ended;
static CUcontext ended_in;

static void count_end(CUcontext c, void *key, void *value)
{
    ended += *(int *)value;
    ended_in = c;
}

Test(runtime, destructors_run_once_at_the_end_of_the_context)
{
    int keys[2], one = 1, ten = 10;
    storage->put(ctx, &keys[0], &one, count_end);
    storage->put(ctx, &keys[1], &ten, count_end);
    cr_expect_eq(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    cr_expect_eq(ended, 11);
    cr_expect_eq(ended_in, ctx);
    cr_expect_eq(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    cr_expect_eq(ended, 11);
}

static void hex(const uint8_t *digest, char text[33])
{
    for (int i = 0; i < MD2_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

/* The vectors of RFC 1319. */
Test(md2, digests_are_those_of_the_rfc)
{
    static const char *const rows[][2] = {
        {"", "8350e5a3e24c153df2275c9f80692773"},
        {"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
        {"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
        {"123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "90",
         "d5976f79d83d3a0dc9806c3c66f3efd8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct md2 m;
        uint8_t digest[MD2_BYTES];
        char text[33];
        md2_begin(&m);
        md2_add(&m, rows[i][0], strlen(rows[i][0]));
        md2_end(&m, digest);
        hex(digest, text);
        cr_expect_str_eq(text, rows[i][1], "\"%s\": %s", rows[i][0], text);
    }
}
