import pickle

import pytest

from penstock.contracts.feature import Feature
from penstock.contracts.schema import Schema
from penstock.errors import NoSuchFeature

SCHEMA = Schema(
    {"label": Feature("int64"), "image": Feature("float32", (784,)), "photo": Feature("bytes", encoding="jpeg")}
)


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


def test_an_unknown_name_says_what_there_is():
    with pytest.raises(
        NoSuchFeature, match=r"expected one of the features \['label', 'image', 'photo'\], found 'Label'"
    ) as caught:
        SCHEMA["Label"]
    assert isinstance(caught.value, KeyError)
    assert "Label" not in SCHEMA
