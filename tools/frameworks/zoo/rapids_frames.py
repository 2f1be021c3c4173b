"""RAPIDS: columns of cuDF and models of cuML, in memory of RMM's asynchronous pool and of its own pool.

Columns are integers: of floats cuDF asks the device how many are no number, and no kernel counted them. Models ask it
for nothing: some ask whether a solver has converged.
"""

import cudf
import cupy
import numpy
import rmm
from cuml.cluster import KMeans
from cuml.linear_model import LinearRegression, Ridge
from cuml.metrics import pairwise_distances
from cuml.neighbors import NearestNeighbors

POOLS = {"asynchronous pool": rmm.mr.CudaAsyncMemoryResource,
         "pool": lambda: rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=64 << 20)}
values = numpy.random.default_rng(1)


def frames():
    left = cudf.DataFrame({"a": numpy.arange(4096), "b": values.integers(0, 9, 4096)})
    left["c"] = left["a"] * 3 + left["b"]
    left["d"] = left["c"].shift(1, fill_value=0) - left["c"].cumsum()
    both = cudf.concat([left, left.sort_values("b")], ignore_index=True)
    return both.iloc[10:-10].astype("int32"), both["c"].rolling(4, min_periods=4).sum()


def models(rows):
    x = cupy.asarray(values.standard_normal((rows, 8), dtype=numpy.float32))
    y = cupy.asarray(values.standard_normal(rows, dtype=numpy.float32))
    yield LinearRegression(algorithm="svd").fit(x, y).predict(x)
    yield Ridge(solver="svd").fit(x, y).predict(x)
    yield KMeans(n_clusters=3, max_iter=3, n_init=1, init=x[:3], random_state=1).fit(x).predict(x)
    yield NearestNeighbors(n_neighbors=3, algorithm="brute").fit(x).kneighbors(x)[0]
    yield pairwise_distances(x, x)


for name, make in POOLS.items():
    rmm.mr.set_current_device_resource(make())
    print(name, "frames", [each.shape for each in frames()])
    stream = rmm.pylibrmm.stream.Stream()
    buffers = [rmm.DeviceBuffer(size=1 << size, stream=stream) for size in range(8, 20)]
    del buffers[::2]
    stream.synchronize()
    print(name, "buffers", [buffer.size for buffer in buffers])
    print(name, "models", [each.shape for each in models(512)])
