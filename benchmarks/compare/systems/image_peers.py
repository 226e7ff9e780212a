"""The peers over the images, each in its fastest form and as in its tutorial."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.compare.systems.image_expected import ImageTask
from benchmarks.compare.tasks import Pair
from benchmarks.data import Files
from benchmarks.image_data import IMAGE_BATCH, SIDE, ImageFiles


def tf_records(files: Files) -> ImageTask:
    """tf.data over the TFRecord file: parallel map, AUTOTUNE, prefetch."""
    import tensorflow as tf

    images = ImageFiles(files)
    spec = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}

    def parse(record):
        example = tf.io.parse_single_example(record, spec)
        return tf.ensure_shape(tf.io.decode_jpeg(example["image"], channels=3), (SIDE, SIDE, 3)), example["label"]

    data = tf.data.TFRecordDataset(str(images.tfrecord)).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    batches = data.batch(IMAGE_BATCH).prefetch(tf.data.AUTOTUNE)
    return ImageTask(epoch=lambda: batches, files=images)


def tf_files(files: Files) -> ImageTask:
    """tf.data over the CSV and the files: parallel map, AUTOTUNE, prefetch."""
    import tensorflow as tf

    images = ImageFiles(files)

    def parse(path, label):
        return tf.ensure_shape(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), (SIDE, SIDE, 3)), label

    paths = tf.data.Dataset.from_tensor_slices((images.paths, list(range(images.count))))
    batches = paths.map(parse, num_parallel_calls=tf.data.AUTOTUNE).batch(IMAGE_BATCH).prefetch(tf.data.AUTOTUNE)
    return ImageTask(epoch=lambda: batches, files=images)


def torch_pillow(files: Files) -> ImageTask:
    """torch's DataLoader with two workers, each file opened by Pillow."""
    import numpy as np
    import torch
    from PIL import Image

    images = ImageFiles(files)
    paths = images.paths

    class Pictures(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, index):
            with Image.open(paths[index]) as image:
                return np.array(image.convert("RGB")), index

    loader = torch.utils.data.DataLoader(Pictures(), batch_size=IMAGE_BATCH, num_workers=2)

    def epoch() -> Iterator[Pair]:
        yield from loader

    return ImageTask(epoch=epoch, files=images)
