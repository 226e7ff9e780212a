"""Fillings of columns: none becomes another value."""

import re

import numpy as np
import pytest

import headrace as hr
from headrace._arguments import choose_fill

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("int64", 0.5), ("int64", NAN), ("int64", -INF), ("int64", 1e30), ("int64", 2**63), ("int64", float(2**63)), ("int64", 1j),
        ("uint8", -1), ("uint8", 256), ("uint8", np.int16(300)), ("int8", [1, 300]), ("bool", 2), ("bool", 0.5), ("bool", -1),
        ("float16", 1e6), ("float32", 1e300), ("float64", 10**400), ("float32", 1j), ("complex64", 1e300),
        ("float32", "1"), ("int64", "1"), ("int64", b"1"), ("int64", np.datetime64("2020-01-01")), ("int64", [None]),
    ],
)  # fmt: skip
def test_a_fill_that_the_dtype_does_not_hold_is_refused(dtype, fill):
    message = rf"fill must be a number (that|among) {dtype}( holds)?, got {re.escape(repr(fill))}"
    rows = hr.Ragged(np.zeros(3, dtype), np.array([0, 2, 3]))
    for call in (
        lambda: rows.to_padded(fill),
        lambda: hr.Pad("t", fill=fill)({"t": rows}),
        lambda: hr.Bucket("t", bounds=(2, 9), fill=fill)({"t": rows}),
        lambda: hr.Pack("t", length=4, fill=fill)({"t": rows}),
        lambda: hr.Packed({"t": rows}, 4, feature="t", fill=fill).batch([0]),
        lambda: hr.Packed({"t": hr.Ragged(np.zeros(200, dtype), [0, 200])}, 300, feature="t", fill=fill).batch([0]),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            call()


@pytest.mark.parametrize(
    ("dtype", "fills"),
    [
        ("int64", [0.0, 1.0, -(2**63), 2**63 - 1, True, np.uint8(5), np.float32(3), np.array(7)]),
        ("uint64", [2**64 - 1, 0]),
        ("uint8", [255, 255.0, np.int64(7)]),
        ("bool", [True, False, np.True_, 1, 0.0]),
        ("float16", [0.1, NAN, INF, -INF, 65504, 2049]),
        ("float32", [0.1, 2**24 + 1, np.float64(0.1), True]),
        ("complex64", [1j, 0.5, NAN]),
    ],
)
def test_a_fill_that_the_dtype_holds(dtype, fills):
    """Floats may be rounded."""
    rows = hr.Ragged(np.zeros(1, dtype), np.array([0, 0, 1]))
    for fill in fills:
        found = rows.to_padded(fill)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, [np.full(1, fill, dtype), np.zeros(1, dtype)])


def test_a_fill_for_each_inner_value():
    rows = hr.Ragged(np.zeros((1, 2), np.int8), np.array([0, 0, 1]))
    assert rows.to_padded([1, 2]).tolist() == [[[1, 2]], [[0, 0]]]


def test_fills_of_other_dtypes_are_left_to_numpy():
    days = hr.Ragged(np.array(["2020-01-02"], "M8[D]"), np.array([0, 0, 1]))
    assert np.isnat(days.to_padded(np.datetime64("NaT"))[0, 0])
    assert choose_fill(np.array([None]), 0.5) == 0.5
    words = hr.Ragged(np.array(["a"]), np.array([0, 0, 1]))
    assert words.to_padded("long").tolist() == [["long"], ["a"]]


@pytest.mark.parametrize("beside_jax", [False, True])
def test_fills_of_tensors(beside_jax):
    torch = pytest.importorskip("torch")
    if beside_jax:
        pytest.importorskip("jax.numpy")  # it adds bfloat16 to NumPy's dtypes
    for dtype, good, bad in [
        (torch.int32, [1.0, -1, True, np.int64(3)], [0.5, 2**31, NAN]),
        (torch.bool, [True, 0], [2]),
        (torch.bfloat16, [0.1, 1e38, NAN], [1e39]),
        (torch.complex64, [1j, 2], [1e300]),
        (torch.float16, [np.float32(0.5)], [1e6]),
    ]:
        rows = hr.Ragged(torch.zeros(1, dtype=dtype), torch.tensor([0, 0, 1]))
        for fill in good:
            assert rows.to_padded(fill).dtype == dtype
        for fill in bad:
            with pytest.raises(ValueError, match=f"fill must be a number that {dtype} holds"):
                rows.to_padded(fill)
    with pytest.raises(TypeError, match="fill must be a number among torch.int32, got 'x'"):
        choose_fill(torch.zeros(1, dtype=torch.int32), "x")


def test_a_column_of_objects_without_a_value_is_filled_as_bytes():
    source = hr.ColumnSource({"s": hr.Ragged.from_list([[], []], object)})
    assert hr.Packed(source, 2, feature="s").batch([0])["s"].tolist() == [[b"", b""]]
    padded = hr.Loader(source, 2, map_batch=hr.Pad("s", length=2))
    assert [batch["s"].tolist() for batch in padded] == [[[b"", b""], [b"", b""]]]
    assert choose_fill(np.zeros(0, object), "x") == "x"
