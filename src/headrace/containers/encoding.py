"""Predictions to bodies of answers.

csv, json and npy are to the byte what ``sagemaker_containers`` writes wherever that is sound; its quirks (a single number
that fails, three axes that become garbage) are not kept here, but in :mod:`headrace.containers.toolkit.encoders`.
"""

from __future__ import annotations

import io
import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from headrace._optional import available, require
from headrace.containers import content_types
from headrace.containers.recordio_bodies import encode_recordio
from headrace.containers.toolkit import encoders
from headrace.errors import RequestError

__all__ = ["ENCODED", "encode", "is_sparse"]


def is_sparse(values: Any) -> bool:
    """Whether this is a SciPy matrix."""
    return available("scipy") and require("scipy.sparse", extra="sklearn").issparse(values)


def encode(prediction: Any, media: str) -> bytes:
    """A prediction as a body.

    Args:
        prediction: An array, a list, a number, a DataFrame, a SciPy matrix; for json anything that JSON has.
        media: A content type without parameters.

    Raises:
        RequestError: 406, no such type, or one that cannot hold this prediction while another one can; 500, none can: it is
            the script that has to return something else, not the client that has to ask for something else.
    """
    encoder = _ENCODERS.get(media)
    if encoder is None:
        raise RequestError(406, f"answers come as {', '.join(ENCODED)}, not as {media!r}")
    try:
        return encoder(prediction)
    except (ValueError, TypeError) as error:
        others = [name for name in ENCODED if _can_hold(prediction, name)]
        if others:
            reason = f"this prediction cannot be answered as {media}: {error}; ask for {' or '.join(others)}"
            raise RequestError(406, reason) from error
        kind = type(prediction).__name__
        reason = f"the script returned a {kind} that no content type can hold ({error}); return arrays, lists, numbers or texts"
        raise RequestError(500, reason) from error


def _can_hold(prediction: Any, media: str) -> bool:
    try:
        _ENCODERS[media](prediction)
    except Exception:  # noqa: BLE001 - whatever the reason: it cannot
        return False
    return True


def _dense(prediction: Any) -> Any:
    if is_sparse(prediction):
        return prediction.toarray()
    return prediction.to_numpy() if hasattr(prediction, "to_numpy") else prediction


def _encode_csv(prediction: Any) -> bytes:
    array = np.atleast_1d(np.asarray(_dense(prediction)))
    if array.ndim > 2:
        raise ValueError(f"csv has rows and columns, and the prediction has shape {array.shape}")
    if array.dtype.hasobject:
        for cell in array.flat:
            _check_cell(cell)
    return encoders.array_to_csv(array).encode()


def _check_cell(cell: Any) -> None:
    """That a value means something as text: of a function or a set, only Python's own description would be sent."""
    is_value = cell is None or isinstance(cell, str | bytes | numbers.Number | np.generic) or hasattr(cell, "isoformat")
    if not is_value and not type(cell).__module__.startswith("pandas."):  # which has missing values of its own
        raise TypeError(f"Object of type {type(cell).__name__} is no value of a csv")


def _encode_json(prediction: Any) -> bytes:
    return encoders.array_to_json(_dense(prediction)).encode()


def _encode_jsonlines(prediction: Any) -> bytes:
    values = _dense(prediction)
    rows = values if isinstance(values, list | tuple) else np.atleast_1d(np.asarray(values))
    return b"".join(encoders.array_to_json(row).encode() + b"\n" for row in rows)


def _encode_npy(prediction: Any) -> bytes:
    array = np.asarray(_dense(prediction))
    if array.dtype.hasobject:
        raise ValueError("npy would need pickled objects for it")
    return encoders.array_to_npy(array)


def _encode_npz(prediction: Any) -> bytes:
    sparse = require("scipy.sparse", extra="sklearn")
    buffer = io.BytesIO()
    sparse.save_npz(
        buffer, prediction if is_sparse(prediction) else sparse.csr_matrix(np.atleast_2d(_dense(prediction)))
    )
    return buffer.getvalue()


def _encode_recordio(prediction: Any) -> bytes:
    if is_sparse(prediction):
        return encode_recordio(prediction)
    array = np.asarray(_dense(prediction))
    return encode_recordio(array.reshape(-1, 1) if array.ndim < 2 else array)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    content_types.JSON: _encode_json,
    content_types.CSV: _encode_csv,
    content_types.NPY: _encode_npy,
    content_types.JSONLINES: _encode_jsonlines,
    content_types.NPZ: _encode_npz,
    content_types.RECORDIO_PROTOBUF: _encode_recordio,
}
ENCODED = tuple(_ENCODERS)
"""What can be encoded."""
