"""A CUDA program in Python: streams, events, graphs and kernels through cuda-bindings, which asks
cuGetProcAddress for every entry. Prints results and return codes; compare.c runs it on the bare
driver and under cutin. `bindings.py --list` names its parts, as the programs in C do."""

import ctypes
import sys

from cuda.bindings import driver as cu

N = 1024


def must(answer):
    code, *rest = answer
    if code != cu.CUresult.CUDA_SUCCESS:
        print("gave up:", int(code))
        sys.exit(99)
    return rest[0] if len(rest) == 1 else rest


class Gpu:
    def __init__(self, kernels):
        must(cu.cuInit(0))
        self.device = must(cu.cuDeviceGet(0))
        self.context = must(cu.cuDevicePrimaryCtxRetain(self.device))
        must(cu.cuCtxSetCurrent(self.context))
        with open(kernels, "rb") as f:
            self.module = must(cu.cuModuleLoadData(f.read() + b"\0"))
        self.mix = must(cu.cuModuleGetFunction(self.module, b"mix"))

    def words(self, value):
        x = must(cu.cuMemAlloc(N * 4))
        must(cu.cuMemsetD32(x, value, N))
        return x

    def stream(self):
        return must(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def launch(self, x, a, b, stream, block=256):
        values = (int(x), a, b, N)
        types = (ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
        return cu.cuLaunchKernel(self.mix, N // 256, 1, 1, block, 1, 1, 0, stream, (values, types), 0)[0]

    def show(self, what, x):
        host = (ctypes.c_uint32 * N)()
        must(cu.cuMemcpyDtoH(ctypes.addressof(host), x, N * 4))
        print(what, host[0], host[N - 1], sum(host))


def streams_and_events(gpu):
    a, b = gpu.stream(), gpu.stream()
    x, y = gpu.words(3), gpu.words(1)
    event, copied = must(cu.cuEventCreate(0)), must(cu.cuEventCreate(0))
    for i in range(200):
        must((gpu.launch(x, 3, i, a),))
        if i % 10 == 0:
            must(cu.cuEventRecord(event, a))
            must(cu.cuStreamWaitEvent(b, event, 0))
            must(cu.cuMemcpyDtoDAsync(y, x, N * 4, b))
            must(cu.cuEventRecord(copied, b))
            must(cu.cuStreamWaitEvent(a, copied, 0))
        must((gpu.launch(y, 5, i, b),))
    must(cu.cuEventSynchronize(event))
    print(int(cu.cuEventQuery(event)[0]))
    must(cu.cuStreamSynchronize(b))
    print(int(cu.cuStreamQuery(b)[0]))
    gpu.show("y", y)
    must(cu.cuCtxSynchronize())
    gpu.show("x", x)


def allocation_in_stream_order(gpu):
    s = gpu.stream()
    x = gpu.words(2)
    for i in range(40):
        p = must(cu.cuMemAllocAsync(N * 4, s))
        must(cu.cuMemcpyDtoDAsync(p, x, N * 4, s))
        must((gpu.launch(p, 3, i, s),))
        must(cu.cuMemcpyDtoDAsync(x, p, N * 4, s))
        must(cu.cuMemFreeAsync(p, s))
    must(cu.cuStreamSynchronize(s))
    gpu.show("x", x)


def graphs(gpu):
    s = gpu.stream()
    x = gpu.words(3)
    must(cu.cuStreamBeginCapture(s, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
    for i in range(5):
        must((gpu.launch(x, 3, i, s),))
    graph = must(cu.cuStreamEndCapture(s))
    exe = must(cu.cuGraphInstantiate(graph, 0))
    for i in range(20):
        must(cu.cuGraphLaunch(exe, s))
        must((gpu.launch(x, 5, i, s),))
    must(cu.cuGraphExecDestroy(exe))
    must(cu.cuGraphDestroy(graph))
    must(cu.cuStreamSynchronize(s))
    gpu.show("x", x)


def errors(gpu):
    x = gpu.words(3)
    s = gpu.stream()
    for block in (256, 0, 4096, 256):
        print(int(gpu.launch(x, 3, 1, s, block)))
    print(int(cu.cuMemAlloc(1 << 60)[0]))
    must(cu.cuStreamDestroy(s))
    must(cu.cuModuleUnload(gpu.module))
    gpu.show("x", x)


PARTS = {f.__name__: f for f in (streams_and_events, allocation_in_stream_order, graphs, errors)}

if sys.argv[-1] == "--list":
    print("\n".join(PARTS))
else:
    PARTS[sys.argv[-1]](Gpu(sys.argv[1]))
    print("end")
