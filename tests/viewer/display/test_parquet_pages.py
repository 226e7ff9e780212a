"""Chunks and pages of Parquet files follow each other without a gap, whatever wrote them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.viewer.display.parquet_pages import chunk_fields, footer_fields, page_fields, row_group_of


def reader(content):
    return lambda at, size: content[at : at + size]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("checksums", [True, False])
def test_pages_cover_their_chunks(tmp_path, version, compression, checksums):
    path = tmp_path / "a.parquet"
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "x": rng.standard_normal(5000),
            "label": rng.integers(0, 3, 5000),
            "text": [f"text {n % 90}" * (n % 5) for n in range(5000)],
            "list": [list(range(n % 4)) for n in range(5000)],
        }
    )
    pq.write_table(
        table,
        path,
        row_group_size=2000,
        data_page_size=4096,
        data_page_version=version,
        compression=compression,
        write_page_checksum=checksums,
        write_page_index=checksums,
    )
    content = path.read_bytes()
    for row, number in ((0, 0), (1999, 0), (2000, 1), (4999, 2)):
        group, found = row_group_of(str(path), row)
        assert found == number
        chunks = chunk_fields(group, number)
        assert len(chunks) == 4
        for chunk in chunks:
            pages = page_fields(reader(content), chunk.start, chunk.stop)
            assert "unreadable" not in [page.name for page in pages]
            assert pages[0].start == chunk.start
            assert pages[-1].stop == chunk.stop
            assert all(one.stop == other.start for one, other in zip(pages, pages[1:], strict=False))
    assert row_group_of(str(path), 5000) is None
    assert [field.name for field in footer_fields(reader(content), len(content))] == [
        "first mark",
        "footer",
        "length of the footer",
        "last mark",
    ]


def test_damaged_pages_and_footers(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": np.arange(100)}), path)
    content = bytearray(path.read_bytes())
    group, number = row_group_of(str(path), 0)
    chunk = chunk_fields(group, number)[0]
    content[chunk.start : chunk.start + 8] = b"\xff" * 8
    assert page_fields(reader(bytes(content)), chunk.start, chunk.stop)[-1].name == "unreadable"
    content[-8:-4] = b"\xff" * 4
    found = footer_fields(reader(bytes(content)), len(content))
    assert "more than the file has" in found[1].meaning
    path.write_bytes(content)
    assert row_group_of(str(path), 0) is None


@settings(max_examples=300)
@given(st.binary(max_size=80))
def test_any_bytes_have_fields(content):
    for field in page_fields(reader(content), 0, len(content)):
        assert 0 <= field.start <= field.stop <= len(content)
    assert footer_fields(reader(content), len(content))
