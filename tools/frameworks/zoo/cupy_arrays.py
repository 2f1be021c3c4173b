"""CuPy: elementwise kernels, cuBLAS, a kernel of one's own, streams, a captured graph."""

import cupy
import numpy

SOURCE = 'extern "C" __global__ void increase(float *a, int n)' \
    "{ int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) a[i] += 1; }"

x = cupy.arange(1000, dtype=cupy.float32) * 2 + 1
increase = cupy.RawKernel(SOURCE, "increase")
increase((4,), (256,), (x, numpy.int32(1000)))
with cupy.cuda.Stream(non_blocking=True) as stream:
    ones = cupy.ones((256, 256), dtype=cupy.float32)
    cupy.asnumpy(ones @ ones)
stream.synchronize()
with cupy.cuda.Stream() as capturing:
    capturing.begin_capture()
    increase((4,), (256,), (x, numpy.int32(1000)))
    graph = capturing.end_capture()
    graph.launch(capturing)
    capturing.synchronize()
for _ in range(50):
    x = cupy.sqrt(cupy.abs(x)) + 1
cupy.cuda.Device().synchronize()
print("cupy", cupy.__version__, "ok")
