"""What the simulated GPU's event log (SIMGPU_LOG) says of a program: the order of operations in each stream.

Kind, name in full, grid or bytes, and whether it ran count, as numbers of eight bytes, so that a log of millions
of operations fits into memory. Marks and waits are left out, since cutin adds its own, and a copy of the size of its
pieces counts with the one behind it, as one of both their bytes. Streams are matched process by process and context
by context in the order in which they were made."""

import array
import fcntl
import os
import threading

OF_CUTIN = (b"kind=mark", b"kind=wait")
KIND, NAME, RAN, ID, SHAPE = 4, 5, 10, 11, 12  # columns of a line
PIECES = (b"bytes=%d" % (2 << 20), b"bytes=%d" % (32 << 20))
PIPE_BYTES = 1 << 20


class OutOfOrder(Exception):
    pass


class Works:
    """Add lines, then compare. Not thread safe."""

    def __init__(self):
        self.streams, self.names, self.processes, self.last, self.begun = {}, {}, [], {}, {}

    def add(self, line):
        row = line.split()
        if row[KIND] in OF_CUTIN:
            return
        process, context, seq = row[0], int(row[1][8:]), int(row[3][4:])
        if process not in self.processes:
            self.processes.append(process)
        key = self.processes.index(process), context, int(row[ID][3:])
        if seq <= self.last.get(key, -1):
            raise OutOfOrder(f"stream {key}: work {seq} after work {self.last[key]}")
        self.last[key] = seq
        shape = row[SHAPE] if len(row) > SHAPE else b""
        stream = self.streams.setdefault(key, array.array("q"))
        what, total = (row[KIND], row[NAME][5:], row[RAN]), 0
        begun, so_far = self.begun.get(key, (None, 0))
        if shape.startswith(b"bytes="):
            total = int(shape[6:])
            if begun == what:
                total += so_far
                stream.pop()
        self.begun[key] = (what if shape in PIECES else None, total)
        work = *what, b"bytes=%d" % total if total else shape
        number = hash(work)
        self.names.setdefault(number, work)
        stream.append(number)

    def count(self, part=None):
        """How many works, or how many whose name contains `part`."""
        if part is None:
            return sum(map(len, self.streams.values()))
        wanted = {n for n, work in self.names.items() if part.encode() in work[1]}
        return sum(sum(n in wanted for n in stream) for stream in self.streams.values())

    def end_after(self, part):
        """Forgets what each stream does after its last work whose name contains `part`."""
        wanted = {n for n, work in self.names.items() if part.encode() in work[1]}
        for stream in self.streams.values():
            while len(stream) and stream[-1] not in wanted:
                stream.pop()

    def say(self, number):
        return b" ".join(self.names[number]).decode(errors="replace") if number is not None else "nothing"


def read(path):
    works = Works()
    with open(path, "rb") as log:
        for line in log:
            works.add(line)
    return works


class Reader:
    """Works of programs that write to a pipe with a name, in a thread of its own, so that no log is kept."""

    def __init__(self, path):
        os.mkfifo(path)
        self.path, self.works, self.error = path, Works(), None
        self.keep = os.open(path, os.O_RDWR)  # the pipe has a writer until finish
        fcntl.fcntl(self.keep, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.log = open(path, "rb", buffering=PIPE_BYTES)
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        for line in self.log:
            try:
                self.error or self.works.add(line)
            except Exception as why:  # said in finish; whoever writes must not wait
                self.error = why

    def finish(self):
        """All that was written, once the programs have ended."""
        os.close(self.keep)
        self.thread.join()
        self.log.close()
        os.unlink(self.path)
        if self.error:
            raise self.error
        return self.works


def difference(a, b, prefix=False):
    """What differs first between two Works, in words; None where nothing does. `prefix`: as far as the
    shorter stream goes."""
    if [k[0] for k in sorted(a.streams)] != [k[0] for k in sorted(b.streams)]:
        return f"{len(a.streams)} streams and {len(b.streams)} streams"
    for k, l in zip(sorted(a.streams), sorted(b.streams)):
        x, y = a.streams[k], b.streams[l]
        n = min(len(x), len(y))
        if x[:n] != y[:n]:
            at = next(i for i in range(n) if x[i] != y[i])
            return f"stream {k}, work {at}: {a.say(x[at])} and {b.say(y[at])}"
        if len(x) != len(y) and not prefix:
            return f"stream {k}: {len(x)} operations and {len(y)}"
    return None
