/*
 * attribute.c - libraries set a kernel's attributes before each launch of it.
 */
#include "tests/shim/wrap/rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/shim/wrap/watch.h"

static CUlibrary library;

static void open_library(void)
{
    rig_open();
    char *text = calloc(1, 1 << 20);
    FILE *f = fopen(SOURCE_DIR "/examples/kernels.ptx", "r");
    cr_assert(f && text && fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    free(text);
}

TestSuite(attribute, .init = open_library, .fini = rig_close);

enum { KERNELS = 2, ROUNDS = 100 };

struct user {
    CUstream stream;
    CUkernel kernel[KERNELS];
    CUfunction function[KERNELS]; /* NULL: the kernel itself is launched and set */
    CUdeviceptr x;
};

static struct user open_kernels(bool functions)
{
    static const char *const name[KERNELS] = {"mix", "mix_spin"};
    struct user u = {.stream = rig_stream(), .x = rig_buffer(3)};
    for (int i = 0; i < KERNELS; i++) {
        ok(cuLibraryGetKernel(&u.kernel[i], library, name[i]));
        if (functions)
            ok(cuKernelGetFunction(&u.function[i], u.kernel[i]));
    }
    return u;
}

static void set_and_launch(const struct user *u, int i)
{
    const CUfunction_attribute which = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    uint32_t a = 1, b = 0, n = N;
    uint64_t ns = 1000;
    void *params[] = {(void *)&u->x, &a, &b, &n, &ns};
    CUfunction f = u->function[i] ? u->function[i] : (CUfunction)u->kernel[i];
    if (u->function[i])
        ok(cuFuncSetAttribute(f, which, 1024 * (i + 1)));
    else
        ok(cuKernelSetAttribute(which, 1024 * (i + 1), u->kernel[i], rig_device));
    ok(cuLaunchKernel(f, N / 256, 1, 1, 256, 1, 1, 0, u->stream, params, NULL));
}

static void rounds(void *user)
{
    for (int i = 0; i < ROUNDS; i++)
        set_and_launch(user, i % KERNELS);
}

/* Sets and launches while the stream is held. A call that reached the driver would wait for it. */
static void settle(bool functions)
{
    struct user u = open_kernels(functions);
    struct rig_thread t;
    for (int i = 0; i < 6; i++)
        set_and_launch(&u, i % KERNELS);
    unsigned calls =
        watch_count(WATCH_cuFuncSetAttribute) + watch_count(WATCH_cuKernelSetAttribute);
    ok(cutin_stream_hold(u.stream));
    rig_start(&t, rounds, &u);
    for (int i = rig_patience(); i > 0 && !atomic_load(&t.returned); i--)
        rig_nap();
    bool returned = atomic_load(&t.returned);
    ok(cutin_stream_release(u.stream));
    rig_join(&t);
    ok(cuCtxSynchronize());
    cr_assert(returned, "a launch, or a set, waited for the hold");
    cr_assert_eq(watch_count(WATCH_cuFuncSetAttribute) + watch_count(WATCH_cuKernelSetAttribute),
                 calls);
}

Test(attribute, repeated_set_on_two_kernels_skips_driver)
{
    settle(false);
}

Test(attribute, repeated_set_on_two_functions_skips_driver)
{
    settle(true);
}
