"""Saving what is intact of a damaged ArrayRecord file."""

from __future__ import annotations

import os

import numpy as np

from headrace.contracts.records import Salvaged
from headrace.errors import CorruptFile, Where
from headrace.formats.riegeli.copying import ChunksOf, copy_chunks
from headrace.formats.riegeli.scan import DECODED, scan_file
from headrace.io.paths import PathLike
from headrace.io.reading import mapped

__all__ = ["salvage"]


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
    file = mapped(os.fspath(path))
    found = scan_file(file)
    if not len(found.chunks) and (found.damage or found.footer is None):
        raise CorruptFile(Where(path=file.path), expected="at least one intact chunk of records", found="none")
    options = found.footer.options if found.footer is not None else f"group_size:{found.counts.max(initial=1)}"
    decoded_sizes = np.ascontiguousarray(found.chunks[:, DECODED])
    copy_chunks([ChunksOf(file, found.begins, decoded_sizes, found.counts)], out, options)
    lost_bytes = sum(damage.end - damage.begin for damage in found.damage)
    lost = None if found.footer is None else int(found.footer.counts.sum() - found.counts.sum())
    return Salvaged(records=int(found.counts.sum()), lost_records=lost, lost_bytes=lost_bytes)
