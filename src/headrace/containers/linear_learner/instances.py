"""Parses requests of any supported content type to one matrix of features.

Source: the inference formats of the SageMaker developer guide ("Common data formats for inference", "Linear learner response
formats").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace._optional import require
from headrace.containers import content_types
from headrace.containers.bodies import check_numbers, decode, first_text
from headrace.contracts.serving import Request
from headrace.errors import DataError, RequestError
from headrace.io.json_text import load_json

__all__ = ["SUPPORTED", "features_of"]

SUPPORTED = (content_types.JSON, content_types.JSONLINES, content_types.CSV, content_types.RECORDIO_PROTOBUF)
PREFIX = "unable to evaluate payload provided: "
SHAPES = '{"features": [..]}, {"data": {"features": {"values": [..]}}} or, sparse, {"data": {"features": {"keys": [..], "shape": [n], "values": [..]}}}'  # fmt: skip


def features_of(request: Request, width: int) -> Any:
    """The features in a request.

    Args:
        request: Its body and content type.
        width: The number of features of the model.

    Returns:
        ``float32 (n, width)``: an array, or a CSR array for sparse Records and instances.

    Raises:
        RequestError: 415 for an unsupported content type; 400 for an invalid body, with the location and the reason.
    """
    media = content_types.media_type(request.content_type)
    if media not in SUPPORTED:
        raise RequestError(
            415, f"content type {request.content_type!r} is not supported; send one of {', '.join(SUPPORTED)}"
        )
    try:
        found = _READERS[media](request, width)
    except DataError as error:
        raise _instance_error(str(error)) from error
    except RequestError as error:
        raise error if error.status != 400 else _instance_error(error.reason) from error
    if found.shape[1] != width:
        raise _instance_error(f"the model takes {width} features, but the body has {found.shape[1]}")
    return found


def _instance_error(reason: str) -> RequestError:
    """A 400 response that begins like the real container's."""
    return RequestError(400, PREFIX + reason.removeprefix(PREFIX))


def _csv(request: Request, width: int) -> Any:  # noqa: ARG001 - all parsers have this signature
    table = np.asarray(decode(request.body, request.content_type))
    given = content_types.parameters(request.content_type).get("label_size", "0")
    if not (given.isascii() and given.isdecimal()):
        raise _instance_error(f"label_size is a number of columns, found {given!r}")
    # Labels are ignored, and may be strings.
    labels = min(int(given[:20]), table.shape[1])
    features = table[:, labels:]
    if features.shape[1] == 0:
        raise _instance_error(f"label_size={given} leaves no features in rows of {table.shape[1]} values")
    try:
        check_numbers(features)
        with np.errstate(over="ignore"):
            return features.astype(np.float64, copy=False).astype(np.float32)
    except ValueError as error:
        row, column = first_text(features) or (0, 0)
        found = str(features[row, column])[:80]
        raise _instance_error(f"row {row + 1}, column {labels + column + 1} is not a number: {found!r}") from error


def _records(request: Request, width: int) -> Any:  # noqa: ARG001 - all parsers have this signature
    found = decode(request.body, request.content_type)
    with np.errstate(over="ignore"):
        return found.astype(np.float32)


def _json(request: Request, width: int) -> Any:
    body = _load_json(content_types.as_text(request.body, request.content_type), "the body")
    instances = body.get("instances") if isinstance(body, dict) else None
    if not isinstance(instances, list):
        raise _instance_error('expected {"instances": [...]}')
    return _matrix(instances, width)


def _jsonlines(request: Request, width: int) -> Any:
    lines = [line for line in content_types.as_text(request.body, request.content_type).split("\n") if line.strip()]
    return _matrix([_load_json(line, f"line {number}") for number, line in enumerate(lines, start=1)], width)


def _load_json(text: str, what: str) -> Any:
    try:
        return load_json(text)
    except ValueError as error:
        raise _instance_error(f"{what} is not valid JSON: {error}") from error


def _matrix(instances: list[Any], width: int) -> Any:
    if not instances:
        raise _instance_error("there are no instances")
    rows = [_instance(instance, number, width) for number, instance in enumerate(instances)]
    for number, (keys, values) in enumerate(rows):
        if keys is None and len(values) != width:
            raise _instance_error(f"the model takes {width} features, but instance {number} has {len(values)}")
    if any(keys is not None for keys, _ in rows):
        return _sparse(rows, width)
    return np.stack([values for _, values in rows])


def _instance(instance: Any, number: int, width: int) -> tuple[Any | None, Any]:
    """The keys (if sparse) and the values of an instance."""
    if not isinstance(instance, dict):
        raise _instance_error(f"instance {number} has none of the forms {SHAPES}")
    features = instance.get("features")
    if features is None and isinstance(instance.get("data"), dict):
        features = instance["data"].get("features")
    if isinstance(features, list):
        return None, _numbers(features, number, "features")
    if not isinstance(features, dict) or not isinstance(features.get("values"), list):
        raise _instance_error(f"instance {number} has none of the forms {SHAPES}")
    values = _numbers(features["values"], number, "values")
    if "keys" not in features:
        return None, values
    keys = features["keys"]
    if not isinstance(keys, list) or not all(type(key) is int for key in keys) or len(keys) != len(values):
        raise _instance_error(f"instance {number}: expected as many integers in 'keys' as there are values")
    if features.get("shape", [width]) != [width]:
        raise _instance_error(
            f"instance {number}: the model takes {width} features, but 'shape' is {features['shape']!r}"
        )
    return keys, values


def _numbers(values: list[Any], number: int, name: str) -> Any:
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        raise _instance_error(f"instance {number}: {name!r} has values that are not numbers")
    try:
        with np.errstate(over="ignore"):
            return np.array(values, np.float64).astype(np.float32)
    except (OverflowError, ValueError) as error:
        raise _instance_error(f"instance {number}: {error}") from error


def _sparse(rows: list[tuple[Any | None, Any]], width: int) -> Any:
    keys_of_rows = []
    for number, (keys, values) in enumerate(rows):
        used = list(range(len(values))) if keys is None else keys
        if any(not 0 <= key < width for key in used):
            raise _instance_error(f"instance {number}: keys must be below {width}, the number of features")
        if len(set(used)) != len(used):
            raise _instance_error(f"instance {number}: a key occurs twice")
        keys_of_rows.append(used)
    sparse = require("scipy.sparse", extra="sklearn")
    indptr = np.cumsum([0, *map(len, keys_of_rows)])
    columns = np.concatenate([np.asarray(keys, np.int64) for keys in keys_of_rows])
    values = np.concatenate([values for _, values in rows])
    return sparse.csr_array((values, columns, indptr), shape=(len(rows), width))


_READERS = {
    content_types.CSV: _csv,
    content_types.JSON: _json,
    content_types.JSONLINES: _jsonlines,
    content_types.RECORDIO_PROTOBUF: _records,
}
