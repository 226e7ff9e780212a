"""What objects look like in a session: with public names, and without reading what takes long."""

from __future__ import annotations

import re

import numpy as np
import pytest

import headrace as hr

SOURCE = hr.ColumnSource(
    {
        "x": np.arange(6),
        "word": list("abcdef"),
        "tokens": hr.Ragged.from_list([[1], [2, 3], [], [4], [5], [6]], "int32"),
    }
)
OF_SOURCES = {
    "slices": lambda source: source[1:3],
    "masks": lambda source: source[source["x"] > 3],
    "select": lambda source: source.select("x"),
    "rename": lambda source: source.rename({"x": "y"}),
    "map": lambda source: source.map(dict),
    "seeded map": lambda source: source.map(lambda example, rng: example, seeded=True),
    "filter": lambda source: source.filter(bool),
    "flat_map": lambda source: source.flat_map(lambda example: [example]),
    "window": lambda source: source.window(2),
    "windows of a feature": lambda source: source.window(1, feature="tokens"),
    "shard": lambda source: source.shard(0, 2),
    "split": lambda source: source.split("train[:50%]"),
    "concat": lambda source: source.concat(source),
    "zip": lambda source: source.zip(source.select("x").rename({"x": "y"})),
    "encoded": lambda source: source.encoded(),
    "head": lambda source: source.head(),
    "skip": lambda source: source.skip(2),
    "sample": lambda source: source.sample(3),
    "random_split": lambda source: source.random_split([0.5, 0.5])[0],
    "sort": lambda source: source.sort("x"),
}


@pytest.mark.parametrize("name", OF_SOURCES)
def test_sources_are_sources(name):
    made = OF_SOURCES[name](hr.Source(SOURCE.node))
    assert re.fullmatch(r"<Source of (\d+ examples?|filtered examples|examples not counted yet): .+>", repr(made))


def test_what_users_hold_shows_public_names(tmp_path):
    path, copy = tmp_path / "a.tfrecord", tmp_path / "b.npz"
    hr.write(path, SOURCE)
    source = hr.open(path)
    loader = hr.Loader(source, 2)
    shuffled = hr.Loader(hr.Mixture({source: 1, SOURCE.select(*source.schema): 2}), 2, shuffle=True)
    batches = iter(loader)
    next(batches)
    objects = [
        source, source.schema, source.schema["x"], source["x"], source["x"][1:], source.where(0), source.skipped, source.records, loader, batches,
        shuffled, iter(shuffled), loader.sampler, shuffled.sampler, loader.report(), loader.shard, hr.Packed(source, 8, feature="tokens"),
        source.cache(tmp_path / "stored", key="1"), hr.from_generator(lambda: [{"x": 1}]), hr.condition("x > 3"), hr.Pad("tokens"),
        hr.Bucket("tokens", bounds=(4,)), hr.Pack("tokens", length=8), hr.CSV(), hr.ImageOptions(), hr.RandomResizedCrop(8), hr.Feature("int8"),
        hr.ReadInstruction("train"), *hr.even_splits("train", 2), hr.stats(path), hr.verify(path), hr.convert(path, copy, columns=["x"]),
        hr.records(path), source.batch([0, 1])["tokens"], source.batch([0, 1])["word"], hr.Mixture({source: 1}), hr.Writer(tmp_path / "c.tfrecord"),
        hr.open(copy).records, hr.SparseKeys("i", "v", 3), hr.RaggedKeys("v", [("row_splits", "s")]),
    ]  # fmt: skip
    for each in objects:
        text = repr(each)
        assert type(each).__name__ in text or isinstance(each, hr.Source) or text.startswith("condition("), text
        assert not re.search(r"\b_[A-Z]| object at 0x|Node\b", text), text


def test_a_loop_shows_where_it_is():
    loader = hr.Loader(SOURCE, 2, epochs=2)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    assert repr(batches).startswith("<Batches of <ColumnSource of 6 examples: x int64")
    assert repr(batches).endswith(", epoch 1, position 2>")
    assert repr(hr.Mixture({SOURCE: 1})) == "<Mixture of 1 source, 6 examples an epoch>"
    assert repr(hr.Mixture([(SOURCE, 1), (SOURCE, 3)])) == "<Mixture of 2 sources, 1:3, 8 examples an epoch>"
