import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import Ragged, Strings, _native
from headrace.contracts.values import join, take_rows
from headrace.errors import CorruptRecord, Where
from headrace.formats.table import copies
from headrace.formats.table.copies import RowCopier

ROWS = 40
RNG = np.random.default_rng(0)


def _numbers(dtype, *inner):
    return RNG.integers(0, 100, (ROWS, *inner)).astype(dtype)


COLUMNS = {
    "bool": _numbers(bool),
    "byte": _numbers(np.int8),
    "half": _numbers(np.float16, 3),
    "single": _numbers(np.float32),
    "matrix": _numbers(np.float64, 2, 5),
    "complex": _numbers(np.complex64),
    "nothing": np.empty((ROWS, 0), np.int64),
    "swapped": _numbers(">i4"),
    "every_second": _numbers(np.int16, 2)[:, 0],
    "day": _numbers("M8[D]"),
    "object": np.array([str(i) for i in range(ROWS)], object),
    "text": Strings.from_values([str(i) * (i % 4) for i in range(ROWS)]),
    "bytes": Strings.from_values([bytes([i]) * (i % 30) for i in range(ROWS)]),
    "no_text": Strings.from_values([""] * ROWS),
    "pairs": Strings.from_values(np.array([[str(i), "x"] for i in range(ROWS)], object)),
    "part": Strings.from_values([str(i) for i in range(2 * ROWS)])[ROWS // 2 : ROWS // 2 + ROWS],
    "texts": Ragged(Strings.from_values([str(i) for i in range(2 * ROWS)]), np.arange(0, 2 * ROWS + 1, 2)),
    "ragged": Ragged(np.arange(sum(i % 5 for i in range(ROWS))), np.cumsum([0, *(i % 5 for i in range(ROWS))])),
}


def _same(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        assert found.flags.writeable
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found.to_list() == wanted.to_list()
        if isinstance(wanted, Strings):
            assert (found.dtype, found.shape, found.is_text) == (wanted.dtype, wanted.shape, wanted.is_text)


some_columns = st.lists(st.sampled_from(sorted(COLUMNS)), unique=True)


@given(some_columns, st.integers(0, ROWS), st.integers(0, ROWS))
def test_rows_in_order_are_slices(names, one, other):
    begin, end = sorted((one, other))
    found = RowCopier({name: COLUMNS[name] for name in names}).copy(begin, end)
    assert list(found) == names
    for name in names:
        _same(found[name], COLUMNS[name][begin:end])
        if isinstance(found[name], np.ndarray):
            assert not np.shares_memory(found[name], COLUMNS[name])


@given(some_columns, st.lists(st.integers(0, ROWS - 1)))
def test_picked_rows_are_those_of_each_column(names, indices):
    wanted = np.array(indices, np.int64)
    found = RowCopier({name: COLUMNS[name] for name in names}).pick(wanted)
    assert list(found) == names
    for name in names:
        _same(found[name], take_rows(COLUMNS[name], wanted))


some_parts = st.lists(st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)).map(sorted), min_size=1, max_size=4)


@given(some_columns, some_parts)
def test_rows_of_blocks_are_joined_as_their_slices_are(names, parts):
    blocks = [{name: COLUMNS[name][shift:] for name in names} for shift in range(len(parts))]  # different memory
    parts = [(begin, max(begin, end - shift)) for shift, (begin, end) in enumerate(parts)]
    found = RowCopier.join([(RowCopier(block), *part) for block, part in zip(blocks, parts, strict=True)])
    assert list(found) == names
    for name in names:
        slices = [block[name][begin:end] for block, (begin, end) in zip(blocks, parts, strict=True)]
        _same(found[name], join(slices))


def test_blocks_whose_columns_differ_are_joined_too():
    text, data = Strings.from_values(["a", "bc"]), Strings.from_values([b"a", b"bc"])
    numbers = np.arange(2, dtype=np.int16)
    for one, other in [
        ({"x": numbers}, {"x": numbers.astype(np.int64)}),
        ({"x": numbers}, {"x": np.array([2**40, 1.5], object)}),
        ({"x": text, "y": numbers}, {"x": data, "y": numbers}),
        ({"x": numbers}, {"x": text}),
    ]:
        found = RowCopier.join([(RowCopier(one), 1, 2), (RowCopier(other), 0, 2)])
        for name in one:
            expected = [*one[name][1:2], *other[name]]
            assert list(found[name]) == expected


def test_joined_columns_are_of_one_kind():
    def columns(*arrays):
        return _native.Columns(list(arrays), Strings)

    text, data = Strings.from_values(["a", "bc"]), Strings.from_values([b"a", b"bc"])
    one = columns(np.arange(4, dtype=np.int16), text)
    assert [len(column) for column in _native.join_rows([(one, 0, 2), (one, 1, 1), (one, 1, 2)])] == [3, 3]
    assert _native.join_rows([(one, 2, 2)])[1].to_list() == []
    for other in [
        columns(np.arange(4, dtype=np.int16)),
        columns(text, np.arange(4, dtype=np.int16)),
        columns(np.arange(4, dtype=np.uint16), text),
        columns(np.zeros((4, 1), np.int16), text),
        columns(np.arange(4, dtype=np.int16), data),
    ]:
        assert _native.join_rows([(one, 0, 1), (other, 0, 1)]) is None
    for first, stop, error in [(0, 3, IndexError), (2, 1, ValueError), (-1, 1, TypeError)]:
        with pytest.raises(error):
            _native.join_rows([(one, 0, 1), (one, first, stop)])
    for parts in [[], [(one, 0)], [(None, 0, 1)], [(text, 0, 1)], [one]]:
        with pytest.raises((TypeError, ValueError)):
            _native.join_rows(parts)
    wide = columns(np.empty((2**40, 0), np.int8))
    assert _native.join_rows([(wide, 0, 2**40)] * 3)[0].shape == (3 * 2**40, 0)


def test_rows_that_are_not_there():
    columns = _native.Columns([np.arange(10), np.arange(9)], Strings)
    assert [len(column) for column in columns.copy(0, 9)] == [9, 9]
    for first, stop in [(0, 10), (9, 10), (2**63, 2**63 + 1)]:
        with pytest.raises(IndexError):
            columns.copy(first, stop)
    with pytest.raises(ValueError, match="behind"):
        columns.copy(5, 4)
    text = _native.Columns([Strings.from_values(["a"] * 9)], Strings)
    assert text.copy(9, 9)[0].shape == (0,)
    with pytest.raises(IndexError):
        text.copy(0, 10)
    for index in [9, -1, 2**62]:
        for some in (columns, text):
            with pytest.raises(_native.FormatError) as caught:
                some.pick(np.array([0, index]))
            assert caught.value.fault == "range"
            assert caught.value.record == 1


@pytest.mark.parametrize(
    "column", [np.array(1.0), np.arange(10)[::2], np.array(["a"], object), [1, 2], COLUMNS["pairs"]]
)
def test_what_is_no_array_of_numbers(column):
    with pytest.raises((TypeError, ValueError, AttributeError, BufferError)):
        _native.Columns([column], Strings)


def test_rows_without_bytes_have_a_bound():
    """No memory is asked for before their number is checked."""
    columns = _native.Columns([np.empty((2**40, 0), np.int8)], Strings)
    assert columns.copy(0, 2**40)[0].shape == (2**40, 0)


ALL = {name: COLUMNS[name] for name in ("single", "matrix", "text", "ragged", "texts", "pairs")}


@pytest.fixture(autouse=True)
def second_epochs_begin_at_once(monkeypatch):
    monkeypatch.setattr("headrace.formats.table.copies.MORE_ROWS", 0)
    monkeypatch.setattr("headrace.formats.table.copies.MORE", 1 << 40)


class ParsedRows(copies.ParsedRows):
    """With what parses its rows."""

    def __init__(self, count, parse, most_bytes=None):
        super().__init__(count, most_bytes)
        self.parse = parse

    def read(self, indices):
        return super().read(indices, self.parse)


class Parser:
    """Takes rows of columns, and notes which."""

    def __init__(self, columns=ALL, damaged=()):
        self.columns, self.damaged = columns, set(damaged)
        self.calls = []

    def __call__(self, indices):
        self.calls.append(indices.tolist())
        if bad := self.damaged.intersection(self.calls[-1]):
            raise CorruptRecord(Where(), expected="a row", found=str(bad))
        return {name: take_rows(column, indices) for name, column in self.columns.items()}


def _check(rows, indices, columns=ALL):
    found = rows.read(np.array(indices, np.int64))
    assert list(found) == list(columns)
    for name, column in columns.items():
        _same(found[name], take_rows(column, np.array(indices, np.int64)))
    return found


def test_rows_are_parsed_once_more_and_then_copied(monkeypatch):
    monkeypatch.setattr("headrace.formats.table.copies.PARSED_BYTES", 1000)
    parser = Parser()
    rows = ParsedRows(ROWS, parser)
    for start in range(0, ROWS, 10):
        _check(rows, range(start, start + 10))
    assert len(parser.calls) == 4
    _check(rows, [3])  # A single row is parsed alone.
    assert parser.calls.pop() == [3]
    _check(rows, range(5, 9))
    pieces = parser.calls[4:]
    assert sorted(sum(pieces, [])) == list(range(ROWS))
    assert len(pieces) > 2
    for indices in (range(ROWS), [7], [ROWS - 1, 0, 7, 7], [3, 5], [0]):
        _check(rows, indices)
    assert parser.calls[4:] == pieces


def test_rows_that_opening_looks_at_are_no_epoch(monkeypatch):
    monkeypatch.setattr("headrace.formats.table.copies.MORE_ROWS", 30)
    parser = Parser()
    rows = ParsedRows(ROWS, parser)
    _check(rows, range(25))  # looked at
    _check(rows, range(ROWS))
    _check(rows, range(5))
    assert len(parser.calls) == 3
    for _ in range(2):
        _check(rows, [0, 1])
        assert parser.calls[3:] == [list(range(ROWS))]


def test_a_batch_may_be_written_to():
    rows = ParsedRows(ROWS, Parser())
    for _ in range(3):
        found = _check(rows, range(ROWS))
        found["single"][:] = -1
        found["matrix"][:] = -1
        found["ragged"].values[:] = -1


@given(st.lists(st.lists(st.integers(0, ROWS - 1), min_size=1), max_size=12), some_columns, st.integers(0, 20_000))
def test_rows_are_the_same_whatever_is_kept(calls, names, most_bytes):
    columns = {name: COLUMNS[name] for name in names if name not in ("object", "every_second", "swapped")}
    rows = ParsedRows(ROWS, Parser(columns), most_bytes)
    for indices in calls:
        _check(rows, indices, columns)


def test_what_is_too_large_is_not_kept():
    parser = Parser()
    rows = ParsedRows(ROWS, parser, most_bytes=3000)
    for _ in range(3):
        _check(rows, range(ROWS))
    assert parser.calls == [list(range(ROWS))] * 3


def test_rows_that_turn_out_larger_than_those_before_are_not_kept():
    """What was parsed of them is dropped."""
    texts = Strings.from_values(["x" * 100_000 if i < 4 else "" for i in range(ROWS)])
    parser = Parser({"t": texts})
    rows = ParsedRows(ROWS, parser, most_bytes=200_000)
    for start in (0, 20):
        _check(rows, range(start, start + 20), parser.columns)
    for _ in range(2):
        _check(rows, [30, 31], parser.columns)
    assert parser.calls[2:] == [list(range(ROWS)), [30, 31], [30, 31]]
    assert not rows._pieces


def test_what_ends_the_parsing_ends_it_in_all_threads(monkeypatch):
    """An interrupt, for one: the next call parses again."""
    monkeypatch.setattr("headrace.formats.table.copies.PARSED_BYTES", 1000)
    rows = ParsedRows(ROWS, Parser())
    _check(rows, range(ROWS))
    parse, rows.parse = rows.parse, lambda _: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        rows.read(np.arange(2))
    rows.parse = parse
    _check(rows, range(ROWS))
    assert not rows._pieces


def test_objects_are_not_kept():
    parser = Parser({"object": COLUMNS["object"]})
    rows = ParsedRows(ROWS, parser)
    for _ in range(3):
        _check(rows, range(ROWS), parser.columns)
    assert len(parser.calls) == 3


def test_a_damaged_row_matters_only_to_those_who_ask_for_it():
    parser = Parser(damaged=[13])
    rows = ParsedRows(ROWS, parser)
    sound = [row for row in range(ROWS) if row != 13]
    for _ in range(3):
        _check(rows, sound)
        _check(rows, [0, 1])
        with pytest.raises(CorruptRecord):
            rows.read(np.arange(ROWS))


def test_threads_parse_other_rows(monkeypatch):
    monkeypatch.setattr("headrace.formats.table.copies.PARSED_BYTES", 1000)
    both, lock = threading.Barrier(2, timeout=60), threading.Lock()
    parser, waits = Parser(), []

    def parse(indices):
        with lock:
            wait = waits.pop() if waits else False
        if wait:
            both.wait()  # until the other thread parses, too
        return parser(indices)

    rows = ParsedRows(ROWS, parse)
    _check(rows, range(ROWS))
    waits[:] = [True, True]
    faults = []

    def read():
        try:
            _check(rows, [1, 2])
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults
    assert sorted(sum(parser.calls[1:], [])) == list(range(ROWS))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_reads_on(monkeypatch):
    """Also where a thread of its parent holds a lock."""
    rows = ParsedRows(ROWS, Parser())
    _check(rows, range(ROWS))
    with rows._locks[0], rows._locks["whole"]:
        pid = os.fork()
        if pid == 0:
            try:
                _check(rows, [1, 2])
            except BaseException:
                os._exit(1)
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    _check(rows, [1, 2])


OF_NUMBERS = {
    "numbers": lambda numbers: np.array(numbers, np.int16),
    "vectors": lambda numbers: np.array(numbers, np.float64).repeat(3).reshape(-1, 3),
    "text": lambda numbers: Strings.from_values([str(number) for number in numbers], is_text=True),
    "bytes": lambda numbers: Strings.from_values([b"%d" % number for number in numbers], is_text=False),
    "long rows": lambda numbers: np.array(numbers, np.uint8).repeat(257).reshape(-1, 257),
    "rows of text": lambda numbers: Strings.from_values([str(number) for number in numbers], is_text=True).reshape(
        -1, 1
    ),
    "ragged": lambda numbers: Ragged(
        np.array(numbers, np.float32).repeat(numbers % 4), np.cumsum([0, *(number % 4 for number in numbers)])
    ),
    "ragged vectors": lambda numbers: Ragged(
        np.array(numbers).repeat(300).reshape(-1, 300), np.arange(len(numbers) + 1)
    ),
    "ragged text": lambda numbers: Ragged(OF_NUMBERS["text"](numbers), np.arange(len(numbers) + 1)),
    "ragged of ragged": lambda numbers: Ragged(OF_NUMBERS["ragged"](numbers), np.arange(len(numbers) + 1)),
    "objects": lambda numbers: np.array([*numbers, None], object)[:-1],
}
MERGED = {"numbers", "vectors", "text", "bytes", "ragged", "ragged vectors"}


@given(
    st.lists(st.lists(st.integers(-99, 99), max_size=9), min_size=1, max_size=4),
    st.sets(st.sampled_from([*OF_NUMBERS])),
    st.data(),
)
def test_merged_rows_are_those_of_joined_columns(parts, names, data):
    parts = [np.array(part, np.int64) % 100 for part in parts]
    batches = [{name: OF_NUMBERS[name](part) for name in names} for part in parts]
    total = sum(map(len, parts))
    order = np.array(data.draw(st.lists(st.integers(0, max(total - 1, 0)), max_size=20 if total else 0)), np.int64)
    merged = copies.merge_rows(batches, order)
    assert merged.keys() == names & MERGED
    for name, column in merged.items():
        plain = take_rows(join([batch[name] for batch in batches]), order)
        assert type(column) is type(plain)
        if isinstance(column, Ragged):
            assert (column.values.dtype, column.offsets.dtype) == (plain.values.dtype, plain.offsets.dtype)
            assert column.values.shape == plain.values.shape
            assert column.to_list() == plain.to_list()
            assert not any(np.shares_memory(column.values, batch[name].values) for batch in batches)
        else:
            assert (column.dtype, column.shape) == (plain.dtype, plain.shape)
            assert column.tolist() == plain.tolist()
            assert type(column) is Strings or not any(np.shares_memory(column, batch[name]) for batch in batches)


@pytest.mark.parametrize(
    "other",
    [
        np.zeros(3, np.int32),
        np.zeros((3, 2), np.int64),
        np.zeros(6, np.int64)[::2],
        np.zeros(3, "M8[s]"),
        np.zeros(3, object),
        Strings.from_values(["a", "b", "c"]),
        Ragged(np.zeros(3, np.int64), np.arange(4)),
        Ragged(np.zeros(3), np.arange(4)),
        Ragged(np.zeros((3, 2), np.int64), np.arange(4)),
        [1, 2, 3],
    ],
)
def test_columns_of_other_kinds_are_not_merged_natively(other):
    order = np.arange(5)
    assert copies.merge_rows([{"a": np.zeros(2, np.int64)}, {"a": other}], order) == {}
    if not isinstance(other, Strings):
        assert copies.merge_rows([{"a": Strings.from_values(["a", "b"])}, {"a": other}], order) == {}
    assert copies.merge_rows([{"a": Strings.from_values([b"a", b"b"])}, {"a": Strings.from_values(["c"])}], order) == {}
    if not isinstance(other, Ragged) or other.dtype != np.int64 or other.values.ndim > 1:
        assert copies.merge_rows([{"a": Ragged(np.zeros(2, np.int64), np.arange(3))}, {"a": other}], order) == {}


def test_an_order_beyond_the_rows():
    ragged = Ragged(np.zeros(2, np.int64), np.arange(3))
    for one in ({"a": np.zeros(2, np.int64), "t": Strings.from_values(["a", "b"])}, {"r": ragged}):
        for order in ([4], [-1]):
            with pytest.raises(_native.FormatError, match="range"):
                copies.merge_rows([one] * 2, np.array(order))
