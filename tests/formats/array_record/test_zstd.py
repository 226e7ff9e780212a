"""Native Zstandard decoding, compared with libzstd."""

from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from headrace import _native
from headrace.errors import CorruptRecord
from headrace.formats.array_record.codecs import ZSTD
from headrace.formats.array_record.unpack import BadChunk, open_chunks

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "zstd"
WORDS = b"the of and to a in that is was he for it with as his on be at by i this had not are but from or have an they which one you"


class File:
    """Chunks as if they were a file."""

    path = "x.array_record"

    def __init__(self, payloads, frames):
        sizes = np.array([len(payload) for payload in payloads], np.int64)
        framed, self.begins, _ = _native.frame_chunks(64, ZSTD, frames, sizes, group_size=1)
        self.buffer = memoryview(bytes(64) + framed.tobytes())
        self.size = len(self.buffer)


def frame_of(payload, **options):
    parameters = zstandard.ZstdCompressionParameters(**options)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(payload)


def opened(payloads, frames, **options):
    file = File(payloads, frames)
    return _native.open_chunks(file.buffer, file.begins, most_bytes=1 << 40, verify=False, **options)


def texts(count, size, seed=0):
    rng = np.random.default_rng(seed)
    words = WORDS.split()
    return [b" ".join(words[i] for i in rng.integers(0, len(words), size // 4).tolist())[:size] for _ in range(count)]


def samples():
    rng = np.random.default_rng(0)
    yield "floats", [rng.random(784, dtype=np.float32).tobytes() for _ in range(20)]
    yield "text", texts(10, 3000)
    yield "long text", texts(2, 400_000)
    yield "few letters", [bytes(rng.integers(0, 4, size, dtype=np.uint8)) for size in range(1, 1500, 7)]
    skewed = [np.minimum(rng.geometric(0.3, size), 255).astype(np.uint8) for size in range(1, 4000, 61)]
    yield "skewed", [values.tobytes() for values in skewed]
    yield "runs", [np.repeat(rng.integers(0, 255, 300), rng.integers(1, 60, 300)).astype(np.uint8).tobytes()]
    periods = [(rng.bytes(period) * 400)[:size] + rng.bytes(9) for period in range(1, 40) for size in (60, 350)]
    yield "periods", periods
    yield "zeros", [bytes(size) for size in (1, 2, 100, 131_072, 131_073, 400_000)]
    mixed = texts(1, 5000)[0]
    yield "mixed", [mixed + rng.bytes(200_000) + bytes(9000) + mixed + rng.bytes(10) + mixed[:999]]


SAMPLES = dict(samples())


@pytest.mark.parametrize("level", [-5, 1, 3, 9, 19])
@pytest.mark.parametrize("name", SAMPLES)
def test_whatever_the_library_packs_is_unpacked_without_it(name, level):
    payloads = SAMPLES[name]
    frames = [frame_of(payload, compression_level=level) for payload in payloads]
    chunks = opened(payloads, frames)
    assert chunks.ready
    assert chunks.spans().to_bytes() == payloads
    frames = [frame_of(payload, compression_level=level, write_content_size=0, window_log=12) for payload in payloads]
    helped = opened(payloads, frames, threads=3)
    assert helped.ready
    assert helped.spans().to_bytes() == payloads


@pytest.mark.parametrize("strategy", range(1, 10))
def test_every_strategy(strategy):
    payloads = [*texts(3, 5000, seed=strategy), *SAMPLES["skewed"][:9]]
    chunks = opened(payloads, [frame_of(payload, strategy=strategy, min_match=3) for payload in payloads])
    assert chunks.ready
    assert chunks.spans().to_bytes() == payloads


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=5), st.integers(-3, 19), st.integers(1, 30))
def test_any_bytes(parts, level, times):
    payload = b"".join(parts * times) or b"x"
    chunks = opened([payload], [frame_of(payload, compression_level=level)])
    assert chunks.ready
    assert chunks.spans().to_bytes() == [payload]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.zst")), ids=lambda path: path.stem)
def test_goldens_decode_as_in_the_library(path):
    """Also seeds for fuzzing."""
    frame = path.read_bytes()
    payload = zstandard.ZstdDecompressor().decompress(frame, max_output_size=1 << 20)
    chunks = opened([payload], [frame])
    assert chunks.ready
    assert chunks.spans().to_bytes() == [payload]


def test_frames_with_a_checksum_are_left_to_the_library():
    payloads = texts(3, 500)
    frames = [frame_of(payload, write_checksum=1) for payload in payloads]
    assert len(opened(payloads, frames).jobs()) == 3
    file = File(payloads, frames)
    assert open_chunks(file, file.begins, verify=False).spans().to_bytes() == payloads


@pytest.mark.parametrize("name", ["floats", "text", "few letters", "skewed", "periods"])
def test_damaged_frames_give_the_library_error(name):
    """Every result of native code equals the library's; the rest is left to the library."""
    rng = np.random.default_rng(1)
    decompressor = zstandard.ZstdDecompressor()
    refused = alike = 0
    for number in range(600):
        payload = SAMPLES[name][number % len(SAMPLES[name])]
        frame = bytearray(frame_of(payload, compression_level=(1, 3, 19)[number % 3]))
        at = 5 + int(rng.integers(0, len(frame) - 5))
        frame[at] ^= 1 << int(rng.integers(0, 8))
        if number % 5 == 0:
            frame = frame[: at + 1]
        chunks = opened([payload], [bytes(frame)])
        if not chunks.ready:
            refused += 1
            continue
        alike += 1
        assert chunks.spans().to_bytes() == [decompressor.decompress(bytes(frame), max_output_size=len(payload))]
    assert refused > 20
    assert alike + refused == 600


def test_a_damaged_frame_is_named():
    payloads = texts(40, 3000)
    frames = [bytearray(frame_of(payload)) for payload in payloads]
    frames[17] = frames[17][:-1]
    file = File(payloads, [bytes(frame) for frame in frames])
    with pytest.raises(BadChunk) as caught:
        open_chunks(file, file.begins, verify=False, threads=2)
    assert caught.value.number == 17
    assert isinstance(caught.value.fault, CorruptRecord)
