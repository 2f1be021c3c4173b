"""Triton Inference Server, with the models of examples/triton:

    triton_server.py                        each model over HTTP and gRPC; batches of four, which wait until they are
                                            full: else it were the time that makes them
    triton_server.py --seconds S [--json]   four requests of `dense` at any time, by Triton's perf_analyzer: their
                                            latencies, and the device's time for a batch

Exit status 77 where there is no pytriton."""

import argparse
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = str(ROOT / "tools" / "frameworks"), str(ROOT / "examples" / "triton")
import client
import server
from programs import Failed, Skipped, fail_cleanly, percentiles_ms

BATCH = 4
UNTIL_FULL_US = 600_000_000
WAIT_US = 2000
LOAD_KERNEL_US = 400  # a batch takes the device longer than Triton and Python on the host


def free_port():
    """The first of three in a row that nobody has."""
    for port in range(18000, 30000, 3):
        try:
            for one in range(port, port + 3):
                with socket.socket() as trial:
                    trial.bind(("", one))
            return port
        except OSError:
            continue
    raise Failed("no free port")


def options():
    parser = argparse.ArgumentParser(description="Triton Inference Server with two models")
    parser.add_argument("--seconds", type=float, help="serve a load for so long")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser.parse_args()


PERF_ANALYZER = pathlib.Path(sys.prefix) / "bin" / "perf_analyzer"


def load(port, seconds):
    """Latencies of requests in seconds, and requests per second. The load is no part of the service, and so not under cutin."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    with tempfile.TemporaryDirectory() as folder:
        libraries = next(pathlib.Path(sys.prefix).glob("lib/python3*/site-packages/nvidia_pytriton.libs"))
        for name, pattern in ("libb64.so.0d", "libb64-*"), ("libcudart.so.12", "libcudart-*"):
            (pathlib.Path(folder) / name).symlink_to(next(libraries.glob(pattern)))
        environment["LD_LIBRARY_PATH"] += ":" + folder
        requests = pathlib.Path(folder) / "requests.json"
        # Three measurements, of which it is content with any.
        done = subprocess.run([PERF_ANALYZER, "-m", "dense", "-i", "grpc",
                               "-u", f"localhost:{port + 1}", "--concurrency-range", str(BATCH),
                               "--measurement-interval", str(int(seconds * 1000 / 3)), "--max-trials", "3",
                               "--stability-percentage", "999", "--profile-export-file", requests],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode or not requests.exists():
            raise Failed(f"perf_analyzer: {done.stdout.strip().splitlines()[-1]}")
        experiment, = json.loads(requests.read_text())["experiments"]
    times = [(r["timestamp"], r["response_timestamps"][-1]) for r in experiment["requests"]]
    took = (max(end for _, end in times) - min(begin for begin, _ in times)) / 1e9
    return [(end - begin) / 1e9 for begin, end in times], round(len(times) / took, 1)


def serve(triton, port, seconds):
    """What requests and batches took."""
    wrong = client.rounds(port, 1, BATCH, sys.stderr)  # warm
    triton.forget()
    began = time.monotonic()
    latencies, per_s = load(port, seconds)
    return {**percentiles_ms(latencies), "requests": len(latencies), "requests_per_s": per_s,
            "wrong": wrong, **triton.took()["dense"], "began_s": began, "ended_s": time.monotonic()}


def main():
    o, out = options(), sys.stdout
    if o.seconds is not None and not PERF_ANALYZER.exists():
        raise Skipped("triton_server.py needs perf_analyzer, which tritonclient 2.50.0 brings")
    port = free_port()
    try:
        settings = {"wait_us": UNTIL_FULL_US, "kernel_us": 100}
        if o.seconds is not None:
            settings = {"wait_us": WAIT_US, "kernel_us": LOAD_KERNEL_US}
        triton = server.Server(argparse.Namespace(port=port, batch=BATCH, instances=1, **settings))
    except ImportError as why:
        raise Skipped(f"triton_server.py needs nvidia-pytriton: {why}") from None
    with contextlib.redirect_stdout(sys.stderr), triton:  # pytriton prints Triton's log
        if o.seconds is None:
            return client.rounds(port, 2, BATCH, out)
        result = serve(triton, port, o.seconds)
    print(json.dumps(result) if o.json else result)
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    fail_cleanly(main)
