#!/usr/bin/env python3
"""Kernels of one's own in Triton: an update of integers that shows the order of launches, and a softmax.

It knows nothing of cutin. Both lines print the same checksum:

    python3 triton_kernel.py --steps 2000
    cutin run -- python3 triton_kernel.py --steps 2000

Every launch of `mix` multiplies and adds, so one that is lost, repeated or overtaken changes the result,
which is also computed here.
"""

import argparse
import hashlib
import json
import signal
import sys
import time

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as why:
    print(f"triton_kernel.py needs PyTorch and Triton: {why}", file=sys.stderr)
    sys.exit(77)


@triton.jit
def mix(x, a, b, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * a + b, mask=i < n)


@triton.jit
def softmax(out, x, columns, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + i, powers / tl.sum(powers, axis=0), mask=i < columns)


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="stop after this many; 0: no limit (1000)")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu with TRITON_INTERPRET=1 (cuda)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args()


def main():
    o = options()
    if o.device == "cuda" and not torch.cuda.is_available():
        print("triton_kernel.py: PyTorch sees no GPU", file=sys.stderr)
        return 77
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    rows, columns, block = 512, 1000, 1024
    words = torch.arange(rows * columns, dtype=torch.int32, device=o.device)
    x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)).to(o.device)
    out = torch.empty_like(x)
    factor, term = 1, 0  # what all updates so far amount to

    def step(number):
        nonlocal factor, term
        a, b = number % 97 * 2 + 3, number % 1009
        mix[(triton.cdiv(words.numel(), block),)](words, a, b, words.numel(), BLOCK=block)
        softmax[(rows,)](out, x if number == 0 else out, columns, BLOCK=block)
        factor, term = factor * a % 2**32, (term * a + b) % 2**32

    step(0)  # compiles
    out.cpu()
    print("training", file=sys.stderr, flush=True)
    steps, start = 1, time.monotonic()
    while not stopped and (o.steps == 0 or steps < o.steps):
        step(steps)
        steps += 1
        if steps % 100 == 0:
            words[:1].cpu()
    answer = words.cpu()
    elapsed = time.monotonic() - start
    expected = torch.arange(rows * columns, dtype=torch.int64) * factor + term
    right = torch.equal(answer.to(torch.int64) % 2**32, expected % 2**32)
    result = {
        "gpu": torch.cuda.get_device_name() if o.device == "cuda" else "none", "version": triton.__version__,
        "steps": steps, "steps_per_s": round((steps - 1) / elapsed, 2), "right": right,
        "checksum": hashlib.sha256(answer.numpy().tobytes() + out.cpu().numpy().tobytes()).hexdigest()[:16],
    }
    print(json.dumps(result) if o.json else
          "{gpu}: {steps} steps, {steps_per_s} steps/s, checksum {checksum}".format(**result))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
