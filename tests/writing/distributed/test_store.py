"""Conversions into a store by other processes: complete or absent, resumed, and nothing left behind."""

import itertools
import pickle
import threading

import numpy as np
import pytest
from tests.io.store_server import KINDS, environment, serving_store
from tests.writing.test_engines import N, Pickling, columns

import headrace as hr
from headrace.io.local import fileset
from headrace.io.store import client, upload
from headrace.writing import units

SHARDS = 8


class OneCore(Pickling):
    """An engine of which the driver knows how many cores it has."""

    def __init__(self, seed=0):
        super().__init__(seed, cores=1)


@pytest.fixture(params=KINDS)
def store(request, monkeypatch):
    yield from serve(request.param, monkeypatch)


@pytest.fixture
def s3(monkeypatch):
    yield from serve("s3", monkeypatch)


def serve(kind, monkeypatch):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 64)
    with serving_store() as store:
        for name, value in environment(kind, store.url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(client, "RETRIES", 2)
        store.base = f"{kind}://bucket"
        yield store


@pytest.mark.parametrize("ending", ["tfrecord", "array_record", "parquet", "npy"])
def test_bytes_are_those_of_a_local_conversion(store, tmp_path, ending):
    chosen = ["image"] if ending == "npy" else None
    hr.write(tmp_path / "a.tfrecord@3", columns())
    hr.convert(tmp_path / "a.tfrecord@3", tmp_path / f"b.{ending}@{SHARDS}", columns=chosen)
    done = hr.convert(tmp_path / "a.tfrecord@3", f"{store.base}/out/b.{ending}@{SHARDS}", columns=chosen, on=OneCore())
    expected = {f"out/{path.name}": path.read_bytes() for path in tmp_path.glob("b.*")}
    assert len(expected) == SHARDS
    assert store.objects == expected
    assert (done.examples, done.bytes, done.resumed) == (N, sum(map(len, expected.values())), 0)


class Here:
    """An engine that does the work as it is, in this process."""

    cores = 1

    def __init__(self):
        self.waiting = []

    def submit(self, work):
        self.waiting.append(work)

    def finished(self):
        while self.waiting:
            yield self.waiting.pop(0)()


class Cuts(OneCore):
    """Stops after some results, as a driver that is killed then."""

    def __init__(self, after):
        super().__init__(after)
        self.after = after

    def finished(self):
        for count, value in enumerate(super().finished()):
            if count >= self.after:
                raise ConnectionError("the cluster is gone")
            yield value


def test_a_run_that_was_cut_off_is_resumed_and_readers_see_nothing_of_it(s3, tmp_path):
    hr.write(tmp_path / "a.tfrecord", columns())
    hr.convert(tmp_path / "a.tfrecord", tmp_path / f"b.tfrecord@{SHARDS}")
    target = f"{s3.base}/out/b.tfrecord@{SHARDS}"
    resumed = []
    for after in (1, 2):
        with pytest.raises(ConnectionError) as raised:
            hr.convert(tmp_path / "a.tfrecord", target, on=Cuts(after))
        assert "resumes it" in raised.value.__notes__[-1]
        resumed.append(len(s3.objects))
        for path in ("out", "out/*", target.removeprefix("s3://bucket/")):
            with pytest.raises(hr.NoFiles):
                hr.open(f"{s3.base}/{path}")
    done = hr.convert(tmp_path / "a.tfrecord", target, on=OneCore())
    assert 0 < done.resumed < N
    assert resumed[0] < resumed[1]
    assert s3.objects == {f"out/{path.name}": path.read_bytes() for path in tmp_path.glob("b.*")}


@pytest.mark.parametrize("at", ["copy", "joined", "remove"])
def test_the_driver_is_killed_while_files_get_their_names(s3, tmp_path, monkeypatch, at):
    from headrace.io.store import commit
    from headrace.writing.distributed import store as module

    hr.write(tmp_path / "a.tfrecord", columns())
    hr.convert(tmp_path / "a.tfrecord", tmp_path / f"b.tfrecord@{SHARDS}")
    target = f"{s3.base}/out/b.tfrecord@{SHARDS}"

    def cut(copies):
        copy_objects(dict(list(copies.items())[:3]))
        raise KeyboardInterrupt

    def cut_put(run, name, content):
        if name == "joined":
            raise KeyboardInterrupt
        put(run, name, content)

    def cut_removal(prefix, *, last):
        urls = module.list_below(prefix)
        module.remove_objects([url for url in urls if not url.endswith(last)][:4])
        raise KeyboardInterrupt

    copy_objects, put = commit.copy_objects, module.StoreRun._put
    with monkeypatch.context() as patch:
        if at == "copy":
            patch.setattr(commit, "copy_objects", cut)
        elif at == "joined":
            patch.setattr(module.StoreRun, "_put", cut_put)
        else:
            patch.setattr(module, "remove_copied", cut_removal)
        with pytest.raises(KeyboardInterrupt):
            hr.convert(tmp_path / "a.tfrecord", target, on=OneCore())
    expected = {f"out/{path.name}": path.read_bytes() for path in tmp_path.glob("b.*")}
    assert {name: content for name, content in s3.objects.items() if "/." not in name}.items() <= expected.items()
    done = hr.convert(tmp_path / "a.tfrecord", target, on=OneCore())
    assert done.resumed == N
    assert s3.objects == expected


def test_a_writer_that_was_believed_dead(s3, tmp_path):
    kept = []

    class Keeps(OneCore):
        def submit(self, work):
            super().submit(work)
            kept.append(self.waiting[-1])

    hr.write(tmp_path / "a.tfrecord", columns())
    target = f"{s3.base}/out/b.tfrecord@{SHARDS}"
    hr.convert(tmp_path / "a.tfrecord", target, on=Keeps())
    before = dict(s3.objects)
    assert pickle.loads(kept[0])() > 0
    seen = {name: content for name, content in s3.objects.items() if "/." not in name}
    assert seen == before
    assert hr.verify(target).ok
    assert len(hr.open(f"{s3.base}/out")) == N  # it is out of sight


def test_what_is_refused(s3, tmp_path):
    hr.write(tmp_path / "a.tfrecord", columns(50))
    with pytest.raises(hr.UnsupportedData, match=r"at least 2 new files, two for each core.*found 1.*x.tfrecord@2"):
        hr.convert(tmp_path / "a.tfrecord", f"{s3.base}/b.tfrecord", on=OneCore())
    with pytest.raises(hr.UnsupportedData, match="which is a folder"):
        hr.convert(tmp_path / "a.tfrecord", f"{s3.base}/b", format="npz_folder", on=OneCore())
    with pytest.raises(hr.UnsupportedData, match="in memory"):
        hr.convert(hr.open(columns(9)), f"{s3.base}/b.tfrecord@4", on=OneCore())
    assert s3.objects == {}
    hr.convert(tmp_path / "a.tfrecord", f"{s3.base}/b.tfrecord@2", on=OneCore())
    before = dict(s3.objects)
    with pytest.raises(hr.UnsupportedData, match="overwrite=True"):
        hr.convert(tmp_path / "a.tfrecord", f"{s3.base}/b.tfrecord@2", on=OneCore())
    assert s3.objects == before
    assert hr.convert(tmp_path / "a.tfrecord", f"{s3.base}/b.tfrecord@2", on=OneCore(), overwrite=True).resumed == 0
    assert s3.objects == before


def test_damage_leaves_nothing(s3, tmp_path):
    hr.write(tmp_path / "a.tfrecord", {"x": np.arange(500)})
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[-8] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    with pytest.raises(hr.CorruptRecord, match="record 499"):
        hr.convert(tmp_path / "a.tfrecord", f"{s3.base}/b.tfrecord@4", codec="example", on=OneCore())
    assert s3.objects == {}


def test_shards_that_the_store_does_not_copy_at_once(s3, tmp_path, monkeypatch):
    monkeypatch.setattr(upload, "MOST_COPIED", {"s3": 1000})

    def refuse(handler):
        if "x-amz-copy-source" in handler.headers:
            handler.refuse(400, "InvalidRequest")
            return True
        return False

    monkeypatch.setattr(s3, "fault", refuse)
    hr.write(tmp_path / "a.tfrecord", columns())
    hr.convert(tmp_path / "a.tfrecord", tmp_path / f"b.tfrecord@{SHARDS}")
    hr.convert(tmp_path / "a.tfrecord", f"{s3.base}/out/b.tfrecord@{SHARDS}", on=OneCore())
    assert s3.objects == {f"out/{path.name}": path.read_bytes() for path in tmp_path.glob("b.*")}


@pytest.mark.filterwarnings("ignore:All objects have their names")
def test_old_shards_are_never_mixed_with_new_ones(s3, tmp_path):
    """The driver is killed after each of its changes to the store. Readers see the old set, the new one, or an error; the same call goes on."""
    hr.write(tmp_path / "old.tfrecord", {**columns(), "label": np.arange(N)})
    hr.write(tmp_path / "new.tfrecord", {**columns(), "label": np.arange(N) + N})
    target = f"{s3.base}/out/b.tfrecord@3"
    hr.convert(tmp_path / "old.tfrecord", target, on=OneCore())
    old = dict(s3.objects)
    hr.convert(tmp_path / "new.tfrecord", target, on=OneCore(), overwrite=True)
    new = dict(s3.objects)
    seen, changes = set(), 0
    is_finished = False
    while not is_finished:
        s3.objects.clear()
        s3.objects |= old
        is_finished = is_converted(s3, tmp_path / "new.tfrecord", target, changes)
        seen |= {what_readers_see(f"{s3.base}/out", "b.tfrecord", 3)}
        is_converted(s3, tmp_path / "new.tfrecord", target, changes // 2)  # killed once more
        seen |= {what_readers_see(f"{s3.base}/out", "b.tfrecord", 3)}
        assert hr.convert(tmp_path / "new.tfrecord", target, on=OneCore(), overwrite=True).examples == N
        assert s3.objects == new
        changes += 1
    assert changes > 3 * 3  # uploads, removals, copies
    refused = ("error", "error", "error")  # a listing shows the journal
    assert seen == {("old",) * 4, ("old", *refused), ("error", *refused), ("new", *refused), ("new",) * 4}


def is_converted(store, source, target, changes):
    """Whether a conversion ends before its driver is killed: after so many changes to the store, all are refused."""
    left = itertools.count(1)

    def die(asked):
        is_refused = asked.command in ("PUT", "POST", "DELETE") and next(left) > changes
        if is_refused:
            asked.refuse(403, "Killed")
        return is_refused

    store.fault = die
    try:
        hr.convert(source, target, on=OneCore(), overwrite=True)
    except hr.Unreachable:
        return False
    finally:
        store.fault = None
    return True


def what_readers_see(folder, name, count):
    """What each way to name a set finds: the old examples, the new ones, or an error."""
    kinds = {"old": np.arange(N), "new": np.arange(N) + N}
    found = []
    for path in (f"{name}@{count}", f"{name}@*", f"{name}-*", ""):
        try:
            source = hr.open(f"{folder}/{path}".rstrip("/"))
            labels = source.batch(np.arange(len(source)))["label"]
        except hr.NoFiles:
            found.append("error")
            continue
        found.append(next((kind for kind, all in kinds.items() if np.array_equal(labels, all)), "mixture"))
    return tuple(found)


@pytest.fixture
def versions(tmp_path):
    """Two files, and what the examples of each are."""
    for day, start in (("tuesday", 1000), ("wednesday", 2000)):
        hr.write(tmp_path / f"{day}.tfrecord", {"i": np.arange(start, start + 8)})
    return lambda day: str(tmp_path / f"{day}.tfrecord")


def numbers(path):
    return sorted(map(int, hr.open(path)["i"]))


TUESDAY, WEDNESDAY = list(range(1000, 1008)), list(range(2000, 2008))


def refuse_copies(after):
    """A fault: copies are refused after so many."""
    count = itertools.count(1)

    def refuse(asked):
        is_refused = "x-amz-copy-source" in asked.headers and next(count) > after
        if is_refused:
            asked.refuse(403, "AccessDenied")
        return is_refused

    return refuse


def refuse_removals(asked):
    is_refused = asked.command == "DELETE" or "delete" in asked.query
    if is_refused:
        asked.refuse(403, "AccessDenied")
    return is_refused


def fail():
    """Examples that fail after the first shard is begun."""
    yield from ({"i": 1} for _ in range(5000))
    raise RuntimeError("a generator fails")


def test_what_waits_is_not_brought_back_over_what_is_newer(s3, versions):
    target = f"{s3.base}/d/s.tfrecord@4"
    hr.write(target, {"i": np.arange(8)})
    s3.fault = refuse_copies(2)
    with pytest.raises(hr.Unreachable):
        hr.convert(versions("tuesday"), target, on=OneCore(), overwrite=True)
    s3.fault = None
    hr.convert(versions("wednesday"), target, overwrite=True)
    assert all(numbers(f"{s3.base}/d{name}") == WEDNESDAY for name in ("", "/*", "/s.tfrecord@4", "/s.tfrecord@*"))
    with pytest.raises(RuntimeError, match="a generator fails"):
        hr.write(target, fail())
    assert numbers(target) == WEDNESDAY
    assert not any("/." in name for name in s3.objects)


@pytest.mark.parametrize("after", [0, 2])
def test_a_journal_that_another_tool_wrote_over(s3, versions, after):
    target = f"{s3.base}/d/s.tfrecord@4"
    hr.write(target, {"i": np.arange(2000, 2008)})
    wednesday = {name: content for name, content in s3.objects.items() if "/." not in name}
    hr.write(target, {"i": np.arange(8)})
    s3.fault = refuse_copies(after)
    with pytest.raises(hr.Unreachable):
        hr.convert(versions("tuesday"), target, on=OneCore(), overwrite=True)
    s3.fault = None
    s3.objects |= wednesday
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        hr.convert(versions("tuesday"), target, on=OneCore())
    with pytest.raises(RuntimeError, match="a generator fails"):
        hr.write(target, fail())
    assert numbers(target) == WEDNESDAY


def test_a_run_that_goes_on_replaces_nothing_without_overwrite(s3, versions):
    target = f"{s3.base}/d/s.tfrecord@4"
    with pytest.raises(ConnectionError):
        hr.convert(versions("tuesday"), target, on=Cuts(2))
    hr.write(target, {"i": np.arange(2000, 2008)})
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        hr.convert(versions("tuesday"), target, on=OneCore())
    assert numbers(target) == WEDNESDAY
    assert hr.convert(versions("tuesday"), target, on=OneCore(), overwrite=True).resumed > 0
    assert numbers(target) == TUESDAY


class Then(OneCore):
    """Calls a function when all tasks are done, before their files get their names."""

    def __init__(self, then):
        super().__init__()
        self.then = then

    def finished(self):
        yield from super().finished()
        self.then()


def test_what_was_written_during_a_run_is_not_replaced_without_overwrite(s3, versions):
    target = f"{s3.base}/d/s.tfrecord@4"
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        hr.convert(versions("tuesday"), target, on=Then(lambda: hr.write(target, {"i": np.arange(2000, 2008)})))
    assert numbers(f"{s3.base}/d") == WEDNESDAY


@pytest.mark.parametrize("overwrite", [False, True])
def test_the_same_call_twice_at_a_time(s3, versions, overwrite):
    target = f"{s3.base}/d/s.tfrecord@4"
    if overwrite:
        hr.write(target, {"i": np.arange(8)})

    def convert(engine):
        return hr.convert(versions("tuesday"), target, on=engine, overwrite=overwrite).examples

    with pytest.raises(hr.NoFiles, match=r"made twice at a time.*Nothing was changed"):
        convert(Then(lambda: convert(OneCore())))
    assert numbers(f"{s3.base}/d") == TUESDAY
    assert len(s3.objects) == 4


def test_new_files_that_wait_stay_also_if_the_run_cannot_be_resumed(s3, versions):
    """The old ones are removed by then."""
    lock = threading.Lock()

    def function(example):
        with lock:
            return {"i": example["i"]}

    target = f"{s3.base}/d/s.tfrecord@4"
    hr.write(target, {"i": np.arange(8)})
    source = hr.open(versions("tuesday")).map(function)
    s3.fault = refuse_copies(2)
    with pytest.raises(hr.Unreachable) as raised:
        hr.convert(source, target, on=Here(), overwrite=True)
    assert "next write to these names" in raised.value.__notes__[-1]
    s3.fault = None
    with pytest.raises(RuntimeError, match="a generator fails"):
        hr.write(target, fail())
    assert numbers(f"{s3.base}/d") == TUESDAY


def test_nothing_may_be_removed(s3, versions):
    target = f"{s3.base}/d/s.tfrecord@4"
    s3.fault = refuse_removals
    with pytest.warns(UserWarning, match="could not be removed: a refusal"):
        hr.convert(versions("tuesday"), target, on=OneCore())
    assert numbers(f"{s3.base}/d") == TUESDAY
    hr.write(target, {"i": np.arange(2000, 2008)})
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        hr.convert(versions("tuesday"), target, on=OneCore())
    with pytest.raises(hr.Unreachable):
        hr.convert(versions("tuesday"), target, on=OneCore(), overwrite=True)
    assert numbers(f"{s3.base}/d") == WEDNESDAY
    s3.fault = None
    assert hr.convert(versions("tuesday"), target, on=OneCore(), overwrite=True).examples == 8
    assert numbers(f"{s3.base}/d") == TUESDAY
    assert len(s3.objects) == 4


@pytest.mark.ray
def test_on_ray(s3, tmp_path):
    from tests.clusters import local

    local.close()  # a Ray that was started before does not know where the store is
    hr.write(tmp_path / "a.tfrecord@3", columns())
    hr.convert(tmp_path / "a.tfrecord@3", tmp_path / f"b.array_record@{SHARDS}")
    hr.convert(tmp_path / "a.tfrecord@3", f"{s3.base}/out/b.array_record@{SHARDS}", on="ray")
    assert s3.objects == {f"out/{path.name}": path.read_bytes() for path in tmp_path.glob("b.*")}


class Once:
    """An engine that does each task once."""

    cores = 1

    def __init__(self):
        self.waiting = []

    def submit(self, work):
        self.waiting.append(pickle.dumps(work))

    def finished(self):
        waiting, self.waiting = self.waiting, []
        yield from (pickle.loads(work)() for work in waiting)


def test_requests_grow_with_the_files_and_not_with_their_square(s3, tmp_path, monkeypatch):
    """A task asks only for the files that its examples are in: with as many tasks as files, all else would never end."""
    monkeypatch.setattr(fileset, "BLOCK_BYTES", 1000)  # files are large
    counts = []
    for files in (4, 8, 16):
        monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / f"cache{files}"))
        hr.write(
            f"{s3.base}/in{files}/a.tfrecord@{files}", {"i": np.arange(16 * files), "x": np.ones((16 * files, 20))}
        )
        with s3.counting() as asked:
            source = f"{s3.base}/in{files}/a.tfrecord@{files}"
            hr.convert(source, f"{s3.base}/out{files}/b.array_record@{files}", on=Once())
        counts.append(len(asked))
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def test_what_is_left_of_a_run_is_removed_even_if_one_object_cannot_be(s3):
    s3.objects |= {f"left/{number:03}": b"x" for number in range(200)}

    def refuse(request):
        is_refused = request.command == "POST" and b"left/100" in request.body
        if is_refused:
            request.give(403)
        return is_refused

    s3.fault = refuse
    urls = [f"{s3.base}/left/{number:03}" for number in range(200)]
    with pytest.raises(hr.Unreachable, match="left/100"):
        upload.remove_objects(urls)
    s3.fault = None
    upload.remove_objects(urls)  # also those that are gone
    assert s3.objects == {}
