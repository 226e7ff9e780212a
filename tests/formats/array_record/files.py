"""ArrayRecord files for tests."""

import base64
import json
from pathlib import Path

import numpy as np

from headrace.formats.array_record.write import ArrayRecordWriter

FOLDER = Path(__file__).resolve().parents[2] / "golden" / "array_record"
GOLDENS = sorted(FOLDER.glob("*.array_record"))
CODECS = ("none", "zstd", "brotli", "snappy")


def noted(path):
    """The records of a golden file, from the reference reader."""
    note = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
    return [base64.b64decode(example["b64"]) for example in note["examples"]]


def write(path, payloads, **options):
    """A file of these payloads; its name."""
    with ArrayRecordWriter(path, **options) as writer:
        writer.write_many(payloads)
    return str(path)


def some_payloads(count=100, *, seed=0, most=300):
    """Records of all sizes up to ``most``, half of them easy to compress."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, most, count).tolist()
    return [rng.bytes(size) if number % 2 else bytes([number % 256]) * size for number, size in enumerate(sizes)]
