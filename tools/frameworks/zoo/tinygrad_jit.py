"""tinygrad: a jitted expression, which becomes a CUDA graph."""

import os

os.environ["DEV"] = "CUDA"

from tinygrad import Tensor, TinyJit  # noqa: E402


@TinyJit
def total(a):
    return (a @ a).relu().sum().realize()


x = Tensor.rand(64, 64).realize()
for _ in range(5):
    total(x)
print("tinygrad ok")
