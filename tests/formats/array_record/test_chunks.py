"""Chunks of one record each, in one native call."""

from pathlib import Path

import numpy as np
import pytest
from tests.formats.array_record.files import some_payloads, write

from headrace import _native
from headrace.formats.array_record.format import ArrayRecordRecords

BUFFER, BEGINS = [b"x" * 1000], np.zeros(2, np.int64)


def gather(buffers, which, begins, *, verify=True, threads=2, wanted=None):
    return _native.gather_singles(
        buffers, which, begins, verify=verify, threads=threads, bytes_wanted=wanted or _native.BytesWanted()
    )


@pytest.fixture
def two(tmp_path):
    """Two files, the offsets of their chunks, and their records."""
    payloads = [some_payloads(60, most=1500), some_payloads(80, most=900)[30:]]
    paths = [
        write(tmp_path / f"{number}.array_record", part, group_size=1, compression="zstd")
        for number, part in enumerate(payloads)
    ]
    begins = [ArrayRecordRecords([path])._table.begins for path in paths]
    buffers = [Path(path).read_bytes() for path in paths]
    return buffers, begins, payloads


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("verify", [True, False])
def test_records_of_several_buffers_in_any_order(two, threads, verify):
    buffers, begins, payloads = two
    order = np.random.default_rng(0).permutation(110)
    which = (order >= 60).astype(np.int32)
    at = np.concatenate(begins)[order]
    wanted = _native.BytesWanted()
    for _ in range(3):
        spans, left = gather(_native.Buffers(buffers), which, at, verify=verify, threads=threads, wanted=wanted)
        assert [i for i, number in enumerate(order) if not (payloads[0] + payloads[1])[number]] == (
            [] if left is None else left.tolist()
        )
        expected = [(payloads[0] + payloads[1])[number] for number in order]
        assert spans.to_bytes() == expected


def test_other_chunks_are_left_to_the_general_path(two):
    (first, _), (begins, _), (payloads, _) = two
    at = np.array([begins[1], 0, -1, 1 << 40, begins[2] + 1, begins[3]])
    spans, left = gather([first], None, at)
    assert left.tolist() == [1, 2, 3, 4]
    assert [spans.to_bytes()[i] for i in (0, 5)] == [payloads[1], payloads[3]]


def test_nothing_at_all():
    spans, left = gather(BUFFER, None, np.zeros(0, np.int64))
    assert left is None
    assert spans.to_bytes() == []


def test_contradictions_are_refused():
    with pytest.raises(ValueError, match="which and begins differ in length"):
        gather(BUFFER, np.zeros(3, np.int32), BEGINS)
    for number in (1, -1):
        with pytest.raises(IndexError, match="no such buffer"):
            gather(BUFFER, np.full(2, number, np.int32), BEGINS)
    with pytest.raises(TypeError):
        _native.gather_singles(BUFFER, None, BEGINS, verify=True, threads=1, bytes_wanted=None)
