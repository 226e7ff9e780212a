"""Arrays to bodies as ``sagemaker_inference.encoder`` does it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from . import content_types, encoders, errors

__all__ = ["SUPPORTED_CONTENT_TYPES", "encode"]


def _array_to_csv(array_like: Any) -> str:
    stream = io.StringIO()
    np.savetxt(stream, array_like, delimiter=",", fmt="%s")
    return stream.getvalue()


_ENCODERS = {
    content_types.NPY: encoders.array_to_npy,
    content_types.CSV: _array_to_csv,
    content_types.JSON: encoders.array_to_json,
}
SUPPORTED_CONTENT_TYPES = set(_ENCODERS)


def encode(array_like: Any, content_type: str) -> Any:
    """The body for an array: text for csv (nothing quoted) and json, bytes for npy.

    Raises:
        UnsupportedFormatError: Another content type.
        ValueError: CSV of a single number or of more than two axes.
    """
    if content_type not in _ENCODERS:
        raise errors.UnsupportedFormatError(content_type)
    return _ENCODERS[content_type](array_like)
