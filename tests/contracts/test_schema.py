import json
import pickle

import pytest

from headrace.contracts.feature import Feature
from headrace.contracts.feature_keys import RaggedKeys, SparseKeys
from headrace.contracts.schema import Schema
from headrace.errors import NoSuchFeature

SCHEMA = Schema(
    {"label": Feature("int64"), "image": Feature("float32", (784,)), "photo": Feature("bytes", encoding="jpeg")}
)


@pytest.mark.parametrize("given", [[("a", Feature("int64"))], ["a"], '{"features": {}}', 5])
def test_a_schema_is_a_mapping(given):
    with pytest.raises(TypeError, match=r"a schema is \{name: Feature\(...\)\}, got"):
        Schema(given)


def test_select_takes_several_names():
    with pytest.raises(TypeError, match=r"several names, such as \['ab'\]"):
        Schema({"a": Feature("int64"), "b": Feature("int64")}).select("ab")


def test_prints_as_a_table():
    assert str(SCHEMA).splitlines() == [
        "feature  dtype         shape",
        "label    int64         ()",
        "image    float32       (784,)",
        "photo    bytes (jpeg)  ()",
    ]


def test_round_trips():
    assert Schema.from_json(SCHEMA.to_json()) == SCHEMA
    assert pickle.loads(pickle.dumps(SCHEMA)) == SCHEMA


def test_order_counts():
    assert SCHEMA.select(["image", "label"]) != SCHEMA.select(["label", "image"])


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        NoSuchFeature, match=r"expected one of the features \['label', 'image', 'photo'\], found 'Label'"
    ) as caught:
        SCHEMA["Label"]
    assert isinstance(caught.value, KeyError)
    assert "Label" not in SCHEMA


KEYED = Schema(
    {
        "cells": Feature("float32", keys=SparseKeys(["row", "column"], "value", [3, 4], is_sorted=True)),
        "words": Feature("float32", keys=SparseKeys("id", "weight", 1000)),
        "rows": Feature("str", keys=RaggedKeys("v", [("row_splits", "s"), ("uniform_row_length", 2)])),
    }
)


def test_features_of_several_lists_print_and_round_trip():
    assert str(KEYED).splitlines() == [
        "feature  dtype             shape",
        "cells    float32 (sparse)  (12,) from value, row, column",
        "words    float32 (sparse)  (1000,) from weight, id",
        "rows     str               (None, None, 2) from v, s",
    ]
    assert Schema.from_json(KEYED.to_json()) == KEYED
    assert pickle.loads(pickle.dumps(KEYED)) == KEYED
    assert hash(Schema.from_json(KEYED.to_json())) == hash(KEYED)
    for feature in KEYED.values():
        assert eval(repr(feature)) == feature


def one_feature(**fields):
    return json.dumps({"features": {"a": {"dtype": "int64", **fields}}})


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "null", "{}", '{"features": 5}', '{"features": {"a": 5}}', '{"features": {"a": {}}}'),
        *(one_feature(dtype=dtype) for dtype in ("no", "1" * 5000, None)),
        *(one_feature(shape=shape) for shape in (5, "ab", ["x"], [1e30], [1.5])),
        *(one_feature(keys=keys) for keys in (5, {}, {"values": 1}, {"indices": "i"})),
        *(one_feature(default={key: "zz"}) for key in ("hex", "x")),
    ],
)
def test_text_that_is_not_a_schema(text):
    with pytest.raises(ValueError, match="not the JSON of a schema"):
        Schema.from_json(text)


@pytest.mark.parametrize("features", [{"x": "int64"}, {1: Feature("int64")}])
def test_names_are_text_and_features_are_features(features):
    with pytest.raises(TypeError, match="a schema maps str to Feature, got "):
        Schema(features)


def test_the_table_names_what_values_mean():
    schema = Schema(
        {
            "kind": Feature("int64", names=["a", "b"]),
            "photo": Feature("bytes", encoding="png"),
            "row": Feature("float32", (9,), sparse=True),
            "n": Feature("int64", default=7),
        }
    )
    rows = [line.split() for line in str(schema).splitlines()]
    assert ["kind", "int64", "(2", "names)", "()"] in rows
    assert ["photo", "bytes", "(png)", "()"] in rows
    assert ["row", "float32", "(sparse)", "(9,)"] in rows
    assert ["n", "int64", "()", "default", "7"] in rows
