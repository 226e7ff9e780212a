"""Images: stored as encoded files, decoded to arrays."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace import _optional
from headrace._numbers import fill_masked
from headrace.datasets.features.base import BYTES, DtypeLike, LeafFeature, Stored, shape_json
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.pixels import decode_images
from headrace.errors import UnsupportedData, Where
from headrace.io.faults import name_in_errors

__all__ = ["Image", "LabeledImage"]

FORMATS = {"png": (1, 2, 3, 4), "jpeg": (1, 3)}
DTYPES = ("uint8", "uint16", "float32")


class Image(LeafFeature):
    """An image of ``(height, width, channels)``, or an animation of ``(frames, height, width, 3)``.

    Args:
        shape: Axis lengths, ``None`` for varying axes.
        dtype: ``"uint8"``; ``"uint16"`` for 16-bit PNG files; ``"float32"`` for one channel whose bytes are the four
            channels of a PNG.
        encoding_format: ``"png"`` or ``"jpeg"``: the encoding of arrays. Files are stored unchanged.
        use_colormap: Whether viewers should apply a colour map.
        description, value_range: Text.

    Raises:
        ValueError: The arguments contradict each other.

    >>> Image(shape=(28, 28, 1)).dtype
    dtype('uint8')
    """

    class_name = "image_feature.Image"

    def __init__(
        self,
        *,
        shape: Sequence[int | None] | None = None,
        dtype: DtypeLike | None = None,
        encoding_format: str | None = None,
        use_colormap: bool = False,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(
            shape=(None, None, 3) if shape is None else shape,
            dtype="uint8" if dtype is None else dtype,
            description=description,
            value_range=value_range,
        )
        if len(self.shape) not in (3, 4) or self.shape[-1] not in (1, 2, 3, 4, 0, None):
            raise ValueError(f"an image is (height, width, channels) with 1 to 4 channels, got {self.shape}")
        if self.declared_dtype not in DTYPES or (encoding_format == "jpeg" and self.declared_dtype != "uint8"):
            raise ValueError(f"an image is of {' or '.join(DTYPES)} (a JPEG of uint8), got {self.declared_dtype}")
        if encoding_format not in (None, "", *FORMATS):
            raise ValueError(f"encoding_format must be one of {tuple(FORMATS)}, got {encoding_format!r}")
        if self.declared_dtype == "float32" and self.shape[-1] != 1:
            raise ValueError(f"a float image has one channel, got shape {self.shape}")
        self.encoding_format: str | None = encoding_format or None
        self.use_colormap = use_colormap

    @property
    def schema_options(self) -> dict[str, Any]:
        """Arguments of a schema's feature besides dtype and shape."""
        return (
            {}
            if self.declared_dtype == "float32" or len(self.shape) != 3
            else {"encoding": self.encoding_format or "image"}
        )

    @property
    def stored(self) -> dict[str, Stored]:
        return {"": Stored(dtype=BYTES)}

    @property
    def varies(self) -> bool:
        return None in self.shape

    def decode(self, parts: list[Any]) -> Any:
        if self.declared_dtype == "float32":
            return _as_floats(decode_images(list(parts[0]), (*self.shape[:-1], 4), "uint8"))
        return decode_images(list(parts[0]), self.shape, self.declared_dtype)

    def encode_example(self, value: Any) -> bytes:
        """Encode a value as the bytes of an image file.

        Args:
            value: An array, the bytes of an image file, a path, an open file, or a ``PIL.Image``.
        """
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, (str, os.PathLike)):
            with name_in_errors(os.fspath(value)):
                return Path(value).read_bytes()
        if isinstance(value, np.ndarray):
            return self._encode_array(fill_masked(value))
        if hasattr(value, "read"):
            return bytes(value.read())
        if hasattr(value, "save"):
            return _save(value, self.encoding_format or "png")
        raise self.misfit(type(value).__name__, expected="an array, image file, path, open file or PIL.Image")

    def _encode_array(self, array: npt.NDArray[Any]) -> bytes:
        fits = array.ndim == len(self.shape) and all(
            a in (None, b) for a, b in zip(self.shape, array.shape, strict=True)
        )
        if not fits or array.dtype.name != self.declared_dtype:
            raise self.misfit(f"{array.dtype} of shape {array.shape}")
        if array.ndim != 3:
            raise UnsupportedData(
                Where(), expected="the bytes of an animation's file", found=f"an array of shape {array.shape}"
            )
        if self.declared_dtype == "float32":
            array = np.ascontiguousarray(array).view(np.uint8)
        return _encode(array, self.encoding_format or "png")

    def content(self) -> tuple[str, dict[str, Any]]:
        out: dict[str, Any] = {"shape": shape_json(self.shape), "dtype": self.declared_dtype}
        if self.encoding_format:
            out["encodingFormat"] = self.encoding_format
        if self.use_colormap:
            out["useColormap"] = True
        return "image", out

    def _parameters(self) -> Mapping[str, Any]:
        out = dict(super()._parameters())
        if self.encoding_format:
            out["encoding_format"] = self.encoding_format
        return out


class LabeledImage(Image):
    """An image whose pixels are classes: segmentation.

    Args:
        labels: Names of the classes, a text file of them, or their number; ``None`` if unknown.
        shape: One channel; by default ``(None, None, 1)``.
        dtype, encoding_format, description, value_range: As in :class:`Image`.
    """

    class_name = "labeled_image.LabeledImage"

    def __init__(
        self,
        *,
        labels: int | Iterable[str] | os.PathLike[str] | None = None,
        shape: Sequence[int | None] | None = None,
        dtype: DtypeLike | None = None,
        encoding_format: str | None = None,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(
            shape=(None, None, 1) if shape is None else shape,
            dtype=dtype,
            encoding_format=encoding_format,
            use_colormap=True,
            description=description,
            value_range=value_range,
        )
        if self.shape[-1] != 1:
            raise ValueError(f"an image of classes has one channel, got shape {self.shape}")
        self.label: ClassLabel = _label_of(labels)
        """The classes, as a :class:`ClassLabel`."""

    @property
    def num_classes(self) -> int | None:
        """Number of classes; ``None`` if unknown."""
        return self.label.num_classes

    @property
    def names(self) -> list[str]:
        """Names of the classes, in order."""
        return self.label.names

    def label_files(self, key: str) -> Iterator[tuple[str, ClassLabel]]:
        return self.label.label_files(key)

    def content(self) -> tuple[str, dict[str, Any]]:
        field, out = super().content()
        return field, {**out, "label": self.label.content()[1]}


def _label_of(labels: int | Iterable[str] | os.PathLike[str] | None) -> ClassLabel:
    if labels is None or isinstance(labels, int):
        return ClassLabel(num_classes=labels)
    if isinstance(labels, (str, os.PathLike)):
        return ClassLabel(names_file=Path(labels))
    return ClassLabel(names=labels)


def _as_floats(pixels: Any) -> Any:
    if isinstance(pixels, list):
        return [np.ascontiguousarray(image).view(np.float32) for image in pixels]
    return np.ascontiguousarray(pixels).view(np.float32)


def _encode(array: npt.NDArray[Any], encoding: str) -> bytes:
    pillow = _optional.require("PIL.Image", extra="images")
    plain = np.ascontiguousarray(array[..., 0] if array.shape[-1] == 1 else array)
    if plain.dtype == np.uint16 and plain.ndim == 3:
        raise UnsupportedData(
            Where(),
            expected="one channel for 16-bit pixels",
            found=f"an array of shape {array.shape}",
            hint="Pass the bytes of a PNG file instead.",
        )
    modes = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
    mode = "I;16" if plain.dtype == np.uint16 else modes[array.shape[-1]]
    image = pillow.frombytes(
        mode, (array.shape[1], array.shape[0]), plain.astype(plain.dtype.newbyteorder("<")).tobytes()
    )
    return _save(image, encoding)


def _save(image: Any, encoding: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=encoding, **({"quality": 95} if encoding == "jpeg" else {}))
    return buffer.getvalue()
