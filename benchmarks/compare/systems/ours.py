"""Headrace with its defaults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from unittest.mock import patch

import headrace as hr
from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Pair, ReadTask, RecordsTask, WriteTask
from benchmarks.data import BATCH, Files, batch_bounds
from headrace import _native

_SEEDS = count()


def in_order(files: Files) -> ReadTask:
    """``Loader(open(path), 128)``."""
    source = hr.open(files.tfrecord)
    return expected.examples(files, lambda: _pairs(hr.Loader(source, BATCH)))


def opened_in_order(files: Files) -> ReadTask:
    """The same, opening the file in every epoch; with ``fresh``, the full cost after imports."""
    path = files.tfrecord
    return expected.examples(files, lambda: _pairs(hr.Loader(hr.open(path), BATCH)))


def shuffled(files: Files) -> ReadTask:
    """``Loader(open(path), 128, shuffle=True)``, another seed in every epoch."""
    source = hr.open(files.tfrecord)
    return expected.examples(files, lambda: _shuffled(source), "shuffled")


def opened_shuffled(files: Files) -> ReadTask:
    """The same, opening the file in every epoch."""
    path = files.tfrecord
    return expected.examples(files, lambda: _shuffled(hr.open(path)), "shuffled")


def gzip(files: Files) -> ReadTask:
    """The GZIP file, opened once."""
    source = hr.open(files.gzip)
    return expected.examples(files, lambda: _pairs(hr.Loader(source, BATCH)))


def opened_gzip(files: Files) -> ReadTask:
    """The GZIP file, opened in every epoch."""
    path = files.gzip
    return expected.examples(files, lambda: _pairs(hr.Loader(hr.open(path), BATCH)))


def tenfold(files: Files) -> ReadTask:
    """The larger file in order."""
    source = hr.open(files.tenfold)
    return expected.repeated(files, lambda: _pairs(hr.Loader(source, BATCH)))


def tenfold_shuffled(files: Files) -> ReadTask:
    """The larger file, shuffled."""
    source = hr.open(files.tenfold)
    return expected.repeated(files, lambda: _shuffled(source), "shuffled")


def shards(files: Files) -> ReadTask:
    """The many files in order."""
    source = hr.open(files.shards / "all.tfrecord-*")
    return expected.examples(files, lambda: _pairs(hr.Loader(source, BATCH)))


def shards_shuffled(files: Files) -> ReadTask:
    """The many files, shuffled."""
    source = hr.open(files.shards / "all.tfrecord-*")
    return expected.examples(files, lambda: _shuffled(source), "shuffled")


def array_record_shuffled(files: Files) -> ReadTask:
    """The ArrayRecord file, shuffled."""
    source = hr.open(files.array_record)
    return expected.examples(files, lambda: _shuffled(source), "shuffled")


def array_record_many(files: Files) -> RecordsTask:
    """128 records of the ArrayRecord file at a time, as bytes."""
    records = hr.records(files.array_record)
    return expected.records(files, lambda indices: records.spans(indices).to_bytes(), at_once=BATCH)


def array_record_one(files: Files) -> RecordsTask:
    """One at a time, as bytes."""
    records = hr.records(files.array_record)
    return expected.records(files, lambda indices: [bytes(records[int(indices[0])])], at_once=1)


def npy(files: Files) -> ReadTask:
    """The npy file in order."""
    source = hr.open(files.npy)
    return expected.rows(files, lambda: ((batch["values"], None) for batch in hr.Loader(source, BATCH)))


def npy_shuffled(files: Files) -> ReadTask:
    """The npy file, shuffled."""
    source = hr.open(files.npy)

    def epoch() -> Iterator[Pair]:
        for batch in hr.Loader(source, BATCH, shuffle=True, seed=next(_SEEDS)):
            yield batch["values"], None

    return expected.rows(files, epoch, "shuffled")


def write(files: Files) -> WriteTask:
    """``hr.write`` of the two arrays."""
    columns = {"image": files.images, "label": files.labels}
    return expected.written(files, "headrace", lambda path: hr.write(path, columns))


def write_undurable(files: Files) -> WriteTask:
    """The same without fsync, for the comparison with a bare write."""
    columns = {"image": files.images, "label": files.labels}

    def write_all(path: Path) -> None:
        # Restored after each file: the process may later write files that must be durable.
        with patch.object(os, "fsync", lambda _: None), patch.object(_native, "start_writing_back", lambda *_: True):
            hr.write(path, columns)

    return expected.written(files, "headrace-undurable", write_all)


def write_batches(files: Files) -> WriteTask:
    """``Writer.write_batch`` of 128 rows at a time."""
    images, labels = files.images, files.labels
    schema = {"image": hr.Feature("float32", (images.shape[1],)), "label": hr.Feature("int64")}

    def write_all(path: Path) -> None:
        with hr.Writer(path, schema=schema) as writer:
            for start, stop in batch_bounds(len(labels)):
                writer.write_batch({"image": images[start:stop], "label": labels[start:stop]})

    return expected.written(files, "headrace-batches", write_all)


def _shuffled(source: hr.Source) -> Iterator[Pair]:
    return _pairs(hr.Loader(source, BATCH, shuffle=True, seed=next(_SEEDS)))


def _pairs(loader: hr.Loader) -> Iterator[Pair]:
    for batch in loader:
        yield batch["image"], batch["label"]
