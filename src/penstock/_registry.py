"""Tables of names. A new thing is a new file and one line here; nothing is imported before it is used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["DATASETS", "DATASET_NAMER", "FORMATS", "FRAMES", "SCHEMA_FINDER", "load"]

FORMATS: dict[str, str] = {
    "tfrecord": "penstock.formats.tfrecord:FORMAT",
    "array_record": "penstock.formats.array_record:FORMAT",
    "recordio": "penstock.formats.recordio:FORMAT",
    "riegeli": "penstock.formats.riegeli_records:FORMAT",
    "npy": "penstock.formats.npy:FORMAT",
    "image_folder": "penstock.formats.image_folder:FORMAT",
    "npz": "penstock.formats.npz.format:FORMAT",
    "npy_folder": "penstock.formats.example_files.format:NPY_FOLDER",
    "npz_folder": "penstock.formats.example_files.format:NPZ_FOLDER",
    "parquet": "penstock.formats.parquet:FORMAT",
    "jsonl": "penstock.formats.jsonl:FORMAT",
    "avro": "penstock.formats.avro:FORMAT",
    "webdataset": "penstock.formats.webdataset:FORMAT",
    "csv": "penstock.formats.csv:FORMAT",
}
"""How records are framed: name to :class:`penstock.contracts.records.Format`."""


DATASETS: dict[str, str] = {
    "abalone": "penstock.datasets.named.tables:abalone",
    "cifar10": "penstock.datasets.named.cifar:cifar10",
    "cifar100": "penstock.datasets.named.cifar:cifar100",
    "emnist": "penstock.datasets.named.mnist:emnist",
    "fashion_mnist": "penstock.datasets.named.mnist:fashion_mnist",
    "iris": "penstock.datasets.named.tables:iris",
    "kmnist": "penstock.datasets.named.mnist:kmnist",
    "mnist": "penstock.datasets.named.mnist:mnist",
}
"""Datasets that can be fetched: name to a function that gives the :class:`penstock.datasets.building.DatasetBuilder`."""

DATASET_NAMER = "penstock.datasets.named:named_builder"
"""What knows the builder of a name with its config and version."""


FRAMES: dict[str, str] = {
    "pandas": "penstock.adapters.pandas:from_pandas",
    "polars": "penstock.adapters.arrow:from_arrow",
    "pyarrow": "penstock.adapters.arrow:from_arrow",
}
"""What makes a source of a table in memory, by the library that it is of."""


SCHEMA_FINDER = "penstock.sources.opening:find_schema"
"""What :meth:`penstock.Schema.infer` calls: it needs the layers above the one that schemas live in."""


def load(place: str) -> Any:
    """The object at ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
