"""The golden files and the results of their reference readers."""

import json
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
TFRECORD = GOLDEN / "tfrecord"
NPY = GOLDEN / "npy"

SOUND = sorted(
    path
    for path in TFRECORD.glob("*.tfrecord*")
    if path.suffix != ".json" and "damaged" not in json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
)
DAMAGED = sorted(path for path in TFRECORD.glob("*.tfrecord*") if path.suffix != ".json" and path not in SOUND)


def noted(path):
    """The JSON beside a golden file."""
    return json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
