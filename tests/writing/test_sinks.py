"""Examples that do not fit the types of the first ones are refused in every format."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import HeadraceError, NoSuchFeature, SchemaMismatch
from headrace.writing import units

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
    assert caught.value.where.record == 1100
    writer = hr.Writer(tmp_path / "y.parquet", schema={"k": hr.Feature("uint8")})
    writer.write_batch({"k": np.arange(200)})
    with pytest.raises(SchemaMismatch, match="found 256") as caught:
        writer.write_batch({"k": np.arange(100, 300)})
    assert caught.value.where.record == 200 + 156
    writer.abort()


FAULTS = {
    "large": (3, 2**63, "found 9223372036854775808"),
    "fraction": (3, 0.5, r"found 0\.5"),
    "shape": (np.zeros(2, np.float32), np.zeros(3, np.float32), "3"),
    "pixels": (np.zeros((1, 1, 3), np.uint8), np.zeros((1, 1, 4), np.uint8), r"\(1, 1, 4\)"),
}
AT, UNIT = 2025, 500


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl", "x.tfrecord", "x.array_record", "x.recordio"])
@pytest.mark.parametrize("kind", list(FAULTS))
def test_the_error_names_the_file_and_its_record(tmp_path, monkeypatch, kind, name):
    """Of the file, not of the batch or of the unit of work that has it."""
    monkeypatch.setattr(units, "UNIT_EXAMPLES", UNIT)
    good, bad, found = FAULTS[kind]
    source = hr.ColumnSource({"i": np.arange(3000)}).map(lambda example: {"k": bad if example["i"] == AT else good})
    schema = {"k": hr.Feature("uint8", (None, None, 3), encoding="png")} if kind == "pixels" else None
    path = str(tmp_path / name)
    if kind != "pixels" or name != "x.jsonl":
        with pytest.raises(SchemaMismatch, match=found) as caught:
            hr.write(path, source, schema=schema)
        assert (caught.value.where.path, caught.value.where.record) == (path, AT)
    if kind == "pixels" or (name == "x.recordio" and kind != "shape"):
        return  # in units of work, pixels are refused by their schema, and numbers that Records lack by the check before
    with pytest.raises(SchemaMismatch, match=found) as caught:
        hr.convert(source, path)
    assert (caught.value.where.path, caught.value.where.record) == (path, AT)
    with pytest.raises(SchemaMismatch, match=found) as caught:
        hr.convert(source, path, shards=2)
    assert caught.value.where.record == AT - 1500
    assert not list(tmp_path.iterdir())


def test_an_error_that_is_about_all_rows_names_none(tmp_path):
    writer = hr.Writer(tmp_path / "x.tfrecord", schema={"k": hr.Feature("int64")})
    with pytest.raises(SchemaMismatch, match="found float64") as caught:
        writer.write_batch({"k": np.ones(3)})
    assert (caught.value.where.path, caught.value.where.record) == (str(tmp_path / "x.tfrecord"), None)


def test_a_missing_feature_is_named(tmp_path):
    with hr.Writer(tmp_path / "x.parquet", schema={"a": hr.Feature("int64"), "b": hr.Feature("int64")}) as writer:
        with pytest.raises(NoSuchFeature, match="no 'b'"):
            writer.write_batch({"a": np.arange(3)})
        writer.write_batch({"a": np.arange(3), "b": np.arange(3)})


@pytest.mark.parametrize("name", ["x.parquet", "x.jsonl", "x.avro", "x.npz", "x.tar"])
def test_text_is_written_as_the_times_of_a_schema(tmp_path, name):
    given = {"day": hr.Feature("M8[D]"), "time": hr.Feature("M8[ms]")}
    columns = {"day": ["2020-01-02", "NaT"], "time": np.array([b"2020-01-02T03:04:05.5", b"2020-01-02"], object)}
    hr.write(tmp_path / name, columns, schema=given)
    batch = hr.open(tmp_path / name, schema=None if name != "x.jsonl" else given).batch([0, 1])
    assert batch["day"].astype(str).tolist() == ["2020-01-02", "NaT"]
    assert batch["time"].astype(str).tolist() == ["2020-01-02T03:04:05.500", "2020-01-02T00:00:00.000"]
    for wrong in ("2020-01-02T03", "2020-13-01", "today", ""):
        with pytest.raises(SchemaMismatch) as raised:
            hr.write(tmp_path / f"other-{name}", {"day": ["2020-01-02", wrong]}, schema={"day": given["day"]})
        assert (raised.value.where.record, raised.value.where.feature) == (1, "day")
        assert not (tmp_path / f"other-{name}").exists()


def test_lists_of_text_are_written_as_the_times_of_a_schema(tmp_path):
    given = {"days": hr.Feature("M8[D]", (None,))}
    column = hr.Ragged(hr.Strings.from_values(["2020-01-02", "2020-01-03", "x"]), np.array([0, 2, 2, 3]))
    with pytest.raises(SchemaMismatch) as raised:
        hr.write(tmp_path / "x.parquet", {"days": column}, schema=given)
    assert raised.value.where.record == 2
    hr.write(tmp_path / "x.parquet", {"days": column[:2]}, schema=given)
    assert hr.open(tmp_path / "x.parquet")[0]["days"].astype(str).tolist() == ["2020-01-02", "2020-01-03"]


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.tfrecord", "x.csv", "x.tar", "x.parquet", "x.recordio"])
def test_dtypes_of_other_packages_are_named_and_refused(tmp_path, name):
    """NumPy calls bfloat16 V2, two bytes without a meaning."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    source = hr.ColumnSource({"x": np.ones((3, 2), ml_dtypes.bfloat16)})
    assert source.schema["x"].dtype == "bfloat16"
    assert next(iter(hr.Loader(source, 3)))["x"].dtype == ml_dtypes.bfloat16
    for write in (hr.write, lambda path, source: hr.convert(source, path)):
        with pytest.raises(hr.UnsupportedData, match=r"a dtype of NumPy, found bfloat16 .*astype\(np.float32\)"):
            write(tmp_path / name, source)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x.tfrecord", "x.parquet"])
def test_a_schema_that_says_otherwise_of_images_that_are_copied_is_refused(tmp_path, name):
    png = hr.Feature("uint8", (None, None, 3), encoding="png")
    hr.write(tmp_path / "i.tfrecord", {"image": np.zeros((3, 8, 9, 3), np.uint8)}, schema={"image": png})
    source = hr.open(tmp_path / "i.tfrecord")
    others = [((None, None, 3), "jpeg"), ((None, None, 1), "png"), ((9, 9, 3), "png")]
    for shape, encoding in others:
        other = {"image": hr.Feature("uint8", shape, encoding=encoding)}
        with pytest.raises(hr.SchemaMismatch, match="images as the schema to write says"):
            hr.write(tmp_path / name, source, schema=other)
    assert not (tmp_path / name).exists()
    hr.write(tmp_path / name, source, schema={"image": png})
    jpeg = {"image": hr.Feature("uint8", (None, None, 3), encoding="jpeg")}
    hr.write(tmp_path / f"jpeg-{name}", source.map(dict), schema=jpeg)
    assert hr.open(tmp_path / f"jpeg-{name}").schema["image"].encoding == "jpeg"
