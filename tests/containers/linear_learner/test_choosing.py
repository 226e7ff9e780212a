"""Which library takes the steps, on a clock of the tests' own."""

import sys

import pytest

from headrace.containers.linear_learner.training import choosing
from headrace.containers.linear_learner.training.choosing import Choice
from headrace.containers.linear_learner.training.libraries import NUMPY

OTHER = object()
EXAMPLES = 1000
WIDE = choosing.WORTH_A_STEP // EXAMPLES + 1


@pytest.fixture
def loads(monkeypatch):
    """How often PyTorch has been loaded; it is installed, and has not been loaded before."""
    times = []
    monkeypatch.setattr(choosing, "available", lambda name: True)
    monkeypatch.setattr(choosing, "torch_library", lambda: times.append(1) or OTHER)
    monkeypatch.setattr(choosing, "sys", type("Sys", (), {"modules": {}}))
    return times


def steps(choice, count, numpy, torch, examples=EXAMPLES):
    """Steps that take so many seconds by either; who took each."""
    taken = []
    for _ in range(count):
        taken.append("NumPy" if choice.library is NUMPY else "PyTorch")
        choice.took(numpy if choice.library is NUMPY else torch, examples)
    return taken


def test_a_long_job_is_given_to_the_faster_one(loads):
    choice = Choice(WIDE)
    first = int(choosing.WORTH_LOADING / 0.1)
    assert set(steps(choice, first, 0.1, 0.05)) == {"NumPy"}
    taken = steps(choice, 5000, 0.1, 0.05)
    assert taken.count("PyTorch") > 4900
    assert taken.count("NumPy") >= choosing.TRIAL  # now and again it is asked whether that is still so
    assert loads == [1]
    assert choice.steps == {"NumPy": first + taken.count("NumPy"), "PyTorch": taken.count("PyTorch")}


def test_one_that_is_slower_here_is_left_alone_but_for_trials(loads):
    choice = Choice(WIDE)
    steps(choice, 1000, 0.1, 0.4)
    taken = steps(choice, 20_000, 0.1, 0.4)
    assert 0 < taken.count("PyTorch") <= 8 * choosing.TRIAL
    assert loads == [1]


def test_a_machine_that_becomes_busy_is_noticed(loads):
    choice = Choice(WIDE)
    steps(choice, 2000, 0.1, 0.05)
    busy = steps(choice, 1000, 0.11, 0.4)
    assert busy.count("PyTorch") <= choosing.SOON + 3 * choosing.TRIAL
    assert busy[-500:].count("PyTorch") <= choosing.TRIAL
    calm = steps(choice, 2000, 0.1, 0.05)
    assert calm[-300:].count("NumPy") <= choosing.TRIAL


def test_what_is_ahead_counts(loads):
    choice = Choice(WIDE)
    steps(choice, 10, 0.1, 0.05)
    choice.plan(int(choosing.WORTH_LOADING / 0.1) * EXAMPLES, EXAMPLES)
    steps(choice, 1, 0.1, 0.05)
    assert loads == [1]
    assert set(steps(choice, choosing.TRIAL, 0.1, 0.05)) == {"PyTorch"}


@pytest.mark.parametrize("ahead", [0, 50])
def test_a_short_job_loads_nothing(loads, ahead):
    choice = Choice(WIDE)
    steps(choice, 100, 0.1, 0.05)
    choice.plan(ahead * EXAMPLES, EXAMPLES)
    assert set(steps(choice, 50, 0.1, 0.05)) == {"NumPy"}
    assert loads == []


def test_small_steps_are_numpys(loads):
    choice = Choice(100)
    choice.plan(10**9, EXAMPLES)
    assert set(steps(choice, 2000, 0.1, 0.01)) == {"NumPy"}
    wide = Choice(WIDE)
    steps(wide, 10, 0.1, 0.01)
    wide.plan(10**9, 8)  # parts of mini-batches
    assert set(steps(wide, 2000, 0.1, 0.01, examples=8)) == {"NumPy"}
    assert loads == []


def test_where_pytorch_is_loaded_already_it_is_tried_sooner(loads):
    choosing.sys.modules["torch"] = sys
    choice = Choice(WIDE)
    steps(choice, int(choosing.WORTH_TRYING / 0.1) + 2, 0.1, 0.05)
    assert choice.library is OTHER


@pytest.mark.parametrize("wrong", [ImportError("no such symbol"), OSError("libgomp.so.1"), RuntimeError("twice")])
def test_one_that_cannot_be_loaded_is_as_good_as_none(monkeypatch, loads, wrong):
    tried = []

    def broken():
        tried.append(1)
        raise wrong

    monkeypatch.setattr(choosing, "torch_library", broken)
    choice = Choice(WIDE)
    assert set(steps(choice, 2000, 0.1, 0.05)) == {"NumPy"}
    assert tried == [1]


def test_without_pytorch_nothing_is_asked(monkeypatch, loads):
    monkeypatch.setattr(choosing, "available", lambda name: False)
    choice = Choice(WIDE)
    assert set(steps(choice, 2000, 0.1, 0.05)) == {"NumPy"}
    assert loads == []
