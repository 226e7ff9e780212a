"""Features of text in several languages, and boxes in images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from headrace._numbers import fill_masked
from headrace.datasets.features.base import shape_json
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Sequence
from headrace.datasets.features.tensor import Tensor, Text
from headrace.errors import SchemaMismatch, Where

__all__ = ["BBox", "BBoxFeature", "Translation", "TranslationVariableLanguages"]


class Translation(FeaturesDict):
    """A text in a set of languages: one :class:`Text` for each.

    Args:
        languages: Language codes.
        description, value_range: Text.
    """

    class_name = "translation_feature.Translation"

    def __init__(self, languages: Iterable[str], *, description: str = "", value_range: str = "") -> None:
        super().__init__({code: Text() for code in languages}, description=description, value_range=value_range)

    @property
    def languages(self) -> list[str]:
        """The codes of the languages, sorted."""
        return sorted(self)

    def content(self) -> tuple[str, dict[str, Any]]:
        return "translation", {"languages": self.languages}


class TranslationVariableLanguages(Sequence):
    """A text in languages that differ from example to example.

    Its value is two sequences, sorted by language and text: ``language`` (codes) and ``translation`` (texts).

    Args:
        languages: Codes of the possible languages; ``None`` if unknown.
        description, value_range: Text.
    """

    class_name = "translation_feature.TranslationVariableLanguages"

    def __init__(self, languages: Iterable[str] | None = None, *, description: str = "", value_range: str = "") -> None:
        inner = {"language": Text(), "translation": Text()}
        super().__init__(inner, description=description, value_range=value_range)
        self.languages: list[str] | None = sorted(set(languages)) if languages else None
        """The codes of the languages, sorted; ``None`` if unknown."""

    @property
    def num_languages(self) -> int | None:
        """Number of possible languages."""
        return None if self.languages is None else len(self.languages)

    def encode_example(self, value: Any) -> list[Any]:
        """Encode a dict of language to a text or several texts."""
        if not isinstance(value, Mapping):
            raise SchemaMismatch(Where(), expected="a dict of language to text", found=type(value).__name__)
        unknown = [] if self.languages is None else sorted(set(value) - set(self.languages))
        if unknown:
            raise SchemaMismatch(Where(), expected=f"languages among {self.languages}", found=str(unknown))
        pairs = sorted(
            (language, text)
            for language, texts in value.items()
            for text in ([texts] if isinstance(texts, (str, bytes)) else texts)
        )
        return super().encode_example([{"language": language, "translation": text} for language, text in pairs])

    def content(self) -> tuple[str, dict[str, Any]]:
        return "translation", {"languages": self.languages or [], "variableLanguagesPerExample": True}

    def __repr__(self) -> str:
        return f"TranslationVariableLanguages({self.languages})"


FORMATS = ("REL_YXYX", "YXYX", "REL_XYXY", "XYXY", "REL_XYWH", "XYWH", "REL_CYXHW", "CYXHW")


class BBox(NamedTuple):
    """A box, in storage order."""

    ymin: float
    xmin: float
    ymax: float
    xmax: float


class BBoxFeature(Tensor):
    """A box: ``float32 (4,)``.

    Args:
        bbox_format: Meaning of the four numbers. ``"REL_YXYX"``: ymin, xmin, ymax, xmax relative to the image size.
        description, value_range: Text.
    """

    class_name = "bounding_boxes.BBoxFeature"

    def __init__(self, *, bbox_format: str | None = "REL_YXYX", description: str = "", value_range: str = "") -> None:
        super().__init__(shape=(4,), dtype="float32", description=description, value_range=value_range)
        self.bbox_format: str | None = bbox_format or None

    def encode_example(self, value: Any) -> Any:
        corners = np.asarray(fill_masked(value), np.float64)
        relative = self.bbox_format in ("REL_YXYX", "REL_XYXY")
        if corners.shape != (4,) or (relative and not ((corners >= 0) & (corners <= 1)).all()):
            raise self.misfit(repr(value), expected="four numbers" + (" from 0 to 1" if relative else ""))
        if self.bbox_format in ("REL_YXYX", "YXYX", "REL_XYXY", "XYXY") and (corners[:2] > corners[2:]).any():
            raise self.misfit(repr(value), expected="a box whose maxima are not below its minima")
        return super().encode_example(corners)

    def content(self) -> tuple[str, dict[str, Any]]:
        out: dict[str, Any] = {"shape": shape_json(self.shape), "dtype": "float32"}
        if self.bbox_format:
            out["bboxFormat"] = self.bbox_format
        return "boundingBox", out

    def _parameters(self) -> Mapping[str, Any]:
        return {"bbox_format": self.bbox_format}
