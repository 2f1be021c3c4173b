#!/usr/bin/env python3
"""A training job in JAX: a perceptron on made-up data, compiled by XLA.

It knows nothing of cutin. Beside a service that has to answer in time, start it as best effort:

    python3 jax_train.py --steps 2000
    cutin run -- python3 jax_train.py --steps 2000

The checksum is of the trained weights. JAX takes three quarters of the GPU's memory unless told not to;
this script tells it not to, because two programs have to fit.
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# XLA picks algorithms by timing them, which may come out differently from run to run.
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true")


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="stop after this many; 0: no limit (1000)")
    parser.add_argument("--batch", type=int, default=1024, help="rows per step (1024)")
    parser.add_argument("--width", type=int, default=2048, help="width of the hidden layers (2048)")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the script (cuda)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args()


def main():
    o = options()
    os.environ.setdefault("JAX_PLATFORMS", o.device)
    try:
        import jax
        import jax.numpy as jnp
        import numpy
    except ImportError as why:
        print(f"jax_train.py needs JAX: {why}", file=sys.stderr)
        return 77
    try:
        device = jax.devices()[0]
    except (RuntimeError, AssertionError) as why:
        print(f"jax_train.py: JAX sees no GPU: {why}".splitlines()[0], file=sys.stderr)
        return 77

    widths = (64, o.width, o.width, 1)
    keys = jax.random.split(jax.random.key(1), len(widths) + 1)
    weights = [jax.random.normal(k, (a, b)) / a**0.5 for k, a, b in zip(keys, widths, widths[1:])]
    x = jax.random.normal(keys[-2], (o.batch, widths[0]))
    y = jnp.sin(x.sum(axis=1, keepdims=True))

    def loss_of(w):
        hidden = x
        for layer in w[:-1]:
            hidden = jax.nn.relu(hidden @ layer)
        return jnp.mean((hidden @ w[-1] - y) ** 2)

    @jax.jit
    def step(w):
        loss, slope = jax.value_and_grad(loss_of)(w)
        return [a - 0.01 * b for a, b in zip(w, slope)], loss

    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    weights, loss = step(weights)  # compiles
    steps = 1
    loss.block_until_ready()
    print("training", file=sys.stderr, flush=True)
    start = time.monotonic()
    while not stopped and (o.steps == 0 or steps < o.steps):
        weights, loss = step(weights)
        steps += 1
        if steps % 50 == 0:
            loss.block_until_ready()
    checksum = hashlib.sha256(b"".join(numpy.asarray(w).tobytes() for w in weights)).hexdigest()[:16]
    result = {
        "gpu": device.device_kind, "version": jax.__version__, "steps": steps,
        "steps_per_s": round((steps - 1) / (time.monotonic() - start), 2), "loss": round(float(loss), 4),
        "checksum": checksum,
    }
    print(json.dumps(result) if o.json else
          "{gpu}: {steps} steps, {steps_per_s} steps/s, loss {loss}, checksum {checksum}".format(**result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
