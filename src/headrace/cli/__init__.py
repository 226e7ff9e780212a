"""The ``headrace`` command."""

from __future__ import annotations

from headrace.cli.app import main

__all__ = ["main"]
