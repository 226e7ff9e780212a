"""Named features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from headrace.datasets.features.base import DatasetFeature, DtypeLike, LeafFeature, Level
from headrace.datasets.features.tensor import Scalar
from headrace.errors import NoSuchFeature, SchemaMismatch, Where, did_you_mean

__all__ = ["FeatureLike", "FeaturesDict", "as_feature"]

FeatureLike = DatasetFeature | Mapping[str, Any] | DtypeLike
"""A feature; a dict of such (a :class:`FeaturesDict`); a dtype (a :class:`Scalar`)."""


def as_feature(feature: FeatureLike) -> DatasetFeature:
    """Convert a feature, dict or dtype to a feature."""
    if isinstance(feature, DatasetFeature):
        return feature
    return FeaturesDict(feature) if isinstance(feature, Mapping) else Scalar(feature)


class FeaturesDict(DatasetFeature, Mapping[str, DatasetFeature]):
    """Features by name, possibly nested.

    Args:
        features: Name to feature, to a dict of features, or to a dtype. A name may contain ``/``.
        description, value_range: Text.

    Raises:
        ValueError: Two features would be stored under one name (``{"a/b": ..., "a": {"b": ...}}``).

    >>> features = FeaturesDict({"id": "int64", "box": {"corner": Tensor(shape=(2,), dtype="float32")}})
    >>> features["box"]["corner"].shape, features["box/corner"].shape
    ((2,), (2,))
    """

    class_name = "features_dict.FeaturesDict"

    def __init__(self, features: Mapping[str, FeatureLike], *, description: str = "", value_range: str = "") -> None:
        super().__init__(description=description, value_range=value_range)
        self._features = {str(name): as_feature(feature) for name, feature in features.items()}
        seen: set[str] = set()
        for key, _, _ in self.leaves("", ()):
            if key in seen:
                raise ValueError(f"two features would be stored as {key!r}")
            seen.add(key)

    def __getitem__(self, name: str) -> DatasetFeature:
        """Get a feature by name or by path: ``features["objects/bbox"]``.

        Raises:
            NoSuchFeature: There is no such feature.
        """
        if name in self._features:
            return self._features[name]
        for first, feature in self._features.items():
            if name.startswith(first + "/") and hasattr(feature, "__getitem__"):
                with suppress(
                    NoSuchFeature, TypeError
                ):  # a name may contain "/", and another name may have the same prefix
                    return feature[name[len(first) + 1 :]]  # type: ignore[no-any-return]
        hint = did_you_mean(name, self._features)
        raise NoSuchFeature(
            Where(), expected=f"one of the features {list(self._features)}", found=repr(name), hint=hint
        )

    def __contains__(self, name: object) -> bool:
        return name in self._features

    def __iter__(self) -> Iterator[str]:
        return iter(self._features)

    def __len__(self) -> int:
        return len(self._features)

    __eq__ = DatasetFeature.__eq__
    __hash__ = DatasetFeature.__hash__

    @property
    def shape(self) -> dict[str, Any]:
        return {name: feature.shape for name, feature in self.items()}

    @property
    def dtype(self) -> dict[str, Any]:
        return {name: feature.dtype for name, feature in self.items()}

    def leaves(self, key: str, levels: tuple[Level, ...]) -> Iterator[tuple[str, LeafFeature, tuple[Level, ...]]]:
        for name, feature in self._features.items():
            yield from feature.leaves(f"{key}/{name}" if key else name, levels)

    def encode_example(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping) or value.keys() != self._features.keys():
            found = str(list(value)) if isinstance(value, Mapping) else type(value).__name__
            raise SchemaMismatch(Where(), expected=f"a dict of {list(self._features)}", found=found)
        out = {}
        for name, feature in self._features.items():
            try:
                out[name] = feature.encode_example(value[name])
            except SchemaMismatch as error:
                inner = error.where.feature
                path = name if inner is None else f"{name}/{inner}"
                raise error.relocated(Where(feature=path)) from error.__cause__
        return out

    def content(self) -> tuple[str, dict[str, Any]]:
        return "featuresDict", {"features": {name: feature.to_json() for name, feature in self.items()}}

    def label_files(self, key: str) -> Iterator[tuple[str, Any]]:
        for name, feature in self._features.items():
            plain = name.replace("/", ".")
            yield from feature.label_files(f"{key}-{plain}" if key else plain)

    def _identity(self) -> str:
        return super()._identity() + "".join(feature._identity() for feature in self._features.values())

    def __repr__(self) -> str:
        inner = ", ".join(f"{name!r}: {feature!r}" for name, feature in self.items())
        return f"{type(self).__name__}({{{inner}}})"
