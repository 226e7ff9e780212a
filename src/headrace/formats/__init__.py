"""Formats of files. Others can add their own: :func:`register`, or an entry point of the group ``headrace.formats``."""

from headrace.contracts.records import Format
from headrace.formats.registry import register

__all__ = ["Format", "register"]
