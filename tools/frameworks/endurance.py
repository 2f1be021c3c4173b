"""Many steps of a PyTorch training job beside a real-time service that is killed and started again and again:

    endurance.py [--steps N] [--kills K] [--service c|pytorch]

The job runs twice on the simulated GPU: bare and alone, then as best effort under cutin beside the service,
which gets SIGKILL K times, spread evenly over the steps, at whatever it is doing: mostly after it has given
the device work, every eighth time perhaps while it starts. The order of the job's operations
in each stream must be the same, no step may be missing, and the job and the daemon may not grow: resident memory
after the first twentieth of the steps, and at the end, within 5 %. Prints a table; exit status 1 where one of
these fails, 77 and a reason where PyTorch is absent. 100,000 steps take about 3 minutes bare and 6 beside the
service, on 2 processors that do nothing else."""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import worklog
from programs import Failed, Program, ROOT, cutin, example, fail_cleanly

READY_S, STALL_S = 600, 120
EVERY = 20  # steps between two lines of progress
EARLY = 8   # one in so many kills does not wait until the service has served
WARM = 20   # the part of the steps after which memory is looked at first: 1 / WARM
MOST_GROWTH = 0.05
ONCE_A_STEP = "nll_loss_forward"
SERVICES = {"c": ["rt_inference", "--rate", "50"], "pytorch": ["pytorch_serve", "--rate", "25"]}


def options():
    parser = argparse.ArgumentParser(description="a long PyTorch training beside a service that is killed")
    parser.add_argument("--steps", type=int, default=100000, help="steps of the training job each time (100000)")
    parser.add_argument("--kills", type=int, default=200, help="how often the service is killed (200)")
    parser.add_argument("--service", choices=SERVICES, default="c",
                        help="pytorch: takes seconds to start each time (c)")
    parser.add_argument("--kernel-us", type=int, default=20, help="simulated time of a kernel (20)")
    parser.add_argument("--seed", type=int, default=1, help="random seed of the times of the kills (1)")
    parser.add_argument("--train", metavar="FILE", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- the job, in a process of its own ----------------------------------------------------------------


def resident(pid="self"):
    """(resident, of that anonymous) in KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file)
    return int(rows["VmRSS"].split()[0]), int(rows["RssAnon"].split()[0])


def train(o):
    """Steps of a small network; writes step, memory, time and processor time to a file as it goes."""
    try:
        import torch
    except ImportError as why:
        print(f"no PyTorch: {why}", file=sys.stderr)
        return 77
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x, y = torch.randn(32, 64, device="cuda"), torch.zeros(32, dtype=torch.long, device="cuda")
    with open(o.train, "w", buffering=1, encoding="ascii") as progress:
        for step in range(1, o.steps + 1):
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if step % EVERY == 0 or step == o.steps:
                loss.item()
                print(step, *resident(), f"{time.monotonic():.3f} {time.process_time():.3f}", file=progress)
    torch.cuda.synchronize()
    print("{}", flush=True)
    return 0


class Job:
    """The job, its works, and how far it is."""

    def __init__(self, o, folder, name, level):
        self.o, self.progress = o, os.path.join(folder, f"{name}.progress")
        self.reader = worklog.Reader(os.path.join(folder, f"{name}.works"))
        argv = [sys.executable, os.path.abspath(__file__), "--steps", str(o.steps), "--train", self.progress]
        self.began = time.monotonic()
        self.program = Program(argv, level, True, {"SIMGPU_LOG": self.reader.path,
                                                   "SIMGPU_KERNEL_US": str(o.kernel_us)})
        self.moved = self.step_seen = 0

    def rows(self):
        """[(step, resident, anonymous, seconds, processor seconds)], those that are whole."""
        if not os.path.exists(self.progress):
            return []
        with open(self.progress, encoding="ascii") as file:
            return [tuple(map(float, line.split())) for line in file if line.endswith("\n")]

    def step(self):
        """The last step known; Failed where nothing moves any more."""
        size = os.path.getsize(self.progress) if os.path.exists(self.progress) else 0
        if not size:
            return self.watch(0)
        with open(self.progress, "rb") as file:
            file.seek(max(0, size - 200))
            whole = [line for line in file.read().split(b"\n")[:-1] if line.count(b" ") == 4]
        return self.watch(int(whole[-1].split()[0]) if whole else 0)

    def watch(self, step):
        now = time.monotonic()
        if step != self.step_seen or not self.moved:
            self.step_seen, self.moved = step, now
        if now - self.moved > (STALL_S if step else READY_S):
            raise Failed(f"the training job makes no progress after step {step}")
        return step

    def running(self):
        return self.program.process.poll() is None

    def finish(self):
        """(works, rows, seconds)"""
        while self.running():
            self.step()
            time.sleep(0.05)
        took = time.monotonic() - self.began
        self.program.wait(1)
        return self.reader.finish(), self.rows(), took


# ---- the service -------------------------------------------------------------------------------------


class Service:
    """Real time, in one life after the other."""

    def __init__(self, o, folder):
        name, *words = SERVICES[o.service]
        self.argv = [cutin(), "run", "--sim", "--priority", "rt", "--", *example(name), *words,
                     "--seconds", "86400"]
        self.log = os.path.join(folder, "service.log")
        self.lives = self.served = self.works = 0
        self.start()

    def start(self):
        env = dict(os.environ, SIMGPU_LOG=self.log)
        self.process = subprocess.Popen(self.argv, env=env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.lives += 1

    def has_served(self):
        return os.path.exists(self.log) and os.path.getsize(self.log) > 0

    def kill(self):
        """SIGKILL, and what it had done until then."""
        if self.process.poll() is not None:
            raise Failed(f"the service ended by itself, exit status {self.process.returncode}")
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if self.has_served():
            with open(self.log, "rb") as log:
                self.works += sum(1 for _ in log)
            self.served += 1
            os.unlink(self.log)


def kill_moments(o):
    """Steps at which the service dies: one in each K-th part of them."""
    draw, part = random.Random(o.seed), o.steps / (o.kills + 1)
    return [int(part * (k + draw.random())) + 1 for k in range(1, o.kills + 1)]


def beside(o, folder, daemon):
    """The job under cutin beside the service: (works, rows, seconds, service, the daemon's memory)."""
    job = Job(o, folder, "cutin", "be")
    service, memory = None, []
    try:
        while job.running() and not job.step():
            time.sleep(0.02)
        service = Service(o, folder)
        for number, moment in enumerate(kill_moments(o)):
            early = number % EARLY == 0
            while job.running() and (job.step() < moment or not (early or service.has_served())):
                time.sleep(0.01)
            if not job.running():
                break
            service.kill()
            service.start()
            if service.lives * WARM >= o.kills:
                memory.append(resident(daemon))
        return *job.finish(), service, memory
    finally:
        job.program.kill()
        if service:
            service.process.kill()
            service.process.wait()


def bare(o, folder):
    job = Job(o, folder, "bare", None)
    try:
        return job.finish()
    finally:
        job.program.kill()


# ---- the verdict ------------------------------------------------------------------------------------


def growth(rows):
    """(before, after, growth) of resident memory, and of its anonymous part, in KiB."""
    warm = next(row for row in rows if row[0] >= rows[-1][0] / WARM)
    return [(warm[i], rows[-1][i], rows[-1][i] / warm[i] - 1) for i in (1, 2)]


def memory_line(who, figures):
    (rss, rss_after, grown), (anon, anon_after, _) = figures
    print(f"{who:24}{rss:10.0f}{rss_after:12.0f}{grown * 100:+9.2f} %{anon_after - anon:+14.0f}")
    return grown <= MOST_GROWTH


def complaints(o, one, other, service):
    if service.lives - 1 < o.kills:
        yield f"the service was killed {service.lives - 1} times while the job ran, not {o.kills}"
    differs = worklog.difference(one, other)
    if differs:
        yield f"the order of operations differs: {differs}"
    for name, works in (("bare", one), ("under cutin", other)):
        if works.count(ONCE_A_STEP) != o.steps:
            yield f"{name}: {works.count(ONCE_A_STEP)} steps on the device instead of {o.steps}"


def report(o, one, other, service, daemon):
    """Prints everything; whether all is well."""
    print(f"{'':24}{'steps':>10}{'steps/s':>12}{'CPU ms/step':>14}{'operations':>12}")
    for name, (works, rows, _) in (("bare, alone", one), ("cutin, beside service", other)):
        steps, wall, cpu = (rows[-1][i] - rows[0][i] for i in (0, 3, 4))
        print(f"{name:24}{rows[-1][0]:10.0f}{steps / wall:12.1f}{cpu / steps * 1e3:14.2f}{works.count():12}")
    print(f"\nthe service was killed {service.lives - 1} times, {service.served} times after it had served; "
          f"it gave the device {service.works} operations")
    print(f"\n{'resident memory, KiB':24}{'before':>10}{'after':>12}{'':11}{'anonymous':>14}")
    fine = memory_line("job, bare", growth(one[1]))
    fine &= memory_line("job, under cutin", growth(other[1]))
    if daemon:
        fine &= memory_line("cutind", growth([(i + 1, *row) for i, row in enumerate(daemon)]))
    said = list(complaints(o, one[0], other[0], service))
    print("\n" + ("; ".join(said) or "order of all operations equal") + "; " +
          ("no memory grew by 5 %" if fine else "MEMORY GREW"))
    return fine and not said


def run(o, folder):
    os.environ.update(CUTIN_SOCKET=os.path.join(folder, "cutin.sock"), CUTIN_PROFILE="off",
                      SIMGPU_ID=f"endurance{os.getpid()}")
    daemon = subprocess.Popen([str(ROOT / "build" / "bin" / "cutind"), "--socket", os.environ["CUTIN_SOCKET"]])
    try:
        one = bare(o, folder)
        print(f"== bare: {one[2]:.0f} s", flush=True)
        *other, service, memory = beside(o, folder, daemon.pid)
        print(f"== beside the service: {other[2]:.0f} s\n", flush=True)
        return 0 if report(o, one, other, service, memory) else 1
    finally:
        daemon.terminate()
        daemon.wait()


def main():
    o = options()
    if o.train:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        return train(o)
    with tempfile.TemporaryDirectory() as folder:
        return run(o, folder)


if __name__ == "__main__":
    fail_cleanly(main)
