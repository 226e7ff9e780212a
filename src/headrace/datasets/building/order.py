"""Order the examples of a prepared split by a hash of their keys, as TFDS does.

The order depends on the keys only, not on the order in which examples were made. The hash is the MD5 of the split's name and the
key, so splits with equal keys differ in order.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from headrace.errors import SchemaMismatch, Where
from headrace.io.faults import name_in_errors

__all__ = ["Key", "Ordering", "key_bytes"]

Key = str | bytes | int

MEMORY_BYTES = 256 << 20
"""Memory for waiting examples. More wait on disk."""
PILES = 256
_HEAD = struct.Struct("<16sQQ")
Entry = tuple[bytes, bytes, bytes]
"""Hash, key and payload."""


def key_bytes(key: Key) -> bytes:
    """The bytes of a key to hash: bytes unchanged, text as UTF-8 (paths with forward slashes), numbers as text.

    Raises:
        SchemaMismatch: The key has another type, or is half a surrogate pair.
    """
    if isinstance(key, bytes):
        return key
    if isinstance(key, str):
        try:
            return key.replace("\\", "/").encode()
        except UnicodeEncodeError as error:
            found = f"half a surrogate pair in {key!r:.40}"
            raise SchemaMismatch(Where(), expected="a key that is text, bytes or an integer", found=found) from error
    if isinstance(key, (int, np.integer)):
        return str(int(key)).encode()
    raise SchemaMismatch(Where(), expected="a key that is text, bytes or an integer", found=repr(key)[:80])


class Ordering:
    """Collects payloads with their keys, and returns them in order.

    Payloads that exceed the memory are written to 256 files, one for each range of hashes, which are sorted one by one.

    Args:
        salt: The name of the split.
        folder: Folder for temporary files.
        shuffled: ``False`` keeps the order of arrival, and allows equal keys.
        memory_bytes: Memory for payloads.
    """

    def __init__(self, salt: str, folder: Path, *, shuffled: bool = True, memory_bytes: int = MEMORY_BYTES) -> None:
        self._salt = hashlib.md5(key_bytes(salt), usedforsecurity=False)
        self._split = salt
        self._folder = folder
        self._shuffled = shuffled
        self._memory_bytes = memory_bytes
        self._waiting: list[Entry] = []
        self._waiting_bytes = 0
        self._spilled = False
        self.count: int = 0
        """Number of examples so far."""
        self.bytes: int = 0
        """Total size of their payloads."""

    def add(self, key: Key, payload: bytes) -> None:
        """Add an example."""
        content = key_bytes(key)
        if self._shuffled:
            digest = self._salt.copy()
            digest.update(content)
            rank = digest.digest()
        else:
            rank = self.count.to_bytes(16, "big")
        self._waiting.append((rank, content, payload))
        self._waiting_bytes += len(payload) + len(content) + 200  # overhead of three Python objects and their tuple
        self.count += 1
        self.bytes += len(payload)
        if self._waiting_bytes > self._memory_bytes:
            self._spill()

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over all payloads in order. Call it once, after the last :meth:`add`.

        Raises:
            SchemaMismatch: Two examples have the same key.
        """
        before: Entry = (b"", b"", b"")
        for entry in self._in_order():
            if entry[0] == before[0]:
                raise SchemaMismatch(
                    Where(),
                    expected=f"a different key for each example of split {self._split!r}",
                    found=f"{_excerpt(entry[1])} twice",
                    hint="The order of a prepared dataset comes from its keys: number the examples, or name them.",
                )
            before = entry
            yield entry[2]

    def _in_order(self) -> Iterator[Entry]:
        if not self._spilled:
            waiting, self._waiting = self._waiting, []
            yield from sorted(waiting)
            return
        self._spill()
        for number in range(PILES):
            path = self._pile(number)
            if path.exists():
                # Unshuffled payloads are in one pile in order, which may exceed the memory.
                yield from sorted(_entries(path)) if self._shuffled else _entries(path)
                path.unlink()

    def _spill(self) -> None:
        self._spilled = True
        piles: dict[int, list[Entry]] = {}
        for entry in self._waiting:
            piles.setdefault(self._pile_of(entry[0]), []).append(entry)
        self._waiting, self._waiting_bytes = [], 0
        for number, entries in piles.items():
            with name_in_errors(str(self._pile(number))), self._pile(number).open("ab") as file:
                for rank, key, payload in entries:
                    file.write(_HEAD.pack(rank, len(key), len(payload)) + key + payload)

    def _pile_of(self, rank: bytes) -> int:
        return rank[0] if self._shuffled else 0

    def _pile(self, number: int) -> Path:
        return self._folder / f"pile-{number:03}.tmp"


def _entries(path: Path) -> Iterator[Entry]:
    with name_in_errors(str(path)), path.open("rb") as file:
        while head := file.read(_HEAD.size):
            rank, key, payload = _HEAD.unpack(head)
            yield rank, file.read(key), file.read(payload)


def _excerpt(key: bytes) -> str:
    try:
        return repr(key.decode())[:80]
    except UnicodeDecodeError:
        return repr(key)[:80]
