"""Datasets of Ray Data as files: what is written, and that it is complete or absent whatever fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from tests import clusters
from tests.io.store_server import environment, serving_store

import headrace as hr

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray
ROWS = 200


@pytest.fixture
def write(local_ray):
    from headrace.adapters.ray import write

    context = local_ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    return write


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def dataset(n=ROWS, blocks=5):
    columns = {
        "i": np.arange(n),
        "x": np.arange(3 * n, dtype=np.float32).reshape(n, 3),
        "t": [f"é{i}" for i in range(n)],
    }
    from headrace.adapters.ray import read

    return read(hr.ColumnSource(columns), num_blocks=blocks)


def numbers(path):
    source = hr.open(path)
    return [int(i) for i in source.batch(np.arange(len(source)))["i"]]


@pytest.mark.parametrize(
    "format", ["tfrecord", "tfrecord.gz", "array_record", "recordio", "parquet", "jsonl", "npz", "csv"]
)
def test_formats(format, write, out):
    rows = (
        dataset()
        if format not in ("csv", "recordio", "npz")
        else dataset().select_columns(["i", "x"] if format == "npz" else ["i"])
    )
    codec = {"codec": "example"} if format == "recordio" else {}
    assert write(rows, out / f"a.{format}@3", **codec) == ROWS
    assert numbers(out / f"a.{format}@3") == list(range(ROWS))
    assert len(list(out.iterdir())) == 3
    if "x" in hr.open(out / f"a.{format}@3").schema:
        np.testing.assert_array_equal(hr.open(out / f"a.{format}@3")[7]["x"], np.arange(21, 24, dtype=np.float32))


def test_the_bytes_are_those_of_a_local_write(write, out):
    """With as many tasks as shards, in order, each shard is what headrace.write makes of the same rows."""
    write(dataset(blocks=4), out / "a.array_record@*")
    source = hr.open(out / "a.array_record@4")
    hr.write(out / "b.array_record@4", source)
    for number in range(4):
        assert (out / f"a.array_record-0000{number}-of-00004").read_bytes() == (
            out / f"b.array_record-0000{number}-of-00004"
        ).read_bytes()


class TestNames:
    def test_one_file(self, write, out):
        assert write(dataset(), str(out / "a.tfrecord")) == ROWS
        assert [path.name for path in out.iterdir()] == ["a.tfrecord"]
        assert numbers(out / "a.tfrecord") == list(range(ROWS))

    def test_as_many_as_there_are_tasks(self, write, out):
        write(dataset(blocks=7), out / "a.tfrecord@*")
        assert sorted(path.name for path in out.iterdir()) == [f"a.tfrecord-{k:05d}-of-00007" for k in range(7)]
        assert numbers(out / "a.tfrecord@*") == list(range(ROWS))

    @pytest.mark.parametrize(("rows", "shards"), [(3, 5), (0, 2), (1, 1), (0, 1)])
    def test_fewer_rows_than_shards(self, rows, shards, write, out):
        assert write(dataset(rows), out / f"a.tfrecord@{shards}") == rows
        assert len(list(out.iterdir())) == shards
        assert len(hr.records(out / f"a.tfrecord@{shards}")) == rows

    def test_no_rows_and_no_number(self, write, out):
        assert write(dataset(0), out / "a.tfrecord@*") == 0
        assert [path.name for path in out.iterdir()] == ["a.tfrecord-00000-of-00001"]

    def test_files_that_exist(self, write, out):
        write(dataset(), out / "a.tfrecord@2")
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        for path in ("a.tfrecord@2", "a.tfrecord@*"):
            with pytest.raises(hr.UnsupportedData, match="already exists"):
                write(dataset(50), out / path)
        with pytest.raises(ValueError, match="needs the number of shards"):
            write(dataset(50), out / "a.tfrecord@*", overwrite=True)
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        assert write(dataset(50), out / "a.tfrecord@2", overwrite=True) == 50
        assert numbers(out / "a.tfrecord@2") == list(range(50))

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (("rows", "a.tfrecord"), TypeError),
            ((None, "a.unknown"), hr.UnknownFormat),
            ((None, "none/a.tfrecord"), hr.NoFiles),
        ],
    )
    def test_what_cannot_be_written(self, arguments, error, write, out):
        rows, name = arguments
        with pytest.raises(error):
            write(dataset() if rows is None else rows, out / name)
        with pytest.raises(hr.UnsupportedData, match="a format of files"):
            write(dataset(), out / "folder", format="npy_folder")
        assert list(out.iterdir()) == []


def lists(*values, blocks=2):
    return ray.data.from_items([{"x": value, "i": 7} for value in values], override_num_blocks=blocks)


class TestTypes:
    """Blocks that do not show the types of all features, and arrays of text."""

    @pytest.mark.parametrize("schema", [None, {"x": hr.Feature("int64", (None,)), "i": hr.Feature("int64")}])
    def test_blocks_without_values(self, schema, write, out):
        rows = lists([1, 2], [3], [], [])
        assert write(rows, out / "a.jsonl@*", schema=schema) == 4
        source = hr.open(out / "a.jsonl@*", schema=schema)
        assert sorted(example["x"].tolist() for example in source) == [[], [], [1, 2], [3]]

    def test_each_block_shows_another_feature(self, write, out):
        rows = [{"x": [1], "y": []}, {"x": [], "y": [2.5]}]
        assert write(ray.data.from_items(rows, override_num_blocks=2), out / "a.parquet@*") == 2
        found = [(example["x"].tolist(), example["y"].tolist()) for example in hr.open(out / "a.parquet@*")]
        assert sorted(found) == [([], [2.5]), ([1], [])]

    def test_nulls_among_floats(self, write, out):
        rows = [{"x": 1.5}, {"x": None}]
        assert write(ray.data.from_items(rows, override_num_blocks=2), out / "a.npz@*") == 2
        assert np.isnan([example["x"] for example in hr.open(out / "a.npz@*")]).sum() == 1

    def test_no_block_shows_a_type(self, write, out):
        with pytest.raises(hr.UnsupportedData, match="only null or empty lists .*'x'.*schema="):
            write(lists([], []), out / "a.tfrecord@*")
        assert list(out.iterdir()) == []

    def test_blocks_that_differ_in_another_feature(self, write, out):
        rows = [{"x": [1], "i": 1}, {"x": [], "i": 1.5}]
        with pytest.raises(hr.SchemaMismatch, match="the same feature in every block.*'i'"):
            write(ray.data.from_items(rows, override_num_blocks=2), out / "a.jsonl@*")

    @pytest.mark.parametrize("format", ["tfrecord", "parquet", "jsonl"])
    def test_arrays_of_text(self, format, write, out):
        rows = ray.data.range(4, override_num_blocks=2).map_batches(
            lambda batch: {"t": np.array([["é" * (number + 1), ""] for number in batch["id"]])}
        )
        assert write(rows, out / f"a.{format}@2") == 4
        found = sorted(list(example["t"]) for example in hr.open(out / f"a.{format}@2"))
        assert found == [["é" * (k + 1), ""] for k in range(4)]


class TestFailures:
    def test_a_task_that_fails(self, write, out):
        def fail(batch):
            return batch if 150 not in batch["i"] else batch["no such column"]

        with pytest.raises(ray.exceptions.RayTaskError, match="no such column"):
            write(dataset().map_batches(fail), out / "a.tfrecord@3")
        with pytest.raises(ray.exceptions.RayTaskError, match="no such column"):
            write(dataset().map_batches(fail), out / "a.tfrecord@*")
        assert list(out.iterdir()) == []

    def test_blocks_that_differ(self, write, out):
        def widen(batch):
            kind = np.float64 if 150 in batch["i"] else np.float32
            return {"i": batch["i"], "x": batch["x"].astype(kind)}

        with pytest.raises(hr.SchemaMismatch, match="the same feature in every block.*float32.*float64.*schema="):
            write(dataset().map_batches(widen, batch_size=None), out / "a.npz@*")
        assert list(out.iterdir()) == []

    def test_values_that_do_not_fit(self, write, out):
        with pytest.raises((hr.HeadraceError, ray.exceptions.RayTaskError), match="features .*found 'x'"):
            write(dataset(), out / "a.tfrecord@2", schema={"i": hr.Feature("int64"), "t": hr.Feature("str")})
        assert list(out.iterdir()) == []

    def test_errors_name_the_target(self, write, out):
        rows = ray.data.from_items([{"b": b"x"}])
        with pytest.raises(hr.UnsupportedData, match=r"JSON has no bytes") as caught:
            write(rows, out / "a.jsonl")
        assert caught.value.where.path == str(out / "a.jsonl")
        with pytest.raises(ValueError, match="concurrency"):
            write(rows, out / "a.parquet", concurrency=0)
        assert list(out.iterdir()) == []

    def test_python_objects(self, write, out):
        with pytest.raises(hr.UnsupportedData, match="found Python objects .*'a'"):
            write(ray.data.from_items([{"a": Fraction(1, 2), "i": 1}]), out / "a.tfrecord")
        assert list(out.iterdir()) == []

    def test_killed_workers(self, write, out, tmp_path):
        """Workers die in the middle of three tasks, once each: every row is there once, and nothing else."""
        markers = str(tmp_path)

        def die_once(batch):
            for number in (20, 110, 199):
                marker = f"{markers}/died-{number}"
                if number in batch["i"] and not os.path.exists(marker):
                    open(marker, "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)
            return batch

        assert write(dataset().map_batches(die_once, batch_size=16), out / "a.tfrecord@*") == ROWS
        assert sorted(numbers(out / "a.tfrecord@*")) == list(range(ROWS))
        assert len([path for path in tmp_path.iterdir() if path.name.startswith("died")]) == 3
        assert {path.name[0] for path in out.iterdir()} == {"a"}

    def test_killed_while_a_file_is_being_written(self, write, out, tmp_path):
        """The worker dies between the blocks of one task: the half file never gets a name."""
        marker = str(tmp_path / "died")

        def rows(batch):
            for start in range(0, len(batch["i"]), 10):
                if start == 30 and not os.path.exists(marker):
                    open(marker, "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)
                yield {name: column[start : start + 10] for name, column in batch.items()}

        assert write(dataset(blocks=2).map_batches(rows, batch_size=None), out / "a.tfrecord@*") == ROWS
        assert os.path.exists(marker)
        assert numbers(out / "a.tfrecord@*") == list(range(ROWS))
        assert {path.name[0] for path in out.iterdir()} == {"a"}


DRIVER = """
import os, sys, time
import numpy as np
import headrace as hr
from headrace.adapters.ray import read, write

out, marker, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])

def wait(batch):
    open(marker, "w").close()
    time.sleep(seconds if 50 in batch["i"] else 0)
    return batch

rows = read(hr.ColumnSource({"i": np.arange(100)}), num_blocks=4).map_batches(wait, batch_size=None)
print(write(rows, out + "/a.tfrecord@*"))
"""


def test_a_killed_driver_leaves_no_name_and_the_next_call_cleans_up(out, tmp_path):
    clusters.local.close()

    def start(seconds):
        arguments = [sys.executable, "-c", DRIVER, str(out), str(tmp_path / "marker"), str(seconds)]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    driver = start(1000)
    while not (tmp_path / "marker").exists():
        assert driver.poll() is None
        time.sleep(0.05)
    driver.kill()
    driver.communicate()
    assert [path.name for path in out.iterdir() if not path.name.startswith(".")] == []
    again = start(0)
    assert again.communicate(timeout=300)[0].split()[-1] == "100"
    assert sorted(path.name for path in out.iterdir()) == [f"a.tfrecord-{k:05d}-of-00004" for k in range(4)]
    assert sorted(numbers(out / "a.tfrecord@4")) == list(range(100))


def test_a_store(monkeypatch):
    """Tasks upload beside the final names; a failing run leaves nothing in the bucket, and none of it was visible."""
    pytest.importorskip("obstore")
    clusters.local.close()
    with serving_store() as store:
        for name, value in environment("s3", store.url).items():
            monkeypatch.setenv(name, value)
        try:
            from headrace.adapters.ray import read, write

            clusters.local.ensure().data.DataContext.get_current().enable_progress_bars = False
            assert write(dataset(), "s3://bucket/out/a.tfrecord@3") == ROWS
            assert sorted(store.objects) == [f"out/a.tfrecord-0000{k}-of-00003" for k in range(3)]
            assert sorted(numbers("s3://bucket/out/a.tfrecord@3")) == list(range(ROWS))
            assert read("s3://bucket/out/a.tfrecord@3").sum("i") == sum(range(ROWS))

            def fail(batch):
                return batch if 150 not in batch["i"] else batch["no such column"]

            with pytest.raises(ray.exceptions.RayTaskError, match="no such column"):
                write(dataset().map_batches(fail), "s3://bucket/out/b.tfrecord@*")
            with pytest.raises(hr.UnsupportedData, match="already exists"):
                write(dataset(), "s3://bucket/out/a.tfrecord@*")
            assert len(store.objects) == 3
        finally:
            clusters.local.close()
