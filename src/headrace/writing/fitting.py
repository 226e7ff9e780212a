"""Which features of a source a format can hold, and how the others are changed to fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.infer import RawCodec
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.contracts.feature import SEVERAL_KINDS, Feature
from headrace.contracts.images import ImageOptions
from headrace.contracts.records import Misfit
from headrace.contracts.schema import Schema, any_width, join_present
from headrace.contracts.values import Batch, Indices, Ragged
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.registry import format_named
from headrace.formats.table.base import find_steps
from headrace.sources.decoded import DecodedNode
from headrace.sources.node import Node, narrow, walk
from headrace.sources.source import Source
from headrace.writing.sinks import PIXEL_FORMATS, batches_of, codec_for, settle_schema

__all__ = [
    "FeatureLoss",
    "check_stored_images",
    "convert_to_fit",
    "find_misfits",
    "fit_text",
    "make_storable",
]

STEPS = 4  # sparse to dense, times to integers, wide to narrow ones


@dataclass(frozen=True, slots=True)
class FeatureLoss:
    """One feature that a conversion changes or leaves out.

    Args:
        feature: Its name.
        was: In the source.
        stored: In the new files; ``None``: it is left out.
    """

    feature: str
    was: Feature
    stored: Feature | None

    def __str__(self) -> str:
        if self.stored is None:
            return f"{self.feature!r} is left out"
        return f"{self.feature!r} is stored as {self.stored!r} instead of {self.was!r}"


def find_misfits(schema: Schema, format: str, codec: str | None = None) -> list[Misfit]:
    """The features that a format cannot hold unchanged.

    Those with ``certain=False`` depend on their values: they fit if ``instead`` holds all of them exactly.
    """
    steps = find_steps(schema)
    if steps:
        others = [name for name, feature in schema.items() if feature.dtype != "examples"]
        return steps + find_misfits(schema.select(others), format, codec)
    found = format_named(format)
    if found.sink is not None:
        return [] if found.misfits is None else list(found.misfits(schema))
    whole = codec_for(schema.select([]), codec, format)
    if codec is None and list(schema) == ["record"]:
        return []
    if isinstance(whole, RawCodec):
        expected, hint = "one feature of bytes, called record", "Name another codec."
        return [
            Misfit(feature=name, expected=expected, found=repr(feature), hint=hint)
            for name, feature in schema.items()
            if name != "record" or feature.dtype != "bytes"
        ]
    each = (_codec_misfit(whole, name, feature) for name, feature in schema.items())
    return [misfit for misfit in each if misfit is not None]


def fit_text(schema: Schema, format: str, codec: str | None = None) -> Schema:
    """A schema that was found in examples, with text of any length where a format cannot hold arrays of text."""
    if not any(feature.numpy_dtype.kind in "US" for feature in schema.values()):
        return schema
    return any_width(schema, [misfit.feature for misfit in find_misfits(schema, format, codec)])


def _codec_misfit(codec: Any, name: str, feature: Feature) -> Misfit | None:
    try:
        type(codec)(Schema({name: feature}))
    except UnsupportedData as error:
        return Misfit(
            feature=name, expected=error.expected, found=error.found, instead=_simpler(feature), hint=error.hint
        )
    if isinstance(codec, SageMakerRecordCodec) and feature.shape.count(None) > 1:
        return Misfit(feature=name, expected="arrays of which at most one axis varies", found=repr(feature))
    narrow = _narrow(codec, feature)
    if narrow is None:
        return None
    kind = "Examples" if isinstance(codec, ExampleCodec) else "Records"
    return Misfit(
        feature=name,
        expected=f"values that {narrow.dtype} holds, as {kind} have",
        found=repr(feature),
        instead=narrow,
        certain=False,
    )


def _simpler(feature: Feature) -> Feature | None:
    """The nearest simpler feature that holds the values of this one; ``None`` where there is none."""
    if feature.sparse:
        return Feature(feature.dtype, feature.shape)
    if feature.is_text:
        return None
    dtype = np.dtype(feature.dtype)
    if dtype.kind in "mM":
        return Feature("int64", feature.shape)
    return Feature("float64", feature.shape) if dtype.kind == "f" and dtype.itemsize > 8 else None


def _narrow(codec: Any, feature: Feature) -> Feature | None:
    if feature.is_text:
        return None
    dtype = np.dtype(feature.dtype)
    if isinstance(codec, ExampleCodec) and dtype == np.float64:
        return replace(feature, dtype="float32")
    if isinstance(codec, SageMakerRecordCodec) and dtype.kind in "iu" and not np.can_cast(dtype, np.int32):
        return replace(feature, dtype="int32")
    return None


def convert_to_fit(
    source: Source, path: str, format: str, codec: str | None = None, *, allow_loss: bool = False
) -> tuple[Source, Schema, tuple[FeatureLoss, ...]]:
    """The source with its features changed to what a format holds.

    Args:
        source: Of the examples.
        path: Of the new files, for messages.
        format, codec: Of the new files.
        allow_loss: Store features that do not fit as other types, or leave them out.

    Returns:
        The source, the schema to write, and the features that are changed (none, unless that is allowed).

    Raises:
        UnsupportedData: Something would be lost. For features that depend on their values, on reading the first value that does not fit.
    """
    schema, _ = settle_schema(source, (batch for _, batch in batches_of(source, 0, len(source))))
    given = fit_text(schema, format, codec)
    features: dict[str, Feature] = dict(given)
    checked: dict[str, Misfit] = {}
    for _ in range(STEPS):
        misfits = [m for m in find_misfits(Schema(features), format, codec) if m.feature not in checked]
        if not misfits:
            break
        for misfit in misfits:
            if misfit.certain and not allow_loss:
                raise _refusal_error(misfit, path)
            if misfit.feature not in features:
                raise _refusal_error(misfit, path)
            if misfit.instead is None:
                del features[misfit.feature]
            else:
                features[misfit.feature] = misfit.instead
                if not misfit.certain:
                    checked[misfit.feature] = misfit
    if given and not features:
        raise _refusal_error(find_misfits(given, format, codec)[0], path)
    lost = tuple(
        FeatureLoss(name, feature, features.get(name))
        for name, feature in given.items()
        if features.get(name) != feature
    )
    if not lost:
        return source, given, ()
    cast = CastNode(source.node, given, Schema(features), exact=not allow_loss)
    return Source(cast), cast.schema, lost if allow_loss else ()


def _refusal_error(misfit: Misfit, path: str) -> UnsupportedData:
    instead = "leaves it out" if misfit.instead is None else f"stores it as {misfit.instead!r}"
    hint = f"{misfit.hint} allow_loss=True (--allow-loss) {instead}.".strip()
    return UnsupportedData(
        Where(path=path, feature=misfit.feature), expected=misfit.expected, found=misfit.found, hint=hint
    )


class CastNode:
    """A node whose features are stored as others.

    Args:
        parent: The node.
        given: Its features.
        schema: The new features.
        exact: Raise where a value would change.
    """

    def __init__(self, parent: Node, given: Schema, schema: Schema, *, exact: bool) -> None:
        self.parent: Node = narrow(parent, tuple(schema))
        self.given = given
        self.schema = schema
        self.exact = exact

    def __len__(self) -> int:
        return len(self.parent)

    def batch(self, indices: Indices, /) -> Batch:
        batch = self.parent.batch(indices)
        return {name: self._column(batch[name], name, indices) for name in self.schema}

    def where(self, index: int, /) -> Where:
        return self.parent.where(index)

    def below(self) -> tuple[Node, ...]:
        return (self.parent,)

    def _column(self, column: Any, name: str, indices: Indices) -> Any:
        was, stored = self.given[name], self.schema[name]
        if was.sparse and not stored.sparse:
            column = column.toarray()
        if was.dtype == stored.dtype:
            return column
        try:
            column = join_present(column, name)
        except SchemaMismatch as error:
            raise error.relocated(self.parent.where(int(indices[error.where.record or 0]))) from error
        cast = _cast(column, stored.numpy_dtype)
        if self.exact and (row := _first_changed(column, cast)) is not None:
            raise UnsupportedData(
                self.parent.where(int(indices[row])).at(feature=name),
                expected=f"values that {stored.dtype} holds exactly",
                found=_first_value(column, cast, row),
                hint=f"allow_loss=True (--allow-loss) stores them as {stored.dtype}.",
            )
        return cast


def _cast(column: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(column, Ragged):
        return Ragged(_cast(column.values, dtype), column.offsets)
    if isinstance(column, list):
        return [_cast(np.asarray(row), dtype) for row in column]
    if hasattr(column, "tocsr"):
        cast = column.tocsr().copy()
        cast.data = _cast(cast.data, dtype)
        return cast
    if dtype.kind in "iu" and column.dtype.kind in "iu":  # clip, rather than wrap around to another number
        limits, own = np.iinfo(dtype), np.iinfo(column.dtype)
        column = np.clip(column, max(limits.min, own.min), min(limits.max, own.max))
    with np.errstate(over="ignore"):
        return column.astype(dtype)


def _first_changed(column: Any, cast: Any) -> int | None:
    """The first row in which a value has changed."""
    if isinstance(column, list):
        return next((row for row, pair in enumerate(zip(column, cast, strict=True)) if _changes(*pair).any()), None)
    if hasattr(column, "tocsr"):
        column, cast = column.toarray(), cast.toarray()
    places: Callable[[int], int] = int
    while isinstance(column, Ragged):
        places = _row_of(column.offsets, places)
        column, cast = column.values, cast.values
    changed = _changes(column, cast)
    if not changed.any():
        return None
    return places(int(np.flatnonzero(changed.reshape(len(column), -1).any(axis=1))[0]))


def _first_value(column: Any, cast: Any, row: int) -> str:
    """The first value of this row that has changed."""
    if hasattr(column, "tocsr"):
        column, cast, row = column.tocsr()[[row]].toarray(), cast.tocsr()[[row]].toarray(), 0
    was, now = column[row], cast[row]
    while isinstance(was, Ragged):
        was, now = was.values, now.values
    was, now = np.atleast_1d(was), np.atleast_1d(now)
    return str(was[_changes(was, now)][0])


def _row_of(offsets: npt.NDArray[np.int64], outer: Callable[[int], int]) -> Callable[[int], int]:
    return lambda at: outer(int(np.searchsorted(offsets, at, side="right")) - 1)


def _changes(column: Any, cast: Any) -> npt.NDArray[np.bool_]:
    column = np.asarray(column)
    back = cast.astype(column.dtype)
    same = back == column
    if column.dtype.kind == "f":
        same |= np.isnan(back) & np.isnan(column)
    return ~np.atleast_1d(same)


def make_storable(source: Source, format: str) -> tuple[Source, tuple[str, ...]]:
    """The source as a format stores it: with pixels in formats of numbers, else with encoded images.

    So images are copied from file to file unchanged, however lossy their encoding. Options that change their pixels are left out then, with a
    warning, and so are the channels and the depth that a given schema says.

    Returns:
        The source, and a sentence for each feature whose options are left out.
    """
    if format in PIXEL_FORMATS:
        return source, ()
    encoded = source.encoded()
    kept = {id(node) for node in walk(encoded.node)}  # such as those below a map, which takes pixels
    undone = [node for node in walk(source.node) if isinstance(node, DecodedNode) and id(node) not in kept]
    lost = [(name, each) for node in undone for name in node.options if (each := _undone(node, name)) is not None]
    for name, each in lost:
        warnings.warn(
            f"{format} gets the stored images of {name!r}, without {each!r}. source.map(dict) writes the arrays that the options "
            "make; source.encoded() says that the stored images are meant, and is written without this warning.",
            stacklevel=3,
        )
    return encoded, tuple(f"{name!r} is stored as before {each!r}" for name, each in lost)


def _undone(node: DecodedNode, name: str) -> ImageOptions | Feature | None:
    """The options, or the feature of a given schema, by which the pixels of a feature are others than those of the stored images."""
    options, given = node.options[name], node.given.get(name)
    if options.oriented or not options.is_plain:
        return options
    if options.channels is None and given is None:
        return None
    plain = DecodedNode(node.parent, {name: ImageOptions(any_size=True)}, {}, {name: node.stored[name]}).schema[name]
    was, now = ((each.dtype, each.shape[-1]) for each in (plain, node.schema[name]))
    if None in (was[1], now[1]) or was == now:
        return None
    return options if given is None else given


def check_stored_images(source: Source, encoded: Source, schema: Schema) -> None:
    """Check that a schema to write says of images that are copied what they are.

    Raises:
        SchemaMismatch: It says another encoding, size or number of channels.
    """
    for name, wanted in schema.items():
        stored = encoded.schema.get(name)
        if not wanted.is_image or stored is None or stored.encoding is None or not stored.is_text:
            continue
        is_other = SEVERAL_KINDS not in (wanted.encoding, stored.encoding) and wanted.encoding != stored.encoding
        found = source.schema[name]
        axes = zip(found.shape, wanted.shape, strict=False) if found.is_image else ()
        if is_other or any(None not in pair and len(set(pair)) > 1 for pair in axes):
            raise SchemaMismatch(
                Where(feature=name),
                expected=f"images as the schema to write says: {wanted!r}",
                found=f"{found!r}, whose stored images are copied",
                hint="Arrays of pixels, such as those of source.map(dict), are encoded as the schema says. Without schema=, images stay as they are.",
            )
