"""Feeds models with training data from record files, and serves trained models.

There are three ways in: :func:`records` (bytes by index), :func:`open` (examples by index), :class:`Loader` (batches by iteration).
:func:`data_source` opens datasets prepared by TFDS. :func:`write`, :func:`convert` and :func:`verify` write and check files. Formats:
TFRecord, RecordIO, ArrayRecord, npy, npz, CSV, folders of images and arrays, Parquet, JSON Lines, Avro, WebDataset.

Subpackages: ``headrace.jobs`` (training jobs), ``headrace.hosting`` (endpoints), ``headrace.containers`` (scripts and algorithms),
``headrace.sagemaker`` (the SageMaker SDK), ``headrace.adapters`` (other libraries), ``headrace.testing`` (test suites for your own
formats).
"""

import importlib as _importlib
import sys as _sys
import typing as _typing

from headrace import _hooks, _interrupts  # noqa: F401 - before the slow imports

if _typing.TYPE_CHECKING:
    from headrace.contracts.csv import CSV
    from headrace.contracts.feature import Feature
    from headrace.contracts.feature_keys import RaggedKeys, SparseKeys
    from headrace.contracts.images import ImageOptions, RandomResizedCrop
    from headrace.contracts.records import Records, Shard, Skipped
    from headrace.contracts.schema import Schema
    from headrace.contracts.strings import Strings
    from headrace.contracts.values import Batch, Example, Ragged
    from headrace.datasets.opening import data_source
    from headrace.errors import (
        CorruptFile,
        CorruptRecord,
        DataError,
        DownloadFailed,
        HeadraceError,
        JobFailed,
        MissingExtra,
        NoFiles,
        NoSuchFeature,
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
    from headrace.formats.open import records
    from headrace.loading.lengths import Bucket, Pack, Pad
    from headrace.loading.loader import Loader
    from headrace.loading.mixture import Mixture
    from headrace.loading.packed import Packed
    from headrace.sampling.samplers import InOrder, Shuffled
    from headrace.sources.conditions.condition import condition
    from headrace.sources.open import open
    from headrace.sources.operations.generated import from_generator
    from headrace.sources.source import ColumnSource, Source
    from headrace.sources.splits import ReadInstruction, even_splits
    from headrace.statistics.collect import Statistics
    from headrace.statistics.stats import stats
    from headrace.viewer.server import view
    from headrace.writing.convert import Converted, convert
    from headrace.writing.verify import Report, verify
    from headrace.writing.write import write, write_records
    from headrace.writing.writer import Writer

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
    "HeadraceError",
    "ImageOptions",
    "InOrder",
    "JobFailed",
    "Loader",
    "MissingExtra",
    "Mixture",
    "NoFiles",
    "NoSuchFeature",
    "Pack",
    "Packed",
    "Pad",
    "Ragged",
    "RaggedKeys",
    "RandomResizedCrop",
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
    "Statistics",
    "Strings",
    "TransformError",
    "UnknownFormat",
    "Unreachable",
    "UnsupportedData",
    "Where",
    "WorkerDied",
    "Writer",
    "condition",
    "convert",
    "data_source",
    "even_splits",
    "from_generator",
    "open",
    "records",
    "stats",
    "verify",
    "view",
    "write",
    "write_records",
]

_HOMES = {
    "contracts.csv": ("CSV",),
    "contracts.feature": ("Feature",),
    "contracts.feature_keys": ("RaggedKeys", "SparseKeys"),
    "contracts.images": ("ImageOptions", "RandomResizedCrop"),
    "contracts.records": ("Records", "Shard", "Skipped"),
    "contracts.schema": ("Schema",),
    "contracts.strings": ("Strings",),
    "contracts.values": ("Batch", "Example", "Ragged"),
    "datasets.opening": ("data_source",),
    "formats.open": ("records",),
    "loading.lengths": ("Bucket", "Pack", "Pad"),
    "loading.loader": ("Loader",),
    "loading.mixture": ("Mixture",),
    "loading.packed": ("Packed",),
    "sampling.samplers": ("InOrder", "Shuffled"),
    "sources.conditions.condition": ("condition",),
    "sources.open": ("open",),
    "sources.operations.generated": ("from_generator",),
    "sources.source": ("ColumnSource", "Source"),
    "sources.splits": ("ReadInstruction", "even_splits"),
    "statistics.collect": ("Statistics",),
    "statistics.stats": ("stats",),
    "viewer.server": ("view",),
    "writing.convert": ("Converted", "convert"),
    "writing.verify": ("Report", "verify"),
    "writing.write": ("write", "write_records"),
    "writing.writer": ("Writer",),
}
"""The module of each public name, errors excepted."""

_SHOWS_BATCHES = "headrace_shows_batches"

_HOME = {name: home for home, names in _HOMES.items() for name in names}

_PACKAGES = frozenset(
    {"adapters", "containers", "datasets", "errors", "formats", "hosting", "jobs", "sagemaker", "testing"}
)


def _calls(home: str, name: str) -> _typing.Any:
    """A function that loads another one when it is called."""

    def call(*arguments: _typing.Any, **options: _typing.Any) -> _typing.Any:
        return getattr(_importlib.import_module(f"headrace.{home}"), name)(*arguments, **options)

    return call


_hooks.find_schema = _calls("sources.open", "find_schema")
_hooks.as_source = _calls("adapters.tables", "as_source")
_hooks.to_arrow = _calls("adapters.arrow", "to_arrow")
_hooks.to_html = _calls("viewer.notebook", "to_html")
_hooks.to_pandas = _calls("adapters.pandas", "to_pandas")
_hooks.write_dataset = _calls("writing.ray_sink", "write_dataset")


def load_ipython_extension(shell: _typing.Any) -> None:
    """Show batches as tables in a notebook: ``%load_ext headrace``. Importing headrace in a notebook does the same.

    Batches are plain dicts, which other libraries know how to take apart, so they cannot display themselves. Other dicts look as before.
    """
    formatter = shell.display_formatter.formatters["text/html"]

    def show(value: _typing.Any) -> _typing.Any:
        own = getattr(type(value), "_repr_html_", None)  # of a subclass
        has_columns = own is None and any(hasattr(column, "dtype") for column in value.values())
        html = _hooks.to_html(value) if has_columns else None
        if html is not None:
            return html
        follow = own if earlier is None else earlier
        return None if follow is None else follow(value)

    show.__name__ = _SHOWS_BATCHES
    found = formatter.for_type(dict)
    earlier = found
    if getattr(found, "__name__", "") != _SHOWS_BATCHES:
        formatter.for_type(dict, show)


def __getattr__(name: str) -> _typing.Any:
    """Load a name on first use (SPEC 1): importing all of Headrace would take longer than importing NumPy."""
    if name in _PACKAGES:
        return _importlib.import_module(f"headrace.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_advice(name)}")
    value = getattr(_importlib.import_module(f"headrace.{_HOME.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def _advice(name: str) -> str:
    """What to write instead of a name of another library."""
    if name.startswith("_"):  # what Python and its tools look for
        return ""
    hints = _importlib.import_module("headrace.sources.operations.near_misses").FOR_PACKAGE
    return f". {hints[name]}." if name in hints else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})


# A shell that runs has this module; without one `get_ipython` gives None.
if (
    "IPython" in _sys.modules
    and (_shell := getattr(_sys.modules["IPython"], "get_ipython", lambda: None)()) is not None
):
    load_ipython_extension(_shell)
