/*
 * program_cudart.c - a program of the CUDA runtime that is built without nvcc: it registers a fat
 * binary by hand, as the code does that nvcc puts into every program. Usage: program_cudart
 * LIBCUDART PTX; built with CUDART_STATIC, it ignores the first argument.
 *
 * The declarations are those of the runtime's public headers, which need not be installed.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dim3 {
    unsigned int x, y, z;
} dim3;
typedef void *stream_t;
typedef void *graph_t;

#define RUNTIME(X)                                                                                 \
    X(int, cudaRuntimeGetVersion, int *)                                                           \
    X(int, cudaGetDeviceCount, int *)                                                              \
    X(int, cudaMalloc, void **, size_t)                                                            \
    X(int, cudaMemsetAsync, void *, int, size_t, stream_t)                                         \
    X(int, cudaMemcpy, void *, const void *, size_t, int)                                          \
    X(int, cudaStreamCreate, stream_t *)                                                           \
    X(int, cudaStreamSynchronize, stream_t)                                                        \
    X(int, cudaLaunchKernel, const void *, dim3, dim3, void **, size_t, stream_t)                  \
    X(int, cudaStreamBeginCapture, stream_t, int)                                                  \
    X(int, cudaStreamEndCapture, stream_t, graph_t *)                                              \
    X(int, cudaGraphLaunch, graph_t, stream_t)                                                     \
    X(int, cudaHostAlloc, void **, size_t, unsigned int)                                           \
    X(int, cudaDeviceSynchronize, void)                                                            \
    X(int, cudaGetLastError, void)                                                                 \
    X(int, cudaDeviceReset, void)                                                                  \
    X(void **, __cudaRegisterFatBinary, void *)                                                    \
    X(void, __cudaRegisterFatBinaryEnd, void **)                                                   \
    X(void, __cudaRegisterFunction, void **, const char *, char *, const char *, int, void *,      \
      void *, void *, void *, int *)

#ifdef CUDART_STATIC
#define X(result, name, ...) extern result name(__VA_ARGS__);
RUNTIME(X)
static void runtime_open(const char *path)
{
}
#else
#define X(result, name, ...) static result (*name)(__VA_ARGS__);
RUNTIME(X)
#undef X
static void *library;

static void runtime_open(const char *path)
{
    library = dlopen(path, RTLD_NOW);
    if (!library)
        fprintf(stderr, "%s\n", dlerror()), exit(2);
#define X(result, name, ...) *(void **)&name = dlsym(library, #name);
    RUNTIME(X)
}
#endif

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int rc = (call);                                                                           \
        if (rc != 0)                                                                               \
            printf("%s: %d\n", #call, rc), exit(3);                                                \
    } while (0)

/* ---- a fat binary with one PTX text in it, as text ------------------------------------------- */

struct fat_binary {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    struct {
        uint16_t kind, version;
        uint32_t header_bytes;
        uint64_t bytes;
        uint32_t compressed_bytes, options;
        uint16_t minor, major;
        uint32_t arch, name_at, name_bytes;
        uint64_t flags, zero, full_bytes;
    } entry;
    char text[16384];
};

static struct fat_binary fat = {
    .magic = 0xba55ed50,
    .version = 1,
    .header_bytes = 16,
    .bytes = 64 + sizeof(fat.text),
    .entry = {.kind = 1,
              .version = 0x101,
              .header_bytes = 64,
              .bytes = sizeof(fat.text),
              .major = 8,
              .arch = 80,
              .flags = 0x11},
};
static struct {
    uint32_t magic, version;
    const void *data;
    void *file;
} wrapper = {0x466243b1, 1, &fat, NULL};

static void text_read(const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f || fread(fat.text, 1, sizeof(fat.text) - 1, f) == 0)
        fprintf(stderr, "%s cannot be read\n", path), exit(2);
    fclose(f);
}

/* ---- the program ----------------------------------------------------------------------------- */

enum { N = 1024, TO_HOST = 2, RELAXED = 2, VALUE = 5 };

static char fill; /* its address stands for the kernel, as that of the host's stub does */
static unsigned int *device, *host;

static void launch_fill(unsigned int value, stream_t stream)
{
    unsigned int n = N;
    void *arguments[] = {&device, &value, &n};
    CHECK(cudaLaunchKernel(&fill, (dim3){N / 256, 1, 1}, (dim3){256, 1, 1}, arguments, 0, stream));
}

static void expect(unsigned int value)
{
    CHECK(cudaMemcpy(host, device, N * sizeof(*host), TO_HOST));
    for (int i = 0; i < N; i++)
        if (host[i] != value)
            printf("host[%d] is %u, not %u\n", i, host[i], value), exit(3);
}

/* cudaGraphInstantiate has two forms. It is called by address, with what both accept. */
static graph_t instantiate(graph_t graph, int version)
{
    graph_t exec = NULL;
#ifdef CUDART_STATIC
    extern int cudaGraphInstantiate();
#else
    int (*cudaGraphInstantiate)() = (int (*)())dlsym(library, "cudaGraphInstantiate");
#endif
    CHECK(version < 12000 ? cudaGraphInstantiate(&exec, graph, NULL, NULL, (size_t)0)
                          : cudaGraphInstantiate(&exec, graph, 0ULL));
    return exec;
}

int main(int argc, char **argv)
{
    int version, devices;
    stream_t stream;
    graph_t graph;
    if (argc != 3)
        return 2;
    runtime_open(argv[1]);
    text_read(argv[2]);
    void **binary = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(binary, &fill, "fill", "fill", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterFatBinaryEnd(binary);

    CHECK(cudaRuntimeGetVersion(&version));
    CHECK(cudaGetDeviceCount(&devices));
    CHECK(cudaMalloc((void **)&device, N * sizeof(*device)));
    CHECK(cudaHostAlloc((void **)&host, N * sizeof(*host), 0));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemsetAsync(device, 1, N * sizeof(*device), stream));
    CHECK(cudaStreamSynchronize(stream));
    expect(0x01010101);
    launch_fill(VALUE, stream);
    CHECK(cudaStreamSynchronize(stream));
    expect(VALUE);
    CHECK(cudaStreamBeginCapture(stream, RELAXED));
    launch_fill(VALUE + 1, stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphLaunch(instantiate(graph, version), stream));
    CHECK(cudaDeviceSynchronize());
    expect(VALUE + 1);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceReset());
    printf("runtime %d, %d device: ok\n", version, devices);
    return 0;
}
