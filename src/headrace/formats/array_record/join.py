"""Chunks of ArrayRecord files in a new file: those of complete files, joined, and those that are intact in a damaged one.

Chunks are copied without decompression, after a check of their hashes. Every 64 KiB of a file hold a block header, in the midst of a chunk if
need be, so a chunk looks different at another position. Where it ends there follows from its size alone. So the pieces of a joined file can be
made in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.protocols import Piece
from headrace.contracts.values import Indices
from headrace.errors import CorruptFile, Where
from headrace.formats.array_record.codecs import NONE
from headrace.formats.array_record.footer import Footer, read_footer
from headrace.formats.array_record.write import file_end
from headrace.io.local.mapped import MappedFile
from headrace.io.paths import PathLike
from headrace.io.write.atomic import AtomicFile
from headrace.io.write.pieces import BytesPiece

__all__ = ["ChunksOf", "copy_chunks", "pieces_of_chunks"]

BLOCK, BLOCK_HEADER = 1 << 16, 24
USED = BLOCK - BLOCK_HEADER
CHUNK_HEADER = 40
PART_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ChunksOf:
    """Some chunks of one file.

    Args:
        file: The file.
        begins: ``int64 (k,)``: the offset of each.
        decoded_sizes: ``int64 (k,)``: decoded bytes of its records.
        counts: ``int64 (k,)``: its number of records.
    """

    file: MappedFile
    begins: Indices
    decoded_sizes: Indices
    counts: Indices


def copy_chunks(sources: Iterable[ChunksOf], out: PathLike, options: str) -> None:
    """Write a file of these chunks. Data are checked against their hashes but not decompressed.

    Args:
        sources: The chunks.
        out: The new file, which appears under its name once complete.
        options: The writer's options for the footer.
    """
    begins, decoded_sizes, counts = ([np.zeros(0, np.int64)] for _ in range(3))
    with AtomicFile(out) as target:
        target.write(_native.frame_signature())
        for source in sources:
            for part in _parts(source.begins):
                framed, placed, _ = _native.copy_chunks(source.file.buffer, part, target.size)
                target.write(framed)
                begins.append(placed)
            decoded_sizes.append(source.decoded_sizes)
            counts.append(source.counts)
        columns = map(np.concatenate, (begins, decoded_sizes, counts))
        for end in file_end(Footer(target.size, options, *columns), NONE, bytes):
            target.write(end)


@dataclass(frozen=True, slots=True, eq=False)
class _CopiedChunks:
    """Consecutive chunks of one file, as they are at a position of another.

    Args:
        file: The file.
        begins: ``int64 (k,)``: the offset of each.
        position: Where the first begins in the new file.
        size: Their bytes there.
    """

    file: MappedFile
    begins: Indices
    position: int
    size: int

    def content(self) -> npt.NDArray[np.uint8]:
        framed, _, _ = _native.copy_chunks(self.file.buffer, self.begins, self.position)
        if len(framed) != self.size:
            raise CorruptFile(
                Where(path=self.file.path, offset=int(self.begins[0])),
                expected=f"chunks that take {self.size} bytes, as the footer says",
                found=f"{len(framed)}",
            )
        return framed


def pieces_of_chunks(parts: Sequence[str]) -> list[Piece]:
    """What complete ArrayRecord files are joined to.

    Raises:
        CorruptFile: A file has no intact footer.
    """
    files = [MappedFile(part) for part in parts]
    footers = [read_footer(file) for file in files]
    signature = bytes(_native.frame_signature())
    pieces: list[Piece] = [BytesPiece(signature)]
    position, placed = len(signature), []
    for file, footer in zip(files, footers, strict=True):
        edges = np.append(footer.begins, footer.begin)
        if _is_dense(footer):
            there = _positions_of(_bytes_before(edges) - _bytes_before(edges[:1]) + _bytes_before(np.array([position])))
        else:
            there = _place_by_copying(file, footer.begins, position)
        at = 0
        for group in _parts(footer.begins):
            begin, end = int(there[at]), int(there[at + len(group)])
            pieces.append(_CopiedChunks(file, group, begin, end - begin))
            at += len(group)
        position = int(there[-1])
        placed.append(there[:-1])
    columns = (np.concatenate([getattr(footer, name) for footer in footers]) for name in ("decoded_sizes", "counts"))
    footer = Footer(position, footers[0].options, np.concatenate(placed), *columns)
    pieces += [BytesPiece(bytes(end)) for end in file_end(footer, NONE, bytes)]
    return pieces


def _is_dense(footer: Footer) -> bool:
    """Whether chunks follow one another without gaps, wherever they are placed: chunks of more records than bytes have some."""
    return "pad_to_block_boundary:true" not in footer.options and int(footer.counts.max(initial=0)) <= CHUNK_HEADER


def _bytes_before(positions: Indices) -> Indices:
    """The bytes before each position, without block headers. A chunk that begins with a block comes before its header."""
    return positions - BLOCK_HEADER * -(-positions // BLOCK)


def _positions_of(sizes: Indices) -> Indices:
    """The positions before which there are so many bytes."""
    return sizes + BLOCK_HEADER * -(-sizes // USED)


def _place_by_copying(file: MappedFile, begins: Indices, position: int) -> Indices:
    """Where chunks begin, and the last one ends, if they are copied to a position: by copying them."""
    found = []
    for part in _parts(begins):
        _, placed, position = _native.copy_chunks(file.buffer, part, position)
        found.append(placed)
    return np.concatenate([*found, np.array([position])])


def _parts(begins: Indices) -> Iterator[Indices]:
    """The chunk offsets in groups of a few megabytes."""
    if len(begins):
        group = (begins - begins[0]) // PART_BYTES
        yield from np.split(begins, np.flatnonzero(np.diff(group)) + 1)
