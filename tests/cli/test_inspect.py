"""``headrace inspect``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import headrace as hr


def test_shows_every_fact(run, people):
    done = run("inspect", people)
    assert done.code == 0
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[:5] == [
        f"file         {people}",
        "format       tfrecord",
        "compression  none",
        "records      12",
        f"size         {people.stat().st_size / 1000:.2f} kB ({people.stat().st_size:,} bytes)",
    ]
    assert "tags     int64    (None,)" in lines
    assert "name    'person 0'" in lines
    assert not any(line != line.rstrip() for line in lines)


def test_json(run, people):
    facts = run("inspect", people, "--json").json
    assert facts["format"] == "tfrecord"
    assert facts["records"] == 12
    assert facts["bytes"] == people.stat().st_size
    assert facts["first_example"] == {
        "age": 20,
        "height": 1.5,
        "name": "person 0",
        "photo": {"b64": "iQA="},
        "tags": [],
    }
    assert facts["schema"]["features"]["tags"]["shape"] == [None]
    assert facts["faults"] == []


def test_several_files_are_one_set(run, tmp_path):
    hr.write(tmp_path / "x.tfrecord@3", {"a": np.arange(10)})
    facts = run("inspect", tmp_path / "x.tfrecord@3", "--json").json
    assert len(facts["paths"]) == 3
    assert facts["records"] == 10


@pytest.mark.parametrize("command", ["inspect", "schema", "stats", "verify", "head", "index"])
def test_the_name_of_one_shard_is_that_shard(run, tmp_path, command):
    hr.write(tmp_path / "x.tfrecord@4", {"k": np.arange(40, dtype=np.int64)})
    own = tmp_path / "x.tfrecord-00002-of-00004"
    shown = {"inspect": "records", "verify": "records", "stats": "examples"}
    more = ("-n", 40) if command == "head" else ()
    done = run(command, *more, own, "--json")
    assert done.code == 0, done.err
    if command in shown:
        assert done.json[shown[command]] == 10
    if command == "head":
        assert [json.loads(line)["k"] for line in done.out.splitlines()] == [*range(20, 30)]
    own.unlink()
    gone = run(command, *more, own, "--json")
    assert gone.code in (1, 2)
    assert "x.tfrecord@4 or x.tfrecord@* names the whole set" in gone.err


def test_compression_is_named(run, tmp_path):
    hr.write(tmp_path / "x.tfrecord.gz", {"a": np.arange(10)})
    hr.write(tmp_path / "y.tfrecord", {"a": np.arange(10)})
    assert run("inspect", tmp_path / "x.tfrecord.gz", "--json").json["compression"] == "gzip"
    both = run("inspect", tmp_path / "x.tfrecord.gz", tmp_path / "y.tfrecord", "--json").json
    assert both["compression"] == "gzip, none"
    assert both["records"] == 20


def test_the_size_of_a_folder_is_that_of_what_is_in_it(run, tmp_path):
    for name, size in (("a/1.png", 70), ("b/2.png", 30)):
        (tmp_path / "x" / name).parent.mkdir(parents=True)
        (tmp_path / "x" / name).write_bytes(b"\x89PNG\r\n\x1a\n".ljust(size, b"."))
    assert run("inspect", tmp_path / "x", "--json").json["bytes"] == 100


def test_npy(run, golden):
    facts = run("inspect", golden("npy/fortran.npy"), "--json").json
    assert facts["format"] == "npy"
    assert facts["records"] == np.load(golden("npy/fortran.npy")).shape[0]


def test_empty_files(run, golden):
    facts = run("inspect", golden("tfrecord/empty.tfrecord"), "--json").json
    assert (facts["records"], facts["first_example"]) == (0, None)


def test_damage_hides_nothing_else(run, golden):
    done = run("inspect", golden("tfrecord/bad_length_crc.tfrecord"), "--json")
    assert done.code == 1
    assert done.json["records"] is None
    assert done.json["first_example"]["label"] is not None
    assert len(done.json["faults"]) == 1
    assert done.err.startswith("headrace: error: expected length checksum")
    assert "record 1, byte 0x136" in done.err
    assert len(done.err.splitlines()) == 1


def test_skipping_damage_counts_it(run, golden):
    done = run("inspect", golden("tfrecord/bad_length_crc.tfrecord"), "--skip-corrupt", "--json")
    assert done.code == 0
    assert done.json["records"] == 39
    assert done.json["skipped"] == {"records": 1, "bytes": 310}
    assert done.err == "skipped 1 damaged stretch, 310 bytes\n"


@pytest.mark.parametrize("compression", ["zstd", "none", "brotli", "snappy"])
def test_compression_of_array_records(run, tmp_path, compression):
    path = tmp_path / "x.array_record"
    hr.write(path, {"x": np.arange(100)}, compression=compression)
    assert run("inspect", path, "--json").json["compression"] == compression


def _nested(path):
    np.save(path, np.zeros(6, [("k", "<i8"), ("box", [("x", "<f4", (2,)), ("y", ">f8")])]))


def _wide(path):
    hr.write(path, {f"column {k}": np.arange(6) for k in range(500)})


def _archive_called_npy(path):
    with path.open("wb") as file:
        np.savez(file, k=np.arange(6))


def _records_called_csv(path):
    hr.write(path, {"k": np.arange(6)}, format="tfrecord")


def _table_called_csv(path):
    hr.write(path, {"k": np.arange(6)}, format="parquet")


FILES = {
    "nested.npy": _nested,
    "wide.npy": _wide,
    "training_data.npy": _archive_called_npy,
    "x.rec": _records_called_csv,
    "x.csv": _records_called_csv,
    "y.csv": _table_called_csv,
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["inspect", "schema", "stats", "verify", "head", "convert"])
def test_every_command_takes_what_open_takes(run, tmp_path, command, name):
    FILES[name](tmp_path / name)
    done = run(command, tmp_path / name, *([tmp_path / "new.npz"] if command == "convert" else []), "--json")
    assert done.code == 0, done.err
    if command == "convert":
        assert len(hr.open(tmp_path / "new.npz")) == 6
    else:
        assert ("box.x" in done.out) == (name == "nested.npy" and command != "verify")


def test_a_damaged_beginning(run, tmp_path):
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, [b"not a message"] * 3)
    content = bytearray(path.read_bytes())
    content[14] ^= 1  # in the first payload
    path.write_bytes(content)
    done = run("inspect", path, "--format", "tfrecord")
    assert done.code == 1
    assert "payload checksum" in done.out + done.err
    assert str(path) in done.out
