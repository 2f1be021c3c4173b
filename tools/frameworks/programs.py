"""Programs of a measurement: how they are started bare or under cutin, and the JSON object that each
prints as its last line. The surroundings come from tools/gpu-check: CUTIN is the command, CUTIN_EXAMPLES
the folder of the C examples, GPU_CHECK_LIBRARIES the search path of the driver."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77  # exit status of a program that lacks what it needs


class Skipped(Exception):
    pass


class Failed(Exception):
    pass


def fail_cleanly(main):
    """Runs `main`; what went wrong is the last line of stderr, as tools/gpu-check wants it. Programs that were
    started are ended when SIGTERM comes."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        sys.exit(main())
    except Skipped as why:
        print(why, file=sys.stderr)
        sys.exit(SKIPPED)
    except Failed as why:
        print(why, file=sys.stderr)
        sys.exit(1)


def cutin():
    return os.environ.get("CUTIN") or str(ROOT / "build" / "bin" / "cutin")


def example(name, python=sys.executable):
    """A program of examples/: the Python script, or what was built of the C source."""
    script = ROOT / "examples" / f"{name}.py"
    if script.exists():
        return [python, str(script)]
    folder = os.environ.get("CUTIN_EXAMPLES") or str(ROOT / "build" / "bin" / "examples")
    return [f"{folder}/{name}"]


class Program:
    """A running program. `level` None: bare, else under `cutin run` at that level. `before`: words of a
    command that starts it, such as chrt."""

    def __init__(self, argv, level=None, sim=False, environment=None, before=()):
        env = dict(os.environ, PYTHONUNBUFFERED="1", **(environment or {}))
        if level is None:
            if sim:
                env["LD_LIBRARY_PATH"] = env.get("GPU_CHECK_LIBRARIES", str(ROOT / "build/lib/simgpu"))
        else:
            argv = [cutin(), "run", *(["--sim"] if sim else []), "--priority", level, "--", *argv]
        argv = [*before, *argv]
        self.argv = argv
        self.out = tempfile.TemporaryFile("w+")
        self.err = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(argv, env=env, stdout=self.out, stderr=self.err,
                                        stdin=subprocess.DEVNULL)

    def text(self, seconds):
        """What it prints. A program that takes longer is killed."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failed(f"{' '.join(self.argv[-4:])}: not done after {seconds} s") from None
        self.err.seek(0)
        errors = self.err.read()
        sys.stderr.write(errors)
        lines = [line for line in errors.splitlines() if line.strip()]
        if status == SKIPPED:
            raise Skipped(lines[-1] if lines else "skipped")
        if status != 0:
            raise Failed(f"{' '.join(self.argv[-4:])}: exit status {status}: {lines[-1] if lines else ''}")
        self.out.seek(0)
        return self.out.read()

    def wait(self, seconds):
        """Its JSON object."""
        for line in reversed(self.text(seconds).splitlines()):
            if line.startswith("{"):
                return json.loads(line)
        raise Failed(f"{' '.join(self.argv[-4:])}: printed no JSON object")

    def stop(self, seconds=30):
        """Asks it to end (SIGTERM), and waits."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def says(self, word, seconds):
        """Waits until it has printed the word on stderr or stdout."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for stream in (self.out, self.err):
                stream.flush()
                if word in os.pread(stream.fileno(), 1 << 16, 0).decode(errors="replace"):
                    return
            if self.process.poll() is not None:
                self.wait(1)
                raise Failed(f"{' '.join(self.argv[-4:])}: ended before it was ready")
            time.sleep(0.05)
        raise Failed(f"{' '.join(self.argv[-4:])}: not ready after {seconds} s")


def progress(lines):
    """What a training job says of its steps: (step, seconds, loss) of every tenth."""
    fields = [line.split() for line in lines]
    return [(int(f[0]), float(f[2]), f[1]) for f in fields if len(f) == 3 and f[0].isdigit()]


def pace(rows, began, ended):
    """Steps per second between two times; None where it made fewer than 20."""
    within = [(step, at) for step, at, _ in rows if began <= at <= ended]
    if len(within) < 2:
        return None
    (first, since), (last, until) = within[0], within[-1]
    return round((last - first) / (until - since), 2)


def run(argv, level=None, sim=False, seconds=100, environment=None):
    return Program(argv, level, sim, environment).wait(seconds)


def percentiles_ms(seconds):
    """p50, p90, p99 and max of a list of seconds, in milliseconds."""
    ordered = sorted(seconds)
    if not ordered:
        return {"n": 0}
    def at(percent):
        return round(ordered[max(0, -(-len(ordered) * percent // 100) - 1)] * 1e3, 4)
    return {"mean_ms": round(sum(ordered) / len(ordered) * 1e3, 4), "p50_ms": at(50), "p90_ms": at(90),
            "p99_ms": at(99), "max_ms": at(100), "n": len(ordered)}
