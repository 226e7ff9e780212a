"""``headrace stats``: what the values of every feature are like."""

from __future__ import annotations

from headrace.cli.stats.command import stats

__all__ = ["stats"]
