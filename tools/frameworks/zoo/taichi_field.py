"""Taichi: a kernel over a field."""

import taichi as ti

ti.init(arch=ti.cuda)
assert ti.lang.impl.current_cfg().arch == ti.cuda, "Taichi did not take the GPU"
numbers = ti.field(ti.i32, 16)


@ti.kernel
def count():
    for i in numbers:
        numbers[i] = i


count()
ti.sync()
numbers.to_numpy()
print("taichi ok")
