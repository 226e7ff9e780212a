"""Functions of higher layers that a lower one calls. The package itself, above all of them, puts them here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["find_schema"]

find_schema: Callable[[Any, int | None], Any]
"""``find_schema(records, most)``: what :meth:`headrace.Schema.infer` returns. It opens files and decodes records."""
