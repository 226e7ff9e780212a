"""Bodies to arrays as ``sagemaker_inference.decoder`` does it, except that nothing is unpickled."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from . import content_types, encoders, errors

__all__ = ["SUPPORTED_CONTENT_TYPES", "decode"]


def _csv_to_numpy(string_like: str, dtype: Any = None) -> Any:
    return np.genfromtxt(io.StringIO(string_like), dtype=dtype, delimiter=",")


def _npz_to_sparse(npz_bytes: bytes) -> Any:
    return importlib.import_module("scipy.sparse").load_npz(io.BytesIO(npz_bytes))


_DECODERS: dict[str, Callable[..., Any]] = {
    content_types.NPY: encoders.npy_to_numpy,
    content_types.CSV: _csv_to_numpy,
    content_types.JSON: encoders.json_to_numpy,
    content_types.NPZ: _npz_to_sparse,
}
SUPPORTED_CONTENT_TYPES = set(_DECODERS)


def decode(obj: Any, content_type: str) -> Any:
    """The array (npz: the SciPy matrix) in a body.

    Raises:
        UnsupportedFormatError: Neither csv, json, npy nor npz, to the letter.
    """
    if content_type not in _DECODERS:
        raise errors.UnsupportedFormatError(content_type)
    return _DECODERS[content_type](obj)
