"""Datasets that are fetched because somebody opens them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from headrace import _registry
from headrace.errors import NoFiles
from headrace.io.progress import say

if TYPE_CHECKING:
    from headrace.datasets.building.builder import DatasetBuilder

__all__ = ["SWITCH", "prepared_on_demand"]

SWITCH = "HEADRACE_DOWNLOAD"
_NO = frozenset(("0", "no", "false", "off", "never"))


def prepared_on_demand(
    name: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None, *, download: bool | None, missing: NoFiles
) -> None:
    """Prepare a dataset that is not there, if it is known by its name and nobody forbids it.

    Args:
        name: As it was given.
        data_dir: Where it is to be.
        download: Whether that may be; ``None``: unless the environment variable ``HEADRACE_DOWNLOAD`` is ``0``.
        missing: The error to raise where it may not, or nothing of that name is known.

    Raises:
        NoFiles: See ``missing``.
        DownloadFailed: Its files cannot be had.
    """
    builder = _known(name)
    if builder is None:
        raise missing
    allowed = download if download is not None else os.environ.get(SWITCH, "").strip().lower() not in _NO
    if not allowed:
        raise NoFiles(
            missing.where,
            expected=missing.expected,
            found=missing.found,
            hint=f"`headrace prepare {os.fspath(name)}` downloads and prepares it; downloads were forbidden here "
            f"(download=False, or {SWITCH}=0).",
        ) from missing
    say(
        f"{builder.full_name} is not there: downloading {builder.download_size / 1e6:.1f} MB and preparing it in "
        f"{builder.folder(data_dir)} ({SWITCH}=0 forbids that)"
    )
    builder.download_and_prepare(data_dir=data_dir)


def _known(name: str | os.PathLike[str]) -> DatasetBuilder | None:
    # Most of what is opened is there, or is known to nobody: only else are the builders worth their import.
    match = re.match(r"\w+", name) if isinstance(name, str) else None
    if match is None or match[0] not in _registry.DATASETS:
        return None
    try:
        found: DatasetBuilder = _registry.load(_registry.DATASET_NAMER)(name)
    except NoFiles:
        return None
    return found
