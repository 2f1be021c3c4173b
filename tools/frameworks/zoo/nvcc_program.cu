/*
 * nvcc_program.cu - a program of the CUDA runtime as nvcc builds it: launches by <<<>>>, variables of the
 * device, constants, managed variables, streams, events, a pool, a host function, a cooperative launch, graphs.
 *
 * `fill` is a kernel that the simulated GPU knows, so its effect can be looked at. `weigh` is none, and what it
 * changes is never looked at.
 */
#include <cstdio>
#include <cstdlib>

static const int N = 1024, BLOCK = 256;

struct range {
    unsigned int *at;
    int n;
    unsigned char padding[40];
};

__constant__ int weights[4] = {2, 3, 5, 7};
__device__ int limits[2] = {11, 13};
__device__ unsigned int total;
__managed__ int shared_by_both[4] = {17, 19};

extern "C" __global__ void fill(unsigned int *p, unsigned int value, unsigned int n)
{
    for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] = value;
}

template <typename T> __global__ void weigh(range r, T more)
{
    extern __shared__ unsigned int some[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    some[threadIdx.x] = i < r.n ? r.at[i] * weights[i % 4] : 0;
    __syncthreads();
    if (some[threadIdx.x] > (unsigned int)limits[0])
        atomicAdd(&total, (unsigned int)(some[threadIdx.x] + more));
    if (i < 4)
        atomicAdd(&shared_by_both[i], 1);
}

static void check(cudaError_t rc, const char *what)
{
    if (rc == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorName(rc));
    exit(3);
}
#define CHECK(call) check(call, #call)

static unsigned int *device, *host;
static cudaStream_t stream, urgent;
static cudaEvent_t event, begin;

static void expect(const char *what, unsigned int value)
{
    CHECK(cudaMemcpyAsync(host, device, N * sizeof *host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < N; i++)
        if (host[i] != value) {
            printf("%s: %u at %d, not %u\n", what, host[i], i, value);
            exit(3);
        }
    printf("%s: ok\n", what);
}

static void launch_fill(unsigned int value, cudaStream_t on)
{
    fill<<<N / BLOCK, BLOCK, 0, on>>>(device, value, N);
    CHECK(cudaGetLastError());
}

static void launch_weigh(cudaStream_t on)
{
    weigh<<<N / BLOCK, BLOCK, BLOCK * sizeof *device, on>>>(range{device, N, {}}, 1.5f);
    CHECK(cudaGetLastError());
}

static void variables()
{
    int numbers[4], others[4] = {1, 2, 3, 4}, *at;
    size_t bytes;

    CHECK(cudaMemcpyFromSymbol(numbers, weights, sizeof weights));
    printf("weights: %d %d %d %d\n", numbers[0], numbers[1], numbers[2], numbers[3]);
    CHECK(cudaMemcpyToSymbolAsync(weights, others, sizeof others, 0, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyFromSymbolAsync(numbers, weights, 2 * sizeof *numbers, sizeof *numbers,
                                    cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("weights: %d %d\n", numbers[0], numbers[1]);
    CHECK(cudaGetSymbolAddress((void **)&at, limits));
    CHECK(cudaGetSymbolSize(&bytes, limits));
    CHECK(cudaMemcpy(numbers, at, bytes, cudaMemcpyDeviceToHost));
    printf("limits: %zu bytes, %d %d\n", bytes, numbers[0], numbers[1]);
    CHECK(cudaMemcpyFromSymbol(numbers, total, sizeof total));
    printf("total: %d\n", numbers[0]);

    cudaPointerAttributes attributes;
    printf("managed: %d %d %d\n", shared_by_both[0], shared_by_both[1], shared_by_both[2]);
    CHECK(cudaGetSymbolAddress((void **)&at, shared_by_both));
    CHECK(cudaPointerGetAttributes(&attributes, at));
    shared_by_both[3] = 23;
    CHECK(cudaMemcpy(numbers, at, sizeof numbers, cudaMemcpyDefault));
    printf("managed: %d, kind %d, the host's %s\n", numbers[3], attributes.type,
           at == shared_by_both ? "too" : "is another");
}

static void functions()
{
    cudaFuncAttributes attributes;
    int blocks, grid, block;

    CHECK(cudaFuncGetAttributes(&attributes, weigh<float>));
    CHECK(cudaFuncSetAttribute(weigh<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, weigh<float>, BLOCK, 65536));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, fill, 0, 0));
    printf("weigh: binary %d, shared %zu, %d blocks; fill: %d of %d\n", attributes.binaryVersion,
           attributes.sharedSizeBytes, blocks, grid, block);
}

static void count(void *number)
{
    ++*(int *)number;
}

static void streams()
{
    int calls = 0;
    void *some;
    float ms;

    CHECK(cudaEventRecord(begin, stream));
    launch_fill(1, stream);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(urgent, event, 0));
    launch_fill(2, urgent);
    launch_weigh(urgent);
    CHECK(cudaMallocAsync(&some, N, urgent));
    CHECK(cudaMemsetAsync(some, 0, N, urgent));
    CHECK(cudaFreeAsync(some, urgent));
    CHECK(cudaLaunchHostFunc(urgent, count, &calls));
    CHECK(cudaEventRecord(event, urgent));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaEventElapsedTime(&ms, begin, event));
    printf("host function: %d, time %s\n", calls, ms > 0 ? "passed" : "stood");
    expect("two streams", 2);
    fill<<<N / BLOCK, BLOCK>>>(device, 3, N);
    fill<<<N / BLOCK, BLOCK, 0, cudaStreamPerThread>>>(device, 4, N);
    CHECK(cudaDeviceSynchronize());
    expect("default streams", 4);

    unsigned int value = 5, n = N;
    void *arguments[] = {&device, &value, &n};
    CHECK(cudaLaunchCooperativeKernel(fill, dim3(N / BLOCK), dim3(BLOCK), arguments, 0, stream));
    expect("cooperative launch", 5);

    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    attribute.id = cudaLaunchAttributePriority;
    config.gridDim = N / BLOCK;
    config.blockDim = BLOCK;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, fill, device, 6u, n));
    expect("launch with attributes", 6);
}

/* Captured across both streams, launched, changed and launched again. */
static void graphs()
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t nodes[8];
    cudaKernelNodeParams params;
    size_t n = 8, kernels = 0;

    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cudaMemsetAsync(device, 0, N * sizeof *device, stream));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(urgent, event, 0));
    launch_weigh(urgent);
    launch_fill(7, urgent);
    CHECK(cudaEventRecord(event, urgent));
    CHECK(cudaMemcpyToSymbolAsync(total, &kernels, sizeof total, 0, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamWaitEvent(stream, event, 0));
    launch_weigh(stream);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    expect("graph", 7);

    CHECK(cudaGraphGetNodes(graph, nodes, &n));
    for (size_t i = 0; i < n; i++) {
        cudaGraphNodeType type;
        CHECK(cudaGraphNodeGetType(nodes[i], &type));
        if (type != cudaGraphNodeTypeKernel)
            continue;
        kernels++;
        CHECK(cudaGraphKernelNodeGetParams(nodes[i], &params));
        if (params.func != (void *)fill)
            continue;
        unsigned int value = 8, all = N;
        void *arguments[] = {&device, &value, &all};
        params.kernelParams = arguments;
        CHECK(cudaGraphExecKernelNodeSetParams(exec, nodes[i], &params));
    }
    printf("nodes: %zu, kernels: %zu\n", n, kernels);
    CHECK(cudaGraphLaunch(exec, urgent));
    CHECK(cudaStreamSynchronize(urgent));
    expect("changed graph", 8);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

int main()
{
    int version, least, most;

    CHECK(cudaRuntimeGetVersion(&version));
    printf("runtime %d, compiler %d.%d\n", version, __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__);
    CHECK(cudaMalloc(&device, N * sizeof *device));
    CHECK(cudaMallocHost(&host, N * sizeof *host));
    CHECK(cudaDeviceGetStreamPriorityRange(&least, &most));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, most));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&event));
    variables();
    functions();
    streams();
    graphs();
    CHECK(cudaFree(device));
    CHECK(cudaDeviceReset());
    return 0;
}
