"""Does a program give the GPU the same work in the same order?

    order.py BARE CUTIN

Both are event logs of the simulated GPU (SIMGPU_LOG), read as worklog.py says. Streams are matched process by
process and context by context in the order in which they were made; processes that did the same are matched
wherever they stand. Prints one line; exit status 1 where the two differ, 2 where a log is empty."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import worklog


def by_process(works):
    lists = {}
    for key in sorted(works.streams):
        lists.setdefault(key[0], []).append(works.streams[key])
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


def first_difference(bare_works, cutin_works):
    bare, cutin = paired(by_process(bare_works), by_process(cutin_works))
    for process in sorted(set(bare) | set(cutin)):
        a, b = bare.get(process, []), cutin.get(process, [])
        if len(a) != len(b):
            return f"process {process} uses {len(a)} streams bare, {len(b)} under cutin"
        for stream, (x, y) in enumerate(zip(a, b)):
            if x == y:
                continue
            at = next((i for i, (u, v) in enumerate(zip(x, y)) if u != v), min(len(x), len(y)))
            return (f"process {process}, stream {stream}, work {at}: "
                    f"{bare_works.say(next(iter(x[at:]), None))} bare, "
                    f"{cutin_works.say(next(iter(y[at:]), None))} under cutin")
    return None


def main():
    bare, cutin = worklog.read(sys.argv[1]), worklog.read(sys.argv[2])
    if not bare.count():
        print("no work in the log")
        return 2
    difference = first_difference(bare, cutin)
    print(difference or f"{bare.count()} works in {len(bare.streams)} streams, order equal")
    return 1 if difference else 0


sys.exit(main())
