"""Columns of any kind, written in batches whose layouts differ, and read by index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.columns.read import StoredFeature
from headrace.formats.columns.write import FeatureWriter
from headrace.io.folders import AtomicFolder
from headrace.sources.stacking import stack
from headrace.testing import assert_same

VALUES = {
    "number": st.integers(-99, 99).map(np.int32),
    "rows": st.lists(st.integers(-9, 9), max_size=4).map(lambda row: np.array(row, np.int16)),
    "boxes": st.integers(0, 3).map(lambda n: np.arange(n * 2, dtype=np.float32).reshape(n, 2)),
    "images": st.tuples(st.integers(1, 3), st.integers(1, 3)).map(
        lambda shape: np.arange(np.prod(shape)).reshape(shape)
    ),
    "text": st.sampled_from(["", "a", "ß", "long text"]),
    "raw": st.binary(max_size=3),
    "words": st.lists(st.sampled_from(["", "a", "ß€"]), max_size=3).map(lambda row: np.array(row, object)),
    "flags": st.lists(st.booleans(), min_size=3, max_size=3).map(np.array),
}


def store(folder, batches):
    whole = AtomicFolder(folder)
    writer = FeatureWriter(whole, "0", "x")
    first = 0
    try:
        for batch in batches:
            writer.append(batch["x"], first)
            first += len(batch["x"])
        described = writer.close()
        whole.close()
    finally:
        writer.abort()
        whole.abort()
    return StoredFeature(str(folder), "0", "x", first, described)


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_batches_of_other_layouts(tmp_path_factory, kind, data):
    batches = data.draw(st.lists(st.lists(VALUES[kind], min_size=1, max_size=4), min_size=1, max_size=5))
    values = [value for batch in batches for value in batch]
    stored = store(tmp_path_factory.mktemp("x") / "x", [stack([{"x": value} for value in batch]) for batch in batches])
    chosen = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=8))
    found = stored.rows(np.array(chosen, np.int64))
    assert len(found) == len(chosen)
    for one, index in zip(found, chosen, strict=True):
        if isinstance(values[index], np.ndarray) and values[index].size == 0:
            assert len(one) == 0
        else:
            assert_same(one, values[index])


def test_a_dtype_stays(tmp_path):
    for name, other in (
        ("dtype", np.zeros(2, np.float32)),
        ("inexact", np.array([1, 2**53 + 1])),
        ("axes", np.zeros((2, 3))),
        ("text", hr.Strings.from_values(["a"])),
    ):
        with pytest.raises(
            hr.SchemaMismatch, match="values of <f8 with 0 axes, as before, found .* record 2, feature 'x'"
        ):
            store(tmp_path / name, [{"x": np.zeros(2)}, {"x": other}])


def test_integers_among_floats_are_equal_floats(tmp_path):
    rows = store(tmp_path / "x", [{"x": np.array([0.5])}, {"x": np.array([2**53])}]).rows(np.arange(2))
    assert (rows.dtype, rows.tolist()) == (np.float64, [0.5, 2.0**53])


def test_rows_without_values_have_no_dtype(tmp_path):
    empty, full = hr.Ragged.from_list([[], []]), hr.Ragged.from_list([[1], [2, 3]], np.int32)
    for name, batches in (("before", [empty, full]), ("after", [full, empty])):
        stored = store(tmp_path / name, [{"x": column} for column in batches])
        assert sorted(stored.rows(np.arange(4)).to_list()) == [[], [], [1], [2, 3]]
        assert stored.rows(np.arange(4)).dtype == np.int32


@pytest.mark.parametrize(
    "column", [np.array([{}, 3], object), np.zeros(2, [("a", "i4")]), [np.zeros(2), np.zeros((2, 2))]]
)
def test_what_has_no_one_kind_is_refused(tmp_path, column):
    with pytest.raises(hr.UnsupportedData, match="feature 'x'"):
        store(tmp_path / "x", [{"x": column}])


def test_counts_that_do_not_fit_the_files(tmp_path):
    stored = store(tmp_path / "x", [{"x": np.arange(5)}])
    described = {"dtype": "<i8", "shape": [], "files": stored.sizes}
    wrong = StoredFeature(str(tmp_path / "x"), "0", "x", 6, described)
    with pytest.raises(hr.CorruptFile, match="48 bytes for 6 examples, found 40"):
        wrong.rows(np.array([0]))
