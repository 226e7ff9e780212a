"""The place where the SDK has these names."""

from __future__ import annotations

from headrace.sagemaker import image_uris
from headrace.sagemaker.amazon.record_set import RecordSet
from headrace.sagemaker.image_uris import get_image_uri

__all__ = ["RecordSet", "get_image_uri", "image_uris"]
