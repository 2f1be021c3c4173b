/*
 * export_table.c - the tables by UUID, and the functions in their slots.
 *
 * NVIDIA documents none of them. They do what public descriptions say (ZLUDA's `dark_api`, Lupine)
 * and what runtimes from 11.8 on were seen to need. A slot that was never seen called answers
 * CUDA_ERROR_NOT_SUPPORTED.
 */
#include "tools/simgpu/runtime/export_table.h"
#include "tools/simgpu/device/attribute.h"
#include "tools/simgpu/runtime/storage.h"
#include "tools/simgpu/runtime/validity.h"
#include "tools/simgpu/face/simconfig.h"

#include <unistd.h>

static CUresult refuse(void)
{
    return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult agree(void)
{
    return CUDA_SUCCESS;
}

/* ---- the runtime's interface ----------------------------------------------------------------- */

/* Gives only the handle. A context that is not active stays so. */
static CUresult primary_context(CUcontext *out, CUdevice dev)
{
    return out ? context_primary(dev, out) : CUDA_ERROR_INVALID_VALUE;
}

/* 11.8. Its further arguments were zero whenever it was seen. */
static CUresult module_load_more(CUmodule *out, const void *fat_binary, void *a, void *b,
                                 unsigned int c)
{
    return !a && !b && c == 0 ? cuModuleLoadData(out, fat_binary) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult module_load_header(const void *fat_binary, CUmodule *out, void *a, void *b,
                                   unsigned int c)
{
    return module_load_more(out, fat_binary, a, b, c);
}

/* ---- hooks of tools: there is no tool, so the arrays stay zero ------------------------------- */

static uint32_t callbacks[1024], more_callbacks[14];

static void callbacks_get(void **out, size_t *count)
{
    *out = callbacks;
    *count = sizeof(callbacks) / sizeof(*callbacks);
}

static void more_callbacks_get(void **out, size_t *count)
{
    *out = more_callbacks;
    *count = sizeof(more_callbacks) / sizeof(*more_callbacks);
}

/* ---- modules --------------------------------------------------------------------------------- */

typedef void function_visitor(void *user, CUfunction function, CUmodule owner);

CUresult cuModuleGetFunctionCount(unsigned int *out, CUmodule handle);
CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned int count, CUmodule handle);

/* By this cuFFT finds the one kernel of each of its modules. It takes 0 for a failure, so the
 * answer is not a CUresult. */
static int module_walk(CUcontext ctx, CUmodule module, function_visitor *visit, void *user)
{
    unsigned int count = 0;
    if (!visit || cuModuleGetFunctionCount(&count, module) != CUDA_SUCCESS || count == 0)
        return 0;
    CUfunction *functions = calloc(count, sizeof(CUfunction));
    if (!functions)
        return 0;
    int whole = cuModuleEnumerateFunctions(functions, count, module) == CUDA_SUCCESS;
    for (unsigned int i = 0; whole && i < count; i++)
        visit(user, functions[i], module);
    free(functions);
    return whole;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static CUresult context_check(CUcontext ctx, uint32_t *flags, const void **more)
{
    *flags = 0;
    return CUDA_SUCCESS;
}

static CUresult validity(uint32_t version, uint64_t unix_seconds, uint64_t answer[2]);

/* ---- tables ---------------------------------------------------------------------------------- */

#define REFUSE_3  (const void *)refuse, (const void *)refuse, (const void *)refuse
#define REFUSE_10 REFUSE_3, REFUSE_3, REFUSE_3, (const void *)refuse
#define AGREE_3   (const void *)agree, (const void *)agree, (const void *)agree
#define AGREE_10  AGREE_3, AGREE_3, AGREE_3, (const void *)agree
/* Slot 0 of most tables. */
#define BYTES(slots) (const void *)((slots) * sizeof(void *))

static const void *const runtime_interface[13] = {
    BYTES(13),          cuModuleLoadData, primary_context,
    REFUSE_3,           module_load_more, agree, /* 11.8, after the module */
    module_load_header, REFUSE_3,         agree, /* 13.2: load the compilers */
};
static const void *const tool_hooks[7] = {
    BYTES(7), refuse, callbacks_get, REFUSE_3, more_callbacks_get,
};
static const void *const tool_thread[4] = {BYTES(4), refuse, agree, refuse};
static const void *const context_storage[4] = {storage_put, storage_delete, storage_get, refuse};
static const void *const context_checks[4] = {BYTES(4), refuse, context_check, agree};
static const void *const validity_table[3] = {BYTES(3), validity, refuse};
/* cuBLAS and cuDNN call slot 4. Statically linked runtimes from 13.4 on call others. */
static const void *const tool_context[94] = {
    BYTES(94), AGREE_10, AGREE_10, AGREE_10, AGREE_10, AGREE_10,
    AGREE_10,  AGREE_10, AGREE_10, AGREE_10, AGREE_3,
};

/* CUPTI registers its callbacks in slot 67. If that is refused it tries again and again until the
 * stack overflows. The callbacks are never called: a profiler sees no work of this driver. */
static const void *const profiler[94] = {
    BYTES(94), REFUSE_10, REFUSE_10, REFUSE_10, REFUSE_10, REFUSE_10, REFUSE_10,
    REFUSE_3,  REFUSE_3,  agree,     REFUSE_10, REFUSE_10, REFUSE_3,  REFUSE_3,
};

static const void *const tool_module[56] = {
    BYTES(56), REFUSE_3,  REFUSE_3, module_walk, REFUSE_10, REFUSE_10,
    REFUSE_10, REFUSE_10, REFUSE_3, REFUSE_3,    refuse,    refuse,
};

static const struct table {
    CUuuid id;
    const void *const *slots;
} tables[] = {
    {UUID_RUNTIME_INTERFACE, runtime_interface},
    {{"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66"}, tool_hooks},
    {{"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc"}, tool_thread},
    {{"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93"}, context_storage},
    {{"\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e"}, context_checks},
    {{"\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2"}, validity_table},
    {{"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2"}, tool_context},
    {{"\x7c\xb6\x3f\x9b\x9c\xa4\x8e\x42\xa4\x84\xbe\xb6\x6e\x6a\xed\x7f"}, profiler},
    {{"\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e"}, tool_module},
};

static CUresult validity(uint32_t version, uint64_t unix_seconds, uint64_t answer[2])
{
    enum { DEVICES_MAX = 8 };
    struct validity_device devices[DEVICES_MAX];
    struct validity_question question = {
        .driver_version = (uint32_t)config_get()->driver_version,
        .version = version,
        .pid = (uint32_t)getpid(),
        .thread = (uint32_t)pthread_self(),
        .runtime_interface = runtime_interface,
        .validity_table = validity_table,
        .function = validity,
        .unix_seconds = unix_seconds,
    };
    int count = config_get()->devices;
    for (int i = 0; i < count; i++) {
        struct validity_device *d = &devices[i];
        cuDeviceGetUuid_v2((CUuuid *)d->uuid, i);
        d->pci_domain = attribute_or_zero(i, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
        d->pci_bus = attribute_or_zero(i, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
        d->pci_device = attribute_or_zero(i, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
    }
    validity_answer(&question, devices, count, answer);
    return CUDA_SUCCESS;
}

const void *export_table_find(const CUuuid *id)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        if (memcmp(&tables[i].id, id, sizeof(*id)) == 0)
            return tables[i].slots;
    return NULL;
}
