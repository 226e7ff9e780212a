"""Grain over an ArrayRecord file of plain bytes (there is no protobuf to parse), with the options that suit it best."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import grain
import numpy as np
from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordWriter

from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Pair, ReadTask, RecordsTask
from benchmarks.data import BATCH, ROW_BYTES, WIDTH, Files


class _Parse(grain.transforms.Map):
    def map(self, record: bytes) -> dict[str, object]:
        image = np.frombuffer(record, np.float32, WIDTH)
        return {"image": image, "label": np.frombuffer(record, np.int64, 1, ROW_BYTES)[0]}


class _ParseExample(grain.transforms.Map):
    def __init__(self) -> None:
        from tensorflow.train import Example  # only for the system that parses

        self._example = Example

    def map(self, record: bytes) -> dict[str, object]:
        feature = self._example.FromString(record).features.feature
        image = np.array(feature["image"].float_list.value, np.float32)
        return {"image": image, "label": np.int64(feature["label"].int64_list.value[0])}


def shuffled(files: Files) -> ReadTask:
    """DataLoader with a global shuffle, no worker processes, no reader threads (which make local files slower)."""
    source = grain.sources.ArrayRecordDataSource(_records(files))
    return expected.examples(files, lambda: _pairs(_loader(source, files.sizes.rows)), "shuffled")


def examples_shuffled(files: Files) -> ReadTask:
    """The same over the ArrayRecord file of tf.train.Examples, parsed with protobuf."""
    source = grain.sources.ArrayRecordDataSource(str(files.array_record))
    loader = _loader(source, files.sizes.rows, _ParseExample())
    return expected.examples(files, lambda: _pairs(loader), "shuffled")


def many(files: Files) -> RecordsTask:
    """128 records at a time."""
    source = ArrayRecordDataSource(str(files.array_record))
    return expected.records(files, lambda indices: source.__getitems__(indices.tolist()), at_once=BATCH)


def one(files: Files) -> RecordsTask:
    """One at a time."""
    source = ArrayRecordDataSource(str(files.array_record))
    return expected.records(files, lambda indices: [source[int(indices[0])]], at_once=1)


def _loader(
    source: grain.sources.ArrayRecordDataSource, rows: int, parse: grain.transforms.Map | None = None
) -> grain.DataLoader:
    return grain.DataLoader(
        data_source=source,
        sampler=grain.samplers.IndexSampler(
            num_records=rows, shard_options=grain.sharding.NoSharding(), shuffle=True, num_epochs=1, seed=1
        ),
        operations=[parse or _Parse(), grain.transforms.Batch(BATCH)],
        worker_count=0,
        read_options=grain.ReadOptions(num_threads=0, prefetch_buffer_size=0),
    )


def _records(files: Files) -> str:
    path = files.folder / "rows.arrayrecord"
    if not path.exists():
        part = files.folder / f"part.{os.getpid()}.arrayrecord"
        writer = ArrayRecordWriter(str(part), "group_size:1")
        for image, label in zip(files.images, files.labels, strict=True):
            writer.write(image.tobytes() + label.tobytes())
        writer.close()
        part.rename(path)
    return str(path)


def _pairs(batches: Iterable[dict[str, object]]) -> Iterator[Pair]:
    for batch in batches:
        yield batch["image"], batch["label"]
