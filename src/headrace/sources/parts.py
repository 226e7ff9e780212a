"""Several sources as one: what their features are together, and batches with examples of several of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import SchemaMismatch, Where
from headrace.sources.base import BaseSource
from headrace.sources.stacking import join, reordered

__all__ = ["features_of_all", "gathered", "refuse_other_features"]


def refuse_other_features(parents: Sequence[BaseSource]) -> None:
    """Refuse sources that cannot stand one behind the other.

    Raises:
        SchemaMismatch: One has other features than the first.
    """
    first = list(parents[0].schema)
    for parent in parents[1:]:
        if list(parent.schema) != first:
            raise SchemaMismatch(Where(), expected=f"the features {first}", found=str(list(parent.schema)))


def features_of_all(parents: Sequence[BaseSource]) -> Schema:
    """The schema of sources side by side.

    Raises:
        SchemaMismatch: Lengths differ, or a name is there twice.
    """
    features: dict[str, Feature] = {}
    for parent in parents:
        if len(parent) != len(parents[0]):
            raise SchemaMismatch(Where(), expected=f"{len(parents[0])} examples", found=f"{len(parent)}")
        for name in parent.schema:
            if name in features:
                raise SchemaMismatch(
                    Where(feature=name),
                    expected="every feature name once",
                    found="it twice",
                    hint="rename() one of them.",
                )
            features[name] = parent.schema[name]
    return Schema(features)


def gathered(parents: Sequence[BaseSource], ends: Indices, indices: Indices) -> Batch:
    """A batch from sources that stand one behind the other.

    Args:
        parents: The sources.
        ends: ``int64``: how many examples there are up to the end of each.
        indices: Of the examples, counted over all sources.
    """
    part = np.searchsorted(ends, indices, side="right")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    used = np.unique(part) if len(indices) else np.zeros(1, np.int64)
    if len(used) == 1:
        return parents[int(used[0])]._batch(indices - starts[used[0]])
    batches = [parents[int(k)]._batch(indices[part == k] - starts[k]) for k in used]
    order = np.argsort(np.concatenate([np.flatnonzero(part == k) for k in used]))
    return {name: reordered(join([batch[name] for batch in batches]), order) for name in batches[0]}
