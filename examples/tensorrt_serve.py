#!/usr/bin/env python3
"""An inference service with TensorRT for RTX: requests arrive, an engine answers each, latencies are noted.

It knows nothing of cutin. Build the engine alone, then serve it beside a training job, in real time:

    python3 tensorrt_serve.py --onnx model.onnx --engine model.engine --seconds 0
    cutin run --priority rt -- python3 tensorrt_serve.py --engine model.engine --rate 50 --seconds 20

Needs the packages tensorrt-rtx-cu12 (or -cu13) and numpy; the driver is called through ctypes. Without a model it
serves a small transformer of its own, with random but seeded weights. Latency counts from the arrival of a request;
by the device's clock, from its first work until its last (CUDA events). Every answer must equal the first one to its
question. SIGINT and SIGTERM end it with its summary, and when they come again a second later, without one.
"""

import argparse
import ctypes
import functools
import gc
import json
import math
import os
import queue
import random
import signal
import sys
import threading
import time

stopped = []


def stop(number, _):
    if stopped and time.monotonic() - stopped[0] > 1:  # asked again
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    stopped.append(time.monotonic())


if __name__ == "__main__":  # before TensorRT, which takes a while to load
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--onnx", metavar="FILE", help="the model (a small transformer of its own)")
    parser.add_argument("--dimension", type=int, default=1, help="value of dimensions that the model leaves open (1)")
    parser.add_argument("--engine", metavar="FILE", help="read the engine from it; if it does not exist, build and "
                                                         "write it")
    parser.add_argument("--contexts", type=int, default=1, help="execution contexts, a stream and a thread each, that "
                                                                "take requests from one queue (1)")
    parser.add_argument("--graph", action="store_true", help="one CUDA graph per request, made by TensorRT")
    parser.add_argument("--rate", type=float, default=50, help="requests per second, on average (50)")
    parser.add_argument("--seconds", type=float, default=10, help="how long; 0: build the engine and end (10)")
    parser.add_argument("--arrivals", choices=("even", "poisson"), default="poisson", help="(poisson)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    o = parser.parse_args()
    if o.contexts < 1:
        parser.error("--contexts: at least one")
    return o


if __name__ == "__main__":
    OPTIONS = options()  # --help needs nothing installed

try:
    import numpy
    import tensorrt_rtx as trt
except ImportError as why:
    print(f"tensorrt_serve.py needs TensorRT for RTX and numpy: {why}", file=sys.stderr)
    sys.exit(77)

QUESTIONS, WIDTH, TOKENS, HEADS, BLOCKS = 8, 256, 64, 4, 4
NON_BLOCKING, STRONGLY_TYPED = 1, 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)


# ---- the driver ----------------------------------------------------------------------------------

class Failed(Exception):
    pass


@functools.cache
def driver():
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as why:
        raise Failed(f"there is no CUDA driver: {why}") from None


def call(name, *arguments):
    result = getattr(driver(), name)(*arguments)
    if result:
        raise Failed(f"{name}: CUDA error {result}")


def made(name, *arguments, kind=ctypes.c_void_p):
    """What a function writes to its first argument."""
    out = kind()
    call(name, ctypes.byref(out), *arguments)
    return out


def device_name():
    text = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", text, 256, 0)
    return text.value.decode()


# ---- the engine ----------------------------------------------------------------------------------

class Transformer:
    """A few blocks of attention and two wide layers."""

    def __init__(self, net):
        self.net, self.kept, self.random = net, [], numpy.random.default_rng(1)
        x = net.add_input("in", trt.float32, (HEADS, TOKENS, WIDTH))
        for _ in range(BLOCKS):
            x = self.sum(x, self.attention(x))
            x = self.sum(x, self.linear(self.relu(self.linear(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH))
        net.mark_output(x)

    def product(self, a, b, transposed=False):
        how = trt.MatrixOperation.TRANSPOSE if transposed else trt.MatrixOperation.NONE
        return self.net.add_matrix_multiply(a, trt.MatrixOperation.NONE, b, how).get_output(0)

    def linear(self, x, inputs, outputs):
        values = self.random.standard_normal((1, inputs, outputs), dtype=numpy.float32) / math.sqrt(inputs)
        self.kept.append(values.astype(numpy.float32))  # the builder keeps a pointer
        weights = self.net.add_constant((1, inputs, outputs), trt.Weights(self.kept[-1]))
        return self.product(x, weights.get_output(0))

    def relu(self, x):
        return self.net.add_activation(x, trt.ActivationType.RELU).get_output(0)

    def sum(self, a, b):
        return self.net.add_elementwise(a, b, trt.ElementWiseOperation.SUM).get_output(0)

    def attention(self, x):
        query, key, value = (self.linear(x, WIDTH, WIDTH) for _ in range(3))
        softmax = self.net.add_softmax(self.product(query, key, transposed=True))
        softmax.axes = 1 << 2
        return self.product(softmax.get_output(0), value)


def parse(net, path, logger):
    parser = trt.OnnxParser(net, logger)
    if not parser.parse_from_file(path):
        raise Failed(f"{path}: {parser.get_error(0).desc() if parser.num_errors else 'not an ONNX model'}")
    return parser


def build(o, logger):
    builder = trt.Builder(logger)
    net, config = builder.create_network(STRONGLY_TYPED), builder.create_builder_config()
    source = parse(net, o.onnx, logger) if o.onnx else Transformer(net)
    profile = builder.create_optimization_profile()
    for tensor in map(net.get_input, range(net.num_inputs)):
        shape = [d if d >= 0 else o.dimension for d in tensor.shape]
        profile.set_shape(tensor.name, shape, shape, shape)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(net, config)
    del source  # what the builder points to, until here
    if not plan:
        raise Failed("TensorRT cannot build an engine of the model")
    return bytes(plan)


def plan_of(o, logger):
    if o.engine and os.path.exists(o.engine):
        with open(o.engine, "rb") as file:
            return file.read()
    plan = build(o, logger)
    if o.engine:
        with open(o.engine, "wb") as file:
            file.write(plan)
    return plan


# ---- the service ---------------------------------------------------------------------------------

class Tensor:
    """An input or output: on the device, and pinned on the host."""

    def __init__(self, engine, context, name):
        self.input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        self.bytes = trt.volume(context.get_tensor_shape(name)) * engine.get_tensor_dtype(name).itemsize
        size = ctypes.c_size_t(self.bytes)
        self.device = made("cuMemAlloc_v2", size, kind=ctypes.c_uint64)
        self.host = made("cuMemAllocHost_v2", size)
        call("cuMemsetD8_v2", self.device, 0, size)
        context.set_tensor_address(name, self.device.value)


class Engine:
    def __init__(self, o):
        logger = trt.Logger(trt.Logger.ERROR)
        self.runtime, plan = trt.Runtime(logger), plan_of(o, logger)
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        if not self.engine:
            raise Failed("TensorRT cannot read the engine: it was built by another version, or for another GPU")
        self.names = [self.engine.get_tensor_name(i) for i in range(self.engine.num_io_tensors)]

    def context(self, graph):
        config = self.engine.create_runtime_config()
        config.dynamic_shapes_kernel_specialization_strategy = trt.DynamicShapesKernelSpecializationStrategy.NONE
        if graph:
            config.cuda_graph_strategy = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
        return self.engine.create_execution_context(config)


class Context:
    """An execution context with tensors and a stream of its own: one answer at a time."""

    def __init__(self, engine, o):
        self.context = engine.context(o.graph)
        self.stream = made("cuStreamCreate", NON_BLOCKING)
        self.began, self.ended = made("cuEventCreate", 0), made("cuEventCreate", 0)
        self.open_tensors(engine.engine, engine.names)
        self.make_questions(o.seed)
        for _ in range(3):  # loads kernels, makes the graph
            self.expected = [self.answer(number)[0] for number in range(QUESTIONS)]

    def open_tensors(self, engine, names):
        for name in names:
            if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.context.set_input_shape(name, engine.get_tensor_profile_shape(name, 0)[1])
        tensors = [Tensor(engine, self.context, name) for name in names]
        self.inputs, self.outputs = [t for t in tensors if t.input], [t for t in tensors if not t.input]

    def make_questions(self, seed):
        """Small numbers, which are harmless as floats and as indices."""
        draw = random.Random(seed)
        self.questions = [[bytes(t.bytes) if number == 0 else bytes(draw.getrandbits(1) for _ in range(t.bytes))
                           for t in self.inputs] for number in range(QUESTIONS)]

    def answer(self, number):
        """The answer, and how long it took the device, in milliseconds."""
        for tensor, data in zip(self.inputs, self.questions[number]):
            ctypes.memmove(tensor.host, data, tensor.bytes)
        call("cuEventRecord", self.began, self.stream)
        for tensor in self.inputs:
            call("cuMemcpyHtoDAsync_v2", tensor.device, tensor.host, ctypes.c_size_t(tensor.bytes), self.stream)
        if not self.context.execute_async_v3(self.stream.value):
            raise Failed("TensorRT refuses to run the engine")
        for tensor in self.outputs:
            call("cuMemcpyDtoHAsync_v2", tensor.host, tensor.device, ctypes.c_size_t(tensor.bytes), self.stream)
        call("cuEventRecord", self.ended, self.stream)
        call("cuStreamSynchronize", self.stream)
        took = made("cuEventElapsedTime", self.began, self.ended, kind=ctypes.c_float)
        return b"".join(ctypes.string_at(t.host, t.bytes) for t in self.outputs), took.value


def arrivals(o):
    """Times from 0 to `seconds`."""
    if o.arrivals == "even":
        return [i / o.rate for i in range(int(o.rate * o.seconds))]
    draw, t, out = random.Random(o.seed), 0.0, []
    while True:
        t += draw.expovariate(o.rate)
        if t >= o.seconds:
            return out
        out.append(t)


def wait_until(due):
    """In short sleeps, so that a signal is noticed."""
    while not stopped:
        left = due - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, 0.1))
    return False


class Service:
    """Contexts that answer requests from one queue: the first in this thread, each other in one of its own."""

    def __init__(self, o):
        call("cuInit", 0)
        self.primary = made("cuDevicePrimaryCtxRetain", 0)
        call("cuCtxSetCurrent", self.primary)
        engine = Engine(o)
        self.contexts = [Context(engine, o) for _ in range(o.contexts)]
        self.requests, self.answers, self.failed = queue.SimpleQueue(), [], []

    def work(self, context):
        """Takes requests, each before it arrives, until there is none. Notes the latency from its arrival in ms, the
        same by the device's clock, and whether the answer was right."""
        try:
            call("cuCtxSetCurrent", self.primary)
            while not self.failed:
                number, due = self.requests.get_nowait()
                if not wait_until(due):
                    return
                answer, took = context.answer(number % QUESTIONS)
                self.answers.append(((time.monotonic() - due) * 1e3, took,
                                     answer == self.contexts[0].expected[number % QUESTIONS]))
        except queue.Empty:
            pass
        except Failed as why:
            self.failed.append(why)

    def serve(self, o):
        """From when until when."""
        start = time.monotonic()
        for number, due in enumerate(arrivals(o)):
            self.requests.put((number, start + due))
        others = [threading.Thread(target=self.work, args=[context]) for context in self.contexts[1:]]
        for thread in others:
            thread.start()
        self.work(self.contexts[0])
        for thread in others:
            thread.join()
        if self.failed:
            raise self.failed[0]
        return start, time.monotonic()


def percentile(values, percent):
    ordered = sorted(values)
    return round(ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)], 3) if ordered else None


def main(o):
    try:
        service = Service(o)
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection takes as long as a request
        print("serving", file=sys.stderr, flush=True)
        began, ended = service.serve(o)
    except Failed as why:
        print(f"tensorrt_serve.py: {why}", file=sys.stderr)
        return 1
    latencies, device, right = zip(*service.answers) if service.answers else ((), (), ())
    result = {
        "gpu": device_name(), "version": trt.__version__, "requests": len(latencies), "wrong": right.count(False),
        "p50_ms": percentile(latencies, 50), "p99_ms": percentile(latencies, 99), "max_ms": percentile(latencies, 100),
        "device_p50_ms": percentile(device, 50), "device_p99_ms": percentile(device, 99),
        "began_s": began, "ended_s": ended,
    }
    print(json.dumps(result) if o.json else "{gpu}: no requests".format(**result) if not latencies else
          "{gpu}: {requests} requests, p50 {p50_ms} ms, p99 {p99_ms} ms, by the device's clock {device_p50_ms} and "
          "{device_p99_ms}, {wrong} wrong".format(**result))
    return 0


if __name__ == "__main__":
    sys.exit(main(OPTIONS))
