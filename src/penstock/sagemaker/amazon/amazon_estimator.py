"""The place where version 1 of the SDK has these names."""

from __future__ import annotations

from penstock.sagemaker.amazon.record_set import RecordSet
from penstock.sagemaker.image_uris import get_image_uri

__all__ = ["RecordSet", "get_image_uri"]
