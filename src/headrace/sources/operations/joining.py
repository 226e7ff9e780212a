"""What several sources have in common when they are joined: the types that hold the values of all, and the random numbers of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.codecs.fit import fit_column
from headrace.contracts.feature import IMAGE_AXES, PIXELS, SEVERAL_KINDS, Feature
from headrace.contracts.protocols import defines
from headrace.contracts.random_keys import HasRandomStreams, RandomKeys, SharesStream
from headrace.contracts.schema import Schema, check_class_names
from headrace.contracts.values import Batch, Indices, Ragged, empty_pooled, join, take_rows
from headrace.errors import SchemaMismatch, Where
from headrace.formats.table.copies import merge_rows
from headrace.sources.node import Node, walk
from headrace.sources.stacking import schema_of

__all__ = [
    "JoinedStreams",
    "cast_columns",
    "is_alike",
    "is_kept",
    "join_columns",
    "join_schemas",
    "merge",
    "to_cast",
    "widen",
]

KINDS = {"U": "str", "S": "bytes", "O": "", "M": "times", "m": "durations"}
"""What values of each kind of dtype are called. All others are numbers, and can be joined."""
HINT = "map() or a schema= gives them one type."
NAMES_HINT = (
    "Open class folders together, as hr.open([first, second]): that numbers the classes of all. Otherwise give one source the numbers of the "
    "other with map()."
)


def join_schemas(schemas: Sequence[Schema]) -> Schema:
    """The schema of sources of the same features, one after the other: that of the first, in dtypes that hold the numbers of all.

    Axes that differ vary. Class names stay if all have the same ones.

    Raises:
        SchemaMismatch: A feature is text in one and numbers in another, has another number of axes or other class names, or no dtype holds
            all its values.
    """
    first = schemas[0]
    if all(schema == first for schema in schemas[1:]):
        return first
    return Schema({name: _join(name, [schema[name] for schema in schemas]) for name in first})


def _join(name: str, features: Sequence[Feature]) -> Feature:
    joined = features[0]
    _check_names(name, features)
    for other in features[1:]:
        if (_kind(joined), joined.sparse, len(joined.shape)) != (_kind(other), other.sparse, len(other.shape)):
            raise _mismatch_error(name, joined, other)
        if joined.dtype != other.dtype and _kind(joined) not in ("str", "bytes"):
            try:
                dtype = np.result_type(joined.numpy_dtype, other.numpy_dtype)
            except (TypeError, OverflowError):  # durations in months and in days, times in days and in attoseconds
                raise _mismatch_error(name, joined, other) from None
            if dtype.kind == "f" and joined.numpy_dtype.kind in "iu" and other.numpy_dtype.kind in "iu":
                raise _mismatch_error(name, joined, other)  # NumPy takes floats for uint64 beside signed integers
            joined = _with_dtype(joined, dtype)
        if joined.shape != other.shape and (shape := _join_shapes(joined, other)) != joined.shape:
            joined = _with_shape(joined, shape)
    return _with_common_marks(joined, features)


def _join_shapes(one: Feature, other: Feature) -> tuple[int | None, ...]:
    """Axes that differ vary; sparse rows get the columns of the widest."""
    pairs = list(zip(one.shape, other.shape, strict=True))
    if one.sparse:
        return tuple(None if None in pair else max(pair) for pair in pairs)  # type: ignore[type-var]
    return tuple(length if length == second else None for length, second in pairs)


def _with_common_marks(joined: Feature, features: Sequence[Feature]) -> Feature:
    """Class names only where all have them: numbers without names may be those of other classes. Images of several encodings are of several kinds."""
    encodings = {feature.encoding for feature in features}
    encoding = SEVERAL_KINDS if len(encodings - {None}) > 1 and joined.encoding is not None else joined.encoding
    names = joined.names if all(feature.names is not None for feature in features) else None
    if (encoding, names) == (joined.encoding, joined.names):
        return joined
    return replace(joined, encoding=encoding, names=names)


def _check_names(name: str, features: Sequence[Feature]) -> None:
    """Refuse numbers that stand for a class in one source, and for another class in another."""
    named = [feature.names for feature in features if feature.names is not None]
    for names in named[1:]:
        check_class_names(named[0], names, Where(feature=name), "the first source that has names", NAMES_HINT)


def _kind(feature: Feature) -> str:
    if feature.is_text or feature.dtype == "examples":
        return feature.dtype
    return KINDS.get(feature.numpy_dtype.kind, "numbers")


def _mismatch_error(name: str, first: Feature, other: Feature) -> SchemaMismatch:
    return SchemaMismatch(
        Where(feature=name), expected=f"{first!r}, as in the first source", found=repr(other), hint=HINT
    )


def _with_dtype(feature: Feature, dtype: np.dtype[Any]) -> Feature:
    """The feature with another dtype, without what that cannot have."""
    return Feature(
        dtype,
        feature.shape,
        default=_default_of(feature),
        encoding=feature.encoding if dtype.name in PIXELS else None,
        sparse=feature.sparse,
        steps=feature.steps,
        names=feature.names if dtype.kind in "iu" else None,
    )


def _with_shape(feature: Feature, shape: tuple[int | None, ...]) -> Feature:
    return replace(feature, shape=shape, default=_default_of(feature), keys=None)


def _default_of(feature: Feature) -> Any:
    return None if feature.default is None else np.array(feature.default, feature.numpy_dtype)


def to_cast(schema: Schema, joined: Schema) -> dict[str, Feature]:
    """The features that have another dtype in the joined schema, or more columns of sparse rows, as they are there.

    Their axes are of any length: the schema of what a function makes tells those of the first example alone. They have an encoding where
    images of 8 bits are to have 16.
    """
    return {
        name: Feature(
            feature.dtype,
            feature.shape if feature.sparse else (None,) * len(feature.shape),
            encoding=feature.encoding if schema[name].is_image else None,
            sparse=feature.sparse,
        )
        for name, feature in joined.items()
        if _kind(feature) not in ("str", "bytes") and _is_other(schema[name], feature)
    }


def _is_other(feature: Feature, joined: Feature) -> bool:
    return feature.dtype != joined.dtype or (joined.sparse and feature.shape != joined.shape)


def is_kept(schema: Schema, joined: Schema) -> bool:
    """Whether a joined schema keeps the class names and the images of one of its schemas: what becomes of them depends on what is joined first."""
    if schema is joined:
        return True
    pairs = [(feature, joined[name]) for name, feature in schema.items()]
    return all(one.names == other.names and (one.dtype == other.dtype or not other.is_image) for one, other in pairs)


def is_alike(schema: Schema, joined: Schema) -> bool:
    """Whether columns have the dtypes and axes of the joined schema after :func:`cast_columns`."""
    return all(
        (feature.sparse or feature.shape == joined[name].shape)
        and (feature.dtype == joined[name].dtype or _kind(feature) not in ("str", "bytes"))
        for name, feature in schema.items()
    )


def cast_columns(batch: Batch, features: Mapping[str, Feature], where: Callable[[int], Where]) -> Batch:
    """The batch with some columns as other dtypes.

    Args:
        batch: The columns.
        features: What to cast, as :func:`to_cast` gives it.
        where: The place of a row.

    Raises:
        SchemaMismatch: A value is not the same as that dtype, such as an integer that no float equals.
    """
    if not features:
        return batch
    try:
        return {**batch, **{name: _cast(batch[name], feature, name) for name, feature in features.items()}}
    except SchemaMismatch as error:
        if error.where.record is None:
            raise
        raise error.relocated(where(error.where.record).at(feature=error.where.feature)) from error


def _cast(column: Any, feature: Feature, name: str) -> Any:
    if feature.is_image:
        return _as_deep(column)
    if not hasattr(column, "tocsr"):
        return fit_column(column, feature, name)
    data = fit_column(column.data, Feature(feature.dtype), name)
    width = column.shape[-1] if feature.shape[0] is None else feature.shape[0]
    return type(column)((data, column.indices, column.indptr), shape=(*column.shape[:-1], width))


def _as_deep(images: Any) -> Any:
    """Images of 8 bits as those of 16, so that white stays white. Others stay as they are."""
    if isinstance(images, list):
        return [_as_deep(image) for image in images]
    if isinstance(images, Ragged):
        return Ragged.trust(_as_deep(images.values), images.offsets)
    # 255 becomes 65,535, as where one source has images of both kinds.
    return images.astype(np.uint16) * 257 if images.dtype == np.uint8 else images


def join_columns(columns: Sequence[Any], feature: Feature | None) -> Any:
    """The columns of a feature in several sources, end to end. Images of several sizes become a list, as in one source."""
    is_image = feature is not None and feature.is_image and len(feature.shape) == IMAGE_AXES
    if is_image and len({getattr(column, "shape", (None,))[1:] for column in columns}) > 1:
        return [image for column in columns for image in column]
    return join(columns)


def merge(batches: Sequence[Batch], places: Sequence[Indices], schema: Schema | None) -> Batch:
    """The rows of several batches in one, each at its place.

    Raises:
        SchemaMismatch: They have other features.
    """
    first = batches[0]
    for batch in batches[1:]:
        if batch.keys() != first.keys():
            raise SchemaMismatch(
                Where(), expected=f"the features {list(first)} in every source", found=str(list(batch))
            )
    order = np.argsort(np.concatenate(places))
    features = {} if schema is None else schema
    done = merge_rows(batches, order)
    return {
        name: done[name]
        if name in done
        else _merge_columns([batch[name] for batch in batches], places, order, features.get(name))
        for name in first
    }


def _merge_columns(columns: Sequence[Any], places: Sequence[Indices], order: Indices, feature: Feature | None) -> Any:
    first = columns[0]
    if not all(
        isinstance(c, np.ndarray) and c.dtype == first.dtype and c.shape[1:] == first.shape[1:] for c in columns
    ):
        return take_rows(join_columns(columns, feature), order)
    out = empty_pooled(first.dtype, (len(order), *first.shape[1:]))
    for column, place in zip(columns, places, strict=True):
        out[place] = column
    return out


@dataclass
class JoinedStreams:
    """Which streams of random numbers joined sources draw from: no two nodes from the same one.

    Args:
        before: For each source, how many streams those before it use.
        shared: The streams of nodes that several sources read, or one in several places. Such a node draws the same numbers in each.
    """

    before: list[int]
    shared: dict[object, int]

    @classmethod
    def of(cls, parts: Sequence[Node]) -> JoinedStreams:
        """The streams of these sources, in their order."""
        before: list[int] = []
        places: dict[object, int] = {}
        shared: dict[object, int] = {}
        count = 0
        for part in parts:
            before.append(count)
            for node in walk(part):
                streams = node.random_streams() if defines(node, HasRandomStreams) else 0
                drawn = node.drawn_by() if streams and defines(node, SharesStream) else None
                if drawn is not None and places.setdefault(drawn, count) != count:
                    shared[drawn] = places[drawn]
                count += streams
        return cls(before, shared)

    def keys_at(self, indices: Indices, keys: RandomKeys | None) -> RandomKeys | None:
        """The keys of all sources. Without any, each would draw from the first streams; ``None``: at most the first source draws."""
        if keys is None and self.before[-1]:
            keys = RandomKeys.of_indices(indices)
        return keys if keys is None or not self.shared else keys.share(self.shared)

    def keys_of(self, part: int, keys: RandomKeys | None) -> RandomKeys | None:
        """The keys of one source, of those that :meth:`keys_at` gave."""
        return None if keys is None else keys.skip(self.before[part])


def widen(schema: Schema, batch: Mapping[str, Any]) -> Schema:
    """A schema that a batch fits, too: an axis on which the two disagree varies, and integers beside floats are ``float64``.

    A function of the user gives the values of some sources. Their schema is that of the first example, in which every axis has one length.

    Args:
        schema: The schema so far.
        batch: Has all its features.
    """
    found = {}
    for name, feature in schema.items():
        other = None if feature.sparse or feature.dtype == "examples" else schema_of({name: batch[name]})[name]
        if other is None or len(other.shape) != len(feature.shape):
            found[name] = feature
            continue
        shape = tuple(one if one == two and one else None for one, two in zip(feature.shape, other.shape, strict=True))
        dtype = other.dtype if 0 in feature.shape else feature.dtype  # the first example had no value
        is_mixed = feature.numpy_dtype.kind in "iu" and other.numpy_dtype.kind == "f" and feature.names is None
        if is_mixed and 0 not in other.shape and _count_values(batch[name]):
            dtype = "float64"
        is_same = (dtype, shape) == (feature.dtype, feature.shape)
        found[name] = feature if is_same else Feature(dtype, shape, encoding=feature.encoding, names=feature.names)
    return Schema(found)


def _count_values(column: Any) -> int:
    return _count_values(column.values) if isinstance(column, Ragged) else len(column)
