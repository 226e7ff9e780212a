"""Saving what is intact of a damaged ArrayRecord file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock.contracts.protocols import Indices
from penstock.errors import CorruptFile, Where
from penstock.formats.riegeli.codecs import NONE
from penstock.formats.riegeli.file_end import file_end
from penstock.formats.riegeli.footer import Footer
from penstock.formats.riegeli.scan import DECODED, Found, scan_file
from penstock.io.atomic import AtomicFile
from penstock.io.mapped import MappedFile
from penstock.io.paths import PathLike

__all__ = ["Salvaged", "salvage"]

PART_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvaged:
    """What was saved of a file.

    Attributes:
        chunks, records: How many are in the new file.
        lost_records: How many records were lost; ``None`` where the footer is lost too, so that nobody knows.
        lost_bytes: How much of the file was damaged.
    """

    chunks: int
    records: int
    lost_records: int | None
    lost_bytes: int

    def __str__(self) -> str:
        lost = "an unknown number" if self.lost_records is None else str(self.lost_records)
        return f"{self.records} records in {self.chunks} chunks saved; {lost} lost, {self.lost_bytes} bytes damaged"


def salvage(path: PathLike, out: PathLike) -> Salvaged:
    """Copy every intact chunk of an ArrayRecord file into a new one, also when its footer is gone.

    Chunks are copied as they are: nothing is decompressed, and records keep their order. A chunk is intact when its
    hashes are right.

    Args:
        path: The damaged file. It is not changed.
        out: The new file, which appears under its name when it is complete.

    Raises:
        CorruptFile: There is no intact chunk of records.
    """
    file = MappedFile(os.fspath(path))
    found = scan_file(file)
    if not len(found.chunks) and (found.damage or found.footer is None):
        raise CorruptFile(Where(path=file.path), expected="at least one intact chunk of records", found="none")
    with AtomicFile(out) as target:
        for part in _parts(file, found):
            target.write(part)
    lost_bytes = sum(damage.end - damage.begin for damage in found.damage)
    lost = None if found.footer is None else int(found.footer.counts.sum() - found.counts.sum())
    return Salvaged(chunks=len(found.chunks), records=int(found.counts.sum()), lost_records=lost, lost_bytes=lost_bytes)


def _parts(file: MappedFile, found: Found) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes of the new file."""
    yield _native.frame_signature()
    position = len(_native.frame_signature())
    begins: list[Indices] = [np.zeros(0, np.int64)]
    for chunks in _groups(found):
        framed, placed, position = _native.copy_chunks(file.buffer, chunks, position)
        begins.append(placed)
        yield framed
    decoded_sizes = np.ascontiguousarray(found.chunks[:, DECODED])
    options = found.footer.options if found.footer is not None else f"group_size:{found.counts.max(initial=1)}"
    yield from file_end(Footer(position, options, np.concatenate(begins), decoded_sizes, found.counts), NONE, bytes)


def _groups(found: Found) -> Iterator[Indices]:
    """Where chunks begin, in groups of a few megabytes."""
    begins = found.begins
    if len(begins):
        group = np.cumsum(np.diff(begins, append=begins[-1])) // PART_BYTES
        yield from np.split(begins, np.flatnonzero(np.diff(group)) + 1)
