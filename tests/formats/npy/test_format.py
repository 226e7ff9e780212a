"""``.npy`` files as records, against NumPy."""

import os
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.forks import exit_code, fork
from tests.formats.golden import NPY

import headrace as hr
from headrace.contracts.records import Records, Skipped
from headrace.errors import CorruptFile, SchemaMismatch, UnsupportedData, Where
from headrace.formats.npy.format import NpyRecords, data_offset
from headrace.io.local.mapped import MappedFile

SOUND = sorted(p for p in NPY.glob("*.npy") if not p.name.startswith(("damaged", "object")))


def saved(path, array):
    np.save(path, array)
    return str(path)


def rows_of(array):
    return array if array.ndim else array.reshape(1)


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_goldens_read_as_numpy_reads_them(path):
    array = np.load(path)
    rows = rows_of(array)
    records = NpyRecords([str(path)])
    assert isinstance(records, Records)
    assert len(records) == len(rows)
    assert records.dtype == array.dtype.newbyteorder("=")
    assert records.row_shape == rows.shape[1:]
    taken = records.take(np.arange(len(rows)))
    assert taken.dtype == records.dtype
    assert taken.flags.writeable
    np.testing.assert_array_equal(taken, rows)
    contents = [rows[index : index + 1].tobytes() for index in range(len(rows))]
    assert [bytes(view) for view in records] == [bytes(records[index]) for index in range(len(rows))] == contents
    assert records.spans(np.arange(len(rows))).to_bytes() == contents
    assert [record for _, spans in records.iter_spans(2) for record in spans.to_bytes()] == contents
    assert records.skipped == Skipped()


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
@pytest.mark.parametrize("copies", [1, 2])
def test_a_reader_of_checked_indices_equals_batch(path, copies):
    source = hr.open([str(path)] * copies)
    read = source.checked_reader()
    for indices in (
        np.arange(len(source)),
        np.arange(len(source))[::-1].copy(),
        np.zeros(min(len(source), 1), np.int64),
    ):
        found, expected = read(indices), source.batch(indices)
        assert list(found) == list(expected)
        for name, column in expected.items():
            assert (found[name].dtype, found[name].shape) == (column.dtype, column.shape)
            assert found[name].tobytes() == column.tobytes()
            assert found[name].flags.writeable


def test_a_reader_of_another_name_or_a_function_is_not_passed_over(tmp_path):
    """A source that changes its batches gives the reader of what it makes."""
    rows = np.arange(12.0).reshape(6, 2)
    source = hr.open(saved(tmp_path / "a.npy", rows))
    named = hr.open(saved(tmp_path / "a.npy", rows), schema=hr.Schema({"x": hr.Feature(np.float64, (2,))}))
    doubled = source.map(lambda example: {"twice": example["values"] * 2})
    indices = np.array([5, 0, 3])
    for each, name, expected in [
        (source, "values", rows[indices]),
        (named, "x", rows[indices]),
        (doubled, "twice", 2 * rows[indices]),
        (source[::-1], "values", rows[::-1][indices]),
    ]:
        batch = each.checked_reader()(indices)
        assert list(batch) == [name]
        np.testing.assert_array_equal(batch[name], expected)


@pytest.mark.parametrize(
    ("name", "offset"), [("damaged_truncated", 259), ("damaged_header", 0x13), ("damaged_magic", 5)]
)
def test_damaged_goldens_raise_with_their_place(name, offset):
    records = NpyRecords([str(NPY / f"{name}.npy")])
    with pytest.raises(CorruptFile) as raised:
        len(records)
    assert raised.value.where.path == str(NPY / f"{name}.npy")
    assert raised.value.where.offset == offset


def test_a_file_cut_off_in_its_header_is_corrupt(tmp_path):
    np.save(tmp_path / "whole.npy", np.arange(1000.0))
    whole = (tmp_path / "whole.npy").read_bytes()
    for size in (0, 6, 20, 100, 128, 4000):
        (tmp_path / "cut.npy").write_bytes(whole[:size])
        with pytest.raises(CorruptFile, match=r"bytes.*at .*cut.npy, byte.* truncated while it was written") as raised:
            hr.open(tmp_path / "cut.npy")
        assert "on_corrupt" not in str(raised.value)


def test_object_arrays_are_refused():
    with pytest.raises(UnsupportedData, match="pickle"):
        len(NpyRecords([str(NPY / "object.npy")]))


arrays = hnp.arrays(
    st.one_of(
        hnp.boolean_dtypes(),
        hnp.integer_dtypes(endianness="?"),
        hnp.floating_dtypes(endianness="?"),
        hnp.complex_number_dtypes(endianness="?"),
        hnp.datetime64_dtypes(endianness="?"),
        hnp.byte_string_dtypes(min_len=1),
        hnp.unicode_string_dtypes(endianness="?", min_len=1),
        st.just(np.dtype([("a", ">i2"), ("b", "<f8", (2,))])),
    ),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)


@given(st.data(), arrays, st.booleans())
def test_any_array_in_any_order(tmp_path_factory, data, array, fortran):
    array = np.asfortranarray(array) if fortran else array
    records = NpyRecords([saved(tmp_path_factory.mktemp("npy") / "x.npy", array)])
    rows = rows_of(array)
    assert len(records) == len(rows)
    if len(rows):
        indices = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)), np.int64)
        taken = records.take(indices)
        assert taken.dtype == array.dtype.newbyteorder("=")
        assert taken.dtype.isnative
        assert taken.tobytes() == rows[indices].astype(taken.dtype).tobytes()


def test_an_array_in_another_order_may_be_a_view_in_memory(tmp_path):
    array = np.arange(60).reshape(3, 4, 5)[:, ::2]
    np.testing.assert_array_equal(NpyRecords([saved(tmp_path / "x.npy", array)]).take(np.array([2, 0])), array[[2, 0]])


@pytest.fixture
def shards(tmp_path):
    array = np.random.default_rng(0).integers(0, 100, (100, 3))
    parts = [array[:40], array[40:40], np.asfortranarray(array[40:70]), array[70:].astype(">i8")]
    return array, [saved(tmp_path / f"{number}.npy", part) for number, part in enumerate(parts)]


@pytest.mark.parametrize("dtype", [">i2", ">f4", ">i8", ">c8", ">c16", ">U3", ">M8[s]", ">f16"])
@pytest.mark.parametrize("maps", [True, False])
def test_shards_in_the_other_byte_order(tmp_path, monkeypatch, dtype, maps):
    """Native code swaps numbers while it copies rows, whether it finds them in one file, in several or in read bytes."""
    array = (np.arange(100 * 1000) % 251).reshape(100, 1000).astype(dtype)
    paths = [saved(tmp_path / f"{number}.npy", array[number * 50 :][:50]) for number in range(2)]
    monkeypatch.setattr("headrace.io.local.mapped.scattered_limit", lambda: 1 << 40 if maps else 0)
    order = np.random.default_rng(1).permutation(50)
    for records, rows in ((NpyRecords(paths[:1]), array[:50]), (NpyRecords(paths), array)):
        for indices in (np.arange(50), order):
            taken = records.take(indices)
            assert taken.dtype.isnative
            np.testing.assert_array_equal(taken, rows[indices])
            assert records.spans(indices).to_bytes() == [row.tobytes() for row in rows[indices]]  # as in the file


def test_shards_join(shards):
    array, paths = shards
    records = NpyRecords(paths)
    assert len(records) == 100
    for indices in (np.arange(100), np.random.default_rng(1).permutation(100), np.array([99]), np.array([41, 69, 41])):
        np.testing.assert_array_equal(records.take(indices), array[indices])
    assert records.take(np.zeros(0, np.int64)).shape == (0, 3)
    assert records.where(75) == Where(path=paths[3], record=5, offset=128 + 5 * 24)
    assert records.where(50) == Where(path=paths[2], record=10)
    assert "4 files, 100 rows of int64 (3,)" in repr(records)


@pytest.mark.parametrize("other", [np.zeros((2, 3), np.float32), np.zeros((2, 4), np.int64), np.zeros(2, np.int64)])
def test_shards_that_differ_are_named(shards, tmp_path, other):
    _, paths = shards
    path = saved(tmp_path / "other.npy", other)
    with pytest.raises(SchemaMismatch, match=r"0\.npy") as raised:
        len(NpyRecords([*paths, path]))
    assert raised.value.where.path == path
    assert str(other.dtype) in str(raised.value)


def test_invalid_indices(shards):
    records = NpyRecords(shards[1])
    for index in (100, -101):
        with pytest.raises(IndexError, match="of 100"):
            records[index]
    for indices in ([0, 100], [-1]):
        with pytest.raises(IndexError):
            records.take(np.array(indices))
    assert bytes(records[-1]) == bytes(records[99])


def test_rows_are_the_callers_own(tmp_path):
    records = NpyRecords([saved(tmp_path / "x.npy", np.arange(10.0))])
    first = records.take(np.array([3, 4]))
    first[:] = -1
    assert records.take(np.array([3, 4])).tolist() == [3, 4]


def test_views_outlive_everything(tmp_path):
    records = NpyRecords([saved(tmp_path / "x.npy", np.arange(10, dtype="<i4"))])
    view = records[7]
    del records
    os.unlink(tmp_path / "x.npy")
    assert bytes(view) == b"\7\0\0\0"


def test_a_file_with_more_than_its_header_says(tmp_path):
    path = saved(tmp_path / "x.npy", np.arange(10, dtype="<i4"))
    with open(path, "ab") as file:
        file.write(b"more")
    with pytest.raises(CorruptFile, match=r"expected 40 bytes .* found 44") as raised:
        len(NpyRecords([path]))
    assert raised.value.where.offset == 128 + 40


def test_a_changed_file_is_noticed(tmp_path):
    path = saved(tmp_path / "x.npy", np.arange(10))
    records = NpyRecords([path])
    len(records)
    records._files._mapped.clear()
    saved(path, np.arange(20))
    with pytest.raises(CorruptFile, match="another version"):
        records.take(np.array([0]))


def test_pickling_threads_and_fork(shards):
    array, paths = shards
    records = pickle.loads(pickle.dumps(NpyRecords(paths)))
    len(records)
    wrong = []

    def read(seed):
        indices = np.random.default_rng(seed).integers(0, 100, 64)
        if not np.array_equal(records.take(indices), array[indices]):
            wrong.append(seed)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert exit_code(fork(lambda: np.array_equal(records.take(np.arange(100)), array))) == 0


def test_start_of_the_array(tmp_path):
    assert data_offset(saved(tmp_path / "x.npy", np.arange(3))) == 128
    assert data_offset(NPY / "version3.npy") == 128


def test_files_are_read_in_large_parts_once_a_batch_is_read(tmp_path, monkeypatch):
    """Not for single rows, of which few may be wanted."""
    paths = [str(tmp_path / f"{number}.npy") for number in range(3)]
    for path in paths:
        np.save(path, np.arange(40).reshape(10, 4))
    expected = []
    monkeypatch.setattr(MappedFile, "expect_all", lambda self: expected.append(self.path))
    for files in (paths, paths[:1]):
        expected.clear()
        records = NpyRecords(files)
        for row in range(10):
            assert np.frombuffer(records[row], int).tolist() == list(range(4 * row, 4 * row + 4))
        assert not expected
        for _ in range(3):
            assert records.take(np.arange(len(records))).sum() == 780 * len(files)
        assert sorted(expected) == files


@pytest.mark.parametrize("files", [1, 3])
def test_large_parts_are_read_once_many_rows_are_wanted(tmp_path, monkeypatch, files):
    """Around few rows, they would be read for nothing."""
    large = []
    monkeypatch.setattr(MappedFile, "expect_all", lambda file: large.append(file.path))
    paths = [saved(tmp_path / f"{number}.npy", np.arange(6400 // files * 2).reshape(-1, 2)) for number in range(files)]
    source = hr.open(paths)
    rows = len(source)
    for numbers in ([5], [7, rows - 1], list(range(0, rows, 128))):
        assert source.batch(np.array(numbers))["values"][:, 0].tolist() == [n % (6400 // files) * 2 for n in numbers]
    next(iter(hr.Loader(source, 4, shuffle=True, threads=0)))
    assert not large
    source.batch(np.arange(0, rows, 100))
    assert sorted(large) == sorted(paths)


def test_large_parts_are_read_in_order(tmp_path, monkeypatch):
    large = []
    monkeypatch.setattr(MappedFile, "expect_all", lambda file: large.append(file.path))
    path = saved(tmp_path / "x.npy", np.arange(6400).reshape(-1, 2))
    source = hr.open(path)
    assert not large
    assert next(iter(hr.Loader(source, 4)))["values"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert large == [path]


def test_few_rows_are_requested_together(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("headrace._native.request_ranges", lambda _, which, begins, ends: asked.append((begins, ends)))
    source = hr.open([saved(tmp_path / f"{n}.npy", np.zeros((5000, 4), np.float32)) for n in range(2)])
    assert source.batch([3, 9, 5001])["values"].shape == (3, 4)
    ((begins, ends),) = asked
    assert (begins - begins[0]).tolist() == [0, 96, -32]
    assert (ends - begins).tolist() == [16] * 3
    with pytest.raises(IndexError):
        source.batch([3, 10_000])
