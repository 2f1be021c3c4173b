"""The CUDA driver through ctypes: enough for a chain of kernels from examples/kernels.ptx.

It needs no package, so what drives PyTorch and the others can be tried with it on any machine, the
simulated GPU included."""

import ctypes
import hashlib
import pathlib

KERNELS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "kernels.ptx"
WORDS = 1024


class Error(Exception):
    pass


class Gpu:
    """The first device's primary context, current in this thread, and the kernels."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(96)
        self.call("cuDeviceGetName", name, 96, device)
        self.name = name.value.decode()
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.attach()
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), KERNELS.read_bytes() + b"\0")
        self.mix = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(self.mix), module, b"mix_spin")

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise Error(f"{name} returned {code}")

    def attach(self):
        """For every other thread that is to use it."""
        self.call("cuCtxSetCurrent", self.context)


class Chain:
    """A model in small: kernels of which each multiplies and adds, in a stream of its own. Any lost,
    repeated or reordered launch changes the result."""

    def __init__(self, gpu, kernels, kernel_us, blocks=16, priority=0):
        self.gpu, self.kernels, self.blocks = gpu, kernels, blocks
        self.stream = ctypes.c_void_p()
        gpu.call("cuStreamCreateWithPriority", ctypes.byref(self.stream), 1, priority)
        self.memory = ctypes.c_uint64()
        gpu.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(4 * WORDS))
        gpu.call("cuMemsetD32Async", self.memory, 1, ctypes.c_size_t(WORDS), self.stream)
        self.ns = ctypes.c_uint64(int(kernel_us * 1000))

    def run(self, seed):
        """Queues one pass and waits for it."""
        n = ctypes.c_uint32(WORDS)
        for k in range(self.kernels):
            a = ctypes.c_uint32((seed + k) * 2 + 1)
            b = ctypes.c_uint32(seed ^ k)
            values = (self.memory, a, b, n, self.ns)
            pointers = (ctypes.c_void_p * 5)(*(ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values))
            self.gpu.call("cuLaunchKernel", self.gpu.mix, self.blocks, 1, 1, 256, 1, 1, 0, self.stream,
                          pointers, None)
        self.gpu.call("cuStreamSynchronize", self.stream)

    def checksum(self):
        host = (ctypes.c_uint32 * WORDS)()
        self.gpu.call("cuMemcpyDtoH_v2", host, self.memory, ctypes.c_size_t(4 * WORDS))
        return hashlib.sha256(bytes(host)).hexdigest()[:16]
