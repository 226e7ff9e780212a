"""From a path to records, and from records to a source."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from headrace import _hooks
from headrace._arguments import check_names, check_text
from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.infer import RawCodec, infer_payloads, infer_schema
from headrace.contracts.csv import CSV
from headrace.contracts.feature import Feature
from headrace.contracts.protocols import TABLES, HasSchema, SourceLike, offers, reads_batches
from headrace.contracts.records import ReadsFirst, Records, Table, TakesColumns, is_table
from headrace.contracts.schema import Schema
from headrace.errors import DataError, NoFiles, UnsupportedData, Where, did_you_mean
from headrace.formats.framed.records import FramedRecords
from headrace.formats.open import open_records
from headrace.formats.registry import format_named, format_of_name, strip_number
from headrace.formats.table.folders import SPLITS, refuse_managed
from headrace.io.folders import Listing
from headrace.io.paths import expand, path_list
from headrace.io.urls import child_of, is_listing, is_url, is_url_pattern
from headrace.sources.decoded import Decoding, check_decoding, decode_images, stored_schema
from headrace.sources.images import TEXT_FORMATS, as_paths, with_images
from headrace.sources.node import Node
from headrace.sources.records import CsvNode, RecordNode, csv_codec, sagemaker_record_codec
from headrace.sources.source import Source
from headrace.sources.tables import TableNode, table_node

if TYPE_CHECKING:
    from headrace.formats.csv.format import CsvRecords
    from headrace.sources.splits import SplitLike

__all__ = ["Paths", "check_codec", "codec_of", "find_schema", "is_path", "open"]

CODECS = ("example", "raw", "sagemaker_record")

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
SAMPLE = 256
"""How many records schema inference reads."""
BLOCK = 64
"""How many of them come first."""
MOST_NAMES = 1000
"""How many file names an error searches for the one that may be meant."""


def open(
    path: Paths | SourceLike,
    *,
    format: str | CSV | None = None,
    codec: str | None = None,
    schema: Schema | Mapping[str, Feature] | None = None,
    columns: Sequence[str] | None = None,
    split: SplitLike | None = None,
    compression: str | None = None,
    on_corrupt: Literal["raise", "skip"] = "raise",
    verify: bool = True,
    decode: Decoding = True,
    image_columns: Sequence[str] | None = None,
) -> Source:
    """Open files as a random-access sequence of typed examples.

    Args:
        path: A file, a folder, a glob, a set of shards (``x@8``, ``x@*``), or a list of those. Or data in memory: a frame of pandas or
            Polars, an Arrow table, a Hugging Face ``Dataset``, columns as a dict, examples as a list; of the other arguments only
            ``columns`` and ``split`` then apply.
        format: ``"tfrecord"``, ``"recordio"``, ``"array_record"``, ``"riegeli"``, ``"npy"``, ``"npz"``, ``"csv"``, ``"parquet"``,
            ``"jsonl"``, ``"avro"``, ``"webdataset"``; of folders ``"image_folder"``, ``"npy_folder"``, ``"npz_folder"``. By default
            found from the content, then from the name. :class:`headrace.CSV` is the dialect of a CSV file.
        codec: ``"example"`` (tf.train.Example and SequenceExample), ``"sagemaker_record"`` (SageMaker's Record) or ``"raw"``
            (one feature ``record``); by default found from the first records.
        schema: Feature types, instead of those inferred from the first 256 records. Only its features are decoded.
        columns: Decode only these features.
        split: A part in TFDS's split language: ``"train[:80%]"``, or an object such as
            :class:`~headrace.ReadInstruction`. Its name selects the files with that word in their names. One file, or one set
            of shards, whose name has no word such as ``train`` or ``test`` is the only split, under any name.
        compression: ``"none"``, ``"gzip"``, ``"zlib"``; by default found from the content.
        on_corrupt: ``"skip"`` leaves damaged records out and counts them in ``source.skipped``. Formats whose records have no
            boundaries refuse it.
        verify: ``False`` leaves checksums unchecked. Formats without checksums refuse it.
        decode: Whether encoded images become pixels: ``uint8`` (16-bit PNG and TIFF: ``uint16``) of shape ``(height, width,
            channels)``, decoded when they are read. ``False`` leaves the bytes; an :class:`~headrace.ImageOptions` sets how
            they are decoded, and a dict of those by feature how each is: ``{"mask": ImageOptions(interpolation="nearest")}``.
        image_columns: Columns of paths (relative to the folder of their file) to read as images; their paths may lead
            anywhere. ``None``: columns of paths in CSV and JSON Lines are detected, and must stay in that folder. Empty:
            none.

    Raises:
        NoFiles, UnknownFormat, CorruptFile, CorruptRecord, SchemaMismatch: See :mod:`headrace.errors`.
        MissingExtra: On reading images without the extra ``images``.
    """
    check_text(codec, "codec")
    check_names(columns, "columns")
    check_names(image_columns, "image_columns")
    decode = decode if decode is True else check_decoding(decode)
    given = None if schema is None else Schema(schema)
    stored = None if given is None else stored_schema(given)

    def open_files(paths: Paths) -> Source:
        records: Any = open_records(paths, format=format, compression=compression, on_corrupt=on_corrupt, verify=verify)
        if columns is not None and isinstance(records, TakesColumns):
            records = records.only(tuple(dict.fromkeys((*columns, *(image_columns or ())))))
        only = None if columns is None else {*columns, *(image_columns or ())}
        if image_columns is None and records.format not in TEXT_FORMATS:
            node = _node(records, codec, stored, only)
        else:
            rows, images = as_paths(records.format, stored)
            node = with_images(_node(records, codec, rows, only), image_columns, in_schema=images)
        features = list(node.schema.values())
        if (
            isinstance(node, TableNode)
            or not isinstance(decode, bool)
            or any(each.encoding is not None for each in features)
        ):
            node = decode_images(node, decode=decode, given=given)
        source = Source(node)
        return source if columns is None else source.select(*columns)

    if not is_path(path):
        is_plain = decode is True and verify is True and on_corrupt == "raise"
        if not is_plain or any(each is not None for each in (format, codec, schema, compression, image_columns)):
            raise TypeError(f"of {type(path).__name__}, which is no file, open takes columns= and split= only")
        return _open_in_memory(path, columns, split)
    return open_files(path) if split is None else _open_split(path, split, open_files)


def is_path(given: Any) -> TypeGuard[Paths]:
    """Whether this names files. An empty list does: the error about it says so."""
    if isinstance(given, (str, os.PathLike)):
        return True
    if isinstance(given, (list, tuple)):
        return not given or not isinstance(given[0], Mapping)
    is_table = any(hasattr(given, name) for name in TABLES)
    is_source = reads_batches(given) and offers(given, HasSchema)  # such as a Mixture
    return not (is_table or is_source or isinstance(given, (Mapping, Iterator)))


def _open_in_memory(given: Any, columns: Sequence[str] | None, split: SplitLike | None) -> Source:
    source: Source = _hooks.as_source(given)
    source = source if columns is None else source.select(*columns)
    return source if split is None else source.split(split)


def _open_split(path: Paths, split: SplitLike, open_files: Callable[[Paths], Source]) -> Source:
    """The parts of a split expression, end to end."""
    from headrace.sources.splits import split_names

    names = dict.fromkeys(split_names(split))
    folders = _split_folders(path, list(names))
    if folders is not None:
        return _parts(split, {name: open_files(folder) for name, folder in folders.items()})
    try:
        files = expand(path)
    except NoFiles as error:
        refuse_managed(path_list(path))
        if (unknown := _unknown_folders(path, list(names))) is not None:
            raise unknown from error
        raise
    refuse_managed(path_list(path), files)
    found = {name: [file for file in files if name in _words(Path(file).name)] for name in names}
    if not any(found.values()):
        found = {name: [file for file in files if Path(file).parent.name == name] for name in names}
    known = set().union(*(_words(Path(file).name) for file in files[:MOST_NAMES]))
    if not any(found.values()) and _is_one_set(files) and not any(word.lower() in SPLITS for word in known):
        return open_files(files).split(split)  # the only split, since its name is not that of another one
    for name, members in found.items():
        if not members and name != "all":
            words = sorted(known)
            raise NoFiles(
                Where(path=str(path)),
                expected=f"files whose names hold {name!r}",
                found=", ".join(files[:5]),
                hint=did_you_mean(name, words) or "Without split=, all of them are opened.",
            )
    return _parts(split, {name: open_files(members or files) for name, members in found.items()})


def _is_one_set(files: Sequence[str]) -> bool:
    """Whether this is one file, or the shards of one."""
    return len({strip_number(file) for file in files}) == 1


def _split_folders(path: Paths, names: list[str]) -> dict[str, str] | None:
    """The folder of each split, where all of them are folders in a folder."""
    if not isinstance(path, (str, os.PathLike)):
        return None
    if is_url(path):
        return _split_folders_in_store(str(path), names)
    folders = {name: Path(path).expanduser() / name for name in names}
    return {name: str(folder) for name, folder in folders.items()} if all(map(Path.is_dir, folders.values())) else None


def _unknown_folders(path: Paths, names: list[str]) -> NoFiles | None:
    """The error for splits that have no folder, where others have; ``None`` for any other path."""
    if not isinstance(path, (str, os.PathLike)) or is_url(path) or not Path(path).expanduser().is_dir():
        return None
    there = sorted(
        each.name for each in Path(path).expanduser().iterdir() if each.is_dir() and each.name.lower() in SPLITS
    )
    missing = [name for name in names if name not in there]
    if not there or not missing:
        return None
    return NoFiles(
        Where(path=str(path)),
        expected=f"a folder or files of the split {missing[0]!r}",
        found=f"folders of the splits {', '.join(there)}",
        hint=did_you_mean(missing[0], there) or f"split={there[0]!r} opens one of them.",
    )


def _split_folders_in_store(url: str, names: list[str]) -> dict[str, str] | None:
    if not is_listing(url) or is_url_pattern(url) or format_of_name(url) is not None:
        return None
    try:
        there = Listing.of(url).folders
    except NoFiles:
        return None
    return {name: child_of(url, name) for name in names} if set(names) <= set(there) else None


def _parts(split: SplitLike, sources: Mapping[str, Source]) -> Source:
    from headrace.sources.splits import resolve_split

    parts = resolve_split(split, {name: len(source) for name, source in sources.items()})
    chosen = [sources[name][start:stop] for name, start, stop in parts]
    return chosen[0] if len(chosen) == 1 else chosen[0].concat(*chosen[1:])


def _words(name: str) -> set[str]:
    """The words of a file name, between punctuation: ``mini-train.tfrecord-00000`` has ``mini`` and ``train``."""
    words = re.split(r"[^A-Za-z0-9_]+", name)
    return {*words, *(part for word in words for part in word.split("_"))}


def _is_csv(records: Any) -> TypeGuard[CsvRecords]:
    """Whether records are rows of CSV files. It imports nothing, because most programs read other formats."""
    return getattr(records, "format", None) == "csv"


def _node(records: Any, codec: str | None, schema: Schema | None, only: Collection[str] | None) -> Node:
    if _is_csv(records) and codec in (None, "csv"):
        return CsvNode(records, csv_codec(records, schema))
    check_codec(records, codec)
    if not isinstance(records, FramedRecords) and is_table(records):
        return table_node(records, schema)
    return RecordNode(records, codec_of(records, codec=codec, schema=schema, only=only))


def check_codec(records: Records | Table, codec: str | None) -> None:
    """Check that records can have the named codec.

    Raises:
        UnsupportedData: There is none of that name, or the files hold columns and no payloads.
    """
    if codec is None or (codec == "csv" and _is_csv(records)):
        return
    if is_table(records) and not isinstance(records, FramedRecords):
        raise UnsupportedData(
            Where(path=records.paths[0]),
            expected=f"codec=None, the only value that {records.format} supports",
            found=f"codec={codec!r}",
            hint="Its files hold columns with types, and no payloads to decode.",
        )
    if codec not in CODECS:
        raise UnsupportedData(
            Where(),
            expected="codec 'example', 'raw' or 'sagemaker_record'",
            found=repr(codec),
            hint=did_you_mean(codec, CODECS),
        )


def codec_of(
    records: Any,
    *,
    codec: str | None,
    schema: Schema | Mapping[str, Feature] | None,
    only: Collection[str] | None = None,
) -> Any:
    """The codec for records: the named one, or the one that the first records show. ``only`` these features are wanted."""
    check_codec(records, codec)
    given = None if schema is None else Schema(schema)
    if _is_csv(records) and codec in (None, "csv"):
        return csv_codec(records, given)
    if codec == "raw":
        return RawCodec(None if given is None else given.select(["record"])["record"].encoding)
    by_default = format_named(records.format).codec
    if codec == "sagemaker_record" or (codec is None and by_default == "sagemaker_record"):
        record_codec = sagemaker_record_codec(records, _sample(records), given, named=codec is not None, only=only)
        if record_codec is not None:
            return record_codec
    try:
        found = infer_schema(_sample(records), given=given, only=only)
    except DataError as error:
        raise error if error.where.path else error.relocated(records.where_in_order(error.where.record or 0)) from error
    if codec is None and found.codec == "raw" and given is None:
        return RawCodec(found.schema["record"].encoding)
    if codec == "example" and found.codec == "raw" and given is None:
        return ExampleCodec(Schema({}))
    if codec is None and by_default == "sagemaker_record" and (found.codec == "raw" or not _any(_sample(records, 1))):
        from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec

        return SageMakerRecordCodec(given or Schema({}))  # nothing shows Examples: the schema decides
    return ExampleCodec(
        found.schema if given is None else given, lists=found.lists, mixed=found.mixed, shared=found.shared
    )


def _any(sample: Iterator[Any]) -> bool:
    return any(map(len, sample))


def find_schema(records: Any, most: int | None) -> Schema:
    """Find the schema of records: see :meth:`headrace.Schema.infer`."""
    first = records[0] if isinstance(records, (list, tuple)) and records else records
    if isinstance(first, (str, os.PathLike)):
        records = open_records(records)
    if is_table(records):
        return records.schema
    if _is_csv(records):
        return csv_codec(records, None).schema
    if hasattr(records, "iter_spans"):
        by_default = format_named(records.format).codec
        if by_default == "sagemaker_record":
            from headrace.codecs.sagemaker_record.infer import infer_records

            known = infer_records(_sample(records, most))
            if known is not None:
                return known.schema
        return infer_schema(_sample(records, most)).schema
    is_array = hasattr(records, "__array__") or hasattr(records, "tocsr")
    is_one = is_array or not hasattr(records, "__iter__") or isinstance(records, (bytes, bytearray))
    payloads = [] if is_one else list(records if most is None else islice(records, most))
    for given in [records] if is_one else payloads:
        if is_one or not isinstance(given, (bytes, bytearray, memoryview)):
            expected = "a path, records, or an iterable of payloads as bytes"
            raise TypeError(f"a schema is inferred from {expected}, got {type(given).__name__}")
    return infer_payloads(payloads).schema


def _sample(records: Any, most: int | None = SAMPLE) -> Iterator[Any]:
    """Blocks of the first records. Later damage is left for reading to report."""
    seen = 0
    if most is None or not isinstance(records, ReadsFirst):
        blocks = records.iter_spans(BLOCK)
    else:  # The first block is short: it is enough for records that are no messages, which may be large.
        blocks = records.first_spans(min(BLOCK, most), max(0, most - BLOCK))
    try:
        for _, spans in blocks:
            yield spans
            seen += len(spans)
            if most is not None and seen >= most:
                return
    except DataError:
        if seen == 0:
            raise
