"""Small programs, one per framework or feature, that print a JSON object with a checksum and a speed:

    cases.py NAME [--steps N]

They are what compare.py runs bare and under cutin where no example does it already. Exit status 77 and a
reason where a package or the GPU is absent."""

import argparse
import hashlib
import json
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


class Absent(Exception):
    pass


def digest(*arrays):
    sum_ = hashlib.sha256()
    for array in arrays:
        sum_.update(array.tobytes())
    return sum_.hexdigest()[:16]


def torch_on_gpu():
    try:
        import torch
    except ImportError as why:
        raise Absent(f"no PyTorch: {why}") from None
    if not torch.cuda.is_available():
        raise Absent("PyTorch sees no GPU")
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    return torch


def driver_chain(steps, quick):
    """The driver API through ctypes: no package."""
    import driver

    chain = driver.Chain(driver.Gpu(), 8, 20 if quick else 200)
    start = time.monotonic()
    for i in range(steps):
        chain.run(i)
    return "driver", time.monotonic() - start, chain.checksum()


def torch_graphs(steps, quick):
    """A whole training step as a CUDA graph, replayed."""
    torch = torch_on_gpu()
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(256, 1024, device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # warm-up, as capture wants it
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    torch.cuda.synchronize()
    start = time.monotonic()
    for _ in range(steps):
        graph.replay()
    torch.cuda.synchronize()
    return torch.__version__, time.monotonic() - start, digest(*(p.detach().cpu().numpy() for p in model.parameters()))


def torch_streams(steps, quick):
    """Four streams that hand their results on by events, with copies to and from pinned memory."""
    torch = torch_on_gpu()
    streams = [torch.cuda.Stream() for _ in range(4)]
    x = [torch.arange(1 << 20, dtype=torch.int32, device="cuda") + i for i in range(4)]
    host = torch.empty(1 << 20, dtype=torch.int32, pin_memory=True)
    events = [torch.cuda.Event() for _ in range(4)]
    torch.cuda.synchronize()
    start = time.monotonic()
    for n in range(steps):
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                if n or i:
                    events[i - 1].wait()  # what the stream before has written
                x[i].mul_(2 * n + 3).add_(x[i - 1])
                events[i].record()
        if n % 8 == 0:
            with torch.cuda.stream(streams[3]):
                host.copy_(x[3], non_blocking=True)
                x[3].copy_(host, non_blocking=True)
                events[3].record()
    torch.cuda.synchronize()
    return torch.__version__, time.monotonic() - start, digest(*(t.cpu().numpy() for t in x), host.numpy())


def cupy(steps, quick):
    """Elementwise kernels, a matrix product, a raw kernel and the memory pool."""
    try:
        import cupy as cp
    except ImportError as why:
        raise Absent(f"no CuPy: {why}") from None
    try:
        cp.cuda.runtime.getDeviceCount()
    except cp.cuda.runtime.CUDARuntimeError as why:
        raise Absent(f"CuPy sees no GPU: {why}") from None
    mix = cp.RawKernel(r"""
        extern "C" __global__ void mix(unsigned *x, unsigned a, unsigned b, unsigned n)
        { unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = x[i] * a + b; }""", "mix")
    n = 1 << 18
    words = cp.arange(n, dtype=cp.uint32)
    matrix = cp.eye(512, dtype=cp.float32) * cp.float32(0.5) + cp.float32(1e-3)
    y = cp.ones((512, 512), dtype=cp.float32)
    start = time.monotonic()
    for i in range(steps):
        mix((n // 256,), (256,), (words, cp.uint32(2 * i + 3), cp.uint32(i), cp.uint32(n)))
        words = words + cp.uint32(1)  # a new array from the pool
        y = cp.tanh(y @ matrix)
    cp.cuda.Stream.null.synchronize()
    return cp.__version__, time.monotonic() - start, digest(cp.asnumpy(words), cp.asnumpy(y))


def numba(steps, quick):
    """A kernel compiled by Numba, over two streams and pinned memory."""
    try:
        import numpy
        from numba import cuda
    except ImportError as why:
        raise Absent(f"no Numba with CUDA: {why}") from None
    if not cuda.is_available():
        raise Absent("Numba sees no GPU")
    import numba as package

    @cuda.jit
    def mix(x, a, b):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = x[i] * a + b

    n = 64 if quick else 1 << 18
    streams = [cuda.stream(), cuda.stream()]
    hosts = [cuda.pinned_array(n, dtype=numpy.uint32) for _ in streams]
    for host in hosts:
        host[:] = numpy.arange(n, dtype=numpy.uint32)
    x = [cuda.to_device(host, stream=s) for host, s in zip(hosts, streams)]
    start = time.monotonic()
    for i in range(steps):
        for k, stream in enumerate(streams):
            mix[(n + 255) // 256, 256, stream](x[k], numpy.uint32(2 * i + 3), numpy.uint32(i + k))
    for host, array, stream in zip(hosts, x, streams):
        array.copy_to_host(host, stream=stream)
        stream.synchronize()
    return package.__version__, time.monotonic() - start, digest(*hosts)


CASES = {f.__name__: f for f in (driver_chain, torch_graphs, torch_streams, cupy, numba)}


def main():
    parser = argparse.ArgumentParser(description="one framework or feature, with a checksum")
    parser.add_argument("name", choices=CASES)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    o = parser.parse_args()
    try:
        version, seconds, checksum = CASES[o.name](o.steps, o.quick)
    except Absent as why:
        print(why, file=sys.stderr)
        return 77
    print(json.dumps({"version": version, "steps": o.steps, "steps_per_s": round(o.steps / seconds, 2),
                      "checksum": checksum}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
