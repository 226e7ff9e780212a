"""Write Avro through fastavro."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from headrace._optional import require
from headrace.contracts.feature import Feature
from headrace.contracts.records import SPARSE_HINT, Misfit
from headrace.contracts.schema import Schema
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.errors import UnsupportedData, Where
from headrace.formats.avro.types import avro_type
from headrace.formats.table.arrow_types import KEY
from headrace.formats.table.base import ByteFile, refuse_misfits
from headrace.formats.table.values import map_values, rows_in
from headrace.io.faults import name_in_errors
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile

__all__ = ["COMPRESSIONS", "AvroWriter", "join_avro", "misfits"]


COMPRESSIONS = ("deflate", "none")
BLOCK_BYTES = 256 << 10
"""Uncompressed size of a block: what random access to one record has to decode."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class AvroWriter:
    """Writes batches to one Avro file, in blocks of about 256 KiB, with the schema in its metadata.

    Avro names consist of letters, digits and ``_``. A name with ``/`` becomes a field of a record; others are refused.

    Args:
        path: The file.
        schema: The schema of the batches.
        compression: ``"deflate"`` or ``"none"``.

    Raises:
        UnsupportedData: A feature has no Avro type, or a name that Avro does not allow.
    """

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "deflate") -> None:
        if compression not in COMPRESSIONS:
            raise UnsupportedData(Where(path=str(path)), expected=f"one of {COMPRESSIONS}", found=compression)
        refuse_misfits(path, misfits(schema))
        self._path = str(path)
        tree = _tree(schema, self._path)
        self.schema = schema
        self._file = ByteFile(AtomicFile(path))
        try:
            self._writer = _writer(self._file, _record("example", tree, set()), compression, {KEY: schema.to_json()})
        except BaseException:
            self._file.file.abort()
            raise

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append rows."""
        columns = [(name.split("/"), self._rows(batch[name], name)) for name in self.schema]
        for row in range(n):
            record: dict[str, Any] = {}
            for keys, values in columns:
                at = record
                for key in keys[:-1]:
                    at = at.setdefault(key, {})
                at[keys[-1]] = values[row]
            try:
                self._writer.write(record)
            except UnicodeEncodeError as error:
                raise UnsupportedData(Where(path=self._path), expected="Unicode text", found=str(error)) from error

    def _rows(self, column: Any, name: str) -> list[Any]:
        try:
            return _values(column, self.schema[name])
        except UnsupportedData as error:
            raise error.relocated(Where(path=self._path, feature=name)) from error

    def close(self) -> None:
        """Move the complete file into place."""
        try:
            self._writer.flush()
            self._file.file.close()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Remove the unfinished file."""
        self._file.file.abort()


def _writer(file: ByteFile, schema: Any, compression: str, metadata: Mapping[str, str]) -> Any:
    module = require("fastavro.write", extra="avro")
    codec = "null" if compression == "none" else compression
    # fastavro would draw it, and the same rows would have other bytes each time.
    marker = blake2b(json.dumps([schema, codec, dict(metadata)], sort_keys=True).encode(), digest_size=16).digest()
    return module.Writer(
        file, schema, codec=codec, sync_interval=BLOCK_BYTES, metadata=dict(metadata), sync_marker=marker
    )


def _tree(schema: Schema, path: str) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for name, feature in schema.items():
        keys = name.split("/")
        wrong = [key for key in keys if not NAME.match(key)]
        if wrong or not _put(tree, keys, _TypeMark(avro_type(feature))):
            raise UnsupportedData(
                Where(path=path, feature=name),
                expected="names of letters, digits and '_', which are Avro's",
                found=repr(wrong[0]) if wrong else "a name that is a record as well",
                hint="rename() it.",
            )
    return tree


def _put(tree: dict[str, Any], keys: Sequence[str], kind: _TypeMark) -> bool:
    """Insert a type at a path of keys; ``False`` if the path passes through a type, or ends at a record."""
    at: Any = tree
    for key in keys[:-1]:
        at = at.setdefault(key, {})
        if isinstance(at, _TypeMark):
            return False
    if keys[-1] in at:
        return False
    at[keys[-1]] = kind
    return True


class _TypeMark(tuple[Any]):
    """Marks a type, to distinguish it from the fields of a record."""

    __slots__ = ()

    def __new__(cls, kind: Any) -> Self:
        return super().__new__(cls, (kind,))


def _record(name: str, tree: Mapping[str, Any], used: set[str]) -> dict[str, Any]:
    """The type of a record. ``used`` are the names of those before it: ``b`` in ``a`` and ``a_b`` must differ."""
    while name in used:
        name += "_"
    used.add(name)
    fields = []
    for key, value in tree.items():
        is_leaf = isinstance(value, _TypeMark)
        kind = _with_null(value[0]) if is_leaf else _record(f"{name}_{key}", value, used)
        fields.append({"name": key, "type": kind})
    return {"type": "record", "name": name, "fields": fields}


def _with_null(kind: Any) -> Any:
    """The type of a field. Timestamps are nullable, because Avro has no NaT."""
    if isinstance(kind, dict) and kind.get("type") == "array":
        return {**kind, "items": _with_null(kind["items"])}
    return ["null", kind] if isinstance(kind, dict) and "logicalType" in kind else kind


def _values(column: Any, feature: Feature) -> list[Any]:
    """Rows as fastavro takes them, with times as stored integers, and text as bytes where those are wanted."""
    if not feature.is_text and feature.numpy_dtype.kind in "mM":
        column = map_values(column, lambda values: _numbers(values.astype(feature.numpy_dtype)))
    return rows_in(_as_bytes(column) if feature.dtype == "bytes" else column)


def _as_bytes(column: Any) -> Any:
    if isinstance(column, Ragged):
        return Ragged(_as_bytes(column.values), column.offsets)
    if isinstance(column, Strings) and column.is_text:
        return Strings.trust(column.data, column.offsets, is_text=False, shape=column.shape)
    return column


def _numbers(times: npt.NDArray[Any]) -> npt.NDArray[Any]:
    numbers = times.astype(np.int64)
    if times.dtype.kind == "m":
        return numbers
    missing = np.isnat(times)
    if np.datetime_data(times.dtype)[0] == "D":
        limits = np.iinfo(np.int32)
        beyond = np.flatnonzero(~missing & ((numbers < limits.min) | (numbers > limits.max)))
        if len(beyond):
            raise UnsupportedData(
                Where(), expected="days that 32 bits can count", found=str(times.reshape(-1)[beyond[0]])
            )
    if not missing.any():
        return numbers
    filled = numbers.astype(object)
    filled[missing] = None
    return filled


def misfits(schema: Schema) -> list[Misfit]:
    """The features that Avro cannot hold unchanged."""
    found = []
    for name, feature in schema.items():
        wanted = _substitute(feature)
        if wanted is None:
            continue
        expected, dtype = wanted
        instead = None if dtype is None else Feature(dtype, feature.shape)
        certain = feature.dtype != "uint64"  # most uint64 values are small enough
        hint = SPARSE_HINT if feature.sparse else ""
        found.append(
            Misfit(feature=name, expected=expected, found=repr(feature), instead=instead, hint=hint, certain=certain)
        )
    return found


def _substitute(feature: Feature) -> tuple[str, str | None] | None:
    if feature.sparse:
        return "dense rows", feature.dtype
    if feature.is_text:
        return None
    dtype = np.dtype(feature.dtype)
    if dtype.kind == "M":
        unit, count = np.datetime_data(dtype)
        return None if unit in ("D", "ms", "us") and count == 1 else ("times in days, ms or us", "M8[us]")
    if dtype.kind == "u" and dtype.itemsize == 8:
        return "integers of up to 63 bits", "int64"
    if dtype.kind == "f" and dtype.itemsize > 8:
        return "floats of up to 64 bits", "float64"
    return None if dtype.kind in "biufm" else ("text, bytes or numbers", None)


def join_avro(parts: Sequence[str], path: str) -> None:
    """Concatenate the blocks of Avro files without decoding them."""
    module = require("fastavro", extra="avro")
    with AtomicFile(path) as out:
        writer = None
        for part in parts:
            with name_in_errors(part), open(part, "rb") as file:
                blocks = module.block_reader(file)
                if writer is None:
                    kept = {KEY: blocks.metadata[KEY]} if KEY in blocks.metadata else {}
                    codec = "none" if blocks.codec == "null" else blocks.codec
                    writer = _writer(ByteFile(out), blocks.writer_schema, codec, kept)
                for block in blocks:
                    writer.write_block(block)
        if writer is not None:
            writer.flush()
