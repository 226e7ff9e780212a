"""Indexes that are made on several machines, file by file, and sent to others: so that no file is scanned twice."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from headrace.contracts.records import OnCorrupt
from headrace.contracts.values import Indices
from headrace.formats.framed.scan import Framing
from headrace.formats.index.build import record_index
from headrace.formats.index.index import FileIndex, RecordIndex, index_path, load_index, write_index
from headrace.io.cache.inflate import Compression
from headrace.io.local.fileset import FileSet
from headrace.io.local.signatures import SUMMED_BYTES, BlockSums, Signature

__all__ = [
    "IndexRequest",
    "Indexed",
    "SentSource",
    "index_file",
    "index_one",
    "install_index",
    "is_indexed",
    "join_indexes",
    "missing_indexes",
    "pack_index",
    "unpack_index",
]

LEVEL = 1
"""Of zlib. Records of one size take next to nothing, others about two bytes each."""


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What an index depends on.

    Args:
        framing: Of the format.
        paths: The files.
        on_corrupt: Whether damaged records are left out.
        compression: Of the files; ``None`` if it is found by their content.
    """

    framing: Framing
    paths: tuple[str, ...]
    on_corrupt: OnCorrupt
    compression: Compression | None

    @property
    def cached(self) -> Path:
        """Where this machine keeps the index."""
        return index_path(
            self.paths, format=self.framing.index_name, on_corrupt=self.on_corrupt, compression=self.compression
        )

    def of_file(self, path: str) -> IndexRequest:
        """The request for one of the files."""
        return IndexRequest(self.framing, (path,), self.on_corrupt, self.compression)


@runtime_checkable
class Indexed(Protocol):
    """Records or rows that are found by an index: their attribute ``index``, which is made when it is first read."""

    def index_request(self) -> IndexRequest:
        """What the index is made from."""


def is_indexed(request: IndexRequest) -> bool:
    """Whether this machine has an index of these files as they are now."""
    kept = load_index(request.cached)
    return kept is not None and all(
        file.signature.proves(Signature.of(path)) if "://" not in path else False
        for file, path in zip(kept.files, request.paths, strict=True)
    )


def index_file(request: IndexRequest, path: str) -> bytes:
    """Make the index of one file, and keep it on this machine too.

    Returns:
        It, packed.

    Raises:
        CorruptRecord, CorruptFile, NoFiles: As on this machine.
    """
    one = request.of_file(path)
    files = FileSet(one.paths, compression=one.compression, is_plain=one.framing.is_plain)
    index = record_index(one.framing, files, on_corrupt=one.on_corrupt, compression=one.compression)
    return pack_index(index)


def pack_index(index: RecordIndex) -> bytes:
    """An index as few bytes: the distances between starts, compressed."""
    deltas = np.diff(index.starts, prepend=0)
    narrow = not len(deltas) or (int(deltas.min()) >= 0 and int(deltas.max()) < 1 << 32)
    contents = [each.sums.astype("<u4").tobytes().hex() for each in index.content]
    head = json.dumps({"files": [file.to_json() for file in index.files], "narrow": narrow, "contents": contents})
    text = head.encode("utf-8", "surrogateescape")
    body = deltas.astype("<u4" if narrow else "<i8").tobytes()
    return len(text).to_bytes(8, "little") + zlib.compress(text + body, LEVEL)


def unpack_index(packed: bytes) -> RecordIndex:
    """The index that was packed."""
    length, plain = int.from_bytes(packed[:8], "little"), zlib.decompress(packed[8:])
    head: dict[str, Any] = json.loads(plain[:length].decode("utf-8", "surrogateescape"))
    deltas = np.frombuffer(plain, "<u4" if head["narrow"] else "<i8", offset=length)
    files = [FileIndex.from_json(file) for file in head["files"]]
    content = [
        BlockSums(file.content_bytes, np.frombuffer(bytes.fromhex(sums), "<u4"), SUMMED_BYTES)
        for file, sums in zip(files, head["contents"], strict=True)
    ]
    return RecordIndex(files, np.cumsum(deltas, dtype=np.int64), content=content)


class _Blocks:
    """The starts of packed indexes, one block for each. They are unpacked whenever they are iterated, so few are in memory."""

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = parts

    def __iter__(self) -> Iterator[Indices]:
        for part in self.parts:
            yield np.ascontiguousarray(unpack_index(part).starts, "<i8")


def join_indexes(request: IndexRequest, parts: Sequence[bytes]) -> None:
    """Keep the index of all files on this machine, from those of each, in the order of the files.

    If it cannot be kept (the disk is full), the files are scanned here later.
    """
    indexes = [unpack_index(part) for part in parts]
    files = [file for index in indexes for file in index.files]
    content = [sums for index in indexes for sums in index.content]
    del indexes
    write_index(files, cast("Any", _Blocks(parts)), request.cached, content)


def missing_indexes(records: Iterable[object]) -> list[IndexRequest]:
    """The indexes of several files that are needed, and that this machine does not have. That of one file is made where it is needed."""
    requests = [each.index_request() for each in records if isinstance(each, Indexed)]
    return [request for request in requests if len(request.paths) > 1 and not is_indexed(request)]


def index_one(request: IndexRequest, path: str) -> tuple[str, bytes]:
    """As :func:`index_file`, with the path of the file: for results in any order."""
    return path, index_file(request, path)


class SentSource:
    """A source on its way to another machine. A pickle of it holds paths, types and the indexes of its files, but no examples.

    Where it is unpickled, the indexes go to the cache of that machine. No file is scanned there, and all its processes map the same index.

    Args:
        source: The examples.
        records: The records and tables that they are in.
    """

    def __init__(self, source: Any, records: Iterable[object]) -> None:
        self.source = source
        self._indexed = [each for each in records if isinstance(each, Indexed)]

    def __getstate__(self) -> dict[str, Any]:
        indexes = [(each.index_request(), pack_index(cast("Any", each).index)) for each in self._indexed]
        return {"source": self.source, "indexes": indexes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for request, packed in state["indexes"]:
            install_index(request, packed)
        self.source = state["source"]
        self._indexed = []


def install_index(request: IndexRequest, packed: bytes) -> None:
    """Keep on this machine an index that another one has made. One that is here already and says the same stays."""
    sent = unpack_index(packed)
    here = load_index(request.cached)
    if here is None or here.files != sent.files:
        write_index(sent.files, [np.ascontiguousarray(sent.starts, "<i8")], request.cached, sent.content)
