"""Write tests/golden/tfrecord/keys.tfrecord, and what TensorFlow reads from it with SparseFeature and RaggedFeature.

Run once, in a separate environment: pip install tensorflow-cpu; python tools/golden_keys.py tests/golden/tfrecord
"""

import base64
import json
import random
import sys
from pathlib import Path

import tensorflow as tf

RAGGED = tf.io.RaggedFeature
RECORDS = 12


def feature(key, values):
    if key == "texts":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if key in ("weight", "pairs"):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def record(chance, number):
    """Ten cells of a sparse vector, cells of a sparse matrix, and values in rows of rows. Every third one lacks some keys."""
    out = {}
    count = number % 5
    cells = [chance.randrange(10) for _ in range(count)]  # in any order, some of them twice
    out["cell"], out["weight"] = cells, [chance.randrange(100) / 8 for _ in range(count)]
    out["row"], out["column"] = [chance.randrange(3) for _ in range(count)], [chance.randrange(4) for _ in range(count)]
    out["number"] = [chance.randrange(-5, 5) for _ in range(count)]
    inner = [chance.randrange(4) for _ in range(number % 4 * 2)]  # rows, an even number of them
    outer = cut(chance, len(inner))
    total = sum(inner)
    out["values"], out["texts"] = [chance.randrange(100) for _ in range(total)], [b"t%d" % i for i in range(total)]
    out["more"] = out["values"]
    ends = [sum(inner[: i + 1]) for i in range(len(inner))]
    out["lengths"], out["limits"], out["splits"] = inner, ends, [0, *ends]
    out["starts"] = [0, *ends][: len(inner)]
    out["outer_splits"] = [sum(outer[:i]) for i in range(len(outer) + 1)]
    out["ids"] = sorted(chance.randrange(4) for _ in range(total))
    out["pairs"] = [chance.randrange(100) / 4 for _ in range(number % 3 * 6)]
    if number % 6 == 0:  # nothing, or empty lists
        out = {key: [] for key in ("cell", "weight", "values", "splits")} if number % 12 else {}
    return {key: values for key, values in out.items() if values or number % 2}


def cut(chance, total):
    lengths = []
    while sum(lengths) < total:
        lengths.append(chance.randrange(min(3, total - sum(lengths)) + 1))
    return lengths


def features():
    return {
        "sparse": tf.io.SparseFeature("cell", "weight", tf.float32, 10),
        "matrix": tf.io.SparseFeature(["row", "column"], "number", tf.int64, [3, 4]),
        "flat": RAGGED(tf.int64, "values"),
        "by_lengths": RAGGED(tf.int64, "values", [RAGGED.RowLengths("lengths")]),
        "by_limits": RAGGED(tf.int64, "values", [RAGGED.RowLimits("limits")]),
        "by_starts": RAGGED(tf.int64, "more", [RAGGED.RowStarts("starts")], row_splits_dtype=tf.int64),
        "by_splits": RAGGED(tf.string, "texts", [RAGGED.RowSplits("splits")], validate=True),
        "by_ids": RAGGED(tf.int64, "values", [RAGGED.ValueRowIds("ids")]),
        "nested": RAGGED(tf.int64, "values", [RAGGED.RowSplits("outer_splits"), RAGGED.RowLengths("lengths")]),
        "two_rows": RAGGED(tf.int64, "values", [RAGGED.UniformRowLength(2), RAGGED.RowLengths("lengths")]),
        "by_two": RAGGED(tf.float32, "pairs", [RAGGED.UniformRowLength(2)]),
        "by_three_by_two": RAGGED(tf.float32, "pairs", [RAGGED.UniformRowLength(3), RAGGED.UniformRowLength(2)]),
    }


def plain(value):
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def reported(value):
    """Nested lists of ragged values; the positions, values and shape of sparse ones."""
    if isinstance(value, tf.SparseTensor):
        return {
            "indices": value.indices.numpy().tolist(),
            "values": value.values.numpy().tolist(),
            "shape": value.dense_shape.numpy().tolist(),
        }
    return plain(value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist())


def main(folder):
    chance = random.Random(11)
    payloads = [
        tf.train.Example(
            features=tf.train.Features(feature={k: feature(k, v) for k, v in record(chance, i).items()})
        ).SerializeToString(deterministic=True)
        for i in range(RECORDS)
    ]
    with tf.io.TFRecordWriter(str(folder / "keys.tfrecord")) as writer:
        for payload in payloads:
            writer.write(payload)
    batch = {name: reported(value) for name, value in tf.io.parse_example(payloads, features()).items()}
    single = {name: [] for name in features()}
    for payload in payloads:
        for name, spec in features().items():
            try:
                single[name].append(reported(tf.io.parse_single_example(payload, {name: spec})[name]))
            except (tf.errors.InvalidArgumentError, ValueError):  # by row_splits of an example that has none
                single[name].append("error")
    expected = {"records": RECORDS, "batch": batch, "single": single}
    (folder / "keys.tfrecord.json").write_text(json.dumps(expected, indent=None, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
