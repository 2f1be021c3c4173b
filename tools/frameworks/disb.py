"""DISB with real models: clients ask models at batch 1, some in real time, some as best effort.

    disb.py --workload A|B|C|D|E|REAL [--seconds S]

Three sets of processes are started one after the other, and each runs its modes with the models loaded:
one process with all clients in threads (`sequential`: one request at a time; `streams`: a stream each;
`priority-streams`), one process per client (`rt-only`: the real-time clients alone; `native`), and one
process per client under cutin (`cutin`). Latency counts from the arrival. Prints one JSON object; exit
status 77 and a reason where the models cannot run here."""

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import threading
import time

from programs import SKIPPED, Program, fail_cleanly, percentiles_ms

READY_S = 150

# ---- workloads: (model, requests per second, arrivals) ----------------------------------------------

C_BEST_EFFORT = [(m, 100, "even") for m in ("densenet201", "densenet201", "vgg19", "distilbert", "resnet152")]
WORKLOADS = {
    "A": ([("vgg19", 100, "even")], [("resnet152", 100, "even")]),
    "B": ([("vgg19", 220, "even")], [("resnet152", 220, "even")]),
    "C": ([("vgg19", 100, "even")], C_BEST_EFFORT),
    "D": ([(m, 20, "even") for m in ("vgg19", "resnet152", "densenet201", "inception_v3", "distilbert")],
          C_BEST_EFFORT),
    "E": ([("vgg19", 100, "random")], C_BEST_EFFORT),
    "REAL": ([("resnet152", 1 / 0.115, "100 to 130 ms")], C_BEST_EFFORT),
}
MODES = {"one": ("sequential", "streams", "priority-streams"), "native": ("rt-only", "native"), "cutin": ("cutin",)}


def arrivals(kind, rate, seconds, seed):
    draw, t, out = random.Random(seed), 0.0, []
    while t < seconds:
        out.append(t)
        t += {"even": 1 / rate, "random": draw.expovariate(rate), "100 to 130 ms": draw.uniform(0.1, 0.13)}[kind]
    return out


# ---- models ------------------------------------------------------------------------------------------


class TorchModels:
    """The models themselves, with random weights."""

    def __init__(self):
        try:
            import torch
            import torchvision
        except ImportError as why:
            raise SystemExit(self.absent(f"no PyTorch with torchvision: {why}")) from None
        if not torch.cuda.is_available():
            raise SystemExit(self.absent("PyTorch sees no GPU"))
        self.torch, self.zoo = torch, torchvision.models
        torch.manual_seed(1)
        torch.set_grad_enabled(False)

    @staticmethod
    def absent(why):
        print(why, file=sys.stderr)
        return SKIPPED

    def make(self, name, urgent):
        torch = self.torch
        if name == "distilbert":
            try:
                from transformers import DistilBertConfig, DistilBertModel
            except ImportError as why:
                raise SystemExit(self.absent(f"no transformers: {why}")) from None
            model = DistilBertModel(DistilBertConfig())
            question = torch.randint(0, 30000, (1, 128))
        else:
            more = {"init_weights": True} if name == "inception_v3" else {}
            model = getattr(self.zoo, name)(weights=None, **more)
            size = 299 if name == "inception_v3" else 224
            question = torch.randn(1, 3, size, size)
        model, question = model.eval().cuda(), question.pin_memory()
        streams = {False: torch.cuda.Stream(), True: torch.cuda.Stream(priority=-1 if urgent else 0)}

        def answer(by_priority=False):
            with torch.cuda.stream(streams[by_priority]):
                out = model(question.cuda(non_blocking=True))
                out = out.last_hidden_state if name == "distilbert" else out
                return out.cpu()

        return answer

    def attach(self):
        self.torch.set_grad_enabled(False)  # a setting of each thread


class Chains:
    """Kernels that only take time, in the models' proportions: needs no package."""

    KERNELS = {"vgg19": 8, "resnet152": 20, "densenet201": 20, "inception_v3": 14, "distilbert": 7}

    def __init__(self):
        import driver

        self.driver, self.gpu = driver, driver.Gpu()

    def make(self, name, urgent):
        chain = self.driver.Chain(self.gpu, self.KERNELS[name], 20)
        hurried = self.driver.Chain(self.gpu, self.KERNELS[name], 20, priority=-1 if urgent else 0)
        return lambda by_priority=False: (hurried if by_priority else chain).run(1)

    def attach(self):
        self.gpu.attach()


# ---- a process of clients ----------------------------------------------------------------------------


class Client:
    def __init__(self, models, name, rate, kind, urgent, seed):
        self.models, self.name, self.rate, self.kind = models, name, rate, kind
        self.urgent, self.seed = urgent, seed
        self.answer = models.make(name, urgent)
        for by_priority in (False, True, False):
            self.answer(by_priority)

    def run(self, mode, seconds, turn):
        """Requests until the time is over: what was answered, and for real time how soon."""
        self.latencies, self.answered = [], 0
        if mode == "rt-only" and not self.urgent:
            return
        self.models.attach()
        start = time.monotonic()
        for due in arrivals(self.kind, self.rate, seconds, self.seed):
            now = time.monotonic() - start
            if now >= seconds:
                break
            time.sleep(max(0.0, due - now))
            with turn:
                self.answer(mode == "priority-streams")
            self.answered += 1
            self.latencies.append(time.monotonic() - start - due)
        self.took = time.monotonic() - start

    def result(self):
        out = {"model": self.name, "urgent": self.urgent, "answered": self.answered,
               "per_s": round(self.answered / self.took, 2) if self.answered else 0}
        return {**out, **percentiles_ms(self.latencies)} if self.urgent else out


def serve(o):
    """In a process of its own: the clients of --serve, mode after mode, each when its file appears."""
    models = {"torch": TorchModels, "chain": Chains}[o.models]()
    clients = [Client(models, *c) for c in json.loads(o.serve)]
    print("ready", file=sys.stderr, flush=True)
    results = {}
    for mode in o.modes.split(","):
        while not os.path.exists(os.path.join(o.folder, mode)):
            time.sleep(0.002)
        turn = threading.Lock() if mode == "sequential" else contextlib.nullcontext()
        threads = [threading.Thread(target=c.run, args=(mode, o.seconds, turn)) for c in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        results[mode] = [c.result() for c in clients if c.urgent or mode != "rt-only"]
        print("done", mode, file=sys.stderr, flush=True)
    print(json.dumps(results))
    return 0


# ---- all of them -------------------------------------------------------------------------------------


def clients_of(workload):
    urgent, rest = WORKLOADS[workload]
    return [(*c, True, i) for i, c in enumerate(urgent)] + [(*c, False, 100 + i) for i, c in enumerate(rest)]


def run_set(which, o):
    """Starts the processes of a set and gives the signal for each mode: {mode: [results of clients]}."""
    clients = clients_of(o.workload)
    groups = [clients] if which == "one" else [[c] for c in clients]
    out, programs = {mode: [] for mode in MODES[which]}, []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for group in groups:
                level = ("rt" if group[0][3] else "be") if which == "cutin" else None
                programs.append(Program(
                    [sys.executable, os.path.abspath(__file__), "--serve", json.dumps(group), "--folder", folder,
                     "--modes", ",".join(MODES[which]), "--seconds", str(o.seconds), "--models", o.models],
                    level, o.sim))
            for program in programs:
                program.says("ready", READY_S)
            for mode in MODES[which]:
                open(os.path.join(folder, mode), "w").close()
                for program in programs:
                    program.says(f"done {mode}", o.seconds + 60)
            for program in programs:
                for mode, results in program.wait(30).items():
                    out[mode] += results
        finally:
            for program in programs:
                program.kill()
    return out


def summary(modes):
    """What the workload's table shows, per mode: real-time latency against rt-only, and throughput."""
    def urgent(mode, key):
        return [c[key] for c in modes[mode] if c["urgent"] and c.get("n")]

    out = {}
    for mode, clients in modes.items():
        versus = [a / b for a, b in zip(urgent(mode, "p99_ms"), urgent("rt-only", "p99_ms")) if b]
        alone = sum(c["per_s"] for c in modes["rt-only"])
        out[mode] = {"rt_p99_ms": urgent(mode, "p99_ms"), "rt_mean_ms": urgent(mode, "mean_ms"),
                     "rt_p99_vs_alone": round(max(versus), 3) if versus else None,
                     "throughput_vs_rt_only": round(sum(c["per_s"] for c in clients) / alone, 3) if alone else None}
    return out


def main():
    parser = argparse.ArgumentParser(description="DISB with real models")
    parser.add_argument("--workload", choices=WORKLOADS, default="A")
    parser.add_argument("--seconds", type=float, default=3, help="per mode (3)")
    parser.add_argument("--models", choices=("torch", "chain"), default="torch",
                        help="chain: kernels that only take time (torch)")
    parser.add_argument("--sim", action="store_true", help="on the simulated GPU")
    for hidden in ("--serve", "--folder", "--modes"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.serve:
        return serve(o)
    modes = {}
    for which in ("native", "one", "cutin"):
        modes.update(run_set(which, o))
    print(json.dumps({"workload": o.workload, "models": o.models, "seconds": o.seconds, "summary": summary(modes),
                      "modes": modes}))
    return 0


if __name__ == "__main__":
    fail_cleanly(main)
