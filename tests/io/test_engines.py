"""Selection of decoders; with ``library`` none of ours runs."""

import os
import subprocess
import sys

import numpy as np
import pytest
from tests.codecs.images.files import jpeg, noise

import headrace as hr
from headrace import _native
from headrace.codecs.images import png
from headrace.contracts.feature import Feature
from headrace.formats.array_record.codecs import Zstandard
from headrace.io import engines as module
from headrace.io.engines import Engines, describe_engines, engines

IMAGES = np.array([jpeg(seed=seed) for seed in range(3)], object)


@pytest.fixture
def chosen(monkeypatch):
    """Set the variable and have it read again."""

    def choose(value):
        if value is None:
            monkeypatch.delenv(module.SETTING, raising=False)
        else:
            monkeypatch.setenv(module.SETTING, value)
        engines.cache_clear()
        return engines()

    yield choose
    engines.cache_clear()


@pytest.mark.parametrize("value", [None, "", "own"])
def test_our_decoders_come_first(chosen, value):
    found = chosen(value)
    assert found.choice == "own"
    assert (found.zstd.is_own, found.gzip.is_own, found.png.is_own) == (True, True, True)
    assert found.jpeg.is_own == _native.jpeg_is_fast()


def test_the_libraries_alone(chosen):
    found = chosen("library")
    assert found.choice == "library"
    assert not any(engine.is_own for engine in (found.zstd, found.gzip, found.jpeg, found.png))


@pytest.mark.parametrize("value", ["library ", "OWN", "1"])
def test_any_other_value_is_an_error(chosen, value):
    with pytest.raises(ValueError, match=f"HEADRACE_ENGINES must be 'own' or 'library', got '{value}'"):
        chosen(value)


def test_it_is_read_once(chosen, monkeypatch):
    assert isinstance(chosen("own"), Engines)
    monkeypatch.setenv(module.SETTING, "library")
    assert engines().choice == "own"


def test_the_description_names_every_decoder(chosen):
    chosen("library")
    first, *lines = describe_engines().splitlines()
    assert first == "decoders (HEADRACE_ENGINES=library)"
    assert [line.split()[0] for line in lines] == ["zstd", "gzip", "jpeg", "png", "parquet"]
    assert not any("own" in line for line in lines)
    chosen("own")
    assert "  zstd    own, then zstandard " in describe_engines()


def test_a_library_that_is_missing_is_named(chosen, monkeypatch):
    chosen("library")
    monkeypatch.setattr("headrace._optional.available", lambda name: name != "simplejpeg")
    assert "  jpeg    simplejpeg (not installed)" in describe_engines()


@pytest.mark.parametrize("order", [("--version", "-v"), ("-v", "-V")])
def test_the_command_shows_them(order):
    environment = {**os.environ, module.SETTING: "library"}
    command = [sys.executable, "-m", "headrace", *order]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[:2] == [f"headrace {hr.__version__}", "decoders (HEADRACE_ENGINES=library)"]


def count(monkeypatch, owner, name):
    """Record the calls of a function."""
    calls = []
    function = getattr(owner, name)

    def counted(*args, **options):
        calls.append(name)
        return function(*args, **options)

    monkeypatch.setattr(owner, name, counted)
    return calls


def both(chosen, read):
    """Read with our decoders and with the libraries; neither may use the cache of the other."""
    found = []
    for choice in ("own", "library"):
        chosen(choice)
        os.environ["HEADRACE_CACHE_DIR"] += f"-{choice}"
        found.append(read())
    return found


def test_zstandard(chosen, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    rows = {"x": rng.normal(size=(200, 50)).astype(np.float32), "y": np.arange(200)}
    hr.write(tmp_path / "x.array_record", rows)
    by_library = count(monkeypatch, Zstandard, "unpack_into")
    counts = []

    def read():
        before = len(by_library)
        source = hr.open(tmp_path / "x.array_record")
        batch = source.batch([*rng.permutation(200)[:90].tolist(), 7])
        one = source[7]["x"]
        counts.append(len(by_library) - before)
        return batch["x"][-1].tobytes(), one.tobytes()

    own, library = both(chosen, read)
    assert own == library
    assert counts[0] == 0
    assert counts[1] >= 92  # a frame of values in each chunk


def test_gzip(chosen, monkeypatch, tmp_path):
    rows = {"x": np.random.default_rng(0).normal(size=(3000, 100)).astype(np.float32)}
    hr.write(tmp_path / "x.tfrecord.gz", rows)
    by_us = count(monkeypatch, _native, "GzipInflater")
    counts = []

    def read():
        before = len(by_us)
        batch = hr.open(tmp_path / "x.tfrecord.gz").batch(range(3000))
        counts.append(len(by_us) - before)
        return batch["x"].tobytes()

    own, library = both(chosen, read)
    assert own == library == rows["x"].tobytes()
    assert counts[0] > 0
    assert counts[1] == 0


@pytest.mark.parametrize("functions", [("decode_jpegs", "decode_jpeg_into")])
def test_jpeg(chosen, monkeypatch, tmp_path, functions):
    schema = {"image": Feature("bytes", encoding="jpeg")}
    hr.write(tmp_path / "x.tfrecord", {"image": IMAGES}, schema=schema)
    calls = [count(monkeypatch, _native, name) for name in functions]
    counts = []

    def read():
        before = sum(map(len, calls))
        pixels = hr.open(tmp_path / "x.tfrecord").batch([0, 1, 2])["image"]
        counts.append(sum(map(len, calls)) - before)
        return pixels.tobytes()

    own, library = both(chosen, read)
    assert own == library
    assert counts[0] > 0 or not _native.jpeg_is_fast()
    assert counts[1] == 0


def test_png(chosen, monkeypatch, tmp_path):
    pixels = np.stack([noise(9, 7, seed=seed) for seed in range(3)])
    schema = {"image": Feature("uint8", (9, 7, 3), encoding="png")}
    hr.write(tmp_path / "x.tfrecord", {"image": pixels}, schema=schema)
    calls = count(monkeypatch, png._native, "decode_png")
    counts = []

    def read():
        before = len(calls)
        found = hr.open(tmp_path / "x.tfrecord").batch([0, 1, 2])["image"]
        counts.append(len(calls) - before)
        return found.tobytes()

    own, library = both(chosen, read)
    assert own == library == pixels.tobytes()
    assert counts[0] > 0
    assert counts[1] == 0
