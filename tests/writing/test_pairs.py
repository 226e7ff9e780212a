"""Every registered format to every other, and back."""

import itertools
import os

import numpy as np
import pytest
from tests.writing import pairs

import headrace as hr
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import UnsupportedData
from headrace.testing import assert_same

PAIRS = list(itertools.product(pairs.formats(), repeat=2))


def read(path, format, schema):
    source = hr.open(path, format=format, schema=schema, decode=False)
    return source.batch(np.arange(len(source)))


def back(source, target, tmp_path, columns):
    """Convert there and back; returns the result and the original."""
    schema = pairs.schema_of(source, target).select(columns)
    first = pairs.write(tmp_path, source, target)
    whole = hr.open(first, format=source, schema=schema, decode=False)
    there = pairs.path_of(tmp_path, target, "there")
    done = hr.convert(whole, there, format=target)
    assert (done.examples, done.lost) == (pairs.ROWS, ())
    again = hr.open(there, format=target, schema=done.schema, decode=False)
    home = pairs.path_of(tmp_path, source, "home")
    hr.convert(again, home, format=source)
    return read(home, source, schema), whole.batch(np.arange(pairs.ROWS))


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda name: name)
def test_there_and_back(source, target, tmp_path):
    refused = pairs.refused(source, target)
    columns = [name for name in pairs.schema_of(source, target) if name not in refused]
    if columns and pairs.is_whole(source, target) and not (pairs.SAMPLES.keys() & {source, target} and refused):
        found, expected = back(source, target, tmp_path, columns)
        assert_same(found, expected)


REFUSING = [pair for pair in PAIRS if pairs.certain(*pair) and pairs.is_whole(*pair)]


@pytest.mark.parametrize(("source", "target"), REFUSING, ids=lambda name: name)
def test_loss_is_refused(source, target, tmp_path):
    never = pairs.certain(source, target)
    schema = pairs.schema_of(source, target)
    path = pairs.write(tmp_path, source, target)
    schema = schema.select([name for name in schema if name in never or name not in pairs.refused(source, target)])
    whole = hr.open(path, format=source, schema=schema, decode=False)
    there = pairs.path_of(tmp_path, target, "there")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(UnsupportedData, match="--allow-loss"):
        hr.convert(whole, there, format=target)
    assert [name for name in sorted(os.listdir(tmp_path)) if not name.startswith(".")] == before

    if len(never) == len(schema) or pairs.SAMPLES.keys() & {source, target}:
        return  # Nothing can be stored, or not without the rest.
    done = hr.convert(whole, there, format=target, allow_loss=True)
    assert {name for name in schema if any(repr(name) in line for line in done.lost)} >= set(never)
    assert len(hr.open(there, format=target, schema=done.schema)) == pairs.ROWS


def test_the_page_shows_it(tmp_path):
    text = pairs.PAGE.read_text(encoding="utf-8")
    reported = pairs.page_with(text, "kinds", pairs.held_table(tmp_path))
    reported = pairs.page_with(reported, "pairs", pairs.pair_table())
    if os.environ.get("HEADRACE_WRITE_PAGES"):
        pairs.PAGE.write_text(reported, encoding="utf-8")
    assert text == reported, "run this test with HEADRACE_WRITE_PAGES=1"


def test_values_decide(tmp_path):
    exact = {"x": np.array([0.5, np.nan, 3.0]), "n": np.array([1, 2, 3])}
    hr.write(tmp_path / "x.npy", exact)
    done = hr.convert(tmp_path / "x.npy", tmp_path / "y.tfrecord")
    assert done.lost == ()
    assert done.schema["x"] == Feature("float32")
    hr.write(tmp_path / "z.npy", {"x": np.array([0.5, 0.1]), "n": np.array([1, 2])})
    with pytest.raises(UnsupportedData, match=r"float32 holds exactly.*record 1.*--allow-loss"):
        hr.convert(tmp_path / "z.npy", tmp_path / "z.tfrecord")
    assert not (tmp_path / "z.tfrecord").exists()
    done = hr.convert(tmp_path / "z.npy", tmp_path / "z.tfrecord", allow_loss=True)
    assert done.lost == ("'x' is stored as Feature('float32') instead of Feature('float64')",)
    assert hr.open(tmp_path / "z.tfrecord").batch([1])["x"][0] == np.float32(0.1)


def test_too_large_numbers_are_the_largest(tmp_path):
    big = {"n": np.array([2**40, -(2**40), 5]), "m": np.zeros(3, np.int32)}
    hr.write(tmp_path / "x.npy", big)
    with pytest.raises(UnsupportedData, match=r"int32 holds exactly.*record 0"):
        hr.convert(tmp_path / "x.npy", tmp_path / "x.recordio")
    hr.convert(tmp_path / "x.npy", tmp_path / "x.recordio", allow_loss=True)
    found = hr.open(tmp_path / "x.recordio").batch([0, 1, 2])["n"].reshape(-1)
    assert found.tolist() == [2**31 - 1, -(2**31), 5]


def test_varying_rows_that_change_are_placed(tmp_path):
    hr.write(tmp_path / "x.parquet", {"x": hr.Ragged.from_list([[0.5], [], [1.0, 0.1], [2.0]], np.float64)})
    with pytest.raises(UnsupportedData, match="record 2"):
        hr.convert(tmp_path / "x.parquet", tmp_path / "x.tfrecord")


def test_nothing_is_left_to_write(tmp_path):
    hr.write(tmp_path / "x.parquet", {"a": np.array([b"1"], object), "b": np.array(["x"], object)})
    for loss in (False, True):
        with pytest.raises(UnsupportedData):
            hr.convert(tmp_path / "x.parquet", tmp_path / "x.npy", allow_loss=loss)
    assert os.listdir(tmp_path) == ["x.parquet"]


def test_the_written_schema_is_returned(tmp_path):
    hr.write(tmp_path / "x.parquet", {"x": np.zeros((3, 2, 2), np.uint8)})
    done = hr.convert(tmp_path / "x.parquet", tmp_path / "x.tfrecord")
    assert done.schema == Schema({"x": Feature("uint8", (2, 2))})
    assert hr.open(tmp_path / "x.tfrecord", schema=done.schema)[0]["x"].shape == (2, 2)
