"""The datasets that TFDS prepares for the benchmarks, made without it: same names, features and files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from benchmarks.compare.prepared_data import CLASSES, CLOTHES, PHOTOS, PreparedFiles
from benchmarks.data import Files
from benchmarks.image_data import SIDE, ImageFiles

import headrace as hr
from headrace.datasets.codec import FeaturesEncoder
from headrace.datasets.features import ClassLabel, FeaturesDict, Image


def prepare(files: Files) -> None:
    """Put both datasets where the benchmarks look before they call TFDS."""
    wanted = PreparedFiles(files)
    photos = (Path(path).read_bytes() for path in ImageFiles(files).paths[: wanted.photos])
    _make(wanted.root / CLOTHES, (28, 28, 1), "png", wanted.clothes())
    _make(wanted.root / PHOTOS, (SIDE, SIDE, 3), "jpeg", photos)
    (wanted.root / "done").touch()


def _make(root: Path, shape: tuple[int, ...], encoding: str, pictures: Iterable[object]) -> None:
    image = Image(shape=shape, encoding_format=encoding)
    features = FeaturesDict({"image": image, "label": ClassLabel(num_classes=CLASSES)})
    encode = FeaturesEncoder(features).encode
    payloads = [encode({"image": picture, "label": i % CLASSES}) for i, picture in enumerate(pictures)]
    folder = root / "1.0.0"
    folder.mkdir(parents=True)
    hr.write_records(folder / f"{root.name}-train.array_record-00000-of-00001", payloads, format="array_record")
    split = {"name": "train", "shardLengths": [str(len(payloads))], "numBytes": "0"}
    about = {"name": root.name, "version": "1.0.0", "fileFormat": "array_record", "splits": [split]}
    (folder / "dataset_info.json").write_text(json.dumps(about))
    (folder / "features.json").write_text(json.dumps(features.to_json()))
