"""JAX: a jitted training step, and loops and branches that the device decides."""

import os

# The same kernels in every run; and loops and branches as conditional nodes of graphs.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_gpu_autotune_level=0 --xla_gpu_graph_min_graph_size=1 "
    "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CONDITIONAL,WHILE",
)
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("JAX_PLATFORMS", "cuda")  # never the processor in its place

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax._src import hardware_utils  # noqa: E402

hardware_utils.has_visible_nvidia_gpu = lambda: True  # it looks for /dev/nvidia0


@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(lambda w: (jnp.tanh(x @ w) ** 2).mean())(w)


@jax.jit
def powers(x):
    return jax.lax.fori_loop(0, 5, lambda i, v: v @ v, x)


@jax.jit
def loop(x):
    return jax.lax.while_loop(lambda v: v[0, 0] < 5, lambda v: jnp.tanh(v @ v) + 1, x)


@jax.jit
def branch(p, x):
    return jax.lax.cond(p, lambda x: jnp.sin(x @ x), lambda x: jnp.cos(x) @ x, x)


@jax.jit
def case(i, x):
    return jax.lax.switch(i, [lambda x: x + 1, lambda x: x @ x, jnp.exp], x)


weights = jnp.ones((64, 64))
for _ in range(10):
    weights = step(weights, jnp.ones((32, 64)))
weights.block_until_ready()
square = jnp.ones((16, 16))
powers(square).block_until_ready()
for i in range(3):
    loop(square).block_until_ready()
    branch(i > 1, square).block_until_ready()
    case(i, square).block_until_ready()
print("jax", jax.__version__, "ok")
