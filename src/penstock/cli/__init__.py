"""The ``penstock`` command."""

from __future__ import annotations

from penstock.cli.app import main

__all__ = ["main"]
