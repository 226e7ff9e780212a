"""Examples stored as columns in a folder of our own: written once, whole or not at all, and read by index."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CellType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace._arguments import check_text
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.formats.columns.read import StoredFeature, describe_damage
from headrace.formats.columns.write import DESCRIPTION, RUNS, VERSION, StoredBlock, store_batches
from headrace.formats.table.values import column_of
from headrace.io.cache.folder import cache_key
from headrace.io.faults import close_quietly, name_in_errors
from headrace.io.local.signatures import SUMMED_BYTES, block_sums
from headrace.io.progress import Progress
from headrace.io.system import cached_property, lock, unlock
from headrace.io.urls import local_path
from headrace.sources.decoded import decodings_of
from headrace.sources.node import Node, fingerprint_of, random_streams, read_blocks, runs_of

__all__ = ["StoredNode", "check_key", "key_of_values", "store_node", "store_once"]

_HELD = threading.local()
"""The folders that each thread is making."""
BLOCK = 256
"""Examples read at a time, where a source is stored."""
SLOTS = (GetSetDescriptorType, MemberDescriptorType)
"""What Python itself adds to a class."""


def check_key(key: str) -> None:
    """Check a key that a user gives.

    Raises:
        TypeError: It is not text.
        ValueError: It is empty.
    """
    check_text(key, "key")
    if not key:
        raise ValueError("key must be text that names the data and changes when they do, got nothing")


def store_node(node: Node, path: str | os.PathLike[str], key: str, *, progress: bool) -> StoredNode:
    """All examples of a node, from a folder below ``path`` that is made of them unless it is there.

    Raises:
        ValueError: The node draws random numbers, or the key is empty.
        SchemaMismatch, UnsupportedData: A feature cannot be stored, or the path is a URL.
    """
    check_key(key)
    if random_streams(node):
        raise ValueError("the source draws random numbers, which cache() would freeze: call it before the seeded map")
    if isinstance(path, bytes) or not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be a folder for stored examples, got {path!r:.60}")
    root = local_path(path, "a folder for stored examples").absolute()
    runs = runs_of(node)
    more = (*decodings_of(node), *(() if runs is None else (RUNS,)))
    folder = root / cache_key("cache", VERSION, fingerprint_of(node), key, *more)

    def store() -> None:
        with Progress("caching", len(node), "examples", show=progress) as bar:
            store_batches(folder, _blocks(node, bar), node.schema, runs=runs)

    return store_once(folder, store)


def store_once(folder: Path, store: Callable[[], None]) -> StoredNode:
    """The examples in a folder, made by ``store`` unless it is there: then it may be another user's, or cannot be written."""
    if not folder.is_dir():
        with _hold_lock(folder):
            if not folder.is_dir():
                store()
    return StoredNode(folder)


def _blocks(node: Node, bar: Progress) -> Iterator[StoredBlock]:
    def read_one(index: int) -> Batch:
        return node.batch(np.array([index], np.int64))

    for start, stop, batch in read_blocks(node, BLOCK):
        yield StoredBlock(batch, stop - start, read_one)
        bar.advance(stop - start)


@contextlib.contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
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
        fd = os.open(folder.parent / f".{folder.name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock(fd, wait=True)
        held.add(folder)
        yield
    finally:
        held.discard(folder)
        unlock(fd)
        close_quietly(fd)


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


def key_of_values(*values: Any) -> str | None:
    """A key that changes with values and with what functions do; ``None`` if that is not known.

    It covers the code of a function, its defaults and closure, and the globals that it names, of which those in the user's own modules
    are looked into as well. Installed packages count by their names and files. The same program has the same key in another process.
    """
    try:
        return _digest_of(values)
    except Exception:  # noqa: BLE001 - objects may refuse to be taken apart in any way
        return None


def _digest_of(value: Any) -> str:
    digest = _ValueDigest()
    digest.add(value)
    return digest.hash.hexdigest()[:32]


class _ValueDigest:
    """A hash of values of any kind."""

    def __init__(self) -> None:
        import hashlib  # imported here, because it loads OpenSSL

        self.hash = hashlib.sha256()
        self._seen: dict[int, tuple[int, Any]] = {}  # with the value, so that its id stays its own

    def add(self, value: Any, names: tuple[str, ...] = ()) -> None:
        """Add a value; ``names``: those of its members that count, if it is a module."""
        self._put(type(value).__qualname__)
        if value is None or isinstance(value, (int, float, complex, str, bytes, type(Ellipsis))):
            self._put(repr(value))
        elif isinstance(value, ModuleType):
            self._add_module(value, names)
        elif id(value) in self._seen:
            self._put(str(self._seen[id(value)][0]))
        else:
            self._seen[id(value)] = (len(self._seen), value)
            self._add_parts(value)

    def _put(self, text: str) -> None:
        self.hash.update(text.encode(errors="surrogatepass") + b"\0")

    def _add_each(self, *values: Any) -> None:
        self._put(str(len(values)))
        for value in values:
            self.add(value)

    def _add_parts(self, value: Any) -> None:
        if isinstance(value, np.ndarray):
            self._add_array(value)
        elif isinstance(value, (tuple, list)):
            self._add_each(*value)
        elif isinstance(value, (set, frozenset)):
            self._add_each(*sorted(map(_digest_of, value)))  # their order differs between processes
        elif isinstance(value, dict):
            self._add_each(*value, *value.values())
        elif isinstance(value, CodeType):
            self._add_each(value.co_code, value.co_consts, value.co_names, value.co_varnames, value.co_flags)
        elif isinstance(value, (_lru_cache_wrapper, functools.cached_property)):
            self.add(value.func if isinstance(value, functools.cached_property) else value.__wrapped__)
        elif isinstance(value, (FunctionType, type)) and _optional.is_installed(value.__module__ or ""):
            self._put(f"{value.__qualname__} {_optional.version_of_module(value.__module__)}")
        elif isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            self._add_class(value)
        else:
            self._add_object(value)

    def _add_object(self, value: Any) -> None:
        """Add an object as it is pickled. Unlike there, its class and functions in it count with their code."""
        self.add(type(value))
        parts = value.__reduce_ex__(4)
        for part in (parts,) if isinstance(parts, str) else parts:
            self.add(list(part) if hasattr(part, "__next__") else part)

    def _add_array(self, array: npt.NDArray[Any]) -> None:
        self._add_each(array.dtype.str, array.dtype.names, array.shape)
        if array.dtype.hasobject:
            self.hash.update(pickle.dumps(array.tolist(), protocol=4))
        else:
            plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.hash.update(block_sums([plain.data], SUMMED_BYTES).tobytes())

    def _add_function(self, function: FunctionType) -> None:
        self._add_each(function.__code__, function.__defaults__, function.__kwdefaults__, vars(function))
        self._add_each(*map(_content_of, function.__closure__ or ()))
        names = tuple(sorted(_names_in(function.__code__)))
        for name in names:
            if name in function.__globals__:
                self._put(name)
                self.add(function.__globals__[name], names)

    def _add_module(self, module: ModuleType, names: tuple[str, ...]) -> None:
        is_installed = _optional.is_installed(module.__name__)
        self._put(_optional.version_of_module(module.__name__) if is_installed else module.__name__)
        for name in () if is_installed else names:
            if name in vars(module):
                self._put(name)
                self.add(vars(module)[name], names)

    def _add_class(self, kind: type) -> None:
        self._put(f"{kind.__module__}.{kind.__qualname__}")
        self._add_each(*kind.__bases__)
        for name, member in sorted(vars(kind).items()):
            functions = (member.fget, member.fset) if isinstance(member, property) else (member,)
            for each in (getattr(function, "__func__", function) for function in functions):
                is_state = name[:2] != "__" and name[:4] != "_abc"
                if (is_state or hasattr(each, "__get__")) and not isinstance(each, SLOTS):
                    self._put(name)
                    self.add(each)


def _names_in(code: CodeType) -> set[str]:
    """The names that code uses, also in functions that it defines."""
    inner = (_names_in(each) for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*inner)


def _content_of(cell: CellType) -> Any:
    with contextlib.suppress(ValueError):  # not set yet
        return cell.cell_contents
    return None
