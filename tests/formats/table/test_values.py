"""Values of files as the types of features."""

import numpy as np
import pytest

from headrace.contracts.feature import Feature
from headrace.formats.table.values import BadValue, column_of, convert_to_fit


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (np.array([1, 2], ">i8"), "i1", [1, 2]),
        (np.array([0.1]), "f4", [np.float32(0.1)]),
        (np.array([np.nan, np.inf]), "f2", [np.nan, np.inf]),
        (np.array([2.0]), "u1", [2]),
        (np.array([1, 0]), "?", [True, False]),
        (np.array([True]), "f4", [1.0]),
        (np.array([2**53]), "f8", [2.0**53]),
        (np.array([3]), "c8", [3]),
        (np.array(["ab"], "U9"), "U2", ["ab"]),
        (np.array(["2020-01-01", "NaT"], "M8[s]"), "M8[D]", np.array(["2020-01-01", "NaT"], "M8[D]")),
        (np.array([5], "u1"), "m8[s]", np.array([5], "m8[s]")),
    ],
)
def test_what_a_dtype_holds(values, dtype, expected):
    found = convert_to_fit(values, np.dtype(dtype))
    assert found.dtype == dtype
    assert np.array_equal(found, np.array(expected, dtype), equal_nan=dtype[0] not in "U?")
    assert convert_to_fit(values[0], np.dtype(dtype)) == found[0] or found[0] != found[0]  # an array without axes


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (np.array([300]), "i1"),
        (np.array([2**64 - 1], "u8"), "i8"),
        (np.array([-1]), "u8"),
        (np.array([2**53 + 1]), "f8"),
        (np.array([1e300]), "f4"),
        (np.array([1e300 + 0j]), "c8"),
        (np.array([1 + 2j]), "f8"),
        (np.array([2.5]), "i8"),
        (np.array([2.0**63]), "i8"),
        (np.array([np.nan]), "i8"),
        (np.array([2]), "?"),
        (np.array(["abcdef"]), "U3"),
        (np.array([b"abcdef"]), "S3"),
        (np.array([123456]), "U3"),
        (np.array(["9999-12-31"], "M8[D]"), "M8[ns]"),
        (np.array(["2020-01-01T10"], "M8[h]"), "M8[D]"),
        (np.array(["2020-01-01"], "M8[D]"), "m8[D]"),
        (np.array([1], "m8[D]"), "i8"),
        (np.array([2**63], "u8"), "m8[s]"),
        (np.array([True]), "m8[s]"),
    ],
)
def test_what_a_dtype_does_not_hold(values, dtype):
    assert convert_to_fit(values, np.dtype(dtype)) is None


def test_counted_times_in_another_unit():
    second = np.dtype("M8[s]")
    default = np.datetime64("2020-01-01T00:00:00.000000001")
    feature = Feature("M8[ns]", default=default)
    assert column_of([60, None], feature, second).tolist() == [60 * 10**9, default.astype(int)]
    lists = column_of([[60, None], None], Feature("M8[ns]", (2,), default=default), second)
    assert lists.tolist() == [[60 * 10**9, default.astype(int)], [default.astype(int)] * 2]
    ragged = column_of([[None], None], Feature("M8[D]", (None,)), second)
    assert [row.tolist() for row in ragged] == [[None], []]
    assert column_of([], Feature("m8[D]"), second).dtype == "m8[D]"
    with pytest.raises(
        BadValue, match=r"row 1: expected datetime64\[D\], found 1970-01-01T00:01:00 \(datetime64\[s\]\)"
    ):
        column_of([86400, 60], Feature("M8[D]"), second)


@pytest.mark.parametrize("values", [["abcdef"], ["ab\0"], [b"ab"], [12]])
def test_text_that_an_array_would_cut(values):
    with pytest.raises(BadValue, match="row 1"):
        column_of(["abc", *values], Feature("U3"))
    assert column_of(["abc", "d"], Feature("U3")).tolist() == ["abc", "d"]
