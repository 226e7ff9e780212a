"""Codecs in footers: as pyarrow reports them, and without a crash for any bytes."""

import base64
import io
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import CorruptFile
from headrace.formats.parquet import groups, pages
from headrace.formats.parquet.format import compression_of
from headrace.formats.parquet.pages import FilePages, read_codecs


def parquet(**options):
    table = pa.table({"a": [1, 2, 3], "b": ["x", "y", None], "c": [[1.0], [], [2.0]], "d": [True, False, True]})
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({"k": "v" * 300}), buffer, row_group_size=2, **options)
    return buffer.getvalue()


def footer_of(file):
    return file[-8 - struct.unpack("<I", file[-8:-4])[0] : -8]


FOOTER = footer_of(parquet(compression={"a": "snappy", "b": "gzip", "c.list.element": "zstd", "d": "none"}))


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_codecs(tmp_path, codec):
    (tmp_path / "x.parquet").write_bytes(parquet(compression=codec))
    found = compression_of([str(tmp_path / "x.parquet")])
    group = pq.ParquetFile(tmp_path / "x.parquet").metadata.row_group(0)
    theirs = {group.column(at).compression.lower() for at in range(group.num_columns)}
    assert {found} == {codec} or found.startswith("lz4")
    assert len(theirs) == 1


def test_several_codecs_and_an_empty_table(tmp_path):
    assert read_codecs(FOOTER) == {"snappy", "gzip", "zstd", "none"}
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "x.parquet")
    assert compression_of([str(tmp_path / "x.parquet")]) in ("none", "snappy")


@given(st.binary(max_size=200))
def test_any_bytes(data):
    assert read_codecs(data) <= {"none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw"}


@given(st.data())
def test_damaged_footers(data):
    damaged = bytearray(FOOTER[: data.draw(st.integers(0, len(FOOTER)))])
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    read_codecs(bytes(damaged))


def test_a_footer_without_metadata_of_a_column(tmp_path):
    """pyarrow ends the process when asked for such a column, so `inspect` must not ask."""
    file = bytearray(parquet(compression="snappy"))
    path = tmp_path / "x.parquet"
    begin = len(file) - 8 - len(footer_of(bytes(file)))
    looked = 0
    for at in range(begin, len(file) - 8):
        damaged = bytearray(file)
        damaged[at] ^= 0x40
        path.write_bytes(damaged)
        try:
            compression_of([str(path)])
        except (hr.DataError, hr.UnsupportedData):
            continue
        looked += 1
    assert looked > 100


def test_lists_of_less_than_no_values(tmp_path):
    """Arrow's description of the types, as base64 in the footer, has no checksum."""
    hr.write(tmp_path / "x.parquet", {"x": np.zeros((4, 3), np.float32)})
    content = (tmp_path / "x.parquet").read_bytes()
    coded = pq.read_metadata(tmp_path / "x.parquet").metadata[b"ARROW:schema"]
    plain = bytearray(base64.b64decode(coded))
    at = plain.index((3).to_bytes(4, "little"))
    assert plain.count((3).to_bytes(4, "little")) == 1
    plain[at + 3] |= 0x80
    (tmp_path / "x.parquet").write_bytes(content.replace(coded, base64.b64encode(plain)))
    with pytest.raises(
        CorruptFile, match=r"lists of 0 values or more.*found -2147483645 - at .*x.parquet, feature 'x'"
    ):
        hr.open(tmp_path / "x.parquet")
    assert [type(fault) for fault in hr.verify(tmp_path / "x.parquet").faults] == [CorruptFile]


def test_counts_of_rows_that_disagree(tmp_path):
    """A footer has no checksum, but the count of its rows stands in it, and those of the row groups."""
    hr.write(tmp_path / "x.parquet", {"x": np.arange(20)})
    content = (tmp_path / "x.parquet").read_bytes()
    footer = len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]
    refused = 0
    for at in range(footer, len(content) - 8):
        if content[at] == 40:  # 20 as a zigzag varint
            for count in (16, 24):
                (tmp_path / "y.parquet").write_bytes(content[:at] + bytes([2 * count]) + content[at + 1 :])
                try:
                    found = pq.read_metadata(tmp_path / "y.parquet")
                except OSError:  # another field
                    continue
                if (found.num_rows, found.row_group(0).num_rows) != (20, 20):
                    assert not hr.verify(tmp_path / "y.parquet").ok
                    with pytest.raises(CorruptFile, match="count of rows in row group 0|rows, as the footer says"):
                        len(hr.open(tmp_path / "y.parquet"))
                    refused += 1
    assert refused == 4


def test_each_column_of_a_wide_table_is_opened_once(tmp_path, monkeypatch, own_engines):
    """Opened again, a column would begin with all parts of its row group that were read before."""
    monkeypatch.setattr(groups, "MOST_ROWS", 10)
    monkeypatch.setattr(pages, "MOST_READERS", 3)
    columns = {f"c{number}": np.arange(60) + number for number in range(50)}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    opened, whole = [], FilePages.open
    monkeypatch.setattr(FilePages, "open", lambda *given, **more: (opened.append(given), whole(*given, **more))[1])
    source = hr.open(tmp_path / "x.parquet")
    batches = list(hr.Loader(source, 7))
    for name, values in columns.items():
        assert np.concatenate([batch[name] for batch in batches]).tolist() == values.tolist()
    assert len(opened) == 50


def test_few_readers_are_kept(tmp_path, monkeypatch, own_engines):
    """Row groups that are not read to their ends leave theirs."""
    monkeypatch.setattr(groups, "MOST_ROWS", 10)
    monkeypatch.setattr(pages, "MOST_READERS", 30)
    pq.write_table(pa.table({"a": np.arange(3000), "b": np.arange(3000)}), tmp_path / "x.parquet", row_group_size=30)
    source = hr.open(tmp_path / "x.parquet")
    for row in range(0, 3000, 30):
        assert source.batch([row, row + 1])["b"].tolist() == [row, row + 1]
    assert 0 < len(source.node.records._native._readers) <= 30
