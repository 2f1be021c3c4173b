"""Numba: a kernel in a stream, and copies."""

import numba
import numpy
from numba import cuda


@cuda.jit
def add(a, b):
    i = cuda.grid(1)
    if i < a.size:
        b[i] = a[i] + 1


a = cuda.to_device(numpy.arange(1024, dtype=numpy.float32))
b = cuda.device_array_like(a)
stream = cuda.stream()
for _ in range(10):
    add[4, 256, stream](a, b)
stream.synchronize()
b.copy_to_host()
print("numba", numba.__version__, "ok")
