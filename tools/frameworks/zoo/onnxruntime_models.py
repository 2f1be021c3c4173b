"""ONNX Runtime: two models made here, a convolutional one and attention, each run from memory of the host, with tensors
that are bound to the device, and as the provider's own CUDA graph; then one in three threads, with a session each.

    onnxruntime_models.py cuda      its CUDA provider
    onnxruntime_models.py rtx       the plug-in provider TensorRT for RTX. It takes what ONNX Runtime finds below
                                    /sys/class/drm, so one is mounted there, for this process alone: root is needed

Kernels have no effect on the simulated GPU, so nothing is said of results: only that every call and every stream ends."""

import ctypes
import os
import pathlib
import sys
import tempfile
import threading

RUNS = 3
NEW_MOUNTS, RECURSIVE_PRIVATE = 0x00020000, 16384 | 1 << 18  # CLONE_NEWNS; MS_REC | MS_PRIVATE


def mount_card():
    """A folder /sys/class/drm with one card of NVIDIA's, where the simulated device 0 is."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tempfile.mkdtemp()
    for number in libc.unshare(NEW_MOUNTS), libc.mount(None, b"/", None, RECURSIVE_PRIVATE, None), \
            libc.mount(b"tmpfs", b"/sys/class", b"tmpfs", 0, None):
        if number:
            sys.exit(f"no mount of its own: {os.strerror(ctypes.get_errno())}")
    address = ctypes.create_string_buffer(16)
    driver = ctypes.CDLL("libcuda.so.1")
    if driver.cuInit(0) or driver.cuDeviceGetPCIBusId(address, len(address), 0):
        sys.exit("no device")
    device = pathlib.Path(folder) / address.value.decode().lower()
    card = pathlib.Path("/sys/class/drm/card0")
    device.mkdir()
    card.mkdir(parents=True)
    (card / "device").symlink_to(device)
    (device / "vendor").write_text("0x10de\n")
    (device / "device").write_text("0x2204\n")
    (device / "class").write_text("0x030000\n")


if sys.argv[1] == "rtx":
    mount_card()  # before ONNX Runtime looks

import numpy
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper


def weights(name, *shape):
    """All of a model are of one size: the CUDA provider copies them in another order in each run."""
    values = numpy.random.default_rng(sum(shape)).standard_normal(shape, dtype=numpy.float32)
    return numpy_helper.from_array(values, name)


def model(nodes, shape_in, shape_out, initializers):
    graph = helper.make_graph(nodes, "zoo", [helper.make_tensor_value_info("in", TensorProto.FLOAT, shape_in)],
                              [helper.make_tensor_value_info("out", TensorProto.FLOAT, shape_out)], initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString(), shape_in, shape_out


def convolutions():
    node = helper.make_node
    return model([node("Conv", ["in", "w1"], ["a"], pads=[1, 1, 1, 1]), node("Relu", ["a"], ["b"]),
                  node("Conv", ["b", "w2"], ["c"], pads=[1, 1, 1, 1]), node("Add", ["c", "b"], ["d"]),
                  node("GlobalAveragePool", ["d"], ["e"]), node("Flatten", ["e"], ["f"]),
                  node("Gemm", ["f", "w3"], ["out"])],
                 (1, 16, 32, 32), (1, 144), [weights("w1", 16, 16, 3, 3), weights("w2", 16, 16, 3, 3), weights("w3", 16, 144)])


def attention():
    node = helper.make_node
    return model([node("MatMul", ["in", "wq"], ["q"]), node("MatMul", ["in", "wk"], ["k"]),
                  node("Transpose", ["k"], ["t"], perm=[0, 2, 1]), node("MatMul", ["q", "t"], ["s"]),
                  node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "in"], ["a"]),
                  node("Add", ["a", "in"], ["out"])],
                 (2, 16, 64), (2, 16, 64), [weights("wq", 64, 64), weights("wk", 64, 64)])


class Provider:
    """How sessions of the provider are made."""

    def __init__(self, name):
        self.devices = []
        if name == "cuda":
            ort.preload_dlls()
            return
        import onnxruntime_ep_nv_tensorrt_rtx as rtx
        runtime = next(pathlib.Path(rtx.get_library_path()).parent.glob("libcudart.so.12*"))
        ctypes.CDLL(runtime)  # the provider looks for it in the system alone
        ort.register_execution_provider_library(rtx.get_ep_name(), rtx.get_library_path())
        self.devices = [d for d in ort.get_ep_devices() if d.ep_name == rtx.get_ep_name()]
        if not self.devices:
            sys.exit("ONNX Runtime finds no device")

    def session(self, made, graph=False):
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        if self.devices:
            options.add_provider_for_devices(self.devices, {"enable_cuda_graph": str(int(graph))})
            return ort.InferenceSession(made, options)
        settings = {"cudnn_conv_algo_search": "HEURISTIC", "enable_cuda_graph": str(int(graph))}
        session = ort.InferenceSession(made, options, providers=[("CUDAExecutionProvider", settings)])
        if session.get_providers()[0] != "CUDAExecutionProvider":
            sys.exit("no CUDA provider")
        return session


def run(session, shape):
    for _ in range(RUNS):
        session.run(None, {"in": numpy.ones(shape, numpy.float32)})


def run_in_thread(session, shape, first, together):
    try:
        run(session, shape)
    finally:
        first.set()
    together.wait()
    run(session, shape)


def run_bound(session, shape_in, shape_out):
    """What goes in and comes out stays on the device."""
    binding = session.io_binding()
    for bind, name, shape in (binding.bind_ortvalue_input, "in", shape_in), (binding.bind_ortvalue_output, "out", shape_out):
        bind(name, ort.OrtValue.ortvalue_from_numpy(numpy.zeros(shape, numpy.float32), "cuda", 0))
    for _ in range(RUNS):
        session.run_with_iobinding(binding)


def main():
    provider = Provider(sys.argv[1])
    for make in convolutions, attention:
        made, shape_in, shape_out = make()
        session = provider.session(made)
        run(session, shape_in)
        run_bound(session, shape_in, shape_out)
        run_bound(provider.session(made, graph=True), shape_in, shape_out)
        print(make.__name__, [output.name for output in session.get_outputs()], flush=True)
    together = threading.Barrier(3)
    threads = []
    for _ in range(3):  # what a thread needs is made in its first run, so those come one after the other
        first = threading.Event()
        threads.append(threading.Thread(target=run_in_thread, args=(provider.session(made), shape_in, first, together)))
        threads[-1].start()
        first.wait()
    for thread in threads:
        thread.join()
    print("threads")


main()
