"""``headrace stats``: statistics of every feature."""

from __future__ import annotations

from headrace.cli.stats.command import stats

__all__ = ["stats"]
