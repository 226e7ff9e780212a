"""Read features from ``features.json``, in every form that TFDS has written."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.datasets.features.audio import Audio
from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.image import Image, LabeledImage
from headrace.datasets.features.label import ClassLabel, names_from_file
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Dataset, Sequence, Video
from headrace.datasets.features.tensor import Scalar, Tensor, Text
from headrace.datasets.features.translation import BBoxFeature, Translation, TranslationVariableLanguages
from headrace.errors import CorruptFile, UnsupportedData, Where
from headrace.io.faults import name_in_errors
from headrace.io.json_text import load_json
from headrace.io.urls import stays_below

__all__ = ["feature_from_json", "load_label_names", "read_features"]

Content = Mapping[str, Any]
FIELDS = {
    "featuresDict": "FeaturesDict",
    "tensor": "Tensor",
    "classLabel": "ClassLabel",
    "image": "Image",
    "video": "Video",
    "audio": "Audio",
    "boundingBox": "BBoxFeature",
    "text": "Text",
    "translation": "Translation",
    "sequence": "Sequence",
}
"""The fields of the ``Feature`` message, and the default class of each."""
MOST_DEEP = 100
MOST_VALUES = 1 << 31
"""Largest number of values per example, the size limit of a protobuf message. It prevents allocations for impossible shapes."""
MOST_AXES = 24
MOST_DIGITS = 20


def read_features(path: Path) -> DatasetFeature:
    """Read a ``features.json``.

    Raises:
        CorruptFile: The file is damaged.
        UnsupportedData: A class of feature is unknown.
    """
    where = Where(path=str(path))
    try:
        with name_in_errors(str(path)):
            tree = load_json(path.read_bytes())
    except ValueError as error:
        raise CorruptFile(where, expected="JSON", found=str(error)) from error
    features = feature_from_json(tree, where)
    if not isinstance(features, (FeaturesDict, Sequence)):
        raise CorruptFile(where, expected="a FeaturesDict or a Sequence", found=type(features).__name__)
    return features


def load_label_names(features: DatasetFeature, folder: Path) -> None:
    """Load the class names from the ``.labels.txt`` files in the folder.

    Raises:
        CorruptFile: The number of names is wrong, or a name occurs twice.
    """
    for name, label in features.label_files(""):
        path = folder / name
        if not stays_below(name) or not path.is_file():  # The names of features come from an untrusted file.
            continue
        try:
            label.set_names(names_from_file(path), where=Where(path=str(path)))
        except ValueError as error:
            if isinstance(error, CorruptFile):
                raise
            raise CorruptFile(Where(path=str(path)), expected="one name for each class", found=str(error)) from error


def feature_from_json(tree: Any, where: Where | None = None) -> DatasetFeature:
    """Parse a feature from its JSON message.

    Args:
        tree: ``{"pythonClassName": ..., "tensor": {...}}``, or the older ``{"type": ..., "content": ...}``.
        where: The place, for error messages.

    Raises:
        CorruptFile: The message is damaged.
        UnsupportedData: The class is unknown.
    """
    return _FeatureReader(where or Where()).feature(tree, 0)


class _FeatureReader:
    """Reads the features of one file."""

    def __init__(self, where: Where) -> None:
        self.where = where

    def feature(self, tree: Any, depth: int) -> DatasetFeature:
        if not isinstance(tree, Mapping) or depth > MOST_DEEP:
            raise self.corrupt("a feature as a JSON object", repr(tree)[:60])
        name, content = self.parts(tree)
        make = getattr(self, "_" + name.lower(), None) if name in _KNOWN else None
        if make is None:
            raise UnsupportedData(
                self.where,
                expected=f"a feature of the classes {', '.join(sorted(_KNOWN))}",
                found=f"one of {tree.get('pythonClassName') or tree.get('type')}",
                hint="headrace.open(the files) reads the stored values.",
            )
        try:
            found: DatasetFeature = make(content, depth)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            if isinstance(error, (CorruptFile, UnsupportedData)):
                raise
            raise self.corrupt(f"the parameters of {name}", f"{_excerpt(content)} ({error})") from error
        found.description = str(tree.get("description") or "")
        found.value_range = str(tree.get("valueRange") or tree.get("value_range") or "")
        return found

    def parts(self, tree: Content) -> tuple[str, Content]:
        """The name of the class, and its parameters."""
        full = str(tree.get("pythonClassName") or tree.get("python_class_name") or tree.get("type") or "")
        name = _ALIASES.get(full.rpartition(".")[2], full.rpartition(".")[2])
        field = next((field for field in FIELDS if field in tree or _snake(field) in tree), None)
        if field is not None:
            content = tree.get(field, tree.get(_snake(field)))
            if name not in _KNOWN and field in FIELDS:
                name = FIELDS[field]
            return name, content if isinstance(content, Mapping) else {}
        if "jsonFeature" in tree or "json_feature" in tree:
            return name, self.loaded((tree.get("jsonFeature") or tree.get("json_feature") or {}).get("json", "{}"))
        if "content" in tree:
            return name, self.loaded(tree["content"])
        return name, {}

    def loaded(self, content: Any) -> Content:
        """Parse parameters, which may be JSON inside a JSON string."""
        if isinstance(content, str):
            try:
                content = load_json(content)
            except ValueError as error:
                raise self.corrupt("JSON in a feature's content", str(error)) from error
        if content is None:
            return {}
        if not isinstance(content, Mapping):
            raise self.corrupt("a feature's content as a JSON object", repr(content)[:60])
        return content

    def corrupt(self, expected: str, found: str) -> CorruptFile:
        return CorruptFile(self.where, expected=expected, found=found)

    def _featuresdict(self, content: Content, depth: int) -> DatasetFeature:
        features = content.get("features", content)
        if not isinstance(features, Mapping):
            raise ValueError("features are an object of names")  # noqa: TRY004 - it is the file that is wrong
        return FeaturesDict({name: self.feature(features[name], depth + 1) for name in _names(list(features))})

    def _tensor(self, content: Content, _depth: int) -> DatasetFeature:
        return Tensor(shape=_shape(content), dtype=content["dtype"], **_tensor_options(content))

    def _scalar(self, content: Content, _depth: int) -> DatasetFeature:
        return Scalar(content["dtype"], optional=bool(content.get("optional")))

    def _classlabel(self, content: Content, _depth: int) -> DatasetFeature:
        return ClassLabel(
            num_classes=_number(content, "numClasses"),
            names=None if content.get("names") is None else _names(content["names"]),
        )

    def _text(self, content: Content, _depth: int) -> DatasetFeature:
        if content.get("use_encoder"):
            raise UnsupportedData(self.where, expected="text", found="text that an encoder of old turned into numbers")
        return Text()

    def _image(self, content: Content, _depth: int) -> DatasetFeature:
        return Image(use_colormap=bool(_get(content, "useColormap")), **_image_options(content))

    def _labeledimage(self, content: Content, _depth: int) -> DatasetFeature:
        label = content.get("label") or content.get("labels") or {}
        if isinstance(
            label, str
        ):  # In Python it may also be a file of names. A description must not choose files to read.
            raise self.corrupt("the number of classes, or their names", repr(label)[:60])
        labels = _number(label, "numClasses") if isinstance(label, Mapping) else _names(label)
        return LabeledImage(labels=labels, **_image_options(content))

    def _video(self, content: Content, _depth: int) -> DatasetFeature:
        extra = _get(content, "ffmpegExtraArgs") or ()
        return Video(
            ffmpeg_extra_args=extra, use_colormap=bool(_get(content, "useColormap")), **_image_options(content)
        )

    def _audio(self, content: Content, _depth: int) -> DatasetFeature:
        return Audio(
            shape=_shape(content, default=(None,)),
            dtype=content.get("dtype") or "int64",
            file_format=_get(content, "fileFormat"),
            sample_rate=_number(content, "sampleRate"),
            encoding=_encoding(content),
            lazy_decode=bool(_get(content, "lazyDecode")),
        )

    def _bboxfeature(self, content: Content, _depth: int) -> DatasetFeature:
        return BBoxFeature(bbox_format=_get(content, "bboxFormat"))

    def _sequence(self, content: Content, depth: int) -> DatasetFeature:
        return Sequence(self.feature(content["feature"], depth + 1), _length(content))

    def _dataset(self, content: Content, depth: int) -> DatasetFeature:
        return Dataset(self.feature(content["feature"], depth + 1), _length(content))

    def _translation(self, content: Content, _depth: int) -> DatasetFeature:
        if _get(content, "variableLanguagesPerExample"):
            return self._translationvariablelanguages(content, _depth)
        return Translation(_names(content["languages"]))

    def _translationvariablelanguages(self, content: Content, _depth: int) -> DatasetFeature:
        return TranslationVariableLanguages(_names(content.get("languages") or ()) or None)


_KNOWN = frozenset(
    (
        *FIELDS.values(),
        *("Scalar", "LabeledImage", "Dataset", "TranslationVariableLanguages"),
    )
)
_ALIASES = {"BBox": "BBoxFeature", "SequenceDict": "Sequence", "Features": "FeaturesDict", "LabelImage": "LabeledImage"}


def _snake(name: str) -> str:
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


def _get(content: Content, name: str) -> Any:
    """Get a parameter by its JSON name or its Python name."""
    return content[name] if name in content else content.get(_snake(name))


def _number(content: Content, name: str) -> int | None:
    found = _get(content, name)
    return None if found in (None, "", 0, "0") else _whole(found, name)


def _length(content: Content) -> int | None:
    found = content.get("length")
    return None if found is None else _axis(found)


def _whole(value: Any, what: str) -> int:
    """Parse an integer of at least 0. In protobuf's JSON 64-bit integers are text."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    is_text = isinstance(value, str) and len(value) <= MOST_DIGITS and value.isdecimal()
    if not is_number and not is_text:
        raise ValueError(f"{what} is an integer, got {value!r:.40}")
    if not 0 <= int(value) <= MOST_VALUES:
        raise ValueError(f"{what} is an integer from 0 to {MOST_VALUES}, got {value!r:.40}")
    return int(value)


def _axis(length: Any) -> int | None:
    return None if length in (None, -1, "-1") else _whole(length, "a length")


def _shape(content: Content, default: tuple[int | None, ...] = ()) -> tuple[int | None, ...]:
    shape = content.get("shape")
    if shape is None:
        return default
    lengths = shape.get("dimensions", ()) if isinstance(shape, Mapping) else shape
    if not isinstance(lengths, (list, tuple)) or len(lengths) > MOST_AXES:
        raise ValueError(f"a shape is a list of at most {MOST_AXES} lengths, got {lengths!r:.40}")
    found = tuple(map(_axis, lengths))
    if math.prod(length or 1 for length in found) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values in an example")
    return found


def _names(names: Any) -> list[str]:
    """Check that names can be encoded as UTF-8, for Examples and files."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names are a list of texts, got {names!r:.40}")
    for name in names:
        name.encode()  # UnicodeEncodeError is a ValueError
    return list(names)


def _encoding(content: Content) -> str:
    found = content.get("encoding")
    return str(found).rpartition(".")[2].lower() if found else "none"


def _tensor_options(content: Content) -> dict[str, Any]:
    return {
        "encoding": _encoding(content),
        "minimum": content.get("minimum"),
        "maximum": content.get("maximum"),
        "optional": bool(content.get("optional")),
    }


def _image_options(content: Content) -> dict[str, Any]:
    return {
        "shape": _shape(content) or None,
        "dtype": content.get("dtype") or None,
        "encoding_format": _get(content, "encodingFormat") or None,
    }


def _excerpt(content: Content) -> str:
    text = json.dumps(content, default=repr)
    return text if len(text) < 120 else text[:117] + "..."
