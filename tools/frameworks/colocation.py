"""A training job beside services, each service under `rt` and the job under `be`; and each of them alone,
and all of them natively:

    colocation.py --pair NAME [--seconds S]        colocation.py --list

The services get an hour's worth of arrivals, its rises, lulls and bursts, compressed into S seconds.
Prints one JSON object, or the latencies as a table (--table); exit status 77 and a reason where the programs
cannot run here, 1 where an answer was wrong or --within does not hold."""

import argparse
import json
import sys
import time

from programs import ROOT, Failed, Program, example, fail_cleanly, pace, progress

READY_S, MORE_S = 900, 60
# What only some services say, in the table.
MORE = {"requests_per_s": "requests/s", "device_p50_ms": "device p50 ms", "device_p99_ms": "device p99 ms"}


def torch_service(model, rate):
    return lambda s: example("pytorch_serve") + ["--model", model, "--rate", str(rate), "--seconds", str(s),
                                                 "--arrivals", "hour", "--json"]


def c_service(seconds):
    return example("rt_inference") + ["--rate", "60", "--seconds", str(seconds), "--realtime", "--spin-us", "200",
                                      "--json"]


def zoo_service(name):
    program = ROOT / "tools" / "frameworks" / "zoo" / f"{name}.py"
    return lambda seconds: [sys.executable, str(program), "--seconds", str(seconds), "--json"]


# Services, by name, and the job; `ready` is what a Python program says when it is warm.
PAIRS = {
    "c_examples": ({"rt_inference": c_service}, example("be_training") + ["--json"], None),
    "resnet50": ({"resnet50": torch_service("resnet50", 40)},
                 example("pytorch_train") + ["--steps", "0", "--json"], "training"),
    "transformer": ({"transformer": torch_service("transformer", 60)},
                    example("pytorch_train") + ["--steps", "0", "--json"], "training"),
    "vllm": ({"vllm": zoo_service("vllm_serve")}, example("pytorch_train") + ["--steps", "0", "--json"], "training"),
    "triton-server": ({"triton": zoo_service("triton_server")},
                      example("be_training") + ["--announce", "--progress", "--json"], "training"),
}


def ready(program, word):
    if word:
        program.says(word, READY_S)


def finish(programs):
    """The results of programs that end by themselves."""
    return {name: p.wait(seconds) for name, (p, seconds) in programs.items()}


def while_served(job, worker, services):
    """The job's pace only while a service answered, where both say when: a service may start for long."""
    worker.err.seek(0)
    rows = progress(worker.err.readlines())
    for service in services.values():
        if rows and "began_s" in service:
            steps_per_s = pace(rows, service["began_s"], service["ended_s"])
            return {**job, "steps_per_s": steps_per_s if steps_per_s is not None else 0}
    return job


def measure(pair, seconds, sim, service_level=None, job_level=None, with_service=True, with_job=True):
    """One arrangement: {"services": {name: result}, "job": result}."""
    services, job, word = pair
    running, worker, out = {}, None, {}
    try:
        if with_job:
            timed = ["--seconds", str(seconds)] if word is None and not with_service else []
            worker = Program(job + timed, job_level, sim)
            ready(worker, word)
        if with_service:
            running = {name: (Program(make(seconds), service_level, sim), seconds + READY_S + MORE_S)
                       for name, make in services.items()}
            out["services"] = finish(running)
        elif word is not None:
            time.sleep(seconds)
        if worker:
            out["job"] = worker.wait(seconds + MORE_S) if timed else worker.stop(MORE_S)
            out["job"] = while_served(out["job"], worker, out.get("services", {}))
        return out
    finally:
        for program, _ in running.values():
            program.kill()
        if worker:
            worker.kill()


def wrong_answers(arrangement):
    return sum(s.get("wrong", 0) or 0 for s in arrangement.get("services", {}).values())


def ratios(alone, job_alone, other):
    """Latency and throughput against alone."""
    out = {"job": round(other["job"]["steps_per_s"] / job_alone["steps_per_s"], 3)} if "job" in other else {}
    for name, service in other.get("services", {}).items():
        for key in ("p50_ms", "p99_ms", "p50_us", "p99_us", "device_p50_ms", "device_p99_ms"):
            if service.get(key) and alone["services"][name].get(key):
                out[f"{name}_{key[:-3]}"] = round(service[key] / alone["services"][name][key], 3)
    return out


def table(arrangements):
    """A row for each arrangement and service; `arrangements` by name."""
    more = [key for key in MORE if any(key in s for a in arrangements.values() for s in a["services"].values())]
    print(f"{'':8} {'service':14} {'p50 ms':>9} {'p99 ms':>9} {'requests':>9} {'job, steps/s':>13}"
          + "".join(f"{MORE[key]:>14}" for key in more))
    for name, arrangement in arrangements.items():
        for service, result in arrangement["services"].items():
            p50, p99 = (result[f"{p}_ms"] if f"{p}_ms" in result else result[f"{p}_us"] / 1e3 for p in ("p50", "p99"))
            print(f"{name:8} {service:14} {p50:9.1f} {p99:9.1f} {result['requests']:9} "
                  f"{arrangement['job']['steps_per_s']:13.1f}" + "".join(f"{result[key]:14.2f}" for key in more))


def check(pair, alone, cutin, within):
    if wrong_answers(cutin):
        raise Failed(f"{wrong_answers(cutin)} answers of a service were wrong")
    found = ratios(alone, alone["job"], cutin)
    for name, times in found.items():  # by the device's clock, where the service has it
        if within and name.endswith("_p99") and times > within and name.replace("_p99", "_device_p99") not in found:
            raise Failed(f"{pair}: {name} under cutin is {times} times alone, more than {within}")


def main():
    parser = argparse.ArgumentParser(description="a training job beside services")
    parser.add_argument("--pair", choices=PAIRS)
    parser.add_argument("--seconds", type=float, default=60, help="seconds per arrangement (60)")
    parser.add_argument("--batch", type=int, help="pictures per step of a PyTorch training (64)")
    parser.add_argument("--list", action="store_true", help="list the pairs")
    parser.add_argument("--table", action="store_true", help="print a table instead of JSON")
    parser.add_argument("--within", type=float, metavar="R",
                        help="fail where a service's p99 under cutin is more than R times alone")
    parser.add_argument("--sim", action="store_true", help="on the simulated GPU")
    o = parser.parse_args()
    if o.list:
        print("\n".join(PAIRS))
        return 0
    if not o.pair:
        parser.error("no pair given; see --list")
    services, job, word = PAIRS[o.pair]
    pair = services, job + (["--batch", str(o.batch)] if o.batch and word else []), word
    # A quarter of the time for those whose figures are steady.
    alone = measure(pair, o.seconds, o.sim, with_job=False)
    alone["job"] = job = measure(pair, o.seconds / 4, o.sim, with_service=False)["job"]
    native = measure(pair, o.seconds / 2, o.sim)
    cutin = measure(pair, o.seconds, o.sim, "rt", "be")
    if o.table:
        table({"alone": alone, "native": native, "cutin": cutin})
    else:
        print(json.dumps({
            "pair": o.pair, "batch": o.batch, "seconds": o.seconds, "alone": alone, "native": native, "cutin": cutin,
            "native_vs_alone": ratios(alone, job, native), "cutin_vs_alone": ratios(alone, job, cutin),
        }))
    check(o.pair, alone, cutin, o.within)
    return 0


if __name__ == "__main__":
    fail_cleanly(main)
