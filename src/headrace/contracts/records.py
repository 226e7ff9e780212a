"""What formats offer and sources use: records (bytes by index), tables (typed columns), and the shard of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypeGuard, runtime_checkable

from headrace._arguments import check_integer
from headrace.contracts.feature import Feature
from headrace.contracts.protocols import Piece
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import DataError, SchemaMismatch, Where

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Buffer

__all__ = [
    "SPARSE_HINT",
    "BatchWriter",
    "Checked",
    "ChecksFiles",
    "Format",
    "GivesReader",
    "IsUnnamed",
    "KnowsColumns",
    "Misfit",
    "OfFolder",
    "OnCorrupt",
    "ReadsBlocks",
    "ReadsFirst",
    "RecordWriter",
    "Records",
    "Salvaged",
    "Shard",
    "Skipped",
    "Table",
    "TakesColumns",
    "TakesSchema",
    "check_given",
    "files_of",
    "is_table",
]


OnCorrupt = Literal["raise", "skip"]
SPARSE_HINT = "Sparse rows stay sparse in .recordio only; matrix.toarray() makes them dense."


@dataclass(frozen=True, slots=True)
class Skipped:
    """Damage skipped so far with ``on_corrupt="skip"``.

    Args:
        records: Number of damaged stretches. A stretch is one record if its length can be trusted, otherwise everything
            up to the next intact record.
        bytes: Their size in the file (in the decompressed stream of a compressed file).
    """

    records: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """The result of salvaging a damaged file.

    Args:
        records: How many are in the new file.
        lost_records: How many were lost; ``None`` where the file no longer says how many it had.
        lost_bytes: How much of the file is damaged.
    """

    records: int
    lost_records: int | None
    lost_bytes: int


@dataclass(slots=True)
class Checked:
    """A stretch of one file after all checks of its format.

    Args:
        path: The file.
        records: Intact records in the stretch.
        bytes: How many bytes of the file on disk were checked since the last stretch.
        faults: What was found since the last stretch.
        spans: ``_native.Spans`` of the intact records, for checks by a codec; ``None`` where there are none.
        run: Has ``where(position)``, the place of an intact record.
    """

    path: str
    records: int = 0
    bytes: int = 0
    faults: list[DataError] = field(default_factory=list)
    spans: Any = None
    run: Any = None

    def where(self, position: int) -> Where:
        """The place of an intact record of the stretch."""
        found: Where = Where(path=self.path) if self.run is None else self.run.where(position)
        return found


@runtime_checkable
class Records(Protocol):
    """The records of some files, joined in order. Picklable; safe in threads and after fork."""

    format: str
    paths: tuple[str, ...]

    @property
    def skipped(self) -> Skipped: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> memoryview: ...
    def __iter__(self) -> Iterator[memoryview]: ...

    def spans(self, indices: Indices, /) -> Any:
        """``_native.Spans`` of these records, in this order: the fast path."""

    def iter_spans(self, records: int | None = None, /) -> Iterator[tuple[int, Any]]:
        """All records in order without an index, as (number of the first record, ``_native.Spans``)."""

    def where(self, index: int, /) -> Where:
        """Path, number of the record in its file, and byte offset of a global index."""

    def where_in_order(self, index: int, /) -> Where:
        """The same without an index, for files that are too damaged for one."""

    @property
    def prefers_streaming(self) -> bool:
        """Whether reading in order would begin sooner than random access."""


class RecordWriter(Protocol):
    """Takes records one by one. The file appears under its name at ``close``, or never: ``abort`` removes what was written."""

    head: int
    """Bytes that :meth:`write_block` needs before each payload."""
    tail: int
    """Bytes that it needs after each."""

    def write(self, payload: Buffer, /) -> None:
        """Append one record."""

    def write_many(self, payloads: Sequence[Buffer], /) -> None:
        """Append several records."""

    def write_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices, /) -> None:
        """Append records that lie in one array with room round each payload. The array is given away."""

    def close(self) -> None: ...
    def abort(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Everything that the rest of the package knows of a format.

    Formats of records (``writer``) hold payloads, which a codec turns into examples. Formats of tables (``sink``) hold typed
    columns: ``open`` gives a :class:`~headrace.contracts.records.Table`.

    Args:
        name: What ``format=`` takes.
        suffixes: Of its files, in lower case with the dot.
        knows: Whether the first bytes of a file show this format.
        open: ``open(paths)``, with ``compression=`` where ``compressible``, and those of ``on_corrupt=`` and ``verify=`` that
            ``options`` names: :class:`Records`, or a :class:`Table`.
        options: Which of ``"on_corrupt"`` and ``"verify"`` the format supports. Other values than the default of the others are
            refused, so that damage is never believed to be skipped where it is not.
        folder: ``folder(path, look)``: whether a folder is one data set of this format; ``open`` then gets the folder.
            ``look`` lists folders (:data:`headrace.io.folders.Lister`). ``None``: a folder means the files in it.
        compressible: Whether a file may be one GZIP or ZLIB stream.
        codec: The default codec of payloads: ``"example"`` or ``"sagemaker_record"``.
        writer: ``writer(path, compression=...)`` for one file of records; ``None`` where records alone do not make one.
        sink: ``sink(path, schema, compression=...)`` for one file of columns; ``None`` for formats of records. With ``first=False``,
            where there is no ``join``: for a part that follows another file of the format, without its header.
        misfits: ``misfits(schema)``: the features that a ``sink`` cannot hold unchanged; ``None``: it holds all.
        compressions: The values of ``compression=`` in writing; the first is the default. Empty: none, gzip and zlib where
            ``compressible``, else none.
        compression_of: ``compression_of(paths)``: the compression of the content of files, as a word. ``None``: found from
            the first bytes where ``compressible``, else none.
        join: ``join(parts, path)`` joins complete files to one; ``None`` where their bytes can simply follow one another, or ``pieces`` is
            given.
        pieces: ``pieces(parts)``: what the file that complete files are joined to consists of, where that can be said before it is written.
            Its pieces are then written by several threads.
        joined_writer: As ``sink``, or ``writer`` where there is no sink: it gets the examples of several files, and makes the very bytes that
            those files are joined to (uncompressed, where ``compressible``). ``None``: large files are written in parts and joined.
        verify: ``verify(records)``: every check of every file, with damage reported and not raised; ``None``: all rows are read.
        salvage: ``salvage(path, out)`` copies intact records; ``None``: they are read with damage skipped, and written again.
    """

    name: str
    suffixes: tuple[str, ...]
    knows: Callable[[bytes], bool]
    open: Callable[..., Any]
    options: frozenset[str] = frozenset()
    folder: Callable[[str, Any], bool] | None = None
    compressible: bool = False
    codec: Literal["example", "sagemaker_record"] = "example"
    writer: Callable[..., RecordWriter] | None = None
    sink: Callable[..., BatchWriter] | None = None
    misfits: Callable[[Schema], Sequence[Misfit]] | None = None
    compressions: tuple[str, ...] = ()
    compression_of: Callable[[Sequence[str]], str] | None = None
    join: Callable[[Sequence[str], str], None] | None = None
    pieces: Callable[[Sequence[str]], Sequence[Piece]] | None = None
    joined_writer: Callable[..., Any] | None = None
    verify: Callable[[Any], Iterator[Checked]] | None = None
    salvage: Callable[[str, str], Salvaged] | None = None


class Table(Protocol):
    """The rows of some files, joined in order, as typed columns. Picklable; safe in threads and after fork.

    What a table may offer besides is one protocol each: :class:`TakesSchema`, :class:`TakesColumns`, :class:`ReadsBlocks`,
    :class:`GivesReader`, :class:`IsUnnamed`, :class:`KnowsColumns`, :class:`OfFolder`, and :class:`~headrace.contracts.protocols.CutsCleanly`.
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


class GivesReader(Protocol):
    """A table with a shorter way to many small batches."""

    def reader(self, names: tuple[str, ...], /) -> Callable[[Indices], Batch]:
        """A function that equals ``batch`` with these names, for arrays of int64 indices from 0 to below the length."""


@runtime_checkable
class TakesSchema(Protocol):
    """A table whose rows can be read as other types. Without it, ``open(schema=)`` only checks."""

    def with_schema(self, schema: Schema, /) -> Table:
        """The same rows, read as these types."""


@runtime_checkable
class TakesColumns(Protocol):
    """A table that need not look at all columns."""

    def only(self, names: tuple[str, ...], /) -> Table:
        """The same rows with these columns. The others are not looked at, so they may hold anything."""


@runtime_checkable
class ReadsBlocks(Protocol):
    """A table that reads all rows in order for less than by index."""

    def blocks(self, names: tuple[str, ...], rows: int, /) -> Iterator[Batch]:
        """All rows in order, about ``rows`` at a time."""


@runtime_checkable
class IsUnnamed(Protocol):
    """A table that may hold one column to which the file gives no name."""

    @property
    def is_unnamed(self) -> bool:
        """Whether it does. The column then has the name that a given schema has for it."""


@runtime_checkable
class ChecksFiles(Protocol):
    """A table with an example in each file, some of which can be checked without the others."""

    def check_files(self, files: range, /) -> Iterator[Checked]:
        """The checks of some files: their numbers."""


@runtime_checkable
class KnowsColumns(Protocol):
    """A table with columns that are not in its files, such as those of a manifest."""

    def known_columns(self) -> Mapping[str, Any]:
        """Their values, one for each example."""


@runtime_checkable
class OfFolder(Protocol):
    """A table or records whose ``paths`` are one folder."""

    def files(self) -> Sequence[str]:
        """The files in it."""


@runtime_checkable
class ReadsFirst(Protocol):
    """Records whose first ones can be read for less than by beginning to read all of them."""

    def first_spans(self, *sizes: int) -> Iterator[tuple[int, Any]]:
        """Blocks of the first records, of these sizes."""


class BatchWriter(Protocol):
    """Takes batches. The file appears under its name at ``close``, or never: ``abort`` removes what was written."""

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append ``n`` examples: columns as in :data:`~headrace.contracts.values.Batch`."""

    def close(self) -> None: ...
    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A feature that a format cannot hold unchanged.

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
    """Check a given schema against the one of a file.

    Raises:
        NoSuchFeature, SchemaMismatch: A feature does not exist, or has another type.
    """
    for name, feature in given.items():
        other = found[name]
        if (other.dtype, other.shape) != (feature.dtype, feature.shape):
            raise SchemaMismatch(where.at(feature=name), expected=repr(feature), found=repr(other))


def is_table(records: Any) -> TypeGuard[Table]:
    """Whether an opened file is a :class:`Table` rather than records of bytes. Reads nothing."""
    kind = type(records)
    return hasattr(kind, "schema") and hasattr(kind, "batch")


def files_of(records: Records | Table) -> Sequence[str]:
    """The files that records or a table are in: where they are one folder, those in it."""
    return records.files() if isinstance(records, OfFolder) else records.paths


@dataclass(frozen=True, slots=True)
class Shard:
    """Process ``rank`` of ``world`` processes that divide the data.

    Raises:
        ValueError: ``rank`` is not in ``[0, world)``.
        TypeError: One of them is not an integer.

    >>> Shard(1, 4)
    Shard(rank=1, world=4)
    """

    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "rank", check_integer(self.rank, "rank", least=-1)
        )  # frozen: this is the one place that may set
        object.__setattr__(self, "world", check_integer(self.world, "world", least=0))
        if self.world < 1:
            raise ValueError(f"world must be at least 1, got {self.world}")
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank must be in [0, {self.world}), got {self.rank}")
