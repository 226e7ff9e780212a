"""tf.data in its fastest form: whole batches parsed in one call, AUTOTUNE, prefetch, tensors out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.shapes.files import ShapeFiles
from benchmarks.shapes.reading import Reading
from benchmarks.shapes.shape import BYTES, IMAGES, TEXT, Column

_AUTOTUNE = tf.data.AUTOTUNE


def examples(files: ShapeFiles) -> Reading:
    """``batch.map(parse_example)``; with ragged columns RaggedFeature, with images ``map(decode).batch``."""
    if files.shape.image:
        return _images(files)
    spec = {name: _feature(column) for name, column in files.shape.names}
    parsed = _records(files).batch(files.shape.batch).map(lambda b: tf.io.parse_example(b, spec), _AUTOTUNE)
    return _reading(files, parsed.prefetch(_AUTOTUNE))


def sequences(files: ShapeFiles) -> Reading:
    """``batch.map(parse_sequence_example)`` with RaggedFeature or, where steps have a shape, FixedLenSequenceFeature."""
    names = files.shape.names
    context = {name: _feature(column) for name, column in names if column.lengths is None}
    steps = {
        name: tf.io.FixedLenSequenceFeature(column.shape, _dtype(column)) if column.shape else _feature(column)
        for name, column in names
        if column.lengths is not None
    }

    def parse(batch: tf.Tensor) -> dict[str, tf.Tensor]:
        one, many, lengths = tf.io.parse_sequence_example(batch, context, steps)
        return {**one, **many, **{f"{name} lengths": length for name, length in lengths.items()}}

    return _reading(files, _records(files).batch(files.shape.batch).map(parse, _AUTOTUNE).prefetch(_AUTOTUNE))


def crops(files: ShapeFiles) -> Reading:
    """``decode_and_crop_jpeg`` of a random part, antialiased ``resize``, a random flip; as uint8."""
    spec = {name: _feature(column) for name, column in files.shape.names}
    image = next(name for name, column in files.shape.names if column.is_image)
    side = files.shape.crop
    everywhere = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])

    def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
        example = tf.io.parse_single_example(record, spec)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(example[image]),
            everywhere,
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([begin[:2], size[:2]], 0)
        part = tf.io.decode_and_crop_jpeg(example[image], window, channels=3)
        resized = tf.image.resize(part, (side, side), antialias=True)
        pixels = tf.cast(tf.clip_by_value(tf.round(resized), 0, 255), tf.uint8)
        return {**example, image: tf.image.random_flip_left_right(pixels)}

    return _reading(files, _records(files).map(parse, _AUTOTUNE).batch(files.shape.batch).prefetch(_AUTOTUNE))


def _images(files: ShapeFiles) -> Reading:
    spec = {name: _feature(column) for name, column in files.shape.names}
    images = {name: column for name, column in files.shape.names if column.is_image}

    def parse(record: tf.Tensor) -> dict[str, tf.Tensor]:
        example = tf.io.parse_single_example(record, spec)
        for name, column in images.items():
            decode = tf.io.decode_png if column.kind == "g" else tf.io.decode_jpeg
            example[name] = tf.ensure_shape(decode(example[name], channels=3), (*column.shape[:2], 3))
        return example

    return _reading(files, _records(files).map(parse, _AUTOTUNE).batch(files.shape.batch).prefetch(_AUTOTUNE))


def _records(files: ShapeFiles) -> tf.data.Dataset:
    records = tf.data.TFRecordDataset(files.paths)
    return records.shuffle(files.rows) if files.shape.shuffled else records


def _dtype(column: Column) -> tf.DType:
    if column.kind in TEXT + BYTES + IMAGES:
        return tf.string
    return tf.float32 if column.kind == "f" else tf.int64


def _feature(column: Column) -> Any:
    if column.is_image:
        return tf.io.FixedLenFeature([], tf.string)
    if column.lengths is None:
        return tf.io.FixedLenFeature(column.shape, _dtype(column))
    inner = [tf.io.RaggedFeature.UniformRowLength(size) for size in column.shape]  # type: ignore[attr-defined]
    return tf.io.RaggedFeature(_dtype(column), partitions=inner, row_splits_dtype=tf.int64)


def _reading(files: ShapeFiles, data: Iterable[Any]) -> Reading:
    def columns(batch: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _plain(batch[name], batch.get(f"{name} lengths"), column) for name, column in files.shape.names}

    return Reading(files=files, epoch=lambda: data, columns=columns)


def _plain(tensor: Any, lengths: Any, column: Column) -> Any:
    if isinstance(tensor, tf.RaggedTensor):
        return tensor.flat_values.numpy(), tensor.row_lengths().numpy()
    found = tensor.numpy()
    if column.lengths is None:
        return found
    there = np.arange(found.shape[1])[None] < lengths.numpy()[:, None]
    return found[there], lengths.numpy()
