"""Decoders: alternatives to the default decoding of features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.datasets.columns import stored_key
from headrace.datasets.features.base import BYTES, DatasetFeature, DtypeLike, LeafFeature, Stored, as_cells
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Dataset, SelectedSteps, Sequence
from headrace.datasets.features.tensor import Tensor
from headrace.errors import NoSuchFeature, Where

__all__ = [
    "Decoder",
    "PartialDecoding",
    "SkipDecoding",
    "decoders_by_key",
    "features_to_read",
    "select_features",
]

Spec = bool | Mapping[str, Any] | Collection[str]


@dataclass(frozen=True, slots=True)
class SkipDecoding:
    """Return the stored value, such as the bytes of an image file instead of pixels.

    Applies to one feature, to all features inside a group or dataset, or to all features. A tensor with more than one varying
    axis is stored as shape and memory, and becomes two features, ``NAME/shape`` and ``NAME/value``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Decode by your function.

    Args:
        function: Converts the stored value (the bytes of an image file, ...) and the feature to an array or ``bytes``. A
            tensor with more than one varying axis is stored as a dict of ``shape`` and ``value``. To pickle the source, use a
            function at the top level of a module.
        dtype: Dtype of the result; ``"bytes"`` for bytes.
        shape: Shape of the result, ``None`` for varying axes.
    """

    function: Callable[[Any, DatasetFeature], Any]
    dtype: DtypeLike
    shape: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class PartialDecoding:
    """Decode only some features.

    Args:
        features: A list or set of names, or a dict of name to ``True``, ``False`` or the same for the features inside.
        decoders: Decoders of these features, as in ``data_source``.
    """

    features: Spec
    decoders: Mapping[str, Any] = field(default_factory=dict)


class _Instead(LeafFeature):
    """Replaces a feature when reading. It is stored in the same way."""

    def __init__(self, feature: LeafFeature, shape: tuple[int | None, ...], dtype: DtypeLike) -> None:
        super().__init__(shape=shape, dtype=dtype, description=feature.description, value_range=feature.value_range)
        self.feature = feature
        self.optional = feature.optional

    def encode_example(self, value: Any) -> Any:
        return self.feature.encode_example(value)

    def content(self) -> tuple[str, dict[str, Any]]:
        return self.feature.content()


class _Skipped(_Instead):
    """A stored value of a feature, not decoded."""

    def __init__(self, feature: LeafFeature, stored: Stored) -> None:
        super().__init__(feature, stored.shape, stored.dtype)
        self._stored = stored

    @property
    def schema_options(self) -> dict[str, Any]:
        return self.feature.schema_options

    @property
    def stored(self) -> dict[str, Stored]:
        return {"": self._stored}

    @property
    def varies(self) -> bool:
        return False

    def decode(self, parts: list[Any]) -> Any:
        return parts[0]


class _ByFunction(_Instead):
    """A feature that a user's function decodes."""

    def __init__(self, feature: LeafFeature, decoder: Decoder) -> None:
        super().__init__(feature, decoder.shape, decoder.dtype)
        self.decoder = decoder

    @property
    def stored(self) -> dict[str, Stored]:
        return self.feature.stored

    @property
    def varies(self) -> bool:
        return None in self.shape

    def decode(self, parts: list[Any]) -> Any:
        found = [self.decoder.function(value, self.feature) for value in self._given(parts)]
        if self.value_dtype == BYTES:
            return as_cells(found)
        arrays = [np.asarray(value, self.value_dtype) for value in found]
        for record, array in enumerate(arrays):
            if array.ndim != len(self.shape) or any(
                a not in (None, b) for a, b in zip(self.shape, array.shape, strict=True)
            ):
                raise self.misfit(
                    f"shape {array.shape} from the decoder", record=record, expected=f"shape {self.shape}"
                )
        if not arrays:
            return np.zeros((0, *(n or 0 for n in self.shape)), self.value_dtype)
        return np.stack(arrays) if all(array.shape == arrays[0].shape for array in arrays) else arrays

    def _given(self, parts: list[Any]) -> Iterable[Any]:
        """The argument of the function for each example: the stored value, or a dict of several."""
        if _is_stored_as_it_is(self.feature):
            decoded: Iterable[Any] = self.feature.decode(parts)
            return decoded
        names = [suffix.removeprefix("/") for suffix in self.feature.stored]
        if len(names) == 1:
            stored: Iterable[Any] = parts[0]
            return stored
        return (dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True))


def features_to_read(key: str, feature: LeafFeature, decoder: SkipDecoding | Decoder | None) -> dict[str, LeafFeature]:
    """The features to read in place of a feature, by key: several if it is skipped and stored under several keys."""
    if isinstance(decoder, Decoder):
        return {key: _ByFunction(feature, decoder)}
    if decoder is None or _is_stored_as_it_is(feature):
        return {key: feature}
    return {stored_key(key, suffix): _Skipped(feature, stored) for suffix, stored in feature.stored.items()}


def _is_stored_as_it_is(feature: LeafFeature) -> bool:
    """Whether an Example holds the values themselves, and reading adds only their shape."""
    return isinstance(feature, Tensor) and type(feature).decode is Tensor.decode and feature.encoding == "none"


def decoders_by_key(features: DatasetFeature, decoders: Any) -> dict[str, SkipDecoding | Decoder]:
    """Map the keys of features to their decoders.

    Args:
        features: The features of the dataset.
        decoders: One for all features; or a dict by name or path of decoders, each for a feature or for all features
            inside it, or of such dicts.

    Raises:
        NoSuchFeature: A decoder matches no feature.
        TypeError: A value is not a decoder, or a :class:`Decoder` matches several features.
    """
    leaves = _leaf_keys(features, "")
    one: dict[str, SkipDecoding | Decoder] = {}
    many: dict[str, SkipDecoding | Decoder] = {}
    for path, decoder in _flatten(decoders).items():
        if not isinstance(decoder, (SkipDecoding, Decoder)):
            raise TypeError(f"a decoder is SkipDecoding() or Decoder(...), got {decoder!r} for {_describe_path(path)}")
        if path in leaves:
            one[path] = decoder
            continue
        inside = leaves if path == "" else _leaf_keys(_find_feature(features, path, leaves), path)
        if isinstance(decoder, Decoder):
            raise TypeError(
                f"a Decoder is for one feature, and {_describe_path(path)} holds {inside}: give each its own"
            )
        many.update(dict.fromkeys(inside, decoder))
    return {**many, **one}


def _describe_path(path: str) -> str:
    return repr(path) if path else "the dataset"


def _leaf_keys(features: DatasetFeature, key: str) -> list[str]:
    """Keys of the features that hold values, including those inside datasets."""
    if isinstance(features, Dataset):
        return [path for path, _, _ in features.inner_leaves(key)]
    leaves: list[tuple[str, DatasetFeature, Any]] = list(features.leaves(key, ()))
    return [
        path
        for leaf, feature, _ in leaves
        for path in (_leaf_keys(feature, leaf) if isinstance(feature, Dataset) else [leaf])
    ]


def _find_feature(features: DatasetFeature, path: str, leaves: list[str]) -> DatasetFeature:
    inner = features
    while isinstance(inner, Sequence):
        inner = inner.feature
    try:
        return inner[path]  # type: ignore[index, no-any-return]
    except (NoSuchFeature, TypeError) as error:
        raise NoSuchFeature(Where(), expected=f"one of the features {leaves}", found=repr(path)) from error


def _flatten(decoders: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten nested dicts of decoders to paths."""
    if not isinstance(decoders, Mapping):
        return {prefix: decoders}
    out: dict[str, Any] = {}
    for name, decoder in decoders.items():
        out.update(_flatten(decoder, f"{prefix}/{name}" if prefix else str(name)))
    return out


def select_features(
    features: DatasetFeature, partial: PartialDecoding
) -> tuple[DatasetFeature, list[str], dict[str, SkipDecoding | Decoder]]:
    """The features that a partial decoding selects: features in which steps have no others, the keys to read, and their decoders.

    Raises:
        NoSuchFeature: It selects an unknown feature, or none.
    """
    wanted = list(_wanted_keys(features, partial.features))

    def is_wanted(key: str) -> bool:
        return any(key == want or key.startswith(want + "/") or not want for want in wanted)

    keys: list[str] = []
    steps: dict[str, SelectedSteps] = {}
    for key, feature, _ in features.leaves("", ()):
        known = _leaf_keys(feature, key) if isinstance(feature, Dataset) else [key]
        found = list(filter(is_wanted, known))
        if found:
            keys.append(key)
        if found and isinstance(feature, Dataset) and len(found) < len(known):
            steps[key] = SelectedSteps(feature, found)
    if not keys:
        raise NoSuchFeature(Where(), expected="at least one feature to decode", found=repr(partial.features))
    decoders = decoders_by_key(features, partial.decoders)
    selected = _replace_leaves(features, "", steps)
    left = _leaf_keys(selected, "")
    return selected, keys, {key: decoder for key, decoder in decoders.items() if key in left}


def _replace_leaves(features: DatasetFeature, key: str, others: Mapping[str, DatasetFeature]) -> DatasetFeature:
    """The features with others in place of those under some keys."""
    if key in others:
        return others[key]
    if not others or not isinstance(features, FeaturesDict):
        return features
    return FeaturesDict(
        {name: _replace_leaves(inner, f"{key}/{name}" if key else name, others) for name, inner in features.items()}
    )


def _wanted_keys(features: DatasetFeature, spec: Spec, prefix: str = "") -> Iterator[str]:
    """The keys, or prefixes of keys, that a partial decoding selects.

    Raises:
        NoSuchFeature: It selects an unknown feature.
    """
    if isinstance(spec, bool):
        if spec:
            yield prefix
        return
    inner = features.feature if isinstance(features, Sequence) else features
    items = spec.items() if isinstance(spec, Mapping) else ((name, True) for name in spec)
    for name, wanted in items:
        if not isinstance(inner, FeaturesDict):
            raise NoSuchFeature(Where(feature=prefix), expected=f"no names inside {inner!r}", found=repr(name))
        yield from _wanted_keys(inner[name], wanted, f"{prefix}/{name}" if prefix else name)
