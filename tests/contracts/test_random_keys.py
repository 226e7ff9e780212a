"""Random numbers of examples: the stated generator, and nothing that carries over from one example to the next."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.random_keys import RandomKeys, describe, generators_at, read_batch

WORDS = st.integers(0, 2**64 - 1)
POSITIONS = st.lists(st.integers(0, 2**62), min_size=1, max_size=6)


def stated(seed, epoch, position, stream=0):
    """The generator that the documentation states."""
    key, counter = (seed, stream), (0, position, epoch, int.from_bytes(b"headrace", "big"))
    return np.random.Generator(np.random.Philox(key=np.array(key, np.uint64), counter=np.array(counter, np.uint64)))


@given(WORDS, st.integers(0, 2**63), POSITIONS, st.integers(0, 5))
def test_the_generator_is_the_stated_one(seed, epoch, positions, stream):
    keys = RandomKeys(seed, epoch, np.array(positions), stream)
    found = [generator.integers(0, 2**63, 9).tolist() for generator in keys.generators()]
    assert found == [stated(seed, epoch, p, stream).integers(0, 2**63, 9).tolist() for p in positions]


@given(POSITIONS, st.data())
def test_what_one_example_draws_does_not_change_the_next(positions, data):
    for generator, position in zip(generators_at(positions, seed=3), positions, strict=True):
        assert generator.random() == stated(3, 0, position).random()
        for _ in range(data.draw(st.integers(0, 5))):  # an odd number of 32-bit draws leaves half a word over
            generator.random(dtype=np.float32)
        generator.normal(size=data.draw(st.integers(0, 5)))


@given(POSITIONS, st.integers(0, 5), st.integers(1, 3))
def test_children_of_a_generator_depend_on_its_example(positions, drawn, count):
    found = []
    for generator in generators_at([*positions, *positions], seed=3, epoch=2):
        generator.random(drawn)  # what was drawn before changes nothing
        children = [*generator.spawn(count), *generator.spawn(1)]
        found.append([int(child.integers(2**63)) for child in children])
    assert found[: len(positions)] == found[len(positions) :]
    flat = {number for numbers in found for number in numbers}
    assert len(flat) == len(set(positions)) * (count + 1)  # All differ.


def test_numbers_are_pinned():
    # Changing these is a breaking release: a run that resumes would see other data.
    keys = RandomKeys(7, 2, np.array([0, 1, 10**12]))
    assert [int(generator.integers(10**6)) for generator in keys.generators()] == [982911, 802734, 688092]
    children = [int(generator.spawn(1)[0].integers(10**6)) for generator in keys.generators()]
    assert children == [312990, 23764, 644436]


def test_rows_and_streams():
    keys = RandomKeys(7, 1, np.array([4, 9, 2, 9]))
    rows = keys.uniform(3)
    np.testing.assert_array_equal(keys.take(np.array([2, 0])).uniform(3), rows[[2, 0]])
    np.testing.assert_array_equal(keys.take(slice(1, 3)).uniform(3), rows[1:3])
    np.testing.assert_array_equal(keys.take(keys.positions == 9).uniform(3), rows[[1, 3]])
    np.testing.assert_array_equal(rows[1], rows[3])
    np.testing.assert_array_equal(rows[0], stated(7, 1, 4).random(3))
    np.testing.assert_array_equal(keys.skip(2).uniform(3)[0], stated(7, 1, 4, 2).random(3))
    assert keys.skip(0) is keys
    assert keys.skip(1).skip(1).stream == 2


@given(st.tuples(WORDS, st.integers(0, 9), st.integers(0, 9)), st.tuples(WORDS, st.integers(0, 9), st.integers(0, 9)))
def test_other_keys_give_other_numbers(one, other):
    (drawn,) = [stated(*one[:2], one[2]).integers(0, 2**63, 2).tolist()]
    assert (drawn == stated(*other[:2], other[2]).integers(0, 2**63, 2).tolist()) == (one == other)


def test_numbers_of_neighbours_are_unrelated():
    numbers = np.stack([RandomKeys(seed, 0, np.arange(2000)).uniform(4) for seed in (0, 1)])
    flat = np.concatenate([numbers[0], numbers[1], RandomKeys(0, 1, np.arange(2000)).uniform(4)], axis=1)
    assert np.abs(flat.mean(axis=0) - 0.5).max() < 0.04
    assert np.abs(np.corrcoef(flat.T) - np.eye(12)).max() < 0.1
    assert abs(np.corrcoef(flat[:-1, 0], flat[1:, 0])[0, 1]) < 0.1


def test_a_generator_says_where_it_comes_from():
    (generator,) = RandomKeys(2**64 - 1, 3, np.array([12])).generators()
    generator.random(1000)
    assert describe(generator) == f"seed {2**64 - 1}, epoch 3, position 12"


class Plain:
    def batch(self, indices):
        return {"plain": indices}


class Keyed(Plain):
    def batch_with_keys(self, indices, keys):
        return {"keyed": keys.positions}


class PassingOn(Plain):
    def __getattr__(self, name):
        return getattr(Keyed(), name)


@pytest.mark.parametrize(
    ("source", "keys", "name"),
    [
        (Plain(), True, "plain"),
        (Keyed(), True, "keyed"),
        (Keyed(), False, "plain"),
        (PassingOn(), True, "plain"),
    ],
)
def test_keys_reach_what_takes_them(source, keys, name):
    indices = np.arange(3)
    given_keys = RandomKeys.of_indices(indices) if keys else None
    assert list(read_batch(source, indices, given_keys)) == [name]
