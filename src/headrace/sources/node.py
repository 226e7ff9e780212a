"""How something is read. A node has no operations: :class:`headrace.Source` has them, and holds a node.

A node must have what :class:`Node` asks for. Each other ability is a protocol of one method. Call the functions below: they use the
method if a node has it, and fall back otherwise. Protocols have methods rather than properties, because checking an object for a
property would compute it.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np

from headrace.contracts.protocols import KnowsSizes, ReadsChecked, RowSizer, Streams, class_defines
from headrace.contracts.random_keys import HasRandomStreams
from headrace.contracts.records import Records, Table
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Batch, Example, Indices, Ragged, list_examples, size_of
from headrace.errors import CorruptRecord, NoFiles, SchemaMismatch, TransformError, UnsupportedData, Where
from headrace.sources.stacking import row, schema_of, stack

__all__ = [
    "CountsLate",
    "CutsBatches",
    "DecodesImages",
    "HasRuns",
    "Narrows",
    "Node",
    "OverFiles",
    "OverNodes",
    "ReadsInOrder",
    "ReadsOne",
    "checked_reader",
    "cuts_cleanly",
    "describe_count",
    "encoded_node",
    "example_at",
    "examples_by_index",
    "examples_of",
    "fingerprint_of",
    "first_schema",
    "is_counted",
    "narrow",
    "place_of",
    "random_streams",
    "read_blocks",
    "records_below",
    "runs_of",
    "stored_bytes",
    "stream",
    "walk",
]

TEXT_KINDS = "OUS"
"""The kinds of dtypes whose arrays are compared by their values, because how they hold text differs."""
MOST_LOOKED_AT = 256
"""Examples that are read to find types that the first one does not show, that one included."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
"""The address in a default ``repr``, which differs between processes."""
BLOCK = 256
"""Examples read at a time by iteration, if the node does not read in order."""
FIRST_BLOCK = 64
"""Examples read first, before anything is known of their size."""
BLOCK_BYTES = 64 << 20
"""About the most bytes of examples that are read at a time, unless one has more."""


class Node(Protocol):
    """Examples by index. Picklable; safe in threads and after a fork."""

    @property
    def schema(self) -> Schema:
        """Feature names and types of the examples."""

    def __len__(self) -> int: ...

    def batch(self, indices: Indices, /) -> Batch:
        """The examples at ``indices`` (``int64``, checked, none negative), stacked feature by feature, in arrays that do not change."""

    def where(self, index: int, /) -> Where:
        """The place of an example in its file, for messages."""


@runtime_checkable
class OverNodes(Protocol):
    """A node that reads others."""

    def below(self) -> tuple[Node, ...]:
        """The nodes that it reads."""


@runtime_checkable
class OverFiles(Protocol):
    """A node whose examples are the records of files, one for one."""

    records: Records | Table


@runtime_checkable
class Narrows(Protocol):
    """A node that can leave features undecoded."""

    def narrow(self, names: tuple[str, ...], /) -> Node:
        """The same examples with at least the features ``names``."""


@runtime_checkable
class DecodesImages(Protocol):
    """A node that decodes images, or reads one that does."""

    def encoded(self) -> Node:
        """The same examples with images as the bytes that they are stored as."""


@runtime_checkable
class CutsBatches(Protocol):
    """A node that knows whether a batch of it can be cut."""

    def cuts_cleanly(self) -> bool:
        """Whether columns have the same kind and dtype for all indices, so that a batch can be cut into smaller ones."""


@runtime_checkable
class CountsLate(Protocol):
    """A node that reads those below it to find out how many examples it has."""

    def is_counted(self) -> bool:
        """Whether that is done."""


@runtime_checkable
class HasRuns(Protocol):
    """A node whose examples may form runs, such as the steps of an episode."""

    def runs(self) -> Indices | None:
        """``int64 (runs + 1,)``: the first example of each run, and the number of all examples. ``None``: there is one run."""


@runtime_checkable
class ReadsOne(Protocol):
    """A node that reads one example for less than a batch of one."""

    def example(self, index: int, /) -> Example:
        """The example at ``index``, which is checked."""


@runtime_checkable
class ReadsInOrder(Protocol):
    """A node that reads all examples in order for less than by index."""

    def examples(self) -> Iterator[Example]:
        """All examples, in order."""


def narrow(node: Node, names: tuple[str, ...]) -> Node:
    """The node with at least the features ``names``. Where others can be left undecoded, they are."""
    return node.narrow(names) if isinstance(node, Narrows) else node


def encoded_node(node: Node) -> Node:
    """The node with images as the bytes that they are stored as."""
    return node.encoded() if isinstance(node, DecodesImages) else node


def stream(node: Node, batch_size: int) -> Iterator[Batch] | None:
    """All batches in order, where that is cheaper than by index just now; else ``None``."""
    return node.stream(batch_size) if class_defines(type(node), Streams) else None  # type: ignore[attr-defined]


def cuts_cleanly(node: Node) -> bool:
    """Whether a batch can be cut into smaller ones; not so where the user's own function makes the values."""
    found: Any = class_defines(type(node), CutsBatches) and node.cuts_cleanly  # type: ignore[attr-defined]
    return bool(found() if callable(found) else found)  # a property of sources, such as a Mixture, that are nodes


def checked_reader(node: Node) -> Callable[[Indices], Batch]:
    """``batch``, or a faster equal for arrays of int64 indices from 0 to below the length."""
    return node.checked_reader() if class_defines(type(node), ReadsChecked) else node.batch  # type: ignore[attr-defined]


def stored_bytes(node: Any, first: int, stop: int) -> int:
    """What :class:`~headrace.contracts.protocols.KnowsSizes` asks of a node, records or a table; 0 if they do not say."""
    kind: Any = type(node)
    return node.stored_bytes(first, stop) if class_defines(kind, KnowsSizes) else 0


def random_streams(node: Node) -> int:
    """How many streams of random numbers a node and those below it use. 0: nothing that it reads is random."""
    return sum(each.random_streams() for each in walk(node) if class_defines(type(each), HasRandomStreams))  # type: ignore[attr-defined]


@cache
def _reads_one(kind: type) -> bool:
    """Asked for every example that is read by itself, where checking a protocol costs as much as reading."""
    return issubclass(kind, ReadsOne)


def list_rows(batch: Batch, count: int) -> list[dict[str, Any]]:
    """All ``count`` examples of a batch, each as :func:`~headrace.sources.stacking.row` gives it. Columns are taken apart one by one, because
    indexing each of them for each example takes several times as long.
    """
    if not batch:
        return [{} for _ in range(count)]
    names, columns = tuple(batch), [_values_of(column, count) for column in batch.values()]
    return list_examples(names, columns)


def _values_of(column: Any, count: int) -> list[Any]:
    if isinstance(column, (np.ndarray, Strings, Ragged, list)):
        return column.tolist() if isinstance(column, Strings) and column.ndim == 1 else list(column)
    return [column[i] for i in range(count)]


def first_schema(first: Batch, examples: Iterable[Example]) -> Schema:
    """The schema of what a function makes: that of the first example. Where its value is missing, or an empty list, which has no type, up
    to 255 more examples are read.

    Args:
        first: The first example, as a batch.
        examples: All examples from the first on.
    """
    features = dict(schema_of(first))
    unknown = [name for name, column in first.items() if not _has_value(column)]
    with suppress(Exception):  # An example that fails does so when it is read.
        for example in islice(examples, 1, MOST_LOOKED_AT) if unknown else ():
            for name in unknown.copy():
                column = stack([{name: first[name][0]}, {name: example[name]}])[name]
                if _has_value(column):
                    features[name] = schema_of({name: column})[name]
                    unknown.remove(name)
            if not unknown:
                break
    return Schema(features)


def _has_value(column: Any) -> bool:
    if isinstance(column, (Ragged, list)):
        return any(_has_value(each) for each in ([column.values] if isinstance(column, Ragged) else column))
    if isinstance(column, np.ndarray) and column.dtype == object:
        return any(value is not None for value in column.reshape(-1))
    return not isinstance(column, (np.ndarray, Strings)) or math.prod(column.shape) > 0


def example_at(node: Node, index: int) -> Example:
    """One example; ``index`` is checked and not negative."""
    if _reads_one(type(node)):
        return node.example(index)  # type: ignore[attr-defined, no-any-return]
    return row(node.batch(np.array([index], np.int64)), 0)


def examples_of(node: Node) -> Iterator[Example]:
    """All examples in order, read in blocks where the node has no cheaper way."""
    return node.examples() if isinstance(node, ReadsInOrder) else examples_by_index(node)


def examples_by_index(node: Node) -> Iterator[Example]:
    """All examples in order, read in blocks by index, or each by itself where values of a block are not of one feature."""
    begin = 0
    with suppress(SchemaMismatch):  # raised below by the example at fault
        for start, stop, batch in read_blocks(node, BLOCK):
            yield from list_rows(batch, stop - start)
            begin = stop
    for index in range(begin, len(node)):
        yield from list_rows(node.batch(np.array([index], np.int64)), 1)


def read_blocks(node: Node, most_rows: int, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, int, Batch]]:
    """All examples in order, or those from ``begin`` up to ``end``, as the first, the one after the last, and the batch of them: at most
    ``most_rows`` at a time, and about 64 MB.
    """
    end = len(node) if end is None else end
    sizer = RowSizer(FIRST_BLOCK, most_rows, BLOCK_BYTES, lambda first, stop: stored_bytes(node, first, min(stop, end)))
    while begin < end:
        rows = sizer.take(begin, end)
        batch = node.batch(np.arange(begin, begin + rows))
        sizer.note(begin, rows, sum(map(size_of, batch.values())))
        yield begin, begin + rows, batch
        begin += rows


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, each after those that it reads."""
    for parent in node.below() if class_defines(type(node), OverNodes) else ():  # type: ignore[attr-defined]
        yield from walk(parent)
    yield node


def is_counted(node: Node) -> bool:
    """Whether the number of examples is known, so that asking for it reads nothing."""
    return all(each.is_counted() for each in walk(node) if isinstance(each, CountsLate))


def describe_count(node: Node) -> str:
    """The number of examples in words, as far as it is known."""
    if not is_counted(node):
        return "examples not counted yet"
    return f"{len(node)} example{'s' if len(node) != 1 else ''}"


def place_of(node: Node, index: int) -> Where:
    """The place of an example in its file; a negative index counts from the end.

    Raises:
        IndexError: It is out of range.
        TypeError: It is no integer.
    """
    n = len(node)
    try:
        position = operator.index(index)
    except TypeError:
        kind = type(index).__name__
        raise TypeError(
            f"where(index) is the place of one example, got {kind}: source[mask] chooses examples"
        ) from None
    if not -n <= position < n:
        raise IndexError(f"index {position} is outside a source of {n} examples")
    return node.where(position % n)


def runs_of(node: Node) -> Indices | None:
    """``int64 (runs + 1,)``: see :meth:`HasRuns.runs`. ``None``: all examples are one run."""
    return node.runs() if isinstance(node, HasRuns) else None


def records_below(node: Node) -> list[Records | Table]:
    """The records and tables below a node, each once."""
    found = [each.records for each in walk(node) if isinstance(each, OverFiles)]
    return list({id(records): records for records in found}.values())


def fingerprint_of(node: Node) -> str:
    """Sixteen hexadecimal digits that differ for other data: from the number of examples, the schema, and the first and last example.

    They stay the same when files are moved, renamed, re-sharded or compressed, and when images are decoded by other means. An example that cannot
    be read counts as such: a run must be able to save its state although the last one is damaged.
    """
    import hashlib  # imported here, because it loads OpenSSL

    node = encoded_node(node)
    schema = node.schema.select(
        sorted(node.schema)
    )  # the order of a set differs between processes, and batches have names
    digest = hashlib.sha256(_bytes(f"{len(node)}{schema.to_json()}"))
    for index in (0, len(node) - 1) if len(node) else ():
        try:
            example = example_at(node, index)
        except (CorruptRecord, NoFiles, SchemaMismatch, TransformError, UnsupportedData):
            example = {"cannot be read": None}
        _add(digest.update, example)
    return digest.hexdigest()[:16]


def _bytes(text: str) -> bytes:
    """Text as bytes: keys of Examples may be any bytes, names in JSON half a character."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="surrogatepass")


def _add(update: Callable[[bytes], object], value: Any) -> None:
    if isinstance(value, dict):
        for name in sorted(value, key=str):
            update(_bytes(str(name)))
            _add(update, value[name])
    elif isinstance(value, bytes):
        update(value)
    elif hasattr(value, "tocsr"):
        entries = value.reshape((1, -1)).tocsr()
        update(entries.indices.astype(np.int64).tobytes() + entries.data.tobytes())
    elif isinstance(value, np.ndarray) and value.dtype.kind not in TEXT_KINDS:
        update(value.tobytes())
    else:
        update(_bytes(ADDRESS.sub("", repr(_plain(value)))))


def _plain(value: Any) -> Any:
    """A value without arrays and sets: their ``repr`` depends on NumPy's version and settings, or on the process."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in TEXT_KINDS:
        return value.shape, value.tobytes()
    if isinstance(value, (np.ndarray, np.generic, Strings)):
        value = value.tolist()
    elif isinstance(value, Ragged):
        value = value.to_list()
    elif isinstance(value, dict):
        return {name: _plain(value[name]) for name in sorted(value, key=str)}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__qualname__, [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
