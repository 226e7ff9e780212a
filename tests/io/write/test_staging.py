"""Files of several processes that get their names together, in a folder and in stores."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest
from tests.io.store_server import KINDS, environment, serving_store

import headrace as hr
from headrace.io.folders import Listing
from headrace.io.write import staging
from headrace.io.write.staging import FolderStaging, finish_interrupted, open_staging

NAMES = {"0-a": "x-0", "1-b": "x-1", "2-c": "x-2"}


@pytest.fixture(params=["folder", *KINDS])
def place(request, tmp_path, monkeypatch):
    """A folder on disk or in a store."""
    if request.param == "folder":
        yield Folder(tmp_path / "out")
        return
    pytest.importorskip("obstore")
    with serving_store() as store:
        for name, value in environment(request.param, store.url).items():
            monkeypatch.setenv(name, value)
        yield Bucket(store, f"{request.param}://bucket/out")


class Folder:
    def __init__(self, path):
        path.mkdir()
        self.url = str(path)

    def contents(self):
        """Every file, hidden ones too."""
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.url) for name in names]
        return {os.path.relpath(path, self.url): Path(path).read_bytes() for path in found}

    def folders(self):
        return [name for name in os.listdir(self.url) if os.path.isdir(os.path.join(self.url, name))]


class Bucket:
    def __init__(self, store, url):
        self.store, self.url = store, url

    def contents(self):
        return {key.removeprefix("out/"): content for key, content in self.store.objects.items()}

    def folders(self):
        return []


def fill(found, names=NAMES):
    for name in names:
        with open(found.path(name), "wb") as file:
            file.write(name.encode())
        found.add(name)


def named(place):
    return {name: f"{place.url}/{path}" for name, path in NAMES.items()}


def test_files_get_their_names_together(place):
    found = open_staging(f"{place.url}/x-0")
    fill(found, [*NAMES, "0-other", "zombie"])
    found.commit(named(place))
    assert place.contents() == {"x-0": b"0-a", "x-1": b"1-b", "x-2": b"2-c"}
    assert place.folders() == []


def test_readers_see_nothing_before(place):
    hr.write(f"{place.url}/y.tfrecord", {"i": [1, 2]})
    found = open_staging(f"{place.url}/x-0")
    fill(found)
    assert Listing.of(place.url).files == ("y.tfrecord",)
    assert Listing.of(place.url).folders == ()
    assert len(hr.open(f"{place.url}/*")) == 2
    assert len(hr.open(place.url)) == 2
    found.discard()
    assert list(place.contents()) == ["y.tfrecord"]
    assert place.folders() == []


def test_a_failure_takes_names_back(place, monkeypatch):
    """The second name cannot be given: nothing is left, whatever was there before stays."""
    found = open_staging(f"{place.url}/x-0")
    fill(found)
    if isinstance(place, Bucket):
        copies = []

        def refuse(handler):
            if any("copy-source" in name.lower() for name in handler.headers):
                copies.append(handler.key)
                if len(copies) == 2:
                    handler.refuse(403, "AccessDenied")
                    return True
            return False

        monkeypatch.setattr(place.store, "fault", refuse)
    else:
        replace, given = os.replace, []

        def refuse(source, target):
            given.append(target)
            if len(given) == 2:
                raise PermissionError(13, "Permission denied")
            replace(source, target)

        monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises((PermissionError, hr.Unreachable)):
        found.commit(named(place))
    found.discard()
    assert place.contents() == {}


def test_a_writer_that_was_believed_dead_does_no_harm(place):
    found = open_staging(f"{place.url}/x-0")
    fill(found)
    late = open(found.path("late"), "wb") if isinstance(place, Folder) else None
    found.commit(named(place))
    if late is not None:
        late.write(b"late")
        late.close()
        with pytest.raises(hr.UnsupportedData, match="every node of the cluster sees"):
            found.path("later")
    else:
        fill(found, ["late"])  # its upload arrives, where no reader looks
        assert Listing.of(place.url).files == ("x-0", "x-1", "x-2")
        assert Listing.of(place.url).folders == ()
    assert {name: place.contents()[name] for name in NAMES.values()} == {"x-0": b"0-a", "x-1": b"1-b", "x-2": b"2-c"}


def test_leftovers_of_a_killed_owner_are_removed(tmp_path):
    _killed_owner(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    found = FolderStaging(str(tmp_path / "x-0"))
    assert [str(path) for path in tmp_path.iterdir()] == [found.place]


def _killed_owner(folder):
    if os.fork() == 0:
        try:
            found = open_staging(str(folder / "x-0"))
            open(found.path("a"), "wb").close()
        finally:
            os._exit(9)
    os.wait()


class TestStores:
    @pytest.fixture(params=KINDS)
    def bucket(self, request, monkeypatch):
        pytest.importorskip("obstore")
        with serving_store() as store:
            for name, value in environment(request.param, store.url).items():
                monkeypatch.setenv(name, value)
            yield Bucket(store, f"{request.param}://bucket/out")

    @pytest.mark.filterwarnings("ignore:All objects have their names")
    @pytest.mark.parametrize("killed_after", range(7))
    def test_the_next_call_finishes_copies(self, killed_after, bucket, monkeypatch):
        """Whatever request is the last before a kill: names are given to all files or to none, at the latest by the next call."""
        found = open_staging(f"{bucket.url}/x-0")
        fill(found)
        changes = []

        def die(handler):
            if handler.command in ("PUT", "DELETE", "POST"):
                changes.append(handler.path)
                if len(changes) > killed_after:
                    handler.refuse(403, "Killed")
                    return True
            return False

        monkeypatch.setattr(bucket.store, "fault", die)
        monkeypatch.setattr(staging, "remove_objects", remove_unless(changes, killed_after, staging.remove_objects))
        with contextlib.suppress(hr.Unreachable, Killed):
            found.commit(named(bucket))
        monkeypatch.undo()
        for name, value in environment(bucket.url.partition(":")[0], bucket.store.url).items():
            monkeypatch.setenv(name, value)
        bucket.store.fault = None
        finish_interrupted(f"{bucket.url}/x-0")
        visible = {name: content for name, content in bucket.contents().items() if not name.startswith(".")}
        assert visible in ({}, {"x-0": b"0-a", "x-1": b"1-b", "x-2": b"2-c"})
        assert bool(visible) == (killed_after > 0)
        if visible:
            assert bucket.contents() == visible

    def test_old_leftovers_are_removed(self, bucket, monkeypatch):
        fill(open_staging(f"{bucket.url}/x-0"))
        finish_interrupted(f"{bucket.url}/x-0")
        assert len(bucket.contents()) == 3  # its owner may be at work
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 8 * 24 * 3600)
        finish_interrupted(f"{bucket.url}/x-0")
        assert bucket.contents() == {}


class Killed(Exception):
    pass


def remove_unless(changes, killed_after, remove):
    """As a killed process, which does nothing more."""

    def call(urls):
        if len(changes) > killed_after:
            raise Killed
        remove(urls)

    return call


def test_a_place_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_staging(str(tmp_path / "none" / "x"))
