"""Text and bytes, read and stored."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.codecs.values import add_axes, strings_of, texts_of
from headrace.contracts.feature import Feature
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch

TEXT, BYTES = Feature("str"), Feature("bytes")


def found(*values):
    """What native code finds."""
    column = Strings.from_values(values, is_text=False)
    valid = [value.decode(errors="replace").encode() == value for value in values]
    return column.data, column.offsets, -1 if all(valid) else valid.index(False)


def stored(values, feature, record_of=lambda i: i):
    column = np.empty(len(values), object)
    column[:] = values
    return strings_of(column, feature, "x", record_of)


def test_there_and_back():
    assert texts_of(found(b"a", "é".encode()), TEXT, "x", lambda i: i).tolist() == ["a", "é"]
    assert texts_of(found(b"\xff"), BYTES, "x", lambda i: i).tolist() == [b"\xff"]
    assert stored(["é", b"b", bytearray(b"c")], TEXT).tolist() == ["é", "b", "c"]
    assert stored([b"\xff", "é"], BYTES).tolist() == [b"\xff", "é".encode()]


def test_strings_are_stored_as_they_are():
    text, raw = Strings.from_values(["é"]), Strings.from_values(["é".encode()])
    for column, feature in ((text, TEXT), (text, BYTES), (raw, BYTES)):
        assert strings_of(column, feature, "x", lambda i: i) is column
    assert strings_of(raw, TEXT, "x", lambda i: i).tolist() == ["é"]
    with pytest.raises(SchemaMismatch, match="UTF-8"):
        strings_of(Strings.from_values([b"\xff"]), TEXT, "x", lambda i: i)


@pytest.mark.parametrize(
    ("value", "feature"), [(b"\xff", TEXT), ("\ud800", TEXT), ("\ud800", BYTES), (1, TEXT), (None, BYTES)]
)
def test_values_that_are_neither_are_not_stored(value, feature):
    with pytest.raises(SchemaMismatch) as caught:
        stored(["a", value], feature, lambda i: 10 + i)
    assert (caught.value.where.record, caught.value.where.feature) == (11, "x")


def test_values_that_are_not_text_are_named():
    with pytest.raises(SchemaMismatch, match=r"UTF-8 text, found the bytes b'\\xff'.*record 5") as caught:
        texts_of(found(b"a", b"\xff"), TEXT, "x", lambda i: 4 + i)
    assert "Feature('bytes')" in str(caught.value)


@pytest.mark.parametrize(
    ("column", "shape", "wanted"),
    [
        (np.zeros((5, 0)), (None, 4), (5, 0, 4)),
        (np.zeros((5, 0)), (None, None, 3), (5, 0, 0, 3)),
        (np.zeros((5, 0)), (None,), (5, 0)),
        (np.zeros((5, 2, 0)), (None, 4), (5, 2, 0)),
        (np.zeros((5, 1)), (None, 4), (5, 1)),
        (Strings.from_values(np.empty((5, 0), object), is_text=True), (None, 2), (5, 0, 2)),
    ],
)
def test_axes_of_rows_without_values(column, shape, wanted):
    assert add_axes(column, shape).shape == wanted
    rows = Ragged(column[:0].reshape(0), np.zeros(6, np.int64))
    assert add_axes(rows, shape).values.shape == (0, *(length or 0 for length in shape[1:]))
