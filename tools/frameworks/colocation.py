"""A training job beside services, each service under `rt` and the job under `be`; and each of them alone,
and all of them natively:

    colocation.py --pair NAME [--seconds S]        colocation.py --list

The services get an hour's worth of arrivals, its rises, lulls and bursts, compressed into S seconds.
Prints one JSON object; exit status 77 and a reason where the programs cannot run here."""

import argparse
import json
import sys
import time

from programs import Failed, Program, example, fail_cleanly

READY_S, MORE_S = 120, 60


def torch_service(model, rate):
    return lambda s: example("pytorch_serve") + ["--model", model, "--rate", str(rate), "--seconds", str(s),
                                                 "--arrivals", "hour", "--json"]


def c_service(seconds):
    return example("rt_inference") + ["--rate", "60", "--seconds", str(seconds), "--json"]


# Services, by name, and the job; `ready` is what a Python program says when it is warm.
PAIRS = {
    "c_examples": ({"rt_inference": c_service}, example("be_training") + ["--json"], None),
    "resnet50": ({"resnet50": torch_service("resnet50", 40)},
                 example("pytorch_train") + ["--steps", "0", "--json"], "training"),
    "transformer": ({"transformer": torch_service("transformer", 60)},
                    example("pytorch_train") + ["--steps", "0", "--json"], "training"),
}


def ready(program, word):
    if word:
        program.says(word, READY_S)


def finish(programs):
    """The results of programs that end by themselves."""
    return {name: p.wait(seconds) for name, (p, seconds) in programs.items()}


def measure(pair, seconds, sim, service_level=None, job_level=None, with_service=True, with_job=True):
    """One arrangement: {"services": {name: result}, "job": result}."""
    services, job, word = PAIRS[pair]
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


def main():
    parser = argparse.ArgumentParser(description="a training job beside services")
    parser.add_argument("--pair", choices=PAIRS)
    parser.add_argument("--seconds", type=float, default=60, help="per arrangement (60)")
    parser.add_argument("--list", action="store_true", help="the pairs")
    parser.add_argument("--sim", action="store_true", help="on the simulated GPU")
    o = parser.parse_args()
    if o.list:
        print("\n".join(PAIRS))
        return 0
    if not o.pair:
        parser.error("which pair? see --list")
    # A quarter of the time for those whose figures are steady.
    alone = measure(o.pair, o.seconds, o.sim, with_job=False)
    job = measure(o.pair, o.seconds / 4, o.sim, with_service=False)["job"]
    native = measure(o.pair, o.seconds / 2, o.sim)
    cutin = measure(o.pair, o.seconds, o.sim, "rt", "be")
    print(json.dumps({
        "pair": o.pair, "seconds": o.seconds, "alone": {**alone, "job": job}, "native": native, "cutin": cutin,
        "native_vs_alone": ratios(alone, job, native), "cutin_vs_alone": ratios(alone, job, cutin),
    }))
    if wrong_answers(cutin):
        raise Failed(f"{wrong_answers(cutin)} answers of a service were wrong")
    return 0


if __name__ == "__main__":
    fail_cleanly(main)
