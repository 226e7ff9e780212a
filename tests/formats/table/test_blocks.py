"""Rows of tables that lie in blocks, by one thread and by several."""

from __future__ import annotations

import pickle
import threading
from functools import cached_property

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.contracts.values import take_rows
from headrace.errors import CorruptFile, Where
from headrace.formats.table import blocks, column_cache
from headrace.formats.table.blocks import BlockTable
from headrace.formats.table.column_cache import KeptColumns, WholeColumns
from headrace.formats.table.copies import cut_at_blocks
from headrace.sources.tables import TableNode

NAMES = ("n", "text", "rows")


def column(name, start, stop):
    if name == "n":
        return np.arange(start, stop)
    if name == "text":
        return hr.Strings.from_values([f"row {k}" for k in range(start, stop)], is_text=True)
    lengths = [k % 3 for k in range(start, stop)]
    return hr.Ragged(
        np.concatenate([np.full(k % 3, k) for k in range(start, stop)] or [np.zeros(0, int)]), np.cumsum([0, *lengths])
    )


class Counted(BlockTable):
    """Blocks of the given sizes; counts what is decoded."""

    format = "counted"

    def __init__(self, sizes, *, parts=1, broken=(), limit=1 << 30, whole=1 << 30):
        super().__init__(["x"])
        self.sizes, self.parts, self.broken, self.limit, self.most = sizes, parts, set(broken), limit, whole
        self.read = []

    @cached_property
    def _kept(self):
        return KeptColumns(self.limit)

    @cached_property
    def _whole(self):
        return WholeColumns(self.most)

    @property
    def schema(self):
        features = {"n": hr.Feature("int64"), "text": hr.Feature("str"), "rows": hr.Feature("int64", (None,))}
        return hr.Schema(features)

    def _own_schema(self):
        return self.schema

    @cached_property
    def _firsts(self):
        return np.cumsum([0, *self.sizes])

    def _parts(self, block, names):
        return [names[at :: self.parts] for at in range(min(self.parts, len(names)))]

    def _read_block(self, block, names):
        self.read.append((block, tuple(names)))
        if block in self.broken:
            raise CorruptFile(Where(path="x"), expected=f"block {block}", found="damage")
        return {name: column(name, int(self._firsts[block]), int(self._firsts[block + 1])) for name in names}

    def where(self, index):
        return Where(path="x", record=index)


def plain(batch):
    return {name: c.tolist() if isinstance(c, np.ndarray) else c.to_list() for name, c in batch.items()}


def expected(sizes, indices):
    return plain({name: take_rows(column(name, 0, sum(sizes)), np.asarray(indices, np.int64)) for name in NAMES})


SIZES = st.lists(st.integers(0, 6), min_size=1, max_size=9).filter(any)
LIMITS = st.sampled_from([0, 300, 1 << 30])


@given(data=st.data(), sizes=SIZES, parts=st.integers(1, 3), limit=LIMITS, whole=LIMITS)
def test_rows_are_those_of_the_whole_column(data, sizes, parts, limit, whole):
    table = Counted(sizes, parts=parts, limit=limit, whole=whole)
    rows = sum(sizes)
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            start = data.draw(st.integers(0, rows - 1))
            indices = np.arange(start, data.draw(st.integers(start, rows)))
        else:
            indices = np.array(data.draw(st.lists(st.integers(0, rows - 1), max_size=20)), np.int64)
        names = tuple(data.draw(st.permutations(NAMES))[: data.draw(st.integers(1, 3))])
        found = table.batch(indices, names)
        assert list(found) == list(names)
        assert plain(found) == {name: expected(sizes, indices)[name] for name in names}


@given(data=st.data(), sizes=SIZES, names=st.sampled_from([NAMES, ("n",), ("text", "n")]))
def test_a_run_is_the_rows_of_the_batches(data, sizes, names):
    table = Counted(sizes)
    size = data.draw(st.integers(1, sum(sizes)))
    count = data.draw(st.integers(1, sum(sizes) // size))
    start = data.draw(st.integers(0, sum(sizes) - size * count))
    pieces = table.reader(names).run(start, start + size * count, size)
    assert sum(number for number, _ in pieces) == count
    at = start
    for number, piece in pieces:
        rows = np.arange(at, at + number * size)
        assert plain(piece) == {name: expected(sizes, rows)[name] for name in names}
        at += number * size


@given(data=st.data(), sizes=SIZES, names=st.sampled_from([NAMES, ("n",), ("text", "n")]))
def test_a_reader_reads_any_rows(data, sizes, names):
    indices = np.array(data.draw(st.lists(st.integers(0, sum(sizes) - 1), max_size=20)), np.int64)
    read = Counted(sizes).reader(names)
    found = read(indices)
    assert len(found[names[0]]) == len(indices)
    assert not len(indices) or plain(found) == {name: expected(sizes, indices)[name] for name in names}


@given(data=st.data(), sizes=SIZES, size=st.integers(1, 7), count=st.integers(1, 6))
def test_only_single_batches_span_two_blocks(data, sizes, size, count):
    firsts = np.cumsum([0, *sizes])
    start = data.draw(st.integers(0, 5))
    stop = start + size * count
    cuts = cut_at_blocks(firsts, start, stop, size)
    assert (cuts[0], cuts[-1]) == (start, stop)
    assert cuts == sorted(set(cuts))
    for begin, end in zip(cuts, cuts[1:], strict=False):
        assert (end - begin) % size == 0
        assert end - begin == size or not any(begin < first < end for first in firsts.tolist())


@given(SIZES, st.integers(1, 7), st.sampled_from([0, 1]))
def test_loaders_give_the_rows_in_order(sizes, size, threads):
    source = hr.Source(TableNode(Counted(sizes)))
    found = list(hr.Loader(source, size, threads=threads))
    at = 0
    for batch in found:
        rows = np.arange(at, min(at + size, sum(sizes)))
        assert plain(batch) == expected(sizes, rows)
        at += size
    assert at >= sum(sizes)


def test_text_of_one_block_is_not_copied():
    table = Counted([100, 100])
    pieces = table.reader(("text",)).run(0, 192, 32)
    assert [number for number, _ in pieces] == [3, 1, 2]
    kept = [table._kept.get(block, "text") for block in (0, 1)]
    assert np.shares_memory(pieces[0][1]["text"].data, kept[0].data)
    assert np.shares_memory(pieces[2][1]["text"].data, kept[1].data)


def test_in_order_every_block_is_decoded_once():
    table = Counted([5] * 20, limit=2000)
    for start in range(0, 100, 4):
        assert plain(table.batch(np.arange(start, start + 4), NAMES)) == expected(table.sizes, range(start, start + 4))
    assert sorted(table.read) == [(block, NAMES) for block in range(20)]


@pytest.mark.parametrize("size", [4, 17])
def test_in_order_few_blocks_are_kept_if_not_all_fit(monkeypatch, size):
    monkeypatch.setattr(column_cache, "PASSING_BYTES", 800)
    table = Counted([5] * 200, limit=20_000)
    for _ in range(2):
        table.read.clear()
        for _ in hr.Loader(hr.Source(TableNode(table)), size, threads=0):
            pass
        assert sorted(table.read) == [(block, NAMES) for block in range(200)]
        # The last blocks were read without another one after them.
        assert table._kept._bytes < 20_000 / 4


def test_in_order_all_blocks_are_kept_if_they_fit():
    table = Counted([5] * 20)
    for _ in range(2):
        for start in range(0, 100, 4):
            table.batch(np.arange(start, start + 4), NAMES)
    assert sorted(table.read) == [(block, NAMES) for block in range(20)]


def test_scattered_rows_decode_every_block_about_once():
    """Even where next to nothing can be kept: then all rows go to temporary files."""
    rng = np.random.default_rng(0)
    for whole in (0, 1 << 30):
        table = Counted([5] * 20, limit=400, whole=whole)
        for _ in range(30):
            indices = rng.integers(0, 100, 10)
            assert plain(table.batch(indices, NAMES)) == expected(table.sizes, indices)
        assert len(table.read) <= 2 * 20


def test_a_few_scattered_rows_decode_their_blocks_only():
    table = Counted([5] * 40)
    table.batch(np.array([3, 190]), NAMES)
    table.batch(np.array([191, 4]), NAMES)
    assert sorted(block for block, _ in table.read) == [0, 38]


def test_neighbouring_rows_in_order_decode_their_blocks_only():
    """As ranks read that take turns."""
    table = Counted([5] * 12)
    indices = np.concatenate([np.arange(start, start + 5) for start in range(0, 30, 10)])
    assert plain(table.batch(indices, NAMES)) == expected(table.sizes, indices)
    assert sorted(block for block, _ in table.read) == [0, 2, 4]


def test_objects_are_not_made_whole():
    class Objects(Counted):
        def _read_block(self, block, names):
            return {
                name: np.asarray(c) if name == "text" else c for name, c in super()._read_block(block, names).items()
            }

    table = Objects([5] * 8)
    for _ in range(3):
        assert plain(table.batch(np.arange(39, -1, -1), NAMES)) == expected(table.sizes, range(39, -1, -1))
    assert table._whole.get("n") is not None
    assert table._whole.get("text") is None


def test_batches_are_the_callers_own():
    table = Counted([5, 5, 5, 5])
    for indices in (np.arange(2, 4), np.arange(3, 8), np.array([7, 3, 12, 19])):
        for _ in range(3):
            batch = table.batch(indices, NAMES)
            assert plain(batch) == expected(table.sizes, indices)
            batch["n"][:] = -1
            batch["rows"].values[:] = -1


@pytest.mark.parametrize("parts", [1, 3])
def test_threads_share_the_decoding(parts):
    table = Counted([50] * 30, parts=parts)
    found, barrier = {}, threading.Barrier(4)

    def read(rank):
        barrier.wait()
        for start in range(0, 1500, 20):
            batch = table.batch(np.arange(start, start + 20), NAMES)
            if start % 80 == rank * 20:
                found[start] = plain(batch)

    threads = [threading.Thread(target=read, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {start: expected(table.sizes, range(start, start + 20)) for start in range(0, 1500, 20)}
    assert len(table.read) == len(set(table.read)) == 30 * parts


def test_threads_share_the_scattered_rows():
    table = Counted([50] * 30, parts=3)
    indices = np.random.default_rng(0).permutation(1500)
    found, barrier = [], threading.Barrier(4)

    def read():
        barrier.wait()
        found.extend(
            plain(table.batch(indices[at : at + 100], NAMES)) == expected(table.sizes, indices[at : at + 100])
            for at in range(0, 1500, 100)
        )

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 60
    assert len(table.read) <= 30 * 3 + 4


def test_a_thread_that_waits_goes_on_with_the_next_block():
    """Thread A is held inside block 0. Thread B, which wants it too, decodes block 1 meanwhile."""
    inside, ahead = threading.Event(), threading.Event()

    class Held(Counted):
        def _read_block(self, block, names):
            if block == 0:
                inside.set()
                assert ahead.wait(60)
            found = super()._read_block(block, names)
            if block == 1:
                ahead.set()
            return found

    table = Held([5, 5, 5])
    first = threading.Thread(target=table.batch, args=(np.arange(3), NAMES))
    first.start()
    assert inside.wait(60)
    assert plain(table.batch(np.arange(5), NAMES)) == expected(table.sizes, range(5))
    first.join()
    assert table.read == [(1, NAMES), (0, NAMES)]


def test_damage_is_an_error_where_it_is_read():
    table = Counted([5] * 8, broken=[6])
    assert plain(table.batch(np.arange(30), NAMES)) == expected(table.sizes, range(30))
    for indices in (np.arange(28, 31), np.array([31, 2]), np.arange(39, -1, -1)):
        with pytest.raises(CorruptFile, match="block 6"):
            table.batch(indices, NAMES)
    assert plain(table.batch(np.array([39, 0]), NAMES)) == expected(table.sizes, [39, 0])


def test_pickles_hold_no_columns():
    table = Counted([5] * 8)
    table.batch(np.arange(39, -1, -1), NAMES)
    again = pickle.loads(pickle.dumps(table))
    again.read.clear()
    assert plain(again.batch(np.arange(3), NAMES)) == expected(table.sizes, range(3))
    assert again.read == [(0, NAMES)]


def test_columns_are_joined_in_bunches(monkeypatch):
    monkeypatch.setattr(blocks, "WHOLE_AT_ONCE", 2)
    table = Counted([5] * 8)
    assert plain(table.batch(np.arange(39, -1, -1), NAMES)) == expected(table.sizes, range(39, -1, -1))
    assert table.read[0] == (0, NAMES)  # whose sizes show whether there is room
    assert {names for _, names in table.read[1:]} == {("n", "text"), ("rows",)}


def test_sizes_of_blocks_are_unknown_by_default():
    table = Counted([3, 4])
    assert table.stored_bytes(0, 7) == 0
    table._block_sizes = lambda: np.array([300, 4])
    table.__dict__.pop("_places")
    assert [table.stored_bytes(0, 1), table.stored_bytes(2, 5), table.stored_bytes(3, 7)] == [100, 102, 4]


def test_a_thread_that_waits_goes_on_with_other_groups():
    """Blocks 1 and 2 are in the group of block 0, which thread A decodes: thread B takes those of the next group, as far as they are kept."""
    inside, ahead = threading.Event(), threading.Event()

    class Grouped(Counted):
        def _group(self, block):
            return block // 3

        def _read_block(self, block, names):
            if block == 2 and (0, NAMES) in self.read:
                inside.set()
                assert ahead.wait(60)
            found = super()._read_block(block, names)
            if block == 5:
                ahead.set()
            return found

    table = Grouped([5] * 12)
    table.batch(np.arange(5), NAMES)
    first = threading.Thread(target=table.batch, args=(np.arange(10, 12), NAMES))
    first.start()
    assert inside.wait(60)
    assert plain(table.batch(np.arange(9, 13), NAMES)) == expected(table.sizes, range(9, 13))
    first.join()
    assert table.read[0] == (0, NAMES)
    assert {block for block, _ in table.read} >= {1, 2, 3, 4, 5}
    assert len(table.read) == len(set(table.read))


def test_few_blocks_are_decoded_ahead(monkeypatch):
    """No more than are kept until they are read."""
    table = Counted([5] * 30)
    assert table._blocks_ahead() == 0  # while the size of one is unknown
    table.batch(np.arange(5), NAMES)
    size = table._recent.size
    assert size == sum(column_cache.size_of(column) for column in table._block(0, NAMES).values())
    for room, ahead in ((size - 1, 0), (3 * size, 3), (1 << 40, blocks.MOST_AHEAD)):
        monkeypatch.setattr(blocks, "AHEAD_BYTES", room)
        assert table._blocks_ahead() == ahead


@pytest.mark.parametrize(("pieces", "calls"), [(1, 5), (3, 5), (20, 1)])
def test_rows_from_few_pieces_become_whole_soon(pieces, calls):
    table = Counted([5] * 20)
    table._pieces = np.arange(20) * pieces // 20
    for call in range(1, calls + 1):
        assert table._whole.get("n") is None
        indices = np.random.default_rng(call).permutation(100)
        assert plain(table.batch(indices, NAMES)) == expected(table.sizes, indices)
    assert table._whole.get("n") is not None
