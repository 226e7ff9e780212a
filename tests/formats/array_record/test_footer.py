"""Footers that a faulty writer made, and footers of remote files."""

from pathlib import Path

import numpy as np
import pytest
from tests.formats.array_record.files import some_payloads, write
from tests.io.file_server import serving

from headrace import _native
from headrace.errors import CorruptFile
from headrace.formats.array_record import footer as module
from headrace.formats.array_record.codecs import NONE
from headrace.formats.array_record.footer import BLOCK_BYTES, Footer
from headrace.formats.array_record.format import ArrayRecordRecords
from headrace.formats.array_record.write import COPIES, file_end


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "x.array_record", some_payloads(40), compression="none", group_size=10)


def with_end(path, parts, begin):
    """The file with another end, from ``begin`` on."""
    Path(path).write_bytes(Path(path).read_bytes()[:begin] + b"".join(map(bytes, parts)))
    return ArrayRecordRecords([path])


def changed(footer, **changes):
    known = {name: getattr(footer, name) for name in ("begin", "options", "begins", "decoded_sizes", "counts")}
    return Footer(**{**known, **changes})


def test_chunks_that_cannot_be(path):
    footer = ArrayRecordRecords([path]).footer()
    assert footer.counts.tolist() == [10] * 4
    for changes in (
        {"begins": footer.begins[::-1].copy()},
        {"begins": np.repeat(footer.begins[:1], 4)},
        {"begins": footer.begins + footer.begin},  # behind the footer
        {"begins": np.array([3, *footer.begins[1:]])},  # in the signature
        {"counts": np.array([10, 0, 20, 10])},
    ):
        records = with_end(path, file_end(changed(footer, **changes), NONE, bytes), footer.begin)
        with pytest.raises(CorruptFile, match="expected a footer that describes the chunks before it") as caught:
            len(records)
        assert (caught.value.where.path, caught.value.where.offset) == (path, footer.begin)
    assert len(with_end(path, file_end(footer, NONE, bytes), footer.begin)) == 40


def test_a_postscript_that_points_at_records(path):
    footer = ArrayRecordRecords([path]).footer()
    records = with_end(path, _end_that_points_at(footer, int(footer.begins[1])), footer.begin)
    with pytest.raises(
        CorruptFile, match="expected a footer that describes the chunks before it, found one that cannot"
    ):
        len(records)


@pytest.mark.parametrize("place", [0, 10 * BLOCK_BYTES])
def test_a_postscript_that_points_out_of_the_file(path, place):
    footer = ArrayRecordRecords([path]).footer()
    records = with_end(path, _end_that_points_at(footer, place), footer.begin)
    with pytest.raises(CorruptFile, match=f"a footer before the postscript, found one at byte {place:#x}"):
        len(records)


def _end_that_points_at(footer, place):
    chunk, padding, _, _ = file_end(footer, NONE, bytes)
    record = _native.encode_postscript(place)
    lengths = np.full(COPIES, len(record), np.int64)
    begin = footer.begin + len(chunk) + len(padding)
    postscript, _, stop = _native.frame_chunks(begin, NONE, [record * COPIES], lengths, group_size=COPIES)
    return chunk, padding, postscript, _native.frame_padding(stop)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A file of many chunks of one record, with a footer of several blocks, on a server."""
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "served"
    folder.mkdir()
    payloads = some_payloads(30_000, most=600)
    write(folder / "x.array_record", payloads, compression="none", group_size=1)
    with serving(folder) as server:
        yield server, payloads, (folder / "x.array_record").stat().st_size


@pytest.mark.parametrize("is_too_large", [False, True])
def test_a_footer_longer_than_the_tail_that_is_fetched_first(served, monkeypatch, is_too_large):
    server, payloads, size = served
    monkeypatch.setattr(module, "TAIL_BYTES", BLOCK_BYTES)
    if is_too_large:
        monkeypatch.setattr(module, "MOST_FOOTER_BYTES", 2 * BLOCK_BYTES)
    records = ArrayRecordRecords([f"{server.url}/x.array_record"])
    with server.counting() as asked:
        assert len(records) == len(payloads)
    fetched = sum(_length(span) for method, _, span in asked if method == "GET" and span)
    assert (fetched >= size) == is_too_large, asked  # a file is copied rather than its footer read into memory
    order = np.array([29_999, 0, 15_000])
    assert records.spans(order).to_bytes() == [payloads[index] for index in order]


def _length(span):
    first, last = span.removeprefix("bytes=").split("-")
    return int(last) - int(first) + 1
