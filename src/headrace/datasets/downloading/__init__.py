"""Download files, verify them, and unpack archives safely."""

from headrace.datasets.downloading.downloads import Downloads, Resource
from headrace.datasets.downloading.fetch import Patience
from headrace.io.archive.unpack import Limits, unpack

__all__ = ["Downloads", "Limits", "Patience", "Resource", "unpack"]
