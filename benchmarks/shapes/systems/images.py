"""The peers over images besides tf.data: bare decoding in two threads, and FFCV."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.shapes.files import ShapeFiles
from benchmarks.shapes.reading import Reading


def bare(files: ShapeFiles) -> Reading:
    """``simplejpeg.decode_jpeg`` of bytes in memory, in two threads, each into a batch that is used again."""
    import simplejpeg

    encoded, size = files.encoded, files.shape.batch
    order = np.random.default_rng(1).permutation(files.rows) if files.shape.shuffled else np.arange(files.rows)
    name, image = next((name, column) for name, column in files.shape.names if column.is_image)
    key = next(name for name, column in files.shape.names if column.kind == "k")
    batches = np.empty((2, size, *image.shape[:2], 3), np.uint8)
    starts = range(0, files.rows, size)

    def decode(start: int, batch: np.ndarray) -> None:
        for row, number in zip(batch, order[start : start + size].tolist(), strict=False):
            simplejpeg.decode_jpeg(encoded[number], "RGB", buffer=row)

    def decode_all(mine: range, batch: np.ndarray) -> None:
        for start in mine:
            decode(start, batch)

    def epoch() -> Iterator[int]:
        threads = [threading.Thread(target=decode_all, args=(starts[k::2], batches[k])) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield from starts

    def columns(start: int) -> dict[str, Any]:
        decode(start, batches[0])
        numbers = order[start : start + size]
        return {name: batches[0, : len(numbers)], key: numbers}

    return Reading(files=files, epoch=epoch, columns=columns)


def ffcv_crops(files: ShapeFiles) -> Reading:
    """``ffcv.Loader`` with two workers over its own file: RandomResizedCropRGBImageDecoder, RandomHorizontalFlip."""
    from ffcv.fields.decoders import IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, ToTensor

    name = next(name for name, column in files.shape.names if column.is_image)
    key = next(name for name, column in files.shape.names if column.kind == "k")
    side = files.shape.crop
    pixels = [RandomResizedCropRGBImageDecoder((side, side)), RandomHorizontalFlip(), ToTensor()]
    loader = Loader(
        str(_written(files)),
        batch_size=files.shape.batch,
        num_workers=2,
        order=OrderOption.RANDOM if files.shape.shuffled else OrderOption.SEQUENTIAL,
        os_cache=True,
        drop_last=False,
        pipelines={"image": pixels, "label": [IntDecoder(), ToTensor()]},
    )

    def columns(batch: Any) -> dict[str, Any]:
        return {name: batch[0].numpy(), key: batch[1].numpy().reshape(-1)}

    return Reading(files=files, epoch=lambda: loader, columns=columns)


def _written(files: ShapeFiles) -> Any:
    """The images as FFCV's file of JPEGs, made on first use, which FFCV encodes again at quality 90."""
    path = files.root / "images.beton"
    if not path.exists():
        from ffcv.fields import IntField, RGBImageField
        from ffcv.writer import DatasetWriter

        fields = {"image": RGBImageField(write_mode="jpg", jpeg_quality=90), "label": IntField()}
        DatasetWriter(str(path), fields, num_workers=1).from_indexed_dataset(_Pictures(files.encoded))
    return path


class _Pictures:
    def __init__(self, encoded: list[bytes]) -> None:
        self.encoded = encoded

    def __len__(self) -> int:
        return len(self.encoded)

    def __getitem__(self, index: int) -> tuple[object, int]:
        import io

        from PIL import Image

        return np.array(Image.open(io.BytesIO(self.encoded[index])).convert("RGB")), index
