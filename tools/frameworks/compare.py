"""One program bare, bare again, and under cutin as best effort beside a real-time service:

    compare.py --case NAME        compare.py --list

Where the two bare runs print the same checksum, the one under cutin has to print it as well; the programs of
tools/zoo (zoo_NAME) print results, which have to be the same in full. Prints one JSON object; exit status 77 and a reason where the program cannot run here."""

import argparse
import importlib.util
import json
import sys

from programs import Failed, Program, ROOT, Skipped, example, fail_cleanly, run

CASE = str(ROOT / "tools" / "frameworks" / "cases.py")

# What runs, and how many steps of it.
CASES = {
    "driver_chain": ([sys.executable, CASE, "driver_chain"], 300),
    "torch_eager": (example("pytorch_train"), 150),
    "torch_amp": (example("pytorch_train") + ["--amp"], 150),
    "torch_compile": (example("pytorch_train") + ["--compile"], 100),
    "torch_graphs": ([sys.executable, CASE, "torch_graphs"], 2000),
    "torch_streams": ([sys.executable, CASE, "torch_streams"], 500),
    "jax": (example("jax_train"), 1000),
    "cupy": ([sys.executable, CASE, "cupy"], 2000),
    "numba": ([sys.executable, CASE, "numba"], 1000),
    "triton": (example("triton_kernel"), 1000),
}
# The Python programs of tools/zoo: what they import, and how they are called.
ZOO = {
    "pycuda": ["pycuda", "pycuda_streams.py", str(ROOT / "examples" / "kernels.ptx")],
    "halide": ["halide", "halide_tiles.py"],
    "taichi": ["taichi", "taichi_field.py"],
    "numba": ["numba", "numba_kernels.py"],
    "tinygrad": ["tinygrad", "tinygrad_jit.py"],
    "cupy": ["cupy", "cupy_arrays.py"],
    "jax": ["jax", "jax_steps.py"],
    "torch": ["torch", "torch_suite.py"],
    "triton": ["triton", "triton_kernels.py"],
}
CASES.update({f"zoo_{name}": None for name in ZOO})
NEIGHBOUR = ["--rate", "50", "--json"]


def neighbour(level, sim, *more):
    return Program([*example("rt_inference"), *NEIGHBOUR, *more], level, sim)


def compare(name, sim):
    argv, steps = CASES[name]
    if sim:
        argv, steps = argv + ["--quick"], 20
    argv = argv + ["--steps", str(steps)] + (["--json"] if "cases.py" not in argv[1] else [])
    bare = run(argv, sim=sim)
    again = run(argv, sim=sim)
    alone = neighbour("rt", sim, "--requests", "10" if sim else "100").wait(30)
    beside = neighbour("rt", sim, "--seconds", "3600")
    try:
        held = run(argv, "be", sim)
        service = beside.stop()
    finally:
        beside.kill()
    reproducible = bare["checksum"] == again["checksum"]
    identical = held["checksum"] == bare["checksum"]
    print(json.dumps({
        "case": name, "version": bare.get("version"), "reproducible": reproducible,
        "identical": identical, "bare": bare, "bare_again": again, "beside_real_time": held,
        "throughput_ratio": round(held["steps_per_s"] / bare["steps_per_s"], 3) if bare["steps_per_s"] else None,
        "service_alone": alone, "service_beside": service,
    }))
    if reproducible and not identical:
        raise Failed(f"{name}: the result differs under cutin")
    return 0


def compare_zoo(name, sim):
    module, script, *arguments = ZOO[name]
    if importlib.util.find_spec(module) is None:
        raise Skipped(f"no {module} here")
    argv = [sys.executable, str(ROOT / "tools" / "frameworks" / "zoo" / script), *arguments]
    try:
        bare = Program(argv, None, sim).text(60)
    except Failed as why:
        raise Skipped(f"does not run bare: {why}") from None
    again = Program(argv, None, sim).text(60)
    beside = neighbour("rt", sim, "--seconds", "3600")
    try:
        held = Program(argv, "be", sim).text(100)
        service = beside.stop()
    finally:
        beside.kill()
    print(json.dumps({"case": f"zoo_{name}", "reproducible": bare == again, "identical": held == bare,
                      "lines": len(bare.splitlines()), "service_beside": service}))
    if bare == again and held != bare:
        raise Failed(f"{name}: its output differs under cutin")
    return 0


def main():
    parser = argparse.ArgumentParser(description="one program bare and under cutin")
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--list", action="store_true", help="list the cases; with --sim, those that need no GPU")
    parser.add_argument("--sim", action="store_true", help="on the simulated GPU")
    o = parser.parse_args()
    if o.list:
        print("\n".join(n for n in CASES if not o.sim or n == "driver_chain" or n.startswith("zoo_")))
        return 0
    if not o.case:
        parser.error("no case given; see --list")
    return compare_zoo(o.case[4:], o.sim) if o.case.startswith("zoo_") else compare(o.case, o.sim)


if __name__ == "__main__":
    fail_cleanly(main)
