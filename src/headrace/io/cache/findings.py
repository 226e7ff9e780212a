"""What was found by reading files, kept in the user's cache folder while the files stay as they are."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from headrace import _native
from headrace.errors import DataError
from headrace.io.cache.folder import cache_folder, cache_key, is_trusted
from headrace.io.local.fileset import FileSet
from headrace.io.local.signatures import Signature
from headrace.io.paths import absolute
from headrace.io.write.atomic import AtomicFile

__all__ = ["Findings"]


class Findings:
    """Something that takes long to find in some files, and is the same as long as those that were read are the same.

    It is stored as JSON after a checksum, with the signatures of the files. A damaged entry counts as none, and one that cannot be written is no
    error.

    Args:
        files: The files.
        key: What else it depends on; another text for another version of the code that finds it.
    """

    def __init__(self, files: FileSet, *key: object) -> None:
        self._files = files
        self._path = cache_folder("findings") / f"{cache_key(*key, *map(absolute, files.paths))}.json"
        self._signed: list[Signature] = []

    def load(self) -> Any:
        """What was saved; ``None`` if nothing was, or a file has changed since."""
        if not is_trusted(self._path):
            return None
        try:
            stated, _, text = self._path.read_bytes().partition(b"\n")
            if int(stated, 16) != _native.crc32c(text):
                return None
            kept = json.loads(text)
            signatures = [Signature(**each) for each in kept["files"]]
            if all(each.proves(self._files.signature(number)) for number, each in enumerate(signatures)):
                return kept["found"]
        except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, DataError):
            pass  # such as a file that is gone, which reading it reports
        return None

    def sign(self, number: int) -> None:
        """Note that file ``number`` is about to be read. Files are read in order."""
        assert number == len(self._signed)
        self._signed.append(self._files.signature(number))

    def save(self, found: Any) -> None:
        """Keep what was found in the files that were signed, unless one of them was changed so recently that another change would not show."""
        if not all(signature.is_settled() for signature in self._signed):
            return
        text = json.dumps({"files": list(map(asdict, self._signed)), "found": found}).encode("ascii")
        with suppress(OSError), AtomicFile(self._path, durable=False) as file:
            file.write(b"%08x\n" % _native.crc32c(text) + text)
