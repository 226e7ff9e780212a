"""CRC-32C: the published values, and every engine equal to the slow reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.tfrecord import crc32c, masked

from headrace import _native

ENGINES = [_native.crc32c, _native.crc32c_by_tables]


@pytest.mark.parametrize("engine", ENGINES)
def test_published_values(engine):
    # RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
    assert engine(b"") == 0
    assert engine(b"123456789") == 0xE3069283
    assert engine(bytes(32)) == 0x8A9136AA
    assert engine(b"\xff" * 32) == 0x62A8AB43
    assert engine(bytes(range(32))) == 0x46DD794E
    assert engine(bytes(range(31, -1, -1))) == 0x113FDB5C


def test_mask():
    assert _native.masked_crc32c(b"") == 0xA282EAD8
    assert _native.masked_crc32c(bytes(8)) == 0x07980329  # the length of an empty TFRecord payload


@pytest.mark.parametrize("engine", ENGINES)
def test_every_length_and_alignment(engine):
    data = np.random.default_rng(3).integers(0, 256, 2100, np.uint8).tobytes()
    for size in range(800):  # the lengths around the stretches of the engines are in native/tests
        start = size % 17
        assert engine(memoryview(data)[start : start + size]) == crc32c(data[start : start + size])


@given(st.binary(max_size=3000))
def test_native_equals_reference(data):
    assert [engine(data) for engine in ENGINES] == [crc32c(data)] * 2
    assert _native.masked_crc32c(data) == masked(data)


def test_long_data():
    data = np.random.default_rng(4).integers(0, 256, 300_001, np.uint8)
    assert _native.crc32c(data) == _native.crc32c_by_tables(data) == crc32c(data.tobytes())


@pytest.mark.parametrize(
    "data", [bytearray(b"headrace"), memoryview(b"headrace"), np.frombuffer(b"headrace", np.uint8)]
)
def test_anything_with_bytes(data):
    assert _native.crc32c(data) == crc32c(b"headrace")


@pytest.mark.parametrize("data", ["text", 3, None, np.zeros((4, 4))[:, 1]])
def test_nothing_else(data):
    with pytest.raises((TypeError, BufferError, ValueError)):
        _native.crc32c(data)


def test_engine_is_named():
    assert _native.crc32c_engine() in ("sse4.2", "armv8", "table")
