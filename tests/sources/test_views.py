"""Nodes made from other nodes."""

from __future__ import annotations

import numpy as np

import headrace as hr
from headrace.sources.operations.expand import Windows
from headrace.sources.operations.joined import Concatenated, Zipped
from headrace.sources.source import Source
from headrace.sources.tables import ColumnNode
from headrace.sources.views import Chosen, Selected, copy_example


def numbers(start, n, name="x"):
    return ColumnNode({name: np.arange(start, start + n)})


class Stored:
    """Example ``i`` takes ``i`` bytes."""

    schema = numbers(0, 1).schema

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def batch(self, indices):
        return {"x": indices}

    def stored_bytes(self, first, stop):
        assert 0 <= first < stop <= self.n
        return sum(range(first, stop))


def test_views_know_where_their_examples_lie():
    node = Stored(100)
    assert Selected(node, {"y": "x"}).stored_bytes(10, 13) == 33
    assert Chosen(node, range(20, 80)).stored_bytes(10, 13) == 93
    assert Chosen(node, range(80, 20, -1)).stored_bytes(0, 3) == Chosen(node, range(78, 81)).stored_bytes(0, 3) == 237
    assert Chosen(node, range(20, 80, 10)).stored_bytes(1, 3) == sum(range(30, 41)) * 2 // 11
    assert (
        Chosen(node, range(20, 80, 10)).stored_bytes(1, 2) == Chosen(node, np.array([3, 30])).stored_bytes(1, 2) == 30
    )
    assert Chosen(node, np.array([9, 4, 8, 50])).stored_bytes(0, 3) == sum(range(4, 10)) * 3 // 6
    both = Concatenated((Stored(10), numbers(0, 3), Stored(5)))
    assert both.stored_bytes(8, 9) == 8
    assert both.stored_bytes(8, 15) == 8 + 9 + 3 * 8 + 0 + 1
    assert both.stored_bytes(17, 18) == 4
    assert Zipped((node, Selected(Chosen(node, range(99, -1, -1)), {"y": "x"}))).stored_bytes(4, 7) == 3 * 99
    assert Windows(node, 4, 2).stored_bytes(3, 5) == sum(range(6, 12)) * 8 // 6


def test_examples_beyond_the_end_of_a_source_take_nothing():
    source = Source(Stored(10))
    assert source.stored_bytes(7, 20) == 24
    assert source.stored_bytes(10, 20) == source.stored_bytes(5, 5) == source.stored_bytes(6, 3) == 0
    assert source.filter(lambda example: example["x"] % 2 == 0).stored_bytes(1, 3) == sum(range(2, 5)) * 2 // 3
    assert source.map(dict).stored_bytes(0, 3) == 0  # A function may make anything of them.


def test_a_source_that_reads_in_its_own_way_does_not_say():
    class Own(Source):
        def batch(self, indices):
            return {"x": np.asarray(indices) * 2}

    assert Own(Stored(10)).stored_bytes(0, 10) == 0


def test_seeded_maps_draw_the_same_however_concat_nests():
    first, second = (
        hr.ColumnSource({"x": np.arange(3.0) + n}).map(lambda e, rng: {"x": e["x"] + rng.random()}, seeded=True)
        for n in (0, 10)
    )
    plain = hr.ColumnSource({"x": np.arange(2.0)})
    nested = first.concat(plain.concat(second)).concat(first)
    flat = first.concat(plain, second, first)
    for read in (
        lambda s: s.batch(range(len(s)))["x"].tolist(),
        lambda s: [float(e["x"]) for e in s],
        lambda s: [x for b in hr.Loader(s, 4, shuffle=True, seed=2) for x in b["x"].tolist()],
    ):
        assert read(nested) == read(flat)


def test_copies_of_buffers_are_bytes():
    buffer = bytearray(b"ab")
    copied = copy_example({"a": buffer, "b": memoryview(buffer), "c": [buffer]})
    buffer[0] = 0
    assert copied == {"a": b"ab", "b": b"ab", "c": [b"ab"]}
