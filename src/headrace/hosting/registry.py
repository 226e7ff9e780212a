"""Where endpoints are written down, so that other processes find them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.io.system import lock, unlock
from headrace.io.write.atomic import write_atomic

__all__ = ["ENDPOINT_NAME", "Entry", "all_entries", "state_folder"]

ENDPOINT_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
CLAIMS, CLAIM_PAUSE_S = 20, 0.01


def state_folder() -> Path:
    """The folder in which endpoints are written down.

    ``HEADRACE_STATE_DIR`` if set, else ``headrace`` in the platform's folder for what programs keep (``XDG_STATE_HOME``,
    ``~/.local/state``, ``~/Library/Application Support``, ``%LOCALAPPDATA%``).
    """
    own = os.environ.get("HEADRACE_STATE_DIR")
    if own:
        return Path(own)
    if sys.platform == "win32":
        parent = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        parent = str(Path.home() / "Library" / "Application Support")
    else:
        parent = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(parent) / "headrace"


@dataclass(frozen=True, slots=True)
class Entry:
    """One endpoint's folder: what it is to run, what it has become, its log.

    Its process holds a lock on a file in it as long as it lives. That tells a running endpoint from one that was killed,
    or that was running before the machine was restarted, whatever process has its number now.

    Raises:
        ValueError: A name that SageMaker would refuse.
    """

    name: str

    def __post_init__(self) -> None:
        if not ENDPOINT_NAME.fullmatch(self.name):
            raise ValueError(
                f"the name of an endpoint is up to 63 letters, digits and inner hyphens, got {self.name!r}"
            )

    @property
    def folder(self) -> Path:
        return state_folder() / "endpoints" / self.name

    @property
    def log(self) -> Path:
        """Everything that its processes print."""
        return self.folder / "log.txt"

    def claim(self) -> int:
        """Take the name: a descriptor that is locked, for the endpoint's process to hold.

        Raises:
            HeadraceError: An endpoint of this name is running, or is being created.
        """
        # Who only asks whether it is alive holds the lock for a moment too.
        for _ in range(CLAIMS):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self.folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
            if lock(fd) and self._is_still(fd):
                return fd
            os.close(fd)
            time.sleep(CLAIM_PAUSE_S)
        raise HeadraceError(f"there is an endpoint {self.name!r} already; delete it first, or take another name")

    def is_alive(self) -> bool:
        """Whether its process lives."""
        try:
            fd = os.open(self.folder / "alive", os.O_RDWR)
        except OSError:
            return False
        try:
            # Shared, so that two who ask at once do not take each other for the endpoint.
            free = lock(fd, shared=True)
            if free:
                unlock(fd)
            return not free
        finally:
            os.close(fd)

    def write(self, part: str, values: dict[str, Any]) -> None:
        """Write down what it is to run (``spec``), or what it has become (``state``)."""
        write_atomic(self.folder / f"{part}.json", json.dumps(values, indent=1).encode(), durable=False)

    def read(self, part: str) -> dict[str, Any]:
        """What was written down; nothing where there is none."""
        try:
            found = json.loads((self.folder / f"{part}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}  # Being deleted by another process, or damaged: as good as not there.
        return found if isinstance(found, dict) else {}

    def remove(self) -> None:
        """Forget it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_still(self, fd: int) -> bool:
        """Whether the file that we hold is the one with the name, and not one that somebody has just deleted."""
        try:
            return os.path.samestat(os.fstat(fd), (self.folder / "alive").stat())
        except OSError:
            return False


def all_entries() -> Iterator[Entry]:
    """All endpoints that are written down, by name."""
    folder = state_folder() / "endpoints"
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if ENDPOINT_NAME.fullmatch(path.name) and (path / "spec.json").exists():
                yield Entry(path.name)
