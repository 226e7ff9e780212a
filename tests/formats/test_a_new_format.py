"""A registered format works in open, write, convert, verify and inspect."""

import json

import numpy as np
import pytest
from tests.formats.toy_table import FORMAT
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.app import app
from headrace.errors import SchemaMismatch
from headrace.formats import registry
from headrace.writing import units


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    hr.formats.register(FORMAT)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.toy"
    assert hr.write(path, {"a": np.arange(1000), "b": np.arange(1000) ** 2}) == 1000
    return path


def test_it_opens_by_name_and_by_content(path, tmp_path):
    unnamed = tmp_path / "unnamed"
    unnamed.write_bytes(path.read_bytes())
    for name in (path, unnamed):
        source = hr.open(name)
        assert source.format == "toy"
        assert len(source) == 1000
        assert source.batch([7, 3])["b"].tolist() == [49, 9]
        assert source[-1] == {"a": 999, "b": 998001}
        assert [example["a"] for example in source.select("a")] == list(range(1000))


def test_it_loads(path):
    batches = list(hr.Loader(hr.open(path), 128, shuffle=True))
    assert sorted(np.concatenate([batch["a"] for batch in batches])) == list(range(1000))


def test_it_converts_both_ways(path, tmp_path, monkeypatch):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 300)
    hr.convert(path, tmp_path / "x.tfrecord@2")
    hr.convert(tmp_path / "x.tfrecord@2", tmp_path / "back.toy")
    assert (tmp_path / "back.toy").read_bytes() == path.read_bytes()


def test_a_schema_is_checked(path):
    assert list(hr.open(path, schema={"b": hr.Feature("int64")}).schema) == ["b"]
    with pytest.raises(SchemaMismatch, match="float32"):
        hr.open(path, schema={"b": hr.Feature("float32")})


def test_it_is_verified_by_reading_it(path):
    report = hr.verify(path)
    assert report.ok
    assert (report.files, report.records, report.bytes) == (1, 1000, path.stat().st_size)
    path.write_bytes(path.read_bytes().replace(b"999 ", b"oh! "))
    report = hr.verify(path)
    assert [fault.where.record for fault in report.faults] == [999]
    assert report.bytes == path.stat().st_size


def test_commands(path):
    reported = json.loads(CliRunner().invoke(app, ["inspect", str(path), "--json"], catch_exceptions=False).stdout)
    assert (reported["format"], reported["compression"], reported["records"]) == ("toy", "only words", 1000)
