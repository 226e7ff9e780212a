"""Joined files hold the rows of their parts, for pyarrow and for us."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sweeps import some_of

import headrace as hr
from headrace.errors import CorruptFile
from headrace.formats.parquet.write import pieces_of_groups

OFFSETS = ("data_page_offset", "dictionary_page_offset", "file_offset")


def table_of(rows, start):
    numbers = np.arange(start, start + rows)
    return pa.table(
        {
            "number": numbers,
            "text": pa.array([f"text {number % 7}" for number in numbers], pa.string()),
            "list": pa.array([list(range(number % 4)) for number in numbers], pa.list_(pa.int64())),
            "missing": pa.array([None if number % 3 else number / 2 for number in numbers], pa.float64()),
        }
    )


def joined_of(tmp_path, parts):
    path = tmp_path / "joined.parquet"
    path.write_bytes(b"".join(piece.content() for piece in pieces_of_groups([str(part) for part in parts])))
    return path


@given(
    parts=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=6),
    options=st.fixed_dictionaries(
        {
            "compression": st.sampled_from(["none", "zstd", "snappy"]),
            "use_dictionary": st.booleans(),
            "write_page_index": st.booleans(),
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
        }
    ),
)
def test_rows_are_those_of_the_parts(tmp_path_factory, parts, options):
    folder = tmp_path_factory.mktemp("parts")
    tables, paths, start = [], [], 0
    for rows, group in parts:
        tables.append(table_of(rows, start))
        paths.append(folder / f"{len(paths)}.parquet")
        pq.write_table(tables[-1], paths[-1], row_group_size=group, write_page_checksum=True, **options)
        start += rows
    joined, expected = joined_of(folder, paths), pa.concat_tables(tables)
    found = pq.read_table(joined, page_checksum_verification=True)
    assert found.to_pylist() == expected.to_pylist()
    metadata = [pq.read_metadata(path) for path in paths]
    groups = [each.row_group(k).num_rows for each in metadata for k in range(each.num_row_groups)]
    whole = pq.read_metadata(joined)
    assert [whole.row_group(k).num_rows for k in range(whole.num_row_groups)] == groups
    assert (whole.num_rows, whole.schema, whole.metadata) == (start, metadata[0].schema, metadata[0].metadata)
    if start:
        source = hr.open(joined).select("number", "text", "list")
        assert source.batch(range(start))["number"].tolist() == list(range(start))
        last = source[start - 1]
        assert (last["text"], last["list"].tolist()) == (f"text {(start - 1) % 7}", list(range((start - 1) % 4)))


def test_one_part_stays_as_it_is(tmp_path):
    pq.write_table(table_of(50, 0), tmp_path / "x.parquet", row_group_size=7, write_page_index=True)
    assert joined_of(tmp_path, [tmp_path / "x.parquet"]).read_bytes() == (tmp_path / "x.parquet").read_bytes()


def test_every_offset_is_that_of_the_page(tmp_path):
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for at, path in enumerate(paths):
        pq.write_table(table_of(30, 30 * at), path, row_group_size=10)
    joined = joined_of(tmp_path, paths)
    first, second, whole = map(pq.read_metadata, (*paths, joined))
    moved = paths[0].stat().st_size - first.serialized_size - 8 - 4
    for group in range(3):
        for column in range(second.num_columns):
            was, now = second.row_group(group).column(column), whole.row_group(3 + group).column(column)
            for name in OFFSETS:
                at = getattr(was, name)
                assert getattr(now, name) == (at + moved if at else at), name
    bytes_of, content = joined.read_bytes(), paths[1].read_bytes()
    page = second.row_group(1).column(0).data_page_offset
    assert bytes_of[page + moved : page + moved + 20] == content[page : page + 20]


def test_parts_of_other_schemas_and_damaged_ones_are_refused(tmp_path):
    paths = [tmp_path / name for name in ("a.parquet", "b.parquet")]
    pq.write_table(pa.table({"x": [1, 2]}), paths[0])
    pq.write_table(pa.table({"x": [1.5]}), paths[1])
    with pytest.raises(CorruptFile, match="same schema") as error:
        pieces_of_groups([str(path) for path in paths])
    assert error.value.where.path == str(paths[1])
    whole = paths[0].read_bytes()
    for size in some_of(range(len(whole))):
        paths[1].write_bytes(whole[:size])
        with pytest.raises(CorruptFile) as error:
            pieces_of_groups([str(path) for path in paths])
        assert error.value.where.path == str(paths[1])
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in some_of(range(footer, len(whole))):
        paths[1].write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        try:
            pieces = pieces_of_groups([str(path) for path in paths])
        except CorruptFile as error:
            assert error.where.path == str(paths[1])
        else:
            assert sum(piece.size for piece in pieces) < 3 * len(whole)


def test_a_part_that_is_gone_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        pieces_of_groups([str(tmp_path / "gone.parquet")])
