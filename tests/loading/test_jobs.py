"""Jobs: the batches of a run, cut from one or made one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loading.fakes import Damaged, Numbers

import headrace as hr
from headrace import Loader, _native
from headrace.contracts.values import Ragged, bytes_of
from headrace.errors import CorruptRecord, SchemaMismatch
from headrace.loading import rounds
from headrace.loading.jobs import BatchMaker, check_rows
from headrace.loading.rounds import BatchRun
from headrace.sampling.samplers import InOrder, Shuffled


def test_rows_are_counted():
    batch = Numbers(9).batch(np.arange(4))
    check_rows(batch, 4)
    check_rows({"list": [1, 2]}, 2)
    for wrong in (3, 5):
        with pytest.raises(SchemaMismatch, match=f"expected {wrong} rows from the source, found 4 - at feature 'i'"):
            check_rows(batch, wrong)


def test_batches_are_measured_natively():
    tokens = Ragged.from_list([[1, 2], [], [3], [4]], "int64")
    columns = {
        "n": np.zeros((4, 3), np.float32),
        "text": hr.Strings.from_values(["a", "bc", "", "d"]),
        "part": hr.Strings.from_values(["zzz", "a", "bc", "", "d"])[1:],
        "grid": hr.Strings.from_values([["a", "b"]] * 4),
        "tokens": tokens,
        "words": Ragged(hr.Strings.from_values(["x", "yz"]), np.array([0, 1, 1, 2, 2])),
        "deep": Ragged(tokens, np.array([0, 1, 1, 3, 4])),
    }
    for chosen in ({}, {"n": columns["n"]}, columns):
        found = _native.measure_batch(chosen, hr.Strings, Ragged, 4)
        assert found == (bytes_of(chosen), len(chosen) < 2)
    for name, column in columns.items():
        assert _native.measure_batch({name: column}, hr.Strings, Ragged, 3) is None
    for unknown in ([1, 2, 3, 4], np.float64(4), np.array(4), np.ma.zeros(4), np.zeros(4).view(np.recarray)):
        assert _native.measure_batch({"x": unknown}, hr.Strings, Ragged, 4) is None


def test_a_source_with_too_few_rows_is_refused_in_every_kind_of_job():
    class Short(Numbers):
        def batch(self, indices):
            return super().batch(indices[:-1])

    for cuts in (False, True):
        with pytest.raises(SchemaMismatch, match="expected 4 rows from the source, found 3"):
            list(Loader(Short(40, cuts_cleanly=cuts), 4, threads=0))


def plus_one(batch):
    return {**batch, "i": batch["i"] + 1}


@pytest.mark.parametrize("transform", [None, plus_one])
@pytest.mark.parametrize("convert", [None, lambda batch: batch["i"].tolist()])
@pytest.mark.parametrize("world", [1, 3])
def test_batches_made_one_by_one_equal_those_of_one_job(transform, convert, world):
    maker = BatchMaker(Numbers(60), Shuffled(60, seed=4), transform, convert)
    run = BatchRun(2, 1, 4 * world, 4 * world, 4 * world + 4 * (world - 1), 4, 4, is_last=False)
    whole, begun = maker.make(run), maker.begin(run)
    batches = list(begun.batches)
    while begun.rest.left:
        batches.append(begun.rest.make())
    assert begun.rest.settle(begun)[0] == 3
    assert begun.rest.settle(begun) == (0, 0)
    plain = lambda batch: batch if convert else batch["i"].tolist()  # noqa: E731
    assert list(map(plain, batches)) == list(map(plain, whole.batches))
    assert len(batches) == 4
    assert begun.bytes == whole.bytes + 3 * 8  # Each ragged column has one offset more than rows.
    assert (begun.reading_ns > 0, begun.transform_ns > 0, begun.handover_ns > 0) == (
        True,
        bool(transform),
        bool(convert),
    )


@pytest.mark.parametrize("bad", range(12))
@pytest.mark.parametrize("size", [1, 3, 12])
def test_a_failing_batch_comes_after_those_before_it(monkeypatch, bad, size):
    """Also one that is made alone, in the middle of a job."""
    monkeypatch.setattr(rounds, "LEAST_CUT", 1 << 30)
    loader = Loader(Damaged(12, [bad], cuts_cleanly=False), size, threads=0, epochs=2)
    got = []
    with pytest.raises(CorruptRecord) as caught:
        for batch in loader:
            got += batch["i"].tolist()
            assert loader.state_dict()["position"] == len(got)
    assert got == list(range(bad // size * size))
    assert caught.value.where.record == bad


def test_an_order_that_fails_later_does_not_stop_earlier_batches():
    class Short(InOrder):
        def indices(self, epoch, start, stop):
            if stop > 40:
                raise KeyError(stop)
            return super().indices(epoch, start, stop)

    got = []
    with pytest.raises(KeyError, match="44"):
        for batch in Loader(Numbers(80, cuts_cleanly=False), 4, sampler=Short(80), threads=0):
            got += batch["i"].tolist()
    assert got == list(range(40))


def test_a_source_that_stops_is_an_error_in_every_batch():
    class Stops(Numbers):
        def batch(self, indices):
            if 21 in indices:
                raise StopIteration
            return super().batch(indices)

    got = []
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        for batch in Loader(Stops(80, cuts_cleanly=False), 4, threads=0):
            got += batch["i"].tolist()
    assert got == list(range(20))


def test_the_report_counts_batches_made_one_by_one():
    loader = Loader(Numbers(200, cuts_cleanly=False), 4, threads=0)
    seen = 0
    for number, batch in enumerate(loader):
        seen += bytes_of(batch)
        report = loader.report()
        assert (report.batches, report.examples, report.bytes) == (number + 1, 4 * number + 4, seen)
        assert report.helping_s <= report.waiting_s
    assert loader.report().batches_per_job > 2


class RunCounter:
    """Reads rows by a checked reader, and counts what it is asked for."""

    def __init__(self, n):
        self.n, self.runs, self.indices = n, [], []

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return {"row": index}

    cuts_cleanly = True

    def batch(self, indices):
        self.indices.append(indices.tolist())
        return {"row": np.array(indices)}

    def checked_reader(self):
        return Reader(self)


class Reader:
    def __init__(self, source):
        self.source = source

    def __call__(self, indices):
        return self.source.batch(indices)

    def one(self, first, stop):
        return self.run(first, stop, stop - first)[0][1]

    def run(self, first, stop, size):
        assert (stop - first) % size == 0
        self.source.runs.append((first, stop, size))
        middle = first + (stop - first) // size // 2 * size
        pieces = [(first, middle), (middle, stop)] if middle > first else [(first, stop)]
        return [((end - at) // size, {"row": np.arange(at, end)}) for at, end in pieces]


class Backwards(InOrder):
    def indices(self, epoch, start, stop):
        return self.n - 1 - super().indices(epoch, start, stop)


def rows_of(batches):
    return [batch["row"].tolist() for batch in batches]


@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
@pytest.mark.parametrize("threads", [0, 1])
@given(n=st.integers(1, 60), size=st.integers(1, 9), given=st.integers(0, 59))
def test_adjacent_rows_are_read_without_indices(block_bytes, threads, n, size, given):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "INLINE_BLOCK_BYTES", block_bytes)  # 1: batches one by one
        source = RunCounter(n)
        expected = [list(range(n))[at : at + size] for at in range(0, n, size)]
        loader = Loader(source, size, threads=threads)
        iterator = iter(loader)
        begun = rows_of(next(iterator) for _ in range(given % len(expected)))
        state = loader.state_dict()
        iterator.close()
        assert begun == expected[: len(begun)]
        resumed = Loader(source, size, threads=threads)
        resumed.load_state_dict(state)
        assert begun + rows_of(resumed) == expected
        assert source.runs
        assert not source.indices


@given(st.integers(1, 60), st.integers(1, 9), st.integers(2, 3))
def test_ranks_share_adjacent_rows(n, size, world):
    found = []
    for rank in range(world):
        source = RunCounter(n)
        found += rows_of(Loader(source, size, shard=hr.Shard(rank, world), threads=0))
    assert sorted(row for batch in found for row in batch) == list(range(n))


def test_other_orders_are_read_by_index():
    source = RunCounter(10)
    assert rows_of(Loader(source, 4, sampler=Backwards(10), threads=0)) == [[9, 8, 7, 6], [5, 4, 3, 2], [1, 0]]
    shuffled = rows_of(Loader(source, 5, shuffle=True, threads=0))
    assert sorted(sum(shuffled, [])) == list(range(10))
    assert not source.runs
    with pytest.raises(IndexError):
        list(Loader({"row": np.arange(5)}, 4, sampler=InOrder(10), threads=0))


class Steps(Numbers):
    """Rows of a few bytes, then of many. Notes how many rows of each kind are read at once."""

    def __init__(self, n, small, length, *, fails=False):
        super().__init__(n)
        self.small, self.length, self.fails, self.asked = small, length, fails, []

    def batch(self, indices):
        large = indices >= self.small
        self.asked.append(int(large.sum()))
        lengths = np.where(large, self.length, 2)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        return {"i": indices, "x": Ragged(np.zeros(int(offsets[-1]), np.uint8), offsets)}

    def stored_bytes(self, first, stop):
        if self.fails and stop > self.small:
            raise CorruptRecord(self.where(first), expected="an intact index", found="a damaged one")
        large = max(0, min(stop, self.n) - max(first, self.small))
        return 20 * (min(stop, self.n) - first - large) + self.length * large


@pytest.mark.parametrize("options", [{}, {"threads": 0}, {"threads": 1}, {"threads": 2}])
@pytest.mark.parametrize("shard", [None, hr.Shard(1, 3)])
@pytest.mark.parametrize("fails", [False, True])
def test_rows_that_get_far_larger_make_small_jobs(options, shard, fails):
    """A job of as many batches as fitted before could take gigabytes."""
    source = Steps(61_500, 60_000, 1 << 16, fails=fails)
    found = []
    for batch in Loader(source, 4, shard=shard, **options):
        found += batch["i"].tolist()
    assert found == sum(
        (list(range(at, at + 4)) for at in range(0 if shard is None else 4, 61_500, 4 if shard is None else 12)), []
    )
    assert max(source.asked) <= 300  # 16 MB, by a size that is a tenth too small


def test_sizes_are_not_asked_for_in_other_orders():
    source = Steps(2_000, 1_000, 10, fails=True)
    for options in ({"shuffle": True}, {"sampler": Shuffled(2_000, seed=1)}):
        assert sum(len(batch["i"]) for batch in Loader(source, 4, threads=0, **options)) == 2_000


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 1}, {"workers": 1}])
@pytest.mark.parametrize("name", ["a.tfrecord", "a.array_record"])
def test_records_that_get_far_larger_come_as_they_are(tmp_path, options, name):
    lengths = [10] * 6_000 + [300_000] * 40
    with hr.Writer(tmp_path / name, schema=hr.Schema({"x": hr.Feature("bytes")})) as writer:
        for at, length in enumerate(lengths):
            writer.write({"x": bytes([at % 251]) * length})
    at = 0
    for batch in Loader(hr.open(tmp_path / name), 8, **options):
        for value in batch["x"]:
            assert value == bytes([at % 251]) * lengths[at]
            at += 1
    assert at == len(lengths)


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (None, "a dict of columns.*found NoneType"),
        ([1], "a dict of columns.*found list"),
        ({"x": 3}, "2 rows.*found int 3.*'x'"),
        ({"x": np.array(3)}, "2 rows.*found ndarray.*'x'"),
    ],
)
def test_batches_of_a_source_that_are_none(returned, found):
    class Own:
        def __len__(self):
            return 4

        def batch(self, indices):
            return returned

    with pytest.raises(hr.SchemaMismatch, match=found):
        next(iter(hr.Loader(Own(), 2, threads=0)))
