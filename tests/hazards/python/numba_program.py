"""A CUDA program in Python with Numba, a framework that compiles kernels and calls the driver by
itself. Prints results; compare.c runs it on the bare driver and under cutin. `--list` names its parts,
`--check` says with exit status 77 why they cannot run here.

The simulated driver gives kernels that it does not know their time and no effect, so what is compared
is where copies, events and allocations are among them, and what every call answers."""

import hashlib
import os
import site
import sys
import threading
import warnings

if sys.argv[-1] == "--list":
    print("streams_and_memory")
    sys.exit(0)

site.addsitedir(os.environ["PYTHON_FOLDER"])  # a .pth file there puts numba-cuda in front of numba
try:
    import numpy as np
    from numba import cuda
    from numba.cuda import compile_ptx
except ImportError as why:
    print(why)
    sys.exit(77)

warnings.simplefilter("ignore")
N = 4096


def axpy_source(y, x, a):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


if sys.argv[-1] == "--check":
    try:
        compile_ptx(axpy_source, "void(float32[:], float32[:], float32)", cc=(8, 0))
    except Exception as why:  # whatever it is, there is no compiler
        print("Numba cannot compile a kernel:", str(why).splitlines()[0])
        sys.exit(77)
    sys.exit(0)

axpy = cuda.jit(axpy_source)


def streams_events_and_copies():
    digest = hashlib.sha256()
    streams = [cuda.stream() for _ in range(4)]
    events = [cuda.event(timing=False) for _ in streams]
    begin, end = cuda.event(), cuda.event()
    host = cuda.pinned_array(N, dtype=np.float32)
    host[:] = np.arange(N)
    buffers = [cuda.device_array(N, dtype=np.float32, stream=s) for s in streams]
    begin.record(streams[0])
    for turn in range(40):
        for i, s in enumerate(streams):
            buffers[i].copy_to_device(host if i == 0 else buffers[i - 1], stream=s)
            axpy[N // 256, 256, s](buffers[i], buffers[i], 2.0)
            events[i].record(s)
            events[i].wait(streams[(i + 1) % len(streams)])
        if turn % 10 == 9:
            for b, s in zip(buffers, streams):
                out = b.copy_to_host(stream=s)
                s.synchronize()
                digest.update(out.tobytes())
            host[:] += 1
    end.record(streams[0])
    end.synchronize()
    print(digest.hexdigest(), all(e.query() for e in events), begin.elapsed_time(end) > 0)
    cuda.synchronize()


def threads_and_memory_of_every_kind():
    sums = [0.0] * 4
    cuda.current_context()  # Numba itself does not start in several threads at once

    def work(i):
        s = cuda.per_thread_default_stream()
        a = cuda.to_device(np.full(N, i + 1.0), stream=s)
        for _ in range(20):
            axpy[N // 256, 256, s](a, a, 1.0)
        out = a.copy_to_host(stream=s)
        s.synchronize()
        sums[i] = float(out.sum())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(sums))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(sums)
    mapped = cuda.mapped_array(N, dtype=np.int32)
    mapped[:] = 3
    managed = cuda.managed_array(N, dtype=np.float32)
    managed[:] = 2
    axpy[N // 256, 256](managed, managed, 1.0)
    cuda.synchronize()
    print(int(mapped.sum()), float(managed.sum()))
    for shape in ((0, 256), (16, 4096), (16, 256)):
        try:
            axpy[shape](managed, managed, 1.0)
            print("launched")
        except Exception as why:
            print(type(why).__name__)
    free, total = cuda.current_context().get_memory_info()
    print(0 < free <= total)


# One process for both: it spends its time on importing Numba.
streams_events_and_copies()
threads_and_memory_of_every_kind()
print("end")
