"""Writing the end of an ArrayRecord file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from penstock import _native
from penstock.contracts.protocols import Indices
from penstock.formats.riegeli.codecs import NONE

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["file_end"]

COPIES = 3  # of the postscript's record


def file_end(
    position: int,
    begins: Indices,
    decoded_sizes: Indices,
    counts: Indices,
    options: str,
    codec: int,
    pack: Callable[[Buffer], Buffer],
) -> list[npt.NDArray[np.uint8]]:
    """Footer, padding, postscript and padding, as bytes of a file from ``position`` on.

    Args:
        position: Where the last chunk of records ends.
        begins: ``int64 (k,)``: where each chunk begins.
        decoded_sizes: ``int64 (k,)``: what its records come to, in bytes.
        counts: ``int64 (k,)``: how many they are.
        options: Of the writer.
        codec: Of the footer.
        pack: Compresses for it.
    """
    values, sizes = _native.encode_footer(begins, decoded_sizes, counts, options.encode())
    packed_sizes = None if codec == NONE else [pack(_native.size_block(sizes))]
    content: Buffer = values if codec == NONE else pack(values)
    footer, _, end = _native.frame_chunks(
        position, codec, [content], sizes, group_size=len(sizes), packed_sizes=packed_sizes
    )
    padding = _native.frame_padding(end)
    end += len(padding)
    record = _native.encode_postscript(position)
    lengths = np.full(COPIES, len(record), np.int64)
    postscript, _, stop = _native.frame_chunks(end, NONE, [record * COPIES], lengths, group_size=COPIES)
    return [footer, padding, postscript, _native.frame_padding(stop)]
