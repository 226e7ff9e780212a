"""Write ArrayRecord files with their footer, in the layout of ArrayRecord's own writer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace import _native
from headrace.contracts.values import Indices
from headrace.formats.array_record.codecs import NONE, ZSTD, CodecName, WriterOptions
from headrace.formats.array_record.footer import COPIES, Footer
from headrace.formats.framed.write import FileWriter
from headrace.io.paths import PathLike

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ArrayRecordWriter", "JoinedRecordWriter", "file_end"]


def file_end(footer: Footer, codec: int, pack: Callable[[Buffer], Buffer]) -> list[npt.NDArray[np.uint8]]:
    """The end of a file, from ``footer.begin`` on: footer, padding, postscript and padding.

    Args:
        footer: The footer; it begins where the last chunk of records ends.
        codec: Compression type of the footer.
        pack: The compression function.
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


class ArrayRecordWriter(FileWriter):
    """Writes one ArrayRecord file, which appears under its name at ``close``, or never.

    Args:
        path: The file.
        compression: Chunk compression: ``"zstd"`` (also ``None``), ``"brotli"``, ``"snappy"`` or ``"none"``.
        group_size: Records in a chunk. One makes random access fastest, hundreds make compression better.
        level: Compression level: Zstandard -131072 to 22, Brotli 0 to 11; ``None``: 3 and 6, respectively.
        window_log: Base-2 logarithm of the compression window.
        pad_to_block_boundary: Start every chunk at a multiple of 64 KiB.

    Raises:
        TypeError, ValueError: An option has a wrong type or is out of range.
        MissingExtra: The library for the codec is not installed.
    """

    def __init__(
        self,
        path: PathLike,
        *,
        compression: CodecName | None = None,
        group_size: int = 1,
        level: int | None = None,
        window_log: int | None = None,
        pad_to_block_boundary: bool = False,
    ) -> None:
        self.options: WriterOptions = WriterOptions(
            group_size=group_size,
            codec=compression or "zstd",
            level=level,
            window_log=window_log,
            pad_to_block_boundary=pad_to_block_boundary,
        )
        self._pack = _identity if self.options.number == NONE else self.options.packer()
        super().__init__(path)
        self._begins: list[Indices] = []
        self._decoded_sizes: list[Indices] = []
        self._counts: list[Indices] = []
        self._position = 0
        self._put(_native.frame_signature())

    def write_block(self, block: npt.NDArray[np.uint8], starts: Indices, sizes: Indices) -> None:
        """Append records from one array.

        Args:
            block: ``uint8``: the payloads.
            starts: ``int64 (n,)``: the offset of each in ``block``.
            sizes: ``int64 (n,)``: the length of each.
        """
        whole = block.data
        self.write_many([whole[at : at + size] for at, size in zip(starts.tolist(), sizes.tolist(), strict=True)])

    def _flush(self, *, last: bool = False) -> None:
        """Write the complete groups, and with ``last`` also an incomplete one."""
        group_size = self.options.group_size
        ready = len(self._waiting) if last else len(self._waiting) // group_size * group_size
        if not ready:
            return
        payloads, self._waiting = self._waiting[:ready], self._waiting[ready:]
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        self._waiting_bytes -= int(sizes.sum())
        values, packed_sizes = self._group_arguments(payloads, sizes)
        framed, begins, _ = _native.frame_chunks(
            self._position,
            self.options.number,
            values,
            sizes,
            group_size=group_size,
            packed_sizes=packed_sizes,
            pad=self.options.pad_to_block_boundary,
        )
        self._put(framed)
        firsts = np.arange(0, ready, group_size)
        self._begins.append(begins)
        self._decoded_sizes.append(np.add.reduceat(sizes, firsts))
        self._counts.append(np.diff(firsts, append=ready))

    def _group_arguments(self, payloads: list[bytes], sizes: Indices) -> tuple[Sequence[Buffer], list[Buffer] | None]:
        """The arguments of native code for every group: the values, and the sizes if they are compressed."""
        number, group_size = self.options.number, self.options.group_size
        if number == NONE:
            return payloads, None
        pack = self._pack
        if group_size == 1:
            values = [pack(payload) for payload in payloads]
            # Zstandard cannot shrink a handful of bytes, so native code writes such frames itself.
            return values, None if number == ZSTD else [pack(block) for block in _size_blocks(sizes, 1)]
        groups = (payloads[at : at + group_size] for at in range(0, len(payloads), group_size))
        return [pack(b"".join(group)) for group in groups], [pack(block) for block in _size_blocks(sizes, group_size)]

    def _end(self) -> None:
        """Write footer and postscript. A file without records has only these and the signature."""
        footer = Footer(
            self._position,
            self.options.canonical(),
            _join_indices(self._begins),
            _join_indices(self._decoded_sizes),
            _join_indices(self._counts),
        )
        for part in self._parts_of_end(footer):
            self._put(part)

    def _parts_of_end(self, footer: Footer) -> list[npt.NDArray[np.uint8]]:
        return file_end(footer, self.options.number, self._pack)

    def _put(self, framed: npt.NDArray[np.uint8]) -> None:
        self._file.give(framed)
        self._position += len(framed)


class JoinedRecordWriter(ArrayRecordWriter):
    """Writes the bytes that the files of an :class:`ArrayRecordWriter` are joined to: the footer is not compressed."""

    def _parts_of_end(self, footer: Footer) -> list[npt.NDArray[np.uint8]]:
        return file_end(footer, NONE, _identity)


def _join_indices(parts: list[Indices]) -> Indices:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _identity(content: Buffer) -> Buffer:
    return content


def _size_blocks(sizes: Indices, group_size: int) -> Iterator[bytes]:
    for at in range(0, len(sizes), group_size):
        yield _native.size_block(sizes[at : at + group_size])
