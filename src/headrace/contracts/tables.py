"""Tables: typed columns in files, with no payload and no codec between. What npy, CSV, Parquet and their like give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

from headrace.contracts.feature import Feature
from headrace.contracts.records import Skipped
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import SchemaMismatch, Where

__all__ = ["BatchWriter", "Misfit", "Table", "check_given", "is_table"]


class Table(Protocol):
    """The rows of some files, joined in order, as typed columns. Picklable; safe in threads and after fork.

    A table may offer besides:

    - ``with_schema(schema) -> Table``: the same rows read as other types. Without it, ``open(schema=)`` only checks.
    - ``only(names) -> Table``: the same rows with these columns; the others are not even looked at, whatever they are.
    - ``blocks(names, rows) -> Iterator[Batch]``: all rows in order, about ``rows`` at a time, where that is cheaper than
      by index; ``prefers_streaming: bool`` says whether it is so just now.
    - ``cuts_cleanly: bool``: ``False`` where the kind of a column depends on which rows are asked for.
    - ``is_unnamed: bool``: there is one column, which the file gives no name; a schema that is given does.
    """

    format: str
    paths: tuple[str, ...]

    @property
    def schema(self) -> Schema:
        """The columns and their types."""

    @property
    def skipped(self) -> Skipped: ...
    def __len__(self) -> int: ...

    def batch(self, indices: Indices, names: tuple[str, ...], /) -> Batch:
        """Rows by index (``int64 (n,)``, none negative) of these columns, as the schema says they look in a batch.

        Raises:
            IndexError: An index is out of range.
        """

    def where(self, index: int, /) -> Where:
        """Path, and number of the row in its file."""


class BatchWriter(Protocol):
    """Takes batches. The file appears under its name at ``close``, or never."""

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append ``n`` examples: columns as in :data:`~headrace.contracts.values.Batch`."""

    def close(self) -> None: ...
    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A feature that a format cannot hold as it is.

    Args:
        feature: Its name.
        expected: What the format holds.
        found: What the feature is.
        instead: What it can be stored as, if something of it may be lost; ``None``: it can only be left out.
        hint: What a user can do.
        certain: ``False`` where it fits as long as ``instead`` holds its values exactly.
    """

    feature: str
    expected: str
    found: str
    instead: Feature | None = None
    hint: str = ""
    certain: bool = True


def check_given(found: Schema, given: Schema, where: Where) -> None:
    """Hold a schema that was given against the one that a file has.

    Raises:
        NoSuchFeature, SchemaMismatch: A feature is not there, or something else.
    """
    for name, feature in given.items():
        other = found[name]
        if (other.dtype, other.shape) != (feature.dtype, feature.shape):
            raise SchemaMismatch(where.at(feature=name), expected=repr(feature), found=repr(other))


def is_table(records: Any) -> TypeGuard[Table]:
    """Whether what a format opened is a :class:`Table` rather than records of bytes. Reads nothing."""
    kind = type(records)
    return hasattr(kind, "schema") and hasattr(kind, "batch")
