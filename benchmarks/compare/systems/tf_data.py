"""tf.data and TensorFlow's writer, as in tutorials and in their fastest form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Pair, ReadTask, WriteTask
from benchmarks.data import BATCH, ROW_BYTES, WIDTH, Files

_AUTOTUNE = tf.data.AUTOTUNE
_SPEC = {"image": tf.io.FixedLenFeature([WIDTH], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}


def tutorial(files: Files) -> ReadTask:
    """``map(parse_single_example).batch``."""
    data = _records(files).map(lambda record: tf.io.parse_single_example(record, _SPEC)).batch(BATCH)
    return expected.examples(files, lambda: _pairs(data))


def best(files: Files) -> ReadTask:
    """``batch.map(parse_example, AUTOTUNE).prefetch``, tensors out."""
    data = _parsed(_records(files))
    return expected.examples(files, lambda: _pairs(data))


def best_numpy(files: Files) -> ReadTask:
    """The same, arrays out."""
    data = _parsed(_records(files))
    return expected.examples(files, lambda: _pairs(data.as_numpy_iterator()))


def shuffled(files: Files) -> ReadTask:
    """The best form after a shuffle buffer that holds the whole file, tensors out."""
    data = _parsed(_records(files).shuffle(files.sizes.rows))
    return expected.examples(files, lambda: _pairs(data), "shuffled")


def shuffled_numpy(files: Files) -> ReadTask:
    """The same, arrays out."""
    data = _parsed(_records(files).shuffle(files.sizes.rows))
    return expected.examples(files, lambda: _pairs(data.as_numpy_iterator()), "shuffled")


def gzip(files: Files) -> ReadTask:
    """The best form over the GZIP file, tensors out."""
    data = _parsed(tf.data.TFRecordDataset(str(files.gzip), compression_type="GZIP"))
    return expected.examples(files, lambda: _pairs(data))


def gzip_numpy(files: Files) -> ReadTask:
    """The same, arrays out."""
    data = _parsed(tf.data.TFRecordDataset(str(files.gzip), compression_type="GZIP"))
    return expected.examples(files, lambda: _pairs(data.as_numpy_iterator()))


def write_tutorial(files: Files) -> WriteTask:
    """One tf.train.Example per row, the row given to FloatList as an array."""

    def write(path: Path) -> None:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for image, label in zip(files.images, files.labels, strict=True):
                writer.write(_example(image, label).SerializeToString())

    return expected.written(files, "tf-tutorial", write, any_order=True)


def write_tuned(files: Files) -> WriteTask:
    """The same with ``tolist``, which FloatList takes four times faster."""

    def write(path: Path) -> None:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for image, label in zip(files.images, files.labels, strict=True):
                writer.write(_example(image.tolist(), int(label)).SerializeToString())

    return expected.written(files, "tf-tuned", write, any_order=True)


def npy(files: Files) -> ReadTask:
    """FixedLengthRecordDataset, ``batch.map(decode_raw, AUTOTUNE).prefetch``, tensors out."""
    data = _decoded(_fixed(files))
    return expected.rows(files, lambda: ((batch, None) for batch in data))


def npy_numpy(files: Files) -> ReadTask:
    """The same, arrays out."""
    data = _decoded(_fixed(files))
    return expected.rows(files, lambda: ((batch, None) for batch in data.as_numpy_iterator()))


def npy_shuffled(files: Files) -> ReadTask:
    """The same after a shuffle buffer that holds the whole file."""
    data = _decoded(_fixed(files).shuffle(files.sizes.npy_rows))
    return expected.rows(files, lambda: ((batch, None) for batch in data.as_numpy_iterator()), "shuffled")


def npy_files(files: Files) -> ReadTask:
    """``map(numpy_function(np.load)).batch`` over file names, as tutorials do."""
    data = tf.data.Dataset.from_tensor_slices(files.npy_file_names).map(_load_by_numpy).batch(BATCH)
    return expected.files_of_rows(files, lambda: ((batch, None) for batch in data))


def npy_files_tuned(files: Files) -> ReadTask:
    """The same with AUTOTUNE and ``prefetch``."""
    names = tf.data.Dataset.from_tensor_slices(files.npy_file_names)
    data = names.map(_load_by_numpy, num_parallel_calls=_AUTOTUNE).batch(BATCH).prefetch(_AUTOTUNE)
    return expected.files_of_rows(files, lambda: ((batch, None) for batch in data))


def npy_files_raw(files: Files) -> ReadTask:
    """Without NumPy: ``read_file``, ``substr`` after a header of known length, ``decode_raw``; AUTOTUNE."""
    header = Path(files.npy_file_names[0]).stat().st_size - ROW_BYTES

    def load(path: tf.Tensor) -> tf.Tensor:
        body = tf.strings.substr(tf.io.read_file(path), header, ROW_BYTES)
        return tf.ensure_shape(tf.io.decode_raw(body, tf.float32), [WIDTH])

    names = tf.data.Dataset.from_tensor_slices(files.npy_file_names)
    data = names.map(load, num_parallel_calls=_AUTOTUNE).batch(BATCH).prefetch(_AUTOTUNE)
    return expected.files_of_rows(files, lambda: ((batch, None) for batch in data))


def _load_by_numpy(path: tf.Tensor) -> tf.Tensor:
    row = tf.numpy_function(lambda name: np.load(name.decode()), [path], tf.float32)
    return tf.ensure_shape(row, [WIDTH])


def _records(files: Files) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(str(files.tfrecord))


def _parsed(records: tf.data.Dataset) -> tf.data.Dataset:
    batches = records.batch(BATCH)
    parsed = batches.map(lambda batch: tf.io.parse_example(batch, _SPEC), num_parallel_calls=_AUTOTUNE)
    return parsed.prefetch(_AUTOTUNE)


def _fixed(files: Files) -> tf.data.Dataset:
    return tf.data.FixedLengthRecordDataset(str(files.npy), ROW_BYTES, header_bytes=files.npy_offset)


def _decoded(records: tf.data.Dataset) -> tf.data.Dataset:
    def decode(batch: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.io.decode_raw(batch, tf.float32), [None, WIDTH])

    return records.batch(BATCH).map(decode, num_parallel_calls=_AUTOTUNE).prefetch(_AUTOTUNE)


def _pairs(batches: tf.data.Dataset) -> Iterator[Pair]:
    for batch in batches:
        yield batch["image"], batch["label"]


def _example(image: object, label: object) -> tf.train.Example:
    floats = tf.train.Feature(float_list=tf.train.FloatList(value=image))
    integer = tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))
    return tf.train.Example(features=tf.train.Features(feature={"image": floats, "label": integer}))
