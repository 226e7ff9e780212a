"""``penstock schema``."""

from __future__ import annotations

import penstock as ps


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
    assert ps.Schema.from_json(run("schema", people, "--json").out) == ps.open(people).schema


def test_columns(run, people):
    assert list(ps.Schema.from_json(run("schema", people, "--json", "-c", "tags", "-c", "age").out)) == ["tags", "age"]


def test_raw_codec(run, people):
    assert list(ps.Schema.from_json(run("schema", people, "--codec", "raw", "--json").out)) == ["record"]
