#!/usr/bin/env python3
"""A Ray Serve deployment in real time beside a training actor as best effort, on one GPU, half of it each.

Needs `pip install 'ray[serve]'` and the wheel of cutin. The work on the GPU is memory being set, so no CUDA package
is needed. On the simulated GPU:

    pip install 'ray[serve]' ./cutin-*_x86_64.whl
    export LD_LIBRARY_PATH=$(cutin version --json | grep -o "/.*/simgpu")
    export RAY_RUNTIME_ENV_PLUGINS='[{"class": "cutin.ray.Priority"}]'
    python3 ray_serve_and_train.py
"""

import argparse
import ctypes
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--requests", type=int, default=100, help="how many (100)")
options = parser.parse_args()
try:
    import ray
    from ray import serve
except ImportError as why:
    print(f"ray_serve_and_train.py needs Ray with Serve: {why}", file=sys.stderr)
    sys.exit(77)


class Gpu:
    """A context, and memory that is set: what a model would do, without one."""

    def __init__(self, mib):
        self.cuda, self.context, self.memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_ulonglong()
        self.words = ctypes.c_size_t(mib << 18)
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(mib << 20))

    def call(self, name, *arguments):
        if getattr(self.cuda, name)(*arguments) != 0:
            raise RuntimeError(f"{name} failed")

    def work(self, times):
        self.call("cuCtxSetCurrent", self.context)  # of whichever thread this is
        for _ in range(times):
            self.call("cuMemsetD32Async", self.memory, 1, self.words, None)
        self.call("cuCtxSynchronize")


@serve.deployment(ray_actor_options={"num_cpus": 0, "num_gpus": 0.5, "runtime_env": {"cutin": {"priority": "rt"}}})
class Service:
    def __init__(self):
        self.gpu = Gpu(1)

    def answer(self):
        begin = time.monotonic()
        self.gpu.work(1)
        return time.monotonic() - begin


@ray.remote(num_cpus=0, num_gpus=0.5, max_concurrency=2, runtime_env={"cutin": {"priority": "be"}})
class Training:
    def __init__(self):
        self.gpu, self.steps, self.going = Gpu(16), 0, True

    def train(self):
        while self.going:
            self.gpu.work(8)
            self.steps += 1
        return self.steps

    def stop(self):
        self.going = False


ray.init(num_cpus=2, num_gpus=1, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
training = Training.remote()
steps = training.train.remote()
service = serve.run(Service.bind(), route_prefix=None)
took = sorted(service.answer.remote().result() for _ in range(options.requests))
print(subprocess.run(["cutin", "list"], capture_output=True, text=True).stdout, end="")
ray.get(training.stop.remote())
print(f"{len(took)} requests, p50 {took[len(took) // 2] * 1e3:.2f} ms on the GPU; {ray.get(steps)} steps of training")
serve.shutdown()
