"""Files that one task makes whole: which they are, and what a writer that is killed, or believed dead, leaves of them."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.writing.test_engines import Pickling, columns, content

import headrace as hr
from headrace.io.write.pending import LOCK
from headrace.writing import units
from headrace.writing.distributed import folder as distributed_folder
from headrace.writing.distributed.folder import ROUNDS, WHOLE_BYTES, bundles_of, tasks_of
from headrace.writing.distributed.unit_writer import UnitWriter
from headrace.writing.target import Target
from headrace.writing.units import WorkFolder

FORMATS = ["tfrecord", "array_record", "npy", "csv", "parquet"]
KILLED = """
import os, pickle, signal, sys
from headrace.io.write import atomic
from headrace.writing.distributed import unit_writer

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def put_half(appender, view):
    put(appender, view[: len(view) // 2])
    die()

put = atomic.Appender._put
if sys.argv[1] == "half of its bytes are written":
    atomic.Appender._put = put_half
elif sys.argv[1] == "it has no name":
    atomic.AtomicFile.give_name = die
else:
    unit_writer._hand_over = die
pickle.load(sys.stdin.buffer)()
"""


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 64)


@pytest.fixture
def original(tmp_path):
    hr.write(tmp_path / "a.tfrecord@3", columns())
    return tmp_path / "a.tfrecord@3"


class KillsFirst(Pickling):
    """An engine of one core. The first task that writes is killed at a moment, and done again, as Ray does."""

    def __init__(self, moment):
        super().__init__(cores=1)
        self.moment = moment
        self.left = None

    def submit(self, work):
        super().submit(work)
        if self.left is None and work.function is distributed_folder._write_there:
            command = [sys.executable, "-c", KILLED, self.moment]
            ended = subprocess.run(command, input=self.waiting[-1], check=False, capture_output=True)
            assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
            self.left = [path.name for path in Path(work.common.work.path).iterdir() if path.name != LOCK]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows kills otherwise")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("moment", ["half of its bytes are written", "it has no name", "it has not its own name"])
def test_a_writer_is_killed(tmp_path, original, small_units, format, moment):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    target, picked = f"b.{format}@3", ["image"] if format == "npy" else None
    hr.convert(original, tmp_path / "here" / target, columns=picked)
    engine = KillsFirst(moment)
    hr.convert(original, tmp_path / "there" / target, columns=picked, on=engine)
    assert [name for name in engine.left if name != "plan.json"], "the killed writer has left something"
    assert not [name for name in engine.left if not name.startswith((".", "plan"))], "under no name that counts"
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert not [name for name in os.listdir(tmp_path / "there") if name.startswith(".")]


class Zombie(Pickling):
    """An engine of one core. The first task that writes is begun by a thread that stops in the midst, and done again by others."""

    def __init__(self, monkeypatch):
        super().__init__(cores=1)
        self.thread, self.is_within, self.goes_on = None, threading.Event(), threading.Event()
        self.error = None
        report = UnitWriter.report

        def stop_within(writer, examples):
            if threading.current_thread() is self.thread and not self.goes_on.is_set():
                self.is_within.set()
                self.goes_on.wait()
            report(writer, examples)

        monkeypatch.setattr(UnitWriter, "report", stop_within)

    def submit(self, work):
        super().submit(work)
        if self.thread is None and work.function is distributed_folder._write_there:
            self.thread = threading.Thread(target=self._run, args=(self.waiting[-1],))
            self.thread.start()
            self.is_within.wait()

    def _run(self, work):
        try:
            pickle.loads(work)()
        except Exception as error:
            self.error = error
            self.is_within.set()

    def end(self):
        self.goes_on.set()
        self.thread.join()


@pytest.mark.parametrize("format", FORMATS)
def test_a_writer_that_was_believed_dead_goes_on(tmp_path, original, small_units, monkeypatch, format):
    """It has written a part of a file when another one has finished it, and writes on when it has its name and was changed since."""
    (tmp_path / "there").mkdir()
    picked = ["image"] if format == "npy" else None
    hr.convert(original, tmp_path / f"b.{format}@3", columns=picked)
    engine = Zombie(monkeypatch)
    hr.convert(original, tmp_path / "there" / f"b.{format}@3", columns=picked, on=engine)
    expected = {name: data for name, data in content(tmp_path).items() if name.startswith("b.")}
    assert content(tmp_path / "there") == expected
    for path in (tmp_path / "there").iterdir():
        path.write_bytes(b"the user's own")  # into the same file: its inode stays
    engine.end()
    assert isinstance(engine.error, (hr.UnsupportedData, OSError)), "it cannot give anything a name"
    assert set(content(tmp_path / "there").values()) == {b"the user's own"}
    assert not [name for name in os.listdir(tmp_path / "there") if name.startswith(".")]


def test_files_in_full_rounds_are_written_once(tmp_path, original, small_units, monkeypatch):
    """Three files on two cores: a task each makes two whole, without a unit, and the third is joined from units."""
    written, joined = [], []
    write, join = UnitWriter.write, units._join
    monkeypatch.setattr(UnitWriter, "write", lambda writer, unit: (written.append(unit), write(writer, unit))[1])
    monkeypatch.setattr(units, "_join", lambda file, threads: (joined.append(file.number), join(file, threads))[1])
    hr.convert(original, tmp_path / "b.array_record@3", on=Pickling(cores=2))
    assert {unit.target[-len("00000-of-00003") :] for unit in written if unit.joined} == {
        "00000-of-00003",
        "00001-of-00003",
    }
    assert {unit.target[-len("00000-of-00003") :] for unit in written if not unit.joined} == {"00002-of-00003"}
    assert joined == [2]


def test_a_large_file_is_written_in_units(tmp_path, original, small_units, monkeypatch):
    monkeypatch.setattr(distributed_folder, "WHOLE_BYTES", 1000)
    written = []
    write = UnitWriter.write
    monkeypatch.setattr(UnitWriter, "write", lambda writer, unit: (written.append(unit), write(writer, unit))[1])
    hr.convert(original, tmp_path / "b.array_record@2", on=Pickling(cores=2))
    assert len(written) >= 14
    assert not any(unit.joined for unit in written)


def test_what_is_there_of_a_file_is_kept(tmp_path, original, small_units):
    """Units of a run with many cores are joined by a run with one, which would have written the file whole."""

    class Stops(Pickling):
        def finished(self):
            for count, value in enumerate(super().finished()):
                if count == 8:
                    raise ConnectionError("the cluster is gone")
                yield value

    with pytest.raises(ConnectionError):
        hr.convert(original, tmp_path / "b.npy@2", columns=["image"], on=Stops(cores=8))
    again = hr.convert(original, tmp_path / "b.npy@2", columns=["image"], on=Pickling(cores=1))
    assert again.resumed > 0
    hr.convert(original, tmp_path / "c.npy@2", columns=["image"])
    for number in range(2):
        name = f".npy-{number:05d}-of-00002"
        assert (tmp_path / f"b{name}").read_bytes() == (tmp_path / f"c{name}").read_bytes()


@given(st.data())
def test_tasks_hold_every_unit_once(data):
    count, shards, step = (data.draw(st.integers(*bounds)) for bounds in ((0, 300), (1, 9), (1, 60)))
    each_bytes, cores = data.draw(st.sampled_from([0, 1, 1 << 20, 8 << 20])), data.draw(st.integers(1, 9))
    target = Target.of(f"b.{data.draw(st.sampled_from(FORMATS))}@{shards}")
    work = WorkFolder(Path("w"), target, count, step=step, plan="", fresh=True)
    files = work.files()
    everything = [unit for file in files for unit in file.units]
    missing = [unit for unit in everything if data.draw(st.integers(0, 3))]
    source = hr.open({"image": np.zeros((1, 2), np.float32)})
    writer = UnitWriter(source, target, None, raw=False, advance=lambda _: None)
    tasks = tasks_of(files, missing, writer, each_bytes, cores)
    lacking = Counter(unit.target for unit in missing)
    found = []
    for task in tasks:
        file = next(file for file in files if file.path == task.units[0].target)
        assert task.number in (None, file.number)
        if task.units[0].path == Path(file.whole):
            assert task.number == file.number
            assert lacking[file.path] == len(file.units)
            assert (task.units[0].start, task.units[0].stop) == (file.units[0].start, file.units[-1].stop)
            found += file.units
        else:
            found += task.units
    assert sorted(found, key=everything.index) == missing
    tasks_of_file = Counter(task.units[0].target for task in tasks)
    for task in tasks:
        assert (task.number is not None) == (tasks_of_file[task.units[0].target] == 1)

    bundles = bundles_of(tasks, files, each_bytes, cores)
    assert sorted((task for bundle in bundles for task in bundle), key=tasks.index) == tasks
    whole = [bundle for bundle in bundles if bundle[0].number is not None]
    assert all(len(bundle) == 1 for bundle in bundles if bundle not in whole)
    lengths = [len(bundle) for bundle in whole]
    assert len(whole) >= min(ROUNDS * cores, sum(lengths))
    assert lengths == sorted(lengths, reverse=True)
    assert max(lengths, default=0) - min(lengths, default=0) <= 1
    for bundle in whole:
        rows = [
            file.units[-1].stop - file.units[0].start for task in bundle for file in files if file.number == task.number
        ]
        assert len(rows) == len(bundle)
        assert len(rows) == 1 or sum(rows) * each_bytes <= WHOLE_BYTES


@pytest.mark.parametrize("codec", ["example", "sagemaker_record", "raw"])
@pytest.mark.parametrize("target", ["b.tfrecord@2", "b.array_record@2", "b.recordio@2", "b.csv@2"])
def test_bytes_with_a_codec(tmp_path, small_units, target, codec):
    """``raw`` writes what the bytes of a single feature are; CSV with it has no writer that makes joined bytes of columns."""
    rows = [f"row {number}".encode() for number in range(500)]
    hr.write(tmp_path / "a.tfrecord", {"record": rows} if codec == "raw" else columns(500))
    source = hr.open(tmp_path / "a.tfrecord")
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    try:
        hr.convert(source, tmp_path / "here" / target, codec=codec)
    except hr.UnsupportedData as error:
        with pytest.raises(hr.UnsupportedData) as raised:
            hr.convert(source, tmp_path / "there" / target, codec=codec, on=Pickling(cores=1))
        assert (raised.value.expected, raised.value.found) == (error.expected, error.found)
    else:
        hr.convert(source, tmp_path / "there" / target, codec=codec, on=Pickling(cores=1))
    assert content(tmp_path / "there") == content(tmp_path / "here")
