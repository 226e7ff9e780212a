"""New shards in the place of old ones. A kill in between leaves the old result or the new one once the same call, or another, goes on."""

import os

import numpy as np
import pytest
from tests.io.write.test_commit import in_a_process_that_is_killed
from tests.writing.test_engines import Pickling

import headrace as hr
from headrace.io.write import pending
from headrace.writing import units

SHARDS = 3

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child process")


@pytest.fixture
def shards(tmp_path, monkeypatch):
    """The path of three shards of 60 old examples, and a function that replaces them by 90 others."""
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 20)
    hr.write(tmp_path / "old.tfrecord", {"n": np.arange(60)})
    hr.write(tmp_path / "new.tfrecord", {"n": np.arange(1000, 1090)})
    target = tmp_path / f"b.tfrecord@{SHARDS}"
    hr.convert(tmp_path / "old.tfrecord", target)

    def replace(*, engine="threads", source="new.tfrecord", **options):
        chosen = {"threads": 1} if engine == "threads" else {"on": Pickling()}
        return hr.convert(tmp_path / source, target, overwrite=True, **chosen, **options)

    return target, replace


def seen(target):
    """The ages of the shards that a reader sees."""
    found = {}
    for path in sorted(target.parent.glob("b.tfrecord-*")):
        numbers = [int(each["n"]) for each in hr.open(path)]
        found[path.name] = "new" if numbers[0] >= 1000 else "old"
        assert len(numbers) == (30 if found[path.name] == "new" else 20)
    return found


@pytest.mark.parametrize("engine", ["threads", "others"])
def test_a_kill_at_each_rename(shards, engine):
    target, replace = shards
    ends, codes = [], []
    for step in range(1, 40):
        code = in_a_process_that_is_killed(step, lambda: replace(engine=engine))
        codes.append(code)
        found = seen(target)
        assert len(set(found.values())) <= 1, f"step {step}: {found}"
        ends.append((len(found), *set(found.values())))
        replace(engine=engine)
        assert seen(target) == {f"b.tfrecord-{n:05d}-of-{SHARDS:05d}": "new" for n in range(SHARDS)}
        assert [name for name in os.listdir(target.parent) if name.startswith(".")] == []
        if code == 0:
            break
        replace(source="old.tfrecord")
    assert codes[-1] == 0
    assert ends[-1] == (3, "new")
    assert {(3, "old"), (2, "old"), (1, "old"), (0,), (1, "new"), (2, "new")} <= set(ends)


def test_old_files_are_removed_although_a_kill_interrupted_their_removal(shards, monkeypatch):
    target, replace = shards

    def die(_):
        os._exit(9)

    def killed():
        units.shutil.rmtree = die
        replace()

    assert in_a_process_that_is_killed(10**6, killed) == 9
    assert [name for name in os.listdir(target.parent) if name.endswith(".headrace-tmp")]
    pending._temporaries.cache_clear()  # the listing of this second
    replace()
    assert [name for name in os.listdir(target.parent) if name.startswith(".")] == []


def test_two_links_to_one_file_are_refused(shards, tmp_path):
    target, _ = shards
    for name in ("x-00001-of-00002", "x-00002-of-00003", "y-00000-of-00002", "y-00001-of-00002"):
        (tmp_path / name).symlink_to("x-00000-of-00003" if name.endswith("3") else "one")
    for name in ("x@3", "y@2"):
        with pytest.raises(hr.UnsupportedData, match="a file of its own for each shard"):
            hr.convert(target, tmp_path / name, format="tfrecord", overwrite=True)
        with pytest.raises(hr.UnsupportedData, match="a file of its own for each shard"):
            hr.write(tmp_path / name, {"n": np.arange(9)}, format="tfrecord")
    assert hr.convert(target, tmp_path / "x@2", format="tfrecord", overwrite=True).examples == 60
    assert len(hr.open(tmp_path / "x@2")) == 60


@pytest.mark.parametrize("engine", ["threads", "others"])
def test_another_call_finishes_first(shards, engine):
    """What it finds is then new files, which it refuses to replace."""
    target, replace = shards
    code = in_a_process_that_is_killed(None, lambda: die_when_two_are_left(target, replace, engine))
    assert code == 9
    assert list(seen(target).values()) == ["old"] * 2
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        hr.convert(target.parent / "old.tfrecord", target)
    assert list(seen(target).values()) == ["new"] * SHARDS


def die_when_two_are_left(target, replace, engine):
    rename = os.replace

    def die(source, path):
        if len(list(target.parent.glob("b.tfrecord-*"))) < SHARDS:
            os._exit(9)
        rename(source, path)

    os.replace = die
    replace(engine=engine)


def test_damage_keeps_the_old_files(shards, tmp_path):
    target, replace = shards
    data = bytearray((tmp_path / "new.tfrecord").read_bytes())
    data[-8] ^= 1
    (tmp_path / "new.tfrecord").write_bytes(data)
    with pytest.raises(hr.CorruptRecord):
        replace(codec="example")
    assert list(seen(target).values()) == ["old"] * SHARDS


def test_links_are_kept(shards, tmp_path):
    """Each shard replaces what its link points to, which may be on another disk."""
    target, replace = shards
    (tmp_path / "elsewhere").mkdir()
    first = tmp_path / f"b.tfrecord-00000-of-{SHARDS:05d}"
    first.rename(tmp_path / "elsewhere" / "c")
    first.symlink_to(tmp_path / "elsewhere" / "c")
    replace()
    assert first.is_symlink()
    assert list(seen(target).values()) == ["new"] * SHARDS


def write_newer(target, count=SHARDS):
    """Write the first shards again, with newer examples than any."""
    for number in range(count):
        hr.write(target.parent / f"b.tfrecord-{number:05d}-of-{SHARDS:05d}", {"n": np.arange(7000, 7010)})


@pytest.mark.parametrize("engine", ["threads", "others"])
@pytest.mark.parametrize("count", [1, SHARDS])
def test_what_is_written_after_a_kill_is_never_replaced(shards, engine, count):
    """Whatever the kill has left: the files that wait are older."""
    target, replace = shards
    names = [target.parent / f"b.tfrecord-{number:05d}-of-{SHARDS:05d}" for number in range(SHARDS)]
    for step in range(1, 40):
        code = in_a_process_that_is_killed(step, lambda: replace(engine=engine))
        write_newer(target, count)
        newer = [path.read_bytes() for path in names[:count]]
        with pytest.raises(hr.UnsupportedData, match="already exists"):
            hr.convert(target.parent / "old.tfrecord", target, threads=1)
        assert [path.read_bytes() for path in names[:count]] == newer, f"step {step}"
        if code == 0:
            break
        replace(source="old.tfrecord")
    assert code == 0


def has_begun(folder):
    """Whether units are being written."""
    return (folder / ".b.tfrecord.headrace-convert" / units.PLAN).exists()


def test_an_interrupted_conversion_does_not_replace_what_was_written_since(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 20)
    source, target = hr.ColumnSource({"n": np.arange(60)}), tmp_path / "b.tfrecord"

    def fail(example):
        if has_begun(tmp_path) and example["n"] == 30 and not target.exists():
            raise RuntimeError
        return example

    with pytest.raises(hr.TransformError):
        hr.convert(source.map(fail), target, threads=1)
    kept = os.listdir(tmp_path)
    assert kept == [".b.tfrecord.headrace-convert"]
    hr.write(target, {"precious": np.arange(5)})
    for again in (source.map(fail), source.map(lambda example: example)):
        with pytest.raises(hr.UnsupportedData, match="already exists"):
            hr.convert(again, target, threads=1)
        assert sorted(os.listdir(tmp_path)) == [*kept, "b.tfrecord"], "the finished work, too"
    assert list(hr.open(target).schema) == ["precious"]


def test_a_file_that_was_finished_and_then_replaced_is_not_finished(shards):
    target, replace = shards
    code = in_a_process_that_is_killed(None, lambda: die_before_the_folder_is_removed(replace))
    assert code == 9
    assert list(seen(target).values()) == ["new"] * SHARDS
    first = target.parent / f"b.tfrecord-00000-of-{SHARDS:05d}"
    hr.write(first, {"n": np.arange(7000, 7010)})
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        hr.convert(target.parent / "new.tfrecord", target)
    assert len(hr.open(first)) == 10
    assert replace().resumed == 60
    assert list(seen(target).values()) == ["new"] * SHARDS


def die_before_the_folder_is_removed(replace):
    units.WorkFolder.remove = lambda _: os._exit(9)
    replace()


@pytest.mark.parametrize("count", [10, 50])
@pytest.mark.parametrize("engine", ["threads", "others"])
@pytest.mark.parametrize("is_other_disk", [False, True])
def test_a_link_stays_and_its_target_is_replaced(tmp_path, monkeypatch, count, engine, is_other_disk):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 20)
    (tmp_path / "elsewhere").mkdir()
    hr.write(tmp_path / "elsewhere" / "c", {"n": np.arange(3)}, format="tfrecord")
    (tmp_path / "b.tfrecord").symlink_to("elsewhere/c")
    hr.write(tmp_path / "a.tfrecord", {"n": np.arange(count)})
    replace = os.replace

    def across(source, target):
        if is_other_disk and os.path.dirname(source) != os.path.dirname(target) == str(tmp_path / "elsewhere"):
            raise OSError(18, "Invalid cross-device link")
        replace(source, target)

    monkeypatch.setattr(os, "replace", across)
    chosen = {} if engine == "threads" else {"on": Pickling()}
    hr.convert(tmp_path / "a.tfrecord", tmp_path / "b.tfrecord", overwrite=True, **chosen)
    assert (tmp_path / "b.tfrecord").is_symlink()
    assert len(hr.open(tmp_path / "elsewhere" / "c", format="tfrecord")) == count
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "b.tfrecord", "elsewhere"]
    assert os.listdir(tmp_path / "elsewhere") == ["c"]


@pytest.mark.parametrize("name", ["b" * 235 + ".tfrecord", "b" * 246 + ".tfrecord", "ü" * 120 + ".tfrecord"])
def test_names_as_long_as_a_folder_holds(tmp_path, name):
    hr.write(tmp_path / "a.tfrecord", {"n": np.arange(60)})
    hr.convert(tmp_path / "a.tfrecord", tmp_path / name)
    assert len(hr.open(tmp_path / name)) == 60
    other = name.replace(".tfrecord", "c.tfrecord")[1:]
    assert units._work_path(str(tmp_path / name)) != units._work_path(str(tmp_path / other))


@pytest.mark.parametrize("source", ["a.tfrecord", "other.tfrecord"])
def test_two_conversions_at_once(tmp_path, source):
    """The second one is refused, and leaves the work of the first alone."""
    for name in ("a.tfrecord", "other.tfrecord"):
        hr.write(tmp_path / name, {"n": np.arange(60)})
    target, refused = tmp_path / "b.tfrecord", []

    def convert_too(example):
        if has_begun(tmp_path) and not refused:
            with pytest.raises(hr.UnsupportedData, match=f"by process {os.getpid()} of this machine") as caught:
                hr.convert(tmp_path / source, target, overwrite=True)
            refused.append(str(caught.value))
        return example

    hr.convert(hr.open(tmp_path / "a.tfrecord").map(convert_too), target)
    assert "rank 0" in refused[0]
    assert len(hr.open(target)) == 60
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "b.tfrecord", "other.tfrecord"]


def test_a_child_of_a_killed_conversion_locks_nobody_out(tmp_path):
    hr.write(tmp_path / "a.tfrecord", {"n": np.arange(60)})
    read, write = os.pipe()

    def convert():
        def fork(example):
            if has_begun(tmp_path):
                if os.fork() == 0:
                    os.close(write)
                    os.read(read, 1)  # lives, with the lock, until the test has ended
                os._exit(9)
            return example

        hr.convert(hr.open(tmp_path / "a.tfrecord").map(fork), tmp_path / "b.tfrecord")

    assert in_a_process_that_is_killed(None, convert) == 9
    os.close(read)
    try:
        assert hr.convert(tmp_path / "a.tfrecord", tmp_path / "b.tfrecord").examples == 60
    finally:
        os.close(write)


def test_where_files_cannot_be_locked(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def refuse(fd, kind):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    hr.write(tmp_path / "a.tfrecord", {"n": np.arange(60)})
    assert hr.convert(tmp_path / "a.tfrecord", tmp_path / "b.tfrecord").examples == 60
