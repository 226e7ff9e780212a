"""Functions of higher layers that a lower one calls. The package itself, above all of them, puts them here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["as_source", "find_schema", "to_arrow", "to_html", "to_pandas", "write_dataset"]

find_schema: Callable[[Any, int | None], Any]
"""``find_schema(records, most)``: what :meth:`headrace.Schema.infer` returns. It opens files and decodes records."""
as_source: Callable[[Any], Any]
"""``as_source(given)``: a source of what a user passes as one, such as a frame. It calls the adapters."""
to_arrow: Callable[[Any], Any]
"""``to_arrow(source)``: what :meth:`headrace.Source.to_arrow` returns."""
to_pandas: Callable[[Any], Any]
"""``to_pandas(source)``: what :meth:`headrace.Source.to_pandas` returns."""
write_dataset: Callable[..., int]
"""``write_dataset(dataset, path, ...)``: what :func:`headrace.adapters.ray.write` does. It uses writers, which use adapters."""
to_html: Callable[[Any], str | None]
"""``to_html(value)``: what a notebook shows of a source, column, schema or ragged column."""
