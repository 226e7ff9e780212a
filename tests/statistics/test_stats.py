"""Statistics by another engine, and on Ray, are those of this machine."""

import pickle
from contextvars import ContextVar

import numpy as np
import pytest
from tests.writing.test_engines import Pickling

import headrace as hr
from headrace.statistics import collect
from headrace.writing.engines import parts_of

N = 5000


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(N).astype(np.float32)
    words = [f"word {number % 7}".encode() for number in range(N)]
    ragged = hr.Ragged.from_list([list(range(number % 4)) for number in range(N)], np.int64)
    hr.write(tmp_path / "a.tfrecord@3", {"value": values, "word": words, "ids": ragged})
    return str(tmp_path / "a.tfrecord@3")


def alike(found, expected):
    assert (found.total, found.read, found.statement) == (expected.total, expected.read, expected.statement)
    for name, ours in found.features.items():
        theirs = expected.features[name]
        for field in ("values", "empty", "minimum", "maximum", "distinct", "lengths", "sizes", "bars"):
            if field in ("lengths", "sizes") and getattr(theirs, field):
                assert getattr(ours, field) == pytest.approx(getattr(theirs, field))
            else:
                assert getattr(ours, field) == getattr(theirs, field), (name, field)
        assert ours.mean == (None if theirs.mean is None else pytest.approx(theirs.mean))
        assert ours.std == (None if theirs.std is None else pytest.approx(theirs.std))


@pytest.mark.parametrize("sample", [None, 700])
def test_parts_that_are_done_elsewhere(files, sample):
    alike(hr.stats(files, sample=sample, on=Pickling(3)), hr.stats(files, sample=sample))


def test_examples_in_memory_stay_here():
    columns = hr.open({"x": np.array([3, 1, 1])})
    assert hr.stats(columns).features["x"].mean == pytest.approx(5 / 3)
    assert hr.stats({"x": np.array([3, 1, 1])}, columns=["x"]).features["x"].mean == pytest.approx(5 / 3)
    with pytest.raises(hr.UnsupportedData, match="in memory"):
        hr.stats(columns, on=Pickling())
    with pytest.raises(ValueError, match="on is 'threads'"):
        hr.stats(columns, on="spark")


def test_damage_is_raised_with_its_place(tmp_path):
    hr.write(tmp_path / "a.tfrecord", {"x": np.arange(300)})
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[-8] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    with pytest.raises(hr.CorruptRecord, match="record 299"):
        hr.stats(tmp_path / "a.tfrecord", sample=None, on=Pickling())


def test_no_part_is_empty_or_large():
    picked = np.arange(1000)
    parts = parts_of(picked, 10 << 20, 1000, 2)
    assert sum(map(len, parts)) == 1000
    assert max(map(len, parts)) <= 13
    assert len(pickle.dumps(parts[0])) < 200


@pytest.mark.ray
def test_on_ray(local_ray, files):
    alike(hr.stats(files, sample=None, on="ray"), hr.stats(files, sample=None))


MODE = ContextVar("MODE", default="train")


def test_functions_see_the_settings_of_the_caller_in_every_thread(monkeypatch):
    monkeypatch.setattr(collect, "usable_cores", lambda: 3)
    seen = set()

    def see(example):
        seen.add((MODE.get(), np.geterr()["divide"]))
        return example

    token = MODE.set("eval")
    try:
        with np.errstate(divide="raise"):
            hr.stats(hr.open({"x": np.arange(100_000)}).map(see))
    finally:
        MODE.reset(token)
    assert seen == {("eval", "raise")}
