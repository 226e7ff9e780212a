"""Arrow arrays of text and of lists of one length as columns, by the short ways and the long ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.table import arrow
from headrace.formats.table.arrow import from_arrow
from headrace.formats.table.values import BadValue

pa = pytest.importorskip("pyarrow")

KINDS = st.sampled_from([pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
TEXT = st.lists(st.text(max_size=5), max_size=8)


@given(TEXT, KINDS, st.sampled_from(["str", "bytes"]), st.integers(0, 8), st.integers(0, 8))
def test_text_is_that_of_the_long_way(values, kind, dtype, begin, count):
    array = pa.array([value.encode() for value in values], pa.binary()).cast(kind).slice(min(begin, len(values)), count)
    found = from_arrow(array, hr.Feature(dtype))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "_strings", lambda *_: None)
        plain = from_arrow(array, hr.Feature(dtype))
    wanted = values[begin:][:count]
    assert found.to_list() == plain.to_list() == (wanted if dtype == "str" else [value.encode() for value in wanted])
    assert found.is_text == plain.is_text == (dtype == "str")
    assert not found.data.flags.writeable
    assert not found.offsets.flags.writeable


@given(st.lists(st.binary(max_size=4), min_size=1, max_size=6), st.sampled_from(["i4", "i8"]))
def test_text_that_is_not_utf_8_is_refused_with_its_row(values, dtype):
    kind = pa.string() if dtype == "i4" else pa.large_string()
    offsets = np.cumsum([0, *map(len, values)]).astype(dtype)
    array = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))])
    try:
        wanted = [value.decode() for value in values]
    except UnicodeDecodeError:
        with pytest.raises(BadValue, match="UTF-8") as error:
            from_arrow(array, hr.Feature("str"))
        bad = next(k for k, value in enumerate(values) if value.decode(errors="replace").encode() != value)
        assert error.value.row == bad
    else:
        assert from_arrow(array, hr.Feature("str")).to_list() == wanted


@given(st.data(), st.integers(0, 5), st.integers(0, 3), st.integers(0, 3))
def test_lists_of_one_length(data, rows, length, skipped):
    total = (rows + skipped) * length
    values = data.draw(st.lists(st.integers(-9, 9), min_size=total, max_size=total))
    array = pa.FixedSizeListArray.from_arrays(pa.array(values, pa.int32()), length) if length else None
    if array is None:
        array = pa.array([[]] * (rows + skipped), pa.list_(pa.int32(), 0))
    found = from_arrow(array.slice(skipped), hr.Feature("int32", (length,)))
    assert found.shape == (rows, length)
    assert found.tolist() == np.array(values, int).reshape(-1, length)[skipped:].tolist() if length else True


def test_a_bad_value_in_lists_of_one_length_has_its_row():
    inner = pa.FixedSizeListArray.from_arrays(pa.array([0, 1, 2, 3, 4, 500, 6, 7], pa.int64()), 2)
    array = pa.FixedSizeListArray.from_arrays(inner, 2)
    with pytest.raises(BadValue) as error:
        from_arrow(array, hr.Feature("int8", (2, 2)))
    assert error.value.row == 1
    varying = pa.FixedSizeListArray.from_arrays(pa.array([[1], [2, 3], [], [4]], pa.list_(pa.int64())), 2)
    found = from_arrow(varying, hr.Feature("int64", (2, None)))
    assert found.to_list() == [[[1], [2, 3]], [[], [4]]]
