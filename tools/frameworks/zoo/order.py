"""Does a program give the GPU the same work in the same order?

    order.py BARE CUTIN

Both are event logs of the simulated GPU (SIMGPU_LOG). What counts is the order of works in each stream:
kind, name in full, grid, and whether it ran. Marks and waits are left out, since cutin adds its own. Streams
are matched process by process and context by context in the order in which they were made; processes that did
the same are matched wherever they stand. Prints one line;
exit status 1 where the two differ, 2 where a log is empty."""

import re
import sys

OF_CUTIN = ("mark", "wait")


def streams(path):
    """{(process, context, stream): [work, ...]}, the processes counted from 0."""
    works, processes = {}, []
    with open(path, encoding="utf-8", errors="replace") as log:
        for line in log:
            row = dict(re.findall(r"(\w+)=(\S+)", line))
            if row["kind"] in OF_CUTIN:
                continue
            if row["pid"] not in processes:
                processes.append(row["pid"])
            key = processes.index(row["pid"]), int(row["context"]), int(row["id"])
            work = row["kind"], row["name"], row.get("grid"), row["ran"]
            works.setdefault(key, []).append((int(row["seq"]), work))
    return {key: [work for _, work in sorted(of)] for key, of in works.items()}


def by_process(of):
    lists = {}
    for key in sorted(of):
        lists.setdefault(key[0], []).append(of[key])
    return lists


def paired(bare, cutin):
    """Processes that start at the same time come in any order: those that did the same are a pair, and only
    what is left of both sides is compared in turn."""
    bare, cutin = list(bare.values()), list(cutin.values())
    for process in list(bare):
        if process in cutin:
            bare.remove(process)
            cutin.remove(process)
    return dict(enumerate(bare)), dict(enumerate(cutin))


def first_difference(bare, cutin):
    bare, cutin = paired(bare, cutin)
    for process in sorted(set(bare) | set(cutin)):
        a, b = bare.get(process, []), cutin.get(process, [])
        if len(a) != len(b):
            return f"process {process} uses {len(a)} streams bare, {len(b)} under cutin"
        for stream, (x, y) in enumerate(zip(a, b)):
            if x == y:
                continue
            at = next((i for i, (u, v) in enumerate(zip(x, y)) if u != v), min(len(x), len(y)))
            return (f"process {process}, stream {stream}, work {at}: "
                    f"{x[at:at + 1]} bare, {y[at:at + 1]} under cutin")
    return None


def main():
    bare, cutin = streams(sys.argv[1]), streams(sys.argv[2])
    works = sum(map(len, bare.values()))
    if not works:
        print("no work in the log")
        return 2
    difference = first_difference(by_process(bare), by_process(cutin))
    print(difference or f"{works} works in {len(bare)} streams, order equal")
    return 1 if difference else 0


sys.exit(main())
