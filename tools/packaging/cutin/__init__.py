"""What a program may tell cutin, and ask of it: the functions of cutin.h in Python.

No program needs this. Where libcutin.so is not in the process nothing happens. CUDA must be initialised,
and a context current.
"""

import contextlib
import ctypes
import typing

__all__ = ["loaded", "soon", "section", "stream_state", "StreamState"]

_process = ctypes.CDLL(None)
#: Whether this process runs under cutin: `cutin run`, or libcutin.so in LD_PRELOAD.
loaded = hasattr(_process, "cutin_version")


def _call(name, *arguments):
    return loaded and getattr(_process, name)(*arguments) == 0


def soon(us):
    """Real-time work comes within `us` microseconds: hold what is below now. 0 takes it back.

    False where nobody can be held: without cutin, or at level `be`.
    """
    return _call("cutin_hint_soon", ctypes.c_uint(us))


@contextlib.contextmanager
def section():
    """A request of this thread is under way: what is below is held throughout, between its kernels too."""
    begun = _call("cutin_section_begin")
    try:
        yield
    finally:
        if begun:
            _call("cutin_section_end")


class _State(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)]
    _fields_ += [(name, ctypes.c_uint) for name in ("level", "queued", "held", "buffered", "in_flight")]
    _fields_ += [(name, ctypes.c_ulonglong) for name in ("submitted", "dropped")]


class StreamState(typing.NamedTuple):
    level: int  # 0, best effort, to 3, real time
    queued: bool  # False: goes straight to the driver, and what follows is 0
    held: int  # 1: others' work above it runs, 2: the program holds it
    buffered: int  # commands that wait in its queue
    in_flight: int  # given to the driver and not known complete
    submitted: int  # commands, so far
    dropped: int


def stream_state(stream=0):
    """What the queue of a stream looks like now; None without cutin, or where the stream is none.

    `stream` is the driver's handle (torch.cuda.Stream.cuda_stream, cupy.cuda.Stream.ptr); 0: the default one.
    """
    state = _State(size=ctypes.sizeof(_State))
    if not _call("cutin_stream_state", ctypes.c_void_p(stream), ctypes.byref(state)):
        return None
    values = {name: getattr(state, name) for name in StreamState._fields}
    return StreamState(**{**values, "queued": bool(state.queued)})
