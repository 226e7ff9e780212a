"""Batches as blocks of Ray Data, and blocks as batches. A block is an Arrow table in which tensors have types of Ray's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace._optional import require
from headrace._ray.cluster import Cluster
from headrace.adapters.arrow import ArrowNode, find_schema
from headrace.codecs.fit import fit_column
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Ragged
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.table.arrow_types import KEY, arrow, arrow_type, embedded_schema, innermost, leaves_of, misfits
from headrace.formats.table.to_arrow import to_arrow as column_to_arrow
from headrace.formats.table.values import BadValue

__all__ = [
    "batch_of_block",
    "block_of_batch",
    "block_row_bytes",
    "check_member",
    "check_storable",
    "find_untyped",
    "is_measurable",
    "no_columns",
    "schema_of_block",
    "zero_block",
]

CLASS_NAMES = "headrace.class_names"
"""The key in the metadata of a block of the class names of its features. Ray keeps metadata, except where it makes rows."""
TENSOR_KINDS = "biuf"
PYTHON_OBJECTS = "ray.data.arrow_pickled_object"
"""Ray's name for a column of values that Arrow has no type for."""
MEASURED_ROWS = 8  # a multiple of the bits of a byte, so that bools are measured exactly


def check_member(cluster: Cluster) -> None:
    """Refuse a connection through Ray Client, which has no datasets.

    Raises:
        UnsupportedData: The address begins with ``ray://``.
    """
    if cluster.is_remote:
        hint = "Run this on a node, with the address host:port or 'auto' (RAY_ADDRESS)."
        raise UnsupportedData(Where(), expected="a process on a node of the cluster", found="ray://", hint=hint)


def check_storable(schema: Schema) -> None:
    """Refuse features that no block holds.

    Raises:
        UnsupportedData: There is one: sparse rows, complex numbers.
    """
    for misfit in misfits(schema):
        raise UnsupportedData(
            Where(feature=misfit.feature), expected=misfit.expected, found=misfit.found, hint=misfit.hint
        )


def block_of_batch(batch: Batch, schema: Schema) -> Any:
    """A batch as a ``pyarrow.Table``. Numbers, tensors and text share the memory of the batch.

    A feature of a fixed shape becomes a tensor column, and so do decoded images, whose sizes may differ. Text becomes ``string`` or
    ``binary``. Other features of several values become lists.

    Raises:
        SchemaMismatch: A value does not fit its feature.
    """
    columns = {name: _array_of(name, batch[name], feature) for name, feature in schema.items()}
    names = {name: feature.names for name, feature in schema.items() if feature.names}
    return arrow().table(columns, metadata={CLASS_NAMES: json.dumps(names)} if names else None)


def _array_of(name: str, column: Any, feature: Feature) -> Any:
    column = fit_column(column, feature, name)
    if _is_tensor(feature):
        return _tensors().from_numpy(np.asarray(column, feature.numpy_dtype), column_name=name)
    if feature.is_image:
        rows = np.empty(len(column), object)
        for position in range(len(column)):
            rows[position] = np.asarray(column[position], feature.numpy_dtype)
        return require("ray.data.extensions", extra="ray").ArrowVariableShapedTensorArray.from_numpy(rows)
    try:
        return column_to_arrow(column, feature)
    except (TypeError, ValueError, ArithmeticError, BadValue) as error:
        raise SchemaMismatch(Where(feature=name), expected=str(feature), found=str(error)[:200]) from error


def _is_tensor(feature: Feature) -> bool:
    return bool(feature.shape) and feature.is_fixed and feature.numpy_dtype.kind in TENSOR_KINDS


def _tensors() -> Any:
    return require("ray.data.extensions", extra="ray").ArrowTensorArray


def is_measurable(schema: Schema) -> bool:
    """Whether every example takes the same number of bytes, which :func:`block_row_bytes` finds without reading one."""
    return all(feature.is_fixed and feature.numpy_dtype.kind in TENSOR_KINDS + "mM" for feature in schema.values())


def block_row_bytes(schema: Schema) -> float:
    """The bytes of one row of a block, exact for a schema that :func:`is_measurable`."""
    return float(zero_block(schema, MEASURED_ROWS).nbytes / MEASURED_ROWS) if schema else 0.0


def zero_block(schema: Schema, rows: int = 0) -> Any:
    """A block of zeros, for a schema that :func:`is_measurable`."""
    zeros = {
        name: np.zeros((rows, *(n or 0 for n in feature.shape)), feature.numpy_dtype)
        for name, feature in schema.items()
    }
    return block_of_batch(zeros, schema)


def no_columns(rows: int) -> Any:
    """A block of rows without columns. Arrow's tables cannot count rows without one, so Ray has a name for a column that is none."""
    blocks = require("ray.data._internal.arrow_block", extra="ray")
    name = getattr(blocks, "_BATCH_SIZE_PRESERVING_STUB_COL_NAME", "__bsp_stub")
    return arrow().table({name: arrow().nulls(rows)})


def schema_of_block(block: Any) -> Schema:
    """The features of a block: tensors of one shape have it, axes of others vary. Those of :func:`find_untyped` are left out.

    Raises:
        UnsupportedData: A column has no array type.
    """
    table, tensors = _split_columns(block)
    leaves = [leaf for leaf in leaves_of(table.schema) if not _is_untyped(leaf.type)]
    features = dict(find_schema(leaves, embedded_schema((table.schema.metadata or {}).get(KEY.encode()))))
    for name, kind in tensors.items():
        features[name] = _tensor_feature(name, kind)
    for name, names in json.loads((block.schema.metadata or {}).get(CLASS_NAMES.encode(), b"{}")).items():
        if name in features and _can_be_class(features[name]):
            features[name] = replace(features[name], names=tuple(names))
    return Schema(dict(_in_order(features, block.column_names)))


def find_untyped(block: Any) -> list[str]:
    """The features whose type a block does not show, because its rows have only nulls or empty lists."""
    table, _ = _split_columns(block)
    return [leaf.name for leaf in leaves_of(table.schema) if _is_untyped(leaf.type)]


def _is_untyped(kind: Any) -> bool:
    return bool(arrow().types.is_null(innermost(kind)))


def _with_types(table: Any, schema: Schema) -> Any:
    """The table with the types of the features where it shows none."""
    fields = [field.with_type(_replace_nulls(field.type, field.name, schema)) for field in table.schema]
    return table if fields == list(table.schema) else table.cast(arrow().schema(fields, table.schema.metadata))


def _replace_nulls(kind: Any, name: str, schema: Schema) -> Any:
    """A type without nulls in it, if it is that of a feature."""
    pa, types = arrow(), arrow().types
    if types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([each.with_type(_replace_nulls(each.type, f"{name}/{each.name}", schema)) for each in fields])
    if not _is_untyped(kind) or name not in schema:
        return kind
    if types.is_null(kind):
        dtype = schema[name].dtype
        return pa.string() if schema[name].numpy_dtype.kind == "U" else arrow_type(Feature(dtype))
    inner = _replace_nulls(kind.value_type, name, schema)
    return pa.list_(inner, kind.list_size) if types.is_fixed_size_list(kind) else pa.list_(inner)


def _can_be_class(feature: Feature) -> bool:
    """Whether class names still suit a column, whose values a function may have replaced."""
    return not feature.is_text and feature.numpy_dtype.kind in "iu"


def batch_of_block(block: Any, schema: Schema) -> Batch:
    """The rows of a block, as :meth:`headrace.Writer.write_batch` takes them.

    Raises:
        SchemaMismatch: A null, where its feature has no value for it.
    """
    table, tensors = _split_columns(block)
    batch: dict[str, Any] = {}
    if table.num_columns:
        batch.update(ArrowNode(_with_types(table, schema)).batch(np.arange(table.num_rows)))
    for name in tensors:
        column = block.column(name)
        if column.null_count:
            raise SchemaMismatch(Where(feature=name), expected="a tensor in every row", found="a null")
        batch[name] = _tensor_column(column, schema[name])
    return dict(_in_order(batch, block.column_names))


def _in_order(found: dict[str, Any], names: list[str]) -> Iterator[tuple[str, Any]]:
    """The features in the order of the columns; those of one struct together."""
    for name in names:
        for key, value in found.items():
            if key == name or key.startswith(name + "/"):
                yield key, value


def _split_columns(block: Any) -> tuple[Any, dict[str, Any]]:
    """The table without its tensors, and the types of those.

    Raises:
        UnsupportedData: A column holds Python objects. Ray keeps them as their pickles.
    """
    for field in block.schema:
        if getattr(field.type, "extension_name", "") == PYTHON_OBJECTS:
            raise UnsupportedData(
                Where(feature=field.name),
                expected="a column that has an array type",
                found="Python objects",
                hint="Convert it to numbers, text, bytes, or arrays of one kind, or drop it.",
            )
    tensors = {field.name: field.type for field in block.schema if _is_tensor_type(field.type)}
    return (block.drop_columns(list(tensors)) if tensors else block), tensors


def _is_tensor_type(kind: Any) -> bool:
    """Whether a type is one of Ray's tensors, or Arrow's own of a fixed shape."""
    return isinstance(kind, arrow().BaseExtensionType) and "tensor" in kind.extension_name.lower()


def _tensor_feature(name: str, kind: Any) -> Feature:
    value_type = kind.scalar_type if hasattr(kind, "scalar_type") else kind.value_type
    if arrow().types.is_fixed_size_binary(value_type):  # how Ray stores arrays of text
        return Feature("str", tuple(kind.shape) if hasattr(kind, "shape") else (None,) * int(kind.ndim))
    try:
        dtype = np.dtype(value_type.to_pandas_dtype())
    except (NotImplementedError, TypeError) as error:
        raise UnsupportedData(
            Where(feature=name), expected="a tensor of numbers", found=str(kind), hint="Change the column, or drop it."
        ) from error
    shape = getattr(kind, "shape", None)
    return Feature(dtype, tuple(shape) if shape is not None else (None,) * int(kind.ndim))


def _tensor_column(column: Any, feature: Feature) -> Any:
    """``ndarray (n, *shape)`` of tensors of one shape; a list of arrays of others."""
    chunks: list[npt.NDArray[Any]] = []
    for chunk in column.chunks:
        values = chunk.to_numpy_ndarray() if hasattr(chunk, "to_numpy_ndarray") else chunk.to_numpy()
        chunks.append(values)
    if feature.is_fixed:
        shape = tuple(n or 0 for n in feature.shape)
        return np.concatenate(chunks) if chunks else np.zeros((0, *shape), feature.numpy_dtype)
    rows = [np.asarray(value) for values in chunks for value in values]
    if rows and all(row.shape == rows[0].shape for row in rows):
        return np.stack(rows)
    if rows and len({row.shape[1:] for row in rows}) == 1:
        return Ragged.from_list(rows)
    return rows
