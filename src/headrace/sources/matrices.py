"""A whole source as one matrix and its labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, join
from headrace.errors import NoSuchFeature, UnsupportedData, Where
from headrace.sources.node import Node, stream
from headrace.sources.views import keep_features

__all__ = ["to_csr", "to_numpy"]

LABEL = "label"
VALUES = "values"
STREAMED = 8192
"""Examples in a batch, where batches are read in order."""


def to_numpy(node: Node, feature: str | None, label: str | None) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """All examples of a node as one matrix, and their labels: see :meth:`headrace.Source.to_numpy`."""
    name, labels = _names(node.schema, feature, label)
    _check_fixed(name, node.schema[name])
    batch = _read_all(node, name, labels)
    return np.asarray(batch[name]), None if labels is None else np.asarray(batch[labels])


def to_csr(node: Node, feature: str | None, label: str | None) -> tuple[Any, npt.NDArray[Any] | None]:
    """All examples of a node as one sparse matrix, and their labels: see :meth:`headrace.Source.to_csr`."""
    sparse = _optional.require("scipy.sparse", extra="sklearn")
    name, labels = _names(node.schema, feature, label)
    wanted = node.schema[name]
    if not wanted.sparse:
        _check_fixed(name, wanted)
        if len(wanted.shape) != 1:
            raise UnsupportedData(
                Where(feature=name), expected="a feature of one axis", found=f"one of shape {wanted.shape}"
            )
    batch = _read_all(node, name, labels)
    return sparse.csr_array(batch[name]), None if labels is None else np.asarray(batch[labels])


def _names(schema: Schema, feature: str | None, label: str | None) -> tuple[str, str | None]:
    labels = _label_name(schema, label)
    if labels is not None:
        _check_fixed(labels, schema[labels])
    return _matrix_name(schema, feature), labels


def _matrix_name(schema: Schema, feature: str | None) -> str:
    if feature is not None:
        _ = schema[feature]
        return feature
    if VALUES in schema:
        return VALUES
    arrays = [name for name, found in schema.items() if not found.is_text and not _is_label(name)]
    return _only(arrays, schema, "feature=")


def _label_name(schema: Schema, label: str | None) -> str | None:
    if label is not None:
        _ = schema[label]
        return label
    labels = [name for name in schema if _is_label(name)]
    if not labels:
        return None
    return LABEL if LABEL in labels else _only(labels, schema, "label=")


def _is_label(name: str) -> bool:
    return name == LABEL or name.startswith(LABEL + "_")


def _only(names: list[str], schema: Schema, argument: str) -> str:
    if len(names) == 1:
        return names[0]
    raise NoSuchFeature(
        Where(),
        expected="one feature that might be meant",
        found=f"{names}" if names else f"none among {list(schema)}",
        hint=f"Name it: {argument}...",
    )


def _check_fixed(name: str, feature: Feature) -> None:
    if feature.sparse or not feature.is_fixed:
        raise UnsupportedData(
            Where(feature=name),
            expected="a dense feature of one shape",
            found=repr(feature),
            hint="to_csr() gives a sparse matrix."
            if feature.sparse
            else "Read it in batches: rows of varying length make no matrix.",
        )


def _read_all(node: Node, *names: str | None) -> Batch:
    """The columns of all examples. One call decodes them straight into their places."""
    wanted = [name for name in names if name is not None]
    narrow = keep_features(node, wanted)
    batches = stream(narrow, STREAMED)
    if batches is None:
        return narrow.batch(np.arange(len(narrow)))
    parts = list(batches)
    if not parts:
        return {name: np.zeros((0, *(n or 0 for n in node.schema[name].shape))) for name in wanted}
    return {name: join([part[name] for part in parts]) for name in wanted}
