"""Tables of names. A new thing is a new file and one line here; nothing is imported before it is used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["DATASETS", "DATASET_NAMER", "FORMATS", "FRAMES", "SCHEMA_FINDER", "load"]

FORMATS: dict[str, str] = {
    "tfrecord": "headrace.formats.tfrecord.format:FORMAT",
    "array_record": "headrace.formats.array_record.format:FORMAT",
    "recordio": "headrace.formats.recordio.format:FORMAT",
    "riegeli": "headrace.formats.array_record.format:RIEGELI",
    "npy": "headrace.formats.npy.format:FORMAT",
    "image_folder": "headrace.formats.image_folder.format:FORMAT",
    "npz": "headrace.formats.npz.format:FORMAT",
    "npy_folder": "headrace.formats.example_files.format:NPY_FOLDER",
    "npz_folder": "headrace.formats.example_files.format:NPZ_FOLDER",
    "parquet": "headrace.formats.parquet.format:FORMAT",
    "jsonl": "headrace.formats.jsonl.format:FORMAT",
    "avro": "headrace.formats.avro.format:FORMAT",
    "webdataset": "headrace.formats.webdataset.format:FORMAT",
    "csv": "headrace.formats.csv.format:FORMAT",
}
"""How records are framed: name to :class:`headrace.contracts.records.Format`."""


DATASETS: dict[str, str] = {
    "abalone": "headrace.datasets.named.tables:abalone",
    "cifar10": "headrace.datasets.named.cifar:cifar10",
    "cifar100": "headrace.datasets.named.cifar:cifar100",
    "emnist": "headrace.datasets.named.mnist:emnist",
    "fashion_mnist": "headrace.datasets.named.mnist:fashion_mnist",
    "iris": "headrace.datasets.named.tables:iris",
    "kmnist": "headrace.datasets.named.mnist:kmnist",
    "mnist": "headrace.datasets.named.mnist:mnist",
}
"""Datasets that can be fetched: name to a function that gives the :class:`headrace.datasets.building.DatasetBuilder`."""

DATASET_NAMER = "headrace.datasets.named:named_builder"
"""What knows the builder of a name with its config and version."""


FRAMES: dict[str, str] = {
    "pandas": "headrace.adapters.pandas:from_pandas",
    "polars": "headrace.adapters.arrow:from_arrow",
    "pyarrow": "headrace.adapters.arrow:from_arrow",
}
"""What makes a source of a table in memory, by the library that it is of."""


SCHEMA_FINDER = "headrace.sources.opening:find_schema"
"""What :meth:`headrace.Schema.infer` calls: it needs the layers above the one that schemas live in."""


def load(place: str) -> Any:
    """The object at ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
