"""Every example runs on data that it creates, and leaves nothing behind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import clusters
from tests.io.store_server import environment, serving_store

from headrace.datasets.building import DatasetBuilder
from headrace.datasets.features import ClassLabel, Image

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
ON_RAY = "ray_pipeline.py"
"""Needs a bucket."""
PATIENCE_S = 300  # the machine may be busy


def needed(path):
    """Modules that an example needs beyond the extra ``test``."""
    text = path.read_text(encoding="utf-8")
    return [name for name in ("torch", "jax") if f"\nimport {name}\n" in text]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.name, marks=[getattr(pytest.mark, name) for name in needed(path)])
        for path in EXAMPLES
        if path.name != ON_RAY
    ],
)
def test_example_runs(path, tmp_path, monkeypatch):
    for name in needed(path):
        pytest.importorskip(name)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "datasets"))
    monkeypatch.setenv("HOME", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-W", "error", path], cwd=work, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == ""
    assert list(work.iterdir()) == []


@pytest.mark.ray
def test_the_pipeline_on_ray(tmp_path, monkeypatch):
    """From images in a bucket to an endpoint with two replicas, on a Ray of its own."""
    for name in ("ray", "torch", "obstore"):
        pytest.importorskip(name)
    clusters.local.close()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("HEADRACE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    work = tmp_path / "work"
    work.mkdir()
    path = next(path for path in EXAMPLES if path.name == ON_RAY)
    with serving_store() as store:
        for name, value in environment("s3", store.url).items():
            monkeypatch.setenv(name, value)
        done = subprocess.run(
            [sys.executable, path, "s3://bucket/demo"],
            cwd=work,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
            check=False,
        )
        shards = [key for key in store.objects if key.startswith("demo/pictures.tfrecord-")]
        hidden = [key for key in store.objects if "/." in key]
    assert done.returncode == 0, done.stderr
    converted, counted, described, trained, answered = done.stdout.strip().splitlines()
    assert converted == "converted 512 pictures to 64 shards"
    assert counted == "all 512 examples were read"
    assert described.startswith("label: 512 values, 0 to 3")
    assert trained == "each of two workers read 5120 pictures"
    assert re.fullmatch(r"two replicas: (9\d|100) of 100 pictures recognised", answered)
    assert (len(shards), hidden) == (64, [])
    assert list(work.iterdir()) == []


@pytest.mark.torch
def test_the_classifier_learns_from_a_prepared_dataset(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    chance = np.random.default_rng(0)
    rows = [{"image": chance.integers(0, 100, (28, 28, 1), np.uint8), "label": i % 10} for i in range(600)]
    for row in rows:
        row["image"][row["label"] * 2] = 255  # the position of the bright line is the class
    features = {"image": Image(shape=(28, 28, 1)), "label": ClassLabel(num_classes=10)}
    splits = {"train": rows[:500], "test": rows[500:]}
    made = DatasetBuilder(name="fashion_mnist", version="3.0.1", features=features, splits=splits)
    made.download_and_prepare(data_dir=tmp_path)
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    example = next(path for path in EXAMPLES if path.name == "train_torch.py")
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("fashion_mnist, headrace.Loader: ")


def test_there_are_examples():
    assert len(EXAMPLES) >= 4
