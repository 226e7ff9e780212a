"""New shards in the place of old ones. A kill in between leaves the old result or the new one once the same call, or another, goes on."""

import os

import numpy as np
import pytest
from tests.io.write.test_commit import in_a_process_that_is_killed
from tests.writing.test_engines import Pickling

import headrace as hr
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
