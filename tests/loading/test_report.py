"""The report of a loader."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from tests.loading.fakes import Numbers

import headrace as hr
from headrace.loading.loader import Loader
from headrace.loading.report import LoaderReport


def report(**given):
    plain = {
        "epoch": 3, "batches": 100, "examples": 12_800, "bytes": 4_000_000, "threads": 1, "cores": 2, "batches_per_job": 2.0,
        "wall_s": 1.0, "reading_s": 0.0, "transform_s": 0.0, "handover_s": 0.0, "waiting_s": 0.95, "helping_s": 0.5,
    }  # fmt: skip
    return LoaderReport(**{**plain, **given})


def test_nothing_to_report():
    with pytest.raises(ValueError, match="before the first batch"):
        Loader(Numbers(3), 2).report()


@pytest.mark.parametrize("threads", [0, 2])
def test_counts(threads):
    loader = Loader(Numbers(100), 8, threads=threads)
    list(loader)
    seen = loader.report()
    assert (seen.epoch, seen.batches, seen.examples, seen.threads) == (0, 13, 100, threads)
    assert seen.bytes > 100 * 8
    list(islice(loader, 3))
    assert loader.report().epoch == 0  # the last finished one
    list(loader)
    assert (loader.report().epoch, loader.report().batches) == (1, 10)  # counted until the loop was left


def test_a_running_epoch():
    loader = Loader(Numbers(100), 8, threads=0)
    list(islice(loader, 3))
    assert (loader.report().batches, loader.report().epoch) == (3, 0)
    assert loader.report().wall_s > 0


def test_epochs_of_one_loop_are_apart():
    loader = Loader(Numbers(30), 8, epochs=3)
    list(loader)
    assert (loader.report().epoch, loader.report().batches) == (2, 4)


class Clock:
    """A clock that tests advance."""

    def __init__(self):
        self.now_ns = 0

    def __call__(self):
        return self.now_ns

    def let_pass(self, seconds):
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    for module in ("iteration", "jobs", "prefetch", "report"):
        monkeypatch.setattr(f"headrace.loading.{module}.perf_counter_ns", made)
    return made


def test_a_slow_source(clock):
    class Slow(Numbers):
        def batch(self, indices):
            clock.let_pass(0.01)
            return super().batch(indices)

    loader = Loader(Slow(20, cuts_cleanly=False), 2, threads=0)
    list(loader)
    seen = loader.report()
    assert seen.reading_s == pytest.approx(0.1)
    assert seen.waiting_s == seen.helping_s == seen.wall_s == seen.reading_s
    assert seen.advice.startswith("Reading and decoding are the limit.")


def test_a_slow_transform(clock):
    loader = Loader(Numbers(20), 2, threads=0, map_batch=lambda batch: clock.let_pass(0.01) or batch)
    list(loader)
    seen = loader.report()
    assert seen.transform_s == seen.helping_s == pytest.approx(0.1)
    assert seen.advice.startswith("map_batch is the limit.")


def test_a_slow_consumer(clock):
    loader = Loader(Numbers(20), 2, threads=1)
    for _ in loader:
        clock.let_pass(0.01)
    seen = loader.report()
    assert seen.batches == 10
    assert seen.consuming_s == seen.wall_s == pytest.approx(0.1)
    assert (
        seen.advice == "The consumer is the limit: batches wait for it. Nothing in the loader would make this faster."
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"batches": 0}, "No batch was read yet."),
        ({"waiting_s": 0.05, "reading_s": 1.0}, "The consumer is the limit"),
        ({"reading_s": 0.9, "threads": 0}, "threads=0 makes every batch while the consumer waits"),
        ({"reading_s": 0.9, "cores": 8}, "threads=7 would use all 8 cores"),
        ({"reading_s": 0.9}, "All cores are busy: fewer columns"),
        ({"reading_s": 0.004, "batches_per_job": 1.0}, "a larger batch_size helps"),
        ({"transform_s": 0.9}, "workers= runs it in all cores, or write it in NumPy on whole batches"),
        ({"transform_s": 0.9, "threads": 0, "workers": 1}, "workers=2 would use all 2 cores"),
        ({"transform_s": 0.9, "threads": 0, "workers": 2}, "Write it in NumPy on whole batches"),
        ({"carrying_s": 0.9, "threads": 0, "workers": 2}, "Copying batches from the workers is the limit"),
        ({"transform_s": 0.9, "cores": 4}, "threads=3 would use all 4 cores"),
        ({"handover_s": 0.9}, "The hand-over is the limit"),
    ],
)
def test_advice(given, words):
    assert words in report(**given).advice


def test_its_output():
    assert str(report(reading_s=1.5)) == (
        "epoch 3: 100 batches, 12,800 examples, 4.0 MB in 1.000 s (12,800 examples/s, threads=1, 2.0 batches a job)\n"
        "  reading and decoding             1.500 s   150% of the wall time\n"
        "  map_batch                        0.000 s     0% of the wall time\n"
        "  hand-over                        0.000 s     0% of the wall time\n"
        "  consumer waited for batches      0.950 s    95% of the wall time\n"
        "    of that, made them itself      0.500 s    50% of the wall time\n"
        "  batches waited for consumer      0.050 s     5% of the wall time\n"
        "  Reading and decoding are the limit. All cores are busy: fewer columns, or plain files instead of compressed ones, "
        "would help."
    )


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("map_batch", [None, lambda batch: batch])
def test_batches_made_one_by_one_are_counted_at_any_time(tmp_path, shuffle, map_batch):
    """Large batches are counted together when their job ends, or when someone asks."""
    np.save(tmp_path / "x.npy", np.zeros((40, 100_000), np.float32))
    loader = hr.Loader(hr.open(tmp_path / "x.npy"), 1, threads=0, shuffle=shuffle, map_batch=map_batch)
    iterator = iter(loader)
    for count in range(1, 31):
        next(iterator)
        report = loader.report()
        assert (report.batches, report.examples, report.bytes) == (count, count, count * 400_000)
        assert 0 < report.reading_s + report.transform_s <= report.waiting_s <= report.wall_s
    iterator.close()
    assert loader.report().batches == 30
