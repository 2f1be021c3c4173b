"""Does a program give the GPU the same work in the same order?

    order.py [--sets] BARE CUTIN

Both are event logs of the simulated GPU (SIMGPU_LOG), read as worklog.py says. Streams are matched process by
process and context by context in the order in which they were made; processes that did the same are matched
wherever they are. With --sets, for programs whose operations come in another order from one bare run to the next, a
stream is what it did and how often, without the order, and matched with the one that did the same, or most of it, in
its process. Prints one line; exit status 1 where the two differ, 2 where a log is empty."""

import pathlib
import sys
from collections import Counter

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import worklog


def by_process(works, sets):
    lists = {}
    for key in sorted(works.streams):
        stream = works.streams[key].tolist()
        lists.setdefault(key[0], []).append(sorted(stream) if sets else stream)
    return {process: sorted(streams) if sets else streams for process, streams in lists.items()}


def paired(bare, cutin):
    """Processes that start at the same time come in any order: those that did the same are a pair, and only
    what is left of both sides is compared in turn."""
    bare, cutin = list(bare.values()), list(cutin.values())
    for process in list(bare):
        if process in cutin:
            bare.remove(process)
            cutin.remove(process)
    return dict(enumerate(bare)), dict(enumerate(cutin))


def difference_in_order(a, b, say):
    for stream, (x, y) in enumerate(zip(a, b)):
        if x == y:
            continue
        at = next((i for i, (u, v) in enumerate(zip(x, y)) if u != v), min(len(x), len(y)))
        return f"stream {stream}, work {at}: {say(0, next(iter(x[at:]), None))}, {say(1, next(iter(y[at:]), None))}"
    return None


def difference_in_sets(a, b, say):
    for stream in list(a):
        if stream in b:
            a.remove(stream)
            b.remove(stream)
    for x in map(Counter, a):
        y = max(map(Counter, b), key=lambda other: (x & other).total())
        less, more = next(iter(x - y), None), next(iter(y - x), None)
        return (f"a stream of {x.total()} operations and one of {y.total()}: {(x - y).total()} bare alone, "
                f"such as {say(0, less)}; {(y - x).total()} others, such as {say(1, more)}")
    return None


def first_difference(bare_works, cutin_works, sets):
    def say(side, number):
        return [bare_works, cutin_works][side].say(number) + [" bare", " under cutin"][side]

    bare, cutin = paired(by_process(bare_works, sets), by_process(cutin_works, sets))
    for process in sorted(set(bare) | set(cutin)):
        a, b = bare.get(process, []), cutin.get(process, [])
        if len(a) != len(b):
            return f"process {process} uses {len(a)} streams bare, {len(b)} under cutin"
        said = (difference_in_sets if sets else difference_in_order)(a, b, say)
        if said:
            return f"process {process}, {said}"
    return None


def main():
    sets = sys.argv[1] == "--sets"
    bare, cutin = worklog.read(sys.argv[-2]), worklog.read(sys.argv[-1])
    if not bare.count():
        print("no work in the log")
        return 2
    difference = first_difference(bare, cutin, sets)
    print(difference or f"{bare.count()} operations in {len(bare.streams)} streams, "
          f"{'sets' if sets else 'order'} equal")
    return 1 if difference else 0


if __name__ == "__main__":
    sys.exit(main())
