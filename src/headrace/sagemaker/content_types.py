"""Content types: ``sagemaker.content_types``."""

from __future__ import annotations

__all__ = [
    "CONTENT_TYPE_CSV",
    "CONTENT_TYPE_JSON",
    "CONTENT_TYPE_NPY",
    "CONTENT_TYPE_OCTET_STREAM",
    "CONTENT_TYPE_RECORDIO_PROTOBUF",
]

CONTENT_TYPE_JSON = "application/json"
CONTENT_TYPE_CSV = "text/csv"
CONTENT_TYPE_OCTET_STREAM = "application/octet-stream"
CONTENT_TYPE_NPY = "application/x-npy"
CONTENT_TYPE_RECORDIO_PROTOBUF = "application/x-recordio-protobuf"
