"""Copying whole chunks into another file, as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from headrace import _native
from headrace.contracts.values import Indices
from headrace.formats.riegeli.codecs import NONE
from headrace.formats.riegeli.file_end import file_end
from headrace.formats.riegeli.footer import Footer, read_footer
from headrace.io.atomic import AtomicFile
from headrace.io.mapped import MappedFile
from headrace.io.paths import PathLike

__all__ = ["ChunksOf", "copy_chunks", "join_files"]

PART_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ChunksOf:
    """Chunks of one file.

    Args:
        file: The file.
        begins: ``int64 (k,)``: where each begins.
        decoded_sizes: ``int64 (k,)``: what its records come to, in bytes.
        counts: ``int64 (k,)``: how many they are.
    """

    file: MappedFile
    begins: Indices
    decoded_sizes: Indices
    counts: Indices


def copy_chunks(sources: Iterable[ChunksOf], out: PathLike, options: str) -> None:
    """Write a file of these chunks. Nothing is decompressed; the data of every chunk are held against their hash.

    Args:
        sources: The chunks.
        out: The new file, which appears under its name when it is complete.
        options: What its footer says of its writer.
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


def join_files(paths: Sequence[PathLike], out: PathLike) -> None:
    """Put complete ArrayRecord files together as one.

    Raises:
        CorruptFile: One of them has no sound footer.
    """
    files = [MappedFile(str(path)) for path in paths]
    footers = [read_footer(file) for file in files]
    sources = (ChunksOf(file, f.begins, f.decoded_sizes, f.counts) for file, f in zip(files, footers, strict=True))
    copy_chunks(sources, out, footers[0].options)


def _parts(begins: Indices) -> Iterator[Indices]:
    """Where chunks begin, a few megabytes at a time."""
    if len(begins):
        group = (begins - begins[0]) // PART_BYTES
        yield from np.split(begins, np.flatnonzero(np.diff(group)) + 1)
