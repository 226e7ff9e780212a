"""Formats of files. Others can add their own: :func:`register`, or an entry point of the group ``headrace.formats``."""

from headrace.contracts.records import Format, Misfit
from headrace.formats.registry import register
from headrace.formats.table.base import FileTable, refuse_misfits
from headrace.io.write.atomic import AtomicFile

__all__ = ["AtomicFile", "FileTable", "Format", "Misfit", "refuse_misfits", "register"]
