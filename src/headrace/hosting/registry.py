"""The folder in which endpoints are recorded, so that other processes find them."""

from __future__ import annotations

import importlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.io.system import discard_folder, lock, unlock
from headrace.io.write.atomic import write_atomic

__all__ = ["ENDPOINT_NAME", "EndpointEntry", "EndpointError", "all_entries", "state_folder"]

ENDPOINT_NAME = re.compile(r"(?!.{64})[a-zA-Z0-9](-*[a-zA-Z0-9])*")
CLAIMS, CLAIM_PAUSE_S = 20, 0.01


def state_folder() -> Path:
    """The folder in which endpoints are recorded.

    ``HEADRACE_STATE_DIR`` if set, else ``headrace`` in the platform's folder for application state (``XDG_STATE_HOME``,
    ``~/.local/state``, ``~/Library/Application Support``, ``%LOCALAPPDATA%``).
    """
    own = os.environ.get("HEADRACE_STATE_DIR")
    if own:
        return Path(own)
    # Imported here, because most imports of headrace never need this folder.
    platformdirs = importlib.import_module("platformdirs")
    return Path(platformdirs.user_state_dir("headrace", appauthor=False))


class EndpointError(HeadraceError, RuntimeError):
    """An endpoint does not exist, cannot be created, or is not running."""


@dataclass(frozen=True, slots=True)
class EndpointEntry:
    """The folder of one endpoint, with its specification, its state and its log.

    The process of the endpoint holds a lock on a file in the folder. The lock shows whether the endpoint runs, also after a kill or
    a restart of the machine, when another process may have its process number.

    Raises:
        ValueError: A name that SageMaker refuses.
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
        """The output of its processes."""
        return self.folder / "log.txt"

    def claim(self) -> int:
        """Take the name. Returns a locked descriptor, for the process of the endpoint to hold.

        Raises:
            EndpointError: An endpoint of this name is running, or is being created.
        """
        # is_alive() holds the lock for a moment, too.
        for _ in range(CLAIMS):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(self.folder / "alive", os.O_RDWR | os.O_CREAT, 0o600)
            if lock(fd) and self._is_current(fd):
                return fd
            os.close(fd)
            time.sleep(CLAIM_PAUSE_S)
        raise EndpointError(f"the endpoint {self.name!r} already exists; delete it first, or choose another name")

    def is_alive(self) -> bool:
        """Whether its process runs."""
        try:
            fd = os.open(self.folder / "alive", os.O_RDWR)
        except OSError:
            return False
        try:
            # A shared lock, so that two processes that call this at once do not take each other for the endpoint.
            free = lock(fd, shared=True)
            if free:
                unlock(fd)
            return not free
        finally:
            os.close(fd)

    def write(self, part: str, values: dict[str, Any]) -> None:
        """Write its specification (``spec``) or its state (``state``)."""
        write_atomic(self.folder / f"{part}.json", json.dumps(values, indent=1).encode(), durable=False)

    def read(self, part: str) -> dict[str, Any]:
        """Read its specification or state; empty if there is none."""
        try:
            found = json.loads((self.folder / f"{part}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}  # Another process is deleting it, or it is damaged.
        return found if isinstance(found, dict) else {}

    def remove(self) -> None:
        """Delete the folder."""
        discard_folder(self.folder)

    def _is_current(self, fd: int) -> bool:
        """Whether the open file still has the name: another process may have just deleted it."""
        try:
            return os.path.samestat(os.fstat(fd), (self.folder / "alive").stat())
        except OSError:
            return False


def all_entries() -> Iterator[EndpointEntry]:
    """All recorded endpoints, by name."""
    folder = state_folder() / "endpoints"
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if ENDPOINT_NAME.fullmatch(path.name) and (path / "spec.json").exists():
                yield EndpointEntry(path.name)
