"""What is shown: an opened source, read a page at a time within limits of size."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.images import encoding_of_most
from headrace.contracts.records import files_of, is_table
from headrace.contracts.schema import Schema
from headrace.contracts.values import Example
from headrace.datasets.opening import data_source, find_split
from headrace.datasets.prepared import INFO_FILE
from headrace.datasets.source import PreparedSource
from headrace.errors import DataError, HeadraceError, NoFiles, UnknownFormat, Where
from headrace.io.system import cached_property
from headrace.io.threads import start_thread
from headrace.sources.conditions.condition import Condition
from headrace.sources.node import encoded_node, examples_of, records_below
from headrace.sources.open import open as open_source
from headrace.sources.operations.choosing import fitting
from headrace.sources.source import ColumnSource, Source
from headrace.sources.stacking import row
from headrace.sources.views import keep_features
from headrace.viewer.display.cells import has_pixels

__all__ = ["MOST_PAGE_BYTES", "Row", "ShownDataset", "open_datasets"]

MOST_PAGE_BYTES = 64 << 20
"""The most bytes of records that one page reads."""
COUNT_PATIENCE_S = 0.25
"""How long a page waits for the number of examples, which may need a pass over the files."""
FLAGS = {
    "format": "--format",
    "codec": "--codec",
    "schema": "--schema",
    "columns": "--columns",
    "on_corrupt": "--skip-corrupt",
}
"""Options of opening, as commands name them."""
OPTIONS_OF = {"verify": ("format", "codec", "schema")}
"""Commands that take fewer of them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One example of a page.

    Args:
        index: Its index.
        values: Its features; ``None`` if it cannot be shown.
        fault: Why not.
    """

    index: int
    values: Example | None
    fault: str | None = None


class ShownDataset:
    """One source, and what a page needs to know about it.

    Args:
        source: The source.
        name: What the user calls it.
        code: Python that opens it.
        paths: The arguments of commands for the same data; empty where it has no name that they know.
        options: The options that it was opened with.
        refusal: Why it cannot be opened. It has no rows then, but its faults and bytes can be shown.
        is_split: Whether ``paths`` names a split of a prepared dataset.
    """

    def __init__(
        self,
        source: Source,
        *,
        name: str,
        code: str,
        paths: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        refusal: DataError | None = None,
        is_split: bool = False,
    ) -> None:
        self.source = source
        self.name = name
        self.code = code
        self.paths: tuple[str, ...] = tuple(paths)
        self.options = {key: value for key, value in (options or {}).items() if value is not None}
        self.refusal = refusal
        self._is_split = is_split
        self._counted = threading.Event()
        self._count: int | None = None
        self._failure: BaseException | None = None
        self._opened = {path: _state_of(path) for path in self.files}
        start_thread(self._find_count, name="headrace-view-count", stop=self._counted.set)

    @cached_property
    def stored(self) -> Source:
        """The same examples with images as they are stored."""
        return Source(encoded_node(self.source.node))

    @cached_property
    def schema(self) -> Schema:
        """The features. Those with an encoding are images."""
        stored = self.stored.schema
        return Schema({name: _with_encoding(feature, self.source.schema.get(name)) for name, feature in stored.items()})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the features, in order: addresses hold their positions."""
        return tuple(self.schema)

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each feature."""
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def is_wide(self) -> frozenset[str]:
        """Features whose value alone is more than a page may read."""
        return frozenset(name for name, feature in self.schema.items() if _fixed_bytes(feature) > MOST_PAGE_BYTES)

    @property
    def files(self) -> list[str]:
        """Its files."""
        found = [path for records in records_below(self.source.node) for path in files_of(records)]
        where = None if self.refusal is None else self.refusal.where.path
        return found or ([where] if where is not None else [])

    def paths_of(self, command: str) -> list[str]:
        """The arguments of a command or function; none where there are no files. ``verify`` takes files, other commands also names of splits."""
        return self.files if command == "verify" and (self._is_split or not self.paths) else list(self.paths)

    def options_of(self, command: str) -> dict[str, Any]:
        """The options that a command or function takes, of those that it was opened with."""
        return {name: value for name, value in self.options.items() if name in OPTIONS_OF.get(command, FLAGS)}

    def flags(self, command: str) -> list[str]:
        """The same options as words of a command."""
        words: list[str] = []
        for name, value in self.options_of(command).items():
            if name == "on_corrupt":
                words += ["--skip-corrupt"] if value == "skip" else []
            elif name == "format" and command == "convert":
                words += ["--source-format", str(value)]
            elif name == "schema":
                words += [FLAGS[name], "FILE"]
            else:
                shown = ",".join(value) if name == "columns" else str(getattr(value, "value", value))
                words += [FLAGS[name], shown]
        return words

    @property
    def file_states(self) -> tuple[tuple[str, int, int, int], ...] | None:
        """Name, size and times of each file now; ``None`` where nothing here would notice a change, as for URLs."""
        return _whole_states({path: _state_of(path) for path in self._opened})

    @property
    def opened_states(self) -> tuple[tuple[str, int, int, int], ...] | None:
        """The same, at the time of opening: the versions that the shown examples come from."""
        return _whole_states(self._opened)

    @property
    def changed_files(self) -> list[str]:
        """Files that were changed, replaced or removed after they were opened. Their shown examples are the old ones, or missing."""
        return [path for path, state in self._opened.items() if state is not None and state != _state_of(path)]

    def count(self, patience_s: float = COUNT_PATIENCE_S) -> int | None:
        """The number of examples; ``None`` while it is not known."""
        self._counted.wait(patience_s)
        return self._count

    @property
    def failure(self) -> str | None:
        """Why the number of examples cannot be known: damaged files."""
        return None if self._failure is None else str(self._failure)

    def _find_count(self) -> None:
        try:
            self._count = len(self.source)
        except Exception as error:  # noqa: BLE001 - shown on every page
            self._failure = error
        finally:
            self._counted.set()

    def rows(self, start: int, stop: int, names: Sequence[str]) -> list[Row]:
        """Examples ``start`` to ``stop`` with these features. Damaged or very large ones have a fault instead of values."""
        count = self.count()
        if count is None:
            return self._rows_in_order(start, stop, names)
        return self.rows_at(range(min(start, count), min(stop, count)), names)

    def rows_at(self, indices: Sequence[int], names: Sequence[str]) -> list[Row]:
        """The examples at these indices, as :meth:`rows`."""
        wanted = [name for name in names if name not in self.is_wide]
        rows: list[Row] = []
        small, budget = [], MOST_PAGE_BYTES
        for index in indices:
            size = self._record_bytes(index, wanted)
            if size > budget:
                rows.append(
                    Row(index, None, f"the record has {size:,} bytes, and a page reads at most {MOST_PAGE_BYTES:,}")
                )
            else:
                budget -= size
                small.append(index)
        rows += self._read(small, wanted)
        return sorted(rows, key=lambda each: list(indices).index(each.index))

    def _read(self, indices: Sequence[int], names: Sequence[str]) -> list[Row]:
        if not names:
            return [Row(index, {}) for index in indices]
        if not indices:
            return []
        node = keep_features(self.stored.node, tuple(names))
        try:
            batch = node.batch(np.asarray(indices, np.int64))
            return [Row(index, row(batch, position)) for position, index in enumerate(indices)]
        except Exception as error:  # noqa: BLE001 - a damaged record, or a function of the user's
            if len(indices) == 1:
                return [Row(indices[0], None, str(error))]
        return [each for index in indices for each in self._read([index], names)]

    def _rows_in_order(self, start: int, stop: int, names: Sequence[str]) -> list[Row]:
        """The first examples, before they are counted or up to the damage that keeps them from being counted."""
        found: list[Row] = []
        node = keep_features(self.stored.node, tuple(name for name in names if name not in self.is_wide))
        try:
            for index, example in enumerate(islice(examples_of(node), stop)):
                if index >= start:
                    found.append(Row(index, example))
        except Exception as error:  # noqa: BLE001
            found.append(Row(start + len(found), None, str(error)))
        return found

    def _record_bytes(self, index: int, names: Sequence[str]) -> int:
        """Bytes of an example in its file, estimated from its neighbour; of tables, the share of these features, which are read by themselves."""
        if any(map(is_table, records_below(self.source.node))):
            with contextlib.suppress(HeadraceError, OSError):
                share = self.stored.stored_bytes(index, index + 1) * len(names) // len(self.names)
                return max(share, sum(_fixed_bytes(self.schema[name]) for name in names))
            return 0  # A damaged row, which reading names.
        with contextlib.suppress(HeadraceError, IndexError, AttributeError, OSError):
            here, count = self.source.where(index), self._count
            if here.offset is None or count is None:
                return 0
            if self._is_last_of_file(here):
                return max(0, Path(here.path or "").stat().st_size - here.offset)
            if index + 1 >= count:
                return 0
            after = self.source.where(index + 1)
            if after.path == here.path and after.offset is not None and after.record == (here.record or 0) + 1:
                return max(0, after.offset - here.offset)
        return 0

    def _is_last_of_file(self, here: Where) -> bool:
        """Whether no record follows in the file. The next example of a selection may be of another one."""
        for records in records_below(self.source.node):
            if here.path in records.paths and here.record is not None:
                lengths = getattr(records, "lengths", None)
                return lengths is not None and here.record + 1 == lengths[records.paths.index(here.path)]
        return False

    def where(self, index: int) -> Where:
        """The place of an example."""
        try:
            return self.source.where(index)
        except (HeadraceError, IndexError):
            return Where()

    def fitting(self, condition: Condition, start: int) -> Iterator[tuple[int, list[int]]]:
        """The examples from ``start`` that fit a condition: how far the search is, and the indices found there.

        Raises:
            NoSuchFeature, ConditionError: It does not fit the features.
        """
        condition.needed(self.stored.schema)
        count = len(self.source)
        try:
            for stop, found in fitting(self.stored.node, condition, start, count):
                start = stop
                yield stop, found.tolist()
        except HeadraceError:  # One by one, to find those before the damage.
            for stop, found in fitting(self.stored.node, condition, start, count, 1):
                yield stop, found.tolist()

    def label_features(self) -> list[str]:
        """The features that examples can be grouped by: integers or text, one value each; those with names first."""
        found = [n for n, f in self.schema.items() if f.shape == () and f.encoding is None and _is_label(f)]
        return sorted(found, key=lambda name: (self.schema[name].names is None, "label" not in name.lower()))

    def image_features(self) -> list[str]:
        """The features that are images, or arrays that look like some. Of data in memory, their first values tell."""
        found = {n for n, each in self.schema.items() if each.encoding is not None or has_pixels(each)}
        is_open = not records_below(self.source.node) and self.count()
        unknown = [n for n, each in self.schema.items() if is_open and each.dtype == "bytes" and each.shape == ()]
        firsts = [row.values or {} for row in self.rows(0, 8, unknown)] if unknown else []
        found.update(n for n in unknown if encoding_of_most(bytes(each[n]) for each in firsts if each.get(n)))
        return [name for name in self.names if name in found]

    def sample_rate(self, name: str) -> int | None:
        """Samples per second of a recording of a prepared dataset."""
        if not isinstance(self.source, PreparedSource):
            return None
        with contextlib.suppress(KeyError, TypeError, HeadraceError):
            return getattr(self.source.features[name], "sample_rate", None)  # type: ignore[index]
        return None


def _with_encoding(stored: Feature, decoded: Feature | None) -> Feature:
    if stored.encoding is not None or decoded is None or decoded.encoding is None or not stored.is_text:
        return stored
    return decoded.stored


def _state_of(path: str) -> tuple[int, int, int] | None:
    """Size and times of a file; ``None`` of none, or of a URL."""
    try:
        state = Path(path).stat()
    except (OSError, ValueError):
        return None
    return state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _whole_states(states: Mapping[str, tuple[int, int, int] | None]) -> tuple[tuple[str, int, int, int], ...] | None:
    found = [(path, *state) for path, state in states.items() if state is not None]
    return tuple(found) if len(found) == len(states) else None


def _fixed_bytes(feature: Feature) -> int:
    """Bytes of a value, where all have as many; else 0."""
    return feature.count * feature.numpy_dtype.itemsize if feature.is_fixed and not feature.is_text else 0


def _is_label(feature: Feature) -> bool:
    return feature.is_text or feature.numpy_dtype.kind in "iub"


def open_datasets(path: str, **options: Any) -> list[ShownDataset]:
    """Open what :func:`headrace.open` or :func:`headrace.data_source` opens.

    Args:
        path: A path, pattern or URL; or the name or folder of a prepared dataset, with ``:split`` for one split.
        options: For :func:`headrace.open`.

    Returns:
        One dataset; of a prepared dataset without ``:split``, each of its splits. Damaged files that cannot be opened have a ``refusal``.

    Raises:
        NoFiles, UnknownFormat: It is none of them.
    """
    columns = options.get("columns")
    is_prepared = (Path(path) / INFO_FILE).is_file() and all(value is None for value in options.values())
    if is_prepared and (splits := _open_prepared(path, columns)):
        return splits
    given = "".join(f", {name}={_plain(value)!r}" for name, value in options.items() if value is not None)
    shown: dict[str, Any] = {
        "name": path,
        "code": f"headrace.open({path!r}{given})",
        "paths": [path],
        "options": options,
    }
    try:
        return [ShownDataset(open_source(path, **options), **shown)]
    except (NoFiles, UnknownFormat) as error:
        splits = _open_prepared(path, columns)
        if not splits:
            raise error from None
        return splits
    except DataError as error:
        return _open_prepared(path, columns) or [ShownDataset(ColumnSource({}), **shown, refusal=error)]


def _plain(value: Any) -> Any:
    """A value as Python is shown: the word of a choice instead of the choice."""
    return getattr(value, "value", value)


def _open_prepared(path: str, columns: Sequence[str] | None) -> list[ShownDataset]:
    """The splits of a prepared dataset, or the one that is named."""
    with contextlib.suppress(HeadraceError, ValueError):
        return [_show_split(path, each, found, columns) for each, found in data_source(path, download=False).items()]
    found = find_split(path)
    return [] if found is None else [_show_split(*found, columns)]


def _show_split(name: str, split: str, source: Source, columns: Sequence[str] | None) -> ShownDataset:
    shown, code = f"{name}:{split}", f"headrace.data_source({name!r}, split={split!r})"
    if columns is not None:
        source, code = source.select(*columns), f"{code}.select{(*columns,)!r}"
    return ShownDataset(source, name=shown, code=code, paths=[shown], options={"columns": columns}, is_split=True)
