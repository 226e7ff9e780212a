"""Stop and resume: exact to the batch, with any world, batch size or number of threads."""

from __future__ import annotations

import json
from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.loading.fakes import Numbers, indices_of, wait_for_threads

import headrace as hr
from headrace.contracts.records import Shard
from headrace.errors import StateMismatch
from headrace.loading.loader import Loader
from headrace.sampling.samplers import Shuffled


def test_state_is_forever():
    # Changing this is a breaking release.
    loader = Loader(Numbers(10, fingerprint="9f2c"), 4, shuffle=True, seed=7)
    next(iter(loader))
    assert loader.state_dict() == {
        "version": 1,
        "epoch": 0,
        "position": 4,
        "examples": 10,
        "order": "Shuffled(10, seed=7)",
        "fingerprint": "9f2c",
    }


def test_state_is_small_json():
    source = Numbers(1 << 40, fingerprint="0123456789abcdef")
    loader = Loader(source, 128, shuffle=True, seed=2**64 - 1)
    loader.load_state_dict({**loader.state_dict(), "epoch": 10**6, "position": 1 << 39})
    text = json.dumps(loader.state_dict())
    assert len(text) < 1000
    loader.load_state_dict(json.loads(text))
    assert (loader.epoch, loader.state_dict()["position"]) == (10**6, 1 << 39)


@pytest.mark.parametrize("threads", [0, 2])
def test_state_counts_what_was_received(threads):
    loader = Loader(Numbers(1000), 3, threads=threads, prefetch=8)
    for number, _ in zip(range(50), loader, strict=False):
        assert loader.state_dict()["position"] == 3 * (number + 1)


def test_the_end_of_an_epoch_is_the_beginning_of_the_next():
    loader = Loader(Numbers(6), 3, epochs=2)
    places = [(loader.epoch, loader.state_dict()["position"]) for _ in loader]
    assert places == [(0, 3), (1, 0), (1, 3), (2, 0)]


def test_a_state_of_the_end_resumes_with_the_next_epochs():
    """As the next loop of the same loader does. A run that is over shows by ``epoch``."""
    loader = Loader(Numbers(6), 3, shuffle=True, epochs=2)
    list(loader)
    resumed = Loader(Numbers(6), 3, shuffle=True, epochs=2)
    resumed.load_state_dict(loader.state_dict())
    assert (resumed.epoch, len(resumed)) == (2, 4)
    assert indices_of(resumed) == indices_of(loader)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 60),
    st.integers(1, 7),
    st.integers(0, 30),
    st.sampled_from([None, 3]),
    st.integers(0, 2),
    st.integers(0, 2),
)
def test_going_on_equals_never_having_stopped(n, size, stop, seed, threads, other_threads):
    options = {"shuffle": seed is not None, "seed": seed or 0, "epochs": 3}
    whole = indices_of(Loader(Numbers(n), size, threads=0, **options))
    loader = Loader(Numbers(n), size, threads=threads, **options)
    first = indices_of(islice(loader, stop))
    state = json.loads(json.dumps(loader.state_dict()))
    if len(first) == len(whole):
        assert (state["epoch"], state["position"]) == (3, 0)
        return
    resumed = Loader(Numbers(n), size, threads=other_threads, **options)
    resumed.load_state_dict(state)
    assert len(resumed) == len(whole) - len(first)
    assert first + indices_of(resumed) == whole


def run_as_lightning(loader, seen, *, epochs, state=None, done=(0, 0), stop=None):
    """What its training loop does with a loader (2.6): `setup_data` in loops/fit_loop.py, and `fetched` in loops/fetchers.py."""
    epoch, fetched = done
    if state is not None:
        loader.load_state_dict(state)
    iterator = iter(loader)
    most = len(loader)  # for every epoch
    for number in range(epoch, epochs):
        if number > epoch:
            iterator, fetched = iter(loader), 0
        assert len(loader) == most
        while fetched < most:
            seen.append((number, fetched, next(iterator)["i"].tolist()))
            fetched += 1
            if (number, fetched) == stop:
                return loader.state_dict()
        assert next(iterator, None) is None
    return None


@pytest.mark.parametrize("stop", [(0, 1), (0, 3), (1, 2), (2, 4)])
@pytest.mark.parametrize("epochs", [1, 2])
def test_lightning_resumes_in_the_middle_of_an_epoch(stop, epochs):
    """It counts the batches of an epoch from its start, also those before the stop, and asks for their number after it has loaded the state."""

    def make():
        return Loader(Numbers(40), 5, shuffle=True, epochs=epochs)

    whole, parts = [], []
    run_as_lightning(make(), whole, epochs=4)
    state = run_as_lightning(make(), parts, epochs=4, stop=stop)
    run_as_lightning(make(), parts, epochs=4, state=state, done=stop)
    assert parts == whole
    assert len(whole) == 4 * epochs * 8


def test_a_running_iterator_does_not_mind_a_state():
    loader = Loader(Numbers(20), 3)
    start = loader.state_dict()
    batches = iter(loader)
    next(batches)
    loader.load_state_dict(start)
    assert indices_of([next(batches)]) == [[3, 4, 5]]
    assert loader.state_dict() == start
    assert indices_of(islice(loader, 1)) == [[0, 1, 2]]


def test_a_position_at_the_end_is_the_next_epoch():
    loader = Loader(Numbers(10), 3)
    loader.load_state_dict({**loader.state_dict(), "position": 10})
    assert len(loader) == 4
    assert list(chain(*indices_of(loader))) == list(range(10))
    assert loader.epoch == 2


def test_too_little_left_for_a_round():
    loader = Loader(Numbers(10), 4, drop_last=True)
    loader.load_state_dict({**loader.state_dict(), "position": 8})
    assert len(loader) == 0
    assert list(loader) == []
    assert loader.epoch == 1
    assert indices_of(loader) == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (Numbers(11, fingerprint="a"), {"seed": 1}, "expected 11 as 'examples' of the state, found 10"),
        (Numbers(10, fingerprint="b"), {"seed": 1}, "expected 'b' as 'fingerprint' of the state, found 'a'"),
        (Numbers(10, fingerprint="a"), {"seed": 2}, "expected 'Shuffled(10, seed=2)' as 'order' of the state"),
        (Numbers(10, fingerprint="a"), {"shuffle": False}, "expected 'InOrder(10)' as 'order' of the state"),
    ],
)
def test_a_state_of_something_else(source, options, message):
    state = Loader(Numbers(10, fingerprint="a"), 3, shuffle=True, seed=1).state_dict()
    loader = Loader(source, 3, **{"shuffle": True, **options})
    with pytest.raises(StateMismatch) as caught:
        loader.load_state_dict(state)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": None},
        {"epoch": -1},
        {"epoch": "0"},
        {"epoch": True},
        {"epoch": 2**70},
        {"epoch": np.bool_(True)},
        {"position": 11},
        {"position": -1},
        {"position": 0.5},
        {"position": None},
    ],
)
def test_an_invalid_state(change):
    loader = Loader(Numbers(10), 3)
    with pytest.raises(StateMismatch, match=f"as '{next(iter(change))}' of the state"):
        loader.load_state_dict({**loader.state_dict(), **change})
    with pytest.raises(StateMismatch, match="'version'"):
        loader.load_state_dict({})


@pytest.mark.parametrize("state", [None, [], "x", 7])
def test_what_is_no_state(state):
    with pytest.raises(TypeError, match=r"a state is the dict that state_dict\(\) gave, got"):
        Loader(Numbers(10), 3).load_state_dict(state)


def test_counts_of_numpy_in_a_state():
    loader = Loader(Numbers(10), 3)
    loader.load_state_dict({**loader.state_dict(), "epoch": np.int64(5), "position": np.uint8(3)})
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (5, 3)
    assert json.loads(json.dumps(state)) == state


def test_a_sampler_of_ones_own_is_known_by_its_fingerprint():
    class Own:
        def __init__(self, step):
            self.fingerprint = f"Own({step})"

        def __len__(self):
            return 10

        def indices(self, epoch, start, stop):
            return np.arange(start, stop)

    state = Loader(Numbers(10), 3, sampler=Own(1)).state_dict()
    Loader(Numbers(10), 3, sampler=Own(1)).load_state_dict(state)
    with pytest.raises(StateMismatch, match=r"expected 'Own\(2\)' as 'order' of the state"):
        Loader(Numbers(10), 3, sampler=Own(2)).load_state_dict(state)


class Run(RuleBasedStateMachine):
    """A training run on several ranks that is repeatedly stopped, moved and resized.

    Every position of every epoch must be read exactly once, whatever happens.
    """

    @initialize(n=st.integers(1, 80), seed=st.sampled_from([None, 0, 11]), epochs=st.sampled_from([1, 2, None]))
    def begin(self, n, seed, epochs):
        self.n, self.seed, self.epochs = n, seed, epochs
        self.seen: list[list[int]] = [[]]
        self.state = None
        self.start(1, 4, 0, 2)

    def start(self, world, batch_size, threads, prefetch):
        source = Numbers(self.n, fingerprint="the same")
        self.ranks = [
            Loader(
                source,
                batch_size,
                shuffle=self.seed is not None,
                seed=self.seed or 0,
                shard=Shard(rank, world),
                threads=threads,
                prefetch=prefetch,
                epochs=self.epochs,
            )
            for rank in range(world)
        ]
        if self.state is not None:
            for loader in self.ranks:
                loader.load_state_dict(self.state)
        self.iterators = [iter(loader) for loader in self.ranks]

    @rule(count=st.integers(1, 12))
    def read(self, count):
        for _ in range(count):
            epoch = self.ranks[0].epoch
            batches = [next(iterator, None) for iterator in self.iterators]
            if batches[0] is None:
                assert all(batch is None for batch in batches)
                self.iterators = [iter(loader) for loader in self.ranks]
                continue
            while len(self.seen) <= epoch:
                self.seen.append([])
            self.seen[epoch] += chain(*indices_of(batches))

    @rule()
    def leave_the_loop(self):
        self.iterators = [iter(loader) for loader in self.ranks]

    @rule(
        world=st.integers(1, 5),
        batch_size=st.integers(1, 9),
        threads=st.integers(0, 2),
        prefetch=st.integers(0, 3),
        rank=st.integers(0, 4),
    )
    def stop_and_go_on_elsewhere(self, world, batch_size, threads, prefetch, rank):
        states = [json.loads(json.dumps(loader.state_dict())) for loader in self.ranks]
        assert all(state == states[0] for state in states)
        self.state = states[rank % len(states)]
        self.close()
        self.start(world, batch_size, threads, prefetch)

    @invariant()
    def everything_once(self):
        epoch, position = self.ranks[0].epoch, self.ranks[0].state_dict()["position"]
        for number, seen in enumerate(self.seen):
            order = (
                np.arange(self.n) if self.seed is None else Shuffled(self.n, seed=self.seed).indices(number, 0, self.n)
            )
            reached = self.n if number < epoch else position if number == epoch else 0
            assert sorted(seen) == sorted(order[:reached].tolist())

    def close(self):
        for iterator in self.iterators:
            iterator.close()
        assert wait_for_threads()  # those of abandoned loops may still be ending

    def teardown(self):
        if hasattr(self, "iterators"):
            self.close()


Run.TestCase.settings = settings(deadline=None, max_examples=30, stateful_step_count=20)
TestRun = Run.TestCase


class TestFunctionsInTheFingerprint:
    base = hr.ColumnSource({"i": np.arange(10)})

    def test_values_that_vary_are_named_as_a_cause(self):
        varying = iter(range(100))
        state = Loader(self.base.map(lambda _: {"x": next(varying)}), 2).state_dict()
        with pytest.raises(StateMismatch, match=r"'fingerprint' of the state.*a function of map.*seeded=True"):
            Loader(self.base.map(lambda _: {"x": next(varying)}), 2).load_state_dict(state)

    def test_a_changed_state_is_named_as_such(self):
        loader = Loader(self.base, 2)
        with pytest.raises(StateMismatch, match="The state was edited"):
            loader.load_state_dict({**loader.state_dict(), "epoch": "1"})
        with pytest.raises(StateMismatch, match="from another version"):
            loader.load_state_dict({})

    def test_a_run_whose_last_example_fails_saves_its_state(self):
        def fail(example):
            if example["i"] == 9:
                raise ValueError("no")
            return example

        loader = Loader(self.base.map(fail), 2)
        assert next(iter(loader))["i"].tolist() == [0, 1]
        again = Loader(self.base.map(fail), 2)
        again.load_state_dict(loader.state_dict())
        assert next(iter(again))["i"].tolist() == [2, 3]
        with pytest.raises(StateMismatch, match="fingerprint"):
            Loader(self.base.map(dict), 2).load_state_dict(loader.state_dict())
