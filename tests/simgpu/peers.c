/*
 * peers.c - two devices of one process: which context may access whose memory.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256, BYTES = N * 4, MB = 1 << 20 };

/* Newer headers declare another version. */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

static CUcontext there; /* on device 1; sim.ctx is on device 0 */

static void there_open(void)
{
    CHECK(cuDevicePrimaryCtxRetain(&there, 1));
}

static void two_devices(void)
{
    setenv("SIMGPU_DEVICES", "2", 1);
    sim_open();
    there_open();
}

TestSuite(peers, .init = two_devices, .fini = sim_close);

static CUdeviceptr buffer_there(uint32_t value)
{
    CUdeviceptr x;
    CHECK(cuCtxSetCurrent(there));
    CHECK(cuMemAlloc(&x, BYTES));
    CHECK(cuMemsetD32(x, value, N));
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(sim.ctx));
    return x;
}

static CUresult mix_here(CUdeviceptr x)
{
    CHECK(cuCtxSetCurrent(sim.ctx));
    launch_mix(NULL, x, 5, 7, N);
    return cuCtxSynchronize();
}

static void expect_words(CUdeviceptr x, uint32_t value)
{
    uint32_t v[N];
    CHECK(cuMemcpyDtoH(v, x, BYTES));
    for (int i = 0; i < N; i++)
        cr_assert_eq(v[i], value, "word %d is %u, not %u", i, v[i], value);
}

static int can(CUdevice a, CUdevice b)
{
    int yes = -1;
    CHECK(cuDeviceCanAccessPeer(&yes, a, b));
    return yes;
}

static int attribute(CUdevice_P2PAttribute which)
{
    int value = -1;
    CHECK(cuDeviceGetP2PAttribute(&value, which, 0, 1));
    return value;
}

Test(peers, peer_queries_report_access_without_atomics)
{
    int value;
    cr_expect_eq(can(0, 1), 1);
    cr_expect_eq(can(1, 0), 1);
    cr_expect_eq(can(0, 0), 0);
    cr_expect_eq(attribute(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED), 1);
    cr_expect_eq(attribute(CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED), 0);
    cr_expect_eq(attribute(CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK), 0);
    EXPECT(cuDeviceCanAccessPeer(&value, 0, 2), CUDA_ERROR_INVALID_DEVICE);
    EXPECT(cuDeviceCanAccessPeer(NULL, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuDeviceGetP2PAttribute(&value, (CUdevice_P2PAttribute)0, 0, 1),
           CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1),
           CUDA_ERROR_INVALID_DEVICE);
}

Test(peers, kernel_reaches_peer_only_while_access_is_enabled)
{
    CUdeviceptr x = buffer_there(3);
    CHECK(cuCtxEnablePeerAccess(there, 0));
    CHECK(mix_here(x));
    expect_words(x, 22);
    CHECK(cuCtxDisablePeerAccess(there));
    EXPECT(mix_here(x), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Access goes one way, and belongs to the context that enabled it. */
Test(peers, access_is_one_way)
{
    CUdeviceptr x;
    CHECK(cuCtxSetCurrent(there));
    CHECK(cuCtxEnablePeerAccess(sim.ctx, 0));
    x = buffer_there(3);
    EXPECT(mix_here(x), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(peers, invalid_peer_calls_are_refused)
{
    CUcontext other;
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    EXPECT(cuCtxEnablePeerAccess(sim.ctx, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED); /* one device */
    EXPECT(cuCtxEnablePeerAccess(other, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxEnablePeerAccess(NULL, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT(cuCtxEnablePeerAccess(there, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuCtxDisablePeerAccess(there), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    CHECK(cuCtxEnablePeerAccess(there, 0));
    EXPECT(cuCtxEnablePeerAccess(there, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CHECK(cuCtxDestroy(other));
    EXPECT(cuCtxDisablePeerAccess(other), CUDA_ERROR_INVALID_CONTEXT);
}

Test(peers, reset_of_peer_context_ends_access)
{
    CUcontext other;
    CHECK(cuCtxEnablePeerAccess(there, 0));
    CHECK(cuDevicePrimaryCtxReset(1));
    CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK(cuCtxSetCurrent(sim.ctx));
    EXPECT(cuCtxDisablePeerAccess(other), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

/* Copies need no access. */
Test(peers, copies_between_devices_need_no_access)
{
    CUdeviceptr x = buffer_there(3), y;
    CUstream s;
    CHECK(cuMemAlloc(&y, BYTES));
    CHECK(cuMemcpyPeer(y, sim.ctx, x, there, BYTES));
    expect_words(y, 3);
    CHECK(mix_here(y));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemcpyPeerAsync(x, there, y, sim.ctx, BYTES, s));
    CHECK(cuStreamSynchronize(s));
    expect_words(x, 22);
    EXPECT(cuMemcpyPeer(y, sim.ctx, x, NULL, BYTES), CUDA_ERROR_INVALID_CONTEXT);
}

/* ---- mappings and pools ---------------------------------------------------------------------- */

static CUdeviceptr mapped_there(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr x;
    CHECK(cuMemCreate(&handle, 2 * MB, &prop, 0));
    CHECK(cuMemAddressReserve(&x, 2 * MB, 0, 0, 0));
    CHECK(cuMemMap(x, 2 * MB, 0, handle, 0));
    return x;
}

static CUresult allow(CUdeviceptr x, int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                         .flags = flags};
    return cuMemSetAccess(x, 2 * MB, &d, 1);
}

static unsigned long long allowed(CUdeviceptr x, int device)
{
    CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long flags = 99;
    CHECK(cuMemGetAccess(&flags, &where, x));
    return flags;
}

Test(peers, mapping_access_is_set_per_device)
{
    CUdeviceptr x = mapped_there();
    CHECK(allow(x, 1, CU_MEM_ACCESS_FLAGS_PROT_READ));
    cr_expect_eq(allowed(x, 1), CU_MEM_ACCESS_FLAGS_PROT_READ);
    cr_expect_eq(allowed(x, 0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK(allow(x, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    cr_expect_eq(allowed(x, 1), CU_MEM_ACCESS_FLAGS_PROT_READ);
    CHECK(mix_here(x));
    CHECK(allow(x, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    EXPECT(allow(x, 2, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_INVALID_VALUE);
    EXPECT(mix_here(x), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static CUresult pool_allow(CUmemoryPool pool, int device, CUmemAccess_flags flags)
{
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                         .flags = flags};
    return cuMemPoolSetAccess(pool, &d, 1);
}

Test(peers, pool_access_can_be_granted_and_revoked)
{
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    CUmemAccess_flags flags;
    CUmemoryPool pool;
    CUdeviceptr x;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 1));
    CHECK(cuCtxSetCurrent(there));
    CHECK(cuMemAllocFromPoolAsync(&x, BYTES, pool, NULL));
    CHECK(cuMemsetD32(x, 3, N));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemPoolGetAccess(&flags, pool, &here));
    cr_expect_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK(pool_allow(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    CHECK(cuMemPoolGetAccess(&flags, pool, &here));
    cr_expect_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK(mix_here(x));
    expect_words(x, 22);
    CHECK(pool_allow(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    EXPECT(mix_here(x), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- devices that are no peers, and other processes ------------------------------------------ */

static void no_peers(void)
{
    setenv("SIMGPU_PEERS", "0", 1);
    two_devices();
}

TestSuite(strangers, .init = no_peers, .fini = sim_close);

Test(strangers, devices_without_peer_support_refuse_access)
{
    CUmemoryPool pool;
    CUdeviceptr x = mapped_there(), y = buffer_there(3);
    cr_expect_eq(can(0, 1), 0);
    cr_expect_eq(attribute(CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED), 0);
    EXPECT(cuCtxEnablePeerAccess(there, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    EXPECT(allow(x, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceGetDefaultMemPool(&pool, 1));
    EXPECT(pool_allow(pool, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_ERROR_INVALID_DEVICE);
    expect_words(y, 3);
}

static void both_join(void)
{
    setenv("SIMGPU_DEVICES", "2", 1);
    sim_name();
}

TestSuite(peers_of_processes, .init = both_join, .fini = sim_close);

/* It is opened in a context of device 0, whose kernels may access it although it is on device 1. */
Test(peers_of_processes, kernel_writes_memory_of_another_process_and_device)
{
    CUipcMemHandle handle;
    int fds[2], status;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        CUdeviceptr x;
        sim_join();
        cr_assert_eq(read(fds[1], &handle, sizeof(handle)), (ssize_t)sizeof(handle));
        CHECK(cuIpcOpenMemHandle(&x, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        CHECK(mix_here(x));
        exit(0);
    }
    sim_join();
    there_open();
    CUdeviceptr x = buffer_there(3);
    CHECK(cuIpcGetMemHandle(&handle, x));
    cr_assert_eq(write(fds[0], &handle, sizeof(handle)), (ssize_t)sizeof(handle));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert_eq(status, 0);
    expect_words(x, 22);
}
