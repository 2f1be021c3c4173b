/*
 * shared_pools.c - memory of a pool in two processes: "Given an IPC capable mempool, create an OS
 * handle to share the pool with another process. A recipient process can convert the shareable
 * handle into a mempool with cuMemPoolImportFromShareableHandle. Individual pointers can then be
 * shared with the cuMemPoolExportPointer and cuMemPoolImportPointer APIs" (cuda.h).
 */
#include "rig.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define POSIX_FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

static void handle_tell(int to, int fd, const CUmemPoolPtrExportData *data)
{
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {(void *)data, sizeof(*data)};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    cr_assert_eq(sendmsg(to, &m, 0), (ssize_t)sizeof(*data));
}

static int handle_hear(int from, CUmemPoolPtrExportData *data)
{
    int fd = -1;
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {data, sizeof(*data)};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    if (recvmsg(from, &m, MSG_WAITALL) == (ssize_t)sizeof(*data) && CMSG_FIRSTHDR(&m))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
    return fd;
}

/* Runs in the other process. Returns the number of the step that failed, or 0. */
#define STEP(n, condition)                                                                         \
    if (!(condition))                                                                              \
    return n

static int importer(int from)
{
    static uint32_t host[WORDS];
    CUmemPoolPtrExportData data;
    CUmemoryPool pool;
    CUcontext ctx;
    CUstream s;
    CUdeviceptr p, q;
    int fd = handle_hear(from, &data);
    STEP(1, fd >= 0 && cuInit(0) == CUDA_SUCCESS && rig_context(&ctx) == CUDA_SUCCESS);
    STEP(2, cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    STEP(3, cuMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, POSIX_FD, 0) ==
                CUDA_SUCCESS);
    /* "Imported memory pools do not support creating new allocations." */
    STEP(4, cuMemAllocFromPoolAsync(&q, BYTES, pool, s) != CUDA_SUCCESS);
    STEP(5, cuMemPoolImportPointer(&p, pool, &data) == CUDA_SUCCESS);
    STEP(6, cuMemcpyDtoHAsync(host, p, BYTES, s) == CUDA_SUCCESS);
    STEP(7, cuStreamSynchronize(s) == CUDA_SUCCESS && host[WORDS - 1] == 3);
    STEP(8, cuMemsetD32Async(p, 7, WORDS, s) == CUDA_SUCCESS);
    /* "The pointer may be freed with cuMemFree or cuMemFreeAsync." */
    STEP(9, cuMemFreeAsync(p, s) == CUDA_SUCCESS && cuStreamSynchronize(s) == CUDA_SUCCESS);
    STEP(10, cuMemPoolDestroy(pool) == CUDA_SUCCESS);
    return 0;
}

/* This process makes no CUDA call before the fork. */
Test(shared_pools, importing_process_shares_pool_memory)
{
    int pair[2], status = -1, fd = -1;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t other = fork();
    if (other == 0) {
        close(pair[0]);
        _exit(importer(pair[1]));
    }
    close(pair[1]);
    rig_open();
    if ((rig_attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) & POSIX_FD) == 0)
        cr_skip_test("no pools for other processes");
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = POSIX_FD,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, rig.dev}};
    CUmemPoolPtrExportData data;
    CUstream s = stream_new();
    CUmemoryPool pool;
    CUdeviceptr p;
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&p, BYTES, pool, s));
    OK(launch_fill(s, p, 3));
    OK(cuStreamSynchronize(s));
    OK(cuMemPoolExportToShareableHandle(&fd, pool, POSIX_FD, 0));
    OK(cuMemPoolExportPointer(&data, p));
    handle_tell(pair[0], fd, &data);
    cr_assert_eq(waitpid(other, &status, 0), other);
    cr_assert_eq(status, 0, "the other one ended with %x", (unsigned int)status);
    words_are(p, 7);
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    close(fd);
}

/* "Specifying CU_MEM_HANDLE_TYPE_NONE creates a memory pool that will not support IPC." */
Test(shared_pools, pool_without_handle_type_cannot_be_exported, .init = rig_open)
{
    int fd;
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, rig.dev));
    FAILS(CUDA_ERROR_INVALID_VALUE, cuMemPoolExportToShareableHandle(&fd, pool, POSIX_FD, 0));
}
