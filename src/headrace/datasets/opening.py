"""Open prepared datasets, and prepare those that are known by name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from headrace.contracts.feature import IMAGE_AXES, PIXELS, Feature
from headrace.contracts.images import ImageOptions
from headrace.contracts.records import Records
from headrace.datasets.codec import FeaturesCodec
from headrace.datasets.decoders import PartialDecoding, SkipDecoding, select_features
from headrace.datasets.features.image import Image
from headrace.datasets.locate import KNOWN_NAMES, find_prepared
from headrace.datasets.prepared import INFO_FILE, Prepared, PreparedSplit, read_prepared, shard_names
from headrace.datasets.source import PreparedSource, SplitNode
from headrace.errors import CorruptFile, NoFiles, UnsupportedData, Where, did_you_mean
from headrace.formats.parquet.payloads import ParquetPayloads
from headrace.formats.registry import format_named
from headrace.io.faults import name_in_errors
from headrace.io.progress import say
from headrace.sources.decoded import DecodedNode
from headrace.sources.node import Node
from headrace.sources.operations.joined import concatenate
from headrace.sources.splits import SplitLike, resolve_split, split_names
from headrace.sources.views import Chosen

if TYPE_CHECKING:
    from headrace.datasets.building.builder import DatasetBuilder

__all__ = ["SWITCH", "data_source", "find_split", "open_records", "prepare_on_demand"]


SWITCH = "HEADRACE_DOWNLOAD"
_NO = frozenset(("0", "no", "false", "off", "never"))


def prepare_on_demand(
    name: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None, *, download: bool | None, missing: NoFiles
) -> None:
    """Prepare a missing dataset, if its name is known and downloads are allowed.

    Args:
        name: The name as the user gave it.
        data_dir: Folder for the dataset.
        download: Whether to download; ``None``: unless the environment variable ``HEADRACE_DOWNLOAD`` is ``0``.
        missing: The error to raise otherwise.

    Raises:
        NoFiles: See ``missing``.
        DownloadFailed: Its files could not be downloaded.
    """
    builder = _find_builder(name)
    if builder is None:
        raise missing
    allowed = download if download is not None else os.environ.get(SWITCH, "").strip().lower() not in _NO
    if not allowed:
        raise NoFiles(
            missing.where,
            expected=missing.expected,
            found=missing.found,
            hint=f"`headrace prepare {os.fspath(name)}` downloads and prepares it; downloads are disabled "
            f"(download=False, or {SWITCH}=0).",
        ) from missing
    say(
        f"{builder.full_name} is not prepared yet: downloading {builder.download_size / 1e6:.1f} MB and preparing it in "
        f"{builder.folder(data_dir)} ({SWITCH}=0 prevents this)"
    )
    builder.download_and_prepare(data_dir=data_dir)


def _find_builder(name: str | os.PathLike[str]) -> DatasetBuilder | None:
    match = re.match(r"\w+", name) if isinstance(name, str) else None
    if match is None or match[0] not in KNOWN_NAMES:
        return None
    from headrace.datasets.named.catalogue import named_builder

    try:
        return named_builder(str(name))
    except NoFiles:
        return None


Decoders = Mapping[str, Any] | SkipDecoding | PartialDecoding


@overload
def data_source(
    name_or_folder: str | os.PathLike[str],
    split: SplitLike,
    decoders: Decoders | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    download: bool | None = None,
) -> PreparedSource: ...
@overload
def data_source(
    name_or_folder: str | os.PathLike[str],
    split: None = None,
    decoders: Decoders | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    download: bool | None = None,
) -> dict[str, PreparedSource]: ...
@overload
def data_source(
    name_or_folder: str | os.PathLike[str],
    split: list[Any] | tuple[Any, ...] | Mapping[str, Any],
    decoders: Decoders | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    download: bool | None = None,
) -> Any: ...
def data_source(
    name_or_folder: str | os.PathLike[str],
    split: Any = None,
    decoders: Decoders | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    download: bool | None = None,
) -> Any:
    """Open a dataset that TFDS or :mod:`headrace.datasets.building` prepared, without TensorFlow or TFDS.

    Args:
        name_or_folder: ``"mnist"``, ``"wiki/en:1.*.*"``, or the folder of a prepared dataset.
        split: ``"train"``, ``"train[:80%]+test"``, a :class:`~headrace.ReadInstruction`, a part from
            :func:`~headrace.even_splits`; a list or dict of those; ``None`` for all splits.
        decoders: Alternatives to the default decoding: ``{"image": SkipDecoding()}``, ``SkipDecoding()`` for all features, or
            :class:`~headrace.datasets.PartialDecoding` for some (from :mod:`headrace.datasets`). ``{"image":
            ImageOptions(crop=...)}`` decodes images as in :func:`headrace.open`.
        data_dir: The folder to search for names, instead of ``TFDS_DATA_DIR`` and ``~/tensorflow_datasets``.
        download: Whether to download and prepare a missing dataset that is known by name (``headrace datasets`` lists them).
            ``None``: unless the environment variable ``HEADRACE_DOWNLOAD`` is ``0``.

    Returns:
        A source for one split; a dict of all splits for ``None``; a list or dict of sources for a list or dict. Examples are
        in file order; names of nested features are joined by ``/``.

    Raises:
        NoFiles: There is no such dataset, version or file; the message lists the candidates.
        DownloadFailed: The files of a known dataset could not be downloaded.
        UnsupportedData: There is no such split, or the class of a feature is unknown.
        CorruptFile: The description in the folder is damaged, or contradicts the files.
    """
    prepared = read_prepared(_folder(name_or_folder, data_dir, download=download).absolute())
    decoders, images = _image_options(decoders)
    codec = _codec(prepared, decoders)
    _check_images(prepared, codec, images)
    splits = _Splits(prepared, codec, images)
    return _map_splits(dict.fromkeys(prepared.splits) if split is None else split, splits, all_names=split is None)


def find_split(text: str) -> tuple[str, str, PreparedSource] | None:
    """The split that ``"mnist:test"`` or ``"wiki/en:1.*.*:train[:10%]"`` names: dataset, split and source; ``None`` if no such dataset is prepared.

    Raises:
        NoFiles: The dataset has no such split.
    """
    for colon in reversed([match.start() for match in re.finditer(":", text)]):
        name, split = text[:colon], text[colon + 1 :]
        if not name or not split:
            continue
        try:
            folder = find_prepared(name, None)
        except (NoFiles, ValueError):
            continue
        try:
            return name, split, data_source(folder, split=split, download=False)
        except UnsupportedData as error:
            raise NoFiles(error.where, expected=error.expected, found=error.found) from error
    return None


def _folder(
    name_or_folder: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None, *, download: bool | None
) -> Path:
    try:
        return find_prepared(name_or_folder, data_dir)
    except NoFiles as missing:
        prepare_on_demand(name_or_folder, data_dir, download=download, missing=missing)
    return find_prepared(name_or_folder, data_dir)


def _map_splits(split: Any, splits: _Splits, *, all_names: bool = False) -> Any:
    if all_names:
        return {name: splits.source(name) for name in split}
    if isinstance(split, Mapping):
        return {name: _map_splits(inner, splits) for name, inner in split.items()}
    if isinstance(split, (list, tuple)):
        return type(split)(_map_splits(inner, splits) for inner in split)
    return splits.source(split)


def _image_options(decoders: Decoders | None) -> tuple[Decoders | None, dict[str, ImageOptions]]:
    """Decoders that leave some images encoded, and how those are decoded then, by path."""
    images: dict[str, ImageOptions] = {}

    def without(value: Any, path: str) -> Any:
        if isinstance(value, ImageOptions):
            images[path] = value
            return SkipDecoding()
        if isinstance(value, Mapping):
            return {name: without(each, f"{path}/{name}" if path else str(name)) for name, each in value.items()}
        return value

    if isinstance(decoders, ImageOptions):
        raise TypeError(f"ImageOptions are for one feature: decoders={{'image': {decoders!r}}}")
    if isinstance(decoders, PartialDecoding):
        return replace(decoders, decoders=without(decoders.decoders, "")), images
    return without(decoders, ""), images


def _check_images(prepared: Prepared, codec: FeaturesCodec, images: Mapping[str, ImageOptions]) -> None:
    """Raise :class:`UnsupportedData` unless each of the options is for one feature of images that is not in steps."""
    known = {key for key, _, _ in prepared.features.leaves("", ())}
    for name in images:
        if name not in known:
            inside = [key for key in known if name.startswith(key + "/")]
            raise UnsupportedData(
                Where(feature=name),
                expected="one feature of images, which ImageOptions decodes",
                found=f"a feature of the steps in {inside[0]!r}" if inside else "a group of features",
                hint="A Decoder(function=...) decodes images of steps."
                if inside
                else "Give each of its images ImageOptions of its own.",
            )
        feature = codec.schema.get(name)
        if name in codec.schema and (feature is None or feature.encoding is None):
            raise UnsupportedData(
                Where(feature=name), expected="an image, which ImageOptions decodes", found=repr(codec.schema[name])
            )


def _as_declared(options: ImageOptions, leaf: Any, stored: Feature) -> tuple[ImageOptions, Feature | None]:
    """The options, and the type of images that are not changed, with the channels and depth that a feature declares unless the options say others."""
    if not isinstance(leaf, Image) or len(leaf.shape) != IMAGE_AXES or leaf.declared_dtype not in PIXELS:
        return options, None
    height, width, channels = (length or None for length in leaf.shape)
    channels = options.channels or channels
    if not options.is_plain:
        dtype = "uint8" if options.dtype is None and leaf.declared_dtype == "uint8" else options.dtype
        return replace(options, channels=channels, dtype=dtype), None
    if channels is None:
        return options, None
    size = (None, None) if options.any_size or options.oriented else (height, width)
    return options, Feature(leaf.declared_dtype, (*stored.shape, *size, channels), encoding=stored.encoding)


def _codec(prepared: Prepared, decoders: Decoders | None) -> FeaturesCodec:
    if not isinstance(decoders, PartialDecoding):
        return FeaturesCodec(prepared.features, decoders=decoders)
    features, names, by_key = select_features(prepared.features, decoders)
    return FeaturesCodec(features, decoders=by_key, names=names)


class _Splits:
    """The splits of one dataset, each opened once."""

    def __init__(self, prepared: Prepared, codec: FeaturesCodec, images: Mapping[str, ImageOptions]) -> None:
        self.prepared = prepared
        self.codec = codec
        self.images = images
        self.opened: dict[str, SplitNode] = {}

    def source(self, split: SplitLike) -> PreparedSource:
        """The source for one split argument."""
        if isinstance(split, str) and split in self.prepared.splits:
            return self.named(split, self.whole(split))
        self.check_names(split)
        entries = self.prepared.splits
        lengths = {name: entry.shard_lengths or () for name, entry in entries.items()}
        sizes = {name: self.size(entry) for name, entry in entries.items()}
        pieces = resolve_split(split, sizes, shard_sizes=lengths)
        return self.named(str(split), concatenate([self.part(name, start, stop) for name, start, stop in pieces]))

    def named(self, split: str, node: Node) -> PreparedSource:
        stored = {name: node.schema[name] for name in self.images if name in node.schema}
        if stored:
            leaves = {key: leaf for key, leaf, _ in self.prepared.features.leaves("", ())}
            options = dict(self.images)
            given: dict[str, Feature] = {}
            for name, feature in stored.items():
                options[name], declared = _as_declared(self.images[name], leaves.get(name), feature)
                given |= {} if declared is None else {name: declared}
            node = DecodedNode(node, options, given, stored)
        return PreparedSource(node, self.codec, self.prepared, split)

    def check_names(self, split: SplitLike) -> None:
        """The error for an unknown split, with a suggestion."""
        known = [*self.prepared.splits, "all"]
        for name in split_names(split) if isinstance(split, str) or hasattr(split, "pieces") else ():
            if re.fullmatch(r"[\w-]+", name) and name not in known:
                raise UnsupportedData(
                    Where(path=str(self.prepared.folder)),
                    expected=f"one of the splits {list(self.prepared.splits)} of {self.prepared.full_name}",
                    found=repr(name),
                    hint=did_you_mean(name, known),
                )

    def size(self, entry: PreparedSplit) -> int:
        known = entry.num_examples
        return len(self.whole(entry.name)) if known is None else known

    def part(self, name: str, start: int, stop: int) -> Node:
        whole = self.whole(name)
        return whole if (start, stop) == (0, len(whole)) else Chosen(whole, range(start, stop))

    def whole(self, name: str) -> SplitNode:
        """The source of a whole split."""
        if name not in self.opened:
            entry = self.prepared.splits[name]
            self.opened[name] = SplitNode(open_records(self.prepared, entry), self.codec, self.prepared, entry)
        return self.opened[name]


def open_records(prepared: Prepared, split: PreparedSplit) -> Records:
    """Open the files of a split, in the first format of which all files exist."""
    missing: list[str] = []
    for file_format in dict.fromkeys((prepared.file_format, *prepared.other_formats)):
        paths = _paths(prepared, split, file_format)
        absent = _absent(paths)
        if not absent:
            return _opener(file_format)(paths)
        missing = missing or [f"{len(absent)} of {len(paths)} files missing: {', '.join(absent[:3])}"]
    raise NoFiles(
        Where(path=str(prepared.folder)),
        expected=f"the files of split {split.name!r} of {prepared.full_name}",
        found=missing[0],
        hint="Copy the files there, or prepare the dataset again.",
    )


def _paths(prepared: Prepared, split: PreparedSplit, file_format: str) -> list[str]:
    try:
        names = shard_names(
            split.template, dataset=prepared.name, split=split.name, file_format=file_format, count=split.num_shards
        )
    except CorruptFile as error:
        raise error.relocated(Where(path=str(prepared.folder / INFO_FILE))) from error
    lengths = split.shard_lengths or (1,) * len(names)
    return [os.path.join(prepared.folder, name) for name, n in zip(names, lengths, strict=True) if n]


def _absent(paths: list[str]) -> list[str]:
    """Names of missing files. Each folder is listed only once."""
    there = {folder: _files_in(folder) for folder in {os.path.dirname(path) for path in paths}}
    return [os.path.basename(path) for path in paths if os.path.basename(path) not in there[os.path.dirname(path)]]


def _files_in(folder: str) -> set[str]:
    try:
        with name_in_errors(folder), os.scandir(folder) as entries:
            return {entry.name for entry in entries if entry.is_file()}
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a name with a zero byte
        return set()


def _opener(file_format: str) -> Callable[[list[str]], Records]:
    if file_format == "parquet":
        return ParquetPayloads
    found: Callable[[list[str]], Records] = format_named(file_format).open
    return found
