"""What a workload is."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.compare.results import Target
from benchmarks.compare.tasks import System


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One table.

    Attributes:
        title: Its heading.
        systems: Its rows, in the order of the run.
        targets: What is required.
        row_bytes: Bytes delivered per example, or 0 where there are none.
        note: A note for readers of all rows.
        needs_images: Whether it reads the images.
    """

    title: str
    systems: tuple[System, ...]
    targets: tuple[Target, ...] = ()
    row_bytes: int = 0
    note: str = ""
    needs_images: bool = False
