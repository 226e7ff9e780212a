"""Empty files: which open, with which schema, and which are damaged."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace.errors import DataError

OF_NO_BYTES = ("tfrecord", "recordio", "csv", "jsonl")
WITHOUT_SCHEMA = ("tfrecord", "tfrecord.gz", "recordio", "array_record", "jsonl", "jsonl.gz", "tar")
WITH_SCHEMA = ("npz", "parquet", "avro")
DAMAGED_AT_NO_BYTES = ("tfrecord.gz", "jsonl.gz", "array_record", "npy", "npz", "parquet", "avro", "tar")
SCHEMA = hr.Schema({"a": hr.Feature("float32", (3,)), "text": hr.Feature("str")})


def nothing_comes_of(source):
    assert len(source) == 0
    assert list(source) == []
    for options in ({}, {"shuffle": True, "epochs": 3}, {"drop_last": True}):
        loader = hr.Loader(source, 4, **options)
        assert len(loader) == 0
        assert list(loader) == []


@pytest.mark.parametrize("ending", OF_NO_BYTES)
def test_an_empty_file_has_no_examples(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    path.touch()
    source = hr.open(path)
    assert dict(source.schema) == {}
    assert source.batch([]) == {}
    nothing_comes_of(source)
    assert hr.verify(path).ok


@pytest.mark.parametrize("ending", DAMAGED_AT_NO_BYTES)
def test_no_bytes_are_damage_where_every_file_has_some(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    path.touch()
    with pytest.raises(DataError):
        len(hr.open(path))
    assert not hr.verify(path).ok


@pytest.mark.parametrize("ending", WITHOUT_SCHEMA)
def test_files_written_without_examples(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    assert hr.write(path, [], schema=SCHEMA) == 0
    assert dict(hr.open(path).schema) == {}
    nothing_comes_of(hr.open(path))
    assert hr.verify(path).ok
    # A given schema is kept, so code on batches needs no special case for empty files.
    source = hr.open(path, schema=SCHEMA)
    assert source.schema == SCHEMA
    batch = source.batch([])
    assert (batch["a"].shape, batch["a"].dtype, batch["text"].shape) == ((0, 3), np.float32, (0,))
    nothing_comes_of(source)
    nothing_comes_of(source.map(dict).filter(bool))


@pytest.mark.parametrize("ending", WITH_SCHEMA)
def test_formats_that_keep_the_schema(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    hr.write(path, [], schema={"a": hr.Feature("float32")})
    assert dict(hr.open(path).schema) == {"a": hr.Feature("float32")}
    nothing_comes_of(hr.open(path))


@pytest.mark.parametrize("ending", ["tfrecord", "jsonl", "tar"])
def test_an_empty_shard_among_others(tmp_path, ending):
    hr.write(tmp_path / f"1.{ending}", [], schema=SCHEMA)
    hr.write(tmp_path / f"2.{ending}", [{"a": np.ones(3, np.float32)}])
    source = hr.open(str(tmp_path / f"*.{ending}"))
    assert list(source.schema) == ["a"]
    (batch,) = hr.Loader(source, 4)
    assert batch["a"].tolist() == [[1, 1, 1]]
