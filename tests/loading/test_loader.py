"""The loader: contents of batches, ends of loops, errors."""

from __future__ import annotations

import decimal
import gc
import json
import pickle
import threading
import time
import tracemalloc
from contextvars import ContextVar
from itertools import chain, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loading.fakes import Damaged, Numbers, indices_of, wait_for_threads

import headrace as hr
from headrace import _native
from headrace.contracts.records import Shard
from headrace.errors import CorruptRecord, SchemaMismatch, TransformError, Where
from headrace.loading.jobs import OpenRun
from headrace.loading.loader import Loader, idle_bytes
from headrace.sampling.samplers import InOrder, Shuffled

THREADS = pytest.mark.parametrize("threads", [0, 1, 3])


def batches_of(n, size):
    return [list(range(start, min(start + size, n))) for start in range(0, n, size)]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 60),
    st.integers(1, 9),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([None, 0, 7]),
    st.booleans(),
)
def test_contents_of_a_batch(n, size, threads, prefetch, cuts_cleanly, seed, drop_last):
    """It depends only on order and batch size, not on threads, prefetching or job size."""
    order = {} if seed is None else {"shuffle": True, "seed": seed}
    loader = Loader(
        Numbers(n, cuts_cleanly=cuts_cleanly),
        size,
        threads=threads,
        prefetch=prefetch,
        drop_last=drop_last,
        epochs=2,
        **order,
    )
    found = indices_of(loader)
    expected = []
    for epoch in range(2):
        indices = (InOrder(n) if seed is None else Shuffled(n, seed=seed)).indices(epoch, 0, n).tolist()
        expected += [indices[i : i + size] for i in range(0, n, size)]
    if drop_last:
        expected = [batch for batch in expected if len(batch) == size]
    assert found == expected
    assert wait_for_threads()


def test_each_loop_runs_the_next_epochs():
    loader = Loader(Numbers(10), 4, shuffle=True, seed=3)
    order = Shuffled(10, seed=3)
    for epoch in range(3):
        assert loader.epoch == epoch
        assert list(chain(*indices_of(loader))) == order.indices(epoch, 0, 10).tolist()
    pairs = Loader(Numbers(10), 4, shuffle=True, seed=3, epochs=2)
    for first in (0, 2):
        whole = order.indices(first, 0, 10).tolist() + order.indices(first + 1, 0, 10).tolist()
        assert list(chain(*indices_of(pairs))) == whole


def test_an_abandoned_loop_resumes_at_its_position():
    loader = Loader(Numbers(10), 2)
    assert indices_of(islice(loader, 2)) == [[0, 1], [2, 3]]
    assert indices_of(islice(loader, 1)) == [[4, 5]]
    assert indices_of(loader) == [[6, 7], [8, 9]]
    assert indices_of(loader) == batches_of(10, 2)


def test_endless_epochs():
    loader = Loader(Numbers(5), 2, epochs=None, shuffle=True, seed=1)
    order = Shuffled(5, seed=1)
    found = list(chain(*indices_of(islice(loader, 30))))
    assert found == [order[i] for i in range(50)]
    with pytest.raises(TypeError, match="epochs=None has no length"):
        len(loader)


@pytest.mark.parametrize(
    ("n", "options"), [(0, {}), (3, {"drop_last": True}), (5, {"drop_last": True, "shard": Shard(0, 2)})]
)
def test_endless_epochs_without_a_batch_are_refused(n, options):
    with pytest.raises(ValueError, match="epochs=None would never end"):
        next(iter(Loader(Numbers(n), 4, epochs=None, **options)))


def test_the_length_stays_the_same_inside_a_loop():
    loader = Loader(Numbers(10), 3, epochs=2)
    assert [len(loader) for _ in loader] == [8] * 8
    for batch in loader:
        assert len(loader) == 8
        if batch["i"][0] == 3:
            break
    batches = iter(loader)
    assert len(loader) == 8
    batches.close()
    assert len(loader) == 6


def test_length_is_what_a_loop_would_give():
    loader = Loader(Numbers(10), 3, epochs=3)
    assert len(loader) == 12
    list(islice(loader, 5))
    assert len(loader) == 7 == len(list(loader))
    assert len(loader) == 12
    assert len(Loader(Numbers(10), 3, drop_last=True)) == 3
    assert len(Loader(Numbers(0), 3)) == 0 == len(list(Loader(Numbers(0), 3)))


def test_fewer_examples_than_a_batch():
    assert indices_of(Loader(Numbers(3), 100)) == [[0, 1, 2]]
    assert indices_of(Loader(Numbers(3), 100, drop_last=True)) == []


@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 5), st.booleans(), st.sampled_from([None, 5]))
@settings(deadline=None, max_examples=40)
def test_ranks_share_an_epoch(n, world, size, drop_last, seed):
    order = {} if seed is None else {"shuffle": True, "seed": seed}
    ranks = [
        indices_of(Loader(Numbers(n), size, shard=Shard(rank, world), drop_last=drop_last, threads=1, **order))
        for rank in range(world)
    ]
    assert len({len(batches) for batches in ranks}) == 1
    whole = Shuffled(n, seed=seed).indices(0, 0, n).tolist() if seed is not None else list(range(n))
    kept = n - n % (world * size) if drop_last else n
    assert sorted(chain(*chain(*ranks))) == sorted(whole[:kept])


def test_a_rank_without_an_example_gets_an_empty_batch():
    (batch,) = Loader(Numbers(1), 4, shard=Shard(1, 2))
    assert batch["row"].shape == (0, 2)
    assert len(batch["many"]) == 0


class Backwards:
    fingerprint = "backwards"

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def indices(self, epoch, start, stop):
        return [self.n - 1 - i for i in range(start, stop)]


def test_a_sampler_of_ones_own():
    assert indices_of(Loader(Numbers(5), 2, sampler=Backwards(5))) == [[4, 3], [2, 1], [0]]
    assert indices_of(Loader(Numbers(5), 2, sampler=Backwards(3))) == [[2, 1], [0]]
    with pytest.raises(IndexError):
        list(Loader(Numbers(5), 2, sampler=Backwards(9)))


def test_a_sampler_that_gives_too_few():
    class Short(Backwards):
        def indices(self, epoch, start, stop):
            return super().indices(epoch, start, stop - 1)

    with pytest.raises(ValueError, match=r"Short\.indices gave 1 indices for 2 positions"):
        list(Loader(Numbers(5), 2, sampler=Short(5)))


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 1}, {"threads": 0, "shard": hr.Shard(0, 2)}])
def test_a_sampler_that_gives_more_axes(options):
    class Own(Backwards):
        def indices(self, epoch, start, stop):
            return np.arange(start, stop)[:, None]

    with pytest.raises(TypeError, match=r"Own\.indices must give one axis of integers, got shape \(\d, 1\)"):
        list(Loader(Numbers(9), 2, sampler=Own(9), **options))


def test_more_epochs_than_a_state_holds():
    with pytest.raises(ValueError, match="epochs must be at most"):
        Loader(Numbers(9), 2, epochs=2**70)


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (lambda rows: rows * 0.5, "float64"),
        (lambda rows: rows % 2 == 0, "bool"),
        (lambda rows: rows.astype(str), "<U21"),
        (lambda rows: [float(row) for row in rows], "float64"),
    ],
)
@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 1}, {"threads": 0, "shard": hr.Shard(0, 2)}])
def test_a_sampler_that_gives_no_integers(made, found, options):
    """They were cut: half of the examples came twice."""

    class Own(Backwards):
        def indices(self, epoch, start, stop):
            return made(np.arange(start, stop))

    with pytest.raises(TypeError, match=rf"Own\.indices must give integers, got {found}"):
        list(Loader(Numbers(8), 2, sampler=Own(8), **options))


@pytest.mark.parametrize("made", [list, tuple, *(np.dtype(kind).type for kind in "bhiqBHIQ")])
def test_a_sampler_that_gives_any_integers(made):
    class Own(Backwards):
        def indices(self, epoch, start, stop):
            return made(np.arange(start, stop))

    assert indices_of(Loader(Numbers(5), 2, sampler=Own(5))) == [[0, 1], [2, 3], [4]]
    assert indices_of(Loader(Numbers(5), 2, sampler=Own(0))) == []


def test_a_sampler_that_gives_unsigned_integers_beyond_all_indices():
    class Own(Backwards):
        def indices(self, epoch, start, stop):
            return np.full(stop - start, 2**64 - 1, np.uint64)

    with pytest.raises(IndexError, match="18446744073709551615"):
        list(Loader(Numbers(5), 2, sampler=Own(5)))


def test_a_source_that_gives_too_few():
    class Short(Numbers):
        def batch(self, indices):
            return {"i": indices[1:]}

    with pytest.raises(SchemaMismatch, match="expected 2 rows from the source, found 1 - at feature 'i'"):
        list(Loader(Short(5), 2))


@THREADS
@pytest.mark.parametrize("cuts_cleanly", [True, False])
def test_damage_comes_in_place_of_its_batch(threads, cuts_cleanly, own_threads):
    loader = Loader(Damaged(100, {50}, cuts_cleanly=cuts_cleanly), 3, threads=threads)
    batches = iter(loader)
    assert indices_of(next(batches) for _ in range(16)) == batches_of(48, 3)
    with pytest.raises(CorruptRecord, match=r"numbers, record 50") as caught:
        next(batches)
    assert caught.value.where == Where(path="numbers", record=50)
    assert not own_threads()
    assert next(batches, None) is None
    # The state is before the failed batch: a new loop tries it again.
    assert loader.state_dict()["position"] == 48
    with pytest.raises(CorruptRecord):
        next(iter(loader))


def test_a_temporary_fault_is_not_damage():
    class Flaky(Numbers):
        def batch(self, indices):
            if len(indices) > 2:
                raise OSError("too much at a time")
            return super().batch(indices)

    assert indices_of(Loader(Flaky(500), 2)) == batches_of(500, 2)


def test_map_batch_fails_on_an_empty_batch():
    def fail(batch):
        return batch["i"][0]

    with pytest.raises(TransformError, match=r"positions 1 to 1\) failed with IndexError"):
        list(Loader(Numbers(1), 4, shard=Shard(1, 2), map_batch=fail))


@THREADS
def test_a_stray_stop_iteration_is_not_the_end(threads):
    class Stopping(Numbers):
        def batch(self, indices):
            return super().batch(indices) if max(indices) < 8 else next(iter(()))

    batches = iter(Loader(Stopping(20), 4, threads=threads))
    assert indices_of([next(batches), next(batches)]) == batches_of(8, 4)
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        next(batches)


@THREADS
def test_map_batch(threads):
    def add(batch):
        return {**batch, "sum": batch["row"].sum(axis=1)}

    found = list(Loader(Numbers(20), 6, map_batch=add, threads=threads))
    assert [batch["sum"].tolist() for batch in found] == [[2 * i + 0.5 for i in part] for part in batches_of(20, 6)]


def test_map_batch_may_give_anything():
    loader = Loader(Numbers(5), 2, map_batch=lambda batch: (batch["i"], 1))
    assert [(i.tolist(), one) for i, one in loader] == [([0, 1], 1), ([2, 3], 1), ([4], 1)]


@pytest.mark.parametrize("seed", [None, 4])
def test_an_error_in_map_batch_names_its_place(seed):
    order = {} if seed is None else {"shuffle": True, "seed": seed}
    calls = []

    def fail_late(batch):
        calls.append(batch)
        if len(calls) == 14:  # the last batch of the second epoch
            raise ZeroDivisionError("no")
        return batch

    loader = Loader(Numbers(20), 3, map_batch=fail_late, threads=0, epochs=9, **order)
    with pytest.raises(TransformError) as caught:
        list(loader)
    first = 18 if seed is None else Shuffled(20, seed=seed).indices(1, 18, 19)[0]
    assert str(caught.value) == (
        "map_batch=test_an_error_in_map_batch_names_its_place.<locals>.fail_late on batch 6 of epoch 1 (positions 18 to 20) "
        f"failed with ZeroDivisionError: no - at numbers, record {first}."
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_sound_batches_before_a_failing_map_batch_are_handed_out():
    def fail_at_40(batch):
        if 40 in batch["i"]:
            raise ValueError("forty")
        return batch

    batches = iter(Loader(Numbers(100), 2, map_batch=fail_at_40))
    assert indices_of(next(batches) for _ in range(20)) == batches_of(40, 2)
    with pytest.raises(TransformError, match=r"batch 20 of epoch 0 \(positions 40 to 42\)"):
        next(batches)


@THREADS
def test_a_map_batch_that_returns_nothing_is_named(threads):
    def forget_one(batch):
        return None if 6 in batch["i"] else batch

    batches = iter(Loader(Numbers(20), 2, map_batch=forget_one, threads=threads))
    assert indices_of(next(batches) for _ in range(3)) == batches_of(6, 2)
    with pytest.raises(TransformError, match=r"batch 3 of epoch 0 .* got None: is a return missing\?"):
        next(batches)


@THREADS
def test_leaving_a_loop_ends_the_threads(threads):
    for _ in range(5):
        for batch in Loader(Numbers(1000), 2, threads=threads):
            assert batch["i"].tolist() == [0, 1]
            break
        assert wait_for_threads()


def test_an_iterator_in_a_cycle_ends_its_threads():
    batches = iter(Loader(Numbers(1000), 2, threads=2))
    next(batches)
    cycle = [batches]
    cycle.append(cycle)
    del batches, cycle
    gc.collect()
    assert wait_for_threads()


def test_several_iterators_go_their_own_ways():
    loader = Loader(Numbers(20), 3, threads=2)
    first = iter(loader)
    a = [next(first)]
    second = iter(loader)  # begins where the first one is, and owns the state from now on
    b = [next(second)]
    a += list(first)
    assert loader.state_dict()["position"] == 6
    b += list(second)
    assert indices_of(a) == batches_of(20, 3)
    assert indices_of(b) == batches_of(20, 3)[1:]
    assert loader.epoch == 1


def test_loaders_inside_loaders():
    inner = Numbers(6)

    def nested(batch):
        return {**batch, "inner": sum(b["i"].sum() for b in Loader(inner, 2, threads=2))}

    found = list(Loader(Numbers(30), 4, map_batch=nested, threads=2))
    assert [batch["inner"] for batch in found] == [15] * 8
    assert wait_for_threads()


def test_a_loader_in_each_of_several_threads():
    loader = Numbers(200)
    found, threads = {}, []
    for k in range(4):
        run = lambda k=k: found.__setitem__(k, indices_of(Loader(loader, 7, shuffle=True, seed=k, threads=2)))  # noqa: E731
        threads.append(threading.Thread(target=run))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        assert list(chain(*found[k])) == Shuffled(200, seed=k).indices(0, 0, 200).tolist()


def test_an_iterator_handed_to_another_thread():
    batches = iter(Loader(Numbers(50), 2, threads=2))
    first = [next(batches)]
    rest = []
    thread = threading.Thread(target=lambda: rest.extend(batches))
    thread.start()
    thread.join()
    assert indices_of(first + rest) == batches_of(50, 2)


def test_a_batch_lost_by_an_interrupt_is_not_counted(monkeypatch):
    """The signal comes after the batch was taken from those that are ready, and before the caller has it."""
    loader = Loader(Numbers(50), 2, threads=0)
    loop = iter(loader)
    seen = [next(loop)["i"].tolist() for _ in range(5)]

    class Interrupted(list):
        def pop(self):
            super().pop()
            raise KeyboardInterrupt

    def interrupt(_):
        make(_)
        raise KeyboardInterrupt

    make = OpenRun.make
    monkeypatch.setattr(OpenRun, "make", interrupt)
    loop._ready = Interrupted(loop._ready) if loop._ready else []
    with pytest.raises(KeyboardInterrupt):
        for _ in range(30):
            seen.append(next(loop)["i"].tolist())
    monkeypatch.undo()
    assert list(loop) == []  # it could not go on without a gap
    assert loader.state_dict()["position"] == 2 * len(seen)
    seen += [batch["i"].tolist() for batch in loader]
    assert seen == batches_of(50, 2)


def test_interrupts_leave_no_threads(own_threads):
    assert wait_for_threads()
    interrupted = threading.Event()

    class Interrupted(Numbers):
        def batch(self, indices):
            if threading.current_thread() is threading.main_thread():
                interrupted.set()
                raise KeyboardInterrupt
            interrupted.wait(300)
            return super().batch(indices)

    loader = Loader(Interrupted(10_000), 2, threads=1)
    with pytest.raises(KeyboardInterrupt):
        for _ in loader:
            pass
    assert not own_threads()


def test_batches_are_ones_own():
    """A batch does not change while later ones are made."""
    held = list(Loader(Numbers(3000), 7, threads=3))
    assert indices_of(held) == batches_of(3000, 7)


def test_small_batches_are_read_several_at_a_time():
    sizes = []

    class Counting(Numbers):
        def batch(self, indices):
            sizes.append(len(indices))
            return super().batch(indices)

    assert indices_of(Loader(Counting(5000), 2)) == batches_of(5000, 2)
    assert sizes[0] == 2
    assert max(sizes) > 20
    sizes.clear()
    list(Loader(Counting(500, cuts_cleanly=False), 2))
    assert set(sizes) == {2}


def test_memory_does_not_grow():
    loader = Loader(Numbers(200), 8, epochs=None, threads=2)
    batches = iter(loader)
    for _ in range(2000):
        next(batches)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(500):
            next(batches)
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20_000):
            next(batches)
        # Batches in flight take more or less, as threads are fast or slow. 50 bytes kept for each batch would be more than that.
        assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
    finally:
        tracemalloc.stop()
        batches.close()


def test_a_loader_travels():
    loader = Loader(Numbers(30), 4, shuffle=True, seed=2, drop_last=True, threads=2)
    list(islice(loader, 3))
    copy = pickle.loads(pickle.dumps(loader))
    assert copy.state_dict() == loader.state_dict()
    assert indices_of(copy) == indices_of(loader)


def test_columns_of_every_kind_are_cut():
    sparse = pytest.importorskip("scipy.sparse")

    class Kinds(Numbers):
        def batch(self, indices):
            dense = np.eye(200)[indices]
            return {"i": indices, "sparse": sparse.csr_array(dense), "list": [np.full(i % 3, i) for i in indices]}

    for batch in Loader(Kinds(200), 3):
        assert (batch["sparse"].toarray() == np.eye(200)[batch["i"]]).all()
        assert [a.tolist() for a in batch["list"]] == [[i] * (i % 3) for i in batch["i"].tolist()]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"threads": -1}, "threads must be at least 0"),
        ({"prefetch": -1}, "prefetch must be at least 0"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"shuffle": True, "seed": -1}, "seed"),
        ({"shuffle": True, "sampler": InOrder(3)}, "either shuffle=True or sampler="),
        ({"to": "cupy"}, "to must be 'numpy', 'torch' or 'jax'"),
    ],
)
def test_arguments_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Loader(Numbers(3), **{"batch_size": 2, **options})


def test_arguments_of_the_wrong_type():
    with pytest.raises(
        TypeError, match=r"a source, which has len\(\) and batch\(indices\), .* got str. .*headrace.open\(path\)"
    ):
        Loader("x.tfrecord", 2)
    with pytest.raises(TypeError):
        Loader(Numbers(3), 2.5)
    with pytest.raises(TypeError):
        Loader(Numbers(3), 2, True)


def test_its_repr():
    assert "batches of 4, shuffled with seed 9, Shard(rank=0, world=1)" in repr(
        Loader(Numbers(3), 4, shuffle=True, seed=9)
    )
    assert "the source's order" in repr(Loader(Numbers(3), 4))
    assert "InOrder(n=3)" in repr(Loader(Numbers(3), 4, sampler=InOrder(3)))
    loader = Loader(Numbers(3), 4)
    assert (loader.batch_size, loader.source.n, loader.sampler) == (4, 3, InOrder(3))


class Stateless:
    """Arguments that are not a source, an order or a number."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 4.0}, "batch_size must be an integer, got 4.0"),
        ({"batch_size": "4"}, "batch_size must be an integer, got '4'"),
        ({"batch_size": True}, "batch_size must be an integer, got True"),
        ({"shuffle": "blocks"}, "shuffle must be True or False, got 'blocks'"),
        ({"shuffle": 1}, "shuffle must be True or False, got 1"),
        ({"seed": 1.5}, "seed must be an integer, got 1.5"),
        ({"seed": None}, "seed must be an integer, got None"),
        ({"sampler": Stateless()}, "a sampler has len"),
        ({"epochs": "all"}, "epochs must be an integer, got 'all'"),
        ({"shard": (0, 2)}, r"shard must be a headrace.Shard\(rank, world\), 'ray' or None, got \(0, 2\)"),
        ({"drop_last": "no"}, "drop_last must be True or False, got 'no'"),
        ({"map_batch": "double"}, "map_batch must be a function, got 'double'"),
        ({"threads": "auto"}, "threads must be an integer, got 'auto'"),
        ({"workers": 1.0}, "workers must be an integer, got 1.0"),
        ({"start_method": 3}, "start_method must be 'fork'"),
        ({"prefetch": "2"}, "prefetch must be an integer, got '2'"),
        ({"to": np.ndarray}, "to must be 'numpy', 'torch' or 'jax'"),
        ({"source": Stateless()}, "a source, which has len"),
        ({"source": None}, "a source, which has len"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused(options, message):
    with pytest.raises(TypeError, match=message):
        Loader(**{"source": Numbers(10), "batch_size": 4, **options})


def test_numpys_numbers_and_truth_values_are_as_good():
    options = {"epochs": np.int32(2), "threads": np.uint8(1), "prefetch": np.int64(1), "workers": np.int64(0)}
    loader = Loader(Numbers(10), np.int64(4), shuffle=np.bool_(False), seed=np.uint64(3), drop_last=np.True_, **options)
    assert len(loader) == 4
    assert [batch["i"].tolist() for batch in loader][:2] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    json.dumps(loader.state_dict())


@pytest.mark.parametrize("values", [(0.0, 2), ("0", 2), (0, "2"), (None, 1), (True, 2)])
def test_a_shard_is_made_of_whole_numbers(values):
    with pytest.raises(TypeError, match="must be an integer"):
        Shard(*values)
    assert Shard(np.int64(1), np.int64(2)) == Shard(1, 2)


@pytest.mark.parametrize(
    ("memory", "kept"), [(None, 256 << 20), (400 << 20, 32 << 20), (16 << 30, 1 << 30), (8 << 30, 512 << 20)]
)
def test_idle_batch_memory_is_a_share_of_the_machine_s(memory, kept):
    assert idle_bytes(memory) == kept


def test_large_batches_reuse_memory(tmp_path):
    hr.write(tmp_path / "x.npy", np.zeros((8, 1 << 20), np.uint8))
    source = hr.open(tmp_path / "x.npy")
    for _ in Loader(source, 4, threads=0, shuffle=True, epochs=3):
        pass
    before = _native.pool_stats()["recycled"]
    for _ in Loader(source, 4, threads=0, shuffle=True, epochs=3):
        pass
    assert _native.pool_stats()["recycled"] > before


MODE = ContextVar("MODE", default="train")


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {}])
class TestSettingsOfTheLoop:
    """Functions see them in every thread."""

    def test_variables_and_errors_of_numpy(self, options):
        def see(batch):
            time.sleep(0.001)  # so that threads and the consumer share the work
            return MODE.get(), decimal.getcontext().prec, np.geterr()["divide"]

        token = MODE.set("eval")
        try:
            with decimal.localcontext(prec=5), np.errstate(divide="raise"):
                seen = set(hr.Loader({"x": np.arange(200)}, 5, map_batch=see, **options))
        finally:
            MODE.reset(token)
        assert seen == {("eval", 5, "raise")}
        assert set(hr.Loader({"x": np.arange(50)}, 5, map_batch=see, **options)) == {("train", 28, "warn")}

    def test_in_map(self, options):
        token = MODE.set("eval")
        try:
            mapped = hr.open({"x": np.arange(200)}).map(lambda _: time.sleep(0.0002) or {"mode": MODE.get()})
            seen = {mode for batch in hr.Loader(mapped, 5, **options) for mode in batch["mode"]}
        finally:
            MODE.reset(token)
        assert seen == {"eval"}

    @pytest.mark.torch
    def test_modes_of_torch(self, options):
        import torch

        def see(batch):
            time.sleep(0.001)
            modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
            return (*modes, torch.get_autocast_dtype("cpu"))

        loader = hr.Loader({"x": np.arange(200)}, 5, map_batch=see, **options)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            assert set(loader) == {(False, False, True, torch.float16)}
        with torch.inference_mode():
            assert set(loader) == {(False, True, False, torch.bfloat16)}
        assert set(loader) == {(True, False, False, torch.bfloat16)}


def test_columns_of_a_source_are_sources():
    source = hr.ColumnSource({"n": np.arange(5), "text": list("abcde"), "rows": hr.Ragged.from_list([[1]] * 5)})
    for name in source.schema:
        expected = source.select(name).batch(range(4))[name]
        for made in (Loader(source[name], 4), Loader(hr.Mixture([(source[name], 1)]), 4)):
            batch = next(iter(made))
            assert list(batch) == [name]
            assert type(batch[name]) is type(expected)
            assert repr(batch[name]) == repr(expected)
    assert hr.open(source["text"]).schema == source.select("text").schema


def test_a_class_is_no_source():
    with pytest.raises(TypeError, match="ColumnSource.*, which is no source"):
        hr.Mixture([(hr.ColumnSource, 1)])
    with pytest.raises(TypeError, match=r"got the class ColumnSource. That is a class: pass an object"):
        Loader(hr.ColumnSource, 2)


def test_a_source_may_pass_on_the_attributes_of_a_table():
    class Wrapped(Numbers):
        def __getattr__(self, name):
            if name in ("with_format", "__array__"):
                return len
            raise AttributeError(name)

    assert indices_of(Loader(Wrapped(5), 2)) == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}])
def test_two_threads_in_one_iterator(options):
    """The second one gets an error. Without it, batches could vanish."""
    inside, leave = threading.Event(), threading.Event()

    class Waiting(Numbers):
        def batch(self, indices):
            inside.set()
            assert leave.wait(300)
            return super().batch(indices)

    batches = iter(Loader(Waiting(8), 2, **options))
    first = []
    thread = threading.Thread(target=lambda: first.extend(next(batches)["i"].tolist()))
    thread.start()
    assert inside.wait(300)
    closing = threading.Timer(0.1, leave.set)  # closing the iterator waits for its threads
    closing.start()
    with pytest.raises(RuntimeError, match="expected one thread at a time to use an iterator of a loader, found two"):
        next(batches)
    closing.join()
    thread.join(300)
    assert not thread.is_alive()
    assert list(batches) == []


@pytest.mark.parametrize("shuffle", [False, True])
def test_lightning_asks_whether_a_loader_shuffles(shuffle):
    """PyTorch Lightning asks so of validation, test and predict loaders: `_is_dataloader_shuffled` in its utilities/data.py."""
    loader = Loader(Numbers(10), 4, shuffle=shuffle)
    assert hasattr(loader, "sampler")
    batch_sampler = loader.batch_sampler
    assert batch_sampler is None
    assert type(loader.sampler).__name__ not in (
        "SequentialSampler",
        "RandomSampler",
    )  # of torch: nothing to warn about


def test_a_new_loader_and_a_saved_state_start_anew():
    """After a loop that was left, the next loop over the same loader continues; docs/loader.md says what starts anew."""
    loader = Loader(Numbers(10), 4)
    start = loader.state_dict()
    next(iter(loader))
    assert indices_of(loader) == [[4, 5, 6, 7], [8, 9]]
    loader.load_state_dict(start)
    assert indices_of(loader) == indices_of(Loader(Numbers(10), 4)) == batches_of(10, 4)
