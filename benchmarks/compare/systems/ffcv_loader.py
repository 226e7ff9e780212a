"""FFCV over its own file of the images, in a separate environment (`setup_peers.sh`)."""

from __future__ import annotations

from pathlib import Path

from benchmarks.compare.systems.image_expected import ImageTask
from benchmarks.data import Files
from benchmarks.image_data import IMAGE_BATCH, ImageFiles

QUALITY = 90


def sequential(files: Files) -> ImageTask:
    """``ffcv.Loader`` with two workers over JPEGs of quality 90, which FFCV encodes from the decoded images."""
    from ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import ToTensor

    images = ImageFiles(files)
    loader = Loader(
        str(_written(images)),
        batch_size=IMAGE_BATCH,
        num_workers=2,
        order=OrderOption.SEQUENTIAL,
        os_cache=True,
        drop_last=False,
        pipelines={"image": [SimpleRGBImageDecoder(), ToTensor()], "label": [IntDecoder(), ToTensor()]},
    )
    return ImageTask(epoch=lambda: loader, files=images)


def _written(images: ImageFiles) -> Path:
    """The images as FFCV's file, made on first use. Their numbers are the labels."""
    path = images.root.parent / "all.beton"
    if not path.exists():
        from ffcv.fields import IntField, RGBImageField
        from ffcv.writer import DatasetWriter

        fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=QUALITY), "label": IntField()}
        unfinished = path.with_suffix(".tmp")
        DatasetWriter(str(unfinished), fields, num_workers=2).from_indexed_dataset(_Pictures(images.paths))
        unfinished.replace(path)
    return path


class _Pictures:
    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[object, int]:
        import numpy as np
        from PIL import Image

        with Image.open(self.paths[index]) as image:
            return np.array(image.convert("RGB")), index
