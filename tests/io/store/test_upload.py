"""Copies within a store."""

import os

import numpy as np
import pytest
from tests.io.store_server import KINDS, environment, serving_store

import headrace as hr
from headrace.io.store import client, upload
from headrace.io.store.upload import copy_objects

SIZE = 1_000_003


@pytest.fixture
def store(request, monkeypatch):
    pytest.importorskip("obstore")
    kind = getattr(request, "param", "s3")
    with serving_store() as found:
        for name, value in environment(kind, found.url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(client, "RETRIES", 2)
        found.base = f"{kind}://bucket"
        found.objects["a"] = os.urandom(SIZE)
        yield found


def limit_copies(store, monkeypatch, most):
    """S3 refuses to copy objects of more than 5 GiB; this server, of more than ``most`` bytes."""
    monkeypatch.setattr(upload, "MOST_COPIED", {"s3": most})
    monkeypatch.setattr(upload, "PART_BYTES", 100_000)
    store.refused = 0

    def refuse(handler):
        if "x-amz-copy-source" in handler.headers and len(store.objects["a"]) > most:
            store.refused += 1
            handler.refuse(400, "InvalidRequest")
            return True
        return False

    monkeypatch.setattr(store, "fault", refuse)


@pytest.mark.parametrize("store", KINDS, indirect=True)
def test_the_store_copies(store):
    with store.counting() as asked:
        copy_objects({f"{store.base}/a": f"{store.base}/b"})
    assert store.objects["b"] == store.objects["a"]
    assert len(asked) == 1


def test_objects_that_are_too_large_are_copied_in_parts(store, monkeypatch):
    limit_copies(store, monkeypatch, 400_000)
    store.objects["b"] = b"old"
    with store.counting() as asked:
        copy_objects({f"{store.base}/a": f"{store.base}/b"})
    assert store.objects["b"] == store.objects["a"]
    assert store.uploads == {}
    assert store.refused == 1
    assert sum("partNumber" in path for _, path in asked) == -(-SIZE // 100_000)


def test_a_part_that_is_refused_leaves_what_was_there(store, monkeypatch):
    limit_copies(store, monkeypatch, 400_000)
    store.objects["b"] = b"old"
    limited = store.fault

    def refuse(handler):
        if handler.query.get("partNumber") == "3":
            handler.refuse(403, "AccessDenied")
            return True
        return limited(handler)

    monkeypatch.setattr(store, "fault", refuse)
    with pytest.raises(hr.Unreachable, match="/b"):
        copy_objects({f"{store.base}/a": f"{store.base}/b"})
    assert store.objects["b"] == b"old"


def test_other_refusals_are_errors(store, monkeypatch):
    limit_copies(store, monkeypatch, 400_000)
    store.objects["a"] = b"small"

    def refuse(handler):
        if "x-amz-copy-source" in handler.headers:
            handler.refuse(403, "AccessDenied")
            return True
        return False

    monkeypatch.setattr(store, "fault", refuse)
    with pytest.raises(hr.Unreachable):
        copy_objects({f"{store.base}/a": f"{store.base}/b"})
    with pytest.raises(hr.NoFiles):
        monkeypatch.setattr(store, "fault", None)
        copy_objects({f"{store.base}/gone": f"{store.base}/b"})
    assert "b" not in store.objects


def test_a_name_with_a_number_of_shards_within_is_read_as_it_was_written(store):
    """As on a disk. ``x.npy@2`` still names a set."""
    hr.write(f"{store.base}/run@2.npy", np.zeros((3, 2)))
    hr.write(f"{store.base}/set.npy@2", np.zeros((4, 2)))
    assert len(hr.open(f"{store.base}/run@2.npy")) == 3
    assert len(hr.open(f"{store.base}/set.npy@2")) == 4
    assert len(hr.open(f"{store.base}/set.npy@*")) == 4
