"""Shards appear together: all or, after a failure, none."""

import os
import signal

import numpy as np
import pytest
from tests.forks import exit_code, fork, fork_killed

import headrace as hr
from headrace.io.write import pending

COUNT = 12


@pytest.mark.parametrize("format", ["tfrecord", "recordio", "array_record", "npy", "csv", "parquet", "jsonl"])
def test_no_shard_has_its_name_before_the_last_is_complete(tmp_path, format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
    seen = []

    class Rows(list):
        def __iter__(self):
            for row in super().__iter__():
                seen.append(visible(tmp_path))
                yield row

    rows = Rows({"x": number, "y": np.full(3, number, np.float32)} for number in range(COUNT))
    hr.write(tmp_path / f"a.{format}@4", rows)
    assert seen == [[]] * COUNT
    names = visible(tmp_path)
    assert len(names) == 4
    assert hr.open(tmp_path / f"a.{format}@4").batch(range(COUNT))["x"].tolist() == list(range(COUNT))


@pytest.mark.parametrize("at", [0, 4, 11])
def test_a_row_that_does_not_fit_leaves_no_shard(tmp_path, at):
    rows = [{"x": np.zeros(3, np.float32)} for _ in range(COUNT)]
    rows[at] = {"x": np.zeros(2, np.float32)}
    with pytest.raises(hr.HeadraceError):
        hr.write(tmp_path / "a.tfrecord@4", rows, schema={"x": hr.Feature("float32", (3,))})
    assert os.listdir(tmp_path) == []


def test_a_failing_iterable_leaves_no_shard(tmp_path):
    def rows():
        for number in range(COUNT):
            yield {"x": number}
        raise RuntimeError

    with pytest.raises(RuntimeError):
        hr.write(tmp_path / "a.tfrecord@4", rows())
    with pytest.raises(RuntimeError):
        hr.write_records(tmp_path / "b.tfrecord@4", (row["x"].to_bytes(1, "big") for row in rows()))
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_no_shard(tmp_path, monkeypatch):
    sync, calls = os.fsync, []

    def full(fd):
        calls.append(fd)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        sync(fd)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        hr.write(tmp_path / "a.tfrecord@5", {"x": np.arange(20)})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", range(1, 6))
@pytest.mark.parametrize("old", [5, 2, 0])
@pytest.mark.parametrize("has_links", [True, False])
def test_a_name_that_cannot_be_given_leaves_every_old_shard(tmp_path, monkeypatch, step, old, has_links):
    if old:
        hr.write(tmp_path / "a.tfrecord@5", {"x": np.arange(20)})
    for number in range(old, 5):
        (tmp_path / f"a.tfrecord-{number:05d}-of-00005").unlink(missing_ok=True)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    replace, calls = os.replace, []

    def fail(source, target):
        calls.append(source)
        if len(calls) == step:
            raise PermissionError(1, "Operation not permitted")
        replace(source, target)

    def link(source, target):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        if not has_links:
            patch.setattr(os, "link", link)
        with pytest.raises(PermissionError):
            hr.write(tmp_path / "a.tfrecord@5", {"x": np.arange(100, 150)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    hr.write(tmp_path / "a.tfrecord@5", {"x": np.arange(100, 150)})
    assert len(os.listdir(tmp_path)) == 5


def test_records_are_dealt_to_shards_that_appear_together(tmp_path):
    assert hr.write_records(tmp_path / "a.tfrecord@3", [b"a", b"b", b"c", b"d"]) == 4
    assert [[bytes(record) for record in hr.records([tmp_path / name])] for name in visible(tmp_path)] == [
        [b"a", b"d"],
        [b"b"],
        [b"c"],
    ]


@pytest.mark.parametrize("tenths", range(11))
def test_killed_at_any_moment_every_shard_is_whole(tmp_path, tenths):
    path, columns = tmp_path / "a.tfrecord@8", {"x": np.arange(40 * 2000).reshape(40, 2000)}
    assert exit_code(fork_killed(lambda: hr.write(path, columns), tenths / 10)) == -signal.SIGKILL
    hr.write(tmp_path / "other.npy", np.arange(3))  # gives names that are missing
    (tmp_path / "other.npy").unlink()
    assert len(visible(tmp_path)) == 8
    assert hr.verify(path).ok
    assert np.array_equal(hr.open(path).batch(range(40))["x"], np.arange(40 * 2000).reshape(40, 2000))


def test_a_kill_between_two_names_leaves_no_mixture(tmp_path, monkeypatch):
    path = tmp_path / "a.tfrecord@4"
    hr.write(path, {"x": np.zeros(8, np.int64)})

    def overwrite():
        replace, names = os.replace, []

        def kill_at_third(source, target):
            replace(source, target)
            names.append(target)
            if sum(os.path.dirname(name) == str(tmp_path) for name in names) == 3:
                os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(os, "replace", kill_at_third)
        hr.write(path, {"x": np.ones(8, np.int64)})

    assert exit_code(fork(overwrite)) == -signal.SIGKILL
    with pytest.raises(hr.NoFiles, match="the next write into the folder completes"):
        hr.open(path)
    monkeypatch.setattr(pending, "_temporaries", pending._temporaries.__wrapped__)  # it lists a folder once a second
    hr.write(tmp_path / "other.npy", np.arange(3))
    assert hr.open(path).batch(range(8))["x"].tolist() == [1] * 8
    assert len(os.listdir(tmp_path)) == 5


def visible(folder):
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))
