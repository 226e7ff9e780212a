"""The steps of episodes, end to end, as examples by index."""

from __future__ import annotations

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.random_keys import RandomKeys
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices, join, take_rows
from headrace.datasets.columns import Steps
from headrace.errors import NoSuchFeature, SchemaMismatch, UnsupportedData, Where
from headrace.io.system import cached_property
from headrace.sources.node import Node, encoded_node, narrow, read_blocks
from headrace.sources.operations.expand import read_keyed

__all__ = ["StepsNode", "find_steps"]

BLOCK = 64
"""Episodes read at a time, where steps are counted."""
SINGLE = "value"
"""The name of steps that are no dicts."""


class StepsNode:
    """Every step of every episode as an example. Steps are counted once, when the length or a step is first asked for.

    Args:
        parent: The episodes.
        feature: The feature that holds their steps.
        episode, step: Names of two features that are added: the index of the episode, and that of the step in it, ``int64 ()``.
        names: Only these features.

    Raises:
        NoSuchFeature: There is no such feature, or no feature of steps.
        UnsupportedData: The feature holds no steps.
        SchemaMismatch: A step has a feature of a name that is added.
    """

    def __init__(
        self, parent: Node, feature: str, episode: str, step: str, names: tuple[str, ...] | None = None
    ) -> None:
        if parent.schema[feature].dtype != "examples":
            raise UnsupportedData(
                Where(feature=feature), expected="a feature that holds examples", found=repr(parent.schema[feature])
            )
        self.parent: Node = narrow(parent, (feature,))
        self.feature: str = feature
        self.episode: str = episode
        self.step: str = step
        self.names = names

    @cached_property
    def _firsts(self) -> Indices:
        """``int64 (n + 1,)``: the number of the first step of each episode."""
        counts = [0]
        for _, _, batch in read_blocks(self.parent, BLOCK):
            counts.extend(map(len, batch[self.feature]))
        return np.cumsum(counts, dtype=np.int64)

    @cached_property
    def _inner(self) -> Schema:
        """The features of steps: those of the first episode, which has the same as all others."""
        if not len(self.parent):
            return Schema({})
        steps: Steps = self.parent.batch(np.zeros(1, np.int64))[self.feature][0]
        found = Schema({name or SINGLE: feature for name, feature in steps.schema.items()})
        for name in (self.episode, self.step):
            if name in found:
                hint = "Choose other names: steps(episode='episode_index', step='step_index')."
                raise SchemaMismatch(Where(feature=name), expected="a name that no step has", found="it", hint=hint)
        return found

    @cached_property
    def schema(self) -> Schema:
        """The features of a step, its episode, and its place there."""
        found = Schema({**self._inner, self.episode: Feature("int64"), self.step: Feature("int64")})
        return found if self.names is None else found.select([name for name in found if name in self.names])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def batch(self, indices: Indices, /) -> Batch:
        return self.batch_with_keys(indices, None)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        if not len(indices) and len(self.parent):
            return self._read(np.zeros(1, np.int64), indices, indices, keys)
        episodes = np.searchsorted(self._firsts, indices, side="right") - 1
        wanted, which = np.unique(episodes, return_inverse=True)
        return self._read(wanted, which.reshape(-1), indices - self._firsts[episodes], keys)

    def _read(self, wanted: Indices, which: Indices, places: Indices, keys: RandomKeys | None) -> Batch:
        """Steps at these places of episodes: ``wanted[which]``."""
        found = read_keyed(self.parent, wanted, keys)[self.feature]
        first = found[0].schema if len(found) else ()
        kept = [name for name in first if (name or SINGLE) in self.schema]
        parts = [self._steps_of(steps, kept).batch(places[which == at]) for at, steps in enumerate(found)]
        order = (
            np.argsort(np.concatenate([np.flatnonzero(which == at) for at in range(len(parts))])) if parts else which
        )
        batch = {name or SINGLE: take_rows(join([part[name] for part in parts]), order) for name in kept}
        own = {self.episode: wanted[which], self.step: places}
        return {name: own[name] if name in own else batch[name] for name in self.schema}

    def _steps_of(self, steps: Steps, names: list[str]) -> Steps:
        return steps.select(names) if self.names is not None and names else steps

    def where(self, index: int, /) -> Where:
        return self.parent.where(int(np.searchsorted(self._firsts, index, side="right")) - 1).at(feature=self.feature)

    def is_counted(self) -> bool:
        return "_firsts" in self.__dict__

    def runs(self) -> Indices:
        """The first step of each episode, and the number of all steps."""
        return self._firsts

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def narrow(self, names: tuple[str, ...], /) -> Node:
        kept = StepsNode(self.parent, self.feature, self.episode, self.step, names)
        if "_firsts" in self.__dict__:
            kept.__dict__["_firsts"] = self._firsts
        return kept

    def encoded(self) -> Node:
        return StepsNode(encoded_node(self.parent), self.feature, self.episode, self.step, self.names)


def find_steps(schema: Schema) -> str:
    """The feature that holds steps: ``steps``, else the only one.

    Raises:
        NoSuchFeature: There is none, or there are several.
    """
    found = [name for name, feature in schema.items() if feature.dtype == "examples"]
    if "steps" in found:
        return "steps"
    if len(found) != 1:
        hint = "Name it: steps(feature)." if found else ""
        raise NoSuchFeature(
            Where(), expected="one feature that holds examples", found=f"{found or list(schema)}", hint=hint
        )
    return found[0]
