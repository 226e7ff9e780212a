"""Training data from record files to models, and what was learned on to an endpoint.

Three doors to data: :func:`records` (bytes by index), :func:`open` (examples by index), :class:`Loader` (batches by iteration).
:func:`data_source` opens what TFDS prepared; :func:`write`, :func:`convert` and :func:`verify` are the way back. Formats: TFRecord,
RecordIO, ArrayRecord, npy, npz, CSV, folders of images and of arrays, Parquet, JSON Lines, Avro, WebDataset.

Beside this: ``penstock.jobs`` (training jobs), ``penstock.hosting`` (endpoints), ``penstock.containers`` (scripts and algorithms),
``penstock.sagemaker`` (the SDK's functions), ``penstock.adapters`` (other libraries), ``penstock.testing`` (suites for formats of
your own).
"""

import importlib as _importlib
import typing as _typing

from penstock import _interrupts  # noqa: F401 - before everything that takes time
from penstock.contracts.csv import CSV
from penstock.contracts.feature import Feature
from penstock.contracts.image_options import ImageOptions
from penstock.contracts.records import Records, Skipped
from penstock.contracts.schema import Schema
from penstock.contracts.shard import Shard
from penstock.contracts.values import Batch, Example, Ragged
from penstock.errors import (
    CorruptFile,
    CorruptRecord,
    DataError,
    DownloadFailed,
    JobFailed,
    MissingExtra,
    NoFiles,
    NoSuchFeature,
    PenstockError,
    RequestError,
    SchemaMismatch,
    StateMismatch,
    TransformError,
    UnknownFormat,
    Unreachable,
    UnsupportedData,
    Where,
    WorkerDied,
)
from penstock.formats.opening import records
from penstock.loading.lengths import Bucket, Pack, Pad
from penstock.loading.loader import Loader
from penstock.loading.mixture import Mixture
from penstock.sampling.samplers import InOrder, Shuffled
from penstock.sources.column_source import ColumnSource
from penstock.sources.opening import open
from penstock.sources.read_instruction import ReadInstruction, even_splits
from penstock.sources.views import Source
from penstock.writing.convert import Converted, convert
from penstock.writing.verify import Report, verify
from penstock.writing.write import write, write_records
from penstock.writing.writer import Writer

if _typing.TYPE_CHECKING:
    from penstock.datasets.opening import data_source

__version__ = "0.1.0"

__all__ = [
    "CSV",
    "Batch",
    "Bucket",
    "ColumnSource",
    "Converted",
    "CorruptFile",
    "CorruptRecord",
    "DataError",
    "DownloadFailed",
    "Example",
    "Feature",
    "ImageOptions",
    "InOrder",
    "JobFailed",
    "Loader",
    "MissingExtra",
    "Mixture",
    "NoFiles",
    "NoSuchFeature",
    "Pack",
    "Pad",
    "PenstockError",
    "Ragged",
    "ReadInstruction",
    "Records",
    "Report",
    "RequestError",
    "Schema",
    "SchemaMismatch",
    "Shard",
    "Shuffled",
    "Skipped",
    "Source",
    "StateMismatch",
    "TransformError",
    "UnknownFormat",
    "Unreachable",
    "UnsupportedData",
    "Where",
    "WorkerDied",
    "Writer",
    "convert",
    "data_source",
    "even_splits",
    "open",
    "records",
    "verify",
    "write",
    "write_records",
]


def __getattr__(name: str) -> _typing.Any:
    """Prepared datasets are a fifth of the time that importing everything takes: they are loaded when they are asked for."""
    if name == "data_source":
        return _importlib.import_module("penstock.datasets.opening").data_source
    if name == "datasets":
        return _importlib.import_module("penstock.datasets")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
