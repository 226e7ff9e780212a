"""What a source over other sources has from them.

Here, and in the files of the single views, is how they read. ``views.py`` adds the operations that make views, which need all of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.records import Records
from headrace.contracts.schema import Schema
from headrace.errors import Where
from headrace.sources.base import BaseSource

if TYPE_CHECKING:
    from headrace.sources.views import Source

__all__ = ["OverOne", "OverSeveral"]


class OverOne(BaseSource):
    """A source over one other source."""

    def __init__(self, parent: Source) -> None:
        self.parent = parent

    @property
    def schema(self) -> Schema:
        return self.parent.schema

    def _sources(self) -> tuple[Source, ...]:
        return (self.parent,)

    @property
    def cuts_cleanly(self) -> bool:
        return self.parent.cuts_cleanly

    def _all_records(self) -> list[Records]:
        return self.parent._all_records()

    def __len__(self) -> int:
        return len(self.parent)

    def where(self, index: int) -> Where:
        return self.parent.where(index)


class OverSeveral(BaseSource):
    """A source over several others."""

    def __init__(self, parents: tuple[Source, ...]) -> None:
        self.parents = parents

    def _sources(self) -> tuple[Source, ...]:
        return self.parents

    def _all_records(self) -> list[Records]:
        return [records for parent in self.parents for records in parent._all_records()]
