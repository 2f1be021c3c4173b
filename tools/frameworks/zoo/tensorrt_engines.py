"""Engines of TensorRT for RTX: five models, built here, each run plainly, captured by the program and as TensorRT's
own graph; then one in three threads, with a context each. Kernels have no effect on the simulated GPU, so nothing is
said of results: only that every call and every stream ends."""

import ctypes
import sys
import threading

import numpy
import tensorrt_rtx as trt

cuda = ctypes.CDLL("libcuda.so.1")
RUNS = 3


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        sys.exit(f"{name}: {result}")


def weights(*shape):
    values = numpy.random.default_rng(sum(shape)).standard_normal(shape, dtype=numpy.float32)
    kept.append(values)  # the builder keeps a pointer
    return trt.Weights(values)


kept = []


def convolutions(net, deep):
    x = net.add_input("in", trt.float32, (1, 3, 32, 32))
    channels = 3
    for i in range(deep):
        x = net.add_convolution_nd(x, 16, (3, 3), weights(16, channels, 3, 3)).get_output(0)
        x = net.add_activation(x, trt.ActivationType.RELU).get_output(0)
        channels = 16
    return net.add_pooling_nd(x, trt.PoolingType.MAX, (2, 2)).get_output(0)


def attention(net):
    x = net.add_input("in", trt.float32, (1, 4, 64, 32))
    scores = net.add_matrix_multiply(x, trt.MatrixOperation.NONE, x, trt.MatrixOperation.TRANSPOSE).get_output(0)
    softmax = net.add_softmax(scores)
    softmax.axes = 1 << 3
    return net.add_matrix_multiply(softmax.get_output(0), trt.MatrixOperation.NONE, x,
                                   trt.MatrixOperation.NONE).get_output(0)


def wide(net):
    x = net.add_input("in", trt.float32, (8, 256))
    parts = []
    for i in range(4):
        w = net.add_constant((256, 128), weights(256, 128)).get_output(0)
        y = net.add_matrix_multiply(x, trt.MatrixOperation.NONE, w, trt.MatrixOperation.NONE).get_output(0)
        parts.append(net.add_activation(y, trt.ActivationType.TANH).get_output(0))
    return net.add_concatenation(parts).get_output(0)


def loop(net):
    x = net.add_input("in", trt.float32, (16, 16))
    repeat = net.add_loop()
    trips = trt.Weights(numpy.array([4], numpy.int64))
    repeat.add_trip_limit(net.add_constant(trt.Dims(), trips).get_output(0), trt.TripLimit.COUNT)
    carried = repeat.add_recurrence(x)
    step = net.add_identity(x).get_output(0)
    y = net.add_elementwise(carried.get_output(0), step, trt.ElementWiseOperation.SUM).get_output(0)
    y = net.add_elementwise(y, step, trt.ElementWiseOperation.PROD).get_output(0)
    carried.set_input(1, y)
    return repeat.add_loop_output(carried.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0)


MODELS = {"convolutions": lambda net: convolutions(net, 2), "deep": lambda net: convolutions(net, 6),
          "attention": attention, "wide": wide, "loop": loop}


class Context:
    """An execution context with buffers and a stream of its own."""

    def __init__(self, engine, graphs=False):
        config = engine.create_runtime_config()
        if graphs:
            config.cuda_graph_strategy = trt.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
        self.context = engine.create_execution_context(config)
        self.stream = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(self.stream), 1)
        for i in range(engine.num_io_tensors):
            name, pointer = engine.get_tensor_name(i), ctypes.c_uint64()
            size = 4 * trt.volume(engine.get_tensor_shape(name))
            call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
            call("cuMemsetD32_v2", pointer, 0, ctypes.c_size_t(size // 4))
            self.context.set_tensor_address(name, pointer.value)

    def enqueue(self):
        if not self.context.execute_async_v3(self.stream.value):
            sys.exit("execute_async_v3")

    def end(self):
        call("cuStreamSynchronize", self.stream)

    def run(self):
        for _ in range(RUNS):
            self.enqueue()
        self.end()

    def run_captured(self):
        graph, launchable = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuStreamBeginCapture_v2", self.stream, 1)
        self.enqueue()
        call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        call("cuGraphInstantiateWithFlags", ctypes.byref(launchable), graph, ctypes.c_uint64(0))
        for _ in range(RUNS):
            call("cuGraphLaunch", launchable, self.stream)
        self.end()


def thread(context, primary):
    call("cuCtxSetCurrent", primary)
    context.run()


def main():
    primary = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(primary), 0)
    call("cuCtxSetCurrent", primary)
    logger = trt.Logger(trt.Logger.ERROR)
    builder, runtime = trt.Builder(logger), trt.Runtime(logger)
    for name, model in MODELS.items():
        net = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        net.mark_output(model(net))
        plan = builder.build_serialized_network(net, builder.create_builder_config())
        if not plan:
            sys.exit(f"{name}: no engine")
        engine = runtime.deserialize_cuda_engine(plan)
        plain = Context(engine)
        plain.run()
        plain.run_captured()
        Context(engine, graphs=True).run()
        print(name, engine.num_layers > 0)
    threads = [threading.Thread(target=thread, args=(Context(engine), primary)) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    print("threads")


main()
