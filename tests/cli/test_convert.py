"""``headrace convert``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import headrace as hr
from headrace.cli.convert import _show
from headrace.writing.convert import Converted


def test_to_another_format(run, people):
    done = run("convert", people, "heights.npy", "--columns", "height")
    assert done.code == 0
    assert done.out.startswith("12 examples into heights.npy, ")
    assert np.load("heights.npy").tolist() == [1.5 + i / 16 for i in range(12)]


def test_to_shards_and_compression(run, people, tmp_path):
    done = run("convert", people, "x.tfrecord.gz", "--shards", 3, "--json")
    assert done.code == 0
    assert done.json["examples"] == 12
    assert len(done.json["paths"]) == 3
    assert [e["name"] for e in hr.open("x.tfrecord.gz@3")] == [f"person {i}" for i in range(12)]


def test_several_sources(run, people):
    done = run("convert", people, people, "x.tfrecord", "--json")
    assert done.json["examples"] == 24


def test_existing_files_are_kept(run, people):
    assert run("convert", people, "x.tfrecord").code == 0
    done = run("convert", people, "x.tfrecord")
    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert "--overwrite" in done.err
    assert run("convert", people, "x.tfrecord", "--overwrite").code == 0


def test_format_of_the_source(run):
    Path("table.txt").write_text("1;2,5\n3;4,5\n")
    done = run("convert", "table.txt", "x.npz", "--source-format", "csv:header=no,colour=red")
    assert done.code == 2
    done = run("convert", "table.txt", "x.npz", "--source-format", "csv:header=no,delimiter=;")
    assert done.code == 1
    assert "'c1'" in done.err
    Path("table.txt").write_text("1;2.5\n3;4.5\n")
    done = run("convert", "table.txt", "x.npz", "--source-format", "csv:header=no,delimiter=;")
    assert done.code == 0
    assert {name: column.tolist() for name, column in np.load("x.npz").items()} == {"c0": [1, 3], "c1": [2.5, 4.5]}


def test_a_schema_is_followed_where_payloads_could_pass(run):
    hr.write("wide.tfrecord", {"a": np.arange(3), "b": np.arange(3)})
    Path("a.json").write_text(hr.Schema({"a": hr.Feature("int64")}).to_json())
    assert run("convert", "wide.tfrecord", "narrow.tfrecord", "--schema", "a.json").code == 0
    assert list(hr.open("narrow.tfrecord").schema) == ["a"]


def test_damaged_source(run, golden):
    path = golden("tfrecord/bad_payload_crc.tfrecord")
    done = run("convert", path, "x.npy", "--columns", "label")
    assert done.code == 1
    assert "record 1" in done.err
    done = run("convert", path, "x.npy", "--columns", "label", "--skip-corrupt")
    assert done.code == 0
    assert done.err == "skipped 1 damaged stretch\n"
    assert len(np.load("x.npy")) == 39


def test_data_that_cannot_be_written(run, people):
    done = run("convert", people, "x.npy")
    assert done.code == 1
    assert "feature 'name'" in done.err
    assert run("convert", people, "x.unknown").code == 1


def test_needs_source_and_destination(run, people):
    done = run("convert", people)
    assert done.code == 2
    assert "name at least one source, and the file to write" in done.err


def test_two_numbers_of_shards(run, people):
    done = run("convert", people, "x.tfrecord@2", "--shards", 3)
    assert done.code == 2
    assert done.err == "headrace: error: the path says 2 shards and shards= says 3\n"


def test_losses_are_reported(run, tmp_path):
    np.savez(tmp_path / "x.npz", a=np.float64([0.1, 0.2]))
    refused = run("convert", tmp_path / "x.npz", tmp_path / "x.tfrecord")
    assert refused.code == 1
    done = run("convert", tmp_path / "x.npz", tmp_path / "x.tfrecord", "--allow-loss")
    assert done.code == 0, done.err
    assert [line for line in done.err.splitlines() if line.startswith("lost: ") and "'a'" in line]


def test_what_an_earlier_run_converted(capsys):
    _show(Converted(examples=1200, paths=("a", "b"), bytes=10, resumed=1000, skipped=0), 0.25)
    assert capsys.readouterr().out.splitlines() == [
        "1,200 examples into 2 files, 10 bytes, in 0.2 s",
        "1,000 examples of them by an earlier, interrupted run",
    ]


def test_examples_that_fit_a_condition(run, people):
    done = run("convert", people, "x.tfrecord", "--where", "age = 22", "--columns", "name", "--json")
    assert done.code == 0
    assert [dict(example) for example in hr.open("x.tfrecord")] == [{"name": f"person {i}"} for i in (2, 6, 10)]
    # As many others, from the same files: nothing of the first choice is taken for the second.
    assert run("convert", people, "x.tfrecord", "--where", "age = 23", "--columns", "name", "--overwrite").code == 0
    assert [example["name"] for example in hr.open("x.tfrecord")] == [f"person {i}" for i in (3, 7, 11)]
    assert run("convert", people, "y.tfrecord", "--where", "age >").code == 2
    assert not Path("y.tfrecord").exists()


def test_several_conditions_must_all_fit(run, people, tmp_path):
    done = run("convert", people, tmp_path / "few.jsonl", "--where", "age > 20", "--where", "age < 22", "-c", "age")
    assert done.code == 0, done.err
    assert [example["age"] for example in hr.open(tmp_path / "few.jsonl")] == [21, 21, 21]
