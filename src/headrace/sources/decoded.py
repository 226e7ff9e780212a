"""Images as pixels, decoded when they are read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from headrace.codecs.images.decode import ImageDecoder
from headrace.codecs.images.views import decoder_of, feature_of_views, given_feature
from headrace.contracts.feature import IMAGE_AXES, Feature
from headrace.contracts.images import ImageOptions, RandomResizedCrop, encoding_of_most
from headrace.contracts.random_keys import RandomKeys, read_batch
from headrace.contracts.records import Records, Table
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Example, Indices, Ragged
from headrace.errors import DataError, MissingExtra, UnsupportedData, Where
from headrace.io.system import cached_property
from headrace.sources.node import (
    Node,
    OverFiles,
    cuts_cleanly,
    encoded_node,
    examples_of,
    narrow,
    random_streams,
    runs_of,
    stored_bytes,
    stream,
    walk,
)
from headrace.sources.stacking import row, stack
from headrace.sources.tables import TableNode
from headrace.sources.views import keep_features

__all__ = ["DecodedNode", "Decoding", "check_decoding", "decode_images", "decodings_of", "images_in", "stored_schema"]

Decoding = bool | ImageOptions | Mapping[str, ImageOptions]
"""What :func:`headrace.open` takes as ``decode``."""

SAMPLE = 64
"""How many examples are read to find the size, channels and depth of images."""
TABLE_SAMPLE = 16
"""How many rows of a table are read to find out whether bytes are images."""


def stored_schema(schema: Schema) -> Schema:
    """The schema of the data in the files, where that of decoded examples is given."""
    return Schema({name: feature.stored for name, feature in schema.items()})


def check_decoding(decode: object) -> Decoding:
    """Check the argument ``decode`` of :func:`headrace.open`.

    Raises:
        TypeError: It says nothing about images.
    """
    if isinstance(decode, (bool, ImageOptions)):
        return decode
    if isinstance(decode, np.bool_):
        return bool(decode)
    if isinstance(decode, Mapping) and all(isinstance(each, ImageOptions) for each in decode.values()):
        return dict(decode)
    if isinstance(decode, RandomResizedCrop):
        raise TypeError(f"a crop is one of the options: decode=ImageOptions(crop={decode!r})")
    raise TypeError(
        f"decode must be True, False, an ImageOptions(...), or a dict of those by feature, got {decode!r:.200}"
    )


def decode_images(node: Node, *, decode: Decoding, given: Schema | None) -> Node:
    """The node with its images decoded.

    Args:
        node: Encoded images as ``bytes`` features with an ``encoding``.
        decode: The argument of :func:`headrace.open`.
        given: The schema given there.

    Raises:
        NoSuchFeature, UnsupportedData: There are options for what is no image.
    """
    if decode is False:
        return node
    stored = {name: feature for name, feature in node.schema.items() if feature.encoding is not None}
    if given is None and isinstance(node, TableNode):
        stored |= _find_images(node)
    _check_options(node, decode, stored)
    if not stored:
        return node
    wanted = {name: feature for name, feature in (given or {}).items() if feature.is_image}
    return DecodedNode(node, _options_by_name(decode, stored), wanted, stored)


def _options_by_name(decode: Decoding, stored: Mapping[str, Feature]) -> dict[str, ImageOptions]:
    """How each feature is decoded; one that no option names, whole."""
    if isinstance(decode, Mapping):
        return {name: decode.get(name, ImageOptions()) for name in stored}
    return dict.fromkeys(stored, decode if isinstance(decode, ImageOptions) else ImageOptions())


def _check_options(node: Node, decode: Decoding, stored: Mapping[str, Feature]) -> None:
    """Options that would be ignored are errors. Without examples, or before damage, nothing shows what is an image."""
    if isinstance(decode, bool):
        return
    names = list(decode) if isinstance(decode, Mapping) else []
    _ = node.schema.select(names)
    missing = [name for name in names if name not in stored]
    if (not missing and stored) or not _first(examples_of(node), 1):
        return
    if isinstance(decode, Mapping) and not missing:
        return  # options for nothing
    raise UnsupportedData(
        Where(path=node.where(0).path, feature=missing[0] if missing else None),
        expected="images, which ImageOptions decode",
        found=repr(node.schema[missing[0]]) if missing else f"none in the features {list(node.schema)}",
        hint="A feature holds images if most of its first values begin as images do, or if schema= says so. source.map changes "
        "pixels that are stored as arrays.",
    )


def decodings_of(node: Node) -> tuple[str, ...]:
    """How a node and those below it decode images. A fingerprint does not show it: it is of the stored ones."""
    decoded = (each for each in walk(node) if isinstance(each, DecodedNode))
    return tuple(f"{sorted(each.options.items())} {Schema(each.given).to_json()}" for each in decoded)


def _find_images(node: TableNode) -> dict[str, Feature]:
    """The columns of bytes of a table most of whose first values are images. A table itself only says that they are bytes."""
    names = [name for name, feature in node.schema.items() if feature.dtype == "bytes" and feature.encoding is None]
    if not names:
        return {}
    sample = _first(TableNode(node.records, tuple(names)).examples(TABLE_SAMPLE), TABLE_SAMPLE)
    found = {}
    for name in names:
        encoding = encoding_of_most(image for example in sample for image in images_in(example[name]))
        if encoding is not None:
            found[name] = replace(node.schema[name], encoding=encoding)
    return found


def _first(examples: Iterator[Example], count: int) -> list[Example]:
    """The first examples, up to one that cannot be read. Reading them reports that, with its place."""
    found: list[Example] = []
    with contextlib.suppress(DataError):
        found.extend(islice(examples, count))  # examples before an error stay
    return found


class DecodedNode:
    """A node whose encoded images come as ``uint8`` (or ``uint16``) arrays ``(height, width, channels)``.

    Args:
        parent: The node of encoded images.
        options: How those of each feature are decoded.
        given: What some features become, where the caller said so; the others are found from the first images.
        stored: The features to decode, as they are stored.
    """

    def __init__(
        self,
        parent: Node,
        options: Mapping[str, ImageOptions],
        given: Mapping[str, Feature],
        stored: Mapping[str, Feature],
    ) -> None:
        self.parent = parent
        self.options: dict[str, ImageOptions] = {name: options[name] for name in stored}
        self.given: dict[str, Feature] = dict(given)
        self.stored: dict[str, Feature] = dict(stored)
        self._drawn_by = object()
        if isinstance(parent, OverFiles):
            self.records: Records | Table = parent.records

    @cached_property
    def schema(self) -> Schema:  # found when it is asked for, so that opening reads no image
        return Schema({name: self._decoded.get(name, feature) for name, feature in self.parent.schema.items()})

    @cached_property
    def _decoded(self) -> dict[str, Feature]:
        """The decoded features."""
        unknown = [name for name in self.stored if name not in self.given]
        sample = _first(examples_of(keep_features(self.parent, unknown)), SAMPLE) if unknown else []
        found = {}
        for name, stored in self.stored.items():
            images = [image for example in sample for image in images_in(example[name])] if name in unknown else []
            given = self.given.get(name)
            options = self.options[name]
            found[name] = _found(stored, images, options) if given is None else given_feature(given, options)
        return found

    @cached_property
    def _decoders(self) -> dict[str, ImageDecoder]:
        decoders = {}
        for name, feature in self._decoded.items():
            options = self.options[name]
            is_exact = options.channels is not None or name in self.given
            decoders[name] = decoder_of(feature, options, exact=is_exact)
        return decoders

    def __len__(self) -> int:
        return len(self.parent)

    def batch(self, indices: Indices, /) -> Batch:
        return self.batch_with_keys(indices, None)

    def batch_with_keys(self, indices: Indices, keys: RandomKeys | None, /) -> Batch:
        batch = read_batch(self.parent, indices, keys)
        return self._pixels(batch, lambda position: self.parent.where(int(indices[position])), indices, keys)

    def random_streams(self) -> int:
        return int(any(options.is_random for options in self.options.values()))

    def drawn_by(self) -> object:
        return self._drawn_by

    @cached_property
    def _stream(self) -> int:
        """Its own stream of random numbers: the nodes below it use those before."""
        return random_streams(self.parent)

    def where(self, index: int, /) -> Where:
        return self.parent.where(index)

    def examples(self) -> Iterator[Example]:
        for index, example in enumerate(examples_of(self.parent)):
            indices = np.array([index], np.int64)
            yield row(self._pixels(stack([example]), lambda _, index=index: self.parent.where(index), indices), 0)

    def stream(self, batch_size: int, /) -> Iterator[Batch] | None:
        batches = stream(self.parent, batch_size)
        return None if batches is None else self._decode_stream(batches)

    def runs(self) -> Indices | None:
        return runs_of(self.parent)

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def narrow(self, names: tuple[str, ...], /) -> Node:
        stored = {name: feature for name, feature in self.stored.items() if name in names}
        narrowed = DecodedNode(narrow(self.parent, names), self.options, self.given, stored)
        narrowed._drawn_by = self._drawn_by
        if "_decoded" in self.__dict__:  # found already: do not look again
            narrowed.__dict__["_decoded"] = {name: self._decoded[name] for name in stored}
        return narrowed

    def encoded(self) -> Node:
        return encoded_node(self.parent)

    def cuts_cleanly(self) -> bool:
        return cuts_cleanly(self.parent) and all(
            None not in feature.shape[-IMAGE_AXES:] for feature in self._decoded.values()
        )

    def stored_bytes(self, first: int, stop: int, /) -> int:
        return stored_bytes(self.parent, first, stop)

    def _pixels(self, batch: Batch, where: Any, indices: Indices, keys: RandomKeys | None = None) -> Batch:
        """The batch with its images decoded. ``where(position)`` is the place of one of its rows, ``indices`` are their indices."""
        draws = None
        if count := max((decoder.draws for decoder in self._decoders.values()), default=0):
            own = RandomKeys.of_indices(indices) if keys is None else keys.at(indices)
            draws = own.of_node(self, self._stream).uniform(count)
        columns = dict(batch)
        for name, decoder in self._decoders.items():
            try:
                columns[name] = decoder.column(batch[name], draws)
            except DataError as error:
                place: Where = where(error.where.record or 0)
                raise type(error)(
                    place.at(feature=name), expected=error.expected, found=error.found, hint=error.hint
                ) from error.__cause__
        return columns

    def _decode_stream(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        first = 0
        for batch in batches:
            rows = len(next(iter(batch.values())))
            indices = np.arange(first, first + rows)
            yield self._pixels(batch, lambda position, first=first: self.parent.where(first + position), indices)
            first += rows


def _found(stored: Feature, images: list[bytes], options: ImageOptions) -> Feature:
    try:
        return feature_of_views(stored, images, options)
    except MissingExtra:  # raised when pixels are read
        return feature_of_views(stored, [], options)


def images_in(value: Any) -> list[bytes]:
    """The encoded images in the value of one feature of one example."""
    if isinstance(value, bytes):
        return [value]
    if isinstance(value, Ragged):
        return images_in(value.values)
    return list(np.asarray(value, object).reshape(-1))
