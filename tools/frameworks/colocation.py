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

from programs import ROOT, Failed, Program, example, fail_cleanly

READY_S, MORE_S = 900, 60


def torch_service(model, rate):
    return lambda s: example("pytorch_serve") + ["--model", model, "--rate", str(rate), "--seconds", str(s),
                                                 "--arrivals", "hour", "--json"]


def c_service(seconds):
    return example("rt_inference") + ["--rate", "60", "--seconds", str(seconds), "--realtime", "--spin-us", "200",
                                      "--json"]


def vllm_service(seconds):
    program = ROOT / "tools" / "frameworks" / "zoo" / "vllm_serve.py"
    return [sys.executable, str(program), "--seconds", str(seconds), "--json"]


# Services, by name, and the job; `ready` is what a Python program says when it is warm.
PAIRS = {
    "c_examples": ({"rt_inference": c_service}, example("be_training") + ["--json"], None),
    "resnet50": ({"resnet50": torch_service("resnet50", 40)},
                 example("pytorch_train") + ["--steps", "0", "--json"], "training"),
    "transformer": ({"transformer": torch_service("transformer", 60)},
                    example("pytorch_train") + ["--steps", "0", "--json"], "training"),
    "vllm": ({"vllm": vllm_service}, example("pytorch_train") + ["--steps", "0", "--json"], "training"),
}


def ready(program, word):
    if word:
        program.says(word, READY_S)


def finish(programs):
    """The results of programs that end by themselves."""
    return {name: p.wait(seconds) for name, (p, seconds) in programs.items()}


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
        for key in ("p50_ms", "p99_ms", "p50_us", "p99_us"):
            if service.get(key) and alone["services"][name].get(key):
                out[f"{name}_{key[:3]}"] = round(service[key] / alone["services"][name][key], 3)
    return out


def table(arrangements):
    """A row for each arrangement and service; `arrangements` by name."""
    print(f"{'':8} {'service':14} {'p50 ms':>9} {'p99 ms':>9} {'requests':>9} {'job, steps/s':>13}")
    for name, arrangement in arrangements.items():
        for service, result in arrangement["services"].items():
            p50, p99 = (result[f"{p}_ms"] if f"{p}_ms" in result else result[f"{p}_us"] / 1e3 for p in ("p50", "p99"))
            print(f"{name:8} {service:14} {p50:9.1f} {p99:9.1f} {result['requests']:9} "
                  f"{arrangement['job']['steps_per_s']:13.1f}")


def check(pair, alone, cutin, within):
    if wrong_answers(cutin):
        raise Failed(f"{wrong_answers(cutin)} answers of a service were wrong")
    for name, times in ratios(alone, alone["job"], cutin).items():
        if within and name.endswith("_p99") and times > within:
            raise Failed(f"{pair}: {name} under cutin is {times} times alone, more than {within}")


def main():
    parser = argparse.ArgumentParser(description="a training job beside services")
    parser.add_argument("--pair", choices=PAIRS)
    parser.add_argument("--seconds", type=float, default=60, help="per arrangement (60)")
    parser.add_argument("--batch", type=int, help="pictures per step of a training in PyTorch (64)")
    parser.add_argument("--list", action="store_true", help="the pairs")
    parser.add_argument("--table", action="store_true", help="a table, not JSON")
    parser.add_argument("--within", type=float, metavar="R",
                        help="fail where a service's p99 under cutin is more than R times alone")
    parser.add_argument("--sim", action="store_true", help="on the simulated GPU")
    o = parser.parse_args()
    if o.list:
        print("\n".join(PAIRS))
        return 0
    if not o.pair:
        parser.error("which pair? see --list")
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
