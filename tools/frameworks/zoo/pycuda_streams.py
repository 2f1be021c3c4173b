"""PyCUDA: a stream, pinned memory, a kernel, the profiler's calls.    pycuda_streams.py KERNELS.ptx"""

import sys

import numpy
import pycuda
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda

stream = cuda.Stream()
host = cuda.pagelocked_empty(16, numpy.float32)
host[:] = range(16)
device = cuda.mem_alloc(host.nbytes)
cuda.memcpy_htod_async(device, host, stream)
stream.synchronize()
back = numpy.empty_like(host)
cuda.memcpy_dtoh(back, device)
assert (host == back).all()
spin = cuda.module_from_file(sys.argv[1]).get_function("spin")
cuda.start_profiler()
spin(numpy.uint64(1000), block=(32, 1, 1), grid=(1, 1), stream=stream)
stream.synchronize()
cuda.stop_profiler()
print("pycuda", pycuda.VERSION_TEXT, "ok")
