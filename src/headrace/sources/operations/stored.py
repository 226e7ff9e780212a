"""Examples stored as columns in a folder of our own: written once, whole or not at all, and read by index."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headrace import _optional
from headrace._arguments import word
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import CorruptFile, SchemaMismatch, UnsupportedData, Where
from headrace.formats.columns.read import StoredFeature, describe_damage
from headrace.formats.columns.write import FeatureWriter
from headrace.formats.table.values import column_of
from headrace.io.cache.folder import cache_key
from headrace.io.faults import close_quietly, name_in_errors
from headrace.io.folders import AtomicFolder
from headrace.io.progress import Progress
from headrace.io.system import lock, unlock
from headrace.sources.node import Node, fingerprint_of, random_streams, read_blocks, runs_of

__all__ = ["VERSION", "StoredNode", "check_key", "hold_lock", "store_batches", "store_node"]

VERSION = 1
DESCRIPTION = "columns.json"
_HELD = threading.local()
"""The folders that each thread is making."""
RUNS = "runs"
"""The file of the runs that the examples form: little-endian ``int64``."""
BLOCK = 256
"""Examples read at a time, where a source is stored."""


def check_key(key: str) -> None:
    """Check a key that a user gives.

    Raises:
        TypeError: It is not text.
        ValueError: It is empty.
    """
    word(key, "key")
    if not key:
        raise ValueError("key must be text that names the data and changes when they do, got nothing")


def store_node(node: Node, path: str | os.PathLike[str], key: str, *, progress: bool) -> StoredNode:
    """All examples of a node, from a folder below ``path`` that is made of them unless it is there.

    Raises:
        ValueError: The node draws random numbers, or the key is empty.
        SchemaMismatch, UnsupportedData: A feature cannot be stored.
    """
    check_key(key)
    if random_streams(node):
        raise ValueError(
            "the source draws random numbers, which a cache would freeze: call cache() before the seeded map"
        )
    root = Path(path).expanduser().absolute()
    runs = runs_of(node)
    folder = root / cache_key("cache", VERSION, fingerprint_of(node), key, *(() if runs is None else (RUNS,)))
    with hold_lock(folder):
        if not folder.is_dir():
            with Progress("caching", len(node), "examples", show=progress) as bar:
                store_batches(folder, _blocks(node, bar), node.schema, runs=runs)
    return StoredNode(folder)


def _blocks(node: Node, bar: Progress) -> Iterator[Batch]:
    for start, stop, batch in read_blocks(node, BLOCK):
        yield batch
        bar.advance(stop - start)


@contextlib.contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """One thread of one process at a time makes a folder. The lock goes with its process.

    Each folder has its own, because what is stored may itself come from another folder that is stored meanwhile.

    Raises:
        UnsupportedData: This thread is making the folder already.
    """
    held: set[Path] = _HELD.__dict__.setdefault("folders", set())
    if folder in held:
        raise UnsupportedData(
            Where(path=str(folder)),
            expected="a function that does not need what is made of its own examples",
            found="one that asks for the same data and key while they are stored",
            hint="Choose another key.",
        )
    with name_in_errors(str(folder)):
        folder.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder.parent / f".{folder.name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        lock(fd, wait=True)
        held.add(folder)
        yield
    finally:
        held.discard(folder)
        unlock(fd)
        close_quietly(fd)


def store_batches(
    folder: Path,
    batches: Iterable[Mapping[str, Any]],
    schema: Schema | None = None,
    *,
    is_checked: bool = False,
    runs: Indices | None = None,
) -> None:
    """Write batches as a folder, which appears complete or not at all.

    Args:
        folder: Its name; it does not exist.
        batches: Columns of equal length, with the same features each.
        schema: The features, as far as they are known.
        is_checked: Whether all values fit the schema. Otherwise its shapes are kept only where the values have them.
        runs: The runs that the examples form, such as episodes.

    Raises:
        SchemaMismatch: A feature changes its dtype or its number of axes.
        UnsupportedData: A feature cannot be stored.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    whole = AtomicFolder(folder)
    writers: dict[str, FeatureWriter] = {}
    try:
        for batch in batches:
            if not writers:
                writers = {name: FeatureWriter(whole, f"{at}", name) for at, name in enumerate(batch)}
            _append(writers, batch)
        if runs is not None:
            whole.write(RUNS, runs.astype("<i8").tobytes())
        whole.write(
            DESCRIPTION,
            _describe(writers, schema, is_checked=is_checked, count_of_runs=None if runs is None else len(runs) - 1),
        )
        whole.close()
    except BaseException:
        for writer in writers.values():
            writer.abort()
        whole.abort()
        raise


def _append(writers: Mapping[str, FeatureWriter], batch: Mapping[str, Any]) -> None:
    count = next((writer.rows for writer in writers.values()), 0)
    if list(batch) != list(writers):
        raise SchemaMismatch(Where(record=count), expected=f"the features {list(writers)}", found=str(list(batch)))
    for name, column in batch.items():
        writers[name].append(column, count)


def _describe(
    writers: Mapping[str, FeatureWriter], known: Schema | None, *, is_checked: bool, count_of_runs: int | None
) -> bytes:
    """The text of the description. Features are those of the schema where they were stored so."""
    described = {name: writer.close() for name, writer in writers.items()}
    features = {} if writers or known is None else dict(known)
    for name, found in described.items():
        dtype = found["dtype"] if found["dtype"] in ("str", "bytes") else np.dtype(found["dtype"])
        feature = Feature(dtype, tuple(found["shape"]), sparse=bool(found.get("sparse")))
        declared = None if known is None else known.get(name)
        is_same = declared is not None and (declared.dtype, declared.shape, declared.sparse) == (
            feature.dtype,
            feature.shape,
            feature.sparse,
        )
        features[name] = declared if declared is not None and (is_same or is_checked) else feature
    count = next((writer.rows for writer in writers.values()), 0)
    text = {"version": VERSION, "examples": count, "schema": Schema(features).to_json(), "features": described}
    if count_of_runs is not None:
        text["runs"] = count_of_runs
    return json.dumps(text).encode("ascii")


class StoredNode:
    """Examples in a folder that :func:`store_batches` wrote. Picklable; the files are mapped.

    Args:
        folder: The folder.

    Raises:
        CorruptFile: The description or a file is damaged; the folder can be removed, and is then made again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: str = str(folder)
        path = str(folder / DESCRIPTION)
        try:
            with name_in_errors(path):
                found = json.loads((folder / DESCRIPTION).read_bytes())
            self.schema: Schema = Schema.from_json(found["schema"])
            self._length = int(found["examples"])
            self._count_of_runs = None if found.get("runs") is None else int(found["runs"])
            self._columns = {
                name: StoredFeature(self.folder, f"{at}", name, self._length, described)
                for at, (name, described) in enumerate(found["features"].items())
            }
        except CorruptFile:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise describe_damage(
                path, "the description of stored columns", f"{type(error).__name__}: {error}"
            ) from error

    def __len__(self) -> int:
        return self._length

    def batch(self, indices: Indices, /) -> Batch:
        if not self._columns:  # without examples
            return {name: _no_rows(feature) for name, feature in self.schema.items()}
        return {name: column.rows(indices) for name, column in self._columns.items()}

    def example(self, index: int, /) -> Example:
        return {name: column.row(index) for name, column in self._columns.items()}

    def narrow(self, names: tuple[str, ...], /) -> Node:
        kept = object.__new__(type(self))
        kept.__dict__.update(self.__dict__)
        kept.schema = self.schema.select([name for name in self.schema if name in names])
        kept._columns = {name: column for name, column in self._columns.items() if name in names}
        return kept

    def map_files(self) -> None:
        """Map all files now. They may then be removed."""
        for column in self._columns.values():
            column.map_files()

    def where(self, index: int, /) -> Where:
        return Where(path=self.folder, record=index)

    def runs(self) -> Indices | None:
        return None if self._count_of_runs is None else self._stored_runs

    @cached_property
    def _stored_runs(self) -> Indices:
        path = os.path.join(self.folder, RUNS)  # noqa: PTH118 - as the folder
        with name_in_errors(path):
            found = np.fromfile(path, "<i8").astype(np.int64, copy=False)
        is_whole = len(found) == (self._count_of_runs or 0) + 1 and found[0] == 0 and found[-1] == self._length
        if not is_whole or (np.diff(found) < 0).any():
            expected = f"the ends of {self._count_of_runs} runs of {self._length} examples"
            raise describe_damage(path, expected, f"{len(found)} numbers that are none")
        return found

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return sum(column.stored_bytes(first, stop) for column in self._columns.values())

    def cuts_cleanly(self) -> bool:
        return all(column.cuts_cleanly for column in self._columns.values())


def _no_rows(feature: Feature) -> Any:
    if not feature.sparse:
        return column_of([], feature)
    sparse = _optional.require("scipy.sparse", extra="sklearn")
    return sparse.csr_array((0, feature.shape[0]), dtype=feature.numpy_dtype)
