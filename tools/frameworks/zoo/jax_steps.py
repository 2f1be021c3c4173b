"""JAX: a jitted training step and a loop on the device."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0")  # the same kernels in every run
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w)


@jax.jit
def powers(x):
    return jax.lax.fori_loop(0, 5, lambda i, v: v @ v, x)


weights = jnp.ones((64, 64))
for _ in range(10):
    weights = step(weights, jnp.ones((32, 64)))
weights.block_until_ready()
powers(jnp.ones((16, 16))).block_until_ready()
print("jax", jax.__version__, "ok")
