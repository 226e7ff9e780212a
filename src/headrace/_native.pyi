"""Made by tools/stubs.py from the compiled module. Do not edit: run `make stubs`."""

"""
Framing, decoding and sampling in C++. Internal: only contracts, io, formats, codecs, sampling and loading import it.
"""

from collections.abc import Sequence

from typing_extensions import Buffer
from typing import Annotated, Any

import numpy
import numpy.typing
from numpy.typing import NDArray


class FormatError(ValueError):
    """
    A fault in some bytes. Attributes: fault (str), offset, expected, found, record, feature (int; -1 where it does not apply).
    """

    fault: str
    offset: int
    expected: int
    found: int
    record: int
    feature: int
    starts: numpy.typing.NDArray[numpy.int64]

def pool_stats() -> dict[str, int]:
    """
    Statistics of the batch memory: idle bytes, bytes in use, blocks taken and recycled.
    """

def pooled(size: int) -> numpy.typing.NDArray[numpy.uint8]:
    """
    Uninitialised batch memory of `size` bytes. It returns to the pool when its last view is deleted.
    """

def pool_keep(bytes: int) -> None:
    """Keep at most so much batch memory that is not in use."""

def pool_clear() -> None:
    """Free the batch memory that is not in use."""

def pool_after_fork() -> None:
    """Replace the pool by an empty one, in a forked child."""

def join_loop() -> bool:
    """
    Work for about 2 ms on the images of a batch that another thread decodes. False, at once, if there is no such batch with images left.
    """

class PoolBlock:
    """
    The memory of a column. It returns to the pool when the last array over it dies.
    """

class Buffers:
    """
    Buffers from which many calls take records. This object keeps them alive.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None: ...

    def __len__(self) -> int: ...

    def join(self) -> tuple[Buffers, numpy.typing.NDArray[numpy.int64]] | None:
        """
        One buffer that holds all of these, and where each begins in it, if they are whole mapped files on adjacent pages. None if they are not.
        """

class Spans:
    """The payloads of some records, in the order they were asked for."""

    def __len__(self) -> int: ...

    def view(self, index: int) -> memoryview:
        """
        Payload `index` as a read-only view that keeps these spans alive; its checksum is checked first.
        """

    def to_bytes(self) -> list[bytes]:
        """
        Every payload, copied unless it is a bytes object already; checksums are checked.
        """

    def to_strings(self) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]:
        """
        Every payload, copied end to end, and where each begins and the last ends; checksums are checked.
        """

    def part(self, start: int, stop: int) -> Spans:
        """Records from `start` to `stop`, over the same bytes."""

    @property
    def total_bytes(self) -> int:
        """Sum of the payload sizes, in bytes."""

def spans_of_buffers(buffers: Sequence[Buffer]) -> Spans:
    """Spans over whole buffers, one record each, without a copy."""

class Columns:
    """
    Contiguous arrays of numbers, and columns of text of the class `strings` with one axis, whose rows are copied together. They must not change.
    """

    def __init__(self, columns: Sequence[Any], strings: type) -> None: ...

    def copy(self, first: int, stop: int) -> list[Any]:
        """
        The rows from first to stop of each column: copies of numbers, views of text. IndexError: one has fewer.
        """

    def pick(self, indices: numpy.typing.NDArray[numpy.int64]) -> list[Any]:
        """
        Copies of the rows at these indices of each column. FormatError: one is out of range.
        """

def join_rows(parts: Sequence[tuple[Columns, int, int]]) -> list[Any] | None:
    """
    The rows from first to stop of each part, (columns, first, stop), end to end, as copies. None if the parts have columns of other kinds, dtypes or shapes. IndexError: one has fewer rows.
    """

def pad_rows(values: numpy.typing.NDArray[Any], offsets: numpy.typing.NDArray[numpy.int64], length: int, filling: numpy.typing.NDArray[Any]) -> numpy.typing.NDArray[Any]:
    """
    Rows that vary in length as an array (rows, length, *inner): row i has the values from offsets[i] up to offsets[i + 1], as far as they fit, then the one of `filling`. FormatError: offsets are out of range.
    """

def take_varying_rows(parts: list[tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[numpy.int64]]], indices: numpy.typing.NDArray[numpy.int64]) -> tuple[numpy.typing.NDArray[Any], numpy.typing.NDArray[numpy.int64]]:
    """
    The rows at these indices, which count through the parts, (values, offsets) each: their values end to end, and their offsets. FormatError: one is out of range.
    """

def check_strings(data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64], is_text: bool) -> tuple[int, int]:
    """
    The first value with decreasing or out-of-range offsets, and the first that is not UTF-8; -1 if there is none.
    """

def are_offsets(offsets: Any, size: int) -> bool:
    """
    Whether these are contiguous int64 in host memory that run from 0 to `size` and never fall.
    """

def take_strings(data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64], indices: numpy.typing.NDArray[numpy.int64]) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]:
    """
    Data and offsets of the values at these indices, copied. Negative indices count from the end.
    """

def compare_strings(data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64], other_data: numpy.typing.NDArray[numpy.uint8], other_offsets: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.bool_]:
    """For each value whether it equals the other one."""

def compare_strings_with(data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64], value: bytes) -> numpy.typing.NDArray[numpy.bool_]:
    """For each value whether it equals `value`."""

def hash_strings(data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64], buckets: int, seed: int) -> numpy.typing.NDArray[numpy.int64]:
    """XXH64 of each value with this seed, modulo `buckets`."""

def list_strings(data: numpy.typing.NDArray[numpy.uint8], offsets: numpy.typing.NDArray[numpy.int64], is_text: bool) -> list[Any]:
    """The values as a list of str or bytes."""

def make_strings(values: list[Any], is_text: bool) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], int]:
    """
    Data and offsets of a list of str, bytes or bytearray, and the position of the first value that is none of these, or not UTF-8 where text is wanted; -1: none.
    """

def cut_batch(batch: dict[str, Any], strings: type, ragged: type, size: int, count: int) -> list[dict[str, Any]]:
    """
    `count` parts of `size` rows each: slices of the columns. `strings` and `ragged` are the classes of columns of text and of rows that vary in length, whose slices are made here.
    """

def list_examples(names: tuple[Any, ...], columns: list[list[Any]]) -> list[dict[Any, Any]]:
    """A dict for each row of some columns, by their names."""

def split_examples(examples: Sequence[Any], names: tuple[Any, ...]) -> list[list[Any]] | None:
    """
    The values of each of these features in some examples. None if an example is no dict, or has other features.
    """

def measure_batch(batch: dict[str, Any], strings: type, ragged: type, rows: int) -> tuple[int, bool] | None:
    """
    The bytes of columns that have `rows` rows, and whether all are arrays. None if one has other rows, or is neither an array nor of these classes.
    """

class AdjacentPlaces:
    """
    Where the files of one set are mapped: each on the pages behind the one before.
    """

    def __init__(self) -> None: ...

    def read_whole(self, most: int) -> None:
        """
        From now on, files up to this size are read completely when their first missing page is touched; 0: none.
        """

class MappedFile:
    """A file's bytes as read-only memory, through the buffer protocol."""

    def __init__(self, fd: int, size: int | None = None, name: str = '', opened: str = '', private: bool = False, among: AdjacentPlaces | None = None) -> None:
        """
        Map the first `size` bytes, by default all; the descriptor may be closed afterwards. ValueError if the file is shorter, or not a regular file. `name` is the file's name in errors, `opened` its absolute path. Users get only copies of a private one. `among`: the set to which it belongs.
        """

    def __len__(self) -> int: ...

    def signature(self, block_bytes: int) -> tuple[int, int, int, int]:
        """As `read_signature`, for a file that is mapped completely."""

    def drop(self, offset: int, size: int) -> None:
        """
        Release the resident pages of a range; they are read again when touched.
        """

    def expect_scattered_reads(self, scattered: bool) -> None:
        """Whether a missing page is read alone, without its neighbours."""

    def expect_all(self) -> None:
        """
        That all of it will be read: what is missing is read in large parts, until reads are scattered.
        """

class GuardedRead:
    """
    Inside this context, the thread may read buffers of mapped files even if such a file is truncated; leaving the context then raises the error. Use nothing that was read before leaving, and do not yield inside.
    """

    def __init__(self, *buffers: Buffer | Spans) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...

def copy_bytes(data: Buffer, offset: int = 0, size: int = ...) -> bytes:
    """`size` bytes from `offset`, or fewer at the end."""

def copy_ranges(buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, begins: numpy.typing.NDArray[numpy.int64], ends: numpy.typing.NDArray[numpy.int64]) -> list[bytes]:
    """
    The bytes [begins[i], ends[i]) of buffers[which[i]] (None: all of the first).
    """

def on_lost_file(function: Any) -> None:
    """
    Set the function that makes the exception for a mapped file that was truncated during a read, from its name, its opened path, and its size.
    """

HAS_MAPPED_FILE: bool = True

def count_mapped() -> int:
    """How many files this process has mapped by `MappedFile` now."""

def read_signature(fd: int, block_bytes: int) -> tuple[int, int, int, int]:
    """
    For an open file: size, mtime in nanoseconds, CRC-32C of its first and last block, and ctime in nanoseconds. Its position does not change.
    """

def start_writing_back(fd: int, offset: int, size: int) -> bool:
    """
    Ask the system to start writing a range to the disk, without waiting. False if it cannot.
    """

class InflatedPiece:
    """Inflated bytes, through the buffer protocol: read-only, not copied."""

class GzipInflater:
    """
    Inflates several stretches of a GZIP file in parallel. Refuses files with many matches.
    """

    def __init__(self, stretch: int = 524288, threads: int = 1) -> None: ...

    @property
    def own(self) -> int:
        """
        The number of compressed bytes that the next part owns: few at first, so that the first bytes come soon.
        """

    @property
    def most_own(self) -> int:
        """The most compressed bytes that a part owns."""

    @property
    def margin(self) -> int:
        """The number of bytes that a part needs after its own."""

    @property
    def most_waiting(self) -> int:
        """The most parts that may wait to be taken."""

    @property
    def waiting(self) -> int:
        """The number of parts given and not yet taken."""

    @property
    def has_room(self) -> bool:
        """Whether another part may be given."""

    @property
    def state(self) -> str:
        """'going', 'done' or 'refused', as far as parts were taken."""

    def give(self, data: Buffer, own: int, last: bool) -> None:
        """
        Give the next part: its own bytes, which follow those of the previous part, and the margin. They must not change until the part is taken.
        """

    def take(self) -> list[memoryview]:
        """Take the oldest part: views of its inflated bytes."""

    @property
    def taken_crc(self) -> int:
        """The CRC-32 of all bytes taken."""

def crc32(data: Buffer, before: int = 0) -> int:
    """CRC-32 of the bytes, as GZIP defines it."""

def crc32c(data: Buffer) -> int:
    """CRC-32C of the bytes."""

def masked_crc32c(data: Buffer) -> int:
    """CRC-32C, masked as TFRecord files store it."""

def crc32c_by_tables(data: Buffer) -> int:
    """CRC-32C without the processor's instruction."""

def crc32c_blocks(data: Buffer, block_bytes: int) -> numpy.typing.NDArray[numpy.uint32]:
    """CRC-32C of each block of the bytes; the last one may be shorter."""

def compare_blocks(data: Buffer, starts: numpy.typing.NDArray[numpy.int64], stops: numpy.typing.NDArray[numpy.int64], sums: numpy.typing.NDArray[numpy.uint32], sound: numpy.typing.NDArray[numpy.bool_], block_bytes: int) -> tuple[int, bool]:
    """
    Compare the CRC-32C of the blocks around some byte ranges, except blocks marked as sound, and mark those that agree. Returns the first that differs, or -1, and whether any was compared.
    """

def crc32c_engine() -> str:
    """How CRC-32C is computed here: 'sse4.2', 'armv8' or 'table'."""

def scan_tfrecord(data: Buffer, start: int, stop: int, *, verify: bool, max_records: int) -> tuple[numpy.typing.NDArray[numpy.int64], int]:
    """
    Starts of the records that begin in [start, stop), and where the next one begins. A FormatError has the starts found before it as `starts`.
    """

class Patience:
    """
    The number of bytes that may still be checksummed without finding a record: 64 times the buffer at first. It bounds the work that a hostile file can cause. Not thread-safe.
    """

    def __init__(self, size: int) -> None: ...

    @property
    def left(self) -> int: ...

    def spend(self, bytes: int) -> None: ...

def find_tfrecord(data: Buffer, start: int, patience: Patience | None = None) -> int:
    """
    The first offset at or after start where a complete, intact record begins; -1 if there is none.
    """

def gather_tfrecord(buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, offsets: numpy.typing.NDArray[numpy.int64], *, verify: bool) -> Spans:
    """
    Spans over the records that begin at the offsets. Reading a payload checks its checksum.
    """

def frame_tfrecord(block: numpy.typing.NDArray[numpy.uint8], starts: numpy.typing.NDArray[numpy.int64], sizes: numpy.typing.NDArray[numpy.int64]) -> None:
    """Fill in the 12 bytes before and the 4 after each payload, in place."""

def frame_tfrecords(payloads: Sequence[Buffer]) -> numpy.typing.NDArray[numpy.uint8]:
    """Complete framed records, concatenated."""

class ImageViews:
    """
    How to crop, resize and flip images, and the layout of their pixels in a batch.
    """

    def __init__(self, *, crop: tuple[tuple[int, int], tuple[float, float], tuple[float, float]] | None, resize: int | tuple[int, int] | None, center_crop: tuple[int, int] | None, flip: bool, interpolation: str, is_planar: bool, values: numpy.typing.NDArray[numpy.float32] | None) -> None: ...

    def draws(self) -> int:
        """How many random numbers an image needs."""

    def size(self, height: int, width: int) -> tuple[int, int] | None:
        """
        The height and width of a view of an image of this size; None if the image is too small.
        """

    def apply(self, image: numpy.typing.NDArray[numpy.uint8], draws: numpy.typing.NDArray[numpy.float64], out: numpy.typing.NDArray[numpy.uint8]) -> bool:
        """
        Write a view of an image (height, width, channels) to the bytes of `out`. False if it has another size.
        """

def decode_jpeg_views(images: list[Any], views: ImageViews, draws: numpy.typing.NDArray[numpy.float64], size: tuple[int, int], channels: int, most_pixels: int) -> tuple[numpy.typing.NDArray[numpy.uint8], list[int]]:
    """
    Views of JPEGs as bytes, uint8 (n, bytes), and the positions of images that are not plain, are damaged, or have a view of another size. Their bytes are not written.
    """

RECORDIO_MAGIC: int = 3470205706

class RecordIOWalks:
    """
    What scan_recordio and find_recordio remember of one buffer from call to call, so that a hostile file does not make them walk over the same parts for each of many records. Not for several threads at once.
    """

    def __init__(self) -> None: ...

    @property
    def looked(self) -> int:
        """How many parts were looked at."""

def scan_recordio(data: Buffer, start: int, stop: int, *, max_records: int, walks: RecordIOWalks | None = None) -> tuple[numpy.typing.NDArray[numpy.int64], int]:
    """
    Starts of the records that begin in [start, stop), and where the next one begins. A FormatError has the starts found before it as `starts`; a wrong magic word directly after the last record is also an error.
    """

def find_recordio(data: Buffer, start: int, walks: RecordIOWalks | None = None) -> int:
    """
    The first multiple of 4 at or after start where a complete record begins; -1 if there is none.
    """

def gather_recordio(buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, offsets: numpy.typing.NDArray[numpy.int64], *, join: str = 'auto') -> Spans:
    """
    Spans over the records that begin at the offsets. Records of several parts are joined with the magic word between them ('magic'), without ('plain'), or with it and the other reading kept for the codec to choose ('auto').
    """

def frame_recordio(block: numpy.typing.NDArray[numpy.uint8], starts: numpy.typing.NDArray[numpy.int64], sizes: numpy.typing.NDArray[numpy.int64]) -> int:
    """
    Frame payloads with 8 bytes before and padding after each, close larger gaps, and return how much of the block is used.
    """

def frame_recordio_payloads(payloads: Sequence[Buffer]) -> numpy.typing.NDArray[numpy.uint8]:
    """Complete framed records, concatenated."""

def scan_tar(data: Buffer, begin: int, most: int) -> tuple[list[str], numpy.typing.NDArray[numpy.int64], int]:
    """
    The names of the next regular files of a tar archive, their first bytes and sizes (files, 2), and where the header after them begins. It ends at the first header that is not plain: see tar.hpp.
    """

def scan_csv(data: Buffer, start: int, stop: int, dialect: tuple[str, str, str], *, width: int, utf8: bool, last: bool, max_records: int) -> tuple[numpy.typing.NDArray[numpy.int64], int]:
    """
    Starts of the rows that begin in [start, stop), and where to continue. A dialect is (delimiter, quote or '', decimal mark). If width is not 0, every row must have that many fields. A FormatError has the starts found before it as `starts`.
    """

def find_csv(data: Buffer, start: int) -> int:
    """Where the first line at or after start begins; -1 if there is none."""

def gather_csv(buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, offsets: numpy.typing.NDArray[numpy.int64], dialect: tuple[str, str, str], end: int = -1) -> Spans:
    """
    Spans over the rows that begin at the offsets, without their line ends. With `end`, they are rows of the first buffer that follow each other, as scan_csv found them, up to there.
    """

def values_of_csv(row: Buffer, dialect: tuple[str, str, str]) -> list[bytes]:
    """The values of one row, without quotes."""

def examine_csv(spans: Spans, dialect: tuple[str, str, str], width: int, missing: list[str], until_text: bool = False, threads: int = 1) -> list[dict[str, int]]:
    """
    The kinds of values in each column: how many are integers, texts, ... With until_text, a column is examined only until its first text.
    """

def examine_csv_rows(data: Buffer, starts: numpy.typing.NDArray[numpy.int64], end: int, dialect: tuple[str, str, str], width: int, missing: list[str], until_text: bool = False, threads: int = 1) -> list[dict[str, int]]:
    """
    The same for rows of one buffer that follow each other, as scan_csv found them, up to `end`.
    """

def examine_csv_head(data: Buffer, begin: int, runs: tuple[int, int, int], dialect: tuple[str, str, str], width: int, missing: list[str], until_text: bool = False, threads: int = 1) -> tuple[list[dict[str, int]], int] | None:
    """
    The same for the rows that a scan in runs from `begin` on finds, and where they end. Runs are (bytes of the first one, of the largest ones, of all together). None if only a scan can tell where rows begin.
    """

class CsvDecoder:
    """
    Decodes rows into columns. Specs are (field, kind, default), kinds 1 int64, 2 uint64, 3 float64, 4 float32, 5 bool, 6 text; a text's encoding is '' where bytes are wanted.
    """

    def __init__(self, dialect: tuple[str, str, str], width: int, missing: list[str], specs: list[tuple[int, int, bytes | None]], encodings: list[str]) -> None: ...

    def decode(self, spans: Spans, strings: type) -> list[Any]:
        """
        A column for each spec: an array; of texts an object of the class `strings`, in UTF-8, or the number of the first one that is not text in the encoding.
        """

    def decode_rows(self, stretches: list[tuple[Buffer, int, int]], rows: int, strings: type) -> list[Any] | None:
        """
        The same for rows that follow each other. A stretch is (buffer, start of the first row, end of the last one or start of the one after it). None if there are not `rows` of them, or if any is not as it should be: decode reports why, or decodes them.
        """

def encode_csv(columns: list[tuple[int, int, Any] | tuple[int, int, Any, list[bytes]]], rows: int, dialect: tuple[str, str, str], line_end: str, missing: str = 'nan') -> bytes:
    """
    Rows as text. Columns are (kind, values per row, values): a flat array, and of texts a list of bytes, or their data and offsets. A fourth item has a text for each value of a row, which is quoted in any case. `missing` is written for NaN.
    """

class RecordDecoder:
    """Decodes payloads that are SageMaker Records into columns."""

    def __init__(self, specs: list[tuple[int, bytes, int, int, int, tuple[int, ...], bool]]) -> None:
        """
        Specs: (place 1 features | 2 label | 3 uid | 4 metadata | 5 configuration, key, kind 0 string | 1 float32 | 2 float64 | 3 int32 | 4 bytes, layout 0 fixed | 1 varying | 2 sparse | 3 text, count or width or -1, axes or -1, required).
        """

    def decode(self, spans: Spans, threads: int = 1, least_bytes: int = ...) -> list[tuple[Any, numpy.typing.NDArray[numpy.int64] | None, Any, int, numpy.typing.NDArray[numpy.int64] | None, numpy.typing.NDArray[numpy.int64] | None]]:
        """
        For each spec: concatenated values (an array; for text data, offsets and the first value that is not UTF-8 or -1), offsets, keys (int32 or int64), width, axis lengths, and the records without it. Sparse columns are decoded by up to `threads` threads, each on least_bytes of payloads or more.
        """

class RecordScanner:
    """Collects the features in Records, to infer a schema."""

    def __init__(self) -> None: ...

    def add(self, spans: Spans) -> None:
        """Add some records."""

    @property
    def records(self) -> int:
        """The number of Records added."""

    @property
    def rejected(self) -> int:
        """The number of payloads that are not Records."""

    @property
    def keys(self) -> list[dict[str, Any]]:
        """What was found for every place and key."""

def encode_records(columns: list[tuple[int, bytes, int, int, Any, Any, Any, int, tuple[int, ...], Any]], n: int, head: int, tail: int, align: int = 1) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]:
    """
    Serialise n Records from columns (place, key, kind, count or -1, offsets, values, keys, width, shape, shapes) into one block: block, payload starts, payload sizes.
    """

def parse_record(payload: Buffer) -> tuple[dict[bytes, Any], dict[bytes, Any], bytes | None, bytes | None, bytes | None]:
    """
    One Record: features and label (each key to (kind, values, keys, shape), with None for missing parts; for bytes (4, values, content type, None)), uid, metadata, configuration.
    """

def record_payloads(spans: Spans) -> list[bytes]:
    """
    Every payload, copied. If the frame allows two readings, the one that is a Record. Checksums are checked.
    """

def is_record(payload: Buffer) -> bool:
    """Whether a whole payload is one Record."""

class View:
    """Bytes, through the buffer protocol."""

class Chunks:
    """Some chunks of a Riegeli file on their way to records."""

    def __len__(self) -> int: ...

    def begin(self, chunk: int) -> int:
        """Where a chunk begins."""

    @property
    def ready(self) -> bool:
        """Whether all records are decoded."""

    def jobs(self) -> list[tuple[int, memoryview, memoryview, int]]:
        """
        The data to decompress before `advance`: codec (98 Brotli, 115 Snappy, 122 unusual Zstandard), source, destination (which must be filled exactly), and number of the chunk.
        """

    def advance(self) -> None:
        """Continue after all jobs are done."""

    def view(self, record: int) -> memoryview:
        """One record, as a view that keeps these chunks alive."""

    def spans(self) -> Spans:
        """All records, in order."""

    @property
    def needed(self) -> int:
        """The codec of the last job; 0 without any."""

    @property
    def held_bytes(self) -> int:
        """Memory held in addition to the file, in bytes."""

def open_chunks(data: Buffer, begins: numpy.typing.NDArray[numpy.int64], counts: numpy.typing.NDArray[numpy.int64] | None = None, *, most_bytes: int, verify: bool, threads: int = 1, most_own: int = ...) -> Chunks:
    """
    Open chunks with these numbers of records: as many as decode to at most most_bytes, but at least one, with up to `threads` threads. Zstandard frames of more than most_own bytes become jobs for a library.
    """

def open_chunk(data: Buffer, begin: int, count: int, *, verify: bool, most_own: int = ...) -> Chunks:
    """Open one chunk. See `open_chunks`."""

def gather_chunks(chunks: list[Chunks], which: numpy.typing.NDArray[numpy.int32], records: numpy.typing.NDArray[numpy.int64]) -> Spans:
    """
    Spans over records of decoded chunks. Few records of much memory are copied, so that they do not keep it alive.
    """

def pick_spans(parts: list[Spans], which: numpy.typing.NDArray[numpy.int32], positions: numpy.typing.NDArray[numpy.int64]) -> Spans:
    """
    Record positions[i] of parts[which[i]], for every i, over the same bytes.
    """

def join_spans(parts: list[Spans]) -> Spans:
    """The records of several spans, concatenated, over the same bytes."""

def scan_chunks(data: Buffer, start: int, *, most: int, verify: bool) -> tuple[numpy.typing.NDArray[numpy.int64], int, FormatError | None]:
    """
    Scan chunk headers. Returns a row for each chunk (begin, end, type, records, decoded size), where the next one begins, and its fault if one ended the scan.
    """

def find_chunk(data: Buffer, position: int) -> int:
    """
    Where the next chunk at or after a damaged position begins; the size of the data if there is none.
    """

def bad_block_headers(data: Buffer) -> list[int]:
    """The positions of block headers with wrong hashes."""

def riegeli_hash(data: Buffer) -> int:
    """HighwayHash-64 with Riegeli's key."""

class BytesWanted:
    """Whether the records of a reader are made into bytes objects."""

    def __init__(self) -> None: ...

def gather_singles(buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, begins: numpy.typing.NDArray[numpy.int64], *, verify: bool, threads: int, bytes_wanted: BytesWanted) -> tuple[Spans, numpy.typing.NDArray[numpy.int64] | None]:
    """
    The records of chunks of one record each, which begin at these offsets, and the numbers of the chunks that must be opened instead: damaged ones, those with another number of records or more than 16 MiB, and those of unusual kinds. Works with up to `threads` threads. With `bytes_wanted`, records are decoded into bytes objects.
    """

def read_single(data: Buffer, begin: int, *, verify: bool) -> memoryview | None:
    """
    The record of a chunk of one record, which begins at this offset; nothing if the chunk must be opened instead. See `gather_singles`.
    """

class PinnedChunks:
    """Decoded chunks that stay in memory."""

class ChunkStore:
    """
    Where the chunks of some files are, and the chunks read last, up to most_bytes. The hashes of chunks that are not sound yet are checked, and right ones noted in sound (None: no hash is checked).
    """

    def __init__(self, firsts: numpy.typing.NDArray[numpy.int64], begins: numpy.typing.NDArray[numpy.int64], sound: numpy.typing.NDArray[numpy.uint8] | None, *, most_bytes: int) -> None: ...

    def chunks_of(self, records: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.int64]:
        """The chunk of each record."""

    def gather(self, buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, chunks: numpy.typing.NDArray[numpy.int64], records: numpy.typing.NDArray[numpy.int64], bytes_wanted: BytesWanted, pinned: PinnedChunks | None = None, *, in_order: bool, whole: bool, most_packed: int, threads: int) -> tuple[Spans, numpy.typing.NDArray[numpy.int64] | None]:
        """
        These records, which are in these chunks of these buffers, and the places of those in the request that the general path must read, if there are any. Chunks are decompressed as far as needed, or wholly. In order, finished chunks are not kept. Compressed chunks of more than most_packed bytes are left.
        """

    def chunk_of(self, record: int) -> int:
        """The chunk of a record."""

    def take(self, data: Buffer, chunk: int, record: int, most_packed: int) -> memoryview | None:
        """
        A copy of one record, which is in this chunk of the data; nothing if the general path must read it.
        """

    def pin(self, chunks: numpy.typing.NDArray[numpy.int64]) -> tuple[PinnedChunks, numpy.typing.NDArray[numpy.int64]]:
        """
        Those of these chunks that are in memory, and the numbers of the others.
        """

    def put(self, chunks: numpy.typing.NDArray[numpy.int64], decoded: Chunks) -> None:
        """Keep chunks that were decoded elsewhere."""

    @property
    def held_bytes(self) -> int:
        """The memory of the kept chunks, in bytes."""

    def __len__(self) -> int: ...

def frame_chunks(position: int, codec: int, values: Sequence[Buffer], sizes: numpy.typing.NDArray[numpy.int64], *, group_size: int, packed_sizes: Sequence[Buffer] | None = None, pad: bool = False) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], int]:
    """
    Simple chunks of group_size records as the bytes of a file from a position on, where each begins, and where they end. Values: the records (separate, or joined in one buffer), or, with a codec, each compressed group.
    """

def frame_signature() -> numpy.typing.NDArray[numpy.uint8]:
    """The first bytes of every Riegeli file."""

def frame_padding(position: int) -> numpy.typing.NDArray[numpy.uint8]:
    """The padding that fills a file up to a block boundary."""

def copy_chunks(data: Buffer, begins: numpy.typing.NDArray[numpy.int64], position: int) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], int]:
    """
    Intact chunks as the bytes of another file from a position on, where each begins there, and where they end.
    """

def size_block(sizes: numpy.typing.NDArray[numpy.int64]) -> bytes:
    """Record sizes as chunks store them."""

def parse_footer(spans: Spans) -> tuple[bytes, numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]:
    """
    The writer's options, and for each chunk its position, decoded size and number of records.
    """

def encode_footer(offsets: numpy.typing.NDArray[numpy.int64], decoded_sizes: numpy.typing.NDArray[numpy.int64], counts: numpy.typing.NDArray[numpy.int64], options: bytes) -> tuple[bytes, numpy.typing.NDArray[numpy.int64]]:
    """The records of an ArrayRecord footer, joined, and their sizes."""

def parse_postscript(spans: Spans) -> int:
    """Where the footer chunk begins."""

def encode_postscript(footer: int) -> bytes:
    """A record of the postscript."""

def jpeg_is_fast() -> bool:
    """
    Whether this decoder is faster for plain JPEGs on this machine than libjpeg-turbo.
    """

def decode_jpegs(images: list[Any], height: int, width: int, channels: int) -> tuple[numpy.typing.NDArray[numpy.uint8], list[int]]:
    """
    Pixels of JPEGs of one shape, uint8 (n, height, width, channels), and the positions of images that have another shape, are not plain, or are damaged. Their pixels are not written.
    """

def decode_jpeg_into(image: Any, out: numpy.typing.NDArray[numpy.uint8]) -> bool:
    """
    Decode one JPEG into `out` (height, width, channels). False if `decode_jpegs` would skip it; the content of `out` is then undefined.
    """

def is_jpeg_sound(image: Any) -> bool | None:
    """
    Whether the codes of a JPEG are complete and intact, for the kinds whose library reports no damage. None if that is unknown: arithmetic and lossless files, and those without their own codes.
    """

def json_too_deep(text: Buffer, most: int) -> int:
    """
    The first byte of JSON text where lists and objects are nested more than `most` levels deep; -1 if there is none.
    """

def json_not_objects(lines: Buffer, most: int) -> int:
    """
    The first byte at which lines of JSON are anything but one object each, nested at most `most` levels deep; -1 if there is none.
    """

def scan_lines(data: Buffer, start: int, stop: int) -> tuple[numpy.typing.NDArray[numpy.int64], int]:
    """
    Starts of the lines that begin in [start, stop), and where the next one begins. Lines of blanks do not count.
    """

def find_line(data: Buffer, at: int) -> int:
    """
    Where the first line at or after `at` begins; the end of the data if there is none.
    """

def encode_json_lines(columns: list[tuple[bytes, int, list[Any], Any]], rows: int) -> numpy.typing.NDArray[numpy.uint8] | None:
    """
    Columns as lines of JSON. They are (key in JSON, kind, lists, values), kinds 1 to 8 int8 to uint64, 9 float32, 10 float64, 11 bool, 12 text, 13 text that is JSON. `lists` has for each depth the length of the lists or their offsets, outermost first. Values are a flat array, or data and offsets of texts. None where a number is infinite, a text is not UTF-8, or a list or text is outside its column.
    """

class JsonDecoder:
    """
    Decodes lines of JSON into columns. Specs are (path, kind, depth of lists, least, most, exact, missing), where None in the path stands for the objects in a list, kinds 1 int64, 2 uint64, 3 float64, 4 bool, 5 text. `missing` is the text or the bytes of the number that stands for a missing value; None: none may miss. With `only_known`, a line is not plain if it has another key with a value.
    """

    def __init__(self, specs: list[tuple[tuple[str | None, ...], int, int, int, int, bool, bytes | None]], only_known: bool = False) -> None: ...

    def decode(self, buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, begins: numpy.typing.NDArray[numpy.int64], ends: numpy.typing.NDArray[numpy.int64], strings: type) -> list[tuple[Any, list[Any]]] | None:
        """
        For each spec its values (of texts an object of the class `strings`) and, for each level of lists, where each begins. The lines are the bytes [begins[i], ends[i]) of buffers[which[i]] (None: the first). None where a line is not plain: then another reader must look at it.
        """

def parse_npy_header(data: Buffer, max_header: int = 10000) -> tuple[tuple[int, int], Any, bool, tuple[int, ...], int]:
    """
    Version, descr, fortran_order, shape and data offset of the .npy file with this beginning.
    """

def take_rows(data: Buffer, data_offset: int, row_bytes: int, n_rows: int, indices: numpy.typing.NDArray[numpy.int64], swapped: int = 0) -> numpy.typing.NDArray[numpy.uint8]:
    """
    Rows by index, copied into uint8 (n, row_bytes). The bytes of each number of `swapped` bytes are reversed.
    """

def take_rows_of_columns(data: Buffer, data_offset: int, item_bytes: int, n_rows: int, places: numpy.typing.NDArray[numpy.int64], indices: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.uint8]:
    """
    Rows by index of an array in Fortran order, copied into uint8 (n, row_bytes). `places` says where in a row the item of each column goes.
    """

class StoredRows:
    """Rows of equal size, from `data_offset` of `data` on, as arrays."""

    def __init__(self, data: Buffer, data_offset: int, row_bytes: int, n_rows: int, dtype: numpy.dtype[Any], row_shape: tuple[int, ...]) -> None: ...

    def take(self, indices: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[Any]:
        """Rows by index, copied into an array (n, *row_shape) of the dtype."""

    def batch(self, indices: numpy.typing.NDArray[numpy.int64]) -> dict[str, Any]:
        """The same as the only feature of a batch, `values`."""

    def run(self, first: int, stop: int) -> dict[str, Any]:
        """
        The rows from first to stop as such a batch. IndexError: there are fewer.
        """

def take_ranges(buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, offsets: numpy.typing.NDArray[numpy.int64], size: int, swapped: int = 0) -> numpy.typing.NDArray[numpy.uint8]:
    """
    `size` bytes from each offset of buffers[which[i]] (None: all of the first), copied into uint8 (n, size).
    """

def take_of_parts(buffers: Buffers | list[Any], firsts: numpy.typing.NDArray[numpy.int64], begins: numpy.typing.NDArray[numpy.int64], size: int, rows: numpy.typing.NDArray[numpy.int64], swapped: int = 0) -> numpy.typing.NDArray[numpy.uint8]:
    """
    Rows of `size` bytes, copied into uint8 (n, size). Buffer k holds rows firsts[k] up to firsts[k + 1], end to end from begins[k] on.
    """

def parquet_chunks(footer: Any) -> numpy.typing.NDArray[numpy.int64]:
    """
    Where the pages of each column in each row group are: int64 (row groups, columns, 8), of begin, size, levels, rows, codec, physical type, and how many repetition and definition levels statistics count.
    """

def join_parquet_footers(parts: list[tuple[Any, int]]) -> bytes:
    """
    The metadata of a file that holds the row groups of several: of each its metadata, and how many bytes later its pages are there.
    """

class ParquetColumn:
    """
    One column of adjacent row groups, read in order. FormatError where pyarrow must read it.
    """

    def __init__(self, file: object, chunks: Annotated[NDArray[numpy.int64], dict(shape=(None, 8), order='C', device='cpu', writable=False)], stored: int, dtype: object | None, most: int, empty: int, verify: bool, fill: bytes | None) -> None: ...

    def read(self, rows: int) -> tuple[Any, numpy.typing.NDArray[numpy.int64] | None]:
        """
        The next rows: numbers, or the bytes of texts, where each begins, and the number of the text of each value if texts that recur are there once; and where each list begins.
        """

def decode_png(files: Sequence[Any], height: int, row_bytes: int, pixel_bytes: int) -> numpy.typing.NDArray[numpy.uint8] | None:
    """
    The samples of PNG images that have the header of the first: uint8 (n, height * row_bytes); None where they have not.
    """

def decode_packed_png(files: Sequence[Any], height: int, width: int, bits: int, channels: int) -> numpy.typing.NDArray[numpy.uint8] | None:
    """
    The samples of PNG images of fewer than 8 bits (`channels` 1), or with a palette (3 or 4), that have the header of the first: uint8 (n, height * width * channels); None where they have not.
    """

def permute(n: int, seed: int, epoch: int, start: int, stop: int) -> numpy.typing.NDArray[numpy.int64]:
    """
    Indices at positions [start, stop) of the order of n numbers for a seed and an epoch (both 64 bits).
    """

def permute_at(n: int, seed: int, epoch: int, positions: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.int64]:
    """Indices at the given positions of that order."""

def bounds(numbers: numpy.typing.NDArray[numpy.int64]) -> tuple[int, int]:
    """The smallest and the largest number."""

def is_run(numbers: numpy.typing.NDArray[numpy.int64]) -> bool:
    """Whether each number is the one before it plus one."""

def parts_of(firsts: numpy.typing.NDArray[numpy.int64], positions: numpy.typing.NDArray[numpy.int64]) -> numpy.typing.NDArray[numpy.int32]:
    """
    The part of each position, where part k begins at firsts[k]: as numpy.searchsorted(firsts, positions, side="right") - 1.
    """

def best_fit(lengths: numpy.typing.NDArray[numpy.int64], room: int) -> numpy.typing.NDArray[numpy.int64]:
    """
    The bin of each item, packed into bins of equal room by best fit decreasing.
    """

def has_read_from_disk() -> bool:
    """
    Whether this thread has made the system read from a disk, or waited for a page of a mapped file, since it last asked. False where the system does not say.
    """

def request_files(paths: list[bytes], *, follow_links: bool) -> None:
    """
    Ask the system to read small files ahead, up to 256 MB. What cannot be opened, or is no regular file, is left out.
    """

def request_ranges(buffers: Buffers | list[Any], which: numpy.typing.NDArray[numpy.int32] | None, begins: numpy.typing.NDArray[numpy.int64], ends: numpy.typing.NDArray[numpy.int64]) -> None:
    """
    Ask the system to read the bytes [begins[i], ends[i]) of the mapped files buffers[which[i]] (None: all of the first) ahead. Ranges outside their buffers are left out.
    """

def read_files(paths: list[bytes], head: bytes, size: int) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]:
    """
    Read many small files, each of `head` and `size` bytes: those bytes, uint8 (n, size), and for each file 0, an errno, or -1 if its head or size differs (its bytes are then undefined).
    """

def read_ranges(fds: list[int], which: numpy.typing.NDArray[numpy.int32] | None, offsets: numpy.typing.NDArray[numpy.int64], sizes: numpy.typing.NDArray[numpy.int64]) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64]]:
    """
    Ranges of open files, joined, and where each begins; neighbouring ranges are read in one go.
    """

class ExampleDecoder:
    """Decodes tf.train.Example and SequenceExample payloads into columns."""

    def __init__(self, specs: list[tuple[str, int, int, bool, Any]], sole: set[str] | frozenset[str] = frozenset(), sole_features: set[str] | frozenset[str] = frozenset()) -> None:
        """
        Specs: (name, kind 1 bytes | 2 float32 | 3 int64 | 4 either number as float64 | 5 text, count or -1, is a feature list, default or None). A feature that has the name of a feature list in `sole`, which is not there, is a fault, and so is a feature list with steps that has the name of one of `sole_features`.
        """

    def decode(self, spans: Spans, strings: type) -> list[tuple[Any, numpy.typing.NDArray[numpy.int64] | None, numpy.typing.NDArray[numpy.int64] | None]]:
        """
        For each spec: concatenated values (an array; of texts an object of the class `strings`, or data, offsets and the first value that is not UTF-8), step offsets of feature lists, and value offsets if counts vary.
        """

class ExampleScanner:
    """Collects the features in records, to infer a schema."""

    def __init__(self) -> None: ...

    def add(self, spans: Spans) -> None:
        """Add some records."""

    @property
    def is_message(self) -> bool:
        """False as soon as a payload is not a protobuf message."""

    @property
    def records(self) -> int:
        """The number of records added."""

    @property
    def keys(self) -> list[dict[str, Any]]:
        """What was found for every key."""

def encode_examples(columns: list[tuple[str, int, int, bool, Any, Any, Any]], n: int, head: int, tail: int, align: int = 1) -> tuple[numpy.typing.NDArray[numpy.uint8], numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]:
    """
    Serialise n examples from columns (name, kind, count or -1, is a feature list, values, steps, offsets) into one block: block, payload starts, payload sizes.
    """
