"""Write WebDataset archives."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.records import SPARSE_HINT, Misfit
from headrace.contracts.schema import Schema
from headrace.errors import UnsupportedData, Where
from headrace.formats.npy.header import header_bytes
from headrace.formats.table.base import PackedFile, refuse_misfits
from headrace.formats.webdataset.members import COUNTED, IMAGES, KEY
from headrace.io.cache.inflate import wrapper_of
from headrace.io.faults import name_in_errors
from headrace.io.paths import PathLike

__all__ = ["WebDatasetWriter", "join_tars", "misfits"]


BLOCK = 512


class WebDatasetWriter:
    """Writes batches to one archive: arrays as ``.npy``, text as ``.txt``, bytes as ``.bin`` or with the suffix of their image kind.

    Args:
        path: The archive.
        schema: The schema of the batches. A feature ``__key__`` names the examples; without it they are numbered.
        compression: ``"gzip"``, ``"zlib"`` or ``"none"``.

    Raises:
        UnsupportedData: A feature cannot be stored as a file, or its name is not a valid file name.
    """

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "none") -> None:
        refuse_misfits(path, misfits(schema))
        self.schema = schema
        self.rows: int = 0
        """Examples written so far."""
        self._endings = {name: _ending(name, feature, str(path)) for name, feature in schema.items() if name != KEY}
        if schema and not self._endings:
            found = f"only {KEY}, which names them"
            raise UnsupportedData(Where(path=str(path)), expected="a feature that is in the members", found=found)
        self._path = str(path)
        self._file = PackedFile(path, compression)

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Append examples."""
        for row in range(n):
            key = batch[KEY][row] if KEY in self.schema else COUNTED.format(self.rows)
            if KEY in self.schema and not _is_key(key):
                raise UnsupportedData(
                    Where(path=self._path, record=self.rows, feature=KEY),
                    expected="a key that names a file inside the archive, without a dot or '__' at its beginning",
                    found=repr(key),
                )
            for name, ending in self._endings.items():
                try:
                    member = _member(f"{key}.{ending}", _content(batch[name][row], self.schema[name]))
                except UnicodeEncodeError as error:
                    where = Where(path=self._path, record=self.rows, feature=name)
                    raise UnsupportedData(where, expected="Unicode text", found=str(error)) from error
                self._file.write(member)
            self.rows += 1

    def close(self) -> None:
        """Move the complete archive into place."""
        if not self._file.file.closed:
            self._file.write(bytes(2 * BLOCK))
        self._file.close()

    def abort(self) -> None:
        """Remove the unfinished file."""
        self._file.abort()


def _is_key(key: object) -> bool:
    """Whether members with this key read back as an example with this key."""
    if not isinstance(key, str):
        return False
    name = posixpath.basename(key)
    outside = posixpath.normpath(key) != key or key.startswith(("/", "../")) or "\0" in key
    return bool(name) and "." not in name and not name.startswith("__") and not outside


def _member(name: str, content: bytes) -> bytes:
    """One member with its header: the same bytes for every user, at any time."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = 0o644
    return member.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % BLOCK)


def _content(value: Any, feature: Feature) -> bytes:
    if feature.is_text:
        return value.encode() if isinstance(value, str) else bytes(value)
    array = np.ascontiguousarray(value, feature.numpy_dtype).reshape(np.shape(value))
    return header_bytes(array.dtype, array.shape) + array.tobytes()


def _ending(name: str, feature: Feature, path: str) -> str:
    kind = "npy"
    if feature.is_text:
        kind = "txt" if feature.dtype == "str" else {v: k for k, v in IMAGES.items()}.get(feature.encoding or "", "bin")
    if not name or set(name) & set("./\0"):
        raise UnsupportedData(
            Where(path=path, feature=name),
            expected="a name that can be part of a file's",
            found=repr(name),
            hint="rename() it.",
        )
    return f"{name}.{kind}"


def misfits(schema: Schema) -> list[Misfit]:
    """The features that cannot be stored as one file per example."""
    found = []
    for name, feature in schema.items():
        if feature.sparse:
            instead = Feature(feature.dtype, feature.shape)
            misfit = Misfit(feature=name, expected="dense rows", found=repr(feature), instead=instead, hint=SPARSE_HINT)
            found.append(misfit)
        elif feature.is_text and feature.shape:
            found.append(Misfit(feature=name, expected="one text, or one piece of bytes", found=repr(feature)))
        elif feature.shape.count(None) > 1:
            found.append(Misfit(feature=name, expected="arrays with at most one axis that varies", found=repr(feature)))
    return found


def join_tars(parts: Sequence[str], path: str) -> None:
    """Copy the members of several archives into one. Counter keys continue across parts, unless other keys show that examples have names."""
    try:
        _join(parts, path, counted=True)
    except _HasNames:
        _join(parts, path, counted=False)


class _HasNames(Exception):
    """A key is no counter, so the keys of all parts are names, also those that look like counters."""


def _join(parts: Sequence[str], path: str, *, counted: bool) -> None:
    wrapper = wrapper_of(_read_head(parts[0]))
    out = PackedFile(path, wrapper)
    try:
        rows = 0
        for part in parts:
            rows += _copy(part, out, rows, counted=counted)
        out.write(bytes(2 * BLOCK))
        out.close()
    except BaseException:
        out.abort()
        raise


def _read_head(path: str) -> bytes:
    with name_in_errors(path), open(path, "rb") as file:
        return file.read(64)


def _copy(part: str, out: PackedFile, before: int, *, counted: bool) -> int:
    """Append the members of one archive; returns its number of examples.

    Raises:
        _HasNames: ``counted`` is true, and a key is no counter.
    """
    rows, last = 0, None
    with name_in_errors(part), tarfile.open(part) as archive:
        for member in archive:
            key, _, ending = member.name.partition(".")
            rows += key != last
            if counted and key != COUNTED.format(rows - 1):
                raise _HasNames
            last = key
            file = archive.extractfile(member)
            name = f"{COUNTED.format(before + rows - 1)}.{ending}" if counted else member.name
            out.write(_member(name, b"" if file is None else file.read()))
    return rows
