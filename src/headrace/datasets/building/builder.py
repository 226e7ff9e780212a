"""Builders of datasets: name, features, examples and their source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.datasets.building.preparing import (
    Examples,
    Preparation,
    check_named,
    check_supervised_keys,
    keys_json,
    prepare,
)
from headrace.datasets.downloading.downloads import Downloads, Resource
from headrace.datasets.downloading.fetch import Patience
from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.mapping import FeatureLike, as_feature
from headrace.datasets.locate import data_folders
from headrace.datasets.prepared import Prepared
from headrace.io.urls import local_path

__all__ = ["DatasetBuilder", "Examples", "Splits"]

Splits = Mapping[str, Examples] | Callable[[Downloads], Mapping[str, Examples]]
FILE_FORMATS = ("tfrecord", "array_record")


@dataclass(frozen=True, kw_only=True)
class DatasetBuilder:
    """Makes a folder that :func:`headrace.data_source` and TFDS read.

    Args:
        name: Name of the dataset: letters, digits and ``_``.
        features: The types of its values: a :class:`~headrace.datasets.features.FeaturesDict`, or a dict for one.
        splits: A dict of split to examples (see :data:`Examples`), or a function that takes the :class:`Downloads` and returns
            such a dict. Examples are ordered by their keys, unless ``shuffled`` is ``False``.
        version: Such as ``"1.0.0"``.
        config: One of several variants of the dataset.
        resources: Files to download, by name.
        supervised_keys: Names of input and target (and weight), as ``("image", "label")``.
        description, citation, license, config_description: Text.
        urls: Home pages of the dataset.
        release_notes: Text by version.
        shuffled: Whether examples are ordered by the hash of their keys.
        default_config: The config of the name alone.

    Raises:
        ValueError: A name or version is malformed.

    >>> squares = DatasetBuilder(
    ...     name="squares",
    ...     features={"x": "int64", "y": "int64"},
    ...     splits={"train": [{"x": x, "y": x * x} for x in range(100)]},
    ... )
    >>> squares.full_name
    'squares/1.0.0'
    """

    name: str
    features: FeatureLike
    splits: Splits
    version: str = "1.0.0"
    config: str = ""
    resources: Mapping[str, Resource] = field(default_factory=dict)
    supervised_keys: Any = None
    description: str = ""
    citation: str = ""
    license: str = ""
    config_description: str = ""
    urls: tuple[str, ...] = ()
    release_notes: Mapping[str, str] = field(default_factory=dict)
    shuffled: bool = True
    default_config: str = ""

    def __post_init__(self) -> None:
        for name, pattern, what in (
            (self.name, r"[a-zA-Z]\w*", "a name of letters, digits and _"),
            (self.config, r"[\w+.-]*", "a config of letters, digits and _+.-"),
            (self.default_config, r"[\w+.-]*", "a default_config of letters, digits and _+.-"),
            (self.version, r"\d+\.\d+\.\d+", "a version such as 1.0.0"),
        ):
            if not re.fullmatch(pattern, name, re.ASCII):
                raise ValueError(f"expected {what}, got {name!r}")

    @property
    def full_name(self) -> str:
        """``"name/config/version"``."""
        return "/".join(part for part in (self.name, self.config, self.version) if part)

    def folder(self, data_dir: str | os.PathLike[str] | None = None) -> Path:
        """The folder of the prepared dataset: below ``data_dir``, ``TFDS_DATA_DIR`` or ``~/tensorflow_datasets``."""
        return data_folders(data_dir)[0].joinpath(self.name, *filter(None, (self.config,)), self.version)

    def download_and_prepare(
        self,
        download_dir: str | os.PathLike[str] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        file_format: str = "tfrecord",
        num_shards: int | None = None,
        patience: Patience | None = None,
        progress: bool = True,
    ) -> Prepared:
        """Download the files and write the folder, unless it exists.

        The folder appears when it is complete, verified and on disk. If two processes prepare the same dataset, one waits for
        the other and uses its result.

        Args:
            download_dir: Folder for downloaded files; by default ``downloads`` in the folder of all datasets.
            data_dir: The folder of all datasets: see :meth:`folder`.
            file_format: ``"tfrecord"`` or ``"array_record"``.
            num_shards: Files per split. By default the number that TFDS chooses: files of 64 MiB or more.
            patience: Limits for slow servers.
            progress: Whether to show progress bars on a terminal.

        Raises:
            DownloadFailed: A file could not be downloaded.
            SchemaMismatch: An example does not match ``features``, or a key occurs twice; the message names it.
            NoSuchFeature: ``supervised_keys`` names another feature.
            UnsupportedData: The folder exists, with other features or another format.
        """
        if file_format not in FILE_FORMATS:
            raise ValueError(f"file_format must be one of {FILE_FORMATS}, got {file_format!r}")
        if num_shards is not None and num_shards < 1:
            raise ValueError(f"num_shards must be 1 or more, got {num_shards}")
        check_named(self.feature)
        check_supervised_keys(self.feature, self.supervised_keys)
        folder = self.folder(data_dir)
        kept = data_folders(data_dir)[0] / "downloads"
        if download_dir is not None:
            kept = local_path(download_dir, "download_dir, a folder")
        downloads = Downloads(folder=kept, resources=self.resources, patience=patience or Patience(), progress=progress)
        wanted = Preparation(
            folder=folder,
            features=self.feature,
            splits=lambda: self.splits(downloads) if callable(self.splits) else self.splits,
            fields=self._fields(file_format),
            file_format=file_format,
            num_shards=num_shards,
            shuffled=self.shuffled,
            progress=progress,
            default_config=self.default_config,
        )
        return prepare(wanted)

    @property
    def feature(self) -> DatasetFeature:
        """:attr:`features` as one feature."""
        return as_feature(self.features)

    @property
    def download_size(self) -> int:
        """Bytes to download, if known."""
        return sum(resource.size or 0 for resource in self.resources.values())

    def _fields(self, file_format: str) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "configName": self.config,
            "configDescription": self.config_description,
            "description": self.description,
            "citation": self.citation,
            "redistributionInfo": {"license": self.license} if self.license else {},
            "location": {"urls": list(self.urls)} if self.urls else {},
            "releaseNotes": dict(self.release_notes),
            "supervisedKeys": keys_json(self.supervised_keys) if self.supervised_keys else {},
            "downloadSize": str(self.download_size) if self.download_size else "",
            "fileFormat": file_format,
            "moduleName": "headrace.datasets",
            "disableShuffling": not self.shuffled,
        }
