#!/usr/bin/env python3
"""A training job in PyTorch: a small convolutional network on made-up pictures, with Adam.

It knows nothing of cutin. Beside a service that has to answer in time, start it as best effort:

    python3 pytorch_train.py --steps 500
    cutin run -- python3 pytorch_train.py --steps 500

The checksum is of the trained weights. All randomness is seeded and the algorithms are those that
PyTorch calls deterministic, so on one GPU both lines print the same one. SIGINT and SIGTERM end it with
its summary, and when they come again a second later, without one.
"""

import argparse
import ctypes
import hashlib
import json
import os
import signal
import sys
import time
import warnings

stopped = []


def stop(number, _):
    if stopped and time.monotonic() - stopped[0] > 1:  # asked again
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    stopped.append(time.monotonic())


if __name__ == "__main__":  # before PyTorch, which takes seconds to load
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what makes cuBLAS deterministic
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # which is not needed
try:
    import torch
    from torch import nn
except ImportError as why:
    print(f"pytorch_train.py needs PyTorch: {why}", file=sys.stderr)
    sys.exit(77)


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="stop after this many; 0: no limit (200)")
    parser.add_argument("--batch", type=int, default=64, help="pictures per step (64)")
    parser.add_argument("--size", type=int, default=64, help="their width and height (64)")
    parser.add_argument("--amp", action="store_true", help="automatic mixed precision, with loss scaling")
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the script (cuda)")
    parser.add_argument("--progress", metavar="FILE",
                        help="write step, loss and CLOCK_MONOTONIC seconds to it, every ten steps")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args()


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.MaxPool2d(2))


class Training:
    def __init__(self, o):
        torch.manual_seed(1)
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # every element is written
        torch.backends.cudnn.benchmark = False
        torch.set_num_threads(1)  # little is done on the processor, and threads that wait for it would spin
        self.device = torch.device(o.device)
        self.amp = o.amp
        self.model = nn.Sequential(block(3, 64), block(64, 128), block(128, 256), nn.Flatten(),
                                   nn.Linear(256 * (o.size // 8) ** 2, 10)).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=o.amp)
        self.forward = torch.compile(self.model) if o.compile else self.model
        pictures = torch.Generator().manual_seed(2)
        self.batches = [(torch.randn(o.batch, 3, o.size, o.size, generator=pictures),
                         torch.randint(0, 10, (o.batch,), generator=pictures)) for _ in range(4)]

    def step(self, number):
        x, y = (t.to(self.device, non_blocking=True) for t in self.batches[number % len(self.batches)])
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, dtype=torch.float16, enabled=self.amp):
            loss = nn.functional.cross_entropy(self.forward(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()

    def checksum(self):
        sum_ = hashlib.sha256()
        for tensor in self.model.state_dict().values():
            tensor = tensor.detach().cpu().contiguous()
            sum_.update(ctypes.string_at(tensor.data_ptr(), tensor.nbytes))
        return sum_.hexdigest()[:16]


def main():
    o = options()
    if o.device == "cuda" and not torch.cuda.is_available():
        print("pytorch_train.py: PyTorch sees no GPU", file=sys.stderr)
        return 77
    training = Training(o)
    loss, steps, warm = training.step(0).item(), 1, 1  # what is compiled or loaded is not timed
    if o.compile:
        loss, steps, warm = training.step(1).item(), 2, 2
    progress = open(o.progress, "w", buffering=1) if o.progress else None
    print("training", file=sys.stderr, flush=True)
    start = time.monotonic()
    while not stopped and (o.steps == 0 or steps < o.steps):
        loss = training.step(steps)
        steps += 1
        if steps % 10 == 0:
            loss = loss.item()  # as real jobs look at it now and then
            if progress:
                print(steps, loss, time.monotonic(), file=progress)
    checksum = training.checksum()
    result = {
        "gpu": torch.cuda.get_device_name() if o.device == "cuda" else "none", "version": torch.__version__,
        "steps": steps, "steps_per_s": round((steps - warm) / (time.monotonic() - start), 2),
        "loss": round(float(loss), 4), "checksum": checksum,
    }
    print(json.dumps(result) if o.json else
          "{gpu}: {steps} steps, {steps_per_s} steps/s, loss {loss}, checksum {checksum}".format(**result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
