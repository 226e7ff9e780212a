"""Ranges of remote files, fetched all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Indices
from headrace.io.requests import Answer, Ask, Version, fetch

if TYPE_CHECKING:
    from headrace.io.remote import RemoteFile

__all__ = ["fetch_extents"]

GAP_BYTES = 64 << 10
"""Ranges of one object that are no farther apart are fetched by one request: the bytes between them cost less than it does."""
MOST_JOINED_BYTES = 8 << 20


def fetch_extents(
    files: Sequence[RemoteFile],
    which: npt.NDArray[np.int32],
    offsets: Indices,
    sizes: Indices,
    *,
    most_joined: int | None = None,
) -> tuple[list[memoryview], npt.NDArray[np.int32], Indices]:
    """Ranges of several files, all fetched at once; near ones of one file by one request.

    Args:
        files: The files.
        which: ``int32 (n,)``: the file that each range is in.
        offsets: ``int64 (n,)``: where it begins.
        sizes: ``int64 (n,)``: how long it is.
        most_joined: How many bytes one request brings at most, unless one range is longer.

    Returns:
        What was fetched; for each range the number of the piece that holds it, and where in the piece it begins.
    """
    most = most_joined or MOST_JOINED_BYTES
    order = np.lexsort((offsets, which))
    asks: list[Ask] = []
    begins: list[int] = []
    piece_of = np.zeros(len(offsets), np.int32)
    file = begin = end = -1
    places = zip(order.tolist(), which[order].tolist(), offsets[order].tolist(), sizes[order].tolist(), strict=True)
    for position, number, start, size in places:
        stop = start + size
        near = number == file and start <= end + GAP_BYTES and max(stop, end) - begin <= most
        if near:
            end = max(end, stop)
            asks[-1] = Ask(files[number].path, begin, end, files[number].version)
        else:
            file, begin, end = number, start, stop
            asks.append(Ask(files[number].path, begin, end, files[number].version))
            begins.append(begin)
        piece_of[position] = len(asks) - 1
    pieces = [answer.content for answer in _fetch_nonempty(asks)]
    return pieces, piece_of, offsets - np.array(begins, np.int64)[piece_of]


def _fetch_nonempty(asks: Sequence[Ask]) -> list[Answer]:
    """As :func:`fetch`; no server has a range of no bytes, so for those nothing is asked."""
    found = iter(fetch([ask for ask in asks if ask.stop is None or ask.stop > ask.start]))
    nothing = Answer(memoryview(b""), Version(0, None, 0))
    return [next(found) if ask.stop is None or ask.stop > ask.start else nothing for ask in asks]
