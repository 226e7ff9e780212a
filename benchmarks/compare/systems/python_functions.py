"""A Python function on every row of the npy file, without and with two worker processes: Headrace, torch and Grain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Pair, ReadTask
from benchmarks.data import BATCH, Files

_ONE = np.float32(1)
_WORKERS = 2


def _scale(example: Mapping[str, Any]) -> dict[str, Any]:
    return {"values": example["values"] * _ONE}


class _Rows:
    """What torch and Grain read rows from."""

    def __init__(self, path: str) -> None:
        self._rows = np.load(path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"values": self._rows[index]}


class _ScaledRows(_Rows):
    def __getitem__(self, index: int) -> dict[str, Any]:
        return _scale(super().__getitem__(index))


def headrace(files: Files) -> ReadTask:
    """``Loader(open(path).map(function), 128)``."""
    return _headrace(files)


def headrace_workers(files: Files) -> ReadTask:
    """The same with ``workers=2``, which stay."""
    return _headrace(files, workers=_WORKERS)


def torch_loader(files: Files) -> ReadTask:
    """``DataLoader(dataset, 128)`` over a dataset that calls the function."""
    return _torch(files)


def torch_workers(files: Files) -> ReadTask:
    """The same with ``num_workers=2``, which stay."""
    return _torch(files, num_workers=_WORKERS, persistent_workers=True)


def grain(files: Files) -> ReadTask:
    """``MapDataset.source(rows).map(function).batch(128)``."""
    import grain  # not imported in the processes of others

    batches = grain.MapDataset.source(_Rows(str(files.npy))).map(_scale).batch(BATCH).to_iter_dataset()
    return expected.rows(files, lambda: _pairs(batches))


def _headrace(files: Files, **options: Any) -> ReadTask:
    import headrace as hr

    loader = hr.Loader(hr.open(files.npy).map(_scale), BATCH, **options)
    return expected.rows(files, lambda: _pairs(loader))


def _torch(files: Files, **options: Any) -> ReadTask:
    from torch.utils.data import DataLoader

    loader: Iterable[Any] = DataLoader(_ScaledRows(str(files.npy)), BATCH, **options)  # type: ignore[arg-type]
    return expected.rows(files, lambda: _pairs(loader))


def _pairs(batches: Iterable[Any]) -> Iterator[Pair]:
    for batch in batches:
        yield batch["values"], None
