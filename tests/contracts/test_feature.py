import json
import pickle

import numpy as np
import pytest

from headrace.contracts.feature import Feature
from headrace.contracts.feature_keys import RaggedKeys, SparseKeys
from headrace.contracts.schema import Schema


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("f4", "float32"),
        (np.int64, "int64"),
        (">i4", "int32"),
        (bytes, "bytes"),
        (str, "str"),
        ("S3", "S3"),
        ("M8[D]", "M8[D]"),
        (bool, "bool"),
    ],
)
def test_dtype_has_one_native_name(given, name):
    assert Feature(given).dtype == name


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Feature(object), TypeError),
        (lambda: Feature("float32", (-1,)), ValueError),
        (lambda: Feature("float32", encoding="jpeg"), ValueError),
        (lambda: Feature("bytes", encoding="avif"), ValueError),
        (lambda: Feature("uint8", (4, 4), encoding="png"), ValueError),
        (lambda: Feature("float32", (4, 4, 3), encoding="png"), ValueError),
        (lambda: Feature("float32", names=("a", "b")), ValueError),
        (lambda: Feature("bytes", names=("a", "b")), ValueError),
        (lambda: Feature("int64", names=("a", "a")), ValueError),
        (lambda: Feature("float32", (2, 2), sparse=True), ValueError),
        (lambda: Feature("int64", (), steps=True), ValueError),
        (lambda: Feature("float32", (3,), sparse=True, steps=True), ValueError),
        (lambda: Feature("int64", default=1.5), TypeError),
        (lambda: Feature("uint8", default=256), TypeError),
        (lambda: Feature("float16", default=1e6), TypeError),
        (lambda: Feature("float32", default=[1, 1e300]), TypeError),
        (lambda: Feature("float32", default=1 + 2j), TypeError),
        (lambda: Feature("uint64", default=-1), TypeError),
        (lambda: Feature("int64", (3,), default=[1, 2]), ValueError),
        (lambda: Feature("str", default=b"\xff"), TypeError),
        (lambda: Feature("bytes", default=["a", "\ud800"]), TypeError),
    ],
)
def test_mismatches_are_refused_on_construction(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize(
    "feature",
    [
        Feature("float32", (28, None)),
        Feature("bytes", default=b"\x00\xff"),
        Feature("int64", (2,), default=[1, 2]),
        Feature("uint8", default=255),
        Feature("float16", default=float("inf")),
        Feature("M8[D]", default=np.datetime64("2020-01-02")),
        Feature("M8[s]", default=np.datetime64("2020-01-02T03:04:05", "ns")),
        Feature("M8[ns]", (2,), default=np.array(["2020-01-02", "NaT"], "M8[ns]")),
        Feature("m8[s]", default=np.timedelta64(1, "h")),
        Feature("bytes", encoding="png"),
        Feature("str", (None,)),
        Feature("float32", (9,), sparse=True),
        Feature("int64", (None, 2), steps=True),
    ],
)
def test_json_round_trip(feature):
    again = Feature.from_json(feature.to_json())
    assert again == feature
    assert hash(again) == hash(feature)


def test_count_is_minus_one_where_a_length_varies():
    assert Feature("int64", (2, 3)).count == 6
    assert Feature("int64").count == 1
    assert Feature("int64", (2, None)).count == -1


def test_a_decoded_image_knows_how_it_is_stored():
    image = Feature("uint8", (None, None, 3), encoding="jpeg")
    assert image.is_image
    assert not image.is_text
    assert image.stored == Feature("bytes", encoding="jpeg")
    assert not image.stored.is_image
    assert Feature("uint16", (None, 4, 4, 1), encoding="png").stored == Feature("bytes", (None,), encoding="png")
    assert Feature("float32", (3,)).stored == Feature("float32", (3,))
    assert Feature.from_json(image.to_json()) == image


def test_names_of_classes():
    label = Feature("int64", names=["cat", "dog"])
    assert label.names == ("cat", "dog")
    assert Feature.from_json(label.to_json()) == label
    assert repr(label) == "Feature('int64', names=('cat', 'dog'))"
    assert repr(Feature("int64", names=list("abcde"))) == "Feature('int64', names=('a', 'b', 'c', 'd', ...))"


@pytest.mark.parametrize("dtype", [[("a", "f4")], ("f4", (3,))])
def test_a_feature_is_one_plain_array(dtype):
    with pytest.raises(TypeError, match="a feature"):
        Feature(np.dtype(dtype))


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: SparseKeys([], "v", []), TypeError, "are strings"),
        (lambda: SparseKeys([1], "v", [3]), TypeError, "are strings"),
        (lambda: SparseKeys("i", None, 3), TypeError, "are strings"),
        (lambda: SparseKeys("i", "i", 3), ValueError, "differ from each other"),
        (lambda: SparseKeys(["i", "j"], "v", [3]), ValueError, "one length for each index key"),
        (lambda: SparseKeys("i", "v", 0), ValueError, "from 1 to"),
        (lambda: SparseKeys("i", "v", 2**63), ValueError, "from 1 to"),
        (lambda: SparseKeys(["i", "j"], "v", [2**40, 2**40]), ValueError, "from 1 to"),
        (lambda: SparseKeys("i", "v", 2.5), TypeError, "float"),
        (lambda: RaggedKeys(None), TypeError, "is a string"),
        (lambda: RaggedKeys("v", ["row_splits"]), TypeError, "is a pair"),
        (lambda: RaggedKeys("v", [("row_splits",)]), TypeError, "is a pair"),
        (lambda: RaggedKeys("v", [7]), TypeError, "is a pair"),
        (lambda: RaggedKeys("v", [("rows", "s")]), ValueError, "a partition is one of"),
        (lambda: RaggedKeys("v", [("row_splits", 3)]), TypeError, "has a key"),
        (lambda: RaggedKeys("v", [("uniform_row_length", "s")]), ValueError, "at least 1"),
        (lambda: RaggedKeys("v", [("uniform_row_length", 0)]), ValueError, "at least 1"),
        (lambda: RaggedKeys("v", [("uniform_row_length", True)]), ValueError, "at least 1"),
        (lambda: RaggedKeys("v", [("row_splits", "v")]), ValueError, "differ from each other"),
        (lambda: Feature("int64", keys="v"), TypeError, "keys are"),
        (lambda: Feature("int64", (3,), keys=SparseKeys("i", "v", 4)), ValueError, "makes the shape"),
        (lambda: Feature("str", keys=SparseKeys("i", "v", 4)), ValueError, "numeric"),
        (lambda: Feature("int64", default=0, keys=SparseKeys("i", "v", 4)), ValueError, "no default"),
        (lambda: Feature("int64", steps=True, keys=RaggedKeys("v")), ValueError, "no default, encoding or steps"),
        (lambda: Feature("bytes", encoding="png", keys=RaggedKeys("v")), ValueError, "no default, encoding or steps"),
        (lambda: Feature("int64", sparse=True, keys=RaggedKeys("v")), ValueError, "no sparse feature"),
    ],
)
def test_keys_that_do_not_fit_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_keys_say_the_shape():
    assert Feature("int64", keys=SparseKeys("i", "v", 4)) == Feature(
        "int64", (4,), sparse=True, keys=SparseKeys("i", "v", 4)
    )
    assert Feature("int64", keys=RaggedKeys("v")).shape == (None,)
    assert Feature("int64", names=["a", "b"], keys=RaggedKeys("v", [("row_lengths", "n")])).shape == (None, None)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Feature(None), TypeError),
        (lambda: Feature("1" * 5000), TypeError),
        (lambda: Feature("int64", 5), TypeError),
        (lambda: Feature("int64", "ab"), TypeError),
        (lambda: Feature("int64", (1.5,)), TypeError),
    ],
)
def test_types_and_shapes_of_the_wrong_kind(make, error):
    with pytest.raises(error):
        make()


def test_the_number_of_values_does_not_overflow():
    assert Feature("int64", (2**40, 2**40)).count == 2**80


def test_dtypes_and_shapes_that_no_feature_has():
    with pytest.raises(TypeError, match="a feature needs a dtype, got None"):
        Feature(None)
    with pytest.raises(ValueError, match="a feature has at most 31 axes, got 32"):
        Feature("int64", (1,) * 32)
    assert Feature("int64", (1,) * 31).shape == (1,) * 31


@pytest.mark.parametrize(
    "feature",
    [
        Feature("int64", default=3),
        Feature("float32", (2, None)),
        Feature("int64", (None,), steps=True),
        Feature("bytes", encoding="png"),
        Feature("int64", names=["a", "b"]),
        Feature("float32", (9,), sparse=True),
    ],
    ids=repr,
)
def test_the_text_of_a_feature_makes_it_again(feature):
    assert eval(repr(feature), {"Feature": Feature}) == feature


def test_the_default_of_a_time_is_in_its_unit():
    """An array of nanoseconds gives plain integers, which seconds would count otherwise."""
    default = np.datetime64("2020-01-02T03:04:05", "ns")
    for unit in ("s", "ms", "us", "ns"):
        assert np.array(Feature(f"M8[{unit}]", default=default).default, f"M8[{unit}]") == default


@pytest.mark.parametrize(
    ("dtype", "default"),
    [("str", 5), ("bytes", 1.5), ("str", ["a", None]), ("float32", 1j)],
)
def test_defaults_of_another_type(dtype, default):
    with pytest.raises(TypeError, match="does not fit dtype"):
        Feature(dtype, default=default)


@pytest.mark.parametrize(
    ("feature", "stored"),
    [
        (Feature("complex64", default=1 + 2j), {"complex": [1.0, 2.0]}),
        (Feature("complex64", default=complex("nan")), {"complex": [{"float": "nan"}, 0.0]}),
        (Feature("float32", default=float("nan")), {"float": "nan"}),
        (Feature("float32", (2,), default=[1, float("-inf")]), [1.0, {"float": "-inf"}]),
    ],
)
def test_defaults_that_json_lacks(feature, stored):
    text = json.dumps(feature.to_json(), allow_nan=False)
    assert json.loads(text)["default"] == stored
    again = Feature.from_json(json.loads(text))
    assert again == feature == pickle.loads(pickle.dumps(feature))
    assert len({again, feature, pickle.loads(pickle.dumps(feature))}) == 1
    assert feature != Feature(feature.dtype, feature.shape, default=3)


@pytest.mark.parametrize("default", ["1e400", "99999999999999999999"])
def test_defaults_in_json_beyond_a_time(default):
    with pytest.raises(ValueError, match=r"a default that M8\[D\] holds"):
        Schema.from_json(f'{{"features": {{"x": {{"dtype": "M8[D]", "shape": [], "default": {default}}}}}}}')


def test_bare_nan_of_earlier_versions_is_read():
    text = '{"features": {"x": {"dtype": "float32", "shape": [], "default": NaN}}}'
    assert Schema.from_json(text) == Schema({"x": Feature("float32", default=float("nan"))})


@pytest.mark.parametrize(
    ("given", "hint"),
    [("string", "text is 'str'"), ("text", "text is 'str'"), ("int65", "Did you mean 'int64'")],
)
def test_an_unknown_dtype_gets_a_hint(given, hint):
    with pytest.raises(TypeError, match=f"data type '{given}' not understood.*{hint}"):
        Feature(given)


@pytest.mark.parametrize(
    ("dtype", "default"),
    [
        ("U3", "abcdef"),
        ("S3", b"abcdef"),
        ("U3", 123456),
        ("M8[ns]", np.datetime64("9999-01-01")),
        ("M8[s]", np.datetime64("2020-01-01T00:00:00.123")),
    ],
)
def test_defaults_that_the_dtype_does_not_hold(dtype, default):
    with pytest.raises(TypeError, match="does not fit dtype"):
        Feature(dtype, default=default)
    assert Feature("U6", default="abcdef").default == "abcdef"
