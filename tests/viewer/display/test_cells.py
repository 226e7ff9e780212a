"""Cells and JSON of every kind of value, and their bounds."""

import json

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.viewer.conftest import picture

import headrace as hr
from headrace.viewer.display.cells import CellPlace, hex_lines, is_image_like, json_value, large_cell, small_cell


def _place(feature=None):
    return CellPlace(3, feature or hr.Feature("float32"), "x", lambda kind, item, size: f"/{kind}/{item}/{size}")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (np.float32(0.1), "0.1"),
        (np.int64(-5), "-5"),
        (np.bool_(True), "true"),
        ("a<b", "a&lt;b"),
        (b"plain", "plain"),
        (b"\xff\x00\x01", "ff 00 01"),
        (np.arange(3), "0, 1, 2"),
        (np.arange(100), "<svg"),
        (np.zeros((28, 28), np.float32), "[28 x 28]"),
        (np.zeros((28, 28), np.uint8), 'src="/image/0/64"'),
        (picture(0), 'src="/image/0/64"'),
        (hr.Strings.from_values(["a", "b"]), "<li>"),
        (hr.Ragged.from_list([[1, 2], [3]], "int64"), "2 rows"),
        (scipy.sparse.csr_matrix([[0, 5.0, 0]]), "1: 5"),
        (np.datetime64("2026-01-01"), "2026-01-01"),
        (np.array([], np.int64), "[0]"),
    ],
)
def test_small_cells(value, shown):
    assert shown in small_cell(value, _place())
    assert large_cell(value, _place())


def test_labels_have_their_names():
    place = _place(hr.Feature("int64", names=("cat", "dog")))
    assert "dog" in small_cell(np.int64(1), place)
    assert "7" in small_cell(np.int64(7), place)
    assert "cat, dog, 9" in small_cell(np.array([0, 1, 9]), place)


@pytest.mark.parametrize(
    "value",
    [
        "x" * 10**7,
        b"x" * 10**7,
        b"\xff" * 10**7,
        np.zeros(10**6),
        hr.Strings.from_values(["y" * 10**6] * 50),
        list(range(10**6)),
    ],
)
def test_cells_and_json_are_bounded(value):
    assert len(small_cell(value, _place())) < 20_000
    assert len(large_cell(value, _place())) < 600_000
    assert len(json.dumps(json_value(value))) < 2_000_000


@given(
    st.one_of(
        st.text(),
        st.binary(),
        hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=12)),
        st.lists(st.text(), max_size=4).map(lambda v: hr.Strings.from_values(v, is_text=True)),
    )
)
def test_every_value_has_a_cell_and_json(value):
    for cell in (small_cell(value, _place()), large_cell(value, _place())):
        cell.encode()
        assert "<script" not in cell
    json.dumps(json_value(value), allow_nan=False)


def test_hex_lines_have_positions_and_marks():
    text = "".join(hex_lines(bytes(range(20)), 0x100, ((0x102, 0x104, "field-0", "length"),)))
    assert "100" in text
    assert '<span class="field-0" title="length">02</span>' in text
    assert '<span class="field-0" title="length">03</span>' in text
    assert text.count("field-0") == 2
    assert text.count("\n") == 2


def test_what_looks_like_an_image():
    assert is_image_like(np.zeros((8, 8), np.uint8))
    assert is_image_like(np.zeros((20, 30, 3), np.uint8))
    for other in (
        np.zeros((7, 8), np.uint8),
        np.zeros((8, 8), np.int16),
        np.zeros((8, 8, 5), np.uint8),
        np.zeros(64, np.uint8),
        b"",
    ):
        assert not is_image_like(other)


@pytest.mark.parametrize(
    ("value", "small", "large"),
    [
        (np.float64(0.1234567890123), "0.1234568", "0.1234567890123"),
        (np.float64(9007199254740993), "9.007199e+15", "9007199254740992.0"),
        (np.float32(0.1), "0.1", "0.1"),
        (np.float64("nan"), "nan", "nan"),
        (np.float64(3), "3", "3"),
    ],
)
def test_a_row_by_itself_has_all_digits(value, small, large):
    place = CellPlace(0, hr.Feature(value.dtype.name), "x", lambda *_: "")
    assert f">{small}<" in small_cell(value, place)
    assert f">{large}<" in large_cell(value, place)
