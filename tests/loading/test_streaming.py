"""Epochs streamed by a source, when that is cheaper than reading by index."""

from __future__ import annotations

import threading
from itertools import islice

import numpy as np
import pytest
from tests.loading.fakes import Streaming, indices_of, wait_for_threads
from tests.loading.test_loader import batches_of

import headrace as hr
from headrace.contracts.records import Shard
from headrace.errors import CorruptRecord, SchemaMismatch, TransformError
from headrace.loading.loader import Loader

THREADS = pytest.mark.parametrize("threads", [0, 1, 3])


@THREADS
@pytest.mark.parametrize("n", [0, 1, 5, 6, 7, 50])
def test_the_first_epoch_is_streamed(threads, n, own_threads):
    source = Streaming(n)
    loader = Loader(source, 3, epochs=3, threads=threads)
    assert indices_of(loader) == batches_of(n, 3) * 3
    assert source.streams == 1
    assert loader.epoch == 3
    if n > 3 and threads:
        assert len(source.threads) == 1
        assert threading.main_thread() not in source.threads
    assert not own_threads()


@pytest.mark.parametrize("n", [1, 2, 3, 7, 9])
def test_drop_last(n):
    loader = Loader(Streaming(n), 3, drop_last=True, epochs=2)
    expected = [batch for batch in batches_of(n, 3) if len(batch) == 3]
    assert indices_of(loader) == expected * 2
    assert loader.epoch == 2


def test_each_epoch_asks_again():
    source = Streaming(7)
    loader = Loader(source, 3)
    for _ in range(2):
        assert indices_of(loader) == batches_of(7, 3)
        source.length_known = False
    assert source.streams == 2


@pytest.mark.parametrize("threads", [0, 2])
def test_state_is_exact(threads):
    source = Streaming(8)
    loader = Loader(source, 3, threads=threads)
    places = []
    for _ in loader:
        places.append((loader.epoch, loader._progress.cursor.position))
    assert places == [(0, 3), (0, 6), (1, 0)]


def test_going_on_in_the_middle_is_by_index():
    source = Streaming(20)
    loader = Loader(source, 3)
    assert indices_of(islice(loader, 2)) == batches_of(20, 3)[:2]
    assert wait_for_threads()
    source.length_known = True
    state = loader.state_dict()
    source.length_known = False
    resumed_source = Streaming(20)
    resumed_source.length_known = True
    resumed = Loader(resumed_source, 3)
    resumed.load_state_dict(state)
    assert indices_of(resumed) == batches_of(20, 3)[2:]
    assert resumed_source.streams == 0


@pytest.mark.parametrize("options", [{"shuffle": True}, {"shard": Shard(0, 2)}])
def test_other_orders_are_never_streamed(options):
    source = Streaming(20)
    source.length_known = True
    list(Loader(source, 3, **options))
    assert source.streams == 0


@THREADS
def test_damage_comes_in_place_of_its_batch(threads, own_threads):
    source = Streaming(20, bad_at=9)
    batches = iter(Loader(source, 3, threads=threads))
    assert indices_of([next(batches) for _ in range(3)]) == batches_of(9, 3)
    with pytest.raises(CorruptRecord, match="numbers, record 9"):
        next(batches)
    assert next(batches, None) is None
    assert not own_threads()


def test_damage_in_the_first_batch():
    with pytest.raises(CorruptRecord, match="numbers, record 1"):
        next(iter(Loader(Streaming(20, bad_at=1), 3)))


def test_map_batch():
    def fail(batch):
        if 9 in batch["i"]:
            raise ValueError("nine")
        return {**batch, "double": batch["i"] * 2}

    batches = iter(Loader(Streaming(20), 3, map_batch=fail))
    assert [next(batches)["double"].tolist() for _ in range(3)] == [[0, 2, 4], [6, 8, 10], [12, 14, 16]]
    with pytest.raises(TransformError, match=r"batch 3 of epoch 0 \(positions 9 to 12\) .* at numbers, record 9\."):
        next(batches)


def test_batches_of_another_size_are_refused():
    class Wrong(Streaming):
        def _stream(self, batch_size):
            return super()._stream(batch_size + 1)

    with pytest.raises(SchemaMismatch, match="expected 3 rows from the source, found 4"):
        next(iter(Loader(Wrong(20), 3)))


def test_leaving_early():
    loader = Loader(Streaming(10_000), 3)
    for _ in loader:
        break
    assert wait_for_threads()


def test_no_further_ahead_than_asked():
    source = Streaming(1000)
    given = []
    plain = source._stream

    def stream(batch_size):
        for batch in plain(batch_size):
            given.append(1)
            yield batch

    source._stream = stream
    batches = iter(Loader(source, 1, threads=1, prefetch=2))
    next(batches)
    threading.Event().wait(0.1)
    assert len(given) <= 7
    batches.close()


def test_endless_epochs():
    loader = Loader(Streaming(5), 2, epochs=None)
    assert indices_of(islice(loader, 9)) == batches_of(5, 2) * 3


def test_endless_epochs_without_a_batch_are_refused():
    with pytest.raises(ValueError, match="epochs=None would never end"):
        next(iter(Loader(Streaming(5), 9, epochs=None, drop_last=True)))


class Doubled:
    """Passes everything on to another source, except what it changes."""

    def __init__(self, source):
        self._source = source

    def __len__(self):
        return len(self._source)

    def __getitem__(self, index):
        example = self._source[index]
        return {**example, "i": 2 * example["i"]}

    def batch(self, indices):
        batch = self._source.batch(indices)
        return {**batch, "i": 2 * batch["i"]}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._source, name)


def test_a_source_that_passes_members_on_is_read_by_its_own_batch(tmp_path):
    hr.write(tmp_path / "x.tfrecord", {"x": np.arange(1000)})
    source = hr.open(tmp_path / "x.tfrecord")
    streaming = Streaming(1000)
    streaming.length_known = True
    doubled = Doubled(streaming)
    streaming.stream = lambda _: pytest.fail("read without its own batch")
    assert np.concatenate([batch["i"] for batch in Loader(doubled, 64)]).tolist() == list(range(0, 2000, 2))
    assert Loader(Doubled(source), 64).state_dict()["fingerprint"] == source.fingerprint
