"""A plug-in of pytest that writes down what becomes of each test, for tools/zoo --suites.

OUTCOMES names the file: one JSON object a line, {"test": ...} when a test begins and again with
"outcome" and "text" when it is over. A run that finds a file goes on behind the last test in it:
that one killed the process, or hung for OUTCOMES_HANG_S. A test after which the context answers
nothing but an error ends the process, too: each later one would fail by it."""

import ctypes
import faulthandler
import json
import os
import re

import pytest

PATH = os.environ["OUTCOMES"]
STACKS = PATH + ".stacks"
HANG_S = float(os.environ.get("OUTCOMES_HANG_S", "60"))

# What differs from run to run: addresses, times, process ids and names of temporary files.
VARIES = ((r"0x[0-9a-fA-F]+", "0x_"),
          (r"(?<=/tmp/)[^\s'\",:)]+", "_"),
          (r"\b\d+(\.\d+)?(e-?\d+)? ?(ns|us|ms|s|sec|seconds)\b", "_ s"),
          (r"\b\d{10,}\b", "_"),
          (r"(?<=pid[ =])\d+", "_"))


def steady(text):
    for pattern, by in VARIES:
        text = re.sub(pattern, by, text)
    return text


def read():
    if not os.path.exists(PATH):
        return []
    with open(PATH, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(**row):
    with open(PATH, "a", encoding="utf-8") as out:
        print(json.dumps(row), file=out)


def stack():
    """Functions of the thread that was running, innermost first; how it ended before them."""
    with open(STACKS, encoding="utf-8", errors="replace") as lines:
        said = lines.read()
    how = (re.findall(r"^(?:Fatal Python error: .*|Timeout)", said, re.M) or ["ended"])[0]
    part = re.split(r"most recent call first\):\n", said)
    return how + "".join(f"\n  {name}" for name in re.findall(r'in (\S+)$', part[-1], re.M)[:12])


class Outcomes:
    def __init__(self):
        rows = read()
        if rows and "outcome" not in rows[-1]:
            write(test=rows[-1]["test"], outcome="ended", text=stack())
        self.over = {row["test"] for row in rows}
        self.stacks = open(STACKS, "w", encoding="utf-8")
        faulthandler.enable(self.stacks)
        self.said = {}

    @pytest.fixture(autouse=True)
    def initialize_from_pytest_config(self):
        """numba-cuda's tests ask for it, and the file that has it is not in the wheel."""

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if item.nodeid not in self.over]

    def pytest_collectreport(self, report):
        if report.failed and report.nodeid not in self.over:
            last = str(report.longrepr).strip().splitlines()[-1]
            write(test=report.nodeid, outcome="error", text=steady(last))

    def pytest_runtest_logstart(self, nodeid):
        write(test=nodeid)
        self.said = {"outcome": "pass", "text": ""}
        faulthandler.dump_traceback_later(HANG_S, exit=True, file=self.stacks)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr
            self.said = {"outcome": "skip", "text": steady(str(reason))}
        elif report.failed and self.said["outcome"] != "fail":
            text = call.excinfo.exconly() if call.excinfo else str(report.longrepr)
            outcome = "fail" if call.when == "call" else "error"
            self.said = {"outcome": outcome, "text": steady(text)}
        return report

    def pytest_runtest_logfinish(self, nodeid):
        faulthandler.cancel_dump_traceback_later()
        write(test=nodeid, **self.said)
        if self.said["outcome"] in ("fail", "error") and context_failed():
            os._exit(3)

    def pytest_sessionfinish(self):
        write(test="", outcome="over")


def context_failed():
    """For good, of any device: neither because there is none, nor because of a capture."""
    driver, failed = ctypes.CDLL("libcuda.so.1"), False
    flags, active, device = ctypes.c_uint(), ctypes.c_int(), 0
    while driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) == 0:
        ctx = ctypes.c_void_p()
        if active and driver.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), device) == 0:
            driver.cuCtxPushCurrent_v2(ctx)
            failed |= driver.cuCtxSynchronize() in range(700, 720)
            driver.cuCtxPopCurrent_v2(ctypes.byref(ctx))
            driver.cuDevicePrimaryCtxRelease_v2(device)
        device += 1
    return failed


def pytest_configure(config):
    config.pluginmanager.register(Outcomes(), "outcomes-of-tests")
