/*
 * nvml.c - libnvidia-ml.so.1 of the simulated devices: what frameworks, NCCL and tools like
 * nvidia-smi ask of NVML. Identities are those of the simulated driver. Memory, processes, and
 * whether something runs come from the file that the processes share, which is only read.
 */
#include "tools/simgpu/nvml/nvml.h"
#include "tools/simgpu/device/attribute.h"
#include "tools/simgpu/device/shared.h"
#include "tools/simgpu/face/simconfig.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRIVER_TEXT "580.65.06"

static _Atomic int users; /* calls of nvmlInit less those of nvmlShutdown */

/* A handle is the ordinal plus one, as a pointer. */
static int ordinal_of(nvmlDevice_t device)
{
    uintptr_t n = (uintptr_t)device;
    return n >= 1 && n <= (uintptr_t)config_get()->devices ? (int)n - 1 : -1;
}

static nvmlDevice_t handle_of(unsigned int ordinal)
{
    return (nvmlDevice_t)((uintptr_t)ordinal + 1);
}

#define ENTER                                                                                      \
    do {                                                                                           \
        if (atomic_load(&users) == 0)                                                              \
            return NVML_ERROR_UNINITIALIZED;                                                       \
    } while (0)
#define ENTER_DEVICE(device, good)                                                                 \
    do {                                                                                           \
        ENTER;                                                                                     \
        if (ordinal_of(device) < 0 || !(good))                                                     \
            return NVML_ERROR_INVALID_ARGUMENT;                                                    \
    } while (0)

static nvmlReturn_t text_give(char *out, unsigned int room, const char *text)
{
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

/* ---- the shared file ------------------------------------------------------------------------- */

/* Maps the file for a look at it. NULL: no process has the devices open. */
static const struct device_shared *shared_map(void)
{
    char name[96];
    struct stat st;
    snprintf(name, sizeof(name), "/simgpu-%u-%s", (unsigned int)getuid(), config_get()->id);
    int fd = shm_open(name, O_RDONLY, 0);
    if (fd < 0)
        return NULL;
    void *map = MAP_FAILED;
    if (fstat(fd, &st) == 0 && (size_t)st.st_size >= sizeof(struct device_shared))
        map = mmap(NULL, sizeof(struct device_shared), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    return map != MAP_FAILED ? map : NULL;
}

static void shared_unmap(const struct device_shared *sh)
{
    if (sh)
        munmap((void *)(uintptr_t)sh, sizeof(*sh));
}

/* ---- life and the system --------------------------------------------------------------------- */

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    atomic_fetch_add(&users, 1);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}
NVML_ALIAS(nvmlInit, nvmlInit_v2)

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
    int n = atomic_load(&users);
    do {
        if (n == 0)
            return NVML_ERROR_UNINITIALIZED;
    } while (!atomic_compare_exchange_weak(&users, &n, n - 1));
    return NVML_SUCCESS;
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t error)
{
    static const char *const texts[] = {
        [NVML_SUCCESS] = "Success",
        [NVML_ERROR_UNINITIALIZED] = "Uninitialized",
        [NVML_ERROR_INVALID_ARGUMENT] = "Invalid Argument",
        [NVML_ERROR_NOT_SUPPORTED] = "Not Supported",
        [NVML_ERROR_NOT_FOUND] = "Not Found",
        [NVML_ERROR_INSUFFICIENT_SIZE] = "Insufficient Size",
        [NVML_ERROR_ARGUMENT_VERSION_MISMATCH] = "Argument Version Mismatch",
    };
    bool known = (unsigned int)error < sizeof(texts) / sizeof(*texts) && texts[error];
    return known ? texts[error] : "Unknown Error";
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int room)
{
    ENTER;
    return text_give(out, room, DRIVER_TEXT);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned int room)
{
    char text[64];
    ENTER;
    snprintf(text, sizeof(text), "%d.%s", config_get()->driver_version / 1000, DRIVER_TEXT);
    return text_give(out, room, text);
}

/* Neither form needs nvmlInit. */
NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out)
{
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = config_get()->driver_version;
    return NVML_SUCCESS;
}
NVML_ALIAS(nvmlSystemGetCudaDriverVersion_v2, nvmlSystemGetCudaDriverVersion)

NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *out, unsigned int room)
{
    char path[32], name[64] = "";
    ENTER;
    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NVML_ERROR_NOT_FOUND;
    ssize_t n = read(fd, name, sizeof(name) - 1);
    close(fd);
    if (n > 0)
        name[strcspn(name, "\n")] = '\0';
    return text_give(out, room, name);
}

/* ---- which devices --------------------------------------------------------------------------- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out)
{
    ENTER;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = (unsigned int)config_get()->devices;
    return NVML_SUCCESS;
}
NVML_ALIAS(nvmlDeviceGetCount, nvmlDeviceGetCount_v2)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out)
{
    ENTER;
    if (!out || index >= (unsigned int)config_get()->devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = handle_of(index);
    return NVML_SUCCESS;
}
NVML_ALIAS(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int room)
{
    ENTER_DEVICE(device, out);
    return text_give(out, room, DEVICE_NAME);
}

static void uuid_text(int ordinal, char text[64])
{
    uint8_t b[16];
    attribute_uuid(ordinal, b);
    snprintf(text, 64, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int room)
{
    char text[64];
    ENTER_DEVICE(device, out);
    uuid_text(ordinal_of(device), text);
    return text_give(out, room, text);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    char text[64];
    ENTER;
    if (!uuid || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < config_get()->devices; i++) {
        uuid_text(i, text);
        if (strcasecmp(text, uuid) == 0) {
            *out = handle_of((unsigned int)i);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

/* What _v2 and the first form share with _v3. */
static void pci_fill(int ordinal, nvmlPciInfo_t *p)
{
    enum { PCI_DEVICE_ID = 139, PCI_SUBSYSTEM_ID = 140 };
    p->domain = 0;
    p->bus = (unsigned int)attribute_or_zero(ordinal, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
    p->device = 0;
    p->pciDeviceId = (unsigned int)attribute_or_zero(ordinal, PCI_DEVICE_ID);
    p->pciSubSystemId = (unsigned int)attribute_or_zero(ordinal, PCI_SUBSYSTEM_ID);
    snprintf(p->busIdLegacy, sizeof(p->busIdLegacy), "0000:%02X:00.0", p->bus & 0xff);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *p)
{
    ENTER_DEVICE(device, p);
    pci_fill(ordinal_of(device), p);
    snprintf(p->busId, sizeof(p->busId), "00000000:%02X:00.0", p->bus & 0xff);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *p)
{
    ENTER_DEVICE(device, p);
    pci_fill(ordinal_of(device), p);
    memset(p->busId, 0, 4 * sizeof(unsigned int));
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *text, nvmlDevice_t *out)
{
    unsigned int domain, bus, device;
    ENTER;
    if (!text || !out || sscanf(text, "%x:%x:%x", &domain, &bus, &device) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (domain != 0 || device != 0 || bus == 0 || bus > (unsigned int)config_get()->devices)
        return NVML_ERROR_NOT_FOUND;
    *out = handle_of(bus - 1);
    return NVML_SUCCESS;
}
NVML_ALIAS(nvmlDeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2)

/* ---- what they are --------------------------------------------------------------------------- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major,
                                                            int *minor)
{
    ENTER_DEVICE(device, major && minor);
    *major = (int)simconfig_compute()->arch / 10;
    *minor = (int)simconfig_compute()->arch % 10;
    return NVML_SUCCESS;
}

/* A call whose answer is one number that never changes. */
#define CONSTANT(name, value)                                                                      \
    NVML_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned int *out)                          \
    {                                                                                              \
        ENTER_DEVICE(device, out);                                                                 \
        *out = (value);                                                                            \
        return NVML_SUCCESS;                                                                       \
    }
CONSTANT(nvmlDeviceGetArchitecture, 7) /* Ampere */
CONSTANT(nvmlDeviceGetBrand, 14)       /* NVIDIA */
CONSTANT(nvmlDeviceGetComputeMode, 0)
CONSTANT(nvmlDeviceGetPersistenceMode, 1)
CONSTANT(nvmlDeviceGetDisplayMode, 0)
CONSTANT(nvmlDeviceGetDisplayActive, 0)
CONSTANT(nvmlDeviceGetMultiGpuBoard, 0)
CONSTANT(nvmlDeviceGetPerformanceState, 0)
CONSTANT(nvmlDeviceGetMaxPcieLinkGeneration, 4)
CONSTANT(nvmlDeviceGetCurrPcieLinkGeneration, 4)
CONSTANT(nvmlDeviceGetMaxPcieLinkWidth, 16)
CONSTANT(nvmlDeviceGetCurrPcieLinkWidth, 16)
CONSTANT(nvmlDeviceGetMemoryBusWidth, 5120)
CONSTANT(nvmlDeviceGetPowerManagementLimit, 250000) /* mW */
CONSTANT(nvmlDeviceGetEnforcedPowerLimit, 250000)
CONSTANT(nvmlDeviceGetPowerManagementDefaultLimit, 250000)
CONSTANT(nvmlDeviceIsMigDeviceHandle, 0)
CONSTANT(nvmlDeviceGetNumGpuCores, (unsigned int)config_get()->sms * 64)
CONSTANT(nvmlDeviceGetIndex, (unsigned int)ordinal_of(device))
NVML_ALIAS(nvmlDeviceGetMinorNumber, nvmlDeviceGetIndex)

/* In MHz, of graphics, SM, memory and video. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type,
                                                unsigned int *out)
{
    enum { MEMORY = 2, LAST = 3, KHZ = 1000 };
    ENTER_DEVICE(device, out && type <= LAST);
    *out = (unsigned int)attribute_or_zero(0, type == MEMORY ? CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE
                                                             : CU_DEVICE_ATTRIBUTE_CLOCK_RATE) /
           KHZ;
    return NVML_SUCCESS;
}
NVML_ALIAS(nvmlDeviceGetMaxClockInfo, nvmlDeviceGetClockInfo)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
                                                             unsigned int *out)
{
    enum { INTERNAL = 0, SYSTEM = 50 };
    ENTER_DEVICE(a, out && ordinal_of(b) >= 0);
    *out = a == b ? INTERNAL : SYSTEM;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t a, nvmlDevice_t b, unsigned int which,
                                                unsigned int *out)
{
    enum { OK = 0, STATUS_NOT_SUPPORTED = 5, READ = 0, WRITE = 1 };
    ENTER_DEVICE(a, out && ordinal_of(b) >= 0);
    bool peers = config_get()->peers && (which == READ || which == WRITE);
    *out = a == b || peers ? OK : STATUS_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* No field is known. Each says so in its own result, at which callers look. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                  nvmlFieldValue_t *values)
{
    ENTER_DEVICE(device, values);
    for (int i = 0; i < count; i++)
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* ---- what they do ---------------------------------------------------------------------------- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *m)
{
    ENTER_DEVICE(device, m);
    const struct device_shared *sh = shared_map();
    m->total = (uint64_t)config_get()->mem_mb << 20;
    m->used = sh ? gpu_memory_used(sh, (uint32_t)ordinal_of(device)) : 0;
    shared_unmap(sh);
    m->free = m->used < m->total ? m->total - m->used : 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *m)
{
    nvmlMemory_t plain;
    ENTER_DEVICE(device, m);
    if (m->version != (sizeof(*m) | 2u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlDeviceGetMemoryInfo(device, &plain);
    m->total = plain.total;
    m->reserved = 0;
    m->free = plain.free;
    m->used = plain.used;
    return NVML_SUCCESS;
}

/* 100 or 0: whether the device runs something at this moment. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *u)
{
    ENTER_DEVICE(device, u);
    const struct device_shared *sh = shared_map();
    uint32_t gpu = (uint32_t)ordinal_of(device);
    bool busy = false;
    for (uint32_t i = 0; sh && i < sh->streams_used && i < DEVICE_STREAMS && !busy; i++) {
        const struct device_stream *s = &sh->streams[i];
        busy = s->id != 0 && s->context < DEVICE_CONTEXTS && sh->contexts[s->context].gpu == gpu &&
               s->head <= s->tail && sh->rings[i][s->head % DEVICE_RING].state == OP_RUNNING;
    }
    shared_unmap(sh);
    u->gpu = u->memory = busy ? 100 : 0;
    return NVML_SUCCESS;
}

/* If the buffer is too small: how many there are. `v1`: entries without instances. */
static nvmlReturn_t processes(nvmlDevice_t device, unsigned int *count, void *infos, bool v1)
{
    ENTER_DEVICE(device, count);
    const struct device_shared *sh = shared_map();
    unsigned int room = infos ? *count : 0, n = 0;
    int gpu = ordinal_of(device);
    for (int i = 0; sh && i < DEVICE_CLIENTS; i++) {
        unsigned int pid = (unsigned int)sh->clients[i].pid;
        uint64_t used = sh->clients[i].memory[gpu];
        if (!sh->clients[i].in_use)
            continue;
        if (n < room && v1)
            ((nvmlProcessInfo_v1_t *)infos)[n] = (nvmlProcessInfo_v1_t){pid, used};
        else if (n < room)
            ((nvmlProcessInfo_t *)infos)[n] = (nvmlProcessInfo_t){pid, used, ~0u, ~0u};
        n++;
    }
    shared_unmap(sh);
    *count = n;
    return n <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device,
                                                              unsigned int *count,
                                                              nvmlProcessInfo_v1_t *infos)
{
    return processes(device, count, infos, true);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device,
                                                                 unsigned int *count,
                                                                 nvmlProcessInfo_t *infos)
{
    return processes(device, count, infos, false);
}
NVML_ALIAS(nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetComputeRunningProcesses_v2)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device,
                                                                  unsigned int *count,
                                                                  nvmlProcessInfo_t *infos)
{
    ENTER_DEVICE(device, count);
    *count = 0;
    return NVML_SUCCESS;
}
NVML_ALIAS(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3)
