"""Names for several objects at once: what a journal says, what is taken from it, and what is there after errors."""

import json

import pytest
from tests.io.store_server import KINDS, environment, serving_store

import headrace as hr
from headrace.io.store.commit import end_names, finish_object_names, give_object_names, keeps_journal, refuse_existing
from headrace.io.store.listing import read_journal

FIRST = "x-00000-of-00002"
SECOND = "x-00001-of-00002"
JOURNAL = ".x.headrace-names"
NEW = {f"out/{FIRST}": b"new 0", f"out/{SECOND}": b"new 1"}
OLD = {f"out/{FIRST}": b"old 0", f"out/{SECOND}": b"old 1"}
WAITING = {"out/.run/0": b"new 0", "out/.run/1": b"new 1"}


@pytest.fixture(params=KINDS)
def store(request, monkeypatch):
    pytest.importorskip("obstore")
    with serving_store() as store:
        for name, value in environment(request.param, store.url).items():
            monkeypatch.setenv(name, value)
        store.base = f"{request.param}://bucket/out"
        yield store


def copies(store):
    return {f"{store.base}/.run/0": f"{store.base}/{FIRST}", f"{store.base}/.run/1": f"{store.base}/{SECOND}"}


def refuse(*kinds, keys=("",)):
    """A fault: requests of these kinds (``copy``, ``put``, ``remove``) that name one of these keys are refused."""

    def fault(asked):
        is_copy = any("copy-source" in name.lower() for name in asked.headers)
        is_removal = asked.command == "DELETE" or (
            asked.command == "POST" and b"delete" in (asked.body + asked.path.encode()).lower()
        )
        kind = "copy" if is_copy else "remove" if is_removal else "put" if asked.command == "PUT" else ""
        named = asked.key + asked.body.decode(errors="replace")
        is_refused = kind in kinds and any(key in named for key in keys)
        if is_refused:
            asked.refuse(403, "AccessDenied")
        return is_refused

    return fault


def test_all_get_their_names(store):
    store.objects |= {**WAITING, **OLD}
    give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=True)
    assert read_journal(f"{store.base}/{JOURNAL}") == copies(store)
    assert keeps_journal(f"{store.base}/{FIRST}", copies(store))
    end_names(f"{store.base}/{FIRST}", copies(store))
    assert store.objects == {**WAITING, **NEW}
    assert not keeps_journal(f"{store.base}/{FIRST}", copies(store))


def test_one_object_needs_no_journal(store):
    store.objects |= {**WAITING, **OLD}
    one = dict([next(iter(copies(store).items()))])
    with store.counting() as asked:
        give_object_names(f"{store.base}/{FIRST}", one, overwrite=True)
        end_names(f"{store.base}/{FIRST}", one)
    assert len(asked) == 1
    assert store.objects == {**WAITING, **OLD, f"out/{FIRST}": b"new 0"}


def test_new_names_are_taken_back(store):
    store.objects |= WAITING
    store.fault = refuse("copy", keys=[SECOND])
    with pytest.raises(hr.Unreachable):
        give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=True)
    assert store.objects == WAITING


def test_old_objects_stay_if_they_cannot_be_removed(store):
    store.objects |= {**WAITING, **OLD}
    store.fault = refuse("remove")
    with pytest.raises(hr.Unreachable) as raised:
        give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=True)
    assert "unchanged" in raised.value.__notes__[-1]
    assert store.objects == {**WAITING, **OLD, f"out/{JOURNAL}": b"{}"}


def test_what_is_missing_after_an_error_is_added_by_the_next(store):
    store.objects |= {**WAITING, **OLD}
    store.fault = refuse("copy", keys=[SECOND])
    with pytest.raises(hr.Unreachable) as raised:
        give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=True)
    assert f"{store.base}/{JOURNAL}" in raised.value.__notes__[-1]
    assert keeps_journal(f"{store.base}/{FIRST}", copies(store))
    store.fault = None
    for _ in range(2):
        finish_object_names(f"{store.base}/{FIRST}")
        assert store.objects == NEW


def test_another_write_finishes_the_one_before(store):
    """Otherwise its objects would stay without the others of their set."""
    store.objects |= {**WAITING, "out/.other/0": b"other 0", "out/.other/1": b"other 1"}
    store.objects[f"out/{JOURNAL}"] = json.dumps({"from": ".run", "names": {"0": FIRST, "1": SECOND}}).encode()
    names = ("x-00000-of-00003", "x-00001-of-00003")
    others = {f"{store.base}/.other/{number}": f"{store.base}/{name}" for number, name in enumerate(names)}
    give_object_names(f"{store.base}/{names[0]}", others, overwrite=False)
    end_names(f"{store.base}/{names[0]}", others)
    seen = {name: content for name, content in store.objects.items() if "/." not in name}
    assert seen == {**NEW, f"out/{names[0]}": b"other 0", f"out/{names[1]}": b"other 1"}
    assert read_journal(f"{store.base}/{JOURNAL}") == {}


def test_something_else_is_kept(store):
    """What was written to a name after the journal, whether the old object was removed or not."""
    store.objects |= {**WAITING, **OLD}
    store.fault = refuse("copy")
    with pytest.raises(hr.Unreachable):
        give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=True)
    store.fault = None
    store.objects[f"out/{SECOND}"] = b"something else"
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        refuse_existing(f"{store.base}/{FIRST}", copies(store))
    with pytest.raises(hr.UnsupportedData, match="already exists"):
        give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=False)
    finish_object_names(f"{store.base}/{FIRST}")
    assert store.objects == {f"out/{FIRST}": b"new 0", f"out/{SECOND}": b"something else"}


def test_a_run_that_goes_on_keeps_the_names_that_it_has_given(store):
    store.objects |= {**WAITING, **OLD}
    store.fault = refuse("copy", keys=[SECOND])
    for _ in range(2):
        with pytest.raises(hr.Unreachable):
            give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=True)
        assert store.objects.items() >= {f"out/{FIRST}": b"new 0", **WAITING}.items()
        assert keeps_journal(f"{store.base}/{FIRST}", copies(store))
    store.fault = None
    refuse_existing(f"{store.base}/{FIRST}", copies(store))
    give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=False)
    end_names(f"{store.base}/{FIRST}", copies(store))
    assert store.objects == {**WAITING, **NEW}


def test_names_that_exist_or_are_waited_for_are_refused(store):
    refuse_existing(f"{store.base}/{FIRST}", copies(store))
    store.objects |= {**WAITING, f"out/{SECOND}": b"old 1"}
    before = dict(store.objects)
    with pytest.raises(hr.UnsupportedData, match=rf"{SECOND} already exists"):
        refuse_existing(f"{store.base}/{FIRST}", copies(store))
    with pytest.raises(hr.UnsupportedData, match=rf"{SECOND} already exists"):
        give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=False)
    one = {f"{store.base}/.run/1": f"{store.base}/{SECOND}"}
    with pytest.raises(hr.UnsupportedData, match=rf"{SECOND} already exists"):
        give_object_names(f"{store.base}/{SECOND}", one, overwrite=False)
    assert store.objects == before
    del store.objects[f"out/{SECOND}"]
    store.objects[f"out/{JOURNAL}"] = json.dumps({"from": ".other", "names": {"0": FIRST, "1": SECOND}}).encode()
    with pytest.raises(hr.UnsupportedData, match=rf"{FIRST} already exists"):
        refuse_existing(f"{store.base}/{FIRST}", copies(store))


def test_copied_objects_are_gone_before_any_name_is_given(store):
    store.objects |= {**OLD, "out/.run/1": b"new 1"}
    before = dict(store.objects)
    with pytest.raises(hr.NoFiles, match="Nothing was changed"):
        give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=True)
    assert store.objects == before


def test_another_run_of_the_same_copies_is_faster(store):
    """It has given the names and removed what was copied while this one copies."""
    store.objects |= WAITING

    def overtake(asked):
        if any("copy-source" in name.lower() for name in asked.headers):
            store.fault = None
            for name in WAITING:
                del store.objects[name]
            store.objects |= NEW
        return False

    store.fault = overtake
    with pytest.raises(hr.NoFiles):
        give_object_names(f"{store.base}/{FIRST}", copies(store), overwrite=True)
    assert store.objects == NEW


def test_the_journal_of_another_write_stays(store):
    store.objects[f"out/{JOURNAL}"] = json.dumps({"from": ".other", "names": {"0": FIRST, "1": SECOND}}).encode()
    end_names(f"{store.base}/{FIRST}", copies(store))
    assert f"out/{JOURNAL}" in store.objects


@pytest.mark.parametrize("waiting", [WAITING, {}])
def test_a_write_of_the_same_names_ends_the_journal(store, waiting):
    """Also one that nothing can finish. Otherwise readers would go on to refuse complete shards."""
    store.objects |= waiting
    names = {"0": "x.tfrecord-00000-of-00003", "1": "x.tfrecord-00001-of-00003"}
    store.objects["out/.x.tfrecord.headrace-names"] = json.dumps({"from": ".run", "names": names}).encode()
    hr.write(f"{store.base}/x.tfrecord@3", {"i": [1, 2, 3]})
    assert [name for name in store.objects if "/." in name] == []
    assert list(hr.open(store.base)["i"]) == [1, 2, 3]


def test_copied_objects_are_gone(store):
    """Killed between the removal of what was copied and that of the journal; then with nothing left to copy."""
    store.objects |= {**NEW, "out/.run/1": b"new 1"}
    store.objects[f"out/{JOURNAL}"] = json.dumps({"from": ".run", "names": {"0": FIRST, "1": SECOND}}).encode()
    finish_object_names(f"{store.base}/{FIRST}")
    assert store.objects == NEW
    store.objects[f"out/{JOURNAL}"] = json.dumps({"from": ".run", "names": {"0": FIRST, "1": "x-none"}}).encode()
    finish_object_names(f"{store.base}/{FIRST}")
    assert store.objects.items() >= NEW.items()
    assert f"out/{JOURNAL}" in store.objects  # readers are still told


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"[]",
        b"null",
        b"[" * 100_000,
        json.dumps({"from": ".run"}).encode(),
        json.dumps({"from": 3, "names": {"0": FIRST}}).encode(),
        json.dumps({"from": "run", "names": {"0": FIRST}}).encode(),
        json.dumps({"from": "../.run", "names": {"0": FIRST}}).encode(),
        json.dumps({"from": ".run/../..", "names": {"0": FIRST}}).encode(),
        json.dumps({"from": ".run", "names": {"../0": FIRST}}).encode(),
        json.dumps({"from": ".run", "names": {"0": "../x"}}).encode(),
        json.dumps({"from": ".run", "names": {"0": "/x"}}).encode(),
        json.dumps({"from": ".run", "names": {"0": 7}}).encode(),
        json.dumps({"from": ".run", "names": [1]}).encode(),
    ],
)
def test_journals_of_others(store, content):
    """Nothing is copied or removed for them, and readers do not mind."""
    hr.write(f"{store.base}/x.tfrecord@2", {"i": [1, 2, 3]})
    store.objects |= {**WAITING, f"out/{JOURNAL}": content, "out/.x.tfrecord.headrace-names": content}
    before = dict(store.objects)
    assert read_journal(f"{store.base}/{JOURNAL}") == {}
    finish_object_names(f"{store.base}/{FIRST}")
    assert store.objects == before
    assert (
        len(hr.open(store.base)) == len(hr.open(f"{store.base}/x*")) == len(hr.open(f"{store.base}/x.tfrecord@*")) == 3
    )


def test_readers_of_other_sets_do_not_mind(store):
    hr.write(f"{store.base}/y.tfrecord@2", {"i": [1, 2, 3]})
    store.objects[f"out/{JOURNAL}"] = json.dumps({"from": ".run", "names": {"0": FIRST, "1": SECOND}}).encode()
    assert len(hr.open(f"{store.base}/y*")) == len(hr.open(store.base)) == 3
    store.objects |= NEW
    with pytest.raises(hr.NoFiles, match=rf"giving its names.*remove.*{JOURNAL}"):
        hr.open(store.base)
    assert len(hr.open(f"{store.base}/y*")) == 3


def test_what_is_elsewhere_is_refused(store):
    for bad in (
        {f"{store.base}/.run/0": f"{store.base}/a", f"{store.base}/.other/1": f"{store.base}/b"},
        {f"{store.base}/.run/0": f"{store.base}/a", f"{store.base}/.run/1": f"{store.base}/in/b"},
    ):
        with pytest.raises(ValueError, match="one prefix"):
            give_object_names(f"{store.base}/a", bad, overwrite=True)
    assert store.objects == {}
