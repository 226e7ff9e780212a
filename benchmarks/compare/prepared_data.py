"""Datasets that TensorFlow Datasets prepares with its own builder: 28 x 28 PNG in the layout of Fashion-MNIST, and 256 x 256 JPEG.

``python -m benchmarks.compare.prepared_data FOLDER ROWS JPEGS`` makes them in a separate process, because it imports TensorFlow.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.data import Files
from benchmarks.image_data import SIDE, ImageFiles

CLASSES = 10
CLOTHES, PHOTOS = "bench_clothes", "bench_photos"
PHOTO_COUNT = 1_000


class PreparedFiles:
    """The prepared folders of one size, made on first use."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.rows = min(20_000, files.sizes.rows)
        self.photos = min(PHOTO_COUNT, files.sizes.images)
        self.root = files.folder / "prepared"

    @property
    def folder(self) -> Path:
        """The ``data_dir``."""
        if not (self.root / "done").exists():
            images = ImageFiles(self.files)
            arguments = [str(self.root), str(self.rows), *images.paths[: self.photos]]
            subprocess.run([sys.executable, "-m", __name__, *arguments], check=True, capture_output=True)
            (self.root / "done").touch()
        return self.root

    def clothes(self) -> np.ndarray:
        """The pixels of the PNG files, uint8 (rows, 28, 28, 1)."""
        return clothes(self.rows)

    def photo(self, index: int) -> np.ndarray:
        """The pixels of a JPEG as Pillow decodes them."""
        from PIL import Image

        return np.asarray(Image.open(ImageFiles(self.files).paths[index]).convert("RGB"))


def clothes(rows: int) -> np.ndarray:
    """Images that compress about as well as Fashion-MNIST: a textured shape on black."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[:28, :28]
    out = np.empty((rows, 28, 28, 1), np.uint8)
    for i in range(rows):
        body = np.clip(255 - 9 * np.hypot(y - 14, (x - 14) * (1 + i % 5 / 4)), 0, 255)
        out[i, ..., 0] = (body * (body > 30) + rng.integers(0, 24, (28, 28)) * (body > 30)) % 256
    return out


def _make(root: Path, rows: int, jpegs: list[str]) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow_datasets as tfds

    def prepare(dataset: str, shape: tuple[int, ...], encoding: str, pictures: list[object]) -> None:
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=shape, encoding_format=encoding),
                "label": tfds.features.ClassLabel(num_classes=CLASSES),
            }
        )

        class Made(tfds.core.GeneratorBasedBuilder):
            name = dataset
            VERSION = tfds.core.Version("1.0.0")
            pkg_dir_path = root

            def _info(self) -> object:
                return self.dataset_info_from_configs(
                    features=features, supervised_keys=("image", "label"), disable_shuffling=True
                )

            def _split_generators(self, dl_manager: object) -> dict[str, object]:  # noqa: ARG002
                return {"train": self._generate_examples()}

            def _generate_examples(self) -> object:
                for i, picture in enumerate(pictures):
                    yield i, {"image": picture, "label": i % CLASSES}

        Made(data_dir=str(root), file_format="array_record").download_and_prepare()

    root.mkdir(parents=True, exist_ok=True)
    prepare(CLOTHES, (28, 28, 1), "png", list(clothes(rows)))
    prepare(PHOTOS, (SIDE, SIDE, 3), "jpeg", list(jpegs))


if __name__ == "__main__":
    _make(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
