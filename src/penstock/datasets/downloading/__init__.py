"""Files from the network, whole and checked, and what archives hold, safely unpacked."""

from penstock.datasets.downloading.downloads import Downloads
from penstock.datasets.downloading.fetch import Patience
from penstock.datasets.downloading.resource import Resource
from penstock.io.archives import Limits, unpack

__all__ = ["Downloads", "Limits", "Patience", "Resource", "unpack"]
