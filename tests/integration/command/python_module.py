"""What the module `cutin` says in a process: loaded, soon, section's two ends, level and queue of a stream."""

import ctypes

import cutin

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
with cutin.section():
    inside = cutin.soon(500)
state = cutin.stream_state()
print(cutin.loaded, inside, cutin.soon(0), state and (state.level, state.queued, state.in_flight))
