"""Hugging Face datasets over an Arrow table of the same examples (there is no protobuf to parse)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import datasets
import pyarrow as pa

from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Pair, ReadTask
from benchmarks.data import BATCH, WIDTH, Files


def in_order(files: Files) -> ReadTask:
    """``with_format("numpy").iter``."""
    data = _table(files).with_format("numpy")
    return expected.examples(files, lambda: _pairs(data.iter(batch_size=BATCH)))


def shuffled(files: Files) -> ReadTask:
    """``shuffle(seed)``, then the same; the permutation is made once, outside the timing."""
    data = _table(files).shuffle(seed=1, keep_in_memory=True).with_format("numpy")
    return expected.examples(files, lambda: _pairs(data.iter(batch_size=BATCH)), "shuffled")


def _table(files: Files) -> datasets.Dataset:
    datasets.disable_progress_bars()
    folder = files.folder / "arrow"
    if not folder.exists():
        part = files.folder / f"part.{os.getpid()}.arrow"
        _write_table(files, str(part))
        part.rename(folder)
    return datasets.load_from_disk(str(folder))


def _write_table(files: Files, folder: str) -> None:
    features = datasets.Features(
        {"image": datasets.List(datasets.Value("float32"), length=WIDTH), "label": datasets.Value("int64")}
    )
    columns = {
        "image": pa.FixedSizeListArray.from_arrays(pa.array(files.images.reshape(-1)), WIDTH),
        "label": pa.array(files.labels),
    }
    datasets.Dataset(pa.table(columns, schema=features.arrow_schema)).save_to_disk(folder)


def _pairs(batches: Iterable[dict[str, object]]) -> Iterator[Pair]:
    for batch in batches:
        yield batch["image"], batch["label"]
