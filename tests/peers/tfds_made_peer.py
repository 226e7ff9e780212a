"""Asks the real TensorFlow Datasets about folders that we prepared. Usage: python tfds_made_peer.py JOB FOLDER. Prints JSON."""

import contextlib
import json
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

F = tfds.features


def describe(folder):
    """Its builder's information about a folder, and the examples that its TensorFlow path reads."""
    made = tfds.builder_from_directory(folder)
    out = {
        "name": made.info.name,
        "version": str(made.info.version),
        "description": made.info.description,
        "citation": made.info.citation,
        "homepage": made.info.homepage,
        "supervised": made.info.supervised_keys,
        "download_size": int(made.info.download_size or 0),
        "splits": {},
    }
    for name, split in made.info.splits.items():
        rows = [plain(row) for row in examples(made, name)]
        out["splits"][name] = {
            "examples": split.num_examples,
            "lengths": split.shard_lengths,
            "bytes": split.num_bytes,
            "rows": rows,
            "half": len(examples(made, f"{name}[:50%]")),
        }
        if made.info.supervised_keys and is_tfrecord(made):
            pair = next(iter(made.as_dataset(split=name, as_supervised=True)))
            out["splits"][name]["pair"] = len(pair)
    out["labels"] = {key: f.names for key, f in made.info.features.items() if isinstance(f, F.ClassLabel)}
    return out


def is_tfrecord(made):
    return made.info.file_format.value == "tfrecord"


def examples(made, split):
    """In the order of the files; TFDS's TensorFlow path does not know ArrayRecord."""
    if not is_tfrecord(made):
        return list(made.as_data_source(split=split))
    config = tfds.ReadConfig(interleave_cycle_length=1)
    return list(tfds.as_numpy(made.as_dataset(split=split, read_config=config)))


def plain(value):
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, tf.RaggedTensor):
        return value.to_list()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    array = np.asarray(value)
    return [plain(item) for item in array] if array.dtype == object and array.ndim else array.tolist()


class Made(tfds.core.GeneratorBasedBuilder):
    """The same examples that the test makes."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {
            "id": F.Scalar(np.int64),
            "label": F.ClassLabel(names=["a", "b", "ü"]),
            "words": F.Sequence(F.Text()),
            "deep": {"x": F.Scalar(np.float32), "text": F.Text()},
        }
        return tfds.core.DatasetInfo(builder=self, features=F.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(100, ""), "test": self._generate_examples(17, "key/")}

    def _generate_examples(self, count, prefix):
        for i in range(count):
            words = [f"w{j}" for j in range(i % 4)]
            row = {"id": i, "label": i % 3, "words": words, "deep": {"x": i / 4, "text": f"text {i} é"}}
            yield f"{prefix}{i}" if prefix else i, row


def make(folder):
    """Let TFDS itself prepare them; its files by name."""
    made = Made(data_dir=folder)
    made.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=3))
    return str(Path(made.data_dir))


JOBS = {"describe": describe, "make": make}

if __name__ == "__main__":
    job, folder, *rest = sys.argv[1:]
    with contextlib.redirect_stdout(sys.stderr):
        answer = JOBS[job](folder, *rest)
    print(json.dumps(answer))
