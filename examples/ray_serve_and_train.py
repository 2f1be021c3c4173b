#!/usr/bin/env python3
"""A Ray Serve deployment in real time beside a training actor as best effort, on one GPU, half of it each.

Needs `pip install 'ray[serve]'` and the wheel of cutin. The work on the GPU is memory being set, so no CUDA package
is needed. With --trainer Ray Train's TorchTrainer trains, two workers of a quarter, which needs `ray[serve,train]` and
PyTorch. On the simulated GPU:

    pip install 'ray[serve]' ./cutin-*_x86_64.whl
    export LD_LIBRARY_PATH=$(cutin version --json | grep -o "/.*/simgpu")
    export RAY_RUNTIME_ENV_PLUGINS='[{"class": "cutin.ray.Priority"}]'
    python3 ray_serve_and_train.py
"""

import argparse
import ctypes
import subprocess
import sys
import threading
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--requests", type=int, default=100, help="how many (100)")
parser.add_argument("--trainer", action="store_true", help="train by Ray Train")
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


class Actor:
    """Training by an actor that goes on until it is told to stop."""

    def __init__(self):
        self.actor = Training.remote()
        self.steps = self.actor.train.remote()

    def goes(self):
        return False  # only as long as there are requests

    def end(self):
        ray.get(self.actor.stop.remote())
        return ray.get(self.steps)


class Trainer:
    """The same by Ray Train, which ends by itself. Its level is that of the workers, not of the controller."""

    def __init__(self):
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchConfig, TorchTrainer

        trainer = TorchTrainer(
            train, torch_config=TorchConfig(backend="gloo"),  # NCCL wants a device for each
            scaling_config=ScalingConfig(num_workers=2, use_gpu=True,
                                         resources_per_worker={"CPU": 0, "GPU": 0.25}),
            run_config=RunConfig(worker_runtime_env={"cutin": {"priority": "be"}}))
        self.thread = threading.Thread(target=lambda: setattr(self, "result", trainer.fit()))
        self.thread.start()

    def goes(self):
        return self.thread.is_alive()

    def end(self):
        self.thread.join()
        return self.result.return_value


def train():
    """A worker of Ray Train."""
    import torch
    from ray.train.torch import get_device, prepare_model

    model = prepare_model(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(1, 201):
        optimizer.zero_grad()
        model(torch.ones(8, 64, device=get_device())).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()
    return step


ray.init(num_cpus=2, num_gpus=1, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False)
service = serve.run(Service.bind(), route_prefix=None)
training = Trainer() if options.trainer else Actor()
took, listed = [], ""
while len(took) < options.requests or training.goes():
    took.append(service.answer.remote().result())
    if len(took) % 50 == 0:  # the workers of Ray Train take half a minute to come
        listed = max(listed, subprocess.run(["cutin", "list"], capture_output=True, text=True).stdout, key=len)
steps = training.end()
took.sort()
print(f"{listed}{len(took)} requests, p50 {took[len(took) // 2] * 1e3:.2f} ms on the GPU; {steps} steps of training")
serve.shutdown()
