"""Writing the end of an ArrayRecord file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.formats.riegeli.codecs import NONE
from headrace.formats.riegeli.footer import Footer

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["file_end"]

COPIES = 3  # of the postscript's record


def file_end(footer: Footer, codec: int, pack: Callable[[Buffer], Buffer]) -> list[npt.NDArray[np.uint8]]:
    """Footer, padding, postscript and padding, as bytes of a file from ``footer.begin`` on.

    Args:
        footer: What to write; it begins where the last chunk of records ends.
        codec: Of the footer.
        pack: Compresses for it.
    """
    options = footer.options.encode()
    values, sizes = _native.encode_footer(footer.begins, footer.decoded_sizes, footer.counts, options)
    packed_sizes = None if codec == NONE else [pack(_native.size_block(sizes))]
    content: Buffer = values if codec == NONE else pack(values)
    chunk, _, end = _native.frame_chunks(
        footer.begin, codec, [content], sizes, group_size=len(sizes), packed_sizes=packed_sizes
    )
    padding = _native.frame_padding(end)
    record = _native.encode_postscript(footer.begin)
    lengths = np.full(COPIES, len(record), np.int64)
    postscript, _, stop = _native.frame_chunks(end + len(padding), NONE, [record * COPIES], lengths, group_size=COPIES)
    return [chunk, padding, postscript, _native.frame_padding(stop)]
