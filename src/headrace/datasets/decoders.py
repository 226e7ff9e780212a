"""What to do with stored values instead of decoding them as their feature says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.datasets.columns import stored_key
from headrace.datasets.features.base import BYTES, DatasetFeature, DtypeLike, LeafFeature, Stored, as_cells
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Dataset, Sequence
from headrace.datasets.features.tensor import Tensor
from headrace.errors import NoSuchFeature, Where

__all__ = ["Decoder", "PartialDecoding", "SkipDecoding", "decoders_by_key", "features_to_read", "wanted_keys"]

Spec = bool | Mapping[str, Any] | Collection[str]


@dataclass(frozen=True, slots=True)
class SkipDecoding:
    """Give the value as it is stored: the bytes of an image file instead of pixels.

    For one feature, for all features inside a group or a dataset, or for all of them. A tensor that is stored as its shape and
    its memory (more than one axis varies) becomes two features, ``NAME/shape`` and ``NAME/value``.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Decode by a function of your own.

    Args:
        function: From the stored value (the bytes of an image file, ...) and the feature to an array or ``bytes``. A tensor
            of which more than one axis varies is stored as a dict of ``shape`` and ``value``. A function at the top of a
            module, where the source is to be pickled.
        dtype: Of what it gives; ``"bytes"`` for bytes.
        shape: Of what it gives, ``None`` where it varies.
    """

    function: Callable[[Any, DatasetFeature], Any]
    dtype: DtypeLike
    shape: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class PartialDecoding:
    """Decode only some features.

    Args:
        features: Their names: a list or set, or a dict of name to ``True``, ``False`` or the same for the features inside.
        decoders: For these, as in ``data_source``.
    """

    features: Spec
    decoders: Mapping[str, Any] = field(default_factory=dict)


class _Instead(LeafFeature):
    """What is read instead of a feature. It is stored as the feature is."""

    def __init__(self, feature: LeafFeature, shape: tuple[int | None, ...], dtype: DtypeLike) -> None:
        super().__init__(shape=shape, dtype=dtype, description=feature.description, value_range=feature.value_range)
        self.feature = feature
        self.optional = feature.optional

    def encode_example(self, value: Any) -> Any:
        return self.feature.encode_example(value)

    def content(self) -> tuple[str, dict[str, Any]]:
        return self.feature.content()


class _Skipped(_Instead):
    """One stored value of a feature, as it is."""

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
    """A feature that a function of the user decodes."""

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
        """What the function gets of each example: the stored value, a dict of them where there are several."""
        if _is_stored_as_it_is(self.feature):
            decoded: Iterable[Any] = self.feature.decode(parts)
            return decoded
        names = [suffix.removeprefix("/") for suffix in self.feature.stored]
        if len(names) == 1:
            stored: Iterable[Any] = parts[0]
            return stored
        return (dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True))


def features_to_read(key: str, feature: LeafFeature, decoder: SkipDecoding | Decoder | None) -> dict[str, LeafFeature]:
    """What is read instead of a feature, by key: a feature that is stored under several keys is skipped as several."""
    if isinstance(decoder, Decoder):
        return {key: _ByFunction(feature, decoder)}
    if decoder is None or _is_stored_as_it_is(feature):
        return {key: feature}
    return {stored_key(key, suffix): _Skipped(feature, stored) for suffix, stored in feature.stored.items()}


def _is_stored_as_it_is(feature: LeafFeature) -> bool:
    """Whether an Example holds the numbers or texts themselves; only their shape is added when they are read."""
    return isinstance(feature, Tensor) and type(feature).decode is Tensor.decode and feature.encoding == "none"


def decoders_by_key(features: DatasetFeature, decoders: Any) -> dict[str, SkipDecoding | Decoder]:
    """The decoder of each feature that has one, by key.

    Args:
        features: Of the dataset.
        decoders: One for all features; or a dict by name or path, of decoders for a feature or for all features inside it,
            or of such dicts.

    Raises:
        NoSuchFeature: A decoder is for no feature.
        TypeError: A decoder is none, or a :class:`Decoder` is for several features.
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
    """Keys of the features with values of their own, those inside datasets too."""
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
    """Nested dicts of decoders by path."""
    if not isinstance(decoders, Mapping):
        return {prefix: decoders}
    out: dict[str, Any] = {}
    for name, decoder in decoders.items():
        out.update(_flatten(decoder, f"{prefix}/{name}" if prefix else str(name)))
    return out


def wanted_keys(features: DatasetFeature, spec: Spec, prefix: str = "") -> Iterator[str]:
    """The keys, or beginnings of keys, of the features that a partial decoding asks for.

    Raises:
        NoSuchFeature: It asks for one that is not there.
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
        yield from wanted_keys(inner[name], wanted, f"{prefix}/{name}" if prefix else name)
