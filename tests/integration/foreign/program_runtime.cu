// program_runtime.cu - a small CUDA runtime program for lookup.c, built with `nvcc -cudart static`.
#include <cstdio>

__global__ void increment(int *x)
{
    x[threadIdx.x]++;
}

int main()
{
    int *x = nullptr, host = -1;
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    cudaError_t rc = cudaMalloc(&x, 256 * sizeof(int));

    printf("malloc: %s\n", cudaGetErrorName(rc));
    if (rc != cudaSuccess)
        return 3;
    cudaMemset(x, 0, 256 * sizeof(int));
    rc = cudaStreamCreate(&stream);
    printf("stream: %s\n", cudaGetErrorName(rc));
    cudaEventCreate(&event);
    increment<<<1, 256, 0, stream>>>(x);
    printf("launch: %s\n", cudaGetErrorName(cudaGetLastError()));
    cudaEventRecord(event, stream);
    rc = cudaStreamSynchronize(stream);
    printf("synchronize: %s\n", cudaGetErrorName(rc));
    cudaMemcpy(&host, x, sizeof(host), cudaMemcpyDeviceToHost);
    printf("x[0] = %d\n", host);
    return rc == cudaSuccess ? 0 : 3;
}
