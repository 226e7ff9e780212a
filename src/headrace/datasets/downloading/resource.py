"""One file on the network: where it is, and what tells that it is the right one."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.errors import CorruptFile, Where

__all__ = ["Resource"]

_DIGITS = {"sha256": 64, "md5": 32}
_UNUSUAL = re.compile(r"[^\w.+-]+")
BLOCK_BYTES = 1 << 20
NAME_LETTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A file to download.

    Args:
        urls: Where it is, by ``http`` or ``https``. The first that gives the right file is taken.
        size: Its bytes, where that is known.
        sha256: Its checksum in hexadecimal, where that is known. Where neither it nor ``md5`` is, the file is taken as it comes,
            and what came is noted: later downloads into the same folder must be the same.
        md5: Its MD5 checksum. That finds accidents, not forgeries.
        otherwise: Another file that will do, where this one cannot be had.

    Raises:
        ValueError: An address or a checksum is none.

    >>> Resource(urls=("https://example.org/iris.data",), size=4551).name
    'iris.data'
    """

    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    otherwise: Resource | None = None

    def __post_init__(self) -> None:
        if type(self.urls) is not tuple or not self.urls:
            raise ValueError(f"urls must be a tuple of addresses, got {self.urls!r}")
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"an address begins with http:// or https:// and a host, got {url!r}")
        for name, digits in _DIGITS.items():
            given = getattr(self, name)
            if given is not None and not re.fullmatch(f"[0-9a-f]{{{digits}}}", given):
                raise ValueError(f"{name} must be {digits} digits 0-9 and a-f, got {given!r}")
        if self.size is not None and self.size < 0:
            raise ValueError(f"size must be 0 or more, got {self.size}")

    @property
    def name(self) -> str:
        """What the file is called, without anything that could lead out of a folder."""
        last = unquote(urlsplit(self.urls[0]).path).replace("\\", "/").rstrip("/").rpartition("/")[2]
        return _UNUSUAL.sub("_", last)[-NAME_LETTERS:].lstrip(".") or "file"

    @property
    def stored_name(self) -> str:
        """What the file is called among downloads: two resources never share a name."""
        known = self.sha256 or self.md5 or hashlib.sha256("\n".join(self.urls).encode()).hexdigest()
        return f"{known[:12]}-{self.name}"

    @property
    def has_checksum(self) -> bool:
        """Whether the right file can be told from any other."""
        return self.sha256 is not None or self.md5 is not None

    def check(self, path: Path, *, found_at: str = "") -> str:
        """Hold a file against what is known of it.

        Returns:
            Its SHA-256.

        Raises:
            CorruptFile: It is another one.
        """
        where = Where(path=found_at or str(path))
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            raise CorruptFile(where, expected=f"{self.size} bytes", found=str(size))
        digests = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                for name, digest in digests.items():
                    if name == "sha256" or self.md5 is not None:
                        digest.update(block)
        for name, digest in digests.items():
            wanted = getattr(self, name)
            if wanted is not None and digest.hexdigest() != wanted:
                raise CorruptFile(where, expected=f"{name} {wanted}", found=digest.hexdigest())
        return digests["sha256"].hexdigest()
