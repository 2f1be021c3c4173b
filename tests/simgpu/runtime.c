/*
 * runtime.c - the tables for the CUDA runtime: which ones exist, walks over modules, registration
 * of CUPTI, storage in contexts with its destructors, the digest of the validity check.
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

Test(runtime, unknown_export_table_is_not_found)
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

static const void *const *table_of(const char *id)
{
    const void *table = NULL;
    CUuuid uuid;
    memcpy(uuid.bytes, id, sizeof(uuid.bytes));
    cr_assert_eq(cuGetExportTable(&table, &uuid), CUDA_SUCCESS);
    return table;
}

CUresult cuFuncGetName(const char **name, CUfunction f);

struct visit {
    CUmodule module;
    unsigned int count;
    char names[64];
};

static void note_name(void *user, CUfunction f, CUmodule owner)
{
    struct visit *v = user;
    const char *name = NULL;
    cr_expect_eq(owner, v->module);
    cr_expect_eq(cuFuncGetName(&name, f), CUDA_SUCCESS);
    strncat(v->names, name, sizeof(v->names) - strlen(v->names) - 1);
    v->count++;
}

/* cuFFT finds the kernels that it launches in no other way, and takes 0 for a failure. */
Test(runtime, walk_visits_every_function_of_a_module)
{
    typedef void visitor(void *, CUfunction, CUmodule);
    typedef int walk(CUcontext, CUmodule, visitor *, void *);
    static const char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry one()\n{\nret;\n}\n"
                              ".visible .entry two()\n{\nret;\n}\n";
    const void *const *table =
        table_of("\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e");
    struct visit v = {.names = ""};
    cr_expect_geq((size_t)table[0], 8 * sizeof(void *));
    cr_assert_eq(cuModuleLoadData(&v.module, ptx), CUDA_SUCCESS);
    cr_expect_neq(((walk *)table[7])(ctx, v.module, note_name, &v), 0);
    cr_expect_eq(v.count, 2);
    cr_expect_str_eq(v.names, "onetwo");
    cr_expect_eq(((walk *)table[7])(ctx, (CUmodule)&v, note_name, &v), 0);
    cr_expect_eq(v.count, 2);
}

/* If refused, CUPTI asks again until its stack overflows. Its other functions are not there. */
Test(runtime, profiler_registration_is_accepted)
{
    typedef CUresult enroll(void **, const void *, unsigned int, unsigned int);
    static const void *const callbacks[213];
    const void *const *table =
        table_of("\x7c\xb6\x3f\x9b\x9c\xa4\x8e\x42\xa4\x84\xbe\xb6\x6e\x6a\xed\x7f");
    void *enrolled = NULL;
    cr_expect_eq((size_t)table[0], 94 * sizeof(void *));
    cr_expect_eq(((enroll *)table[67])(&enrolled, callbacks, 8, 213), CUDA_SUCCESS);
    cr_expect_null(enrolled);
    for (int slot = 1; slot < 94; slot++)
        cr_expect_eq(table[slot] == table[67], slot == 67);
}

/* A runtime wants the handle before it decides to make the context active. */
Test(runtime, primary_context_handle_does_not_activate_it)
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

/* A runtime crashes if the call succeeds without a value. */
Test(runtime, missing_storage_value_is_an_error)
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
                 CUDA_SUCCESS); /* the current context */
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

Test(runtime, context_end_runs_storage_destructors_once)
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

/* The test vectors of RFC 1319. */
Test(md2, digests_match_rfc_1319)
{
    static const char *const rows[][2] = {
        {"", "8350e5a3e24c153df2275c9f80692773"},
        {"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
        {"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
        {"123456789012345678901234567890123456789012345678901234567890123456789012345678"
         "90",
         "d5976f79d83d3a0dc9806c3c66f3efd8"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
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
