"""Workers make the same batches as the loop itself."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import threading
import time

import numpy as np
import pytest
import scipy.sparse
from tests.loading.fakes import Damaged, Numbers, indices_of
from tests.loading.workers import fakes

import headrace as hr

# JAX, where another test has imported it, and Python 3.12 warn of forks in general.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
METHODS = ["fork", "spawn", "forkserver"]


def same(left, right):
    assert type(left) is type(right)
    if isinstance(left, hr.Ragged):
        same(left.values, right.values)
        same(left.offsets, right.offsets)
    elif isinstance(left, np.ndarray):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tolist() == right.tolist()
    elif scipy.sparse.issparse(left):
        assert left.shape == right.shape
        same(left.toarray(), right.toarray())
    elif isinstance(left, (list, tuple)):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    elif isinstance(left, dict):
        assert list(left) == list(right)
        for name in left:
            same(left[name], right[name])
    else:
        assert left == right


def forked(source, size, **options):
    return hr.Loader(source, size, **{"workers": 2, "start_method": "fork", **options})


def no_child():
    return not [child for child in multiprocessing.active_children() if child.name.startswith("headrace")]


@pytest.mark.parametrize("method", METHODS)
def test_batches_are_those_of_the_loop(method):
    source = fakes.Rich(203, cuts_cleanly=False)
    plain = list(hr.Loader(source, 16, shuffle=True, seed=3, epochs=2, threads=0))
    made = list(hr.Loader(source, 16, shuffle=True, seed=3, epochs=2, workers=2, start_method=method))
    assert len(plain) == len(made) == 26
    for one, other in zip(plain, made, strict=True):
        same(one, other)
    assert no_child()


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("cuts_cleanly", [True, False])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"shard": hr.Shard(rank=1, world=3)}, {"prefetch": 0}])
def test_arguments(workers, cuts_cleanly, options):
    source = Numbers(1000, cuts_cleanly=cuts_cleanly)
    wanted = indices_of(hr.Loader(source, 7, shuffle=True, epochs=2, threads=0, **options))
    assert indices_of(forked(source, 7, shuffle=True, epochs=2, workers=workers, **options)) == wanted


def test_functions_run_in_the_workers():
    loader = forked(fakes.columns().map(fakes.doubled), 8, map_batch=fakes.with_process)
    processes = set()
    for batch in loader:
        assert (batch["twice"] == 2 * batch["i"]).all()
        processes.update(batch["process"].tolist())
    assert len(processes) == 2
    assert os.getpid() not in processes


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_filters_are_evaluated_by_the_workers(method, monkeypatch):
    source = fakes.columns().filter(fakes.is_odd).map(fakes.doubled).filter(fakes.is_odd)
    loader = hr.Loader(source, 8, workers=2, start_method=method)
    monkeypatch.setattr(fakes, "is_odd", None)
    # The predicates of the source are unevaluated functions; had this process called them, none would be left.
    called = []
    source.node.predicate = source.node.parent.parent.predicate = _Recording(called)
    assert [i for batch in loader for i in batch["i"].tolist()] == list(range(1, 300, 2))
    assert called == []
    assert list(source.filters()) == []
    assert no_child()


class _Recording:
    """A predicate that notes calls in this process only."""

    def __init__(self, called):
        self.called = called
        self.home = os.getpid()

    def __call__(self, example):
        if os.getpid() == self.home:
            self.called.append(1)
        return bool(example["i"] % 2)


def test_a_filter_that_fails():
    source = fakes.columns().filter(fakes.fails_at_100)
    with pytest.raises(hr.TransformError, match=r"fails_at_100 on example 100 failed with KeyError") as failure:
        len(forked(source, 8))
    assert isinstance(failure.value.__cause__, KeyError)
    assert no_child()


def test_state_resumes_with_another_number_of_workers():
    source = fakes.columns(100).map(fakes.doubled)
    whole = [batch["i"].tolist() for batch in hr.Loader(source, 8, shuffle=True, epochs=2)]
    loader = forked(source, 8, shuffle=True, epochs=2)
    batches = iter(loader)
    read = [next(batches)["i"].tolist() for _ in range(5)]
    for workers in (0, 1, 3, 2):
        state = json.loads(json.dumps(loader.state_dict()))
        plain = hr.Loader(source, 8, shuffle=True, epochs=2)
        plain.load_state_dict(state)
        assert plain.state_dict() == state
        batches.close()
        loader = hr.Loader(source, 8, shuffle=True, epochs=2, workers=workers, start_method="fork")
        loader.load_state_dict(state)
        batches = iter(loader)
        read += [next(batches)["i"].tolist() for _ in range(4)]
    read += [batch["i"].tolist() for batch in batches]
    assert read == whole


def test_a_mixture():
    mixture = hr.Mixture({fakes.columns(60): 3, fakes.columns(90): 1})
    wanted = [batch["i"].tolist() for batch in hr.Loader(mixture, 8, shuffle=True)]
    assert [batch["i"].tolist() for batch in forked(mixture, 8, shuffle=True)] == wanted


def test_a_loop_left_early_resumes():
    loader = forked(Numbers(100), 10)
    first = []
    for batch in loader:
        first.append(batch)
        if len(first) == 3:
            break
    gc.collect()
    assert no_child()
    assert indices_of(first + list(loader)) == indices_of(hr.Loader(Numbers(100), 10))


def test_several_iterators_at_once():
    loader = forked(Numbers(200), 10)
    wanted = indices_of(hr.Loader(Numbers(200), 10))
    one, other = iter(loader), iter(loader)
    both = [(next(one), next(other)) for _ in range(20)]
    assert indices_of(batch for batch, _ in both) == indices_of(batch for _, batch in both) == wanted
    one.close()
    other.close()
    assert no_child()


def test_batches_are_yours_as_long_as_you_hold_them():
    """More batches are held than there are slots, and none of them changes."""
    loader = forked(Numbers(1000, cuts_cleanly=False), 10)
    assert indices_of(list(loader)) == indices_of(hr.Loader(Numbers(1000), 10))


def test_batches_can_be_written_to():
    for batch in forked(Numbers(100), 10):
        batch["row"] += 1
        assert (batch["row"][:, 0] == batch["i"] + 1).all()


def test_no_epoch_and_no_example():
    assert list(forked(Numbers(0), 4)) == []
    loader = forked(Numbers(10), 4, epochs=None)
    batches = iter(loader)
    assert [len(next(batches)["i"]) for _ in range(7)] == [4, 4, 2, 4, 4, 2, 4]
    batches.close()
    assert no_child()


def test_report():
    loader = forked(fakes.columns().map(fakes.doubled), 8, map_batch=fakes.with_process)
    assert len(list(loader)) == 38
    report = loader.report()
    assert (report.workers, report.threads, report.batches, report.examples) == (2, 0, 38, 300)
    assert report.reading_s > 0
    assert report.transform_s > 0
    assert report.carrying_s > 0
    assert report.helping_s == 0
    assert "workers=2" in str(report)
    assert "copying from workers" in str(report)


def test_a_loader_with_workers_can_be_pickled():
    loader = pickle.loads(pickle.dumps(forked(Numbers(50), 8)))
    assert indices_of(loader) == indices_of(hr.Loader(Numbers(50), 8))


# Errors


@pytest.mark.parametrize("method", METHODS)
def test_an_error_of_a_function(method):
    source = fakes.columns().map(fakes.fails_at_100)
    errors = []
    for options in ({"threads": 0}, {"workers": 2, "start_method": method}):
        loader, seen = hr.Loader(source, 8, **options), []
        with pytest.raises(hr.TransformError) as failure:
            seen += [batch["i"].tolist() for batch in loader]
        errors.append(failure.value)
        assert loader.state_dict()["position"] == 96
    plain, carried = errors
    assert str(carried) == str(plain)
    assert (carried.function, carried.where) == (plain.function, plain.where)
    assert type(carried.__cause__) is KeyError
    assert carried.__cause__.args == ("one hundred",)
    (note,) = carried.__notes__
    assert note.startswith("In worker ")
    assert 'raise KeyError("one hundred")' in note
    assert no_child()


def test_an_error_in_map_batch_names_the_batch():
    with pytest.raises(hr.TransformError, match=r"map_batch=fails_at_100 on batch 0 of epoch 0 \(positions 0 to 1\)"):
        list(forked(fakes.columns(101)[100:], 4, map_batch=fakes.fails_at_100))


def test_a_cause_that_pickle_does_not_bring_back():
    with pytest.raises(hr.TransformError, match="odd_at_100 on example 100 failed with Odd: 1 is not 2") as failure:
        list(forked(fakes.columns().map(fakes.odd_at_100), 8))
    assert type(failure.value.__cause__) is RuntimeError
    assert str(failure.value.__cause__) == "Odd: 1 is not 2"


def test_damaged_data():
    loader, seen = forked(Damaged(100, {57}), 5), []
    with pytest.raises(hr.CorruptRecord, match=r"record 57") as failure:
        seen.extend(loader)
        for batch in loader:
            seen.append(batch)
    assert failure.value.where == hr.Where(path="numbers", record=57)
    assert loader.state_dict()["position"] == 55


def test_leaving_the_process_in_a_function():
    with pytest.raises(SystemExit) as end:
        list(forked(fakes.columns().map(fakes.exits_at_100), 8))
    assert end.value.code == 7
    assert no_child()


def test_objects_that_cannot_be_carried():
    loader, seen = forked(fakes.columns(100), 10, map_batch=fakes.uncarried_from_20), []
    batches = iter(loader)
    for _ in range(2):
        seen.append(next(batches)["i"][0])
    with pytest.raises(
        hr.UnsupportedData, match=r"can be pickled to leave a worker.*<lambda>.*feature 'maker'.*workers=0"
    ):
        next(batches)
    assert seen == [0, 10]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_objects_that_cannot_be_pickled_are_named(method):
    loader = hr.Loader(fakes.columns().map(lambda example: example)[5:], 8, workers=2, start_method=method)
    with pytest.raises(
        hr.UnsupportedData, match=r"found source\.node\.parent\.function = <function .*<lambda>.*top level"
    ):
        next(iter(loader))
    assert no_child()


def test_a_map_batch_that_cannot_be_pickled_is_named():
    loader = hr.Loader(fakes.columns(), 8, workers=2, start_method="spawn", map_batch=lambda batch: batch)
    with pytest.raises(hr.UnsupportedData, match=r"found transform = <function .*<lambda>"):
        next(iter(loader))


def test_an_order_that_cannot_be_pickled_is_named():
    loader = hr.Loader(fakes.columns(), 8, workers=2, start_method="spawn", sampler=_Locked())
    with pytest.raises(hr.UnsupportedData, match=r"found sampler\.lock = <unlocked _thread\.lock"):
        next(iter(loader))


class _Locked:
    def __init__(self):
        self.lock = threading.Lock()

    def __len__(self):
        return 300

    def indices(self, epoch, start, stop):
        return np.arange(start, stop)


def test_objects_of_this_process_only_are_named(monkeypatch):
    monkeypatch.setattr(fakes, "here_only", fakes.doubled, raising=False)
    function = type(fakes.doubled)(fakes.doubled.__code__, vars(fakes), "here_only")
    function.__qualname__, function.__module__ = "here_only", fakes.__name__
    monkeypatch.setattr(fakes, "here_only", function)
    loader = hr.Loader(fakes.columns().map(function), 8, workers=1, start_method="spawn")
    with pytest.raises(
        hr.UnsupportedData, match=r"a fresh process can import.*here_only.*notebook.*start_method='fork'"
    ):
        next(iter(loader))
    assert no_child()


def test_arguments_that_are_refused():
    with pytest.raises(ValueError, match="workers must be at least 0"):
        hr.Loader(Numbers(3), 2, workers=-1)
    with pytest.raises(ValueError, match="by threads or by workers: give one of the two"):
        hr.Loader(Numbers(3), 2, workers=2, threads=2)
    with pytest.raises(ValueError, match="start_method must be 'fork', 'spawn' or 'forkserver', got 'thread'"):
        hr.Loader(Numbers(3), 2, workers=2, start_method="thread")


def test_fork_is_chosen_only_where_it_is_sound(monkeypatch):
    from headrace.loading.workers.pool import choose_start_method

    monkeypatch.delitem(__import__("sys").modules, "jax", raising=False)
    this = threading.current_thread()
    monkeypatch.setattr(threading, "enumerate", lambda: [this])
    assert choose_start_method(None) == ("fork", "")
    another = threading.Thread(name="another")
    monkeypatch.setattr(threading, "enumerate", lambda: [this, another])
    assert choose_start_method(None) == ("forkserver", "other threads run (another)")
    assert choose_start_method("fork") == ("fork", "")
    monkeypatch.setitem(__import__("sys").modules, "jax", object())
    assert choose_start_method(None) == ("forkserver", "JAX is loaded")


def test_threads_of_a_loop_that_was_left_end_before_a_fork(monkeypatch):
    from headrace.loading.workers.pool import choose_start_method

    monkeypatch.delitem(__import__("sys").modules, "jax", raising=False)
    before = set(threading.enumerate())
    slow = hr.ColumnSource({"x": np.arange(40)}).map(lambda example: time.sleep(0.01) or example)
    for _ in hr.Loader(slow, 10, threads=2):
        break
    assert set(threading.enumerate()) - before
    choose_start_method(None)
    assert not set(threading.enumerate()) - before


# Slots


def test_slots_grow_in_place_and_are_used_again(monkeypatch):
    loader = forked(_Growing(60), 1)
    sizes, made = [], []
    for batch in loader:
        sizes.append(batch["x"].size)
        assert (batch["x"] == batch["i"][0]).all()
        made.append(batch["x"].__array_interface__["data"][0])
    assert sizes == [1000 * (i + 1) for i in range(60)]


class _Growing(Numbers):
    def batch(self, indices):
        return {"i": indices.copy(), "x": np.full((1, 1000 * (int(indices[0]) + 1)), indices[0], np.float64)}


def test_nothing_grows():
    """Over many batches: the same few slots, descriptors and objects; nothing is copied while one batch at a time is held."""
    places, counts = set(), []
    batches = iter(forked(_Large(4000, cuts_cleanly=False), 4, map_batch=with_counts))
    for number, batch in enumerate(batches):
        places.add(batch["x"].__array_interface__["data"][0])
        if number in (100, 900):
            gc.collect()
            counts.append((len(os.listdir("/proc/self/fd")), len(gc.get_objects()), *batch["counts"][0].tolist()))
            assert batches._blocks._lending.copied == 0
    assert len(places) <= 7
    early, late = np.array(counts)
    assert late[0] == early[0]
    assert late[2] <= early[2] + 7, "a worker maps a slot when it first gets it"
    assert (late[[1, 3]] - early[[1, 3]] < 50).all()
    assert len(os.listdir("/proc/self/fd")) < early[0]
    assert no_child()


class _Large(Numbers):
    def batch(self, indices):
        return {"i": indices.copy(), "x": np.full((len(indices), 30_000), indices[0], np.uint8)}


def with_counts(batch):
    held = 0, 0
    if batch["i"][0] in (400, 3600):
        gc.collect()
        held = len(os.listdir("/proc/self/fd")), len(gc.get_objects())
    return {**batch, "counts": np.full((len(batch["i"]), 2), held)}


def test_batches_held_beyond_the_slots_are_copied():
    batches = iter(forked(_Large(400, cuts_cleanly=False), 4))
    held = [next(batches) for _ in range(40)]
    lending = batches._blocks._lending
    assert lending.copied > 20
    assert lending.lent == 3
    for number, batch in enumerate(held):
        assert (batch["x"] == batch["i"][0]).all()
        assert batch["i"][0] == number * 4
    batches.close()
    assert all((batch["x"] == batch["i"][0]).all() for batch in held)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_tensors_of_all_dtypes_leave_a_worker():
    import torch

    whole = torch.arange(24).reshape(4, 6)
    names = ("uint8", "int16", "int64", "bool", "float16", "float64", "complex64", "bfloat16", "complex32")
    kinds = [getattr(torch, name) for name in (*names, *(name for name in dir(torch) if name.startswith("float8_")))]

    def tensors(_):
        made = [whole.to(torch.float32).to(kind) for kind in kinds]
        return {
            "whole": made,
            "strided": [tensor[:, ::2] for tensor in made],
            "turned": [tensor.T for tensor in made],
            "single": [tensor[1, 1] for tensor in made],
            "none": [tensor[:0] for tensor in made],
        }

    expected = tensors(None)
    (found,) = forked(Numbers(2), 2, map_batch=tensors)
    for name, made in expected.items():
        for one, other in zip(made, found[name], strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            assert repr(one.tolist()) == repr(other.tolist())


@pytest.mark.torch
def test_tensors_are_not_named_for_other_objects():
    import torch

    loader = forked(
        Numbers(2), 2, map_batch=lambda _: {"x": torch.zeros(2, dtype=torch.float8_e4m3fn), "maker": lambda: 0}
    )
    with pytest.raises(hr.UnsupportedData, match="feature 'maker'"):
        next(iter(loader))


def other_features_later(example):
    return {"a": example["i"]} if example["i"] < 4 else {"b": example["i"]}


def several_with_other_features_later(example):
    return [other_features_later(example)]


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_features_are_those_of_the_first_example_in_every_worker(workers):
    numbers = hr.ColumnSource({"i": np.arange(16)})
    for source in (numbers.map(other_features_later), numbers.flat_map(several_with_other_features_later)):
        read = []
        with pytest.raises(hr.SchemaMismatch, match=r"expected the features \['a'\] from .* for example 4 "):
            read.extend(forked(source, 4, workers=workers, start_method="fork" if workers else None))
        assert [batch["a"].tolist() for batch in read] == [[0, 1, 2, 3]]
