"""Warp: kernels on two streams with events between them, a captured graph, and arrays of the memory pool."""

import numpy
import warp as wp

wp.config.log_level = wp.LOG_ERROR
wp.init()


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def turn(angle: float, points: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    points[i] = wp.quat_rotate(wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), angle), points[i])


N = 4096
device = wp.get_device("cuda:0")
x, y = wp.array(numpy.ones(N, numpy.float32), device=device), wp.zeros(N, dtype=float, device=device)
points = wp.zeros(N, dtype=wp.vec3, device=device)
streams = [wp.Stream(device) for _ in range(2)]
for i in range(10):
    with wp.ScopedStream(streams[i % 2]):
        wp.launch(saxpy, N, [2.0, x, y], device=device)
        wp.launch(turn, N, [0.1, points], device=device)
        z = wp.empty(1 << i, dtype=float, device=device)
        z.fill_(float(i))
    streams[(i + 1) % 2].wait_stream(streams[i % 2])
wp.synchronize_device(device)
print("streams", y.numpy().shape)

with wp.ScopedCapture(device) as capture:
    for _ in range(5):
        wp.launch(saxpy, N, [1.0, x, y], device=device)
    wp.copy(x, y)
for _ in range(5):
    wp.capture_launch(capture.graph)
wp.synchronize_device(device)
print("graph", points.numpy().shape)
