"""Write a prepared folder: its splits in order, their statistics and descriptions, and finally its name. Numbers of files follow TFDS's rules."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.datasets.building.order import Ordering, key_bytes
from headrace.datasets.building.statistics import statistics_of
from headrace.datasets.codec import FeaturesEncoder
from headrace.datasets.features.base import DatasetFeature
from headrace.datasets.features.label import ClassLabel
from headrace.datasets.features.mapping import FeaturesDict
from headrace.datasets.features.sequence import Dataset
from headrace.datasets.features.sequence import Sequence as SequenceFeature
from headrace.datasets.prepared import (
    DEFAULT_TEMPLATE,
    FEATURES_FILE,
    INFO_FILE,
    Prepared,
    leaf_names,
    read_prepared,
    shard_names,
)
from headrace.errors import DataError, NoSuchFeature, SchemaMismatch, UnsupportedData, Where, did_you_mean
from headrace.formats.registry import format_named
from headrace.io.faults import close_quietly, name_in_errors
from headrace.io.progress import Progress, say
from headrace.io.system import discard_folder, lock, sync_folder
from headrace.io.write.atomic import write_atomic

__all__ = [
    "Examples",
    "Preparation",
    "check_class_names",
    "check_named",
    "check_supervised_keys",
    "keys_json",
    "num_shards_for",
    "prepare",
    "shard_lengths",
    "split_json",
    "write_features",
    "write_fields",
]


def split_json(name: str, lengths: list[int], size: int, statistics: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Make a ``SplitInfo`` message, in which integers are text."""
    out: dict[str, Any] = {
        "filepathTemplate": DEFAULT_TEMPLATE,
        "name": name,
        "numBytes": str(size),
        "shardLengths": [str(length) for length in lengths],
    }
    if statistics:
        out["statistics"] = statistics
    return out


def keys_json(keys: Any) -> dict[str, Any]:
    """Make a ``SupervisedKeys`` message, or a part of one, from names, tuples and dicts of names."""
    if isinstance(keys, str):
        return {"featureKey": keys}
    if isinstance(keys, Mapping):
        return {"dict": {"dict": {name: keys_json(inner) for name, inner in keys.items()}}}
    return {"tuple": {"items": [keys_json(inner) for inner in keys]}}


def write_fields(folder: Path, fields: Mapping[str, Any]) -> None:
    """Write ``dataset_info.json`` without empty fields."""
    given = {name: value for name, value in fields.items() if value not in ("", None, [], {}, False)}
    write_atomic(folder / INFO_FILE, json.dumps(given, indent=2, sort_keys=True).encode())


def check_class_names(features: DatasetFeature) -> None:
    """Check that a ``.labels.txt`` holds the names of all classes: TFDS reads a name per line, without spaces around it.

    Raises:
        UnsupportedData: It would not hold one.
    """
    for file, label in features.label_files(""):
        for name in label.names if getattr(label, "has_names", False) else ():
            is_whole = name == name.strip() != "" and "\n" not in name and "\r" not in name
            if not is_whole or any("\ud800" <= letter <= "\udfff" for letter in name):
                raise UnsupportedData(
                    Where(path=file),
                    expected="names of classes that fit on a line, without spaces around them",
                    found=repr(name),
                    hint="Rename the class.",
                )


def check_named(features: DatasetFeature) -> None:
    """Check that examples have named features, as every dataset needs.

    Raises:
        UnsupportedData: They are single values.
    """
    if not isinstance(features, (FeaturesDict, SequenceFeature)):
        raise UnsupportedData(
            Where(),
            expected="a dict of features, or a sequence of one",
            found=repr(features),
            hint="Give it a name: features={'value': ...}.",
        )


def check_supervised_keys(features: DatasetFeature, keys: Any) -> None:
    """Check that supervised keys are features of the dataset.

    Raises:
        NoSuchFeature: One is not.
    """
    known = [key for key, _, _ in features.leaves("", ())]
    for name in leaf_names(keys) if keys else ():
        if name not in known and not any(key.startswith(f"{name}/") for key in known):
            raise NoSuchFeature(
                Where(),
                expected=f"supervised_keys among the features {known}",
                found=repr(name),
                hint=did_you_mean(name, known),
            )


def write_features(folder: Path, features: DatasetFeature) -> None:
    """Write ``features.json``, and a ``.labels.txt`` for every feature with named classes."""
    text = json.dumps(features.to_json(), indent=4, sort_keys=False)
    write_atomic(folder / FEATURES_FILE, text.encode())
    for name, label in features.label_files(""):
        if getattr(label, "has_names", False):
            write_atomic(folder / name, ("\n".join(label.names) + "\n").encode())


LEAST_BYTES = 64 << 20
MOST_BYTES = 1 << 30
FRAME_BYTES = 16
"""Overhead of TFRecord per payload."""
MANY = 1024
_USUAL = (512, 256, 128, 64, 32, 16, 8, 4, 2)


def num_shards_for(size: int, count: int) -> int:
    """Choose the number of files of a split: of 64 MiB to 1 GiB each, powers of two up to 1024, then multiples of 1024.

    Args:
        size: Bytes of all payloads.
        count: Number of payloads.
    """
    size += count * FRAME_BYTES
    most, least = size // LEAST_BYTES, size // MOST_BYTES
    if least <= MANY <= most and count >= MANY:
        return MANY
    if least > MANY:
        wanted = max(2, -(-least // MANY)) * MANY
        return wanted if count >= wanted else max(1, count)
    return next((n for n in _USUAL if least <= n <= most and count >= n), 1)


def shard_lengths(count: int, shards: int) -> list[int]:
    """Distribute examples over files, and return the number in each.

    Raises:
        UnsupportedData: There are fewer examples than files.
    """
    if count < shards:
        raise UnsupportedData(
            Where(), expected=f"at least one example for each of {shards} files", found=f"{count} examples"
        )
    ends = [round(count * number / shards) for number in range(1, shards + 1)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


Examples = Iterable[Any] | Callable[[], Iterable[Any]]
"""Pairs of key and example, or examples, which are then numbered; or a function that returns those. An example may also be given as
serialised bytes."""

UNFINISHED = "incomplete.headrace-"
BLOCK_RECORDS = 1024


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Everything that is written to a prepared folder. See :class:`~headrace.datasets.building.DatasetBuilder` for the arguments."""

    folder: Path
    features: DatasetFeature
    splits: Callable[[], Mapping[str, Examples]]
    fields: Mapping[str, Any]
    file_format: str
    num_shards: int | None
    shuffled: bool
    progress: bool
    default_config: str


def prepare(wanted: Preparation) -> Prepared:
    """Return the prepared folder, and write it first if it is missing."""
    folder = wanted.folder
    if not (folder / INFO_FILE).is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder):
            if not (folder / INFO_FILE).is_file():
                check_class_names(wanted.features)
                _remove_unfinished(folder)
                _make(wanted)
    return _read_matching(wanted)


def _read_matching(wanted: Preparation) -> Prepared:
    """Read the existing folder, and check that it matches."""
    found = read_prepared(wanted.folder)
    hint = "Raise the version of the builder, name another data_dir, or remove the folder."
    where = Where(path=str(wanted.folder))
    if found.file_format != wanted.file_format:
        raise UnsupportedData(where, expected=f"files of {wanted.file_format}", found=found.file_format, hint=hint)
    if _layout(found.features) != _layout(wanted.features):
        raise UnsupportedData(
            where, expected=f"the features {wanted.features!r}", found=repr(found.features), hint=hint
        )
    existing = dict(found.features.label_files(""))
    for file, label in wanted.features.label_files(""):
        if file in existing and _differ(label, existing[file]):
            raise UnsupportedData(
                Where(path=str(wanted.folder / file)),
                expected=f"{label.num_classes} classes, {label.names!r:.200}",
                found=f"{existing[file].num_classes}, {existing[file].names!r:.200}",
                hint=hint,
            )
    return found


def _layout(features: DatasetFeature) -> list[Any]:
    """The part of features that decides how files are read."""
    out: list[Any] = []
    for key, leaf, levels in features.leaves("", ()):
        inner = leaf.inner_leaves(key) if isinstance(leaf, Dataset) else [(key, leaf, levels)]
        out += [(name, isinstance(leaf, Dataset), each.value_dtype, each.shape, depth) for name, each, depth in inner]
    return sorted(out, key=lambda entry: entry[0])


def _differ(left: ClassLabel, right: ClassLabel) -> bool:
    """Whether the classes of two labels differ, as far as both are known."""
    if left.has_names and right.has_names:
        return left.names != right.names
    return None not in (left.num_classes, right.num_classes) and left.num_classes != right.num_classes


def _make(wanted: Preparation) -> None:
    temporary = wanted.folder.parent / f"{UNFINISHED}{os.getpid()}-{os.urandom(4).hex()}_{wanted.folder.name}"
    temporary.mkdir()
    try:
        _write(wanted, temporary)
        sync_folder(str(temporary))
        try:
            temporary.rename(wanted.folder)
        except OSError as error:
            # Without file locks another process may have finished first: use its folder.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not (wanted.folder / INFO_FILE).is_file():
                raise
        sync_folder(str(wanted.folder.parent))
    finally:
        discard_folder(temporary)
    if wanted.default_config:
        _note_default(wanted.folder.parent.parent, wanted.default_config)


def _write(wanted: Preparation, folder: Path) -> None:
    """Write all files of the folder, and read them back."""
    splits = wanted.splits()
    if not splits:
        raise UnsupportedData(Where(), expected="at least one split", found="none")
    written = [_Split(wanted, folder, name).write(examples) for name, examples in splits.items()]
    write_features(folder, wanted.features)
    write_fields(folder, {**wanted.fields, "splits": [split_json(*one) for one in written]})
    prepared = read_prepared(folder)
    entries = []
    for name, lengths, size in written:
        paths = _paths(prepared.name, name, folder, wanted.file_format, len(lengths))
        counted = statistics_of(prepared, prepared.splits[name], paths, progress=wanted.progress)
        entries.append(split_json(name, lengths, size, counted))
    write_fields(folder, {**wanted.fields, "splits": entries})


class _Split:
    """A split that is being written."""

    def __init__(self, wanted: Preparation, folder: Path, name: str) -> None:
        if not name or not name.replace("-", "").replace("_", "").isalnum() or name == "all":
            raise ValueError(
                f"a split has a name of letters, digits, _ and -, and 'all' means all of them; got {name!r}"
            )
        self.wanted = wanted
        self.folder = folder
        self.name = name

    def write(self, examples: Examples) -> tuple[str, list[int], int]:
        """Write all files, and return the name, the number of examples of each file, and the bytes of all payloads."""
        work = self.folder / "unordered"
        work.mkdir()
        ordering = Ordering(self.name, work, shuffled=self.wanted.shuffled)
        with Progress(f"making {self.name}", None, "examples", show=self.wanted.progress) as bar:
            for key, payload in self.payloads(examples):
                ordering.add(key, payload)
                bar.advance(1)
        lengths = self.lengths(ordering)
        self.put(ordering, lengths)
        with name_in_errors(str(work)):
            shutil.rmtree(work)  # After an error, the whole folder is removed.
        return self.name, lengths, ordering.bytes

    def payloads(self, examples: Examples) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over keys and serialised examples in order of arrival."""
        encoder = FeaturesEncoder(self.wanted.features)
        given = examples() if callable(examples) else examples
        for number, entry in enumerate(given):
            key, example = entry if isinstance(entry, tuple) and len(entry) == 2 else (number, entry)
            is_payload = isinstance(example, (bytes, memoryview))
            try:
                content = key_bytes(key)
                payload = bytes(example) if is_payload else encoder.encode(example)
            except DataError as error:
                raise error.relocated(Where(path=f"split {self.name!r}, key {key!r}", record=number)) from error
            yield content, payload

    def lengths(self, ordering: Ordering) -> list[int]:
        if ordering.count == 0:
            raise SchemaMismatch(Where(), expected=f"examples of split {self.name!r}", found="none")
        shards = self.wanted.num_shards or num_shards_for(ordering.bytes, ordering.count)
        return shard_lengths(ordering.count, shards)

    def put(self, ordering: Ordering, lengths: list[int]) -> None:
        payloads = iter(ordering)
        paths = _paths(self.wanted.fields["name"], self.name, self.folder, self.wanted.file_format, len(lengths))
        writer = format_named(self.wanted.file_format).writer
        if writer is None:
            raise AssertionError(f"{self.wanted.file_format} is a format of records")
        with Progress(f"writing {self.name}", ordering.count, "examples", show=self.wanted.progress) as bar:
            for path, length in zip(paths, lengths, strict=True):
                with writer(Path(path), compression=None) as out:
                    left = length
                    while left:
                        block = list(islice(payloads, min(left, BLOCK_RECORDS)))
                        out.write_many(block)
                        left -= len(block)
                        bar.advance(len(block))


def _paths(dataset: str, split: str, folder: Path, file_format: str, count: int) -> list[str]:
    names = shard_names(DEFAULT_TEMPLATE, dataset=dataset, split=split, file_format=file_format, count=count)
    return [str(folder / name) for name in names]


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that is being written. Waits for another writer."""
    fd = os.open(folder.parent / f".{folder.name}.lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        with name_in_errors(str(folder)):
            if not lock(fd):
                say(f"waiting for another process that prepares {folder}")
                lock(fd, wait=True)
        yield
    finally:
        close_quietly(fd)


def _remove_unfinished(folder: Path) -> None:
    """Remove what killed processes have left. Requires the lock."""
    for left in folder.parent.glob(f"{UNFINISHED}*_{folder.name}"):
        discard_folder(left)


def _note_default(dataset: Path, config: str) -> None:
    """Write the default config where TFDS looks for it."""
    notes = dataset / ".config"
    notes.mkdir(exist_ok=True)
    write_atomic(notes / "metadata.json", json.dumps({"default_config_name": config}).encode())
