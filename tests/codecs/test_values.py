"""Text and bytes, read and stored."""

from __future__ import annotations

import pytest

from headrace.codecs.values import bytes_of, texts_of
from headrace.contracts.feature import Feature
from headrace.errors import SchemaMismatch

TEXT, BYTES = Feature("str"), Feature("bytes")


def test_there_and_back():
    assert texts_of([b"a", "é".encode()], TEXT, "x", lambda i: i).tolist() == ["a", "é"]
    assert texts_of([b"\xff"], BYTES, "x", lambda i: i).tolist() == [b"\xff"]
    assert bytes_of(["é", b"b", bytearray(b"c")], TEXT, "x", lambda i: i) == ["é".encode(), b"b", b"c"]
    assert bytes_of([b"\xff", "é"], BYTES, "x", lambda i: i) == [b"\xff", "é".encode()]


@pytest.mark.parametrize(
    ("value", "feature"), [(b"\xff", TEXT), ("\ud800", TEXT), ("\ud800", BYTES), (1, TEXT), (None, BYTES)]
)
def test_values_that_are_neither_are_not_stored(value, feature):
    with pytest.raises(SchemaMismatch) as caught:
        bytes_of(["a", value], feature, "x", lambda i: 10 + i)
    assert (caught.value.where.record, caught.value.where.feature) == (11, "x")


def test_values_that_are_not_text_are_named():
    with pytest.raises(SchemaMismatch, match=r"UTF-8 text, found the bytes b'\\xff'.*record 5") as caught:
        texts_of([b"a", b"\xff"], TEXT, "x", lambda i: 4 + i)
    assert "Feature('bytes')" in str(caught.value)
