"""Interesting inputs found by fuzzing, decoded by our decoders and by libraries.

`make fuzz` finds others; `tools/fuzz_corpus.py` rewrites these files from its corpus.
"""

import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
import zstandard
from tests.reference.jpeg import extreme_jpeg

from headrace import _native
from headrace.codecs.images.png import decode_png, plain_header
from headrace.errors import CorruptRecord
from headrace.formats.array_record.codecs import ZSTD

pytestmark = pytest.mark.usefixtures("own_engines")  # They are about our decoders.
CORPUS = Path(__file__).resolve().parents[1] / "corpus"
MOST_BYTES = 1 << 20
KINDS = {0: 1, 2: 3, 4: 2, 6: 4}  # of PNG: channels by colour type


def corpus(name):
    """The inputs of one harness, one a line."""
    return [bytes.fromhex(line) for line in (CORPUS / f"{name}.txt").read_text(encoding="ascii").splitlines()]


def with_flips(inputs):
    """Valid inputs, and variants with a changed byte."""
    rng = random.Random(1)
    for data in inputs:
        yield data
        for _ in range(8):
            changed = bytearray(data)
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            yield bytes(changed)


def deflated(content, level=1, strategy=0):
    """Bare deflate."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 8, strategy)
    return packer.compress(content) + packer.flush()


def inflated(stream, wbits):
    """zlib's result for a stream: its bytes, whether it is valid, and what follows."""
    inflater = zlib.decompressobj(wbits)
    out = b""
    try:
        for at in range(0, len(stream), 16):  # A fault discards the output of the same call.
            out += inflater.decompress(stream[at : at + 16], MOST_BYTES)
    except zlib.error:
        return out, False, b""
    return out, inflater.eof, inflater.unused_data


def members(file):
    """The contents of all members of a GZIP file, and whether all are valid."""
    out, is_sound = b"", True
    while file and is_sound:
        content, is_sound, file = inflated(file, 31)
        out += content
    return out, is_sound


def natively_inflated(file):
    """The result of native code for a GZIP file, and whether it read all of it."""
    inflater = _native.GzipInflater(1 << 16, 1)
    inflater.give(file, len(file), True)
    return b"".join(map(bytes, inflater.take())), inflater.state == "done"


def gzip_file(compressed):
    """A file around compressed data, with the right trailer."""
    content = inflated(compressed, -15)[0]
    return bytes.fromhex("1f8b0800000000000000") + compressed + struct.pack("<II", zlib.crc32(content), len(content))


def test_gzip():
    rng = random.Random(0)
    kinds = [(1, 0), (6, 0), (6, zlib.Z_HUFFMAN_ONLY), (6, zlib.Z_FIXED)]
    made = [deflated(bytes(rng.choices(range(200), k=size)), *kind) for size in (30, 900, 20_000) for kind in kinds]
    taken = 0
    for number, data in enumerate([*corpus("gzip_inflater"), *with_flips(made)]):
        for file in (data, gzip_file(data)):
            wanted, is_sound = members(file)
            found, is_done = natively_inflated(file)
            assert found == wanted[: len(found)] or not is_sound, number
            assert not is_done or (is_sound and found == wanted), number
            taken += is_done
    assert taken > 3


def unpacked(frame, size):
    """The result of native code for a Zstandard frame, or nothing if it is left to the library."""
    framed, begins, _ = _native.frame_chunks(64, ZSTD, [frame], np.array([size], np.int64), group_size=1)
    try:
        chunks = _native.open_chunks(bytes(64) + framed.tobytes(), begins, most_bytes=1 << 40, verify=False)
    except _native.FormatError:
        return None
    return bytes(chunks.view(0)) if chunks.ready else None


def test_zstandard():
    rng = random.Random(0)
    contents = [bytes(rng.choices(b"abcdefgh    ", k=size)) for size in (20, 400, 3000)] + [rng.randbytes(700)]
    made = [zstandard.ZstdCompressor(level=level).compress(content) for content in contents for level in (1, 19)]
    taken = 0
    for number, data in enumerate(
        [*corpus("zstd_decoder"), *(struct.pack("<HH", 700, 0) + frame for frame in with_flips(made))]
    ):
        cut = struct.unpack_from("<H", data, 2)[0] % (len(data) - 3)
        for frame in (data[4 : 4 + cut], data[4 + cut :]):
            if not frame.startswith(b"\x28\xb5\x2f\xfd"):
                continue
            try:
                wanted = zstandard.ZstdDecompressor().decompress(frame, max_output_size=MOST_BYTES)
            except zstandard.ZstdError:
                wanted = None
            sizes = {1, 700, len(wanted or b"") or 2}
            found = {size: unpacked(frame, size) for size in sizes}
            for size, content in found.items():
                assert content is None or content == wanted, (number, size)
            taken += any(content is not None for content in found.values())
    assert taken > 10


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_file(data):
    """A PNG round what is compressed behind three bytes, which choose its kind, and the rows in it; as `fuzz_png.cpp` does with
    plain kinds.
    """
    kind, width, deflated = data[0], 1 + data[1] % 64, data[3:]
    content, is_sound, _ = inflated(deflated, -15)
    colours, bits = (0, 2, 4, 6)[kind & 3], 16 if kind & 4 else 8
    row = width * KINDS[colours] * bits // 8
    height = max(1, len(content) // (row + 1) + (kind >> 7))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0))
    stream = b"\x78\x01" + deflated + struct.pack(">I", zlib.adler32(content))
    file = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", stream) + chunk(b"IEND", b"")
    is_whole = is_sound and len(content) == height * (row + 1)
    return file, [content[at : at + row + 1] for at in range(0, len(content), row + 1)] if is_whole else None


def unfiltered(rows, pixel):
    """The samples of rows, by the five filters of the PNG specification."""
    above = bytes(len(rows[0]) - 1)
    out = []
    for row in rows:
        done = bytearray(row[1:])
        for i, value in enumerate(row[1:]):
            left, corner = (done[i - pixel], above[i - pixel]) if i >= pixel else (0, 0)
            guess = left + above[i] - corner
            nearest = min((left, above[i], corner), key=lambda sample, guess=guess: abs(guess - sample))
            done[i] = (value + (0, left, above[i], (left + above[i]) // 2, nearest)[row[0]]) & 255
        out.append(bytes(done))
        above = out[-1]
    return b"".join(out)


def test_png():
    rng = random.Random(0)
    made = []
    for kind in range(8):
        width = rng.randint(1, 9)
        row = width * KINDS[(0, 2, 4, 6)[kind & 3]] * (2 if kind & 4 else 1)
        content = b"".join(bytes([number % 5]) + rng.randbytes(row) for number in range(7))
        made += [
            bytes([kind, width - 1, 0]) + deflated(content, *how) for how in ((0, 0), (9, 0), (6, zlib.Z_HUFFMAN_ONLY))
        ]
    taken = 0
    for number, data in enumerate([*corpus("png"), *with_flips(made)]):
        file, rows = png_file(data)
        header = plain_header(file)
        try:
            found = decode_png([file], header)
        except CorruptRecord:
            found = None
        is_sound = rows is not None and all(row[0] <= 4 for row in rows)
        assert (found is not None) == is_sound, number
        if found is not None:
            samples = found.astype(f">u{header.bits // 8}").tobytes()
            assert samples == unfiltered(rows, header.pixel_bytes), number
            taken += 1
    assert taken > 10


@pytest.mark.skipif(not _native.jpeg_is_fast(), reason="this machine's JPEGs are all left to the library")
def test_jpeg():
    taken = 0
    for number, image in enumerate([*corpus("jpeg"), *with_flips(map(extreme_jpeg, range(1000, 1040)))]):
        try:
            height, width, colours, _ = simplejpeg.decode_jpeg_header(image)
        except (ValueError, KeyError):
            height, width, colours = 16, 16, "RGB"
        if height * width > MOST_BYTES:
            continue
        out = np.zeros((height, width, 1 if colours == "Gray" else 3), np.uint8)
        if _native.decode_jpeg_into(image, out):
            wanted = simplejpeg.decode_jpeg(image, "GRAY" if colours == "Gray" else "RGB")
            np.testing.assert_array_equal(out, wanted, str(number))
            taken += 1
    assert taken > 40
