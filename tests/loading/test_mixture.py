"""Mixtures: exact proportions, no example repeated before all were used, exact resume."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loading.fakes import Numbers

import headrace as hr
from headrace.contracts.protocols import ReadsBatches
from headrace.contracts.records import Shard
from headrace.contracts.values import Ragged
from headrace.errors import SchemaMismatch, StateMismatch, Where
from headrace.loading.loader import Loader
from headrace.loading.mixture import Mixture
from headrace.sampling.samplers import Shuffled
from headrace.sources.source import ColumnSource, Source


class Tagged(Numbers):
    """Numbers tagged with their source."""

    def __init__(self, tag, n, **options):
        super().__init__(n, fingerprint=f"{tag}{n}", **options)
        self.tag = tag

    def __repr__(self):
        return f"Tagged({self.tag!r})"

    def where(self, index):
        return Where(path=self.tag, record=index)

    def batch(self, indices):
        return {"from": np.full(len(indices), ord(self.tag)), **super().batch(indices)}


def drawn(batches):
    """``[(tag, index), ...]`` for all examples, after a check that columns belong together."""
    out = []
    for batch in batches:
        assert batch["row"].tolist() == [[i, i + 0.5] for i in batch["i"].tolist()]
        assert batch["name"].tolist() == [b"%d" % i for i in batch["i"].tolist()]
        assert batch["many"].to_list() == [[i] * (i % 3) for i in batch["i"].tolist()]
        out += [(chr(tag), i) for tag, i in zip(batch["from"].tolist(), batch["i"].tolist(), strict=True)]
    return out


SIZES = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 5)), min_size=1, max_size=4)


def mixture_of(sizes, **options):
    return Mixture([(Tagged(chr(97 + k), n), weight) for k, (n, weight) in enumerate(sizes)], **options)


def test_order_of_a_mixture():
    a, b = Tagged("a", 6), Tagged("b", 2)
    mixture = Mixture({a: 3, b: 1})
    assert len(mixture) == 8
    assert drawn(Loader(mixture, 3)) == [
        ("a", 0), ("a", 1), ("b", 0), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("a", 5)
    ]  # fmt: skip
    assert mixture.parts == (3, 1)
    assert repr(mixture) == "<Mixture of 2 sources, 3:1, 8 examples an epoch>"


@pytest.mark.parametrize(("stop", "length"), [("first", 11), ("all", 39)])
def test_end_of_an_epoch(stop, length):
    mixture = Mixture({Tagged("a", 20): 1, Tagged("b", 5): 1}, stop=stop)
    assert len(mixture) == length
    count = Counter(tag for tag, _ in drawn(Loader(mixture, 4)))
    assert count["a"] == (length + 1) // 2
    assert len(set(drawn(Loader(mixture, 4)))) == {"first": 11, "all": 25}[stop]


@settings(deadline=None, max_examples=60)
@given(SIZES, st.sampled_from(["first", "all"]), st.booleans(), st.integers(0, 9), st.integers(1, 7))
def test_every_source_is_gone_through_whole(sizes, stop, shuffle, seed, batch_size):
    mixture = mixture_of(sizes, stop=stop)
    loader = Loader(mixture, batch_size, shuffle=shuffle, seed=seed, epochs=4, threads=1)
    found = drawn(loader)
    assert len(found) == 4 * len(mixture)
    for k, (n, _) in enumerate(sizes):
        mine = [i for tag, i in found if tag == chr(97 + k)]
        for start in range(0, len(mine), n):
            once = mine[start : start + n]
            assert len(set(once)) == len(once)
            if not shuffle:
                assert once == list(range(len(once)))
    first_epoch = Counter(found[: len(mixture)])
    if stop == "first":
        assert max(first_epoch.values()) == 1
    else:
        assert len(first_epoch) == sum(n for n, _ in sizes)


@given(SIZES, st.booleans())
def test_every_stretch_keeps_the_proportions(sizes, shuffle):
    mixture = mixture_of(sizes)
    found = [tag for tag, _ in drawn(islice(Loader(mixture, 3, shuffle=shuffle, epochs=None, threads=0), 40))]
    total = sum(weight for _, weight in sizes)
    for k, (_, weight) in enumerate(sizes):
        held = np.cumsum([tag == chr(97 + k) for tag in found])
        assert abs(held - np.arange(1, len(found) + 1) * weight / total).max() < 1


def test_shuffled_order_is_forever():
    # Changing this is a breaking release.
    found = drawn(Loader(Mixture({Tagged("a", 4): 1, Tagged("b", 4): 1}), 16, shuffle=True, seed=5, epochs=2))
    assert [f"{tag}{i}" for tag, i in found] == ORDER
    assert [i for tag, i in found if tag == "a"] != [i for tag, i in found if tag == "b"]


ORDER = ["a2", "b1", "a3", "b0", "a0", "b2", "a1", "b3", "a1", "b2", "a3", "b0", "a0", "b3", "a2", "b1"]


def test_its_own_shuffle():
    found = drawn(Loader(Mixture({Tagged("a", 4): 1, Tagged("b", 4): 1}, shuffle=True, seed=5), 16, epochs=2))
    assert [f"{tag}{i}" for tag, i in found] == ORDER


@settings(deadline=None, max_examples=40)
@given(SIZES, st.integers(0, 20), st.booleans(), st.integers(1, 3), st.integers(1, 5))
def test_exact_resume_and_shards(sizes, stop, shuffle, world, batch_size):
    options = {"shuffle": shuffle, "seed": 3, "epochs": 3}
    whole = drawn(Loader(mixture_of(sizes), 4, threads=0, **options))
    loader = Loader(mixture_of(sizes), 4, threads=1, **options)
    first = drawn(islice(loader, stop))
    state = json.loads(json.dumps(loader.state_dict()))
    if state["epoch"] == 3:
        return
    ranks = [Loader(mixture_of(sizes), batch_size, shard=Shard(r, world), threads=0, **options) for r in range(world)]
    for rank in ranks:
        rank.load_state_dict(state)
    assert sorted(first + list(chain(*(drawn(rank) for rank in ranks)))) == sorted(whole)


def test_a_state_of_another_mixture():
    state = Loader(mixture_of([(5, 1), (6, 2)]), 4, shuffle=True).state_dict()
    Loader(mixture_of([(5, 1), (6, 2)]), 4, shuffle=True).load_state_dict(state)
    for other in (
        Loader(mixture_of([(5, 1), (6, 3)]), 4, shuffle=True),
        Loader(mixture_of([(5, 1), (7, 2)]), 4, shuffle=True),
        Loader(mixture_of([(5, 1), (6, 2)], stop="all"), 4, shuffle=True),
        Loader(mixture_of([(5, 1), (6, 2)]), 4, shuffle=True, seed=1),
        Loader(mixture_of([(5, 1), (6, 2)]), 4),
    ):
        with pytest.raises(StateMismatch):
            other.load_state_dict(state)


def test_as_a_source():
    mixture = mixture_of([(6, 3), (2, 1)])
    assert isinstance(mixture, ReadsBatches)
    assert [(chr(e["from"]), int(e["i"])) for e in mixture] == drawn([mixture.batch(np.arange(8))])
    assert drawn([mixture.batch([5, 2, 2, 100])]) == [
        (chr(mixture[k]["from"]), int(mixture[k]["i"])) for k in (5, 2, 2, 100)
    ]
    assert mixture.place(6) == (1, 1)
    assert mixture.where(6) == Where(path="b", record=1)
    assert len(mixture.batch([])["i"]) == 0
    with pytest.raises(IndexError):
        mixture[-1]
    with pytest.raises(IndexError):
        mixture.batch([0, -1])
    copy = pickle.loads(pickle.dumps(mixture))
    assert copy.fingerprint == mixture.fingerprint


def test_a_sampler_over_a_mixture():
    mixture = mixture_of([(6, 3), (2, 1)])
    found = drawn(Loader(mixture, 3, sampler=Shuffled(8, seed=1)))
    assert sorted(found) == sorted(drawn(Loader(mixture, 8)))


def test_sources_that_differ_in_kind():
    """If one source has fixed rows and another varying ones, the batch varies and is not cut."""
    fixed, varying = ColumnSource({"x": np.arange(8).reshape(4, 2)}), Ragged3()
    mixture = Mixture({fixed: 1, varying: 1})
    assert not mixture.cuts_cleanly
    batch = mixture.batch(np.arange(4))
    assert batch["x"].to_list() == [[0, 1], [0], [2, 3], [1, 1]]
    assert Mixture({fixed: 1, ColumnSource({"x": np.zeros((3, 2), np.int64)}): 1}).cuts_cleanly
    assert list(Mixture({fixed: 1}).schema) == ["x"]


class Ragged3:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return {"x": np.full(index + 1, index)}

    def batch(self, indices):
        return {"x": Ragged.from_list([self[i]["x"] for i in indices.tolist()])}


def test_refusals():
    with pytest.raises(ValueError, match="stop must be"):
        mixture_of([(5, 1)], stop="last")
    with pytest.raises(ValueError, match=r"cannot draw from Tagged\('b'\), which is empty"):
        mixture_of([(5, 1), (0, 1)])
    with pytest.raises(ValueError, match="at least one component"):
        Mixture({})
    with pytest.raises(ValueError, match="a weight is a positive number, got 0"):
        mixture_of([(5, 0)])
    with pytest.raises(
        SchemaMismatch, match=r"expected the features \['x'\] in every source of a mixture, found \['y'\]"
    ):
        Mixture({ColumnSource({"x": np.zeros(3)}): 1, ColumnSource({"y": np.zeros(3)}): 1})
    unnamed = Mixture([(Tagged("a", 3), 1), (Numbers(3), 1)])
    with pytest.raises(SchemaMismatch, match="in every source"):
        unnamed.batch([0, 1])


# Quotas


@pytest.mark.parametrize("stop", ["first", "all"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_batch_holds_the_quotas(stop, shuffle):
    mixture = Mixture({Tagged("a", 100): 5, Tagged("b", 70): 2, Tagged("c", 31): 1}, stop=stop, quotas=True)
    assert (mixture.batch_multiple, len(mixture) % 8) == (8, 0)
    for size in (8, 16):
        batches = list(Loader(mixture, size, shuffle=shuffle, epochs=3))
        for batch in batches:
            n = len(batch["from"])
            assert n % 8 == 0
            assert Counter(batch["from"].tolist()) == {ord("a"): 5 * n // 8, ord("b"): 2 * n // 8, ord("c"): n // 8}
        assert sum(len(batch["from"]) for batch in batches) == 3 * len(mixture)


def test_quotas_with_a_common_divisor():
    mixture = Mixture({Tagged("a", 400): 96, Tagged("b", 400): 32}, quotas=True)
    assert (mixture.parts, mixture.batch_multiple) == ((3, 1), 4)
    for size in (128, 4, 12):
        assert all(
            3 * (batch["from"] == ord("b")).sum() == (batch["from"] == ord("a")).sum()
            for batch in Loader(mixture, size)
        )


@pytest.mark.parametrize("world", [2, 3])
def test_quotas_of_every_rank(world):
    mixture = Mixture({Tagged("a", 100): 3, Tagged("b", 90): 1}, quotas=True)
    for rank in range(world):
        for batch in Loader(mixture, 8, shard=Shard(rank, world), epochs=2, drop_last=True):
            assert Counter(batch["from"].tolist()) == {ord("a"): 6, ord("b"): 2}


def test_quotas_where_an_epoch_ends():
    first = Mixture({Tagged("a", 10): 3, Tagged("b", 90): 1}, quotas=True)
    assert len(first) == 12, "nine of ten: the tenth would begin a group that cannot be whole"
    whole = Mixture({Tagged("a", 10): 3, Tagged("b", 2): 1}, stop="all", quotas=True)
    assert len(whole) == 16
    assert {
        int(i) for batch in Loader(whole, 4) for i, tag in zip(batch["i"], batch["from"]) if tag == ord("a")
    } == set(range(10))


def test_quotas_that_cannot_be():
    a, b = Tagged("a", 10), Tagged("b", 10)
    with pytest.raises(ValueError, match=r"a quota is an integer of at least 1, got 0\.5"):
        Mixture({a: 0.5, b: 0.5}, quotas=True)
    with pytest.raises(ValueError, match="got 0"):
        Mixture({a: 1, b: 0}, quotas=True)
    with pytest.raises(ValueError, match="too small for its quota"):
        Mixture({a: 11, b: 1}, quotas=True)
    with pytest.raises(ValueError, match="need a batch_size that is a multiple of 4, got 6"):
        Loader(Mixture({a: 3, b: 1}, quotas=True), 6)


def test_a_state_belongs_to_quotas_or_not():
    sources = {Tagged("a", 12): 3, Tagged("b", 4): 1}
    plain, exact = Loader(Mixture(sources), 4), Loader(Mixture(sources, quotas=True), 4)
    assert len(plain.source) == len(exact.source)
    with pytest.raises(StateMismatch):
        exact.load_state_dict(plain.state_dict())


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (None, "got None"),
        (5, "got 5"),
        ("x.tfrecord", "got 'x.tfrecord'"),
        ({5: 1}, "got 5, which is no source"),
        ({"x.tfrecord": 1}, "got 'x.tfrecord', which is no source"),
        ([Tagged("a", 3)], "in the place of a pair"),
        ([(Tagged("a", 3), 1, 2)], "in the place of a pair"),
        ([3], "in the place of a pair"),
        ([(Tagged("a", 3), None)], "a weight is a positive number, got None, which is NoneType"),
        ([(Tagged("a", 3), [1])], r"got \[1\], which is list"),
        ([(Tagged("a", 3), True)], "got True, which is bool"),
        ([(Tagged("a", 3), 1j)], "got 1j, which is complex"),
    ],
)
def test_invalid_mixtures(sources, words):
    with pytest.raises(TypeError, match=words):
        Mixture(sources)


@pytest.mark.parametrize("positions", [[0.7, 1.9], [False, True], [[0, 1]], np.array([1.0])])
def test_positions_that_are_no_integers_are_refused(positions):
    mixture = Mixture({Numbers(4): 1})
    with pytest.raises(TypeError, match="positions must be"):
        mixture.batch(positions)
    assert all(len(column) == 0 for column in mixture.batch([]).values())


def test_a_frame_with_a_column_named_batch():
    frame = pytest.importorskip("pandas").DataFrame({"batch": [1, 2], "x": [1.0, 2.0]})
    (batch,) = Loader(Mixture([(frame, 1)]), 2)
    assert batch["batch"].tolist() == [1, 2]


def test_a_mixture_in_a_mixture_goes_on_from_epoch_to_epoch():
    for shuffle in (False, True):
        inner = Mixture([(Tagged("a", 3), 1), (Tagged("b", 10), 1)])
        outer = Mixture([(inner, 1), (Tagged("c", 30), 1)])
        found = drawn(Loader(outer, 4, epochs=20, shuffle=shuffle, seed=2))
        of_b = [i for tag, i in found if tag == "b"]
        assert all(sorted(of_b[at : at + 10]) == list(range(10)) for at in range(0, len(of_b) - 10, 10))
        assert (of_b[:10] == list(range(10))) is not shuffle
        assert drawn([outer.batch([9])]) == [(chr(outer[9]["from"]), int(outer[9]["i"]))]
        first = Loader(outer, 4, epochs=20, shuffle=shuffle, seed=2)
        batches = iter(first)
        seen = drawn(islice(batches, 7))
        rest = Loader(outer, 3, epochs=20, shuffle=shuffle, seed=2)
        rest.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert seen + drawn(rest) == found


def test_a_mixture_is_a_part_of_other_sources():
    one, other = ColumnSource({"x": np.arange(6)}), ColumnSource({"x": np.arange(100, 108)})
    mixture = Mixture([(one, 1), (other, 1)])
    first_epoch = [int(example["x"]) for example in mixture]

    def read(source, feature="x"):
        return [int(x) for batch in Loader(source, 5) for x in batch[feature]]

    assert read(one.concat(mixture)) == [*range(6), *first_epoch]
    assert read(ColumnSource({"y": np.arange(len(mixture))}).zip(mixture)) == first_epoch
    assert read(Source(mixture)) == read(Source(Source(one).concat(mixture)[6:])) == first_epoch
    assert [int(example["x"]) for example in hr.open(mixture)] == first_epoch
    ragged = ColumnSource({"x": Ragged.from_list([[1], [2, 3]], "int64")})
    packed = hr.Packed(Mixture([(ragged, 1), (ragged, 1)]), 4, feature="x")
    assert next(iter(Loader(packed, 2)))["x"].tolist() == [[1, 1, 0, 0], [2, 3, 2, 3]]


def test_a_mixture_is_written(tmp_path):
    mixture = Mixture([(ColumnSource({"x": np.arange(3)}), 1), (ColumnSource({"x": np.arange(10, 13)}), 1)])
    assert hr.write(tmp_path / "a.npz", mixture) == 6
    hr.convert(mixture, tmp_path / "b.npz")
    for name in "ab":
        assert hr.open(tmp_path / f"{name}.npz").batch(range(6))["x"].tolist() == [0, 10, 1, 11, 2, 12]


def test_arguments_are_checked_as_those_of_a_loader():
    pair = {hr.ColumnSource({"i": np.arange(10)}): 1, hr.ColumnSource({"i": np.arange(6)}): 1}
    five = hr.Mixture(pair, shuffle=True, seed=5)
    for seed in (np.int64(5), np.uint32(5)):
        same = hr.Mixture(pair, shuffle=True, seed=seed)
        assert same.fingerprint == five.fingerprint
        assert same.batch(range(12))["i"].tolist() == five.batch(range(12))["i"].tolist()
    for seed in (True, None, "1", 1.5):
        with pytest.raises(TypeError, match="seed must be an integer"):
            hr.Mixture(pair, shuffle=True, seed=seed)
    with pytest.raises(ValueError, match="seed must be at least 0"):
        hr.Mixture(pair, seed=-1)
    with pytest.raises(ValueError, match=r"a seed is in \[0, 2\^64\)"):
        hr.Mixture(pair, seed=2**64)
    for name in ("shuffle", "quotas"):
        with pytest.raises(TypeError, match=f"{name} must be True or False, got 'no'"):
            hr.Mixture(pair, **{name: "no"})


def test_slices_of_a_mixture_are_those_of_a_source():
    mixture = hr.Mixture({hr.ColumnSource({"x": np.arange(6)}): 1})
    for key in (slice(3), [0, 1], "x"):
        with pytest.raises(TypeError, match=r"one example by position.*hr.Source\(mixture\) has slices"):
            mixture[key]
    assert hr.Source(mixture)[:3].batch([2])["x"].tolist() == [2]
