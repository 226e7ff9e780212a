"""Pipe mode: a FIFO for each epoch, written while the container reads."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from headrace.contracts.job import Channel, Store
from headrace.errors import JobFailed
from headrace.formats.recordio.format import ALIGNMENT, MAGIC, PAYLOAD_LIMIT
from headrace.io.faults import name_in_errors
from headrace.jobs.store import InputObject, augmented_values, share, shuffled_order

__all__ = ["PipeFeeder", "epoch_bytes"]

READ_BYTES = 1 << 20
JOIN_S = 0.05
CLOSE_S = 5.0


class PipeFeeder:
    """Feeds one channel of one host.

    ``<folder>/<name>_0`` exists at once. The FIFO of the next epoch is made before that of the current one can be opened. A FIFO is
    removed after its epoch. A reader that closes early continues with the next epoch.

    Args:
        folder: The folder of the FIFOs.
        name: The name of the channel.
        epoch: Yields the bytes of an epoch.
        on_error: Called once if they cannot be read. The FIFO then stays open, so that the reader does not mistake this for the end.
    """

    def __init__(
        self, folder: Path, name: str, epoch: Callable[[int], Iterator[bytes]], on_error: Callable[[Exception], None]
    ) -> None:
        self._folder = folder
        self._name = name
        self._epoch = epoch
        self._on_error = on_error
        self._number = 0
        self._ended = threading.Event()
        self._make(0)
        self._thread = threading.Thread(target=self._feed, name=f"headrace pipe {name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop feeding and remove the FIFOs."""
        self._ended.set()
        # A thread whose pipe a script has removed waits for ever. It holds nothing.
        deadline = time.monotonic() + CLOSE_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            # A writer waits in open() for a reader, so open the FIFO for a moment.
            with contextlib.suppress(OSError):
                os.close(os.open(self._path(self._number), os.O_RDONLY | os.O_NONBLOCK))
            self._thread.join(JOIN_S)
        for number in (self._number, self._number + 1):
            with contextlib.suppress(OSError):  # there is none, or a script has put a folder there
                self._path(number).unlink()

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}_{number}"

    def _make(self, number: int) -> None:
        path = self._path(number)
        with name_in_errors(str(path)):
            os.mkfifo(path)

    def _feed(self) -> None:
        try:
            while not self._ended.is_set():
                self._feed_epoch()
        except FileNotFoundError:
            return  # the script has removed the whole folder, so it does not wait for a pipe
        except Exception as error:  # noqa: BLE001 - passed to the job, whose script waits for the pipe
            if not self._ended.is_set():
                self._on_error(error)

    def _feed_epoch(self) -> None:
        self._make(self._number + 1)
        with contextlib.suppress(BrokenPipeError), self._path(self._number).open("wb", buffering=0) as pipe:
            self._write(pipe)
        self._path(self._number).unlink(missing_ok=True)
        self._number += 1

    def _write(self, pipe: IO[bytes]) -> None:
        if self._ended.is_set():
            return
        try:
            for part in self._epoch(self._number):
                _write_all(pipe, part)
                if self._ended.is_set():
                    return
        except BrokenPipeError:
            raise
        except Exception as error:  # noqa: BLE001 - passed to the job
            self._on_error(error)
            self._ended.wait()  # keep the pipe open: closing it would look like the end of the data


def _write_all(pipe: IO[bytes], part: bytes) -> None:
    view = memoryview(part)
    while view:
        view = view[pipe.write(view) :]


def epoch_bytes(
    objects: list[InputObject], channel: Channel, store: Store, host: int, num_hosts: int
) -> Callable[[int], Iterator[bytes]]:
    """A function that yields the bytes of an epoch: the objects, or the values of an augmented manifest."""
    if channel.data_type == "AugmentedManifestFile":
        lines = augmented_values(objects, channel, store, host, num_hosts)
        return lambda epoch: (
            part
            for place in shuffled_order(len(lines), channel, epoch)
            for value in lines[place]
            for part in _parts(value, channel)
        )
    mine = share(objects, channel, host, num_hosts)
    return lambda epoch: (
        part for place in shuffled_order(len(mine), channel, epoch) for part in _parts(mine[place].path, channel)
    )


def _parts(value: bytes | Path, channel: Channel) -> Iterator[bytes]:
    if channel.record_wrapper == "RecordIO":
        return _record(value, channel)
    return iter([value]) if isinstance(value, bytes) else _read(value, channel)


def _open(path: Path, channel: Channel) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if channel.compression == "Gzip" else path.open("rb")


def _read(path: Path, channel: Channel) -> Iterator[bytes]:
    with _open(path, channel) as file:
        while part := _read_part(file, path):
            yield part


def _read_part(file: IO[bytes], path: Path) -> bytes:
    try:
        return file.read(READ_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise JobFailed(f"ClientError: {path} is not a whole gzip file: {type(error).__name__}: {error}") from error


def _record(value: bytes | Path, channel: Channel) -> Iterator[bytes]:
    """One record with a whole object. Its length comes first, so a compressed object is inflated twice."""
    size = len(value) if isinstance(value, bytes) else _size(value, channel)
    if size >= PAYLOAD_LIMIT:
        raise ValueError(
            f"{value if isinstance(value, Path) else 'a value'} has {size} bytes, and a record less than {PAYLOAD_LIMIT}"
        )
    yield struct.pack("<II", MAGIC, size)
    yield from iter([value]) if isinstance(value, bytes) else _read(value, channel)
    if size % ALIGNMENT:
        yield bytes(-size % ALIGNMENT)


def _size(path: Path, channel: Channel) -> int:
    if channel.compression != "Gzip":
        return path.stat().st_size
    with _open(path, channel) as file:
        return sum(len(part) for part in iter(lambda: _read_part(file, path), b""))
