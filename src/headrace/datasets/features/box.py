"""Boxes round things in images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from headrace.datasets.features.base import shape_json
from headrace.datasets.features.tensor import Tensor

__all__ = ["BBox", "BBoxFeature"]

FORMATS = ("REL_YXYX", "YXYX", "REL_XYXY", "XYXY", "REL_XYWH", "XYWH", "REL_CYXHW", "CYXHW")


class BBox(NamedTuple):
    """A box, in the order in which it is stored."""

    ymin: float
    xmin: float
    ymax: float
    xmax: float


class BBoxFeature(Tensor):
    """A box: ``float32 (4,)``.

    Args:
        bbox_format: What the four numbers are. ``"REL_YXYX"``: ymin, xmin, ymax, xmax as parts of the image's size.
        description, value_range: In words.
    """

    class_name = "bounding_boxes.BBoxFeature"

    def __init__(self, *, bbox_format: str | None = "REL_YXYX", description: str = "", value_range: str = "") -> None:
        super().__init__(shape=(4,), dtype="float32", description=description, value_range=value_range)
        self.bbox_format = bbox_format or None

    def encode_example(self, value: Any) -> Any:
        corners = np.asarray(value, np.float64)
        relative = self.bbox_format in ("REL_YXYX", "REL_XYXY")
        if corners.shape != (4,) or (relative and not ((corners >= 0) & (corners <= 1)).all()):
            raise self.misfit(repr(value), expected="four numbers" + (" from 0 to 1" if relative else ""))
        if self.bbox_format in ("REL_YXYX", "YXYX", "REL_XYXY", "XYXY") and (corners[:2] > corners[2:]).any():
            raise self.misfit(repr(value), expected="a box whose ends are not before its beginnings")
        return corners.astype(np.float32)

    def content(self) -> tuple[str, dict[str, Any]]:
        out: dict[str, Any] = {"shape": shape_json(self.shape), "dtype": "float32"}
        if self.bbox_format:
            out["bboxFormat"] = self.bbox_format
        return "boundingBox", out

    def _parameters(self) -> Mapping[str, Any]:
        return {"bbox_format": self.bbox_format}
