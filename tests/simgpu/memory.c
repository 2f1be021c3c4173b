/*
 * memory.c - processes that share a device share its memory, and each device has its own.
 */
#include <cuda.h>

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call) cr_assert_eq((call), CUDA_SUCCESS, "%s", #call)

enum { MB = 1 << 20 };

static void small_device(void)
{
    char id[32];
    snprintf(id, sizeof(id), "memory-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 1);
    setenv("SIMGPU_MEM_MB", "256", 1);
}

TestSuite(memory_shared, .init = small_device);

static void context_open(void)
{
    CUcontext ctx;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&ctx, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(ctx) != CUDA_SUCCESS)
        abort();
}

/* A process that allocates some memory, says so, and waits until it is told to end. */
struct taker {
    pid_t pid;
    int said, told;
};

static struct taker taker_start(size_t bytes)
{
    int said[2], told[2];
    cr_assert(pipe(said) == 0 && pipe(told) == 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        CUdeviceptr p;
        close(said[0]);
        close(told[1]);
        context_open();
        char word = cuMemAlloc(&p, bytes) == CUDA_SUCCESS;
        if (write(said[1], &word, 1) != 1 || read(told[0], &word, 1) < 0)
            abort();
        exit(0);
    }
    close(said[1]);
    close(told[0]);
    struct taker t = {pid, said[0], told[1]};
    char word = 0;
    cr_assert_eq(read(t.said, &word, 1), 1);
    cr_assert_eq(word, 1);
    return t;
}

static void taker_end(struct taker *t, int signal_number)
{
    int status;
    if (signal_number != 0)
        kill(t->pid, signal_number);
    close(t->told);
    cr_assert_eq(waitpid(t->pid, &status, 0), t->pid);
    close(t->said);
}

static size_t bytes_left(void)
{
    size_t left = 0, all = 0;
    OK(cuMemGetInfo(&left, &all));
    cr_assert_eq(all, (size_t)256 * MB);
    return left;
}

static void memory_comes_back_after(int signal_number)
{
    CUdeviceptr p = 0;
    struct taker other = taker_start(200 * MB);
    context_open();
    cr_assert_leq(bytes_left(), (size_t)56 * MB);
    cr_assert_eq(cuMemAlloc(&p, 100 * MB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p, 10 * MB));
    OK(cuMemFree(p));
    taker_end(&other, signal_number);
    OK(cuMemAlloc(&p, 100 * MB));
    OK(cuMemFree(p));
    cr_assert_eq(bytes_left(), (size_t)256 * MB);
}

Test(memory_shared, exit_of_a_process_returns_its_memory)
{
    memory_comes_back_after(0);
}

Test(memory_shared, kill_of_a_process_returns_its_memory)
{
    memory_comes_back_after(SIGKILL);
}

/* "When more than the release threshold bytes of memory are held by the memory pool, the allocator
 * will try to release memory back to the OS on the next call to stream, event or context
 * synchronize" (cuda.h): until then, and below the threshold, the pool keeps the memory. */
Test(memory_shared, pool_keeps_freed_memory_up_to_its_release_threshold)
{
    CUmemoryPool pool;
    CUstream s;
    CUdeviceptr p, q;
    cuuint64_t keep = UINT64_MAX;
    context_open();
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuMemAllocAsync(&p, 200 * MB, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuStreamSynchronize(s));
    cr_assert_leq(bytes_left(), (size_t)56 * MB);
    cr_assert_eq(cuMemAlloc(&p, 200 * MB), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAllocAsync(&p, 90 * MB, s)); /* the pool serves other sizes from it */
    OK(cuMemAllocAsync(&q, 150 * MB, s));
    OK(cuMemFreeAsync(p, s));
    OK(cuMemFreeAsync(q, s));
    keep = 0;
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    cr_assert_leq(bytes_left(), (size_t)16 * MB);
    OK(cuStreamSynchronize(s));
    OK(cuMemAlloc(&p, 200 * MB));
    OK(cuMemFree(p));
}

static void reuse_waits(CUmemoryPool pool, int may)
{
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &may));
}

Test(memory_shared, async_alloc_waits_for_pending_free_in_another_stream)
{
    CUmemoryPool pool;
    CUstream frees, s;
    CUdeviceptr p, q = 0, word_at;
    uint32_t *word;
    context_open();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuStreamCreate(&frees, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&word, sizeof(*word), 0));
    OK(cuMemHostGetDevicePointer(&word_at, word, 0));
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    OK(cuMemAllocAsync(&p, 200 * MB, frees));
    OK(cuStreamWaitValue32(frees, word_at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cuMemFreeAsync(p, frees));

    OK(cuMemAllocAsync(&q, 40 * MB, s)); /* this much is free */
    OK(cuStreamSynchronize(s));
    reuse_waits(pool, 0);
    cr_assert_eq(cuMemAllocAsync(&q, 200 * MB, s), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuStreamSynchronize(s));
    reuse_waits(pool, 1);
    OK(cuMemAllocAsync(&q, 200 * MB, s));
    cr_assert_eq(q, p);
    cr_assert_eq(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    OK(cuStreamSynchronize(s));
    OK(cuMemFreeAsync(q, s)); /* the block belongs to `q`: the first free must not have taken it */
    OK(cuStreamSynchronize(s));
}

/* The same if no single freed block is large enough, but several together are. */
Test(memory_shared, async_alloc_waits_for_several_pending_frees)
{
    CUstream frees[3], s;
    CUdeviceptr p[3], q = 0, word_at;
    uint32_t *word;
    context_open();
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&word, 3 * sizeof(*word), 0));
    OK(cuMemHostGetDevicePointer(&word_at, word, 0));
    for (int i = 0; i < 3; i++) {
        word[i] = 0;
        OK(cuStreamCreate(&frees[i], CU_STREAM_NON_BLOCKING));
        OK(cuMemAllocAsync(&p[i], 60 * MB, frees[i]));
        OK(cuStreamWaitValue32(frees[i], word_at + 4 * (unsigned)i, 1, CU_STREAM_WAIT_VALUE_GEQ));
        OK(cuMemFreeAsync(p[i], frees[i]));
    }
    cr_assert_eq(cuMemAllocAsync(&q, 257 * MB, s), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAllocAsync(&q, 256 * MB, s)); /* all the memory there is */
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
        __atomic_store_n(&word[i], 1, __ATOMIC_RELEASE);
        OK(cuStreamSynchronize(frees[i]));
    }
    OK(cuStreamSynchronize(s));
    cr_assert_eq(bytes_left(), 0);
    OK(cuMemFreeAsync(q, s));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(bytes_left(), (size_t)256 * MB);
}

Test(memory_shared, freed_small_allocations_merge_into_one_block)
{
    enum { COUNT = 3000 };
    static CUdeviceptr all[COUNT];
    CUdeviceptr big;
    context_open();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++)
            OK(cuMemAlloc(&all[i], (size_t)(1 + i * 7 % 9000)));
        for (int i = 0; i < COUNT; i++)
            OK(cuMemFree(all[(i * 1009) % COUNT]));
    }
    cr_assert_eq(bytes_left(), (size_t)256 * MB);
    OK(cuMemAlloc(&big, (size_t)256 * MB));
    OK(cuMemFree(big));
}

/* ---- two devices ----------------------------------------------------------------------------- */

static void two_devices(void)
{
    small_device();
    setenv("SIMGPU_DEVICES", "2", 1);
    context_open();
}

/* A copy from memory that cannot be read is an error of the call, whether it is mapped or not. */
Test(memory_shared, copy_from_unreadable_memory_is_refused)
{
    CUdeviceptr here, reserved;
    char *closed = mmap(NULL, MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    context_open();
    OK(cuMemAlloc(&here, MB));
    OK(cuMemAddressReserve(&reserved, 2 * MB, 0, 0, 0));
    cr_assert_eq(cuMemcpy(here, (CUdeviceptr)(uintptr_t)closed, 64), CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(cuMemcpy(here, reserved, 64), CUDA_ERROR_INVALID_VALUE);
    munmap(closed, MB);
    cr_assert_eq(cuMemcpy(here, (CUdeviceptr)(uintptr_t)closed, 64), CUDA_ERROR_INVALID_VALUE);
}

TestSuite(memory_of_two_devices, .init = two_devices);

static CUfunction fill_here(void)
{
    CUmodule module;
    CUfunction fill;
    OK(cuModuleLoad(&module, SOURCE_DIR "/examples/kernels.ptx"));
    OK(cuModuleGetFunction(&fill, module, "fill"));
    return fill;
}

static CUresult fill_on(CUdevice device, CUdeviceptr x)
{
    CUcontext ctx;
    uint32_t value = 7, n = 16;
    void *params[] = {&x, &value, &n};
    OK(cuDevicePrimaryCtxRetain(&ctx, device));
    OK(cuCtxSetCurrent(ctx));
    OK(cuLaunchKernel(fill_here(), 1, 1, 1, 16, 1, 1, 0, NULL, params, NULL));
    return cuCtxSynchronize();
}

Test(memory_of_two_devices, kernel_cannot_access_memory_of_the_other_device)
{
    CUdeviceptr x;
    void *host;
    OK(cuMemAlloc(&x, 64));
    OK(cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_PORTABLE));
    OK(fill_on(0, x));
    OK(fill_on(1, (CUdeviceptr)(uintptr_t)host));
    cr_assert_eq(fill_on(1, x), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* ---- allocations of cuMemCreate between processes -------------------------------------------- */

static const size_t MAPPED = 2 * MB;

static CUdeviceptr map(CUmemGenericAllocationHandle handle)
{
    CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;
    if (cuMemAddressReserve(&at, MAPPED, 0, 0, 0) != CUDA_SUCCESS ||
        cuMemMap(at, MAPPED, 0, handle, 0) != CUDA_SUCCESS ||
        cuMemSetAccess(at, MAPPED, &access, 1) != CUDA_SUCCESS)
        abort();
    return at;
}

/* Waits for the path of a file that the parent has open, imports the file and writes. */
static int importer(int from)
{
    CUmemGenericAllocationHandle handle;
    char path[64];
    int fd;
    if (read(from, path, sizeof(path)) <= 0 || (fd = open(path, O_RDWR)) < 0)
        return 1;
    context_open();
    if (cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS)
        return 2;
    if (cuMemsetD32(map(handle), 0xfeed, 4) != CUDA_SUCCESS || cuCtxSynchronize() != CUDA_SUCCESS)
        return 3;
    return 0;
}

Test(memory_shared, imported_allocation_is_the_same_memory)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    size_t granularity;
    uint32_t word = 0;
    char path[64] = "";
    int to[2], fd = -1, status;
    cr_assert_eq(pipe(to), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(importer(to[0]));
    context_open();
    OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    OK(cuMemCreate(&handle, MAPPED, &prop, 0));
    OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CUdeviceptr at = map(handle);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
    cr_assert_eq(write(to[1], path, sizeof(path)), (ssize_t)sizeof(path));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect_eq(status, 0, "importer ended %x", (unsigned int)status);
    OK(cuMemcpyDtoH(&word, at, sizeof(word)));
    cr_expect_eq(word, 0xfeed);
    close(fd);
}

Test(memory_shared, allocation_without_handle_type_cannot_be_exported)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    int fd = -1, other[2];
    context_open();
    OK(cuMemCreate(&handle, MAPPED, &prop, 0));
    cr_expect_eq(
        cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_ERROR_INVALID_VALUE);
    cr_assert_eq(pipe(other), 0);
    cr_expect_eq(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)other[0],
                                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                 CUDA_ERROR_INVALID_VALUE);
}

Test(memory_shared, new_memory_is_filled_with_the_garbage_byte)
{
    CUdeviceptr p, again;
    uint32_t word = 0;
    setenv("SIMGPU_GARBAGE", "165", 1);
    context_open();
    OK(cuMemAlloc(&p, MB));
    OK(cuMemcpyDtoH(&word, p, sizeof(word)));
    cr_expect_eq(word, 0xa5a5a5a5);
    OK(cuMemsetD32(p, 1, MB / 4));
    OK(cuMemFree(p));
    OK(cuMemAllocAsync(&again, MB, NULL));
    OK(cuStreamSynchronize(NULL));
    OK(cuMemcpyDtoH(&word, again, sizeof(word)));
    cr_expect_eq(word, 0xa5a5a5a5);
}

/* The pages are released, not written: a device that took the time to write them would be late with
 * all that follows. */
Test(memory_shared, zeroing_memory_releases_its_pages)
{
    enum { BYTES = 8 * MB, EDGE = 100, PAGE = 4096 };
    CUdeviceptr p;
    unsigned char page[BYTES / PAGE], byte[4];
    const size_t at[4] = {EDGE - 1, EDGE, BYTES - EDGE - 1, BYTES - EDGE};
    const unsigned char wanted[4] = {0xff, 0, 0, 0xff};
    context_open();
    OK(cuMemAlloc(&p, BYTES));
    OK(cuMemsetD8(p, 0xff, BYTES));
    OK(cuMemsetD8(p + EDGE, 0, BYTES - 2 * EDGE));
    OK(cuStreamSynchronize(NULL));
    cr_assert_eq(mincore((void *)(uintptr_t)(p & ~(CUdeviceptr)(PAGE - 1)), BYTES, page), 0);
    for (size_t i = 1; i < BYTES / PAGE - 1; i++)
        cr_assert_eq(page[i] & 1, 0, "page %zu", i);
    for (int i = 0; i < 4; i++) {
        OK(cuMemcpyDtoH(&byte[i], p + at[i], 1));
        cr_expect_eq(byte[i], wanted[i], "byte %zu: %u", at[i], byte[i]);
    }
    OK(cuMemFree(p));
}
