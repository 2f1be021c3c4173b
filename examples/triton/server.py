#!/usr/bin/env python3
"""Triton Inference Server with two models, which do their GPU work through the driver: `dense`, whose requests Triton
gathers into batches, and `small`, which answers one at a time. It knows nothing of cutin:

    cutin run --priority rt -- python3 server.py --seconds 60

Needs the package nvidia-pytriton, which brings Triton. A model's functions run in this process, a thread for each
instance; Triton is a child of it. An answer is the question after each kernel has multiplied it and added to it. Says
`serving` on stderr when both models answer; ends after that time, or by SIGINT or SIGTERM, with what the device took
for a batch of each model, by its own clock.
"""

import argparse
import contextlib
import ctypes
import functools
import json
import math
import os
import pathlib
import signal
import sys
import sysconfig
import threading

PTX = pathlib.Path(__file__).resolve().parents[1] / "kernels.ptx"
WORDS = 16  # in a question
KERNELS = {"dense": 50, "small": 3}
NON_BLOCKING = 1


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8000, help="HTTP; gRPC and metrics have the next two (8000)")
    parser.add_argument("--batch", type=int, default=4, help="most questions in a batch of `dense` (4)")
    parser.add_argument("--wait-us", type=int, default=2000, help="how long Triton waits for a full batch (2000)")
    parser.add_argument("--instances", type=int, default=1, help="of each model, with a thread and stream each (1)")
    parser.add_argument("--kernel-us", type=float, default=100, help="a kernel's time (100)")
    parser.add_argument("--seconds", type=float, help="how long to serve (until a signal)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args()


@functools.cache
def driver():
    return ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(driver(), name)(*arguments)
    if result:
        raise RuntimeError(f"{name}: CUDA error {result}")


def made(name, *arguments, kind=ctypes.c_void_p):
    """What a function writes to its first argument."""
    out = kind()
    call(name, ctypes.byref(out), *arguments)
    return out


class Gpu:
    def __init__(self):
        call("cuInit", 0)
        self.context = made("cuDevicePrimaryCtxRetain", 0)
        self.enter()
        self.kernel = made("cuModuleGetFunction", made("cuModuleLoadData", PTX.read_bytes() + b"\0"), b"mix_spin")

    def enter(self):
        """For each thread that calls."""
        call("cuCtxSetCurrent", self.context)


class Instance:
    """Of a model: a stream, room for a batch, and what batches took in milliseconds."""

    def __init__(self, gpu, kernels, kernel_us, batch):
        self.gpu, self.kernels, self.ns = gpu, kernels, ctypes.c_uint64(int(kernel_us * 1000))
        self.stream = made("cuStreamCreate", NON_BLOCKING)
        self.began, self.ended = made("cuEventCreate", 0), made("cuEventCreate", 0)
        room = ctypes.c_size_t(4 * WORDS * batch)
        self.memory, self.host = made("cuMemAlloc_v2", room, kind=ctypes.c_uint64), made("cuMemAllocHost_v2", room)
        self.took = []

    def launch(self, number, count):
        values = self.memory, *map(ctypes.c_uint32, (2 * number + 3, number, count)), self.ns
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        call("cuLaunchKernel", self.gpu.kernel, -(-count // WORDS), 1, 1, 256, 1, 1, 0, self.stream, pointers, None)

    def answer(self, words):
        """The answers to a batch, as many bytes as its questions."""
        self.gpu.enter()
        size = ctypes.c_size_t(len(words))
        ctypes.memmove(self.host, words, len(words))
        call("cuEventRecord", self.began, self.stream)
        call("cuMemcpyHtoDAsync_v2", self.memory, self.host, size, self.stream)
        for number in range(self.kernels):
            self.launch(number, len(words) // 4)
        call("cuMemcpyDtoHAsync_v2", self.host, self.memory, size, self.stream)
        call("cuEventRecord", self.ended, self.stream)
        call("cuStreamSynchronize", self.stream)
        self.took.append(made("cuEventElapsedTime", self.began, self.ended, kind=ctypes.c_float).value)
        return ctypes.string_at(self.host, len(words))


def expected(words, model):
    """What the right answer to words is."""
    for number in range(KERNELS[model]):
        words = [(word * (2 * number + 3) + number) & 0xFFFFFFFF for word in words]
    return words


def python_library():
    """The folder of this Python's library: what Triton starts for a model is linked with it."""
    package = "libpython{}.{}".format(*sys.version_info)
    for part in "", sysconfig.get_config_var("MULTIARCH") or "":
        folder = os.path.join(sysconfig.get_config_var("LIBDIR"), part)
        if os.path.exists(os.path.join(folder, f"{package}.so.1.0")):
            return folder
    raise ImportError(f"there is no {package}.so.1.0, which it is linked with (Debian: {package})")


class Server:
    """Triton, with both models, inside a `with`."""

    def __init__(self, o):
        from pytriton.triton import DEFAULT_PROTECTED_ENDPOINTS, Triton, TritonConfig, TritonSecurityConfig
        os.environ["LD_LIBRARY_PATH"] = f"{os.environ.get('LD_LIBRARY_PATH', '')}:{python_library()}".lstrip(":")
        gpu = Gpu()
        private = [name for name in DEFAULT_PROTECTED_ENDPOINTS if name != "statistics"]  # perf_analyzer asks for them
        self.triton = Triton(config=TritonConfig(http_port=o.port, grpc_port=o.port + 1, metrics_port=o.port + 2),
                             security_config=TritonSecurityConfig(restricted_endpoints=private))
        self.instances = {}
        for model, kernels in KERNELS.items():
            batch = o.batch if model == "dense" else 1
            self.instances[model] = [Instance(gpu, kernels, o.kernel_us, batch) for _ in range(o.instances)]
            self.bind(model, batch, o.wait_us)

    def bind(self, model, most, wait_us):
        import numpy
        from pytriton.decorators import batch
        from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor

        def function(instance):
            @batch
            def infer(question):
                answer = instance.answer(question.tobytes())
                return {"answer": numpy.frombuffer(answer, numpy.uint32).reshape(question.shape)}
            return infer

        batcher = DynamicBatcher(max_queue_delay_microseconds=wait_us, preferred_batch_size=[most])
        self.triton.bind(model, [function(instance) for instance in self.instances[model]],
                         [Tensor(name="question", dtype=numpy.uint32, shape=(WORDS,))],
                         [Tensor(name="answer", dtype=numpy.uint32, shape=(WORDS,))],
                         config=ModelConfig(max_batch_size=most, batcher=batcher))

    def __enter__(self):
        self.triton.run()
        return self

    def __exit__(self, *_):
        self.triton.stop()

    def took(self):
        """{model: how many batches, and their times by the device's clock}"""
        out = {}
        for model, instances in self.instances.items():
            times = sorted(ms for instance in instances for ms in instance.took)
            if times:
                at = {p: times[math.ceil(len(times) * p / 100) - 1] for p in (50, 99)}
                out[model] = {"batches": len(times), "device_p50_ms": round(at[50], 3),
                              "device_p99_ms": round(at[99], 3)}
        return out

    def forget(self):
        """The batches until now."""
        for instances in self.instances.values():
            for instance in instances:
                instance.took.clear()


def main():
    o = options()
    ended = threading.Event()
    try:
        server = Server(o)
    except ImportError as why:
        print(f"server.py needs nvidia-pytriton: {why}", file=sys.stderr)
        return 77
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, lambda *_: ended.set())
    with contextlib.redirect_stdout(sys.stderr), server:  # pytriton prints Triton's log
        print("serving", file=sys.stderr, flush=True)
        ended.wait(o.seconds)
    took = server.took()
    print(json.dumps(took) if o.json else "\n".join(
        "{}: {batches} batches, p50 {device_p50_ms} ms, p99 {device_p99_ms} ms by the device's clock".format(model, **row)
        for model, row in took.items()) or "no requests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
