"""What cutin costs PyTorch: host time, processor time and throughput of a training step and of a request.

    cost.py [--sim] [--rounds N] [--json FILE]

What tools/demo --pytorch --cost runs. Three processes hold the same models: bare, as real time
(pass-through), and as best effort, alone (inline) or with its stream held (held: calls are buffered, then the
stream is released). The training step is a transformer's, with AdamW. They take turns in blocks of steps, round after round, so that the machine's noise meets
them alike; a figure is the median over the rounds, and what is added is the median of the differences to bare
of the same round. On the simulated GPU it is done twice: with a device that takes no time, which
shows what the host does, and with one whose kernels take theirs, which shows throughput."""

import argparse
import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

from programs import Failed, SKIPPED, ROOT, cutin, fail_cleanly

MODES = {"bare": ("bare", False), "pass-through": ("rt", False), "inline": ("be", False), "held": ("be", True)}
WORK = {"train": "training step", "serve": "request"}
UNTOUCHED = ("cuCtxGetDevice", "cuDevicePrimaryCtxGetState")  # nine in ten calls of PyTorch
READY_S = 240
KEYS = ("host_ms", "cpu_ms", "done_ms")
HELD_BLOCK = 2  # steps in a row that a queue has room for: the optimizer's kernels have large parameters
HELD_S = 5  # a call that cannot be buffered waits for the release; it comes by then


def options():
    parser = argparse.ArgumentParser(description="what cutin costs PyTorch")
    parser.add_argument("--sim", action="store_true", help="on the simulated GPU")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of all modes (15)")
    parser.add_argument("--block", type=int, default=10,
                        help="steps and requests in a row; two when the stream is held (10)")
    parser.add_argument("--kernel-us", type=int, default=60, help="simulated time of a kernel (60)")
    parser.add_argument("--json", metavar="FILE", help="write all figures as a JSON object to FILE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- a process with the models ------------------------------------------------------------------------


class Training:
    """A transformer's training step; what it needs is on the GPU."""

    def __init__(self, torch):
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        self.model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.x, self.loss = torch.randn(16, 64, 256, device="cuda"), torch.nn.MSELoss()

    def step(self, _):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.model(self.x), self.x).backward()
        self.optimizer.step()


class Models:
    """Steps that wait for nothing: what they need is on the GPU or in pinned memory."""

    def __init__(self):
        sys.path.insert(0, str(ROOT / "examples"))
        import pytorch_serve
        import torch

        self.torch, self.stream = torch, torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.service = pytorch_serve.Service(argparse.Namespace(device="cuda", model="transformer", seed=1))
            self.answer = torch.empty_like(self.service.expected[0], pin_memory=True)
            torch.use_deterministic_algorithms(False)  # the service wants it
            self.training = Training(torch)
        self.work = {"train": self.training.step, "serve": self.serve}
        library = ctypes.CDLL(None)
        self.hold = getattr(library, "cutin_stream_hold", None)
        self.release = getattr(library, "cutin_stream_release", None)
        for work in WORK:
            self.block(work, 10, False)

    def serve(self, number):
        with self.torch.inference_mode():
            questions = self.service.questions
            question = questions[number % len(questions)].to(self.service.device, non_blocking=True)
            self.answer.copy_(self.service.model(question), non_blocking=True)

    def begin_hold(self, stream):
        if self.hold(stream):
            raise Failed("the stream cannot be held")
        rescue = threading.Timer(HELD_S, self.release, [stream])
        rescue.start()
        return rescue

    def end_hold(self, stream, rescue):
        """Whether calls were buffered until now."""
        in_time = rescue.is_alive()
        rescue.cancel()
        rescue.join()
        self.release(stream)
        return in_time

    def block(self, work, count, held):
        """Milliseconds per step until the calls are back, of processors, and until the work is done."""
        stream, buffered = ctypes.c_void_p(self.stream.cuda_stream), True
        rescue = self.begin_hold(stream) if held else None
        with self.torch.cuda.stream(self.stream):
            began, busy = time.perf_counter(), time.process_time()
            for number in range(count):
                self.work[work](number)
            called = time.perf_counter()
        if held:
            buffered = self.end_hold(stream, rescue)
        self.stream.synchronize()
        done, busy = time.perf_counter(), time.process_time() - busy
        return {"host_ms": (called - began) / count * 1e3, "cpu_ms": busy / count * 1e3,
                "done_ms": (done - began) / count * 1e3, "buffered": buffered}


class Symbol(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]


def owner(name, version):
    """The library whose function cuGetProcAddress hands out, which is how the CUDA runtime finds it."""
    cuda, found, status = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
    cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(0),
                             ctypes.byref(status))
    symbol = Symbol()
    ctypes.CDLL(None).dladdr(found, ctypes.byref(symbol))
    return pathlib.Path(symbol.file.decode()).name if symbol.file else "nobody"


def worker():
    """Does the blocks that stdin asks for, and prints what each took."""
    try:
        import torch
    except ImportError as why:
        print(f"no PyTorch: {why}", file=sys.stderr)
        return SKIPPED
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU", file=sys.stderr)
        return SKIPPED
    models = Models()
    import gc
    gc.collect()
    gc.disable()
    held = os.environ.get("CUTIN_PRIORITY") == "be"  # real time has no queues
    buffered = {work: held and models.block(work, HELD_BLOCK, True)["buffered"] for work in WORK}
    owners = {name: sorted({owner(name, version) for version in (12000, 12080, 13000)}) for name in UNTOUCHED}
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "version": torch.__version__, "owners": owners,
                      "buffered": buffered}), flush=True)
    for line in sys.stdin:
        work, count, held = line.split()
        print(json.dumps(models.block(work, int(count), held == "held")), flush=True)
    return 0


# ---- taking turns -------------------------------------------------------------------------------------


class Worker:
    def __init__(self, kind, o, device):
        argv = [sys.executable, os.path.abspath(__file__), "--worker"]
        env = dict(os.environ, **device)
        if kind != "bare":
            argv = [cutin(), "run", *(["--sim"] if o.sim else []), "--priority", kind, "--", *argv]
        elif o.sim:
            env["LD_LIBRARY_PATH"] = str(ROOT / "build/lib/simgpu")
        self.process = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            if status == SKIPPED:
                sys.exit(SKIPPED)
            raise Failed(f"a process ended, exit status {status}")
        return json.loads(line)

    def block(self, work, count, held):
        self.process.stdin.write(f"{work} {count} {'held' if held else 'free'}\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.kill()
        self.process.wait()


def rounds(o, device):
    """({(work, mode): [block, ...]}, what each kind of process said of itself)"""
    workers, out = {}, {}
    try:
        for kind in ("bare", "rt", "be"):
            workers[kind] = Worker(kind, o, device)
        facts = {kind: w.answer() for kind, w in workers.items()}
        for number in range(o.rounds):
            modes = list(MODES.items())
            for mode, (kind, held) in modes[number % len(modes):] + modes[:number % len(modes)]:
                for work in (w for w in WORK if not held or facts["be"]["buffered"][w]):
                    out.setdefault((work, mode), []).append(workers[kind].block(
                        work, HELD_BLOCK if held else o.block, held))
        return out, facts
    finally:
        for w in workers.values():
            w.end()


def figures(blocks):
    """{work: {mode: medians, and what is added to bare in per cent}}"""
    out = {}
    for (work, mode), of in blocks.items():
        row = {key: round(statistics.median(b[key] for b in of), 4) for key in KEYS}
        for key in KEYS:
            bare = blocks[work, "bare"]
            row["added_" + key] = round(statistics.median(b[key] / a[key] - 1 for a, b in zip(bare, of)) * 100, 2)
        row["per_s"] = round(1000 / row["done_ms"], 1)
        out.setdefault(work, {})[mode] = row
    return out


def show(title, result):
    print(f"\n{title}\n{'':31}{'host time, ms':>20}{'processors, ms':>20}{'per second':>20}")
    for work, modes in result.items():
        for mode, row in modes.items():
            added = ["" if mode == "bare" else f"{row[k]:+.1f} %" for k in ("added_host_ms", "added_cpu_ms")]
            pace = "" if mode == "bare" else f"{row['per_s'] / modes['bare']['per_s'] * 100 - 100:+.1f} %"
            print(f"{WORK[work] if mode == 'bare' else '':17}{mode:14}{row['host_ms']:11.3f}{added[0]:>9}"
                  f"{row['cpu_ms']:11.3f}{added[1]:>9}{row['per_s']:11.1f}{pace:>9}")
        if "held" not in modes:
            print(f"{'':17}{'held':14}  not measured: one of its calls cannot be buffered, and waits for the release")


def devices(o):
    if not o.sim:
        return {"on this GPU": {}}
    return {"on a simulated GPU that takes no time: what the host does": {"SIMGPU_NULL": "1"},
            f"on a simulated GPU whose kernels take {o.kernel_us} us": {"SIMGPU_KERNEL_US": str(o.kernel_us)}}


def untouched(facts):
    """Prints whose functions PyTorch gets for its most frequent calls; whether they are the driver's."""
    own = True
    for name in UNTOUCHED:
        libraries = sorted({library for fact in facts.values() for library in fact["owners"][name]})
        own &= len(libraries) == 1 and libraries[0].startswith("libcuda.so")
        print(f"{name}: {', '.join(libraries)} in every mode" + (", cutin is not in between" if own else ""))
    return own


def main():
    o = options()
    if o.worker:
        return worker()
    every, facts = {}, {}
    for title, device in devices(o).items():
        print(f"== {title}", flush=True)
        blocks, facts = rounds(o, device)
        every[title] = figures(blocks)
    print(f"\nGPU: {facts['bare']['gpu']}; PyTorch {facts['bare']['version']}; {os.cpu_count()} processors; "
          f"medians of {o.rounds} rounds of {o.block}")
    for title, result in every.items():
        show(title, result)
    print()
    own = untouched(facts)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump({"facts": facts, "figures": every}, file)
    return 0 if own else 1


if __name__ == "__main__":
    fail_cleanly(main)
