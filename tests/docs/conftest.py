"""The files that the pages use."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

import headrace as hr
from headrace.formats import registry


@pytest.fixture
def prepared_files(tmp_path, monkeypatch):
    """Prepare the working directory with the files of the pages. Returns the names that the README assumes."""
    monkeypatch.setattr(registry, "_registered", {})  # A page registers a format.
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    folder = tmp_path / "pages"
    (folder / "shards").mkdir(parents=True)
    monkeypatch.chdir(folder)
    image = np.random.default_rng(0).random((1000, 64), np.float32)
    label = np.arange(1000) % 10
    for name in ("train.tfrecord", "train.tfrecord.gz", "shards/train.tfrecord@4"):
        hr.write(name, {"image": image, "label": label})
    prepared = Path(__file__).resolve().parents[1] / "golden" / "tfds"
    shutil.copytree(prepared / "tfrecord", "tensorflow_datasets")
    shutil.copytree(prepared / "features" / "episodes", "tensorflow_datasets/episodes")
    monkeypatch.setenv("TFDS_DATA_DIR", str(folder / "tensorflow_datasets"))
    pixels = np.random.default_rng(1).integers(0, 256, (20, 32, 48, 3), np.uint8)
    for i, name in enumerate(["cat", "dog"] * 10):
        (folder / "pets" / name).mkdir(parents=True, exist_ok=True)
        (folder / "pets" / name / f"{i}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels[i]))
    np.save("images.npy", image)
    np.save("labels.npy", label)
    return {"images": image, "labels": label, "train": lambda images, labels: None}
