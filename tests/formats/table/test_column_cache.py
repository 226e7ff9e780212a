"""Columns that are kept: in memory up to a limit, and in temporary files."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.contracts.values import join
from headrace.formats.table import column_cache
from headrace.formats.table.column_cache import (
    ColumnFile,
    KeptColumns,
    ProcessLocks,
    RecurringTexts,
    WholeColumns,
    memory_share,
    size_of,
)
from headrace.io.threads import FORKS


def plain(column):
    return column.to_list() if isinstance(column, (hr.Ragged, hr.Strings)) else column.tolist()


COLUMNS = {
    "numbers": lambda n: np.arange(n, dtype=np.int16),
    "rows": lambda n: np.arange(n * 6, dtype=np.float32).reshape(n, 2, 3),
    "times": lambda n: np.arange(n).astype("M8[s]"),
    "text": lambda n: hr.Strings.from_values([f"{'ü' * (k % 3)}{k}" for k in range(n)], is_text=True),
    "bytes": lambda n: hr.Strings.from_values([b"\0" * (k % 5) for k in range(n)], is_text=False),
    "words": lambda n: hr.Strings.from_values([f"{k}" for k in range(2 * n)], is_text=True).reshape(n, 2),
    "ragged": lambda n: hr.Ragged(np.arange(n * (n - 1) // 2, dtype=np.int64), np.cumsum([0, *range(n)])),
    "texts": lambda n: hr.Ragged(
        hr.Strings.from_values([f"{k}" for k in range(n * (n - 1) // 2)], is_text=True), np.cumsum([0, *range(n)])
    ),
    "nested": lambda n: hr.Ragged(
        hr.Ragged(np.arange(n * (n - 1) // 2), np.cumsum([0, *range(n)])), np.arange(n + 1, dtype=np.int64)
    ),
}


@pytest.mark.parametrize("kind", list(COLUMNS))
@given(lengths=st.lists(st.integers(0, 6), min_size=1, max_size=5), skipped=st.integers(0, 3))
def test_a_mapped_column_is_the_joined_one(tmp_path_factory, kind, lengths, skipped):
    parts = [COLUMNS[kind](skipped + n)[skipped:] for n in lengths]
    file = ColumnFile(tmp_path_factory.getbasetemp())
    for part in parts:
        file.append(part)
    found, expected = file.mapped(), join(parts)
    assert (type(found), len(found), found.dtype) == (type(expected), len(expected), expected.dtype)
    assert plain(found) == plain(expected)


def test_a_mapped_column_leaves_no_file(tmp_path):
    file = ColumnFile(tmp_path)
    file.append(np.arange(5))
    assert not list(tmp_path.iterdir())
    column = file.mapped()
    file.close()
    assert column.tolist() == [0, 1, 2, 3, 4]
    assert not column.flags.writeable


def test_the_oldest_columns_are_dropped():
    columns = KeptColumns(most_bytes=100)
    for block in range(4):
        columns.put(block, "x", np.zeros(30, np.uint8))
    assert [columns.get(block, "x") is not None for block in range(4)] == [False, True, True, True]
    columns.put(9, "x", np.zeros(101, np.uint8))
    assert columns.get(9, "x") is None
    columns.put(1, "y", np.zeros(10, np.uint8))
    columns.forget(["x"])
    assert [columns.get(block, "x") for block in range(4)] == [None] * 4
    assert columns.get(1, "y") is not None


def test_columns_that_were_passed_are_dropped_if_not_all_fit(monkeypatch):
    monkeypatch.setattr(column_cache, "PASSING_BYTES", 50)
    for block_bytes, all_bytes, kept in ((20, 200, 4), (20, 201, 2), (40, 201, 4), (30, 201, 3)):
        columns = KeptColumns(most_bytes=200)
        for block in range(4):
            columns.put(block, "x", np.zeros(20, np.uint8))
        columns.pass_on(block_bytes, all_bytes)
        assert [columns.get(block, "x") is not None for block in range(4)] == [False] * (4 - kept) + [True] * kept


def test_sizes():
    objects = np.array(["abc", "d"], object)
    assert size_of(np.zeros((3, 2), np.int32)) == 24
    assert size_of(hr.Strings.from_values(["abc", "d"])) == 4 + 3 * 8
    assert size_of(hr.Ragged(np.zeros(4, np.int8), np.array([0, 4]))) == 4 + 16
    assert size_of(objects) > 4


def test_a_share_of_memory(monkeypatch):
    for memory, most, expected in ((None, 1 << 40, 64 << 20), (8 << 30, 1 << 40, 1 << 30), (8 << 30, 5, 5)):
        monkeypatch.setattr(column_cache, "usable_memory", lambda memory=memory: memory)
        assert memory_share(most) == expected


def test_locks_belong_to_one_process(monkeypatch):
    locks = ProcessLocks()
    assert locks["a"] is locks["a"]
    assert locks["a"] is not locks["b"]
    held = locks["a"]
    monkeypatch.setattr(FORKS, "count", FORKS.count + 1)
    assert locks["a"] is not held


def blocks(*sizes):
    return [{name: make(n) for name, make in COLUMNS.items()} for n in sizes]


@pytest.mark.parametrize("most", [0, 1 << 30])
def test_whole_columns(monkeypatch, tmp_path, most):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    whole, names = WholeColumns(most), tuple(COLUMNS)
    assert whole.has_room(1000)
    assert whole.fits_memory(1000) is (most > 0)
    assert whole.fill(names, blocks(3, 0, 4), 1000)
    for name in names:
        assert plain(whole.get(name)) == plain(join([COLUMNS[name](3), COLUMNS[name](0), COLUMNS[name](4)]))
    assert not [path for _, _, files in os.walk(tmp_path) for path in files]


def test_no_room_for_whole_columns(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", "500")
    whole = WholeColumns(100)
    assert [whole.has_room(size) for size in (100, 400, 501)] == [True, True, False]


def test_a_full_disk(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    whole, written = WholeColumns(0), []

    def fail(file, array):
        written.append(array)
        if len(written) > 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(column_cache, "_write", fail)
    assert not whole.fill(("numbers",), blocks(3, 3, 3, 3, 3), 10)
    assert whole.get("numbers") is None
    assert not whole.has_room(1)


def recurring(codes, texts, kind=np.int32):
    return RecurringTexts(hr.Strings.from_values(texts, is_text=True), np.array(codes, kind))


PARTS = st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=4)


@given(PARTS, st.sampled_from([np.int8, np.uint16, np.int64]), st.data())
def test_texts_that_recur(tmp_path_factory, parts, kind, data):
    words = ["one", "", "drei"]
    columns = [recurring(part, words, kind) for part in parts]
    if data.draw(st.booleans()):
        columns.append(hr.Strings.from_values(["four", "five"], is_text=True))
    expected = [text for column in columns for text in column[:]]
    whole = RecurringTexts.concatenate(columns)
    assert len(whole) == len(expected)
    assert list(whole[:]) == expected
    assert list(whole[1:3]) == expected[1:3]
    rows = data.draw(st.lists(st.integers(0, len(expected) - 1), max_size=9)) if expected else []
    assert list(whole[np.array(rows, np.int64)]) == [expected[row] for row in rows]
    file = ColumnFile(tmp_path_factory.getbasetemp())
    for column in columns:
        file.append(column)
    if expected:
        assert list(file.mapped()) == expected
    file.close()


@given(lengths=st.lists(st.integers(0, 4), min_size=2, max_size=7), begin=st.integers(0, 7), kept=st.integers(0, 3))
def test_lists_of_texts_that_recur(lengths, begin, kept):
    """Those that are held once each, and others behind them."""
    codes = [number % 3 for number in range(sum(lengths))]
    offsets = np.cumsum([0, *lengths])
    words = hr.Strings.from_values(["one", "", "drei"], is_text=True)
    held = RecurringTexts(words, hr.Ragged(np.array(codes, np.int32), offsets))
    plain_one = hr.Ragged(words.take(codes), offsets)
    assert held[begin:].to_list() == plain_one[begin:].to_list()
    rows = np.array([len(lengths) - 1, 0, 0])
    assert held[rows].to_list() == plain_one.take(rows).to_list()
    both = [held, plain_one, held][kept:] or [plain_one]
    assert RecurringTexts.concatenate(both)[:].to_list() == plain_one.to_list() * len(both)
    pairs = np.array([[0, 1], [2, 2], [1, 0]])
    even, others = RecurringTexts(words, pairs), words.take(pairs.reshape(-1)).reshape(3, 2)
    assert even[1:].tolist() == others[1:].tolist()
    assert RecurringTexts.concatenate([even, others])[np.array([4, 0])].tolist() == others[np.array([1, 0])].tolist()


def test_whole_columns_of_texts_that_recur(monkeypatch, tmp_path):
    parts = [recurring([0, 1, 1], ["a", "b"]), hr.Strings.from_values(["c"], is_text=True), recurring([0], ["d"])]
    monkeypatch.setattr(column_cache, "cache_folder", lambda _: tmp_path)
    monkeypatch.setattr(column_cache, "WRITTEN_ROWS", 2)
    for most in (1 << 20, 0):
        whole = WholeColumns(most)
        assert whole.fill(("text",), ({"text": part} for part in parts), 10)
        assert list(whole.get("text")[np.array([4, 3, 2, 1, 0])]) == ["d", "c", "b", "b", "a"]


def test_columns_that_outgrow_what_the_first_block_shows(monkeypatch, tmp_path):
    """Texts that recur in the first block may do so nowhere else."""
    monkeypatch.setattr(column_cache, "cache_folder", lambda _: tmp_path)
    monkeypatch.setattr(column_cache, "LEAST_BYTES", 1000)
    blocks = [recurring([0, 0], ["a"]), *[hr.Strings.from_values(["x" * 500], is_text=True)] * 100]
    for most in (1000, 0):
        whole, seen = WholeColumns(most), []
        read = ({"text": column} for column in blocks if seen.append(column) is None)
        assert not whole.fill(("text",), read, 10)
        assert len(seen) < 10
        assert whole.get("text") is None
        assert not whole.has_room(1)


def test_texts_that_recur_stay_in_memory_beside_columns_in_files(monkeypatch, tmp_path):
    monkeypatch.setattr(column_cache, "cache_folder", lambda _: tmp_path)
    blocks = [
        {"text": recurring([0, 1], ["a", "b"]), "x": np.arange(2)},
        {"text": recurring([0], ["c"]), "x": np.arange(1)},
    ]
    whole = WholeColumns(0)
    assert whole.fill(("text", "x"), blocks, 10)
    assert isinstance(whole.get("text"), RecurringTexts)
    assert list(whole.get("text")[:]) == ["a", "b", "c"]
    assert whole.get("x").tolist() == [0, 1, 0]
    assert whole._file_bytes == whole.get("x").nbytes


def test_when_texts_are_held_once_each():
    long, short = "x" * 600, "y" * 200
    assert recurring([0] * 10_000, [long]).is_worth_it()
    assert not recurring([0] * 5_000, [long]).is_worth_it()  # 3 MB
    assert not recurring([0] * 50_000, [short]).is_worth_it()  # as fast as they are
    assert not recurring([0] * 50_000, [short, long]).is_worth_it()
    assert recurring([0, 1] * 25_000, [short, long]).is_worth_it()
    many = [f"{number}{long}" for number in range(2_000)]
    assert not recurring([*range(2_000)] * 5, many).is_worth_it()  # a fifth, with all rows
    assert recurring([*range(2_000)] * 9, many).is_worth_it()
    assert not recurring([], []).is_worth_it()
