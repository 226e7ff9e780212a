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

if _typing.TYPE_CHECKING:
    from penstock.contracts.csv import CSV
    from penstock.contracts.feature import Feature
    from penstock.contracts.feature_keys import RaggedKeys, SparseKeys
    from penstock.contracts.image_options import ImageOptions
    from penstock.contracts.records import Records, Skipped
    from penstock.contracts.schema import Schema
    from penstock.contracts.shard import Shard
    from penstock.contracts.values import Batch, Example, Ragged
    from penstock.datasets.opening import data_source
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
    "RaggedKeys",
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
    "SparseKeys",
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

_HOMES = {
    "contracts.csv": ("CSV",),
    "contracts.feature": ("Feature",),
    "contracts.feature_keys": ("RaggedKeys", "SparseKeys"),
    "contracts.image_options": ("ImageOptions",),
    "contracts.records": ("Records", "Skipped"),
    "contracts.schema": ("Schema",),
    "contracts.shard": ("Shard",),
    "contracts.values": ("Batch", "Example", "Ragged"),
    "datasets.opening": ("data_source",),
    "formats.opening": ("records",),
    "loading.lengths": ("Bucket", "Pack", "Pad"),
    "loading.loader": ("Loader",),
    "loading.mixture": ("Mixture",),
    "sampling.samplers": ("InOrder", "Shuffled"),
    "sources.column_source": ("ColumnSource",),
    "sources.opening": ("open",),
    "sources.read_instruction": ("ReadInstruction", "even_splits"),
    "sources.views": ("Source",),
    "writing.convert": ("Converted", "convert"),
    "writing.verify": ("Report", "verify"),
    "writing.write": ("write", "write_records"),
    "writing.writer": ("Writer",),
}
"""Where what is not an error lives."""

_HOME = {name: home for home, names in _HOMES.items() for name in names}

_PACKAGES = frozenset({"adapters", "containers", "datasets", "errors", "hosting", "jobs", "sagemaker", "testing"})


def __getattr__(name: str) -> _typing.Any:
    """Load what is asked for when it is first asked for (as SPEC 1 has it): all of Penstock takes longer to import than NumPy."""
    if name in _PACKAGES:
        return _importlib.import_module(f"penstock.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"penstock.{_HOME.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
