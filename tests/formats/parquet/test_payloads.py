"""Payloads in a binary column of Parquet files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import CorruptFile, NoFiles, SchemaMismatch, UnsupportedData
from headrace.formats.parquet import payloads as module
from headrace.formats.parquet.payloads import ParquetPayloads

VALUES = [bytes([number]) * number for number in range(20)]


def put(path, values, **options):
    pq.write_table(pa.table({"data": values}), path, **options)
    return str(path)


@pytest.fixture
def records(tmp_path):
    """Two files: row groups of 4 and 3 records."""
    first = put(tmp_path / "a.parquet", VALUES[:9], row_group_size=4)
    return ParquetPayloads([first, put(tmp_path / "b.parquet", VALUES[9:], row_group_size=3)])


def test_every_way_of_reading(records):
    assert len(records) == 20
    assert records.lengths == (9, 11)
    assert [bytes(payload) for payload in records] == VALUES
    assert [bytes(records[index]) for index in (0, 3, 8, 9, 19, -1, -20)] == [
        VALUES[index] for index in (0, 3, 8, 9, 19, -1, -20)
    ]
    order = np.random.default_rng(0).permutation(20)
    assert records.spans(order).to_bytes() == [VALUES[index] for index in order]
    assert len(records.spans(np.zeros(0, np.int64))) == 0
    blocks = [(first, spans.to_bytes()) for first, spans in records.iter_spans(8)]
    assert blocks == [(0, VALUES[:8]), (8, VALUES[8:16]), (16, VALUES[16:])]
    assert [spans.to_bytes() for _, spans in records.iter_spans()] == [VALUES]


def test_places_count_from_the_beginning_of_each_file(records):
    assert [(records.where(index).path, records.where(index).record) for index in (0, 8, 9, 19)] == [
        (records.paths[0], 0),
        (records.paths[0], 8),
        (records.paths[1], 0),
        (records.paths[1], 10),
    ]


@pytest.mark.parametrize("index", [20, -21])
def test_records_that_do_not_exist(records, index):
    with pytest.raises(IndexError, match=f"^record {index} of 20$"):
        records[index]
    with pytest.raises(IndexError, match="of 20$"):
        records.spans(np.array([3, index]))


def test_only_some_row_groups_stay_in_memory(records, monkeypatch):
    reads = []
    read_file = ParquetPayloads._file
    monkeypatch.setattr(
        ParquetPayloads, "_file", lambda self, number: (reads.append(number), read_file(self, number))[1]
    )
    monkeypatch.setattr(module, "MOST_KEPT_BYTES", 30)  # the first row groups hold 6 and 22 bytes, the third 8
    assert len(records) == 20
    reads.clear()
    for index in (0, 4, 1, 5):
        assert bytes(records[index]) == VALUES[index]
    assert reads == [0, 0]
    view = records[4]
    assert bytes(records[8]) == VALUES[8]  # evicts the first
    assert reads == [0, 0, 0]
    assert bytes(records[4]) == VALUES[4]
    assert reads == [0, 0, 0]
    assert bytes(records[0]) == VALUES[0]
    assert bytes(records[17]) == VALUES[17]  # larger than all that may be kept
    assert reads == [0, 0, 0, 0, 1]
    assert bytes(view) == VALUES[4]


@pytest.mark.parametrize("type", [pa.large_binary(), pa.binary(2), pa.dictionary(pa.int32(), pa.binary())])
def test_other_types_of_binary_columns(tmp_path, type):
    values = [b"ab", b"cd", b"ab"]
    path = put(tmp_path / "x.parquet", pa.array(values, pa.binary()).cast(type))
    assert [bytes(payload) for payload in ParquetPayloads([path])] == values


def test_empty_files_and_empty_values(tmp_path):
    paths = [
        put(tmp_path / "none.parquet", pa.array([], pa.binary())),
        put(tmp_path / "empty.parquet", pa.array([b"", b""], pa.binary())),
    ]
    records = ParquetPayloads(paths)
    assert records.lengths == (0, 2)
    assert [bytes(payload) for payload in records] == [b"", b""]
    assert (records.where(1).path, records.where(1).record) == (paths[1], 1)
    assert list(ParquetPayloads(paths[:1])) == []


def test_a_null_is_no_payload(tmp_path):
    path = put(tmp_path / "x.parquet", pa.array([b"a", None], pa.binary()))
    with pytest.raises(SchemaMismatch, match="a value in each row, found a null") as caught:
        ParquetPayloads([path])[0]
    assert (caught.value.where.path, caught.value.where.feature) == (path, "data")


def test_files_that_cannot_be_read(tmp_path):
    missing = str(tmp_path / "missing.parquet")
    with pytest.raises(NoFiles, match="no such Parquet file: "):
        len(ParquetPayloads([missing]))
    path = put(tmp_path / "x.parquet", [b"a"])
    with pytest.raises(SchemaMismatch, match="a column 'text' of binary values, found data: binary"):
        len(ParquetPayloads([path], column="text"))


def test_damaged_pages(tmp_path):
    values = [bytes([number]) * 50 for number in range(40)]
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True}
    path = tmp_path / "x.parquet"
    put(path, values, row_group_size=20, **options)
    content = bytearray(path.read_bytes())
    content[content.index(values[30])] ^= 1
    path.write_bytes(content)
    records = ParquetPayloads([str(path)])
    assert bytes(records[19]) == values[19]
    with pytest.raises(CorruptFile, match="an intact row group") as caught:
        records[20]
    assert caught.value.where.path == str(path)
    assert bytes(ParquetPayloads([str(path)], verify=False)[31]) == values[31]


@pytest.mark.parametrize("options", [{"compression": "gzip"}, {"on_corrupt": "skip"}])
def test_options_of_other_formats(options):
    with pytest.raises(UnsupportedData, match="no compression of the whole Parquet file, and on_corrupt='raise'"):
        ParquetPayloads(["x.parquet"], **options)
    assert ParquetPayloads(["x.parquet"], compression="none").paths == ("x.parquet",)


def test_text_for_people(records):
    assert repr(records) == "ParquetPayloads('2 files')"
    assert repr(ParquetPayloads(["x.parquet"])) == "ParquetPayloads('x.parquet')"
