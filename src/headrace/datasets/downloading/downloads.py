"""Downloaded files: each is fetched once, verified, and kept in a folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.datasets.downloading.fetch import LONGEST_WAIT_S, Attempt, Patience, Refused, Unfinished, fetch
from headrace.errors import CorruptFile, DownloadFailed, UnsupportedData, Where
from headrace.io.archive.unpack import Limits, unpack
from headrace.io.faults import close_quietly, name_in_errors
from headrace.io.progress import Progress
from headrace.io.system import lock
from headrace.io.write.atomic import write_atomic

__all__ = ["Downloads", "Resource"]


_DIGITS = {"sha256": 64, "md5": 32}
_UNUSUAL = re.compile(r"[^\w.+-]+")
BLOCK_BYTES = 1 << 20
NAME_LETTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A file to download.

    Args:
        urls: Addresses (``http`` or ``https``), tried in order.
        size: Its size in bytes, if known.
        sha256: Its checksum in hexadecimal, if known. Without it and ``md5`` any content is accepted and its checksum noted:
            later downloads into the same folder must be equal.
        md5: Its MD5 checksum. It detects accidents, not forgeries.
        otherwise: A file to use if this one cannot be downloaded.

    Raises:
        ValueError: An address or a checksum is malformed.

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
        """Name of the file, reduced to safe characters."""
        last = unquote(urlsplit(self.urls[0]).path).replace("\\", "/").rstrip("/").rpartition("/")[2]
        return _UNUSUAL.sub("_", last)[-NAME_LETTERS:].lstrip(".") or "file"

    @property
    def stored_name(self) -> str:
        """Name of the file in the download folder, unique for each resource."""
        known = self.sha256 or self.md5 or hashlib.sha256("\n".join(self.urls).encode()).hexdigest()
        return f"{known[:12]}-{self.name}"

    @property
    def has_checksum(self) -> bool:
        """Whether a checksum is known."""
        return self.sha256 is not None or self.md5 is not None

    def check(self, path: Path, *, found_at: str = "") -> str:
        """Verify the size and checksums of a file.

        Returns:
            Its SHA-256.

        Raises:
            CorruptFile: They differ.
        """
        where = Where(path=found_at or str(path))
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            raise CorruptFile(where, expected=f"{self.size} bytes", found=str(size))
        digests = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
        with name_in_errors(str(path)), path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                for name, digest in digests.items():
                    if name == "sha256" or self.md5 is not None:
                        digest.update(block)
        for name, digest in digests.items():
            wanted = getattr(self, name)
            if wanted is not None and digest.hexdigest() != wanted:
                raise CorruptFile(where, expected=f"{name} {wanted}", found=digest.hexdigest())
        return digests["sha256"].hexdigest()


MOST_ATTEMPTS = 200
"""Limit on attempts, even if each makes progress."""
FURTHER_BYTES = 1 << 16
"""An attempt that receives this many bytes does not count as failed."""


@dataclass(frozen=True, kw_only=True)
class Downloads:
    """The files of a dataset, by name: ``downloads["train_images"]`` is a path.

    A file is downloaded on first use. An existing file is verified and used. An interrupted download resumes, also in another
    process. If two processes need the same file, one downloads it.

    Args:
        folder: Folder for the files.
        resources: Resources by name.
        patience: Limits for slow servers.
        progress: Whether to show progress bars on a terminal.
    """

    folder: Path
    resources: Mapping[str, Resource]
    patience: Patience = field(default_factory=Patience)
    progress: bool = True

    def __getitem__(self, name: str) -> Path:
        """The path of a file, downloaded if needed.

        Raises:
            KeyError: There is no resource of that name.
            DownloadFailed: No address delivered it.
        """
        return self.path(self.resources[name])

    def path(self, resource: Resource) -> Path:
        """The path of a complete, verified file, downloaded if needed.

        Raises:
            DownloadFailed: No address delivered it; the message lists the answers.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        failures: list[str] = []
        each: Resource | None = resource
        while each is not None:
            with _lock(self.folder / f".{each.stored_name}.lock"):
                path = self._kept(each) or self._download(each, failures)
            if path is not None:
                return path
            each = each.otherwise
        raise DownloadFailed(
            Where(path=resource.urls[0]),
            expected="the file " + resource.name,
            found="; ".join(failures),
            hint=f"Try again later: the download resumes. Or put the file at {self.folder / resource.stored_name}.",
        )

    def unpacked(self, name: str, *, only: Mapping[str, str] | None = None, limits: Limits | None = None) -> Path:
        """Unpack an archive once, and return the folder.

        Args:
            name: Name of the resource.
            only: Members to unpack: a dict of path in the archive to new name. By default all.
            limits: Limits on the unpacked size.

        Raises:
            CorruptFile, UnsupportedData: See :func:`unpack`.
        """
        archive = self[name]
        folder = self.folder / "unpacked" / (archive.name + ("" if only is None else f".{_digest(only)}"))
        folder.parent.mkdir(exist_ok=True)
        with _lock(folder.parent / f".{folder.name}.lock"):
            if not folder.is_dir():
                unpack(archive, folder, only=only, limits=limits, progress=self.progress)
        return folder

    @property
    def size(self) -> int:
        """Total size of the resources of known size."""
        return sum(resource.size or 0 for resource in self.resources.values())

    def _kept(self, resource: Resource) -> Path | None:
        """The file from an earlier download, if it is intact."""
        path = self.folder / resource.stored_name
        if not path.is_file():
            return None
        try:
            self._check(resource, path, str(path))
        except CorruptFile:
            path.unlink()
            return None
        return path

    def _download(self, resource: Resource, failures: list[str]) -> Path | None:
        part = self.folder / f"{resource.stored_name}.part"
        self._check_room(resource, part)
        with Progress(f"downloading {resource.name}", resource.size, "bytes", show=self.progress) as bar:
            for url in resource.urls:
                try:
                    self._complete(resource, url, part, bar)
                    return self._accept(resource, url, part)
                except Refused as error:
                    failures.append(f"{error} from {url}")
                except CorruptFile as error:
                    failures.append(f"{error.found} instead of {error.expected} from {url}")
        return None

    def _complete(self, resource: Resource, url: str, part: Path, bar: Progress) -> None:
        """Download a file from one address, in several attempts."""

        def arrived(there: int, total: int | None) -> None:
            bar.total = total
            bar.advance(there - bar.done)

        attempt = Attempt(
            url=url,
            part=part,
            size=resource.size,
            can_be_checked=resource.has_checksum,
            timeout_s=self.patience.timeout_s,
            arrived=arrived,
        )
        failed, furthest = 0, _size(part)
        for number in range(MOST_ATTEMPTS):
            try:
                _fetch_right(attempt, resource)
                break
            except Unfinished as error:
                is_further = _size(part) >= furthest + FURTHER_BYTES
                failed = 1 if is_further else failed + 1
                furthest = _size(part) if is_further else furthest
                if failed >= self.patience.attempts or number == MOST_ATTEMPTS - 1:
                    raise Refused(f"{error} (after {number + 1} attempts)") from error
                pause = self.patience.backoff_s * 2 ** (failed - 1)
                time.sleep(min(LONGEST_WAIT_S, max(pause, error.wait_s)))

    def _accept(self, resource: Resource, url: str, part: Path) -> Path:
        path = self.folder / resource.stored_name
        notes = part.with_name(part.name + ".json")
        if not part.exists():
            part.touch()  # an empty file
        try:
            found = self._check(resource, part, url)
        except CorruptFile:
            part.unlink()
            notes.unlink(missing_ok=True)
            raise
        note = {"url": url, "size": part.stat().st_size, "sha256": found}
        write_atomic(self._notes(resource), (json.dumps(note, indent=2) + "\n").encode())
        os.replace(part, path)
        notes.unlink(missing_ok=True)
        return path

    def _check(self, resource: Resource, part: Path, url: str) -> str:
        found = resource.check(part, found_at=url)
        noted = None if resource.has_checksum else self._noted_checksum(resource)
        if noted not in (None, found):
            raise CorruptFile(
                Where(path=url), expected=f"sha256 {noted}, as in the first download", found=f"sha256 {found}"
            )
        return found

    def _notes(self, resource: Resource) -> Path:
        return self.folder / f"{resource.stored_name}.json"

    def _noted_checksum(self, resource: Resource) -> str | None:
        """The checksum of the first download."""
        path = self._notes(resource)
        try:
            with name_in_errors(str(path)):
                noted = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return noted.get("sha256") if isinstance(noted, dict) else None

    def _check_room(self, resource: Resource, part: Path) -> None:
        needed = (resource.size or 0) - _size(part)
        free = shutil.disk_usage(self.folder).free
        if needed > free:
            raise UnsupportedData(
                Where(path=str(self.folder)),
                expected=f"room for {needed:,} bytes more of {resource.name}",
                found=f"{free:,} bytes free",
                hint="Name another folder: download_dir=.",
            )


def _fetch_right(attempt: Attempt, resource: Resource) -> None:
    """Make one attempt. Restart it if the existing part belongs to another version of the file."""
    was_begun = _size(attempt.part) > 0
    fetch(attempt)
    if was_begun and resource.has_checksum and not _is_right(resource, attempt.part):
        attempt.part.unlink()
        fetch(attempt)


def _digest(only: Mapping[str, str]) -> str:
    """A name for a choice of members. Their new names do not tell: other members may have got the same ones."""
    return hashlib.sha256(json.dumps(sorted(only.items())).encode()).hexdigest()[:16]


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_right(resource: Resource, part: Path) -> bool:
    try:
        resource.check(part)
    except CorruptFile:
        return False
    return True


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file. Waits for other processes and threads."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with name_in_errors(str(path)):
            lock(fd, wait=True)
        yield
    finally:
        close_quietly(fd)
