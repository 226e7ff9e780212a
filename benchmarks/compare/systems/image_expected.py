"""The task over the images, and its expected results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks.compare.tasks import Order, Pair, Timing, expect, timed
from benchmarks.image_data import IMAGE_BATCH, SIDE, ImageFiles

TOLERANCE = 3.0  # of a mean colour from 0 to 255: decoders differ by rounding, other images by far more


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTask:
    """Read every image once, as ``uint8 (n, 256, 256, 3)`` in RGB, with its number.

    Attributes:
        epoch: Starts an epoch: an iterable of (pixels, numbers).
        files: The pictures.
        order: The required order.
        exact: Whether pixels must equal simplejpeg's.
    """

    epoch: Callable[[], Iterable[Pair]]
    files: ImageFiles
    order: Order = "file"
    exact: bool = False

    def check(self) -> None:
        """Shape, dtype, the mean colour of every picture, every number, and the order."""
        numbers = []
        for pixels, labels in self.epoch():
            images, found = np.asarray(pixels), np.array(labels).reshape(-1)  # a copy: some systems reuse their memory
            expect(images.dtype == np.uint8 and images.shape[1:] == (SIDE, SIDE, 3), "uint8 pixels of 256 x 256 x 3")
            expect(len(images) == len(found) <= IMAGE_BATCH, "batches of 64")
            far = np.abs(images.mean(axis=(1, 2)) - self.files.means[found]).max()
            expect(far < TOLERANCE, f"the picture of each number, found a mean colour {far:.1f} away")
            if self.exact:
                self._check_pixels(images[0], int(found[0]))
            numbers.append(found)
        together = np.concatenate(numbers)
        expect(np.array_equal(np.sort(together), np.arange(self.files.count)), "every picture exactly once")
        in_order = np.array_equal(together, np.arange(self.files.count))
        expect(in_order == (self.order == "file"), f"the order: {self.order}")

    def _check_pixels(self, image: np.ndarray, number: int) -> None:
        import simplejpeg

        expect(np.array_equal(image, simplejpeg.decode_jpeg(self.files.encoded[number])), "simplejpeg's pixels")

    def run(self) -> Timing:
        """Iterate, counting images only."""
        return timed(self.epoch, self.files.count)
