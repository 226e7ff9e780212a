"""``headrace schema``."""

from __future__ import annotations

from pathlib import Path

import headrace as hr


def test_table(run, people):
    assert run("schema", people).out == (
        "feature  dtype    shape\n"
        "age      int64    ()\n"
        "height   float32  ()\n"
        "name     str      ()\n"
        "photo    bytes    ()\n"
        "tags     int64    (None,)\n"
    )


def test_json_is_what_schema_reads(run, people):
    assert hr.Schema.from_json(run("schema", people, "--json").out) == hr.open(people).schema


def test_columns(run, people):
    assert list(hr.Schema.from_json(run("schema", people, "--json", "-c", "tags", "-c", "age").out)) == ["tags", "age"]


def test_raw_codec(run, people):
    assert list(hr.Schema.from_json(run("schema", people, "--codec", "raw", "--json").out)) == ["record"]


def test_features_of_several_lists(run, tmp_path):
    golden = Path(__file__).resolve().parents[1] / "golden" / "tfrecord" / "keys.tfrecord"
    schema = hr.Schema(
        {
            "matrix": hr.Feature("int64", keys=hr.SparseKeys(["row", "column"], "number", [3, 4])),
            "rows": hr.Feature("int64", keys=hr.RaggedKeys("values", [("row_lengths", "lengths")])),
        }
    )
    (tmp_path / "keys.json").write_text(schema.to_json())
    for command in ("head", "verify"):
        assert run(command, golden, "--schema", tmp_path / "keys.json").code == 0
    only_rows = hr.Schema({"rows": schema["rows"]})
    (tmp_path / "rows.json").write_text(only_rows.to_json())
    assert run("convert", golden, tmp_path / "x.parquet", "--schema", tmp_path / "rows.json").code == 0
    assert "rows     int64  (None, None)" in run("schema", tmp_path / "x.parquet").out
