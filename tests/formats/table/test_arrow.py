"""Arrow arrays of text and of lists of one length as columns, by the short ways and the long ones."""

from __future__ import annotations

from decimal import Context, Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.table import arrow
from headrace.formats.table.arrow import from_arrow
from headrace.formats.table.arrow_types import leaves_of
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


@given(st.data(), st.integers(1, 38), st.integers(0, 38), st.booleans(), st.sampled_from([128, 256]))
def test_decimals_are_the_nearest_floats(data, digits, scale, has_nulls, bits):
    scale = min(scale, digits)
    numbers = st.integers(-(10**digits) + 1, 10**digits - 1)
    values = [Decimal(n).scaleb(-scale, Context(prec=99)) for n in data.draw(st.lists(numbers, min_size=1, max_size=8))]
    array = pa.array([*values, None] if has_nulls else values, getattr(pa, f"decimal{bits}")(digits, scale))
    found = from_arrow(array[1:], hr.Feature("float64"))
    assert found[: len(values) - 1].tolist() == [float(str(value)) for value in values[1:]]
    assert np.isnan(found[len(values) - 1 :]).all()


TEXT_KINDS = ["string", "large_string", "string_view", "binary", "large_binary", "binary_view"]


@pytest.mark.parametrize("name", [*TEXT_KINDS, "fixed", "dictionary"])
def test_a_default_replaces_nulls_in_text_of_any_type(name):
    is_text = "string" in name or name == "dictionary"
    if name not in ("fixed", "dictionary") and not hasattr(pa, name):
        pytest.skip("a type of later versions of pyarrow")
    values = ["ab", None] if is_text else [b"ab", None]
    kind = {"fixed": lambda: pa.binary(2), "dictionary": lambda: pa.dictionary(pa.int8(), pa.string())}.get(name)
    array = pa.array(values, (kind or getattr(pa, name))())
    default = "long" if is_text else b"long"
    feature = hr.Feature("str" if is_text else "bytes", default=default)
    assert from_arrow(array, feature).to_list() == [values[0], default]
    with pytest.raises(BadValue, match="null"):
        from_arrow(array, hr.Feature(feature.dtype))


@pytest.mark.parametrize(
    ("array", "dtype", "default"),
    [
        (pa.array([["a", None], [], ["c"]]), "str", "?"),
        (pa.array([[1, None], [], [3]]), "int64", 7),
        (pa.array([[1.0, None], [], [3.0]]), "float64", -1.0),
        (pa.array([[1, None], [], [3]], pa.list_(pa.duration("s"))), "m8[s]", np.timedelta64(5, "s")),
    ],
)
def test_a_single_default_replaces_nulls_in_lists(array, dtype, default):
    found = from_arrow(array, hr.Feature(dtype, (None,), default=default))
    wanted = from_arrow(array.slice(0, 0), hr.Feature(dtype, (None,)))
    assert found.lengths.tolist() == [2, 0, 1]
    assert found.values[1] == default
    assert found.values.dtype == wanted.values.dtype


def test_a_default_of_several_values_is_not_that_of_one():
    array = pa.array([["a", None], None], pa.list_(pa.string(), 2))
    with pytest.raises(BadValue, match="null") as error:
        from_arrow(array, hr.Feature("str", (2,), default=["x", "y"]))
    assert error.value.row == 0
    assert from_arrow(array[1:], hr.Feature("str", (2,), default=["x", "y"])).to_list() == [["x", "y"]]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", "bc"]),
        pa.array([b"a", None]),
        pa.array([["a"], ["b", "c"]]),
        pa.array([["a", "b"]], pa.list_(pa.string(), 2)),
        pa.array(["a", "a", "b"]).dictionary_encode(),
        pa.array([b"ab"], pa.binary(2)),
    ],
)
def test_chunks_of_more_text_than_32_bits_count_are_joined(monkeypatch, array):
    """Arrow refuses to join them, and says to cast them. Here it refuses few bytes, too."""
    join = pa.concat_arrays

    def refuse_short(arrays, *rest):
        if "large" not in str(arrays[0].type):
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return join(arrays, *rest)

    table = pa.table({"x": pa.chunked_array([array, array])})
    monkeypatch.setattr(pa, "concat_arrays", refuse_short)
    (leaf,) = leaves_of(table.schema)
    found = arrow.leaf_array(table, leaf, 0)
    assert found.to_pylist() == 2 * array.to_pylist()


ITEMS = st.lists(
    st.fixed_dictionaries({"a": st.integers(0, 99), "b": st.lists(st.text(max_size=3), max_size=2)}), max_size=3
)
STRUCT = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])


@given(
    st.lists(st.none() | ITEMS, max_size=8),
    st.sampled_from([pa.list_(STRUCT), pa.large_list(STRUCT)]),
    st.integers(0, 4),
    st.lists(st.integers(0, 8), max_size=2),
)
def test_fields_of_lists_of_structs(rows, kind, begin, cuts):
    array = pa.array([*[None] * begin, *rows], kind).slice(begin)
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    chunks = [array.slice(one, two - one) for one, two in zip(bounds[:-1], bounds[1:], strict=True)]
    table = pa.table({"l": pa.chunked_array(chunks, kind)})
    leaves = list(leaves_of(table.schema))
    assert [leaf.name for leaf in leaves] == ["l/a", "l/b"]
    features = [hr.Feature("int64", (None,)), hr.Feature("str", (None, None))]
    for leaf, key, feature in zip(leaves, "ab", features, strict=True):
        column = from_arrow(arrow.leaf_array(table, leaf, 0), feature)
        assert column.to_list() == [[item[key] for item in row or []] for row in rows]
