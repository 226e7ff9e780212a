"""A whole source as one matrix and its labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch
from headrace.errors import NoSuchFeature, UnsupportedData, Where
from headrace.sources.base import BaseSource
from headrace.sources.stacking import join

__all__ = ["Wholes"]

LABEL = "label"
VALUES = "values"
STREAMED = 8192


class Wholes(BaseSource):
    """What loads everything at once."""

    def to_numpy(
        self, feature: str | None = None, *, label: str | None = None
    ) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """All examples as one matrix, and their labels.

        Args:
            feature: What the matrix is made of; by default ``values``, or the one feature that is an array of numbers and no
                label.
            label: What the labels are; by default ``label``, or the one feature whose name begins with ``label_``.

        Returns:
            ``ndarray (n, *shape)`` and ``ndarray (n, *shape of a label)``; ``None`` for labels where there are none.

        Raises:
            NoSuchFeature: There is no such feature, or several that might be meant.
            UnsupportedData: The feature is sparse (see :meth:`to_csr`), or its lengths vary.
        """
        name, labels = self._names(feature, label)
        _check_fixed(name, self.schema[name])
        batch = _everything(self, name, labels)
        return np.asarray(batch[name]), None if labels is None else np.asarray(batch[labels])

    def to_csr(self, feature: str | None = None, *, label: str | None = None) -> tuple[Any, npt.NDArray[Any] | None]:
        """All examples as one sparse matrix, and their labels.

        Args:
            feature: As for :meth:`to_numpy`. A dense one becomes sparse.
            label: As for :meth:`to_numpy`.

        Returns:
            ``scipy.sparse.csr_array (n, width)``, and labels as :meth:`to_numpy` gives them.

        Raises:
            NoSuchFeature: There is no such feature, or several that might be meant.
            UnsupportedData: The feature has no one axis, or its length varies.
            MissingExtra: SciPy is not installed.
        """
        sparse = _optional.require("scipy.sparse", extra="sklearn")
        name, labels = self._names(feature, label)
        wanted = self.schema[name]
        if not wanted.sparse:
            _check_fixed(name, wanted)
            if len(wanted.shape) != 1:
                raise UnsupportedData(
                    Where(feature=name), expected="a feature of one axis", found=f"one of shape {wanted.shape}"
                )
        batch = _everything(self, name, labels)
        return sparse.csr_array(batch[name]), None if labels is None else np.asarray(batch[labels])

    def _names(self, feature: str | None, label: str | None) -> tuple[str, str | None]:
        labels = _label_name(self.schema, label)
        if labels is not None:
            _check_fixed(labels, self.schema[labels])
        return _matrix_name(self.schema, feature), labels


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


def _everything(source: Any, *names: str | None) -> Batch:
    """The columns of all examples. One call decodes them straight into their places."""
    narrow = source.select(*(name for name in names if name is not None))
    batches: Iterable[Batch] | None = narrow.stream(STREAMED) if hasattr(narrow, "stream") else None
    if batches is None:
        return narrow.batch(np.arange(len(narrow)))  # type: ignore[no-any-return]
    parts = list(batches)
    if not parts:
        return {name: np.zeros((0, *(n or 0 for n in source.schema[name].shape))) for name in names if name is not None}
    return {name: join([part[name] for part in parts]) for name in names if name is not None}
