"""What became of the tests of a suite, run by run: a row of a table, and what has to be looked at.

    table.py NAME FOLDER MODE...

FOLDER/MODE holds the lines that outcomes.py wrote in that mode. The first two modes are bare, with
other garbage in new memory: a test with two answers there is one whose answer is data, or which
differs by itself, and says nothing of the other modes. Nor do the numbers in an assertion that fails
in both: they are what a kernel without effect left. Where another mode differs from equal bare runs,
both texts are in FOLDER/details, and the exit status is 1."""

import collections
import json
import os
import re
import sys

KINDS = ("pass", "fail", "error", "skip", "ended", "absent")
ABSENT = "absent", ""
# from where on numpy speaks of an array's numbers: before it the shapes and types are told
ARRAYS = re.compile(r"^(Mismatched elements|\S+ (location|values) mismatch:).*", re.M | re.S)
NUMBERS = re.compile(r"(?:[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf)[\s,j]*)+", re.I)


def outcomes(path):
    """{test: (outcome, text)}; none where the run did not come to its end."""
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    if not rows or rows[-1]["outcome"] != "over":
        return {}
    return {row["test"]: (row["outcome"], row["text"])
            for row in rows if row["test"] and "outcome" in row}


def less_numbers(text):
    return NUMBERS.sub("0", ARRAYS.sub("", text))


def same(one, other):
    """So are two assertions that fail, of which only the numbers differ."""
    if one == other or not all(outcome == "fail" and text.startswith("AssertionError")
                               for outcome, text in (one, other)):
        return one == other
    return less_numbers(one[1]) == less_numbers(other[1])


def cause(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:2])[:150]


def indented(text):
    return "\n".join("      " + line for line in text.splitlines()[:20])


def details(bare, runs, data, different, out):
    print("Bare failures by cause:", file=out)
    causes = collections.Counter(cause(text) for test, (outcome, text) in bare.items()
                                 if test not in data and outcome not in ("pass", "skip"))
    for text, count in causes.most_common():
        print(f"  {count:4} {text}", file=out)
    print("Tests whose answer is data, or varies by itself:", *sorted(data), sep="\n  ", file=out)
    for mode, tests in different.items():
        for test in tests:
            print(f"Differs: {test}", file=out)
            for name, of in ("bare", bare), (mode, runs[mode]):
                outcome, text = of.get(test, ABSENT)
                print(f"    {name}: {outcome}\n{indented(text)}", file=out)


def main():
    name, folder, modes = sys.argv[1], sys.argv[2], sys.argv[3:]
    runs = {mode: outcomes(os.path.join(folder, mode)) for mode in modes}
    bare, garbage = (runs[mode] for mode in modes[:2])
    tests = sorted(set().union(*runs.values()))
    data = {test for test in tests if bare.get(test, ABSENT) != garbage.get(test, ABSENT)}
    different = {mode: [test for test in tests if test not in data and
                        not same(runs[mode].get(test, ABSENT), bare.get(test, ABSENT))]
                 for mode in modes[2:]}
    kinds = collections.Counter(bare.get(test, ABSENT)[0] for test in tests)
    row = [name, len(tests), ", ".join(f"{kinds[k]} {k}" for k in KINDS if kinds[k]), len(data)]
    row += [len(different[mode]) if runs[mode] else "not run" for mode in modes[2:]]
    print("| " + " | ".join(map(str, row)) + " |")
    with open(os.path.join(folder, "details"), "w", encoding="utf-8") as out:
        details(bare, runs, data, different, out)
    return 1 if any(different.values()) or not all(runs.values()) else 0


sys.exit(main())
