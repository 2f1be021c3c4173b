"""tools/frameworks/worklog.py and zoo/order.py: what they count as the same order of works, and what they must not."""

import itertools
import os
import pathlib
import sys
import tempfile
import unittest

FRAMEWORKS = pathlib.Path(__file__).resolve().parents[3] / "tools" / "frameworks"
sys.path[:0] = str(FRAMEWORKS), str(FRAMEWORKS / "zoo")
import order
import worklog


def line(seq, name, kind="kernel", stream=1, pid=7, context=256, ran=1):
    text = (f"pid={pid} context={context} stream=1024 seq={seq} kind={kind} name={name} submit=1 start=2 end=3 "
            f"cost=1 ran={ran} id={stream}")
    return (text + (" grid=1,1,1 block=32,1,1 smem=0" if kind == "kernel" else "") + "\n").encode()


def copy(seq, size):
    return line(seq, "copy_htod", kind="copy").rstrip() + b" bytes=%d\n" % size


def works(*lines):
    of = worklog.Works()
    for each in lines:
        of.add(each)
    return of


class Order(unittest.TestCase):
    def test_marks_of_cutin_and_names_of_processes_do_not_count(self):
        bare = works(line(1, "a"), line(2, "b"))
        cutin = works(line(1, "a", pid=8), line(2, "event_record", kind="mark", pid=8), line(3, "b", pid=8))
        self.assertIsNone(worklog.difference(bare, cutin))

    def test_other_order_is_found_and_said(self):
        said = worklog.difference(works(line(1, "a"), line(2, "b")), works(line(1, "b"), line(2, "a")))
        self.assertIn("work 0", said)

    def test_a_work_that_did_not_run_differs(self):
        self.assertIsNotNone(worklog.difference(works(line(1, "a")), works(line(1, "a", ran=0))))

    def test_streams_are_apart(self):
        one = works(line(1, "a"), line(1, "b", stream=2))
        self.assertIsNone(worklog.difference(one, works(line(1, "b", stream=2), line(1, "a"))))
        self.assertIsNotNone(worklog.difference(one, works(line(1, "a"), line(2, "b"))))

    def test_a_missing_end_differs_unless_beginnings_are_compared(self):
        long, short = works(line(1, "a"), line(2, "b")), works(line(1, "a"))
        self.assertIsNotNone(worklog.difference(long, short))
        self.assertIsNone(worklog.difference(long, short, prefix=True))
        long.end_after("a")
        self.assertIsNone(worklog.difference(long, short))

    def test_a_copy_in_pieces_is_one_of_as_many_bytes(self):
        piece, rest = 2 << 20, 100
        whole = works(copy(1, 2 * piece + rest), copy(2, 8), line(3, "a"))
        pieces = copy(1, piece), copy(2, piece), copy(3, rest), copy(4, 8), line(5, "a")
        self.assertIsNone(worklog.difference(whole, works(*pieces)))
        for lost in range(len(pieces)):
            self.assertIsNotNone(worklog.difference(whole, works(*pieces[:lost], *pieces[lost + 1:])), lost)

    def test_a_log_out_of_order_is_refused(self):
        with self.assertRaises(worklog.OutOfOrder):
            works(line(2, "a"), line(1, "b"))

    def test_counts_by_name(self):
        of = works(line(1, "x_loss_y"), line(2, "b"), line(3, "x_loss_y"))
        self.assertEqual((of.count(), of.count("loss"), of.count("none")), (3, 2, 0))


class Programs(unittest.TestCase):
    """Each stream is a list of the names of its works."""

    BARE = "abca", "bd", "aaa", "e"

    def works(self, streams, pid):
        return works(*(line(seq, name, stream=number, pid=pid) for number, names in enumerate(streams)
                       for seq, name in enumerate(names)))

    def equal(self, streams, sets=False):
        return order.first_difference(self.works(self.BARE, 7), self.works(streams, 8), sets) is None

    def test_equal_orders_are(self):
        self.assertTrue(self.equal(self.BARE))
        self.assertFalse(self.equal(("acba", *self.BARE[1:])))

    def test_sets_are_equal_in_any_order_of_works_and_streams(self):
        for streams in itertools.permutations(self.BARE):
            self.assertTrue(self.equal([names[::-1] for names in streams], sets=True), streams)

    def test_sets_differ_by_a_lost_doubled_other_or_moved_work(self):
        of = [list(names) for names in reversed(self.BARE)]
        for at, names in enumerate(of):
            for work in range(len(names)):
                rest = names[:work] + names[work + 1:]
                for changed in rest, names + names[work:work + 1], rest + ["new"]:
                    planted = [changed if i == at else other for i, other in enumerate(of)]
                    self.assertFalse(self.equal([p for p in planted if p], sets=True), planted)
                for to in range(len(of)):
                    planted = [list(other) for other in of]
                    planted[to].append(planted[at].pop(work))
                    moved = sorted(map(sorted, planted)) != sorted(map(sorted, of))
                    self.assertEqual(self.equal([p for p in planted if p], sets=True), not moved, planted)


class Pipe(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.reader = worklog.Reader(os.path.join(self.folder.name, "works"))

    def write(self, *lines):
        with open(self.reader.path, "wb", buffering=0) as file:
            file.write(b"".join(lines))

    def test_what_several_writers_wrote_is_there(self):
        self.write(line(1, "a"))
        self.write(line(2, "b"))
        self.assertEqual(self.reader.finish().count(), 2)

    def test_a_bad_line_is_an_error_at_the_end(self):
        self.write(line(2, "a"), line(1, "b"), line(3, "c"))
        with self.assertRaises(worklog.OutOfOrder):
            self.reader.finish()


if __name__ == "__main__":
    unittest.main()
