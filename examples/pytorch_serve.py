#!/usr/bin/env python3
"""An inference service in PyTorch: requests arrive, a model answers each, latencies are noted.

It knows nothing of cutin. Beside a training job, start it in real time:

    python3 pytorch_serve.py --model resnet50 --rate 50 --seconds 20
    cutin run --priority rt -- python3 pytorch_serve.py --model resnet50 --rate 50 --seconds 20

Latency counts from the arrival of a request, so one that waits behind a late one is late too. The
weights are random but seeded, so nothing is downloaded; the checksum is of the answers to a fixed set of
questions, and every later answer must equal the first one to its question. SIGINT and SIGTERM end it with
its summary, and when they come again a second later, without one.
"""

import argparse
import ctypes
import gc
import hashlib
import json
import math
import os
import random
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

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # which is not needed
try:
    import torch
    from torch import nn
except ImportError as why:
    print(f"pytorch_serve.py needs PyTorch: {why}", file=sys.stderr)
    sys.exit(77)

QUESTIONS = 8


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=("transformer", "resnet50"), default="transformer")
    parser.add_argument("--rate", type=float, default=50, help="requests per second, on average (50)")
    parser.add_argument("--seconds", type=float, default=10, help="how long (10)")
    parser.add_argument("--arrivals", choices=("even", "poisson", "hour"), default="poisson",
                        help="hour: the rises, lulls and bursts of an hour, compressed (poisson)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the script (cuda)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args()


def transformer():
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), lambda g: torch.randn(1, 128, 512, generator=g)


def resnet50():
    try:
        from torchvision.models import resnet50 as make
    except ImportError as why:
        print(f"pytorch_serve.py --model resnet50 needs torchvision: {why}", file=sys.stderr)
        sys.exit(77)
    return make(weights=None), lambda g: torch.randn(1, 3, 224, 224, generator=g)


def arrivals(kind, rate, seconds, seed):
    """Times from 0 to `seconds`. The hour's rate swings between a fifth and nearly twice the mean, with
    six bursts of three times that; arrivals are drawn by thinning."""
    if kind == "even":
        return [i / rate for i in range(int(rate * seconds))]
    draw = random.Random(seed)
    bursts = [draw.uniform(0, seconds) for _ in range(6)]

    def at(t):
        if kind == "poisson":
            return rate
        wave = 1 - 0.8 * math.cos(2 * math.pi * t / seconds)
        return rate * wave * (3 if any(0 <= t - b < seconds / 120 for b in bursts) else 1)

    most, t, out = rate * 6, 0.0, []
    while True:
        t += draw.expovariate(most)
        if t >= seconds:
            return out
        if draw.random() < at(t) / most:
            out.append(t)


class Service:
    def __init__(self, o):
        torch.manual_seed(o.seed)
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # every element is written
        torch.set_num_threads(1)  # little is done on the processor, and threads that wait for it would spin
        self.device = torch.device(o.device)
        model, question = {"transformer": transformer, "resnet50": resnet50}[o.model]()
        self.model = model.eval().to(self.device)
        generator = torch.Generator().manual_seed(o.seed)
        self.questions = [question(generator) for _ in range(QUESTIONS)]
        if o.device == "cuda":
            self.questions = [q.pin_memory() for q in self.questions]
        with torch.inference_mode():
            for _ in range(3):  # loads kernels, chooses algorithms
                self.expected = [self.answer(q) for q in self.questions]

    def answer(self, question):
        return self.model(question.to(self.device, non_blocking=True)).cpu()  # waits for the GPU

    def checksum(self):
        sum_ = hashlib.sha256()
        for answer in self.expected:
            answer = answer.contiguous()
            sum_.update(ctypes.string_at(answer.data_ptr(), answer.nbytes))
        return sum_.hexdigest()[:16]


def wait_until(due):
    """In short sleeps, so that a signal is noticed."""
    while not stopped:
        left = due - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, 0.1))
    return False


def serve(service, o):
    """Latencies in seconds from each request's arrival, and how many answers were wrong."""
    latencies, wrong, start = [], 0, time.monotonic()
    with torch.inference_mode():
        for number, due in enumerate(arrivals(o.arrivals, o.rate, o.seconds, o.seed)):
            if not wait_until(start + due):
                break
            answer = service.answer(service.questions[number % QUESTIONS])
            latencies.append(time.monotonic() - start - due)
            wrong += not torch.equal(answer, service.expected[number % QUESTIONS])
    return latencies, wrong, (start, time.monotonic())


def main():
    o = options()
    if o.device == "cuda" and not torch.cuda.is_available():
        print("pytorch_serve.py: PyTorch sees no GPU", file=sys.stderr)
        return 77
    service = Service(o)
    gc.collect()
    gc.freeze()
    gc.disable()  # a collection takes as long as a request
    print("serving", file=sys.stderr, flush=True)
    latencies, wrong, (began, ended) = serve(service, o)
    gc.unfreeze()
    latencies.sort()

    def ms(percent):
        return round(latencies[max(0, math.ceil(len(latencies) * percent / 100) - 1)] * 1e3, 3) if latencies else None

    result = {
        "gpu": torch.cuda.get_device_name() if o.device == "cuda" else "none", "version": torch.__version__,
        "model": o.model, "requests": len(latencies), "wrong": wrong, "p50_ms": ms(50), "p99_ms": ms(99),
        "max_ms": ms(100), "began_s": began, "ended_s": ended, "checksum": service.checksum(),
    }
    print(json.dumps(result) if o.json else
          "{gpu}: {requests} requests, p50 {p50_ms} ms, p99 {p99_ms} ms, {wrong} wrong, checksum {checksum}"
          .format(**result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
