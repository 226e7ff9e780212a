"""Folders of image files: one folder per class, or one flat folder.

The layout matches ``ImageFolder`` of torchvision and TFDS: ``folder/class/name.jpg``, with classes numbered in sorted
order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.contracts.feature import SEVERAL_KINDS, Feature
from headrace.contracts.images import SUFFIXES, begins_as_image, is_image_name
from headrace.contracts.records import Checked, Format
from headrace.contracts.schema import Schema
from headrace.contracts.values import Batch, Indices
from headrace.errors import CorruptFile, DataError, NoFiles, UnsupportedData, Where
from headrace.formats.image_folder.write import CLASSES_NOTE, NUMBERS_NOTE, ImageFolderSink, join_folders, misfits
from headrace.formats.table.base import FileTable
from headrace.formats.table.folders import class_names, is_marked_empty, refuse_splits, schema_if_empty
from headrace.io.folders import Lister, Listing, lister_for
from headrace.io.local.open import read_each
from headrace.io.names import is_record_name
from headrace.io.system import cached_property
from headrace.io.urls import child_of

__all__ = ["FORMAT", "ImageFolder", "looks_like_image_folder"]


DEEPEST = 32
"""Maximum nesting of folders; deeper means a cycle of links."""
LOOKED_INTO = 16
"""Class folders to search for an image before concluding that there is none."""
NO_RECORDS = re.compile(
    r"(authors|changelog|citation|contributing|copying|copyright|licen[cs]e|manifest|notice|readme|version)"
    r"|.+\.(avif|bib|css|db|docx?|hei[cf]|html?|ico|ini|jp2|js|jxl|lnk|m4a|mat|mov|mp3|mp4|pdf|psd|svg|tex|url|wav|webm|xlsx?|xml)"
)
"""Names, in lower case, of files beside images that surely hold no records: annotations, other pictures, what other programs leave there."""


class _Listing(NamedTuple):
    names: list[str]
    """Paths relative to the folder, with ``/``."""
    roots: npt.NDArray[np.int32]
    """The folder of each file."""
    labels: npt.NDArray[np.int64] | None
    classes: tuple[str, ...] | None
    """The names of the labels; ``None``: they are numbers without names."""


class ImageFolder(FileTable):
    """The images of these folders as a table: ``image`` (the encoded bytes), ``label``, ``name``. Opening it opens no image.

    Files with image suffixes count as images. All others are ignored, as are hidden files and folders. Images come class
    by class, in natural order of their names. Picklable; safe in threads and after fork.

    Args:
        paths: The folders.

    Raises:
        NoFiles: At first use: there are no images.
        UnsupportedData: At first use: there are images beside class folders, or the folders are splits, not classes.
    """

    format = "image_folder"
    pickled: ClassVar[tuple[str, ...]] = ("_listing", "_noted")

    @cached_property
    def _listing(self) -> _Listing:
        looks = [lister_for(root) for root in self.paths]
        found = [_images_by_class(root, look) for root, look in zip(self.paths, looks, strict=True)]
        classes = sorted(
            {
                name
                for root, look in zip(self.paths, looks, strict=True)
                for name in class_names(look(root), _class_folders)
            }
        )
        has_numbers = any(NUMBERS_NOTE in look(root).files for root, look in zip(self.paths, looks, strict=True))
        numbers = {name: self._number_of(name) if has_numbers else number for number, name in enumerate(classes)}
        names = [name for by_class in found for each in by_class.values() for name in each]
        if not names and self._noted is None:
            raise NoFiles(
                Where(path=self.paths[0]),
                expected="images (" + ", ".join(SUFFIXES) + ") in this folder or in the folders of classes",
                found="none",
            )
        counts = [sum(map(len, by_class.values())) for by_class in found]
        labels = [numbers.get(name, -1) for by_class in found for name, each in by_class.items() for _ in each]
        return _Listing(
            names,
            np.repeat(np.arange(len(found), dtype=np.int32), counts),
            np.array(labels, np.int64) if classes else None,
            None if has_numbers else tuple(classes),
        )

    def _number_of(self, name: str) -> int:
        """The label that the name of a folder is."""
        try:
            return int(name)
        except ValueError:
            raise UnsupportedData(
                Where(path=child_of(self.paths[0], name)),
                expected=f"a number as the name of this folder, because {NUMBERS_NOTE} says that folders are named by their labels",
                found=repr(name),
                hint=f"Rename the folder, or remove {NUMBERS_NOTE}: labels are then numbered in the order of the names.",
            ) from None

    @cached_property
    def _noted(self) -> Schema | None:
        """The stored schema of a folder that was written without any image."""
        return schema_if_empty(lister_for(self.paths[0])(self.paths[0]), self.format)

    @cached_property
    def schema(self) -> Schema:
        """``image``, ``label`` if there are classes, and ``name``."""
        listing = self._listing
        if not listing.names and self._noted is not None:
            return self._noted
        kinds = {SUFFIXES["." + name.rpartition(".")[2].lower()] for name in listing.names}
        image = Feature("bytes", encoding=kinds.pop() if len(kinds) == 1 else SEVERAL_KINDS)
        label = {} if listing.labels is None else {"label": Feature("int64", names=listing.classes)}
        return Schema({"image": image, **label, "name": Feature("str")})

    def files(self) -> list[str]:
        """The path of every image."""
        return [self._path(index) for index in range(len(self))]

    def check_files(self, files: range) -> Iterator[Checked]:
        """Check that images can be read and begin like images. Pixels are not decoded."""
        return _check_images([self._path(index) for index in files])

    def __len__(self) -> int:
        return len(self._listing.names)

    def _path(self, index: int) -> str:
        listing = self._listing
        return child_of(self.paths[listing.roots[index]], listing.names[index])

    def where(self, index: int) -> Where:
        """The path of an image."""
        return Where(path=self._path(index))

    def _rows(self, indices: Indices, names: tuple[str, ...]) -> Batch:
        """Images by index.

        Raises:
            NoFiles: An image no longer exists.
        """
        listing = self._listing
        batch: Batch = {}
        for name in names:
            if name == "label":
                batch[name] = (np.zeros(0, np.int64) if listing.labels is None else listing.labels)[indices]
            else:
                values = (
                    read_each(list(map(self._path, indices.tolist())))
                    if name == "image"
                    else map(listing.names.__getitem__, indices)
                )
                batch[name] = _objects(values, len(indices))
        return batch


def _objects(values: Any, n: int) -> npt.NDArray[Any]:
    column = np.empty(n, object)
    column[:] = list(values)
    return column


def _images_by_class(root: str, look: Lister) -> dict[str, list[str]]:
    """The images of one folder: class to relative paths. The class of a flat folder is ``""``."""
    listing = look(root)
    folders, images, _ = _sort_listing(listing)
    if folders and images:
        raise UnsupportedData(
            Where(path=child_of(root, images[0])),
            expected="images in folders of classes, or in no folder",
            found="this one beside folders with images",
            hint="Move it, or open the folders one by one.",
        )
    if CLASSES_NOTE not in listing.files:
        refuse_splits(root, folders)
    if images:
        return {"": images}
    return {name: [f"{name}/{path}" for path in _below(child_of(root, name), 0, look)] for name in folders}


def _below(folder: str, depth: int, look: Lister) -> Iterator[str]:
    """Every image in a folder and its sub-folders."""
    if depth > DEEPEST:
        raise UnsupportedData(
            Where(path=folder),
            expected=f"folders at most {DEEPEST} deep",
            found="more",
            hint="Do symbolic links form a cycle?",
        )
    folders, images, _ = _sort_listing(look(folder))
    yield from images
    for name in folders:
        for path in _below(child_of(folder, name), depth + 1, look):
            yield f"{name}/{path}"


def _sort_listing(listing: Listing) -> tuple[list[str], list[str], bool]:
    """Visible sub-folders, sorted; images, in natural order; and whether other files may hold records."""
    images = [name for name in listing.files if is_image_name(name)]
    others = any(map(_may_hold_records, listing.files))
    return list(listing.folders), images, others


def _may_hold_records(name: str) -> bool:
    """Whether a file that is no image may hold records. One of an unknown name may: only its content could tell."""
    return is_record_name(name) and not is_image_name(name) and NO_RECORDS.fullmatch(name.lower()) is None


def _class_folders(listing: Listing) -> list[str]:
    return _sort_listing(listing)[0]


def looks_like_image_folder(folder: str, look: Lister = Listing.of) -> bool:
    """Whether a folder holds images and no files that may be records, or folders of images."""
    listing = look(folder)
    folders, images, others = _sort_listing(listing)
    if others or images:
        return bool(images) and not others
    return is_marked_empty(listing, "image_folder") or any(
        _has_image(child_of(folder, name), 0, look) for name in folders[:LOOKED_INTO]
    )


def _has_image(folder: str, depth: int, look: Lister) -> bool:
    folders, images, others = _sort_listing(look(folder))
    if images or others:
        return not others
    return depth < 2 and any(_has_image(child_of(folder, name), depth + 1, look) for name in folders[:2])


def verify_images(folder: ImageFolder) -> Iterator[Checked]:
    """Check that every file can be read and begins like an image. Pixels are not decoded."""
    return folder.check_files(range(len(folder)))


def _check_images(paths: Sequence[str]) -> Iterator[Checked]:
    for path in paths:
        faults: list[DataError] = []
        size = 0
        try:
            image = read_each([path])[0]
            size = len(image)
            if not begins_as_image(image):
                found = f"{size} bytes that begin as no kind of image"
                faults.append(CorruptFile(Where(path=path), expected="an image", found=found))
        except DataError as fault:
            faults.append(fault)
        yield Checked(path, int(not faults), size, faults)


FORMAT = Format(
    name="image_folder",
    suffixes=(),
    knows=lambda _head: False,
    open=ImageFolder,
    folder=looks_like_image_folder,
    sink=ImageFolderSink,
    misfits=misfits,
    join=join_folders,
    verify=verify_images,
)
"""The registry entry."""
