"""Files from the network, whole and checked, and what archives hold, safely unpacked."""

from headrace.datasets.downloading.downloads import Downloads, Resource
from headrace.datasets.downloading.fetch import Patience
from headrace.io.archive.unpack import Limits, unpack

__all__ = ["Downloads", "Limits", "Patience", "Resource", "unpack"]
