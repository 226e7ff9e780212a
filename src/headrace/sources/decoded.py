"""Images as pixels, decoded when they are read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from headrace.codecs.images.decode import ImageDecoder, feature_of_images
from headrace.contracts.feature import IMAGE_AXES, Feature
from headrace.contracts.images import ImageOptions, encoding_of_all
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices, Ragged
from headrace.errors import DataError, MissingExtra, Where
from headrace.sources.stacking import row, stack
from headrace.sources.table_source import TableSource
from headrace.sources.views import Derived, Source

__all__ = ["DecodedSource", "decoded", "images_in", "stored_schema"]

SAMPLE = 64
"""How many examples are looked at for the size, channels and depth of images."""
RECOGNISED_BY = 16
"""How many rows of a table are looked at for whether bytes are images."""


def stored_schema(schema: Schema) -> Schema:
    """The schema of what lies in the files, where that of decoded examples is given."""
    return Schema({name: feature.stored for name, feature in schema.items()})


def decoded(source: Source, *, decode: bool | ImageOptions, given: Schema | None) -> Source:
    """The source with its images decoded.

    Args:
        source: Encoded images as ``bytes`` features with an ``encoding``.
        decode: What :func:`headrace.open` was told.
        given: The schema that it was given.
    """
    if decode is False:
        return source
    stored = {name: feature for name, feature in source.schema.items() if feature.encoding is not None}
    if given is None and isinstance(source, TableSource):
        stored |= _recognised(source)
    if not stored:
        return source
    wanted = {name: feature for name, feature in (given or {}).items() if feature.is_image}
    return DecodedSource(source, decode if isinstance(decode, ImageOptions) else ImageOptions(), wanted, stored)


def _recognised(source: Source) -> dict[str, Feature]:
    """The columns of bytes of a table whose first values are all images: a table says that they are bytes, and no more."""
    names = [name for name, feature in source.schema.items() if feature.dtype == "bytes" and feature.encoding is None]
    if not names:
        return {}
    sample = _first(source, names, RECOGNISED_BY)
    found = {}
    for name in names:
        encoding = encoding_of_all(image for example in sample for image in images_in(example[name]))
        if encoding is not None:
            found[name] = replace(source.schema[name], encoding=encoding)
    return found


def _first(source: Source, names: list[str], count: int) -> list[Example]:
    """The first examples, up to one that cannot be read: reading will report that, at its place."""
    found: list[Example] = []
    with contextlib.suppress(DataError):
        found.extend(islice(source.select(*names), count))  # what came before an error stays
    return found


class DecodedSource(Derived):
    """A source whose encoded images come as ``uint8`` (or ``uint16``) arrays ``(height, width, channels)``.

    Args:
        parent: The source of encoded images.
        options: How they are decoded.
        given: What some features become, where the caller said so; the others are found by looking at the first images.
        stored: The features to decode, as they are stored.
    """

    def __init__(
        self,
        parent: Source,
        options: ImageOptions,
        given: Mapping[str, Feature],
        stored: Mapping[str, Feature],
    ) -> None:
        super().__init__(parent)
        self.options = options
        self.given = dict(given)
        self.stored = dict(stored)

    @cached_property
    def schema(self) -> Schema:  # found when it is asked for, so that opening reads no image
        return Schema({name: self._decoded.get(name, feature) for name, feature in self.parent.schema.items()})

    @cached_property
    def _decoded(self) -> dict[str, Feature]:
        """The decoded features."""
        unknown = [name for name in self.stored if name not in self.given]
        sample = _first(self.parent, unknown, SAMPLE) if unknown else []
        found = {}
        for name, stored in self.stored.items():
            images = [image for example in sample for image in images_in(example[name])] if name in unknown else []
            found[name] = self.given.get(name) or self._found(stored, images)
        return found

    def _found(self, stored: Feature, images: list[bytes]) -> Feature:
        try:
            return feature_of_images(stored, images, self.options)
        except MissingExtra:  # Only who asks for pixels needs it.
            return feature_of_images(stored, [], self.options)

    @cached_property
    def _decoders(self) -> dict[str, ImageDecoder]:
        exact = self.options.channels is not None
        return {
            name: ImageDecoder(feature, self.options, exact=exact or name in self.given)
            for name, feature in self._decoded.items()
        }

    @property
    def cuts_cleanly(self) -> bool:
        return self.parent.cuts_cleanly and all(
            None not in feature.shape[-IMAGE_AXES:] for feature in self._decoded.values()
        )

    @property
    def fingerprint(self) -> str:  # whether images are decoded does not make it other data
        return self.parent.fingerprint

    def __getattr__(self, name: str) -> Any:
        """What the source of encoded images has besides (``records``, ``format``, ``codec``)."""
        if name.startswith("_") or name == "parent":
            raise AttributeError(name)
        return getattr(self.parent, name)

    def encoded(self) -> Source:
        return self.parent

    def _narrowed(self, names: tuple[str, ...]) -> Source:
        stored = {name: feature for name, feature in self.stored.items() if name in names}
        narrow = DecodedSource(self.parent._narrowed(names), self.options, self.given, stored)
        if "_decoded" in self.__dict__:  # found already: do not look again
            narrow.__dict__["_decoded"] = {name: self._decoded[name] for name in stored}
        return narrow

    def _batch(self, indices: Indices) -> Batch:
        batch = self.parent._batch(indices)
        return self._pixels(batch, lambda position: self.parent.where(int(indices[position])))

    def _pixels(self, batch: Batch, where: Any) -> Batch:
        """The batch with its images decoded. ``where(position)`` tells the place of one of its rows."""
        columns = dict(batch)
        for name, decoder in self._decoders.items():
            try:
                columns[name] = decoder.column(batch[name])
            except DataError as error:
                place: Where = where(error.where.record or 0)
                raise type(error)(
                    place.at(feature=name), expected=error.expected, found=error.found, hint=error.hint
                ) from error.__cause__
        return columns

    def __iter__(self) -> Iterator[Example]:
        """All examples in order, without an index where the parent needs none."""
        for index, example in enumerate(self.parent):
            yield row(self._pixels(stack([example]), lambda _, index=index: self.parent.where(index)), 0)

    def stream(self, batch_size: int) -> Iterator[Batch] | None:
        """As the parent does, if it does."""
        batches = self.parent.stream(batch_size) if hasattr(self.parent, "stream") else None
        return None if batches is None else self._streamed(batches)

    def _streamed(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        first = 0
        for batch in batches:
            yield self._pixels(batch, lambda position, first=first: self.parent.where(first + position))
            first += len(next(iter(batch.values())))


def images_in(value: Any) -> list[bytes]:
    """The encoded images in the value of one feature of one example."""
    if isinstance(value, bytes):
        return [value]
    if isinstance(value, Ragged):
        return images_in(value.values)
    return list(np.asarray(value, object).reshape(-1))
