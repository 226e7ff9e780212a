"""Between which numbers the indices of records lie: asked for every batch, so that it must not take as long as reading one."""

from __future__ import annotations

from headrace._native import bounds

__all__ = ["bounds"]
