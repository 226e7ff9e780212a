"""Run by ``test_allocation_failures.py``: each native function, while every ``operator new`` in turn fails.

Arguments: the library that fails an allocation, and a file to read.
"""

import ctypes
import gzip
import io
import os
import random
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import zstandard
from PIL import Image

import headrace as hr
from headrace import _native
from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged

shim = ctypes.PyDLL(sys.argv[1])
files = [_native.frame_tfrecords([b"abc", b"", b"x" * 40]).tobytes()] * 2
recordio = [_native.frame_recordio_payloads([b"abc", b"defg"]).tobytes()]
offsets, which = np.array([0, 19], np.int64), np.array([0, 1], np.int32)
rows, table, marks = np.array([0, 4], np.int64), b"1,2.5\n3,x\n", (",", '"', ".")
numbers, index = np.arange(4, dtype=np.int64), np.array([0, 3], np.int64)

schema = hr.Schema({"i": hr.Feature("int64", (2,)), "t": hr.Feature("str")})
examples = ExampleCodec(schema)
batch = {"i": numbers.reshape(2, 2), "t": np.array(["a", "bc"], object)}
block, starts, sizes = examples.encode_batch(batch, 2, 0, 0)
payloads = [block[start : start + size].tobytes() for start, size in zip(starts, sizes, strict=True)]
records = SageMakerRecordCodec(hr.Schema({"values": hr.Feature("float32", (2,)), "label": hr.Feature("float32")}))
floats = {"values": np.ones((2, 2), np.float32), "label": np.zeros(2, np.float32)}
block, starts, sizes = records.encode_batch(floats, 2, 0, 0)
messages = [block[start : start + size].tobytes() for start, size in zip(starts, sizes, strict=True)]
header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}".ljust(117) + b"\n"

tokens = np.array([3, 4], np.int64)
pixels = np.random.default_rng(0).integers(0, 256, (16, 24, 3), np.uint8)


def encoded(kind, **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


jpegs = [encoded("JPEG", quality=90, subsampling=2)] * 2
progressive = encoded("JPEG", progressive=True)
png = encoded("PNG")
palette_file = io.BytesIO()
Image.fromarray(pixels).quantize(256).save(palette_file, "PNG", bits=8)
palette_png = palette_file.getvalue()
tar = io.BytesIO()
with tarfile.open(fileobj=tar, mode="w") as members:
    for name in ("a.txt", "b" * 120):
        members.addfile(tarfile.TarInfo(name))
archive = tar.getvalue()
text = "".join(random.Random(0).choices("abcdefgh    ", k=3000)).encode()


def array_record(group_size):
    """The signature and chunks of three records, and where the chunks begin."""
    payloads = [text, b"x" * 40, text[:999]]
    groups = [b"".join(payloads[at : at + group_size]) for at in range(0, 3, group_size)]
    packed = [zstandard.compress(group) for group in groups]
    sizes = np.array([len(payload) for payload in payloads], np.int64)
    blocks = (
        None
        if group_size == 1
        else [zstandard.compress(_native.size_block(sizes[at : at + group_size])) for at in range(0, 3, group_size)]
    )
    framed, begins, _ = _native.frame_chunks(64, ord("z"), packed, sizes, group_size=group_size, packed_sizes=blocks)
    return _native.frame_signature().tobytes() + framed.tobytes(), begins


singles, single_begins = array_record(1)
grouped, grouped_begins = array_record(3)
nine = np.array([9], np.int64)
footer, footer_sizes = _native.encode_footer(
    np.array([64, 264], np.int64), nine.repeat(2), nine.repeat(2), b"group_size:9"
)
ends = footer_sizes.cumsum().tolist()
footer_records = [footer[end - size : end] for end, size in zip(ends, footer_sizes.tolist())]
postscript = _native.encode_postscript(64)


def opened(file, begins):
    chunks = _native.open_chunks(file, begins, most_bytes=1 << 30, verify=True)
    while not chunks.ready:
        for _, packed, into, _ in chunks.jobs():
            memoryview(into).cast("B")[:] = zstandard.decompress(packed)
        chunks.advance()
    return chunks


def store_of_chunks():
    """A chunk of three records: from the file, from memory, one by one, and as decoded elsewhere."""
    store = _native.ChunkStore(np.array([0, 3]), grouped_begins, np.zeros(1, np.uint8), most_bytes=1 << 20)
    chunks = store.chunks_of(np.array([2, 0, 2]))
    wanted = _native.BytesWanted()
    found = []
    for _ in range(3):
        spans, left = store.gather(
            [grouped],
            None,
            chunks,
            np.array([2, 0, 2]),
            wanted,
            in_order=False,
            whole=False,
            most_packed=1 << 62,
            threads=1,
        )
        found += [spans.to_bytes(), left]
    found += [bytes(store.take(grouped, 0, 1, 1 << 62)), store.pin(np.array([0]))[1].tolist()]
    store.put(np.array([0]), opened(grouped, grouped_begins))
    return [*found, bytes(store.take(grouped, 0, 1, 1 << 62)), len(store)]


noise = random.Random(1).randbytes(60_000)
packed_noise = gzip.compress(noise, 6, mtime=0)


def inflate():
    inflater = _native.GzipInflater(1 << 16, 1)
    inflater.give(packed_noise, len(packed_noise), True)
    return [bytes(part) for part in inflater.take()], inflater.state


fd = os.open(sys.argv[2], os.O_RDWR)
names = [os.fsencode(sys.argv[2])] * 2


def mapped(private):
    file = _native.MappedFile(fd, None, "shown", sys.argv[2], private=private)
    file.expect_scattered_reads(True)
    file.expect_all()
    found = bytes(memoryview(file))[:100], file.signature(4096)[2]
    with _native.GuardedRead(file):
        pass
    file.drop(0, len(file))
    return found


strings = np.frombuffer(b"abc", np.uint8), np.array([0, 1, 3], np.int64)


def decode_json(line=b'{"i": 5, "l": [1, 2], "t": "a\\u00e9", "p": {"m": [[1], [2]]}, "o": [{"k": 1}, {"k": 2}]}'):
    decoder = _native.JsonDecoder(
        [
            (("i",), 1, 0, 0, 9, True, None),
            (("l",), 1, 1, 0, 9, True, b""),
            (("t",), 5, 0, 0, 9, True, None),
            (("p", "m"), 1, 2, 0, 9, True, b""),
            (("o", None, "k"), 1, 1, 0, 9, True, b""),
        ]
    )
    return decoder.decode([line], None, np.zeros(1, np.int64), np.array([len(line)], np.int64), Strings)


def decode_csv():
    decoder = _native.CsvDecoder(marks, 2, [""], [(0, 1, None), (1, 2, b"1.5")], ["utf-8", "utf-8"])
    return decoder.decode(_native.gather_csv([table], None, rows, marks), Strings)


def decode_csv_together():
    decoder = _native.CsvDecoder(marks, 2, [""], [(0, 1, None), (1, 2, b"1.5")], ["utf-8", "utf-8"])
    return decoder.decode_rows([(table, int(rows[0]), len(table))], len(rows), Strings)


def image_views():
    values = np.arange(3 * 256, dtype=np.float32).reshape(3, 256)
    return _native.ImageViews(
        crop=((5, 7), (0.5, 1.0), (0.5, 2.0)),
        resize=None,
        center_crop=None,
        flip=True,
        interpolation="bilinear",
        is_planar=True,
        values=values,
    )


def view_of(image):
    out = np.zeros(5 * 7 * 3 * 4, np.uint8)
    return image_views().apply(image, np.full((1, 41), 0.5), out), out.tobytes()


def decoded_views():
    draws = np.full((3, 41), 0.5)
    found, others = _native.decode_jpeg_views([*jpegs, progressive], image_views(), draws, (5, 7), 3, 1 << 20)
    return found[:2].tolist(), others


def decode_into(image):
    out = np.empty((16, 24, 3), np.uint8)
    return _native.decode_jpeg_into(image, out), out.tobytes() if image is not progressive else None


def sums():
    found = _native.crc32c_blocks(files[0], 16)
    state = np.zeros(len(found), np.bool_)
    return _native.compare_blocks(files[0], np.zeros(1, np.int64), np.full(1, 20), found, state, 16)


def framed_in_place(frame, head, tail):
    block = np.zeros(head + 5 + tail + (-(head + 5 + tail) % 4), np.uint8)
    frame(block, np.array([head], np.int64), np.array([5], np.int64))
    return block.tobytes()


parquet_file = io.BytesIO()
parquet.write_table(
    pa.table({"i": [1, 2, 2], "t": ["a", "", "bc" * 99], "l": [[1.5], [], [2.5, 3.5]]}),
    parquet_file,
    compression="zstd",
)
parquet_file = parquet_file.getvalue()
parquet_footer = parquet_file[-8 - int.from_bytes(parquet_file[-8:-4], "little") : -8]
pages = _native.parquet_chunks(parquet_footer)


def parquet_rows(column, stored, dtype, most, empty):
    """All rows of a column, in two portions."""
    held = np.ascontiguousarray(pages[:, column])
    reader = _native.ParquetColumn(parquet_file, held, stored, dtype, most, empty, verify=True, fill=None)
    values = [part for rows in (1, 2) for part in reader.read(rows)]
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return [None if part is None else part.tolist() for part in parts]


def scan_examples():
    scanner = _native.ExampleScanner()
    scanner.add(_native.spans_of_buffers(payloads))
    return scanner.keys


def scan_records():
    scanner = _native.RecordScanner()
    scanner.add(_native.spans_of_buffers(messages))
    return scanner.keys


CASES = {
    "scan_tfrecord": lambda: _native.scan_tfrecord(files[0], 0, 40, verify=True, max_records=9),
    "damage": lambda: _native.scan_tfrecord(b"x" * 40, 0, 40, verify=True, max_records=9),
    "gather_tfrecord": lambda: _native.gather_tfrecord(files, which, offsets, verify=True).to_bytes(),
    "part": lambda: _native.gather_tfrecord(files, which, offsets, verify=True).part(0, 1).to_bytes(),
    "frame_tfrecords": lambda: _native.frame_tfrecords([b"abc", b"def"]).tobytes(),
    "scan_tar": lambda: _native.scan_tar(archive, 0, 9),
    "scan_recordio": lambda: _native.scan_recordio(recordio[0], 0, 20, max_records=9),
    "gather_recordio": lambda: _native.gather_recordio(recordio, None, offsets[:1]).to_bytes(),
    "frame_recordio": lambda: _native.frame_recordio_payloads([b"abc", b"def"]).tobytes(),
    "buffers": lambda: len(_native.Buffers(files)),
    "spans_of_buffers": lambda: _native.spans_of_buffers([b"a", b"bc"]).to_bytes(),
    "scan_csv": lambda: _native.scan_csv(table, 0, 12, marks, width=2, utf8=True, last=True, max_records=9),
    "gather_csv": lambda: _native.gather_csv([table], None, rows[:1], marks).to_bytes(),
    "StoredRows": lambda: _native.StoredRows(bytes(range(20)), 0, 4, 5, np.dtype("<i4"), ()).take(index).tobytes(),
    "StoredRows.batch": lambda: [
        column.tobytes()
        for column in _native.StoredRows(bytes(range(20)), 0, 4, 5, np.dtype("<i4"), ()).batch(index).values()
    ],
    "StoredRows.run": lambda: [
        column.tobytes()
        for column in _native.StoredRows(bytes(range(20)), 0, 4, 5, np.dtype("<i4"), ()).run(1, 4).values()
    ],
    "take_rows": lambda: _native.take_rows(bytes(range(20)), 0, 4, 5, index).tobytes(),
    "take_rows_of_columns": lambda: _native.take_rows_of_columns(bytes(range(20)), 0, 1, 5, numbers, index).tobytes(),
    "crc32c_blocks": lambda: _native.crc32c_blocks(files[0], 16).tolist(),
    "parse_npy_header": lambda: _native.parse_npy_header(header),
    "decode_examples": lambda: examples.decode_batch(examples.spans_of(payloads)),
    "encode_examples": lambda: [part.tobytes() for part in examples.encode_batch(batch, 2, 0, 0)],
    "scan_examples": scan_examples,
    "decode_records": lambda: records.decode_batch(_native.spans_of_buffers(messages)),
    "encode_records": lambda: [part.tobytes() for part in records.encode_batch(floats, 2, 0, 0)],
    "scan_records": scan_records,
    "parse_record": lambda: _native.parse_record(messages[0]),
    "record_payloads": lambda: _native.record_payloads(_native.spans_of_buffers(recordio)),
    "is_record": lambda: _native.is_record(messages[0]),
    "is_short_record": lambda: _native.is_record(b"x"),
    "find_tfrecord": lambda: _native.find_tfrecord(files[0], 1, _native.Patience(40)),
    "find_recordio": lambda: _native.find_recordio(recordio[0], 4, _native.RecordIOWalks()),
    "frame_tfrecord": lambda: framed_in_place(_native.frame_tfrecord, 12, 4),
    "frame_recordio_block": lambda: framed_in_place(_native.frame_recordio, 8, 0),
    "find_csv": lambda: _native.find_csv(table, 2),
    "values_of_csv": lambda: _native.values_of_csv(b'1,"a, b"', marks),
    "examine_csv": lambda: _native.examine_csv(_native.gather_csv([table], None, rows[:1], marks), marks, 2, [""]),
    "examine_csv_rows": lambda: _native.examine_csv_rows(table, rows, len(table), marks, 2, [""]),
    "examine_csv_head": lambda: _native.examine_csv_head(table, 0, (4, 8, 100), marks, 2, [""]),
    "CsvDecoder": decode_csv,
    "CsvDecoder.decode_rows": decode_csv_together,
    "encode_csv": lambda: _native.encode_csv([(6, 1, [b"a", b"b, c"])], 2, marks, "\n"),
    "encode_csv_strings": lambda: _native.encode_csv(
        [(6, 1, (np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2])))], 2, marks, "\n"
    ),
    "scan_lines": lambda: [
        getattr(part, "tolist", lambda part=part: part)() for part in _native.scan_lines(table, 0, 12)
    ],
    "find_line": lambda: _native.find_line(table, 2),
    "encode_json_lines": lambda: bytes(
        _native.encode_json_lines(
            [
                (b'"a"', 4, [np.array([0, 2, 3])], np.arange(3)),
                (b'"b"', 12, [], (np.frombuffer(b"ab", np.uint8), np.array([0, 1, 2]))),
            ],
            2,
        )
    ),
    "json_too_deep": lambda: _native.json_too_deep(b"[[[1]]]", 2),
    "decode_jpegs": lambda: [
        part.tolist() if hasattr(part, "tolist") else part for part in _native.decode_jpegs(jpegs, 16, 24, 3)
    ],
    "decode_jpegs_refused": lambda: _native.decode_jpegs([progressive], 16, 24, 3)[1],
    "decode_jpeg_into": lambda: decode_into(jpegs[0]),
    "decode_jpeg_into_refused": lambda: decode_into(progressive),
    "is_jpeg_sound": lambda: [_native.is_jpeg_sound(each) for each in (jpegs[0], progressive, progressive[:-9])],
    "ImageViews": lambda: image_views().size(16, 24),
    "ImageViews_apply": lambda: view_of(np.ones((16, 24, 3), np.uint8)),
    "decode_jpeg_views": decoded_views,
    "decode_png": lambda: _native.decode_png([png, png], 16, 72, 3).tobytes(),
    "decode_packed_png": lambda: _native.decode_packed_png([palette_png, palette_png], 16, 24, 8, 3).tobytes(),
    "GzipInflater": inflate,
    "frame_chunks": lambda: [
        part.tobytes() if hasattr(part, "tobytes") else part
        for part in _native.frame_chunks(64, 0, [text], np.array([3000], np.int64), group_size=1)
    ],
    "frame_signature": lambda: _native.frame_signature().tobytes(),
    "frame_padding": lambda: _native.frame_padding(100).tobytes(),
    "size_block": lambda: _native.size_block(np.array([3, 300], np.int64)),
    "copy_chunks": lambda: bytes(_native.copy_chunks(singles, single_begins, 64)[0]),
    "scan_chunks": lambda: _native.scan_chunks(singles, 64, most=9, verify=True)[:2],
    "scan_chunks_damaged": lambda: repr(_native.scan_chunks(singles[:-1], 64, most=9, verify=True)[2]),
    "find_chunk": lambda: _native.find_chunk(singles, 65),
    "bad_block_headers": lambda: _native.bad_block_headers(singles),
    "riegeli_hash": lambda: _native.riegeli_hash(text),
    "open_chunks": lambda: [bytes(opened(grouped, grouped_begins).view(number)) for number in range(3)],
    "open_chunk": lambda: len(_native.open_chunk(grouped, int(grouped_begins[0]), 3, verify=True)),
    "gather_chunks": lambda: _native.gather_chunks(
        [opened(grouped, grouped_begins)], which[:1], offsets[:1]
    ).to_bytes(),
    "gather_singles": lambda: (
        _native.gather_singles(
            [singles], None, single_begins, verify=True, threads=1, bytes_wanted=_native.BytesWanted()
        )[0]
        .part(0, 3)
        .to_bytes()
    ),
    "read_single": lambda: bytes(_native.read_single(singles, int(single_begins[0]), verify=True)),
    "ChunkStore": store_of_chunks,
    "pick_spans": lambda: _native.pick_spans(
        [_native.spans_of_buffers([b"a", b"b"])], which[:1], offsets[:1]
    ).to_bytes(),
    "join_spans": lambda: _native.join_spans([_native.spans_of_buffers([b"a", b"b"])] * 2).to_bytes(),
    "parse_footer": lambda: [
        getattr(part, "tolist", lambda part=part: part)()
        for part in _native.parse_footer(_native.spans_of_buffers(footer_records))
    ],
    "encode_footer": lambda: _native.encode_footer(index, index, index, b"x")[0],
    "parse_postscript": lambda: _native.parse_postscript(_native.spans_of_buffers([postscript] * 3)),
    "encode_postscript": lambda: _native.encode_postscript(64),
    "MappedFile": lambda: mapped(False),
    "MappedFile_private": lambda: mapped(True),
    "read_signature": lambda: _native.read_signature(fd, 4096)[::2],
    "start_writing_back": lambda: _native.start_writing_back(fd, 0, 4096),
    "copy_bytes": lambda: _native.copy_bytes(text, 5, 500),
    "copy_ranges": lambda: _native.copy_ranges([text], None, index, index + 500),
    "read_files": lambda: [part.tolist() for part in _native.read_files(names, b"abc", 1000)],
    "has_read_from_disk": lambda: type(_native.has_read_from_disk()),
    "request_files": lambda: _native.request_files(names, follow_links=True),
    "request_ranges": lambda: _native.request_ranges([text], None, index, index + 500),
    "read_ranges": lambda: [part.tolist() for part in _native.read_ranges([fd], None, index, np.array([5, 700]))],
    "take_ranges": lambda: _native.take_ranges([text], None, index, 500).tolist(),
    "permute": lambda: _native.permute(1000, 1, 2, 0, 50).tolist(),
    "permute_at": lambda: _native.permute_at(1000, 1, 2, index).tolist(),
    "bounds": lambda: _native.bounds(index),
    "is_run": lambda: _native.is_run(index),
    "parts_of": lambda: _native.parts_of(np.array([0, 5, 9000]), index).tolist(),
    "take_of_parts": lambda: _native.take_of_parts(
        [text], np.array([0, 3]), np.array([4]), 50, np.array([2, 0])
    ).tolist(),
    "crc32": lambda: _native.crc32(text),
    "crc32c": lambda: _native.crc32c(text),
    "masked_crc32c": lambda: _native.masked_crc32c(text),
    "crc32c_by_tables": lambda: _native.crc32c_by_tables(text),
    "compare_blocks": sums,
    "make_strings": lambda: [
        part.tolist() if hasattr(part, "tolist") else part for part in _native.make_strings(["a", "bc", ""], True)
    ],
    "make_strings_refused": lambda: _native.make_strings(["a", 5], True)[2],
    "are_offsets": lambda: _native.are_offsets(np.array([0, 1, 4]), 4),
    "json_not_objects": lambda: _native.json_not_objects(b'{"a": [1]}\nnull\n', 2),
    "check_strings": lambda: _native.check_strings(*strings, True),
    "take_strings": lambda: [part.tolist() for part in _native.take_strings(*strings, index[:1])],
    "compare_strings": lambda: _native.compare_strings(*strings, *strings).tolist(),
    "compare_strings_with": lambda: _native.compare_strings_with(*strings, b"bc").tolist(),
    "hash_strings": lambda: _native.hash_strings(*strings, 100, 7).tolist(),
    "cut_batch": lambda: [
        (part["s"].tolist(), part["r"].to_list())
        for part in _native.cut_batch(
            {"s": Strings.trust(*strings, True), "r": Ragged(np.arange(3), np.array([0, 2, 3]))}, Strings, Ragged, 1, 2
        )
    ],
    "pad_rows": lambda: _native.pad_rows(np.arange(4), np.array([0, 3, 4]), 2, np.zeros(1, np.int64)).tolist(),
    "take_varying_rows": lambda: _native.take_varying_rows([(np.arange(4), np.array([0, 3, 4]))], index[:1]),
    "list_examples": lambda: _native.list_examples(("a", "b"), [[1, 2], [3, 4]]),
    "split_examples": lambda: _native.split_examples([{"a": 1, "b": 3}, {"a": 2, "b": 4}], ("a", "b")),
    "measure_batch": lambda: _native.measure_batch(
        {"s": Strings.trust(*strings, True), "r": Ragged(np.arange(3), np.array([0, 2, 3])), "n": np.arange(2)},
        Strings,
        Ragged,
        2,
    ),
    "Columns": lambda: [
        column.tolist()
        for text in [Strings.from_values(["a", "bc", "", "d", "e", "f"])]
        for columns in [_native.Columns([np.arange(6), text, np.ones((6, 2))], Strings)]
        for column in (*columns.copy(1, 4), *columns.pick(np.array([5, 0])))
    ],
    "join_rows": lambda: [
        column.tolist()
        for text in [Strings.from_values(["a", "bc", "", "d", "e", "f"])]
        for columns in [_native.Columns([np.arange(6), text], Strings)]
        for column in _native.join_rows([(columns, 1, 4), (columns, 0, 2)])
    ],
    "list_strings": lambda: _native.list_strings(*strings, True),
    "JsonDecoder": decode_json,
    "JsonDecoder_refused": lambda: decode_json(b'{"i": [], "t": 5}'),
    "parquet_chunks": lambda: _native.parquet_chunks(parquet_footer).tolist(),
    "join_parquet_footers": lambda: _native.join_parquet_footers([(parquet_footer, 0), (parquet_footer, 1000)]),
    "ParquetColumn": lambda: parquet_rows(0, 8, np.dtype("i8"), 1, -1),
    "ParquetColumn_text": lambda: parquet_rows(1, 0, None, 1, -1),
    "ParquetColumn_lists": lambda: parquet_rows(2, 8, np.dtype("f8"), 3, 1),
    "best_fit": lambda: _native.best_fit(np.arange(1, 40), 64).tolist(),
    "pooled": lambda: _native.pooled(1 << 20).nbytes,
}

FREE = {  # they allocate nothing of their own, or are not for data
    "AdjacentPlaces",
    "FormatError",
    "View",
    "InflatedPiece",
    "Chunks",
    "PinnedChunks",
    "GuardedRead",
    "Spans",
    "Patience",
    "RecordIOWalks",
    "BytesWanted",
    "PoolBlock",
    "ExampleDecoder",
    "ExampleScanner",
    "RecordDecoder",
    "RecordScanner",
    "pool_stats",
    "pool_clear",
    "pool_keep",
    "pool_after_fork",
    "join_loop",
    "on_lost_file",
    "crc32c_engine",
    "jpeg_is_fast",
    "count_mapped",
}
left_out = {name for name in dir(_native) if callable(getattr(_native, name)) and not name.startswith("_")}
left_out -= {name for case in CASES for name in (case, *[n for n in dir(_native) if case.startswith(n + "_")])}
aliases = {"Buffers": "buffers", "frame_recordio_payloads": "frame_recordio"}
left_out -= FREE | set(aliases)
assert not left_out, f"cases for {sorted(left_out)}"


def outcome(work):
    try:
        return repr(work())
    except _native.FormatError as error:
        return f"FormatError {error.fault}"


total = 0
for name, work in CASES.items():
    expected = outcome(work)
    for count in range(500):
        shim.fail_after(count)
        try:
            found = outcome(work)
        except MemoryError:
            found = None
        failed = shim.has_failed()
        shim.fail_after(-1)
        assert found is None or found == expected, (name, count, found, expected)
        assert outcome(work) == expected, (name, count)
        if not failed:
            break
    else:
        raise AssertionError(f"{name}: no end")
    print(name, count, flush=True)
    total += count
assert total > 400, "the allocations are not seen"
