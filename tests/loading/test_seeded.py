"""Random numbers of a loader: a function of seed, epoch and position, whatever reads them and however often a run stops."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contracts.test_random_keys import stated
from tests.loading.fakes import Numbers

import headrace as hr
from headrace.errors import StateMismatch
from headrace.sampling.samplers import InOrder, Shuffled


def draw(example, rng):
    return {"i": example["i"], "x": rng.random(), "n": rng.normal(size=int(example["i"]) % 3)}


def draw_again(example, rng):
    return {"i": example["i"], "x": example["x"], "y": rng.random()}


def seeded(n):
    return hr.ColumnSource({"i": np.arange(n)}).map(draw, seeded=True).map(draw_again, seeded=True)


def read(batches):
    return [
        (int(i), float(x), float(y))
        for batch in batches
        if len(batch["i"])
        for i, x, y in zip(batch["i"], batch["x"], batch["y"], strict=True)
    ]


def expected(order, seed, epochs):
    """Position by position, in the plainest way."""
    return [
        (
            int(order.indices(epoch, position, position + 1)[0]),
            stated(seed, epoch, position).random(),
            stated(seed, epoch, position, 1).random(),
        )
        for epoch in range(epochs)
        for position in range(len(order))
    ]


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_any_topology_gives_the_same_numbers(data):
    n, epochs, seed = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 2)), data.draw(st.sampled_from([0, 9]))
    shuffle = data.draw(st.booleans())
    wanted = expected(Shuffled(n, seed=seed) if shuffle else InOrder(n), seed, epochs)
    state, found = None, []
    while len(found) < len(wanted):  # a run that stops, and resumes with other ranks, threads and batch sizes
        world, size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 7))
        ranks = [
            hr.Loader(
                seeded(n),
                size,
                shuffle=shuffle,
                seed=seed,
                epochs=epochs,
                threads=data.draw(st.integers(0, 2)),
                shard=hr.Shard(rank, world),
            )
            for rank in range(world)
        ]
        for loader in ranks:
            if state is not None:
                loader.load_state_dict(json.loads(state))
        rounds = data.draw(st.integers(1, 12))
        streams = [iter(loader) for loader in ranks]
        for _ in range(rounds):
            batches = [next(stream, None) for stream in streams]
            if batches[0] is None:
                break
            found += read(batches)
        for stream in streams:
            stream.close()
        state = json.dumps(ranks[0].state_dict())
    assert found == wanted


@settings(deadline=None, max_examples=6)
@given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 12), st.integers(1, 2))
def test_workers_give_the_same_numbers(n, size, stop, workers):
    wanted = expected(Shuffled(n, seed=4), 4, 2)
    first = hr.Loader(seeded(n), size, shuffle=True, seed=4, epochs=2, workers=workers)
    batches = iter(first)
    found = read(islice(batches, stop))
    batches.close()
    second = hr.Loader(seeded(n), size + 1, shuffle=True, seed=4, epochs=2, threads=1)
    second.load_state_dict(first.state_dict())
    if len(found) < len(wanted):
        found += read(second)
    assert found == wanted


def test_fresh_processes_give_the_same_numbers():
    wanted = expected(InOrder(9), 2, 1)
    assert read(hr.Loader(seeded(9), 4, seed=2, workers=1, start_method="spawn")) == wanted


def test_numbers_differ_between_epochs_and_seeds():
    both = read(hr.Loader(seeded(50), 8, epochs=2)) + read(hr.Loader(seeded(50), 8, seed=1))
    assert len({x for _, x, _ in both} | {y for _, _, y in both}) == 300


class Repeating:
    """An order that reads the same example again and again."""

    def __len__(self):
        return 10

    def indices(self, epoch, start, stop):
        return np.full(stop - start, 3)


def test_an_example_at_two_positions_has_other_numbers():
    found = read(hr.Loader(seeded(5), 4, sampler=Repeating(), seed=6))
    assert found == expected(Repeating(), 6, 1)
    assert len({x for _, x, _ in found}) == 10


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("threads", [0, 1])
def test_a_mixture_counts_its_own_positions(shuffle, threads):
    mixture = hr.Mixture({seeded(7): 2, seeded(4): 1}, stop="all")
    loader = hr.Loader(mixture, 5, shuffle=shuffle, seed=3, epochs=2, threads=threads)
    found = read(loader)
    ordered = mixture.ordered(shuffle=shuffle, seed=3)[0]
    places = [ordered.place(position) for position in range(2 * len(mixture))]
    assert [i for i, _, _ in found] == [index for _, index in places]
    wanted = [divmod(position, len(mixture)) for position in range(2 * len(mixture))]
    for (_, x, y), (epoch, position), (component, _) in zip(found, wanted, places, strict=True):
        first = 2 * component  # each source has two seeded maps
        assert (x, y) == tuple(stated(3, epoch, position, first + number).random() for number in range(2))


def test_the_state_holds_the_seed():
    loader = hr.Loader(seeded(8), 2, seed=5)
    next(iter(loader))
    state = loader.state_dict()
    assert state["seed"] == 5
    with pytest.raises(StateMismatch, match="'seed'"):
        hr.Loader(seeded(8), 2, seed=6).load_state_dict(state)
    plain = hr.ColumnSource({"i": np.arange(8)})
    assert "seed" not in hr.Loader(plain, 2, seed=5).state_dict()
    assert "seed" not in hr.Loader(plain.map(dict), 2, seed=5).state_dict()


def test_a_seed_has_64_bits():
    assert read(hr.Loader(seeded(3), 3, seed=2**64 - 1)) == expected(InOrder(3), 2**64 - 1, 1)
    with pytest.raises(ValueError, match=r"\[0, 2\^64\)"):
        hr.Loader(Numbers(3), 3, seed=2**64)


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 5))
def test_keys_hold_the_positions_of_a_run(n, world, size):
    class Keyed(Numbers):
        def random_streams(self):
            return 1

        def batch_with_keys(self, indices, keys):
            assert (keys.seed, keys.epoch) == (8, 0)
            np.testing.assert_array_equal(keys.positions, indices)
            return self.batch(indices)

    seen = []
    for rank in range(world):
        loader = hr.Loader(Keyed(n), size, seed=8, threads=1, shard=hr.Shard(rank, world))
        seen += [int(i) for batch in loader for i in batch["i"]]
    assert sorted(seen) == list(range(n))


def brighten(example, rng):
    return {"view": example["image"], "x": rng.random()}


@pytest.fixture
def photographs(tmp_path):
    rng = np.random.default_rng(0)
    schema = hr.Schema({"image": hr.Feature("uint8", (None, None, 3), encoding="png")})
    hr.write(tmp_path / "x.tfrecord", {"image": rng.integers(0, 256, (11, 20, 24, 3), np.uint8)}, schema=schema)
    options = hr.ImageOptions(crop=hr.RandomResizedCrop(8), flip=True)
    return hr.open(tmp_path / "x.tfrecord", decode=options)


def test_crops_and_maps_draw_from_streams_of_their_own(photographs):
    source = photographs.map(brighten, seeded=True)
    assert source.random_streams() == 2
    whole = [
        (view.tobytes(), float(x))
        for batch in hr.Loader(source, 4, shuffle=True, seed=5, epochs=2, threads=0)
        for view, x in zip(batch["view"], batch["x"], strict=True)
    ]
    assert [x for _, x in whole] == [x for _, _, x in expected(Shuffled(11, seed=5), 5, 2)]  # stream 1, after the crops
    assert len({view for view, _ in whole}) == 22
    resumed = hr.Loader(source, 3, shuffle=True, seed=5, epochs=2, workers=1)
    stopped = hr.Loader(source, 5, shuffle=True, seed=5, epochs=2, threads=1)
    batches = iter(stopped)
    first = [next(batches), next(batches)]
    batches.close()
    resumed.load_state_dict(stopped.state_dict())
    found = [
        (view.tobytes(), float(x))
        for batch in (*first, *resumed)
        for view, x in zip(batch["view"], batch["x"], strict=True)
    ]
    assert found == whole


def noise(name):
    return lambda _, rng: {name: rng.random()}


class TestSideBySide:
    """Seeded maps that ``zip`` joins have their own numbers, also outside a loader."""

    base = hr.ColumnSource({"i": np.arange(12)})
    zipped = base.map(noise("a"), seeded=True).zip(base.map(noise("b"), seeded=True), base.map(noise("c"), seeded=True))

    def test_each_draws_from_its_own_stream(self):
        batch = self.zipped.batch(range(12))
        for stream, name in enumerate("abc"):
            assert batch[name].tolist() == [stated(0, 0, i, stream).random() for i in range(12)]
            assert [example[name] for example in self.zipped] == batch[name].tolist()

    def test_as_a_loader_of_seed_0_gives_them_in_order(self):
        wanted = self.zipped.batch(range(12))
        loaded = next(iter(hr.Loader(self.zipped, 12, seed=0)))
        assert {name: loaded[name].tolist() for name in loaded} == {name: wanted[name].tolist() for name in wanted}

    def test_slices_keep_the_numbers_of_what_they_are_slices_of(self):
        mapped = self.base.map(noise("a"), seeded=True)
        other = self.base.map(noise("b"), seeded=True)
        late = mapped[4:].zip(other[2:10])
        assert [example["a"] for example in late] == [example["a"] for example in mapped][4:]
        assert [example["b"] for example in late] == [stated(0, 0, i, 1).random() for i in range(2, 10)]
        assert [example["a"] for example in self.zipped[3:5]] == [example["a"] for example in self.zipped][3:5]

    def test_below_flat_map(self):
        doubled = self.zipped.flat_map(lambda example: [example, example])
        assert [example["b"] for example in doubled][::2] == [example["b"] for example in self.zipped]
        assert doubled.batch([6])["b"].tolist() == [self.zipped[3]["b"]]


def test_a_crop_is_the_same_for_features_that_are_read_apart(photographs):
    source = photographs.zip(photographs.rename({"image": "mask"}).select("mask"))
    assert source.random_streams() == 2
    views = list(hr.Loader(photographs, 4, shuffle=True, seed=5))
    for batch, wanted in zip(hr.Loader(source, 4, shuffle=True, seed=5), views, strict=True):
        assert np.array_equal(batch["image"], batch["mask"])
        assert np.array_equal(batch["image"], wanted["image"])
