"""Puts the JSON files of a tools/gpu-check report together into one page:

    page.py DIR        writes DIR/README.md, and DIR/latency.svg where matplotlib is there

Only what the files say: no figure is judged."""

import json
import pathlib
import sys

STAGES = ("first", "driver", "facts", "shim", "frameworks", "latency", "disb", "colocation")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def short(value):
    """A figure of a few digits; a word; the percentiles of samples; an object in short."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        if "p50" in value and "p99" in value:
            return f"{short(value['p50'])} / {short(value['p99'])}"
        return ", ".join(f"{k} {short(v)}" for k, v in value.items())
    if isinstance(value, list):
        return f"{len(value)} entries" if len(value) > 4 else ", ".join(short(v) for v in value) or "none"
    return str(value)


def steps_of(stage):
    """Steps with a result, by name."""
    return {s["name"]: s["result"] for s in stage.get("steps", []) if s.get("result")}


def stages_table(stages):
    rows = []
    for name, stage in stages.items():
        for step in stage["steps"]:
            rows.append((name, step["name"], step["status"], f"{step['seconds']:.1f}", step["why"]))
    return "## Stages\n\n" + table(("stage", "step", "status", "s", "why"), rows)


def driver_section(stage):
    result = steps_of(stage).get("conformance")
    if not result:
        return ""
    text = f"## The driver\n\nConformance: {result['passed']} passed, {result['failed']} failed, {result['skipped']} skipped.\n"
    return text + "".join(f"\n- {d}" for d in result["differs"]) + ("\n" if result["differs"] else "")


def facts_section(stage):
    text = ""
    for step, result in steps_of(stage).items():
        text += f"## Facts{' under MPS' if 'mps' in step else ''}: assumed and seen\n\n"
        text += "Samples are p50 / p99; keys end in their unit.\n\n"
        for name, fact in result["facts"].items():
            text += f"### {name}\n\n{fact['question']}  \nAssumed: {fact['assumed'] or 'nothing'}.  \nSeen: {fact['status']}"
            text += f" ({fact['why']})" if fact.get("why") else ""
            text += ".\n\n"
            if fact["values"]:
                text += table(("what", "seen"), [(k, short(v)) for k, v in fact["values"].items()]) + "\n"
    return text


def frameworks_section(stage):
    rows = []
    for name, r in steps_of(stage).items():
        def figure(of, what):  # programs of the zoo print results, and no speed
            return r[of][what] if of in r else "-"
        rows.append((name, r.get("version") or "-", "yes" if r["reproducible"] else "no",
                     "yes" if r["identical"] else "no", figure("bare", "steps_per_s"),
                     figure("beside_real_time", "steps_per_s"), figure("service_alone", "p99_us"),
                     r["service_beside"]["p99_us"]))
    return "## Frameworks\n\n" + table(("program", "version", "bare runs equal", "equal under cutin", "steps/s bare",
                                       "steps/s beside a service", "service p99 us alone", "beside it"), rows) if rows else ""


def shim_section(stage):
    result = steps_of(stage).get("overhead")
    if not result:
        return ""
    rows = [(mode, call, short(figures.get("added_ns_p50", figures.get("ns_p50"))),
             short(figures.get("added_ns_p99", figures.get("ns_p99"))))
            for mode, calls in result.items() if isinstance(calls, dict) and mode != "config"
            for call, figures in calls.items() if isinstance(figures, dict)]
    return "## Overhead\n\nNanoseconds per call: bare, and what cutin adds.\n\n" + table(("mode", "call", "p50", "p99"), rows)


def latency_rows(stage):
    for name, r in steps_of(stage).items():
        if "modes" in r:
            for mode, f in r["modes"].items():
                label = mode + (" without gates" if name.startswith("without_gates") and mode == "cutin" else "")
                yield r["config"]["be_kernel_us"], "processes", label, f["p50_us"], f["p99_us"], f["max_us"]
        else:
            for mode in ("stream_priorities", "cutin"):
                f = r[mode]
                yield r["be_kernel_us"], "one process", mode, f["p50_us"], f["p99_us"], f["max_us"]


def latency_section(stage, folder):
    rows = list(latency_rows(stage))
    if not rows:
        return ""
    plot = latency_plot(rows, folder)
    return ("## Latency\n\nOf real-time work in microseconds, by the length of best-effort kernels.\n\n" +
            table(("kernels us", "between", "mode", "p50", "p99", "max"), [tuple(map(short, r)) for r in rows]) +
            (f"\n![Latency]({plot})\n" if plot else ""))


def latency_plot(rows, folder):
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        return None
    figure, axes = pyplot.subplots(figsize=(7, 4))
    modes = {}
    for us, between, mode, _, p99, _ in rows:
        if between == "processes":
            modes.setdefault(mode, {})[us] = p99
    for mode, points in modes.items():
        axes.plot(list(points), list(points.values()), marker="o", label=mode)
    axes.set(xscale="log", yscale="log", xlabel="best-effort kernels (us)", ylabel="real-time p99 (us)")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    figure.patch.set_facecolor("white")
    figure.tight_layout()
    figure.savefig(folder / "latency.svg")
    return "latency.svg"


def disb_section(stage):
    rows = []
    for r in steps_of(stage).values():
        for mode, s in r.get("summary", {}).items():
            rows.append((r["workload"], mode, short(s["rt_mean_ms"]), short(s["rt_p99_ms"]), short(s["rt_p99_vs_alone"]),
                         short(s["throughput_vs_rt_only"])))
    return "## DISB with real models\n\n" + table(
        ("workload", "mode", "rt mean ms", "rt p99 ms", "p99 against rt-only", "throughput against rt-only"), rows) if rows else ""


def colocation_section(stage):
    rows = []
    for name, r in steps_of(stage).items():
        for mode in ("native", "cutin"):
            rows.append((name, mode, short(r[f"{mode}_vs_alone"])))
    return "## Colocation\n\nAgainst alone: latency of the services, throughput of the job.\n\n" + table(
        ("programs", "mode", "ratio to alone"), rows) if rows else ""


def main():
    folder = pathlib.Path(sys.argv[1])
    stages = {name: json.loads((folder / f"{name}.json").read_text()) for name in STAGES if (folder / f"{name}.json").exists()}
    machine = json.loads((folder / "machine.json").read_text())
    page = f"# {machine['gpu']}\n\n"
    if machine["dry_run"]:
        page += "**A dry run on the simulated GPU: nothing here says anything about hardware.**\n\n"
    page += (f"Driver {machine['driver']}, {machine['kernel']}, {machine['cpus']} processors; cutin {machine['commit']}, "
             f"{machine['date']}. Made by `tools/gpu-check`; the figures are in the JSON files beside this page.\n\n")
    sections = [stages_table(stages)]
    for name, stage in stages.items():
        make = {"driver": driver_section, "facts": facts_section, "shim": shim_section, "frameworks": frameworks_section,
                "disb": disb_section, "colocation": colocation_section,
                "latency": lambda s: latency_section(s, folder)}.get(name)
        sections.append(make(stage) if make else "")
    (folder / "README.md").write_text(page + "\n".join(s for s in sections if s))


if __name__ == "__main__":
    main()
