"""Copy the golden files and their payloads into a folder as fuzzing seeds."""

from __future__ import annotations

import random
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
from tests.reference.jpeg import extreme_jpeg  # noqa: E402 - found only now

GOLDEN = ROOT / "tests" / "golden"
CORPUS = ROOT / "tests" / "corpus"
LARGEST = 64 << 10


def payloads(path: Path) -> list[bytes]:
    """The payloads of a plain TFRecord or RecordIO file; empty for other files."""
    data = path.read_bytes()
    if path.parent.name == "tfrecord":
        head, length_at, kind, tail = 12, 0, "<Q", 4
    elif path.parent.name == "recordio":
        head, length_at, kind, tail = 8, 4, "<I", 0
    else:
        return []
    out, at = [], 0
    while at + head <= len(data):
        (size,) = struct.unpack_from(kind, data, at + length_at)
        if at + head + size + tail > len(data):
            break
        out.append(data[at + head : at + head + size])
        at += head + size + tail
        at += -at % 4 if path.parent.name == "recordio" else 0
    return out


def chunks(path: Path) -> list[bytes]:
    """The beginning of an ArrayRecord file, and the chunks in it as `fuzz_riegeli_chunk` takes them: kind, counts, data."""
    if path.parent.name != "array_record":
        return []
    data = path.read_bytes()[:LARGEST]
    out, at = [data[: LARGEST // 4]], 64  # after the signature
    while at + 40 <= len(data):
        _, size, _, kind, decoded = struct.unpack_from("<5Q", data, at)
        if at + 40 + size > len(data):
            break  # Block headers lie in what follows.
        head = bytes([kind & 255 == ord("r")]) + struct.pack("<HI", (kind >> 8) & 0xFFF, decoded)[:5]
        out.append(head + data[at + 40 : at + 40 + size])
        at += 40 + size
    return out


def frames(path: Path) -> list[bytes]:
    """A Zstandard frame as `fuzz_zstd_decoder` takes it: twice, behind a size and where to cut."""
    if path.suffix != ".zst":
        return []
    frame = path.read_bytes()
    return [struct.pack("<HH", 700, len(frame)) + frame + frame]


def footers(path: Path) -> list[bytes]:
    """The footer and the pages of a Parquet file, as `fuzz_parquet_footer` takes them."""
    if path.suffix != ".parquet":
        return []
    data = path.read_bytes()
    (size,) = struct.unpack_from("<I", data, len(data) - 8)
    return [data[-8 - size : -8], data[4 : -8 - size]]


def columns(path: Path) -> list[bytes]:
    """The pages of each column of a Parquet file, as `fuzz_parquet_column` takes them: behind what is expected of the column."""
    if path.suffix != ".parquet":
        return []
    data, footer, out = path.read_bytes(), parquet.read_metadata(path), []
    values = {"INT64": 0, "DOUBLE": 0, "INT32": 1, "FLOAT": 1, "BOOLEAN": 4, "BYTE_ARRAY": 5}
    levels = {(0, 0): 0, (1, 0): 1, (1, 1): 2, (2, 1): 4, (3, 1): 5, (4, 1): 7}
    codecs = {"UNCOMPRESSED": 0, "SNAPPY": 1, "ZSTD": 2, "GZIP": 3}
    for group in range(footer.num_row_groups):
        rows = footer.row_group(group).num_rows
        for number in range(footer.num_columns):
            chunk, kind = footer.row_group(group).column(number), footer.schema.column(number)
            form = levels.get((kind.max_definition_level, kind.max_repetition_level))
            if form is None or kind.physical_type not in values or chunk.compression not in codecs:
                continue
            begin, more = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.num_values - rows
            choice = (values[kind.physical_type], form, 128 | 64 | codecs[chunk.compression])
            head = struct.pack("<3B2HB", *choice, rows, more, 2)
            out.append(head + data[begin : begin + chunk.total_compressed_size])
    return out


def text_columns() -> list[bytes]:
    """Texts in the encodings that no golden file has, as :func:`columns` gives them."""
    texts = [f"{'abc' * (number % 5)}{number * number}" for number in range(40)]
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        codes = {"a": "DELTA_BYTE_ARRAY", "b": "DELTA_LENGTH_BYTE_ARRAY"}
        table = pa.table({"a": texts, "b": texts})
        parquet.write_table(table, file.name, use_dictionary=False, column_encoding=codes, compression="none")
        return columns(Path(file.name))


def snappy() -> list[bytes]:
    """Elements of a Snappy block of all kinds behind the size of what they stand for, as `fuzz_snappy` takes them."""
    literals = b"\x10abcde" + b"\xf0\x63" + bytes(100) + b"\xf4\x2b\x01" + b"a few words " * 25
    copies = b"\x01\x08" + b"\xfe\x03\x00" + b"\x82\x2c\x01" + b"\xff\x64\x00\x00\x00" + b"\x3d\x05"
    return [struct.pack("<H", 405 + 4 + 64 + 33 + 64 + 11) + literals + copies]


def streams() -> list[bytes]:
    """Bare deflate of all kinds of blocks, as `fuzz_gzip_inflater` takes it, and behind three bytes, as `fuzz_png` does."""
    contents = [
        b"",
        b"a",
        bytes(2000),
        b"a few words, a few words and a few more words" * 20,
        random.Random(1).randbytes(700),
    ]
    out = []
    for content in contents:
        for level, strategy in ((0, 0), (1, 0), (9, 0), (6, zlib.Z_HUFFMAN_ONLY), (6, zlib.Z_RLE), (6, zlib.Z_FIXED)):
            packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
            stream = (
                packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH) + packer.compress(content) + packer.flush()
            )
            out += [stream, b"\2\7\5" + stream]
    return out


def corpus() -> list[bytes]:
    """Earlier findings, and inputs that only a plain writer makes."""
    lines = [line for path in sorted(CORPUS.glob("*.txt")) for line in path.read_text(encoding="ascii").split()]
    found = [bytes.fromhex(line) for line in lines]
    return [*found, *(extreme_jpeg(seed) for seed in range(40))]


def main() -> None:
    """Write the seeds into the folder given on the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate([*streams(), *snappy(), *text_columns(), *corpus()]):
        (folder / f"made-{number}").write_bytes(seed)
    for path in sorted(GOLDEN.rglob("*")):
        if not path.is_file() or path.suffix in (".json", ".md", ".toml"):
            continue
        records = payloads(path)
        twice = [record + record for record in records]  # two of one form, for `fuzz_tf_example`
        seeds = [path.read_bytes(), *records, *twice, *chunks(path), *frames(path), *footers(path), *columns(path)]
        for number, seed in enumerate(seeds):
            if len(seed) <= LARGEST:
                (folder / f"{path.name}-{number}").write_bytes(seed)


if __name__ == "__main__":
    main()
