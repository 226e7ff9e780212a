"""Examples that do not fit the types of the first ones are refused in every format."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import HeadraceError, NoSuchFeature, SchemaMismatch

LATE = {
    "fraction": ({"k": 1}, {"k": 1.5}),
    "wrapped": ({"k": np.array([1], np.uint8)}, {"k": np.array([300])}),
    "negative": ({"k": np.uint64(1)}, {"k": -1}),
    "infinite": ({"k": np.float32(1)}, {"k": np.float64(1e300)}),
    "truth": ({"k": True}, {"k": 2}),
    "shape": ({"k": np.zeros(3)}, {"k": np.zeros(4)}),
    "axes": ({"k": np.zeros(3)}, {"k": np.zeros((3, 1))}),
    "days": ({"k": np.datetime64("2020-01-01")}, {"k": np.datetime64("2020-01-01T05", "h")}),
    "text": ({"k": "a"}, {"k": 5}),
}
FORMATS = (
    "x.tar",
    "x.npz",
    "x.npy",
    "x.parquet",
    "x.jsonl",
    "x.csv",
    "x.avro",
    "x.tfrecord",
    "x.array_record",
    "x.recordio",
)
RECORDIO_HOLDS = ("wrapped", "infinite", "truth")
"""As int32 and float32, which is what it stores; as in the SDK, floats beyond that are infinite."""


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", list(LATE))
def test_a_late_example_that_does_not_fit_is_refused(tmp_path, kind, name):
    """After the first 1,024, from which the types are taken."""
    if name == "x.recordio" and kind in RECORDIO_HOLDS:
        pytest.skip("Records hold it")
    first, last = LATE[kind]
    with pytest.raises(HeadraceError):
        hr.write(tmp_path / name, [first] * 1100 + [last])
    assert not list(tmp_path.iterdir())


def test_the_error_names_the_example(tmp_path):
    with pytest.raises(SchemaMismatch) as caught:
        hr.write(tmp_path / "x.parquet", [{"k": 1}] * 1100 + [{"k": 1.5}])
    assert caught.value.where.feature == "k"
    assert caught.value.where.record == 1024  # the first of the batch of floats
    writer = hr.Writer(tmp_path / "y.parquet", schema={"k": hr.Feature("uint8")})
    writer.write_batch({"k": np.arange(200)})
    with pytest.raises(SchemaMismatch, match="found 256") as caught:
        writer.write_batch({"k": np.arange(100, 300)})
    assert caught.value.where.record == 200 + 156
    writer.abort()


def test_a_missing_feature_is_named(tmp_path):
    with hr.Writer(tmp_path / "x.parquet", schema={"a": hr.Feature("int64"), "b": hr.Feature("int64")}) as writer:
        with pytest.raises(NoSuchFeature, match="no 'b'"):
            writer.write_batch({"a": np.arange(3)})
        writer.write_batch({"a": np.arange(3), "b": np.arange(3)})
