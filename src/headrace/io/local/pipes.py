"""Pipes: bytes that come once, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from headrace.errors import CorruptFile, UnsupportedData, Where

__all__ = ["PipeStream"]


READ_BYTES = 1 << 20
KEPT_BYTES = 16 << 20  # of the beginning: what looking for the schema reads is read again afterwards


class PipeStream:
    """What comes out of a pipe.

    It is opened when the first byte is asked for (which waits for a writer). Iterating again begins anew as long as no
    more than 16 MiB have come.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.fault: CorruptFile | None = None
        """A pipe ends where its writer ends it."""
        self._file: IO[bytes] | None = None
        self._kept: list[bytes] | None = []
        self._kept_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        """The bytes in parts of any size.

        Raises:
            UnsupportedData: The beginning is gone.
        """
        if self._kept is None:
            raise UnsupportedData(
                Where(path=self.path),
                expected="a file, which can be read again",
                found="a pipe, of which too much has been read already",
                hint="Open it once for each pass, or copy it to a file.",
            )
        yield from list(self._kept)
        if self._file is None:
            self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115 - as long as this object
        while part := self._file.read(READ_BYTES):
            self._keep(part)
            yield part

    def _keep(self, part: bytes) -> None:
        self._kept_bytes += len(part)
        if self._kept_bytes > KEPT_BYTES:
            self._kept = None
        if self._kept is not None:
            self._kept.append(part)

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()
