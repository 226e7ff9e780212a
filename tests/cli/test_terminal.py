"""Values for people and for programs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

from headrace import Ragged
from headrace.cli.terminal import _console, count_of, printable, size_of
from headrace.statistics.display import shorten, to_json


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(5), "5"),
        (np.float32(0.1), "0.1"),
        (np.float32(12), "12"),
        (np.bool_(True), "True"),
        (b"abc", "b'abc'"),
        ("text", "'text'"),
        ("a" * 100, "'" + "a" * 24 + "…' 100 characters"),
        (b"a" * 100, "b'" + "a" * 24 + "…' 100 bytes"),
        (np.arange(7), "[0 1 2 3 4 5 6]"),
        (np.arange(20), "[0 1 2 3 4 5 … 19] 20"),
        (np.zeros((2, 2), np.uint8), "[0 0 0 0] 2×2"),
        (np.zeros(0), "[]"),
        (np.array([b"a", b"b"], object), "[b'a' b'b']"),
        (np.datetime64("2026-01-02"), "2026-01-02"),
        (Ragged.from_list([[1], [2, 3]]), "[[1] [2 3]] 2 rows"),
    ],
)
def test_short(value, text):
    assert shorten(value) == text


@pytest.mark.parametrize(
    ("value", "json_value"),
    [
        (np.arange(4, dtype=np.int16).reshape(2, 2), [[0, 1], [2, 3]]),
        (np.float32([0.5, np.nan]), [0.5, "nan"]),
        (np.complex64(1 + 2j), [1.0, 2.0]),
        (np.array([1 + 2j]), [[1.0, 2.0]]),
        (b"\x00\xff", {"b64": "AP8="}),
        (np.bytes_(b"ab"), {"b64": "YWI="}),
        (np.array(["2026-01-02"], "M8[D]"), ["2026-01-02"]),
        (Ragged.from_list([[1], [], [2, 3]]), [[1], [], [2, 3]]),
        (np.array(["é"], object), ["é"]),
        (np.uint64(2**64 - 1), 2**64 - 1),
        ((1, None, True, -np.inf), [1, None, True, "-inf"]),
    ],
)
def test_plain(value, json_value):
    assert to_json(value) == json_value
    json.dumps(to_json(value), allow_nan=False)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.00 kB"), (12_345, "12.3 kB"), (999_499, "999 kB"),
     (999_600, "1.00 MB"), (5_000_000_000_000_000, "5000 TB")],
)  # fmt: skip
def test_size_of(size, text):
    assert size_of(size) == text


def test_words():
    assert count_of(1, "file") == "1 file"
    assert count_of(1797, "example") == "1,797 examples"
    assert count_of(2, "stretch", "stretches") == "2 stretches"
    assert printable("to_json é") == "to_json é"
    assert printable("a\x1b[2Jb\n") == "a\\x1b[2Jb\\n"


def test_sparse_rows():
    rows = sparse.csr_array(np.array([[0, 1.5], [2, 0]]))
    assert to_json(rows) == [[0, 1.5], [2, 0]]
    assert shorten(rows) == "sparse row, 2 of 2 values"


def test_bytes_without_a_type():
    assert to_json(np.void(b"ab")) == {"b64": "YWI="}


def test_closed_pipes_are_an_error_of_their_own():
    with pytest.raises(BrokenPipeError):
        _console().on_broken_pipe()
