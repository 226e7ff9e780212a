"""Runs the real TensorFlow Datasets in its own environment: makes datasets, and prints what it reads from them.

Usage: python tfds_peer.py JOB FOLDER, where JOB is one of those at the end. Prints JSON.
"""

import base64
import contextlib
import io
import json
import os
import struct
import sys
import wave
import zlib
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import pyarrow.parquet as pq
import tensorflow as tf
import tensorflow_datasets as tfds

F = tfds.features
RNG = np.random.default_rng(5)
ROWS = 12
ENCODINGS = ("bytes", "zlib")


def pixels(*shape, dtype=np.uint8):
    return RNG.integers(0, np.iinfo(dtype).max, shape, dtype=dtype)


def smooth(h, w):
    y, x = np.mgrid[:h, :w]
    return np.stack([x * 3 % 256, y * 5 % 256, (x + y) % 256], -1).astype(np.uint8)


def wav(samples):
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(samples.astype("<i2").tobytes())
    return buffer.getvalue()


def numbers():
    """Arrays of every dtype and encoding."""
    dtypes = [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ]
    features, rows = {}, []
    for name in dtypes:
        features[name] = F.Scalar(np.dtype(name))
        features[name + "_array"] = F.Tensor(shape=(2, 3), dtype=np.dtype(name))
        features[name + "_open"] = F.Tensor(shape=(None, 2), dtype=np.dtype(name))
        for encoding in ENCODINGS if name != "uint32" else ():  # TFDS cannot read its own files of that type
            features[f"{name}_{encoding}"] = F.Tensor(shape=(3,), dtype=np.dtype(name), encoding=encoding)
            features[f"{name}_{encoding}_open"] = F.Tensor(shape=(None, None), dtype=np.dtype(name), encoding=encoding)
    for name in ("complex64", "complex128"):
        features[name] = F.Tensor(shape=(2,), dtype=np.dtype(name), encoding="bytes")
    features["bfloat16"] = F.Tensor(shape=(4,), dtype=tf.bfloat16, encoding="zlib")
    features["middle"] = F.Tensor(shape=(3, None), dtype=np.int32)
    features["one_open_zlib"] = F.Tensor(shape=(None, 2), dtype=np.int16, encoding="zlib")
    for i in range(ROWS):
        row = {}
        for name in dtypes:
            row[name] = values(name, ())[()]
            row[name + "_array"] = values(name, (2, 3))
            row[name + "_open"] = values(name, (i % 4, 2))
            for encoding in ENCODINGS if name != "uint32" else ():
                row[f"{name}_{encoding}"] = values(name, (3,))
                row[f"{name}_{encoding}_open"] = values(name, (i % 3, 2))
        row["complex64"] = (values("float32", (2,)) + 1j).astype(np.complex64)
        row["complex128"] = values("float64", (2,)) + 2j
        row["bfloat16"] = np.array([1.5, -2.0, 0.0, i], tf.bfloat16.as_numpy_dtype)
        row["middle"] = values("int32", (3, i % 4))
        row["one_open_zlib"] = values("int16", (i % 3, 2))
        rows.append(row)
    return F.FeaturesDict(features), rows, None


def values(name, shape):
    dtype = np.dtype(name)
    if dtype.kind == "b":
        return RNG.random(shape) > 0.5
    if dtype.kind == "f":
        return np.asarray(RNG.standard_normal(shape)).astype(dtype)
    limits = np.iinfo(dtype)
    return np.asarray(RNG.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True), dtype)


def kinds():
    """Every class of feature."""
    features = F.FeaturesDict(
        {
            "label": F.ClassLabel(names=["cat", "dog", "鳥"]),
            "unnamed": F.ClassLabel(num_classes=7),
            "text": F.Text(),
            "strings": F.Tensor(shape=(2,), dtype=np.object_),
            "box": F.BBoxFeature(),
            "objects": F.Sequence({"bbox": F.BBoxFeature(), "kind": F.ClassLabel(names=["a", "b"]), "name": F.Text()}),
            "image/id": np.int64,
            "deep": {"er/": {"label": F.ClassLabel(names=["x", "y"]), "v": np.float32}},
            "ids": F.Sequence(np.int32),
            "three": F.Sequence(np.float32, length=3),
            "nested": F.Sequence(F.Sequence(np.int64)),
            "nested_text": F.Sequence(F.Sequence(F.Text())),
            "nested_rows": F.Sequence(F.Sequence(F.Tensor(shape=(2,), dtype=np.float32))),
            "deepest": F.Sequence(F.Sequence(F.Sequence(np.uint8))),
            "nested_dict": F.Sequence({"inner": F.Sequence(np.int64), "n": np.int64}),
            "encoded": F.Sequence(F.Tensor(shape=(2, 2), dtype=np.int16, encoding="zlib")),
            "translation": F.Translation(["en", "fr"]),
            "languages": F.TranslationVariableLanguages(["de", "en", "fr"]),
            "audio": F.Audio(sample_rate=8000),
            "stereo": F.Audio(shape=(None, 2), dtype=np.int16),
            "maybe": F.Scalar(np.int32, optional=True),
            "maybe_array": F.Tensor(shape=(2,), dtype=np.float32, optional=True),
            "maybe_text": F.Scalar(np.object_, optional=True),
        }
    )
    rows = []
    for i in range(ROWS):
        k = i % 4
        rows.append(
            {
                "label": i % 3,
                "unnamed": i % 7,
                "text": f"例 {i}",
                "strings": [b"\xff\x00", "ü"],
                "box": F.BBox(0.1, 0.2, 0.5, 0.75),
                "objects": [{"bbox": F.BBox(0.0, 0.1 * j, 0.5, 1.0), "kind": j % 2, "name": f"b{j}"} for j in range(k)],
                "image/id": i,
                "deep": {"er/": {"label": i % 2, "v": i / 3}},
                "ids": list(range(k)),
                "three": [1.0, 2.0, float(i)],
                "nested": [list(range(j)) for j in range(k)],
                "nested_text": [[f"{i}{j}"] * j for j in range(k)],
                "nested_rows": [[[float(j), 1.0]] * j for j in range(k)],
                "deepest": [[[1, 2], []], [], [[i]]][:k],
                "nested_dict": [{"inner": [j] * (k - j), "n": j} for j in range(k)],
                "encoded": [np.full((2, 2), i + j, np.int16) for j in range(k)],
                "translation": {"en": f"the cat {i}", "fr": "le chat"},
                "languages": {"en": "cat", "fr": ["chat", "la chatte"][: 1 + i % 2]} if i else {"de": "Katze"},
                "audio": np.arange(i + 1, dtype=np.int64),
                "stereo": np.arange(2 * i, dtype=np.int16).reshape(i, 2),
                "maybe": None if i % 2 else i,
                "maybe_array": None if i % 3 else np.array([i, 1], np.float32),
                "maybe_text": None if i % 3 == 1 else f"t{i}",
            }
        )
    return features, rows, ("text", "label")


def images():
    """Images of every kind that all decoders decode alike."""
    features = F.FeaturesDict(
        {
            "png": F.Image(shape=(9, 7, 3), encoding_format="png"),
            "gray": F.Image(shape=(None, None, 1), encoding_format="png"),
            "alpha": F.Image(shape=(5, 4, 4), encoding_format="png"),
            "sixteen": F.Image(shape=(6, 5, 1), dtype=np.uint16, encoding_format="png"),
            "sixteen_colours": F.Image(shape=(None, None, 3), dtype=np.uint16, encoding_format="png"),
            "float": F.Image(shape=(None, 4, 1), dtype=np.float32, encoding_format="png"),
            "jpeg": F.Image(shape=(32, 40, 3), encoding_format="jpeg"),
            "jpeg_gray": F.Image(shape=(None, None, 1), encoding_format="jpeg"),
            "gray_as_colours": F.Image(shape=(4, 4, 3)),
            "colours_as_gray": F.Image(shape=(4, 4, 1)),
            "no_alpha": F.Image(shape=(4, 4, 3)),
            "palette": F.Image(shape=(4, 4, 3)),
            "bits": F.Image(shape=(4, 4, 1)),
            "segmentation": F.LabeledImage(labels=["a", "b", "c"], shape=(None, None, 1)),
            "video": F.Video(shape=(None, 4, 5, 3)),
            "free_video": F.Video(shape=(None, None, None, 3)),
            "frames": F.Sequence(F.Image(shape=(3, 3, 1))),
            "mixed_frames": F.Sequence({"frame": F.Image(shape=(None, None, 1), encoding_format="png"), "t": np.int64}),
            "nested_frames": F.Sequence(F.Sequence(F.Image(shape=(2, 2, 3), encoding_format="png"))),
        }
    )
    rows = []
    for i in range(ROWS):
        k = i % 3
        rows.append(
            {
                "png": pixels(9, 7, 3),
                "gray": pixels(1 + k, 5, 1),
                "alpha": pixels(5, 4, 4),
                "sixteen": pixels(6, 5, 1, dtype=np.uint16),
                "sixteen_colours": pixels(2 + k, 2, 3, dtype=np.uint16),
                "float": RNG.standard_normal((1 + k, 4, 1)).astype(np.float32),
                "jpeg": smooth(32, 40),
                "jpeg_gray": smooth(16 + k, 16)[..., :1],
                "gray_as_colours": encode(pixels(4, 4, 1)),
                "colours_as_gray": encode(pixels(4, 4, 3)),
                "no_alpha": encode(pixels(4, 4, 4)),
                "palette": palette(),
                "bits": png(1, 0, [bytes([16 * (i % 16)])] * 4),
                "segmentation": pixels(4, 1 + k, 1) % 3,
                "video": pixels(k, 4, 5, 3),
                "free_video": pixels(1 + k, 3 + k, 4, 3),
                "frames": pixels(k, 3, 3, 1),
                "mixed_frames": [{"frame": pixels(1 + k, 2, 1), "t": j} for j in range(k)],
                "nested_frames": [[pixels(2, 2, 3) for _ in range(j)] for j in range(k)],
            }
        )
    return features, rows, ("png", "sixteen")


def encode(array):
    return tf.io.encode_png(array).numpy()


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(bits, colours, rows, extra=b""):
    """A PNG file of a kind that TensorFlow does not write."""
    head = struct.pack(">IIBBBBB", 4, 4, bits, colours, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def palette():
    colours = bytes([255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30])
    table = chunk(b"PLTE", colours)
    return png(2, 3, [bytes([27]), bytes([228]), bytes([0]), bytes([255])], table)


def episodes():
    """RLDS: a dataset in each example."""
    features = F.FeaturesDict(
        {
            "steps": F.Dataset(
                {
                    "observation": {
                        "image": F.Image(shape=(4, 4, 3), encoding_format="png"),
                        "state": F.Tensor(shape=(2,), dtype=np.float32),
                    },
                    "action": np.int64,
                    "words": F.Sequence(F.Text()),
                    "reward": np.float32,
                }
            ),
            "plain": F.Dataset(np.int32),
            "id": np.int64,
        }
    )
    rows = []
    for i in range(ROWS):
        steps = [
            {
                "observation": {"image": pixels(4, 4, 3), "state": np.array([i, j], np.float32)},
                "action": j,
                "words": ["w"] * j,
                "reward": j / 2,
            }
            for j in range(i % 4)
        ]
        rows.append({"steps": steps, "plain": list(range(i % 3)), "id": i})
    return features, rows, None


def sequences():
    """A sequence at the top."""
    features = F.Sequence({"a": np.int64, "t": F.Text()})
    return features, [[{"a": j, "t": f"{i}/{j}"} for j in range(i % 4)] for i in range(ROWS)], None


def fashion():
    """Shaped as Fashion-MNIST is."""
    features = F.FeaturesDict(
        {"image": F.Image(shape=(28, 28, 1), encoding_format="png"), "label": F.ClassLabel(num_classes=10)}
    )
    y, x = np.mgrid[:28, :28]
    rows = []
    for i in range(10_000):
        body = np.clip(255 - 9 * np.hypot(y - 14, (x - 14) * (1 + i % 5 / 4)), 0, 255)
        rows.append(
            {
                "image": ((body * (body > 30) + RNG.integers(0, 24, (28, 28)) * (body > 30)) % 256).astype(np.uint8)[
                    ..., None
                ],
                "label": i % 10,
            }
        )
    return features, rows, ("image", "label")


def photos():
    """256 x 256 JPEG."""
    features = F.FeaturesDict(
        {"image": F.Image(shape=(256, 256, 3), encoding_format="jpeg"), "label": F.ClassLabel(num_classes=10)}
    )
    rows = []
    for i in range(400):
        base = tf.image.resize(RNG.random((16, 16, 3)) * 255, (256, 256), "bicubic").numpy() + RNG.normal(
            0, 6, (256, 256, 3)
        )
        rows.append({"image": np.clip(base, 0, 255).astype(np.uint8), "label": i % 10})
    return features, rows, ("image", "label")


def builder(name, make, folder, file_format):
    features, rows, supervised = make()

    class Made(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        pkg_dir_path = Path(folder)

        def _info(self):
            return self.dataset_info_from_configs(features=features, supervised_keys=supervised, disable_shuffling=True)

        def _split_generators(self, dl_manager):
            return {"train": self._generate_examples(rows), "test": self._generate_examples(rows[:5])}

        def _generate_examples(self, rows):
            yield from enumerate(rows)

    Made.__module__ = "__main__"
    Made.name = name
    made = Made(data_dir=folder, file_format=file_format)
    shards = 3 if file_format == "tfrecord" and len(rows) < 100 else 1
    made.download_and_prepare(download_config=tfds.download.DownloadConfig(num_shards=shards, verify_ssl=True))
    return made


def plain(value):
    if isinstance(value, dict):
        return {"dict": {name: plain(item) for name, item in value.items()}}
    if isinstance(value, tf.data.Dataset):
        return {"list": [plain(item) for item in value]}
    if isinstance(value, tf.RaggedTensor):
        return {"list": [plain(item) for item in value]}
    if isinstance(value, tf.Tensor):
        return plain(value.numpy())
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    array = np.asarray(value)
    if array.dtype == object:
        return {"list": [plain(item) for item in array]}
    if array.dtype == tf.bfloat16.as_numpy_dtype:
        array = array.astype(np.float32)
    return {
        "dtype": array.dtype.name,
        "shape": array.shape,
        "b64": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
    }


SETS = {f.__name__: f for f in (numbers, kinds, images, episodes, sequences, fashion, photos)}


def make(folder, name, file_format):
    builder(name, SETS[name], folder, file_format)
    return {}


def read(folder, name):
    """The result of TFDS's TensorFlow path for each record, in file order."""
    made = tfds.builder_from_directory(str(Path(folder) / name / "1.0.0"))
    decode = made.info.features.deserialize_example
    return {split: [plain(decode(record)) for record in records(made, split)] for split in ("train", "test")}


def records(made, split):
    if made.info.file_format.value == "tfrecord":
        return tf.data.TFRecordDataset([str(path) for path in made.info.splits[split].filepaths])
    if made.info.file_format.value == "parquet":  # TFDS itself gives no plain bytes
        tables = [pq.read_table(path) for path in made.info.splits[split].filepaths]
        return [payload for table in tables for payload in table["data"].to_pylist()]
    return list(made.as_data_source(split=split, deserialize_method=tfds.decode.DeserializeMethod.RAW_BYTES))


def splits(_folder, questions):
    """The result of its split language for expressions."""
    answers = []
    for sizes, question in json.loads(questions):
        infos = [
            tfds.core.SplitInfo(
                name=name,
                shard_lengths=lengths,
                num_bytes=0,
                filename_template=tfds.core.ShardedFileTemplate(
                    data_dir="/nowhere", dataset_name="x", split=name, filetype_suffix="tfrecord"
                ),
            )
            for name, lengths in sizes.items()
        ]
        known = {info.name: info for info in infos}
        try:
            kind, *rest = question
            if kind == "text":
                made = tfds.core.splits.AbstractSplit.from_spec(rest[0])
            elif kind == "instruction":
                made = tfds.core.ReadInstruction(rest[0], **rest[1])
            else:
                made = tfds.even_splits(rest[0], rest[1], drop_remainder=rest[3])[rest[2]]
            found = made.to_absolute(known)
            answers.append(
                [
                    [
                        str(part.splitname),
                        part.from_ or 0,
                        known[str(part.splitname)].num_examples if part.to is None else part.to,
                    ]
                    for part in found
                ]
            )
        except (ValueError, NotImplementedError, AssertionError) as error:
            answers.append(type(error).__name__)
    return answers


def features_of(_folder, texts):
    """The result of TFDS for features.json texts, as its own JSON."""
    out = []
    for text in json.loads(texts):
        feature = F.FeatureConnector.from_json(json.loads(text))
        out.append(json.loads(json_of(feature)))
    return out


def json_of(feature):
    from google.protobuf import json_format

    return json_format.MessageToJson(feature.to_proto(), sort_keys=True)


def decode(folder, name, payloads):
    """Its result for payloads encoded elsewhere."""
    features = tfds.builder_from_directory(str(Path(folder) / name / "1.0.0")).info.features
    return [plain(features.deserialize_example(base64.b64decode(payload))) for payload in json.loads(payloads)]


JOBS = {"make": make, "read": read, "splits": splits, "features": features_of, "decode": decode}

if __name__ == "__main__":
    job, folder, *rest = sys.argv[1:]
    if rest and rest[-1] == "-":
        rest[-1] = sys.stdin.read()
    with contextlib.redirect_stdout(sys.stderr):
        answer = JOBS[job](folder, *rest)
    print(json.dumps(answer))
