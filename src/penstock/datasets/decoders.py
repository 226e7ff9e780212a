"""What to do with stored values instead of decoding them as their feature says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.datasets.features.base import (
    BYTES,
    DatasetFeature,
    DtypeLike,
    LeafFeature,
    Stored,
    as_cells,
    declared_dtype,
)
from penstock.datasets.features.mapping import FeaturesDict
from penstock.datasets.features.sequence import Sequence
from penstock.errors import NoSuchFeature, Where

__all__ = ["Decoder", "PartialDecoding", "SkipDecoding", "replaced", "wanted_keys"]

Spec = bool | Mapping[str, Any] | Collection[str]


@dataclass(frozen=True, slots=True)
class SkipDecoding:
    """Give the value as it is stored: the bytes of an image file instead of pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Decode by a function of your own.

    Args:
        function: From the stored value (the bytes of an image file, ...) and the feature to an array or ``bytes``. A function
            at the top of a module, where the source is to be pickled.
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


class _Replaced(LeafFeature):
    """A feature with another way to decode it."""

    def __init__(self, feature: LeafFeature, decoder: SkipDecoding | Decoder) -> None:
        self.feature = feature
        self.decoder = decoder
        self.optional = feature.optional
        self._stored = feature.stored
        stored = self._stored.get("/value", next(iter(self._stored.values())))
        self._value_dtype = declared_dtype(decoder.dtype) if isinstance(decoder, Decoder) else stored.dtype
        super().__init__(
            shape=decoder.shape if isinstance(decoder, Decoder) else stored.shape,
            dtype=self._value_dtype,
            description=feature.description,
            value_range=feature.value_range,
        )
        self._by_function = isinstance(decoder, Decoder)

    @property
    def schema_options(self) -> dict[str, Any]:
        return {} if self._by_function else self.feature.schema_options

    @property
    def stored(self) -> dict[str, Stored]:
        return self._stored

    @property
    def varies(self) -> bool:
        return None in self.shape if self._by_function else False

    def decode(self, parts: list[Any]) -> Any:
        values = parts[-1]
        if isinstance(self.decoder, SkipDecoding):
            return values
        found = [self.decoder.function(value, self.feature) for value in values]
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

    def encode_example(self, value: Any) -> Any:
        return self.feature.encode_example(value)

    def content(self) -> tuple[str, dict[str, Any]]:
        return self.feature.content()


def replaced(key: str, feature: LeafFeature, decoders: Mapping[str, Any]) -> LeafFeature:
    """The feature, or what a decoder for its key makes of it.

    Raises:
        TypeError: The decoder is none.
    """
    decoder = decoders.get(key)
    if decoder is None:
        return feature
    if not isinstance(decoder, (SkipDecoding, Decoder)):
        raise TypeError(f"a decoder is SkipDecoding() or Decoder(...), got {decoder!r} for {key!r}")
    return _Replaced(feature, decoder)


def flat_decoders(decoders: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dicts of decoders by the keys of the features."""
    out: dict[str, Any] = {}
    for name, decoder in decoders.items():
        key = f"{prefix}/{name}" if prefix else name
        out.update(flat_decoders(decoder, key) if isinstance(decoder, Mapping) else {key: decoder})
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
