"""Each call by which a file is read or written fails once: no wrong value, nothing half done, and an error that names the file."""

import gzip
import os
import shutil
import warnings

import numpy as np
import pytest
from tests.io.injected_faults import ERRORS, Faults

import penstock as ps
from penstock.errors import PenstockError
from penstock.io import temporaries
from penstock.io.cache import CacheEntry
from penstock.io.inflated import InflatedStream

N = 50
COLUMNS = {"x": np.arange(N), "y": np.arange(N, dtype=np.float32) / 8}
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
    """By index, in order, and by a loader: what each way has to say must be the same."""
    source = ps.open(path)
    found = values(source)
    passed = [example["x"] for example in ps.open(path)]
    assert [int(value) for value in passed] == found["x"]
    return found


def wanted(columns):
    return {name: column.tolist() for name, column in columns.items()}


def names_a_file(error, *folders):
    """Whether an error says which file it is about."""
    if isinstance(error, PenstockError):
        where = getattr(error, "where", None)
        return any(str(folder) in str(error) for folder in folders) or bool(where is not None and where.path)
    return isinstance(error, OSError) and any(str(folder) in str(error) for folder in folders)


def every_fault(faults, run, reset):
    """Run once for each call that a clean run makes and each way in which it may fail."""
    reset()
    with faults.counting():
        run()
    counts = dict(faults.counts)
    assert counts
    for kind, count in counts.items():
        ways = [*ERRORS[kind], *(["short"] if kind in ("read", "pread", "write") else [])]
        for number in range(count):
            for way in ways:
                reset()
                with faults.failing(kind, number, way):
                    yield kind, number, way


@pytest.fixture(autouse=True)
def _calm(monkeypatch):
    monkeypatch.setattr(temporaries, "_temporaries", temporaries._temporaries.__wrapped__)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(folder))
    monkeypatch.setattr("penstock.io.cache.tempfile.gettempdir", lambda: str(tmp_path / "spare"))
    return folder


@pytest.mark.parametrize(
    ("mapped", "name"),
    [*(("mapped", name) for name in NAMES), *(("read", name) for name in ("x.tfrecord", "x.npy", "x.csv.gz"))],
)
def test_reading(tmp_path, cache, monkeypatch, name, mapped):
    if mapped == "read":
        monkeypatch.setattr("penstock.io.mapping_limits.worth_mapping", lambda total: False)
    data = tmp_path / "data"
    data.mkdir()
    path = data / name
    ps.write(path, COLUMNS, **options_of(name))
    faults = Faults(data, cache)
    told = []

    def reset():
        shutil.rmtree(cache, ignore_errors=True)

    for fault in every_fault(faults, lambda: read_all(path), reset):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = read_all(path)
        except (PenstockError, OSError) as error:
            assert names_a_file(error, data, cache), (fault, repr(error))
            told.append(error)
        else:
            assert found == wanted(COLUMNS), fault
        finally:
            fired = list(faults.fired)
        faults._watching = False
        assert read_all(path) == wanted(COLUMNS), ("what was kept in the cache", fault, fired)
    assert told, "some faults cannot be overlooked"


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
            ps.write(path, before, **options_of(name))

    def write():
        ps.write(path, COLUMNS, **options_of(name))

    told = []
    for fault in every_fault(faults, write, reset):
        try:
            write()
        except (PenstockError, OSError) as error:
            assert names_a_file(error, data), (fault, repr(error))
            told.append(error)
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
    assert told


@pytest.mark.parametrize("name", ["x.csv.gz", "x.npz", "x.parquet"])
def test_two_faults_while_one_file_is_written(tmp_path, cache, name):
    """What clears up after the first fault meets the second."""
    data = tmp_path / "data"
    data.mkdir()
    path = data / name
    ps.write(path, OLD)
    faults = Faults(data, cache)
    with faults.counting():
        ps.write(path, COLUMNS)
    calls = [(kind, number) for kind, count in faults.counts.items() for number in range(count)]
    ps.write(path, OLD)
    rng = np.random.default_rng(0)
    for _ in range(60):
        first, second = (calls[at] for at in rng.choice(len(calls), 2, replace=False))
        with faults.failing_at({first: ERRORS[first[0]][0], second: ERRORS[second[0]][-1], ("unlink", 0): 13}):
            try:
                ps.write(path, COLUMNS)
            except (PenstockError, OSError) as error:
                assert names_a_file(error, data), (first, second, repr(error))
        assert read_all(path) in (wanted(OLD), wanted(COLUMNS)), (first, second)


@pytest.mark.parametrize(("name", "target"), [("x.csv.gz", "y.npy"), ("x.tfrecord", "y.jsonl")])
def test_converting(tmp_path, cache, name, target):
    data = tmp_path / "data"
    source, path = data / name, data / target
    faults = Faults(data, cache)

    def reset():
        shutil.rmtree(data, ignore_errors=True)
        shutil.rmtree(cache, ignore_errors=True)
        data.mkdir()
        ps.write(source, COLUMNS)

    def run():
        ps.convert(source, path, threads=1)

    for fault in every_fault(faults, run, reset):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run()
        except (PenstockError, OSError) as error:
            assert names_a_file(error, data, cache), (fault, repr(error))
        faults._watching = False
        assert read_all(source) == wanted(COLUMNS), fault
        if path.exists():
            assert read_all(path) == wanted(COLUMNS), fault
        ps.convert(source, path, threads=1, overwrite=True)
        assert read_all(path) == wanted(COLUMNS), fault
        assert sorted(os.listdir(data)) == sorted([name, target]) or fault[0] in ("unlink", "rmdir"), fault


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
    """The descriptors run out just when the next file is inflated ahead."""
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(os.urandom(1000)))
    stream = InflatedStream(str(path), "gzip")

    def fail(copy):
        raise OSError(24, "Too many open files", copy)

    with pytest.raises(OSError, match="Too many open files"):
        list(stream.parts(fail))
    assert len(b"".join(InflatedStream(str(path), "gzip", wait=True))) == 1000
