"""``headrace demo``: the main job on real data, every step of it checked."""

from __future__ import annotations

from headrace.cli.demo.command import demo

__all__ = ["demo"]
