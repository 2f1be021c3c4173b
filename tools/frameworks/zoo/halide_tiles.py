"""Halide: a schedule for the GPU, compiled and realised."""

import halide

x, block, thread = halide.Var("x"), halide.Var("block"), halide.Var("thread")
twice = halide.Func("twice")
twice[x] = x * 2
twice.gpu_tile(x, block, thread, 16)
result = twice.realize([64], halide.get_host_target().with_feature(halide.TargetFeature.CUDA))
result.copy_to_host()
assert result.width() == 64
print("halide ok")
