"""Conversions whose units are done elsewhere: by an engine of one's own, and on Ray. The files equal those of a local conversion."""

import contextlib
import os
import pickle
import random
import shutil
from contextvars import ContextVar
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clusters import running_cluster

import headrace as hr
from headrace._ray.cluster import RayNode
from headrace.writing import engines, units
from headrace.writing.distributed.folder import groups_of, refuse_memory
from headrace.writing.distributed.unit_writer import UnitWriter
from headrace.writing.engines import EngineTask, TaskEngine, Threads, open_engine
from headrace.writing.target import Target
from headrace.writing.units import Unit

N = 900
TARGETS = [
    "b.tfrecord",
    "b.tfrecord@3",
    "b.tfrecord.gz",
    "b.array_record@2",
    "b.parquet",
    "b.npy",
    "b.csv",
    "b.recordio",
    "b.npz",
    "b.jsonl",
    "b.parquet@3",
    "b.npy@3",
    "b.csv@3",
    "b.csv.gz@3",
    "b.jsonl@3",
    "b.recordio@3",
    "b.tfrecord.gz@3",
]


class Pickling:
    """An engine that does what one on other machines does: pickles the work, and does it in any order, some of it twice."""

    def __init__(self, seed=0, cores=2):
        self.random = random.Random(seed)
        self.cores = cores
        self.waiting = []
        self.done = 0

    def submit(self, work):
        self.waiting.append(pickle.dumps(work))

    def finished(self):
        waiting, self.waiting = self.waiting, []
        waiting += self.random.choices(waiting, k=len(waiting) // 3) if waiting else []
        told = set()
        self.random.shuffle(waiting)
        for work in waiting:
            value = pickle.loads(work)()
            self.done += 1
            if work not in told:
                told.add(work)
                yield value


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 64)


def columns(n=N):
    rng = np.random.default_rng(0)
    return {"image": rng.random((n, 9), dtype=np.float32), "label": rng.integers(0, 10, n)}


@pytest.fixture
def original(tmp_path):
    hr.write(tmp_path / "a.tfrecord@3", columns())
    return tmp_path / "a.tfrecord@3"


def content(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}


def chosen(target):
    return ["image"] if target.endswith(".npy") else None


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("cores", [1, 2, 8])
def test_bytes_are_those_of_a_local_conversion(tmp_path, original, small_units, target, cores):
    """With one core a task makes each file whole, with two cores each but the last of three, and with eight all are joined from units."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    here = hr.convert(original, tmp_path / "here" / target, columns=chosen(target))
    engine = Pickling(cores=cores)
    assert isinstance(engine, TaskEngine)
    there = hr.convert(original, tmp_path / "there" / target, columns=chosen(target), on=engine)
    assert (there.examples, there.bytes, there.resumed) == (here.examples, here.bytes, 0)
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert not [name for name in os.listdir(tmp_path / "there") if name.startswith(".")]
    assert engine.done > 5 or cores < 8


@pytest.mark.parametrize("target", TARGETS)
def test_units_of_large_examples_are_bounded_by_bytes(tmp_path, original, target, monkeypatch):
    """An engine of one's own, on other machines, cuts as this process does: row groups and gzip members end with a unit."""
    monkeypatch.setattr(units, "UNIT_BYTES", 4096)
    written = []
    monkeypatch.setattr(UnitWriter, "write", keep_units(written, UnitWriter.write))
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    hr.convert(original, tmp_path / "here" / target, columns=chosen(target))
    size = sum(path.stat().st_size for path in tmp_path.glob("a.tfrecord-*"))
    assert max(unit.stop - unit.start for unit in written) == 4096 // (size // N) < 100
    assert sum(unit.stop - unit.start for unit in written) == N
    hr.convert(original, tmp_path / "there" / target, columns=chosen(target), on=Pickling())
    assert content(tmp_path / "there") == content(tmp_path / "here")


def keep_units(kept, write):
    return lambda writer, unit: (kept.append(unit), write(writer, unit))[1]


def test_units_of_a_view_count_its_part_of_the_files(tmp_path, original, monkeypatch):
    monkeypatch.setattr(units, "UNIT_BYTES", 4096)
    written = []
    monkeypatch.setattr(UnitWriter, "write", keep_units(written, UnitWriter.write))
    hr.convert(hr.open(original), tmp_path / "b.array_record")
    longest = max(unit.stop - unit.start for unit in written)
    written.clear()
    hr.convert(hr.open(original)[:120], tmp_path / "c.array_record")
    assert max(unit.stop - unit.start for unit in written) == longest < 120


CSV_FILES = [
    ({"q": "a,b\n1,'x,y'\n", "r": "a,b\n2,'z'\n"}, hr.CSV(quote="'"), True),
    ({"q": "1|2\n3|4\n", "r": "x|6\n7|8\n"}, hr.CSV(delimiter="|", header=False), True),
    ({"q": "a,b\n1,\xe9\n", "r": "a,b\n2,\xfc\n"}, hr.CSV(encoding="latin-1"), True),
    ({"q": "a;b\n1;x\n2;y\n", "r": "1|2\n3|4\n"}, None, False),
    ({"q": "a,b\n1,2\n", "r": "a,b\n2,3,4\n5,6\n"}, None, False),
]


@pytest.mark.parametrize(("files", "format", "is_ok"), CSV_FILES)
def test_csv_is_checked_by_an_engine_in_the_dialect_of_all_files(tmp_path, files, format, is_ok):
    for name, text in files.items():
        (tmp_path / f"{name}.csv").write_text(text, encoding="latin-1")
    here = hr.verify(tmp_path, format=format)
    there = hr.verify(tmp_path, format=format, on=Pickling())
    assert there.to_json() == here.to_json()
    assert here.ok is is_ok


def test_one_example_may_be_larger_than_a_unit():
    target = Target.of("b.array_record")
    assert units.unit_examples(target, 10, 1 << 30) == 1
    assert units.unit_examples(target, 1 << 20, 1 << 20) == 128  # of 1 MB each
    assert units.unit_examples(target, 1 << 20, 1) == units.UNIT_EXAMPLES


def test_folders_of_files(tmp_path, small_units):
    hr.write(tmp_path / "a.tfrecord", columns(200))
    hr.convert(tmp_path / "a.tfrecord", tmp_path / "here", format="npz_folder")
    hr.convert(tmp_path / "a.tfrecord", tmp_path / "there", format="npz_folder", on=Pickling())
    there = {
        path.relative_to(tmp_path / "there"): path.read_bytes()
        for path in (tmp_path / "there").rglob("*")
        if path.is_file()
    }
    here = {
        path.relative_to(tmp_path / "here"): path.read_bytes()
        for path in (tmp_path / "here").rglob("*")
        if path.is_file()
    }
    assert len(here) >= 200
    assert there == here


def test_examples_in_memory_stay_here(tmp_path):
    with pytest.raises(hr.UnsupportedData, match="examples in memory"):
        hr.convert(hr.open(columns(10)), tmp_path / "b.tfrecord", on=Pickling())
    assert os.listdir(tmp_path) == []


def test_the_result_of_one_engine_is_resumed_by_another(tmp_path, original, small_units):
    class Stops(Pickling):
        def finished(self):
            for count, value in enumerate(super().finished()):
                if count == 6:
                    raise ConnectionError("the cluster is gone")
                yield value

    with pytest.raises(ConnectionError) as raised:
        hr.convert(original, tmp_path / "b.tfrecord@2", on=Stops(cores=8))
    assert "resumes it" in raised.value.__notes__[-1]
    assert not [name for name in os.listdir(tmp_path) if name.startswith("b.")]
    again = hr.convert(original, tmp_path / "b.tfrecord@2")
    assert 0 < again.resumed < N
    hr.convert(original, tmp_path / "c.tfrecord@2")
    for number in range(2):
        name = f".tfrecord-{number:05d}-of-00002"
        assert (tmp_path / f"b{name}").read_bytes() == (tmp_path / f"c{name}").read_bytes()


def test_damage_stops_the_run_and_leaves_nothing(tmp_path, original, small_units):
    damaged = sorted(tmp_path.glob("a.tfrecord-*"))[1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 255
    damaged.write_bytes(data)
    with pytest.raises((hr.CorruptRecord, hr.CorruptFile)) as raised:
        hr.convert(original, tmp_path / "b.tfrecord", on=Pickling())
    assert raised.value.where.path == str(damaged)
    assert raised.value.where.record is not None
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in tmp_path.glob("a.tfrecord-*"))


@pytest.mark.parametrize("cores", [2, 8])
@pytest.mark.parametrize("format", ["parquet", "array_record", "tfrecord"])
def test_work_that_comes_after_the_end_does_no_harm(tmp_path, original, small_units, format, cores):
    """A writer on a node that was declared dead goes on: when the files are there, and when another conversion has begun."""
    kept = []

    class Keeps(Pickling):
        def submit(self, work):
            super().submit(work)
            kept.append(self.waiting[-1])

    hr.convert(original, tmp_path / f"b.{format}@2", on=Keeps(cores=cores))
    before = content(tmp_path)
    for work in kept[3:]:  # after those that make indexes
        with pytest.raises(hr.UnsupportedData, match="all machines must see"):
            pickle.loads(work)()
    assert content(tmp_path) == before

    class Interrupted(Pickling):
        def finished(self):
            yield from super().finished()
            raise ConnectionError

    (tmp_path / f"b.{format}-00000-of-00002").unlink()
    (tmp_path / f"b.{format}-00001-of-00002").unlink()
    with pytest.raises(ConnectionError):
        hr.convert(hr.open(original)[:500], tmp_path / f"b.{format}@2", on=Interrupted(cores=cores))
    for work in kept[3:]:
        with pytest.raises(hr.UnsupportedData):
            pickle.loads(work)()
    hr.convert(hr.open(original)[:500], tmp_path / f"b.{format}@2")
    assert len(hr.open(tmp_path / f"b.{format}@2")) == 500


def test_no_file_is_scanned_twice(tmp_path, original, small_units, monkeypatch):
    """A worker with an empty cache, such as another machine, gets the indexes with the work."""
    from headrace.formats.index import build

    scanned, build_one = [], build._Job._scan_file
    elsewhere = []
    monkeypatch.setattr(build._Job, "_scan_file", lambda job: (scanned.append(bool(elsewhere)), build_one(job))[1])

    class Elsewhere(Pickling):
        def finished(self):
            here = os.environ["HEADRACE_CACHE_DIR"]
            for work in self.waiting:
                with contextlib.ExitStack() as stack:
                    elsewhere.append(work)
                    stack.callback(elsewhere.clear)
                    folder = str(tmp_path / "cache-of-another")
                    stack.callback(shutil.rmtree, folder, ignore_errors=True)
                    stack.callback(monkeypatch.setenv, "HEADRACE_CACHE_DIR", here)
                    monkeypatch.setenv("HEADRACE_CACHE_DIR", folder)
                    value = pickle.loads(work)()
                yield value
            self.waiting = []

    hr.convert(original, tmp_path / "b.tfrecord@2", on=Elsewhere())
    assert scanned == [True] * 3


@pytest.mark.parametrize(("on", "error"), [("spark", ValueError), (object(), TypeError), (None, TypeError)])
def test_what_on_takes(tmp_path, original, on, error):
    with pytest.raises(error, match="on is 'threads', 'ray'"):
        hr.convert(original, tmp_path / "b.tfrecord", on=on)


def _square(common, part):
    return common + part * part


def test_threads():
    with open_engine("threads", 3) as engine:
        assert isinstance(engine, Threads)
        for _ in range(2):
            for part in range(20):
                engine.submit(EngineTask(_square, 1, part))
            assert sorted(engine.finished()) == [1 + part * part for part in range(20)]


@given(st.lists(st.integers(0, 60), unique=True), st.integers(0, 1 << 30), st.integers(1, 9))
def test_groups_hold_every_unit_once(numbers, unit_bytes, cores):
    missing = [
        Unit(Path(str(number)), f"f{number // 20}", number * 10, number * 10 + 10, number // 20 * 200)
        for number in sorted(numbers)
    ]
    groups = groups_of(missing, unit_bytes, cores)
    assert [unit for group in groups for unit in group] == missing
    for group in groups:
        assert len({unit.target for unit in group}) == 1
        assert len(group) == 1 or len(group) * unit_bytes <= units.UNIT_BYTES
    assert not missing or len(groups) >= min(len(missing), 2 * cores)


class SilentRay:
    """A cluster of which some looks find no task that has ended."""

    def __init__(self, cores, free):
        self.cores, self.free, self.looks = cores, free, 3
        self.ray = self

    def cpus(self):
        return max(1, self.cores)

    def nodes(self):
        return [RayNode("a", "a", float(self.cores))]

    def available_resources(self):
        return {"CPU": float(self.free)} if self.free else {}

    def wait(self, waiting, **_):
        self.looks -= 1
        return ([], waiting) if self.looks >= 0 else (waiting[:1], waiting[1:])

    def share(self, _):
        return None

    def submit(self, _function, part, **_):
        return part

    def result(self, part):
        return part


@pytest.mark.parametrize(
    ("cores", "free", "said"),
    [
        (0, 0, "headrace: no node of the Ray cluster has a core; waiting for one\n"),
        (
            4,
            0,
            "headrace: waiting for 2 tasks: all 4 cores of the Ray cluster are in use (`ray status` shows by what)\n",
        ),
        (4, 2, ""),
    ],
)
def test_a_long_silence_is_explained(monkeypatch, capsys, cores, free, said):
    monkeypatch.setattr(engines, "SILENCE_S", 0.0)
    engine = engines.RayTasks(SilentRay(cores, free), 2)
    for part in range(2):
        engine.submit(EngineTask(_square, 1, part))
    assert sorted(engine.finished()) == [0, 1]
    assert capsys.readouterr().err == 3 * said


# On Ray.


@pytest.mark.ray
@pytest.mark.parametrize("target", ["b.tfrecord@3", "b.array_record@2", "b.parquet", "b.npy"])
def test_on_ray(local_ray, tmp_path, original, small_units, target):
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    hr.convert(original, tmp_path / "here" / target, columns=chosen(target))
    there = hr.convert(original, tmp_path / "there" / target, columns=chosen(target), on="ray")
    assert there.resumed == 0
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert not [name for name in os.listdir(tmp_path / "there") if name.startswith(".")]


@pytest.mark.ray
def test_damage_on_ray_names_file_record_and_node(local_ray, tmp_path, original, small_units):
    damaged = sorted(tmp_path.glob("a.tfrecord-*"))[1]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 255
    damaged.write_bytes(data)
    with pytest.raises((hr.CorruptRecord, hr.CorruptFile)) as raised:
        hr.convert(original, tmp_path / "b.tfrecord", on="ray")
    assert raised.value.where.path == str(damaged)
    assert raised.value.where.record is not None
    assert "On the Ray node" in raised.value.__notes__[0]
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in tmp_path.glob("a.tfrecord-*"))


@pytest.mark.ray
def test_a_killed_node_changes_nothing(tmp_path, original, small_units):
    hr.convert(original, tmp_path / "here.array_record@2")
    with running_cluster(2) as nodes:
        killed = []

        class KillsAt:
            """Advances a bar, and kills a node when a third is done."""

            def __init__(self, *_, **__):
                self.done = 0

            def advance(self, amount):
                self.done += amount
                if self.done > N // 3 and not killed:
                    killed.append(True)
                    nodes.kill(0)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("headrace.writing.convert.Progress", KillsAt)
            hr.convert(original, tmp_path / "there.array_record@2", on="ray")
        assert killed
    for number in range(2):
        name = f".array_record-{number:05d}-of-00002"
        assert (tmp_path / f"there{name}").read_bytes() == (tmp_path / f"here{name}").read_bytes()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_a_cache_is_named_where_other_processes_need_files(tmp_path):
    cached = hr.ColumnSource({"x": np.arange(4)}).map(dict).cache(tmp_path / "cache", key="1")
    with pytest.raises(hr.UnsupportedData, match=r"found a cache of examples that a function made - at .*cache"):
        refuse_memory(cached)


MODE = ContextVar("MODE", default="train")


def test_functions_see_the_settings_of_the_caller_in_every_thread(tmp_path):
    seen = set()

    def see(example):
        seen.add((MODE.get(), np.geterr()["divide"]))
        return example

    source = hr.open({"x": np.arange(20_000, dtype=np.float32)}).map(see)
    token = MODE.set("eval")
    try:
        with np.errstate(divide="raise"):
            hr.convert(source, tmp_path / "x@4.tfrecord", threads=4)
    finally:
        MODE.reset(token)
    assert seen == {("eval", "raise")}
