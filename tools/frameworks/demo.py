"""A service beside a training job: each alone, both natively, both under cutin.

    demo.py [--tensorrt] [--sim] [--seconds S] [--rate R] [--kernel-us S T] [--json FILE]

What tools/demo --pytorch and --tensorrt run. The service answers the same requests, at the same times, in each of its
three runs; its latency counts from a request's arrival. The job runs throughout, and its steps are counted while the
service serves. Then results are compared: the losses that the job printed, except PyTorch's on the simulated GPU,
where its kernels have no effect; and on that the order of the job's operations in each stream and the number of its
steps. Exit status 1 where they differ, 77 and a reason where one of the two cannot run here."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import worklog
from programs import Failed, Program, example, fail_cleanly, pace, progress

READY_S, MORE_S, TRAIN_ALONE = 240, 60, 0.5
ONCE_A_STEP = {"pytorch_train": "nll_loss_forward", "be_training": "copy_htod"}  # a work of the training step
MODES = {"native": (None, None), "cutin": ("rt", "be")}


def options():
    parser = argparse.ArgumentParser(description="a service beside a training job")
    parser.add_argument("--tensorrt", action="store_true", help="serve with TensorRT for RTX")
    parser.add_argument("--job-python", metavar="PYTHON", default=sys.executable,
                        help="the Python that trains (this one); with '', examples/be_training trains")
    parser.add_argument("--sim", action="store_true", help="on the simulated GPU")
    parser.add_argument("--seconds", type=float, default=40, help="how long the service runs each time (40)")
    parser.add_argument("--rate", type=float, default=25, help="requests per second, on average (25)")
    parser.add_argument("--kernel-us", type=int, nargs=2, default=(60, 200), metavar=("SERVICE", "JOB"),
                        help="simulated time of a kernel: the service's, the job's (60 200)")
    parser.add_argument("--json", metavar="FILE", help="write all figures as a JSON object to FILE")
    parser.add_argument("--keep", metavar="FOLDER", help="keep progress and event logs in this folder")
    return parser.parse_args()


def urgent_class():
    """Words that give the service a real-time class of the operating system, where that may be had."""
    words = ("chrt", "-r", "1")
    if not shutil.which("chrt") or subprocess.run([*words, "true"], capture_output=True).returncode:
        return ()
    return words


class Demo:
    def __init__(self, o, folder):
        self.o, self.folder, self.urgent = o, folder, urgent_class()
        self.load = os.getloadavg()[0]  # without its own
        self.trains = "pytorch_train" if o.job_python else "be_training"

    def file(self, mode, what):
        return os.path.join(self.folder, f"{mode}.{what}")

    def surroundings(self, mode, who, kernel_us):
        if not self.o.sim:
            return {}
        return {"SIMGPU_LOG": self.file(mode, f"{who}.log"), "SIMGPU_KERNEL_US": str(kernel_us)}

    def service(self, mode, level):
        argv = example("tensorrt_serve" if self.o.tensorrt else "pytorch_serve")
        argv += ["--rate", str(self.o.rate), "--seconds", str(self.o.seconds), "--json"]
        if self.o.tensorrt:  # built while it is alone
            argv += ["--engine", self.file("service", "engine")]
        return Program(argv, level, self.o.sim, self.surroundings(mode, "service", self.o.kernel_us[0]),
                       self.urgent)

    def job(self, mode, level):
        argv = example(self.trains, self.o.job_python) + ["--steps", "0", "--json", "--progress"]
        argv += [self.file(mode, "steps")] if self.o.job_python else ["--announce"]
        return Program(argv, level, self.o.sim, self.surroundings(mode, "job", self.o.kernel_us[1]))

    def service_alone(self):
        program = self.service("alone", None)
        try:
            return program.wait(self.o.seconds + READY_S + MORE_S)
        finally:
            program.kill()

    def job_alone(self):
        program = self.job("alone", None)
        try:
            program.says("training", READY_S)
            began = time.monotonic()
            time.sleep(self.o.seconds * TRAIN_ALONE)
            return self.counted("alone", program, began, began + self.o.seconds * TRAIN_ALONE)
        finally:
            program.kill()

    def together(self, mode):
        """Both, the job warm before the service comes: their results."""
        service_level, job_level = MODES[mode]
        job = self.job(mode, job_level)
        service = None
        try:
            job.says("training", READY_S)
            service = self.service(mode, service_level)
            answers = service.wait(self.o.seconds + READY_S + MORE_S)
            return answers, self.counted(mode, job, answers["began_s"], answers["ended_s"])
        finally:
            for program in (service, job):
                if program:
                    program.kill()

    def counted(self, mode, job, began, ended):
        """Stops the job: its result with the steps per second between two times, and its losses."""
        result = job.stop(MORE_S)
        if self.o.job_python:
            with open(self.file(mode, "steps"), encoding="ascii") as file:
                lines = file.readlines()
        else:
            job.err.seek(0)
            lines = job.err.readlines()
        rows = progress(lines)
        steps_per_s = pace(rows, began, ended)
        if steps_per_s is None:
            raise Failed(f"the training job ({mode}) made fewer than 20 steps in the time")
        return {**result, "steps_per_s": steps_per_s, "losses": {step: loss for step, _, loss in rows}}

    # ---- are the results the same? -----------------------------------------------------------------

    def same_work(self, jobs):
        """Of the simulated GPU: the order of operations, and the number of steps. (Equal?, in words.)"""
        works = {mode: worklog.read(self.file(mode, "job.log")) for mode in jobs}
        for mode, job in jobs.items():
            found = works[mode].count(ONCE_A_STEP[self.trains])
            if found != job["steps"]:
                return False, f"{mode}: {job['steps']} steps, but the device ran {found}"
        for of in works.values() if self.o.job_python else ():
            of.end_after(ONCE_A_STEP[self.trains])  # what the end brings came at another step
        for mode in MODES:
            differs = worklog.difference(works["alone"], works[mode], prefix=True)
            if differs:
                return False, f"alone and {mode}: {differs}"
        shared = min(w.count() for w in works.values())
        return True, f"order of the job's first {shared} operations equal three times, every step there"

    def same_losses(self, jobs):
        shared = sorted(set.intersection(*(set(job["losses"]) for job in jobs.values())))
        for step in shared:
            losses = {mode: job["losses"][step] for mode, job in jobs.items()}
            if len(set(losses.values())) > 1:
                return False, f"loss of step {step}: {losses}"
        return True, f"loss of every tenth of the job's first {shared[-1]} steps equal three times"

    def same(self, jobs):
        equal, words = self.same_work(jobs) if self.o.sim else self.same_losses(jobs)
        if self.o.sim and self.o.job_python:
            words += "; kernels have no effect on a simulated GPU, so there is no loss to compare"
        elif self.o.sim and equal:
            equal, more = self.same_losses(jobs)
            words += "; " + more
        return equal, words


def table(services, jobs, o):
    device = ("device_p50_ms", "device_p99_ms") if o.tensorrt else ()
    clock = (f"{'by device clock':>20}", f"{'p50':>10}{'p99':>10}") if device else ("", "")
    print(f"\n{'':8}{'latency of requests, ms':>32}{clock[0]}{'requests':>10}{'training,':>14}")
    print(f"{'':8}{'p50':>12}{'p99':>10}{'max':>10}{clock[1]}{'answered':>10}{'steps/s':>14}")
    for mode, s in services.items():
        print(f"{mode:8}{s['p50_ms']:12.1f}{s['p99_ms']:10.1f}{s['max_ms']:10.1f}"
              + "".join(f"{s[name]:10.2f}" for name in device)
              + f"{s['requests']:10}{jobs[mode]['steps_per_s']:14.1f}")


def verdict(services, jobs, o):
    """The figures that the table is about."""
    which = "device_p99_ms" if o.tensorrt else "p99_ms"
    p99 = {mode: s[which] / services["alone"][which] for mode, s in services.items()}
    kept = jobs["cutin"]["steps_per_s"] / jobs["native"]["steps_per_s"]
    return {"native_p99": round(p99["native"], 2), "cutin_p99": round(p99["cutin"], 2), "job_kept": round(kept, 2)}


def conditions(demo, service):
    o = demo.o
    text = f"GPU: {service['gpu']}; {'TensorRT for RTX' if o.tensorrt else 'PyTorch'} {service['version']}; "
    text += f"{demo.trains} trains; {os.cpu_count()} processors, load {demo.load:.0f} before"
    if o.sim:
        text += f"; a kernel of the service takes {o.kernel_us[0]} us, of the job {o.kernel_us[1]} us, both simulated"
    if "CUTIN_GATES" in os.environ:
        text += "; CUTIN_GATES=" + os.environ["CUTIN_GATES"]
    return text + ("; service under " + " ".join(demo.urgent) if demo.urgent else "")


def run(o, folder):
    demo = Demo(o, folder)
    print("== the service alone, then the training job alone", flush=True)
    services, jobs = {"alone": demo.service_alone()}, {"alone": demo.job_alone()}
    for mode, how in (("native", "natively"), ("cutin", "under cutin")):
        print(f"== both, {how}", flush=True)
        services[mode], jobs[mode] = demo.together(mode)
    equal, words = demo.same(jobs)
    figures = verdict(services, jobs, o)
    print("\n" + conditions(demo, services["alone"]))
    table(services, jobs, o)
    clock = " by the device's clock" if o.tensorrt else ""
    print("\np99 against alone{0}: native {native_p99}, cutin {cutin_p99}; training under cutin keeps {job_kept} of "
          "what it has natively".format(clock, **figures))
    print(f"results: {'equal' if equal else 'DIFFERENT'}: {words}")
    wrong = {mode: s["wrong"] for mode, s in services.items() if s["wrong"]}
    if wrong and not o.sim:
        print(f"wrong answers of the service: {wrong}")
    if o.json:
        with open(o.json, "w", encoding="utf-8") as file:
            json.dump({"services": services, "jobs": jobs, "equal": equal, **figures}, file)
    return 0 if equal and (o.sim or not wrong) else 1


def main():
    o = options()
    if o.keep:
        os.makedirs(o.keep, exist_ok=True)
        return run(o, o.keep)
    with tempfile.TemporaryDirectory() as folder:
        return run(o, folder)


if __name__ == "__main__":
    fail_cleanly(main)
