"""Grain over an ArrayRecord file of plain bytes (there is no protobuf to parse), with the options that suit it best."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import grain
import numpy as np
from array_record.python.array_record_module import ArrayRecordWriter

from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Pair, ReadTask
from benchmarks.data import BATCH, ROW_BYTES, WIDTH, Files


class _Parse(grain.transforms.Map):
    def map(self, record: bytes) -> dict[str, object]:
        image = np.frombuffer(record, np.float32, WIDTH)
        return {"image": image, "label": np.frombuffer(record, np.int64, 1, ROW_BYTES)[0]}


def shuffled(files: Files) -> ReadTask:
    """DataLoader with a global shuffle, no worker processes, no reader threads (which make local files slower)."""
    source = grain.sources.ArrayRecordDataSource(_records(files))
    return expected.examples(files, lambda: _pairs(_loader(source, files.sizes.rows)), "shuffled")


def _loader(source: grain.sources.ArrayRecordDataSource, rows: int) -> grain.DataLoader:
    return grain.DataLoader(
        data_source=source,
        sampler=grain.samplers.IndexSampler(
            num_records=rows, shard_options=grain.sharding.NoSharding(), shuffle=True, num_epochs=1, seed=1
        ),
        operations=[_Parse(), grain.transforms.Batch(BATCH)],
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
