"""Write batches to a folder of image files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from headrace.contracts.feature import SEVERAL_KINDS, Feature
from headrace.contracts.images import encoding_of, is_image_name
from headrace.contracts.records import Misfit
from headrace.contracts.schema import Schema
from headrace.errors import SchemaMismatch, UnsupportedData, Where
from headrace.formats.table.folders import NOTE, are_splits, mark_empty
from headrace.io.folders import AtomicFolder, is_visible
from headrace.io.paths import PathLike
from headrace.io.system import discard_folder, walk

__all__ = ["CLASSES_NOTE", "NOTES", "NUMBERS_NOTE", "ImageFolderSink", "join_folders", "misfits"]


ENDINGS = {"jpeg": ".jpg", "png": ".png", "gif": ".gif", "bmp": ".bmp", "webp": ".webp", "tiff": ".tiff"}
IMAGE, LABEL, NAME = "image", "label", "name"
CLASSES_NOTE = "headrace-classes.json"
"""Marks folders as classes when every label has the name of a split."""
NUMBERS_NOTE = "headrace-labels.json"
"""Marks the names of folders as the labels: numbers without names, which are not those that a reader would count."""
NUMBERS = json.dumps({"labels": "the names of the folders"}).encode()
NOTES = (CLASSES_NOTE, NUMBERS_NOTE)


def misfits(schema: Schema) -> list[Misfit]:
    """What a folder of images cannot hold: anything but one image, a label and a name."""
    image = _image_name(schema)
    found = [
        Misfit(
            feature=name,
            expected="one image, a label and a name, as in every folder of images",
            found=repr(feature),
            hint="Select the others, or write a format of records.",
        )
        for name, feature in schema.items()
        if not (name == image or (name == LABEL and _is_label(feature)) or (name == NAME and feature == Feature("str")))
    ]
    if image is None:
        hint = "Pixels are encoded if the schema says how: schema={'image': Feature('uint8', (None, None, 3), encoding='png')}."
        expected = "a feature that holds an encoded image"
        found.insert(0, Misfit(feature=IMAGE, expected=expected, found=str(list(schema)), hint=hint))
    return found


def _image_name(schema: Schema) -> str | None:
    images = [name for name, feature in schema.items() if feature.encoding is not None and feature.shape == ()]
    if not images and IMAGE in schema and schema[IMAGE] == Feature("bytes"):
        return IMAGE
    return IMAGE if IMAGE in images else images[0] if len(images) == 1 else None


def _is_label(feature: Feature) -> bool:
    return feature.shape == () and (feature.dtype == "str" or feature.numpy_dtype.kind in "iu")


class ImageFolderSink:
    """Writes ``folder/class/name.jpg``. Image bytes are written unchanged.

    The class is the label's name if the schema has names, else the label itself; without a label the folder is flat. The
    file name is the feature ``name``, plus the suffix of the image kind if it lacks one. Without that feature, it is the
    number of the example. The folder appears under its name once complete.

    Args:
        path: The folder; it must not exist, or be empty.
        schema: One image, an optional label and an optional name.
        compression: ``"none"``.

    Raises:
        UnsupportedData: The schema has another feature, or the folder exists and is not empty.
    """

    def __init__(self, path: PathLike, schema: Schema, *, compression: str = "none") -> None:
        if compression != "none":
            raise UnsupportedData(Where(path=str(path)), expected="a folder of images", found=compression)
        for misfit in misfits(schema):
            place = Where(path=str(path), feature=misfit.feature)
            raise UnsupportedData(place, expected=misfit.expected, found=misfit.found, hint=misfit.hint)
        self.path: str = os.fspath(path)
        self.image: str = _image_name(schema) or IMAGE
        self.label: Feature | None = schema.get(LABEL, None)
        self.has_names: bool = NAME in schema
        self.schema = schema
        self.count: int = 0
        self._is_nested: bool | None = None
        classes = (self.label.names or ()) if self.label else ()
        if classes and are_splits(classes):
            raise UnsupportedData(
                Where(path=str(path), feature=LABEL),
                expected="classes without names of splits",
                found=str(list(classes)),
                hint="Folders of these names are read as splits. Rename a class, or leave the label out.",
            )
        self._folders: set[str] = set()
        folders = [_check_name(each, 0, LABEL) for each in classes]  # may raise, so it runs before the folder exists
        self.folder: AtomicFolder = AtomicFolder(path)
        self.folder.make_folders(folders)  # a class without images keeps its number

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Write one file for each example."""
        for row in range(n):
            image = batch[self.image][row]
            path = self._name(batch, row, image)
            self.folder.make_folders([os.path.dirname(path)])
            try:
                self.folder.write(path, image)
            except FileExistsError as error:
                raise self._refusal(NAME, "a different name for every image", repr(path)) from error
            self.count += 1

    def _name(self, batch: Mapping[str, Any], row: int, image: Any) -> str:
        kind = encoding_of(image) if isinstance(image, bytes) else None
        if kind is None:
            raise self._refusal(self.image, "the bytes of an image", f"{type(image).__name__} {image!r:.40}")
        name = f"{self.count:08d}{ENDINGS[kind]}"
        if self.has_names:
            name = str(batch[NAME][row])
            if not is_image_name(name) and name[-1:] not in ("", "/"):
                name += ENDINGS[kind]  # other suffixes are not read as images
            name = _check_name(name, self.count, NAME)
        if self.label is None:
            self._check_nesting(name)
            return name
        folder = _check_name(self._class(batch[LABEL][row]), self.count, LABEL)
        self._folders.add(folder)
        return name if name.startswith(folder + "/") else f"{folder}/{name}"

    def _check_nesting(self, name: str) -> None:
        """Refuse images beside folders of images, which the reader refuses too."""
        is_nested = "/" in name
        if self._is_nested is None:
            self._is_nested = is_nested
        if is_nested != self._is_nested:
            expected = "names that all lead into folders, or none of them"
            raise self._refusal(NAME, expected, f"{name!r} after others that {'do not' if is_nested else 'do'}")

    def _class(self, label: Any) -> str:
        names = self.label.names if self.label is not None else None
        if names is None:  # Padded, so that folders sort by number.
            return label if isinstance(label, str) else f"{int(label):05d}"
        if not 0 <= int(label) < len(names):
            raise self._refusal(LABEL, f"a label from 0 to {len(names) - 1}", str(label))
        return names[int(label)]

    def _has_numbers(self) -> bool:
        return self.label is not None and self.label.names is None and self.label.dtype != "str"

    def _refusal(self, feature: str, expected: str, found: str) -> SchemaMismatch:
        return SchemaMismatch(Where(path=self.path, record=self.count, feature=feature), expected=expected, found=found)

    def close(self) -> None:
        """Move the complete folder into place."""
        if not self.count and not self.folder.closed:
            mark_empty(self.folder, "image_folder", _as_read(self.schema, self.image))
        elif self._has_numbers() and not _are_counted(self._folders) and not self.folder.closed:
            self.folder.write(NUMBERS_NOTE, NUMBERS)
        elif self._folders and are_splits(self._folders) and not self.folder.closed:
            self.folder.write(CLASSES_NOTE, json.dumps({"classes": sorted(self._folders)}).encode())
        self.folder.close()

    def abort(self) -> None:
        """Remove the unfinished folder."""
        self.folder.abort()


def _are_counted(folders: Collection[str]) -> bool:
    """Whether the numbers that are the names of these folders are 0, 1, 2 and so on, in the order of a reader."""
    return list(map(int, sorted(folders))) == list(range(len(folders)))


def _as_read(schema: Schema, image: str) -> Schema:
    """The schema of a folder of images when read back."""
    label = {LABEL: Feature("int64", names=schema[LABEL].names)} if LABEL in schema else {}
    encoding = schema[image].encoding or SEVERAL_KINDS
    return Schema({IMAGE: Feature("bytes", encoding=encoding), **label, NAME: Feature("str")})


def _check_name(name: str, record: int, feature: str) -> str:
    """Return a name that stays inside the folder and that the reader does not ignore.

    Raises:
        UnsupportedData: The name does neither.
    """
    parts = name.split("/")
    bad = "\\" in name or "\0" in name or not all(map(is_visible, parts))
    if bad or (feature == LABEL and len(parts) > 1):
        raise UnsupportedData(
            Where(record=record, feature=feature),
            expected="a name of a visible file inside the folder" if feature == NAME else "a name for a visible folder",
            found=repr(name),
            hint="source.map can give another one.",
        )
    return name


def join_folders(parts: Sequence[str], path: str) -> None:
    """Join folders into one. Numbered images are numbered consecutively. On error, all parts are left unchanged.

    Images are numbered where every part has the numbers that :class:`ImageFolderSink` gives without a feature ``name``. Names that a user
    gave are kept, also if they are numbers.
    """
    files = {part: _images_in(part) for part in parts}
    are_numbers = all(map(_are_numbered, files.values()))
    whole = AtomicFolder(path)
    with contextlib.ExitStack() as stack:
        stack.callback(whole.abort)
        count = 0
        for part in parts:
            _add_images(whole, part, files[part], count if are_numbers else None)
            count += len(files[part])
        for note in (CLASSES_NOTE, *(() if count else (NOTE,))):
            if os.path.exists(place := os.path.join(parts[0], note)):
                whole.add(place, note)
        have_numbers = any(os.path.exists(os.path.join(part, NUMBERS_NOTE)) for part in parts)
        if have_numbers and not _are_counted({path.name for path in os.scandir(whole.place("")) if path.is_dir()}):
            whole.write(NUMBERS_NOTE, NUMBERS)
        whole.close()
    for part in parts:
        discard_folder(part)


def _images_in(part: str) -> list[str]:
    """The paths of the images of a part, from its folder."""
    files = []
    for folder, _, names in walk(part):
        within = os.path.relpath(folder, part)
        files += [os.path.normpath(os.path.join(within, name)) for name in names if name not in (NOTE, *NOTES)]
    return files


def _are_numbered(files: Sequence[str]) -> bool:
    stems = [os.path.splitext(os.path.basename(file))[0] for file in files]
    return sorted(stems) == [f"{number:08d}" for number in range(len(stems))]


def _add_images(whole: AtomicFolder, part: str, files: Sequence[str], first: int | None) -> None:
    """Add the images of a part under their names, or numbered from ``first``."""
    for folder, folders, _ in walk(part):
        within = os.path.relpath(folder, part)
        whole.make_folders(os.path.join(within, name) for name in folders)
    for file in files:
        folder, name = os.path.split(file)
        stem, ending = os.path.splitext(name)
        target = file if first is None else os.path.join(folder, f"{int(stem) + first:08d}{ending}")
        if os.path.exists(whole.place(target)):
            raise SchemaMismatch(
                Where(path=os.path.join(whole.path, target), feature=NAME),
                expected="a different name for every image",
                found="two with this name",
            )
        whole.add(os.path.join(part, file), target)
