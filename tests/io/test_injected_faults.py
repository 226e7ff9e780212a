"""Each call that reads or writes a file fails once: no wrong value, no partial result, and an error that names the file."""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from tests.codecs.images.files import made as png_bytes
from tests.io.injected_faults import ERRORS, Faults
from tests.io.store_server import environment, serving_store
from tests.sweeps import some_of
from tests.viewer.conftest import client_of
from tests.writing.distributed.test_store import OneCore
from tests.writing.test_engines import Pickling

import headrace as hr
from headrace.contracts.schema import Schema
from headrace.datasets.building import DatasetBuilder
from headrace.datasets.building.order import Ordering
from headrace.errors import HeadraceError, UnsupportedData
from headrace.formats.registry import format_named
from headrace.io.cache.folder import CacheEntry
from headrace.io.cache.inflated import InflatedStream
from headrace.io.write import pending
from headrace.io.write.staging import open_staging
from headrace.viewer.dataset import open_datasets
from headrace.writing import units

N = 50
COLUMNS = {"x": np.arange(N), "y": np.arange(N, dtype=np.float32) / 8}
FEW = {name: column[:20] for name, column in COLUMNS.items()}
OLD = {"x": np.arange(7), "y": np.zeros(7, np.float32)}
NAMES = [
    "x.tfrecord",
    "x.tfrecord.gz",
    "x.rec",
    "x.array_record",
    "x.npy",
    "x.npz",
    "x.csv",
    "x.csv.gz",
    "x.jsonl",
    "x.avro",
    "x.parquet",
    "x.tar",
]


def options_of(name):
    return {"codec": "example"} if name.endswith(".rec") else {}


def values(source):
    batch = source.batch(np.arange(len(source)))
    return {name: np.asarray(column).tolist() for name, column in batch.items() if name in COLUMNS}


def read_all(path):
    """Read by index, in order and by a loader, which must agree."""
    source = hr.open(path)
    found = values(source)
    passed = [example["x"] for example in hr.open(path)]
    assert [int(value) for value in passed] == found["x"]
    return found


def wanted(columns):
    return {name: column.tolist() for name, column in columns.items()}


def names_a_file(error, *folders):
    """Whether an error names its file."""
    if isinstance(error, HeadraceError):
        where = getattr(error, "where", None)
        return any(str(folder) in str(error) for folder in folders) or bool(where is not None and where.path)
    return isinstance(error, OSError) and any(str(folder) in str(error) for folder in folders)


def every_fault(faults, run, reset):
    """Run once for each call of a clean run, or some of many. If there are many calls of a kind, the kinds of failure alternate."""
    reset()
    with faults.counting():
        run()
    counts = dict(faults.counts)
    assert counts
    cases = []
    for kind, count in counts.items():
        ways = [*ERRORS[kind], *(["short"] if kind in ("read", "pread", "write") else [])]
        for number in range(count):
            cases += [(kind, number, way) for way in (ways if count < len(ways) else [ways[number % len(ways)]])]
    for kind, number, way in some_of(cases):
        reset()
        with faults.failing(kind, number, way):
            yield kind, number, way


def pairs_of_faults(faults, run, reset, count=40):
    """Pairs of calls of a clean run, and a context in which both fail, and the first removal of a file, too."""
    reset()
    with faults.counting():
        run()
    calls = [(kind, number) for kind, found in faults.counts.items() for number in range(found)]
    rng = np.random.default_rng(0)
    for _ in range(count):
        first, second = (calls[at] for at in rng.choice(len(calls), 2, replace=False))
        reset()
        fail = {first: ERRORS[first[0]][0], second: ERRORS[second[0]][-1], ("unlink", 0): 13, ("rmdir", 0): 13}
        yield first, second, faults.failing_at(fail)


@pytest.fixture(autouse=True)
def _calm(monkeypatch):
    monkeypatch.setattr(pending, "_temporaries", pending._temporaries.__wrapped__)
    monkeypatch.setattr("headrace.writing.convert.wait_for_tick", list)  # what is converted here does not change


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(folder))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "spare"))
    return folder


@pytest.mark.parametrize(
    ("mapped", "name"),
    [*(("mapped", name) for name in NAMES), *(("read", name) for name in ("x.tfrecord", "x.npy", "x.csv.gz"))],
)
def test_reading(tmp_path, cache, monkeypatch, name, mapped):
    if mapped == "read":
        monkeypatch.setattr("headrace.io.local.fileset.FileSet.worth_mapping", lambda self, total: False)
    data = tmp_path / "data"
    data.mkdir()
    path = data / name
    hr.write(path, COLUMNS, **options_of(name))
    faults = Faults(data, cache)
    reported = []

    def reset():
        shutil.rmtree(cache, ignore_errors=True)

    for fault in every_fault(faults, lambda: read_all(path), reset):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = read_all(path)
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, data, cache), (fault, repr(error))
            reported.append(error)
        else:
            assert found == wanted(COLUMNS), fault
        finally:
            fired = list(faults.fired)
        faults._watching = False
        assert read_all(path) == wanted(COLUMNS), ("what was kept in the cache", fault, fired)
    assert reported, "some faults cannot be overlooked"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("before", [None, OLD])
def test_writing(tmp_path, cache, name, before):
    data = tmp_path / "data"
    path = data / name
    faults = Faults(data, cache)

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(cache, ignore_errors=True)
        data.mkdir()
        if before is not None:
            hr.write(path, before, **options_of(name))

    def write():
        hr.write(path, COLUMNS, **options_of(name))

    reported = []
    for fault in every_fault(faults, write, reset):
        try:
            write()
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, data), (fault, repr(error))
            reported.append(error)
            done = None
        else:
            done = COLUMNS
        faults._watching = False
        left = sorted(os.listdir(data))
        if fault[0] != "unlink":
            assert left in ([name], [] if before is None else [name]), (fault, left)
        if name in left:
            found = read_all(path)
            assert found in ([wanted(COLUMNS)] if done is not None else [wanted(before or COLUMNS), wanted(COLUMNS)]), (
                fault
            )
        else:
            assert done is None
            assert before is None
    assert reported


@pytest.mark.parametrize("name", ["x.csv.gz", "x.npz", "x.parquet"])
def test_two_faults_while_one_file_is_written(tmp_path, cache, name):
    """The cleanup after the first fault meets the second."""
    data = tmp_path / "data"
    data.mkdir()
    path = data / name

    def reset():
        hr.write(path, OLD)

    for first, second, fails in pairs_of_faults(Faults(data, cache), lambda: hr.write(path, COLUMNS), reset, 60):
        with fails:
            try:
                hr.write(path, COLUMNS)
            except (HeadraceError, OSError) as error:
                assert names_a_file(error, data), (first, second, repr(error))
        assert read_all(path) in (wanted(OLD), wanted(COLUMNS)), (first, second)


@pytest.mark.parametrize("name", ["x.tfrecord.gz", "x.csv.gz", "x.npz", "x.rec"])
def test_two_faults_while_one_file_is_read(tmp_path, cache, name):
    """The cleanup after the first fault meets the second, also of what the cache holds."""
    data = tmp_path / "data"
    data.mkdir()
    path = data / name
    hr.write(path, COLUMNS, **options_of(name))
    faults = Faults(data, cache)
    with faults.counting():
        read_all(path)
    calls = [(kind, number) for kind, count in faults.counts.items() for number in range(count)]
    rng = np.random.default_rng(0)
    for _ in range(60):
        first, second = (calls[at] for at in rng.choice(len(calls), 2, replace=False))
        shutil.rmtree(cache, ignore_errors=True)
        with faults.failing_at({first: ERRORS[first[0]][0], second: ERRORS[second[0]][-1], ("unlink", 0): 13}):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = read_all(path)
            except (HeadraceError, OSError) as error:
                assert names_a_file(error, data, cache), (first, second, repr(error))
            else:
                assert found == wanted(COLUMNS), (first, second)
        assert read_all(path) == wanted(COLUMNS), (first, second)


@pytest.fixture
def signals():
    """Signals all the time; each interrupts the system call that the main thread waits in."""
    count = [0]

    def note(*_):
        count[0] += 1

    before = signal.signal(signal.SIGALRM, note)
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    yield count
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals that come by themselves")
@pytest.mark.parametrize("name", NAMES)
def test_signals_change_nothing(tmp_path, cache, signals, name):
    before = signals[0]
    while signals[0] < before + 3:
        hr.write(tmp_path / name, COLUMNS, **options_of(name))
        assert read_all(tmp_path / name) == wanted(COLUMNS)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_signals_interrupt_no_reading_of_a_pipe(tmp_path, signals):
    hr.write(tmp_path / "x.tfrecord", COLUMNS)
    content = (tmp_path / "x.tfrecord").read_bytes()
    os.mkfifo(tmp_path / "pipe.tfrecord")

    def write():
        with open(tmp_path / "pipe.tfrecord", "wb", buffering=0) as pipe:
            for start in range(0, len(content), 700):
                seen = signals[0]
                while signals[0] < seen + 2:  # the reader waits, and is interrupted
                    os.sched_yield()
                pipe.write(content[start : start + 700])

    writer = threading.Thread(target=write)
    writer.start()
    found = [bytes(payload) for payload in hr.records(tmp_path / "pipe.tfrecord")]
    writer.join()
    assert found == [bytes(payload) for payload in hr.records(tmp_path / "x.tfrecord")]


def test_signals_interrupt_no_waiting_for_a_cache_entry(tmp_path, signals):
    entry = CacheEntry.claim(tmp_path / "x.inflated", wait=True)

    def make():
        seen = signals[0]
        while signals[0] < seen + 5:
            os.sched_yield()
        entry.write(b"content")
        assert entry.commit(1 << 20)

    maker = threading.Thread(target=make)
    maker.start()
    assert CacheEntry.claim(tmp_path / "x.inflated", wait=True) is None
    maker.join()
    assert (tmp_path / "x.inflated").read_bytes() == b"content"


ROWS = [{"x": number, "y": np.float32(number / 8)} for number in range(N)]
STORED = {
    "cache": lambda data: hr.open(data / "x.tfrecord").cache(data / "kept", key="k"),
    "generator": lambda data: hr.from_generator(lambda: iter(ROWS)),
    "generator with a key": lambda data: hr.from_generator(lambda: iter(ROWS), key="k"),
}


@pytest.mark.parametrize("kind", STORED)
def test_storing_examples(tmp_path, cache, kind):
    """What is stored once is whole or absent, and the next call makes it again."""
    data = tmp_path / "data"

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(cache, ignore_errors=True)
        data.mkdir()
        hr.write(data / "x.tfrecord", COLUMNS)

    def run():
        return values(STORED[kind](data))

    reported = []
    for fault in every_fault(Faults(data, cache), run, reset):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = run()
            except (HeadraceError, OSError) as error:
                assert names_a_file(error, data, cache), (fault, repr(error))
                reported.append(error)
            else:
                assert found == wanted(COLUMNS), fault
            assert run() == wanted(COLUMNS), fault
        if fault[0] not in ("unlink", "rmdir", "scandir", "open", "stat", "listdir"):  # which removing takes, too
            folders = [data / "kept", cache / "generated"]
            left = [
                name for folder in folders if folder.is_dir() for name in os.listdir(folder) if "headrace-tmp" in name
            ]
            assert left == [], fault
    assert reported


@pytest.mark.parametrize("name", ["x.tfrecord", "x.tfrecord.gz", "x.csv", "x.parquet"])
def test_statistics(tmp_path, cache, name):
    data = tmp_path / "data"
    data.mkdir()
    hr.write(data / name, COLUMNS)
    expected = hr.stats(data / name).to_json()
    reported = []
    for fault in every_fault(
        Faults(data, cache), lambda: hr.stats(data / name), lambda: shutil.rmtree(cache, ignore_errors=True)
    ):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = hr.stats(data / name).to_json()
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, data, cache), (fault, repr(error))
            reported.append(error)
        else:
            assert found == expected, fault
    assert reported


@pytest.mark.parametrize("before", [None, OLD])
def test_staged_files_get_their_names(tmp_path, cache, before):
    """Files of several processes are complete under their names, those that were there before too."""
    data = tmp_path / "data"
    names = {"0-a": "x-00000-of-00002.tfrecord", "1-b": "x-00001-of-00002.tfrecord"}

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        for name in names.values() if before is not None else ():
            hr.write(data / name, before)

    def run():
        found = open_staging(str(data / "x"))
        try:
            for name in names:
                hr.write(found.path(name), COLUMNS, format="tfrecord")
                found.add(name)
            found.commit({name: str(data / path) for name, path in names.items()})
        except BaseException:
            found.discard()
            raise

    reported = []
    for fault in every_fault(Faults(data, cache), run, reset):
        try:
            run()
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, data), (fault, repr(error))
            reported.append(error)
            expected = [wanted(COLUMNS), *([wanted(before)] if before is not None else [])]
        else:
            expected = [wanted(COLUMNS)]
        left = sorted(os.listdir(data))
        if fault[0] not in ("unlink", "rmdir", "scandir", "open", "stat", "listdir"):
            assert set(left) <= set(names.values()), (fault, left)
        there = [read_all(data / name) for name in names.values() if (data / name).exists()]
        assert len(there) in ((0, 2) if before is None else (2,)), fault
        assert all(found in expected for found in there), fault
    assert reported


@pytest.mark.parametrize(
    "address", ["/0/", "/0/?row=7", "/0/?where=x+%3D+7", "/0/order", "/0/bytes?row=7", "/0/image?feature=x&row=7"]
)
def test_pages_of_the_viewer(tmp_path, cache, address):
    """A page shows the values or says what is wrong; the next one shows them again."""
    data = tmp_path / "data"
    data.mkdir()
    path = data / "x.tfrecord"
    hr.write(path, COLUMNS)
    address += ("&" if "?" in address else "?") + "format=json"

    def page():
        client = client_of(*open_datasets(str(path)))
        answer = client.get(address)
        return answer.status_code, answer.text

    expected = page()
    reported = []
    for fault in every_fault(Faults(data, cache), page, lambda: shutil.rmtree(cache, ignore_errors=True)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = page()
        except (HeadraceError, OSError) as error:  # The viewer does not begin.
            assert names_a_file(error, data, cache), (fault, repr(error))
            reported.append(error)
            continue
        if found != expected:
            assert found[0] != 500, (fault, found)
            assert str(data) in found[1] or str(cache) in found[1], (fault, found)
            reported.append(found)
    assert reported


@pytest.mark.parametrize(
    ("name", "target", "engine"),
    [
        ("x.csv.gz", "y.npy", lambda: "threads"),
        *(("x.tfrecord", f"y.{ending}", lambda: "threads") for ending in ("jsonl", "npz", "parquet", "avro", "tar")),
        ("x.tfrecord", "y.array_record", Pickling),
    ],
)
def test_converting(tmp_path, cache, monkeypatch, name, target, engine):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 7)  # three units
    data = tmp_path / "data"
    source, path = data / name, data / target
    faults = Faults(data, cache)

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(cache, ignore_errors=True)
        data.mkdir()
        hr.write(source, FEW)

    def run():
        hr.convert(source, path, threads=1, on=engine())

    for fault in every_fault(faults, run, reset):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run()
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, data, cache), (fault, repr(error))
        faults._watching = False
        assert read_all(source) == wanted(FEW), fault
        if path.exists():
            assert read_all(path) == wanted(FEW), fault
        hr.convert(source, path, threads=1, overwrite=True)
        assert read_all(path) == wanted(FEW), fault
        assert sorted(os.listdir(data)) == sorted([name, target]) or fault[0] in ("unlink", "rmdir"), fault


@pytest.mark.parametrize("engine", [lambda: "threads", OneCore])
def test_converting_into_a_store(tmp_path, cache, monkeypatch, engine):
    """An object is complete or absent, whatever fails where its file is made."""
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 7)  # three units
    data = tmp_path / "data"
    data.mkdir()
    hr.write(data / "x.tfrecord", FEW)
    path = "s3://bucket/y.tfrecord@2"
    with serving_store() as store:
        for key, value in environment("s3", store.url).items():
            monkeypatch.setenv(key, value)

        def reset():
            store.objects.clear()
            shutil.rmtree(cache, ignore_errors=True)

        def run():
            hr.convert(data / "x.tfrecord", path, threads=1, on=engine(), overwrite=True)

        reported = []
        for fault in every_fault(Faults(data, cache), run, reset):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    run()
                except (HeadraceError, OSError) as error:
                    assert names_a_file(error, data, cache, "s3://bucket"), (fault, repr(error))
                    reported.append(error)
                    run()
            assert read_all(path) == wanted(FEW), fault
            left = [key for key in store.objects if key.startswith(".")]
            assert left == [], (fault, left)
        assert reported


@pytest.mark.parametrize("fault", [("fstat", 1), ("ftruncate", 0)])
def test_a_cache_entry_that_cannot_be_begun_is_locked_no_longer(tmp_path, fault):
    path = tmp_path / "x.inflated"
    (tmp_path / "x.inflated.part").write_bytes(b"left")
    faults = Faults(tmp_path)
    with faults.failing(*fault, 5), pytest.raises(OSError, match=r"x\.inflated"):
        CacheEntry.claim(path, wait=True)
    assert faults.fired
    entry = CacheEntry.claim(path, wait=False)
    assert entry is not None
    del entry
    again = CacheEntry.claim(path, wait=False)
    assert again is not None, "one that is forgotten is given up"
    again.abort()


def test_a_thread_that_cannot_open_the_copy_gives_the_entry_up(tmp_path, cache):
    """Descriptors run out while the next file is inflated ahead."""
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(os.urandom(1000)))
    stream = InflatedStream(str(path), "gzip")

    def fail(copy):
        raise OSError(24, "Too many open files", copy)

    with pytest.raises(OSError, match="Too many open files"):
        list(stream.parts(fail))
    assert len(b"".join(InflatedStream(str(path), "gzip", wait=True))) == 1000


LABEL = hr.Feature("int64", names=("cat", "dog"))
IMAGES = [png_bytes(np.full((4, 5, 3), shade, np.uint8)) for shade in range(6)]
FOLDERS = {
    "image_folder": (
        {"image": IMAGES, "label": np.arange(6) % 2},
        Schema({"image": hr.Feature("bytes", encoding="png"), "label": LABEL}),
    ),
    "npy_folder": (
        {"x": np.arange(12).reshape(6, 2), "y": np.arange(6)},
        Schema({"x": hr.Feature("int64", (2,)), "y": hr.Feature("int64")}),
    ),
    "npz_folder": (
        {"x": np.arange(12).reshape(6, 2), "y": np.arange(6)},
        Schema({"x": hr.Feature("int64", (2,)), "y": hr.Feature("int64")}),
    ),
}


def write_folder(path, format):
    columns, schema = FOLDERS[format]
    hr.write(path, columns, format=format, schema=schema)


def read_folder(path):
    source = hr.open(path)
    batch = source.batch(np.arange(len(source)))
    assert [np.asarray(one[name]).tolist() for one in source for name in sorted(batch)] == [
        np.asarray(batch[name][row]).tolist() for row in range(len(source)) for name in sorted(batch)
    ]
    return {name: np.asarray(column).tolist() for name, column in batch.items()}


@pytest.mark.parametrize("format", FOLDERS)
def test_reading_folders(tmp_path, cache, format):
    path = tmp_path / "data" / "folder"
    path.parent.mkdir()
    write_folder(path, format)
    wanted = read_folder(path)
    reported = []
    faults = Faults(tmp_path / "data", cache)
    for fault in every_fault(faults, lambda: read_folder(path), lambda: shutil.rmtree(cache, ignore_errors=True)):
        try:
            found = read_folder(path)
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, path, cache), (fault, repr(error))
            reported.append(error)
        else:
            assert found == wanted, fault
        faults._watching = False
        assert read_folder(path) == wanted, fault
    assert reported


@pytest.mark.parametrize("format", FOLDERS)
@pytest.mark.parametrize("is_there", [False, True])
def test_writing_folders(tmp_path, cache, format, is_there):
    """The folder appears completely or not at all, and an existing empty one stays."""
    data = tmp_path / "data"
    path = data / "folder"
    write_folder(tmp_path / "wanted", format)
    wanted = read_folder(tmp_path / "wanted")

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        if is_there:
            path.mkdir()

    reported = []
    faults = Faults(data, cache)
    for fault in every_fault(faults, lambda: write_folder(path, format), reset):
        try:
            write_folder(path, format)
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, data), (fault, repr(error))
            reported.append(error)
            done = False
        else:
            done = True
        faults._watching = False
        assert [each.name for each in data.iterdir()] == ["folder"] * path.exists(), fault
        if path.exists() and any(path.iterdir()):
            assert read_folder(path) == wanted, fault
        else:
            assert not done, fault
            assert path.exists() == is_there, fault
    assert reported


@pytest.mark.parametrize("format", FOLDERS)
def test_joining_folders(tmp_path, cache, format):
    """The parts of a conversion are joined, or are still there for the next call."""
    data = tmp_path / "data"
    parts, path = [data / "0", data / "1"], data / "whole"
    join = format_named(format).join

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        for part in parts:
            write_folder(part, format)

    reset()
    part = {name: values for name, values in read_folder(parts[0]).items() if name in FOLDERS[format][0]}
    faults = Faults(data, cache)
    reported = []
    for fault in every_fault(faults, lambda: join(list(map(str, parts)), str(path)), reset):
        try:
            join(list(map(str, parts)), str(path))
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, data), (fault, repr(error))
            reported.append(error)
        faults._watching = False
        there = {each.name for each in data.iterdir()}
        if "whole" not in there:
            assert there == {"0", "1"}, fault
        for found, times in ((path, 2), *(((each, 1) for each in parts) if "whole" not in there else ())):
            if found.exists():
                columns = read_folder(found)
                assert {name: sorted(columns[name]) for name in part} == {
                    name: sorted(values * times) for name, values in part.items()
                }, fault
    assert reported


@pytest.mark.parametrize("format", FOLDERS)
def test_two_faults_while_a_folder_is_written(tmp_path, cache, format):
    """What clears up after the first fault meets the second."""
    data = tmp_path / "data"
    path = data / "folder"
    write_folder(tmp_path / "wanted", format)
    wanted = read_folder(tmp_path / "wanted")

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()

    for first, second, fails in pairs_of_faults(Faults(data, cache), lambda: write_folder(path, format), reset):
        error = None
        with fails:
            try:
                write_folder(path, format)
            except (HeadraceError, OSError) as raised:
                error = raised
        assert error is None or names_a_file(error, data), (first, second, repr(error))
        if error is None or path.exists():  # complete: what follows its rename has failed
            assert read_folder(path) == wanted, (first, second)


@pytest.mark.parametrize("spills", [False, True])
def test_preparing_a_dataset(tmp_path, cache, monkeypatch, spills):
    if spills:
        monkeypatch.setitem(Ordering.__init__.__kwdefaults__, "memory_bytes", 0)
        monkeypatch.setattr("headrace.datasets.building.order.PILES", 2)  # fewer files to look for
        monkeypatch.setattr(Ordering, "_pile_of", lambda ordering, rank: rank[0] % 2)
    data = tmp_path / "data"
    rows = [{"x": number} for number in range(5)]

    def prepare():
        builder = DatasetBuilder(name="made", features={"x": "int64"}, splits={"train": rows})
        builder.download_and_prepare(data_dir=data, progress=False)

    def values():
        return sorted(int(row["x"]) for row in hr.data_source("made", "train", data_dir=data))

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()

    reported = []
    faults = Faults(data, cache)
    for fault in every_fault(faults, prepare, reset):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                prepare()
        except (HeadraceError, OSError) as error:
            assert names_a_file(error, data, cache), (fault, repr(error))
            reported.append(error)
        faults._watching = False
        left = [each.name for each in (data / "made").glob("*")]
        assert set(left) <= {"1.0.0", ".1.0.0.lock"} or fault[0] in ("unlink", "rmdir", "scandir"), (fault, left)
        prepare()
        assert values() == list(range(5)), fault
    assert reported


def test_two_faults_while_a_dataset_is_prepared(tmp_path, cache):
    data = tmp_path / "data"
    rows = [{"x": number} for number in range(5)]

    def prepare():
        builder = DatasetBuilder(name="made", features={"x": "int64"}, splits={"train": rows})
        builder.download_and_prepare(data_dir=data, progress=False)

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()

    for first, second, fails in pairs_of_faults(Faults(data, cache), prepare, reset):
        with fails, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                prepare()
            except (HeadraceError, OSError) as error:
                assert names_a_file(error, data, cache), (first, second, repr(error))
        prepare()
        found = sorted(int(row["x"]) for row in hr.data_source("made", "train", data_dir=data))
        assert found == list(range(5)), (first, second)


@pytest.fixture
def full(tmp_path):
    """An almost full disk."""
    place = tmp_path / "full"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(place)]
    if (
        sys.platform != "linux"
        or os.geteuid() != 0
        or subprocess.run(command, capture_output=True, check=False).returncode
    ):
        pytest.skip("a small disk can only be mounted by root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_below_the_cache_changes_no_value(tmp_path, full, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(full / "cache"))
    for name in ("x.tfrecord", "x.csv", "x.jsonl"):
        hr.write(tmp_path / name, {"x": np.arange(20_000)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                source = hr.open(tmp_path / name)
                assert source.batch([19_999, 7, 12_345])["x"].tolist() == [19_999, 7, 12_345], name
    hr.write(tmp_path / "x.csv.gz", {"x": np.arange(20_000)})
    with (
        warnings.catch_warnings(),
        pytest.raises(UnsupportedData, match="expected space for the inflated file in the cache"),
    ):
        warnings.simplefilter("ignore")
        hr.open(tmp_path / "x.csv.gz").batch([19_999])


def test_a_full_disk_below_a_file_or_a_folder_leaves_what_was_there(full):
    hr.write(full / "a.npy", {"x": np.arange(10)})
    large = {"x": np.arange(20_000)}
    for name in ("a.npy", "b.tfrecord", "b.tfrecord@2", "b.csv.gz", "b.parquet"):
        with pytest.raises(OSError, match="No space left on device") as raised:
            hr.write(full / name, large)
        assert names_a_file(raised.value, full), name
    with pytest.raises(OSError, match="No space left on device") as raised:
        hr.write(full / "folder", {"x": np.arange(4000).reshape(4, 1000)}, format="npy_folder")
    assert names_a_file(raised.value, full)
    assert [each.name for each in full.iterdir()] == ["a.npy"]
    assert hr.open(full / "a.npy").batch(np.arange(10))["values"].tolist() == list(range(10))


def test_a_full_disk_below_a_dataset_leaves_nothing_of_it(full):
    builder = DatasetBuilder(
        name="made", features={"x": "int64"}, splits={"train": [{"x": number} for number in range(2000)]}
    )
    with pytest.raises(OSError, match="No space left on device") as raised:
        builder.download_and_prepare(data_dir=full, progress=False)
    assert names_a_file(raised.value, full)
    assert [each.name for each in (full / "made").iterdir()] == [".1.0.0.lock"]


def test_a_full_disk_where_uploads_wait_leaves_no_object(full, monkeypatch):
    with serving_store() as store:
        for name, value in environment("s3", store.url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("HEADRACE_CACHE_DIR", str(full / "cache"))
        with pytest.raises(OSError, match="No space left on device") as raised:
            hr.write("s3://bucket/x.tfrecord", {"x": np.arange(20_000)})
        assert "s3://bucket/x.tfrecord" in str(raised.value)
        assert not store.objects
        assert not list((full / "cache" / "uploads").glob("*"))
