"""Row groups as blocks: small ones joined, large ones in parts, against rows as pyarrow gives them."""

import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import CorruptFile, SchemaMismatch
from headrace.formats.parquet import format as parquet
from headrace.formats.parquet import groups, pages
from headrace.formats.table import column_cache
from headrace.formats.table.arrow import from_arrow
from headrace.formats.table.values import BadValue
from headrace.io.engines import engines


def table_of(rows):
    rng = np.random.default_rng(rows)
    return pa.table(
        {
            "i": pa.array(range(rows), pa.int16()),
            "f": pa.array([None if k % 7 == 3 else k / 3 for k in range(rows)], pa.float32()),
            "yes": [k % 3 == 0 for k in range(rows)],
            "text": [f"{'é' * (k % 4)}{k}" for k in range(rows)],
            "few": pa.array([["a", "bb", ""][k % 3] for k in range(rows)]).dictionary_encode(),
            "raw": pa.array([rng.bytes(k % 5) for k in range(rows)], pa.large_binary()),
            "list": pa.array([list(range(k % 4)) for k in range(rows)], pa.list_(pa.int32())),
            "words": pa.array([[str(k)] * (k % 3) for k in range(rows)], pa.list_(pa.string())),
            "pair": pa.array([[k, -k] for k in range(rows)], pa.list_(pa.int64(), 2)),
            "when": pa.array([k * 86_400_000_000 for k in range(rows)], pa.timestamp("us")),
            "deep": [{"a": k, "b": str(k)} for k in range(rows)],
        }
    )


def rows_of(batch, count):
    """Rows as ``to_pylist`` gives them, structs opened."""

    def plain(value):
        value = value.to_list() if isinstance(value, (hr.Ragged, hr.Strings)) else value
        value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
        return None if isinstance(value, float) and value != value else value

    return [{name: plain(column[row]) for name, column in batch.items()} for row in range(count)]


def expected_rows(table):
    found = []
    for row in table.to_pylist():
        deep = row.pop("deep", None)
        found.append({**row, **({f"deep/{name}": value for name, value in deep.items()} if deep else {})})
    return [{**row, "f": None if row["f"] is None else float(np.float32(row["f"]))} for row in found]


@given(
    data=st.data(),
    rows=st.lists(st.integers(1, 60), min_size=1, max_size=3),
    group=st.integers(1, 60),
    part=st.sampled_from([1, 3, 8, 1 << 20]),
    joined=st.sampled_from([1, 10, 1 << 20]),
    limit=st.sampled_from([500, 1 << 30]),
    compression=st.sampled_from(["none", "snappy", "zstd"]),
    use_dictionary=st.booleans(),
)
def test_rows_are_those_of_pyarrow(
    tmp_path_factory, data, rows, group, part, joined, limit, compression, use_dictionary
):
    folder = tmp_path_factory.mktemp("blocks")
    tables = [table_of(count) for count in rows]
    for number, table in enumerate(tables):
        options = {"compression": compression, "use_dictionary": use_dictionary}
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group, **options)
    truth = [row for table in tables for row in expected_rows(table)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(groups, "MOST_ROWS", part)
        patch.setattr(groups, "JOINED_ROWS", joined)
        patch.setattr(groups, "DIVIDED_BYTES", 1)
        patch.setattr(groups, "usable_cores", lambda: 3)
        for name in ("MOST_KEPT_BYTES", "MOST_WHOLE_BYTES"):
            patch.setattr(column_cache, name, limit)
        source = hr.open(folder / "*.parquet")
        assert len(source) == len(truth)
        for _ in range(4):
            if data.draw(st.booleans()):
                start = data.draw(st.integers(0, len(truth) - 1))
                indices = list(range(start, data.draw(st.integers(start, len(truth)))))
            else:
                indices = data.draw(st.lists(st.integers(0, len(truth) - 1), max_size=20))
            assert rows_of(source.batch(indices), len(indices)) == [truth[index] for index in indices]
        name = data.draw(st.sampled_from(list(truth[0])))
        index = data.draw(st.integers(0, len(truth) - 1))
        assert rows_of(source.select(name).batch([index]), 1) == [{name: truth[index][name]}]
        file = next(number for number in range(len(rows)) if index < sum(rows[: number + 1]))
        where = source.where(index)
        assert (os.path.basename(where.path), where.record) == (f"{file}.parquet", index - sum(rows[:file]))


def counted(monkeypatch):
    """Calls of ``_read_block`` as (block, names)."""
    read, whole = [], parquet.ParquetTable._read_block

    def note(table, block, names):
        read.append((block, tuple(names)))
        return whole(table, block, names)

    monkeypatch.setattr(parquet.ParquetTable, "_read_block", note)
    return read


def test_small_row_groups_are_read_together(tmp_path, monkeypatch):
    pq.write_table(pa.table({"x": np.arange(1000)}), tmp_path / "x.parquet", row_group_size=1)
    read = counted(monkeypatch)
    source = hr.open(tmp_path / "x.parquet")
    assert [batch["x"][0] for batch in hr.Loader(source, 100, threads=0)] == list(range(0, 1000, 100))
    assert read == [(0, ("x",))]


@pytest.fixture
def large(tmp_path, monkeypatch):
    """One row group of 1,000 rows that is read in ten parts."""
    monkeypatch.setattr(groups, "MOST_ROWS", 100)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": np.arange(1000), "t": [str(k) for k in range(1000)]}), path, compression="none")
    return path


def test_a_large_row_group_is_read_in_parts_once(large, monkeypatch):
    """By pyarrow, with one reader for all columns; and natively, with one for each column."""
    opened, whole, native = [], parquet.ParquetTable._open, pages.FilePages.open
    monkeypatch.setattr(parquet.ParquetTable, "_open", lambda *given: (opened.append("all"), whole(*given))[1])
    monkeypatch.setattr(pages.FilePages, "open", lambda *a, **b: (opened.append("column"), native(*a, **b))[1])
    source = hr.open(large)
    source.schema
    del opened[:]
    found = [batch["x"].tolist() for batch in hr.Loader(source, 70, threads=0)]
    assert sum(found, []) == list(range(1000))
    readers = ["column"] * 2 if engines().parquet.is_own else ["all"]
    assert opened == readers
    backwards = source.batch(np.arange(999, -1, -1))
    assert backwards["t"].to_list() == [str(k) for k in range(999, -1, -1)]
    assert opened == readers  # what was decoded is kept


def test_going_back_in_a_large_row_group(large, monkeypatch):
    monkeypatch.setattr(column_cache, "MOST_KEPT_BYTES", 0)
    monkeypatch.setattr(column_cache, "LEAST_BYTES", 0)
    source = hr.open(large)
    for start in (950, 40, 500, 0, 999, 120):
        stop = min(start + 30, 1000)
        assert source.batch(np.arange(start, stop))["t"].to_list() == [str(k) for k in range(start, stop)]


def test_damage_in_a_large_row_group(large):
    whole = bytearray(large.read_bytes())
    at = whole.index(b"\x03\0\0\x00500") + 4 if b"\x03\0\0\x00500" in whole else len(whole) // 3
    for damaged in (at, len(whole) // 3):
        broken = whole.copy()
        broken[damaged : damaged + 3000] = b"\xff" * 3000
        large.write_bytes(broken)
        source = hr.open(large)
        for _ in range(2):
            with pytest.raises((CorruptFile, SchemaMismatch), match=r"x\.parquet"):
                source.batch(np.arange(1000))
        report = hr.verify(large)
        assert not report.ok
        assert len(report.faults) < 10


def test_a_footer_that_counts_other_rows(tmp_path):
    """The count of rows is bounded before anything is made of it."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": np.arange(1000)}), path)
    sound = path.read_bytes()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    for at in range(footer, len(sound) - 8):
        for value in (0xFF, 0x7F, 0):
            path.write_bytes(sound[:at] + bytes([value]) + sound[at + 1 :])
            try:
                source = hr.open(path, format="parquet")
                if len(source) == 1000:
                    source.batch(np.arange(1000))
                elif len(source):
                    source.batch([len(source) - 1])
            except (hr.DataError, IndexError):
                pass


def test_shuffled_beyond_what_is_kept(tmp_path, monkeypatch):
    """Rows then come from temporary files, and no block is decoded more than about twice."""
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(column_cache, "LEAST_BYTES", 1000)
    monkeypatch.setattr(column_cache, "MOST_KEPT_BYTES", 1000)
    monkeypatch.setattr(column_cache, "MOST_WHOLE_BYTES", 1000)
    monkeypatch.setattr(groups, "JOINED_ROWS", 0)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": np.arange(2000), "t": [f"row {k}" for k in range(2000)]}), path, row_group_size=50)
    read = counted(monkeypatch)
    batches = list(hr.Loader(hr.open(path), 16, shuffle=True, threads=2))
    assert sorted(np.concatenate([batch["x"] for batch in batches]).tolist()) == list(range(2000))
    for batch in batches:
        assert batch["t"].to_list() == [f"row {k}" for k in batch["x"]]
    assert len(read) <= 3 * 40
    assert not [name for _, _, names in os.walk(tmp_path / "cache") for name in names]


def test_without_room_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", "10")
    monkeypatch.setattr(column_cache, "LEAST_BYTES", 1000)
    monkeypatch.setattr(column_cache, "MOST_KEPT_BYTES", 1000)
    monkeypatch.setattr(column_cache, "MOST_WHOLE_BYTES", 1000)
    monkeypatch.setattr(groups, "JOINED_ROWS", 0)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": np.arange(500)}), path, row_group_size=50)
    monkeypatch.setattr(parquet, "PIECE_BYTES", 100)
    source = hr.open(path)
    order = np.random.default_rng(0).permutation(500)
    assert source.batch(order)["x"].tolist() == order.tolist()
    assert source.node.records._scatter.refused == {"x"}


def test_only_the_selected_columns_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(column_cache, "FEW_PIECES", 1)
    path = tmp_path / "x.parquet"
    pq.write_table(table_of(60), path, row_group_size=20)
    read = counted(monkeypatch)
    source = hr.open(path).select("i", "text")
    source.batch([50, 3])
    source.batch(np.arange(60))
    assert {name for _, names in read for name in names} == {"i", "text"}


def test_pickled_in_the_middle(large):
    source = hr.open(large)
    source.batch(np.arange(150))
    again = pickle.loads(pickle.dumps(source))
    assert again.batch(np.arange(140, 260))["x"].tolist() == list(range(140, 260))


def test_text_that_is_no_text(tmp_path):
    path = tmp_path / "x.parquet"
    raw = pa.array([b"fine", b"\xff\xfe", b"ok"] * 10, pa.binary())
    pq.write_table(pa.table({"t": pa.Array.from_buffers(pa.string(), 30, raw.buffers())}), path)
    with pytest.raises(SchemaMismatch, match="UTF-8") as raised:
        hr.open(path).batch([0, 1])
    assert (raised.value.where.path, raised.value.where.record, raised.value.where.feature) == (str(path), 1, "t")
    assert hr.open(path).batch([0, 2])["t"].tolist() == ["fine", "ok"]


def test_readers_are_used_again(tmp_path, monkeypatch):
    """Opening one takes a while where there are many columns."""
    monkeypatch.setattr(groups, "JOINED_ROWS", 0)
    pq.write_table(table_of(60).select(["i"]), tmp_path / "x.parquet", row_group_size=5)
    opened, whole = [], parquet.ParquetTable._open
    monkeypatch.setattr(parquet.ParquetTable, "_open", lambda *given: (opened.append(given[1:]), whole(*given))[1])
    source = hr.open(tmp_path / "x.parquet")
    for _ in range(2):
        assert source.batch(np.arange(60))["i"].tolist() == list(range(60))
    assert len(opened) == 1


def test_few_readers_stay_open(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "MOST_READERS", 8)
    for number in range(20):
        pq.write_table(pa.table({"x": [number]}), tmp_path / f"{number:02}.parquet")
    source = hr.open(tmp_path / "*.parquet")
    assert source.batch(np.arange(20))["x"].tolist() == list(range(20))
    assert len(source.node.records._readers) == 8


def test_shards_of_other_types_are_refused(tmp_path):
    """Also where only Arrow's own note of its types differs."""
    for number, kind in enumerate((pa.int64(), pa.int64(), pa.duration("s"))):
        pq.write_table(pa.table({"t": pa.array([1], kind), "x": [number]}), tmp_path / f"{number}.parquet")
    assert hr.open([tmp_path / "0.parquet", tmp_path / "1.parquet"]).batch([1, 0])["x"].tolist() == [1, 0]
    with pytest.raises(SchemaMismatch, match=r"duration\[s\].*2\.parquet"):
        hr.open(tmp_path / "*.parquet")


def plan_one_by_one(sizes, part, decoded_at_once):
    """Each row group after another, as (first group, groups, rows skipped, rows), and the first row by counting."""
    found, grows, size, numbers = [], False, 0, 0
    for number, (rows, encoded, decoded) in enumerate(sizes):
        most = min(part * rows // max(encoded, 1), decoded_at_once * rows // max(decoded, 1), groups.MOST_ROWS)
        most = max(most, rows // groups.MOST_BLOCKS, 1)
        last = found[-1] if found else None
        is_small = size + encoded <= part and numbers + decoded <= decoded_at_once
        if grows and is_small and last[3] + rows <= groups.JOINED_ROWS:
            found[-1] = (last[0], last[1] + 1, 0, last[3] + rows)
            size, numbers = size + encoded, numbers + decoded
        elif 2 * rows > 3 * most:
            found += [(number, 1, at, min(most, rows - at)) for at in range(0, rows, most)]
            grows = False
        else:
            found.append((number, 1, 0, rows))
            grows, size, numbers = True, encoded, decoded
    firsts = np.cumsum([0, *(rows for *_, rows in found)]).tolist()
    return [groups.RowBlock(7, group, count, first, skipped, rows)
            for (group, count, skipped, rows), first in zip(found, firsts[:-1], strict=True)]  # fmt: skip


BYTES = st.sampled_from([0, 1, 50, 900, 5000])


@given(st.lists(st.builds(groups.GroupSize, st.integers(0, 40), BYTES, BYTES), max_size=30))
def test_blocks_cover_each_row_once(sizes):
    with pytest.MonkeyPatch.context() as patch:
        limits = {"JOINED_ROWS": 60, "PART_BYTES": 1500, "COLUMN_BYTES": 700, "MOST_ROWS": 25, "MOST_BLOCKS": 16}
        limits["DECODED_BYTES"] = 1200
        limits |= {"MOST_PART_BYTES": 2000, "LEAST_COLUMN_BYTES": 100, "WIDE_PART_BYTES": 3000}
        for name, value in limits.items():
            patch.setattr(groups, name, value)
        wide = ((20, 2000, 4000), (25, 2500, 5000), (900, 3000, 6000))
        for columns, part, decoded in ((1, 1500, 1200), (2, 1500, 1200), (3, 2000, 1200), *wide):
            assert groups.plan_blocks(7, iter(sizes), columns) == plan_one_by_one(sizes, part, decoded)


@given(
    data=st.data(),
    kind=st.sampled_from([pa.list_, pa.large_list, lambda inner: pa.list_(inner, 2)]),
    inner=st.sampled_from([pa.int16(), pa.string(), pa.list_(pa.float32())]),
    offset=st.integers(0, 3),
    with_nulls=st.booleans(),
)
def test_lists_are_those_of_pyarrow(data, kind, inner, offset, with_nulls):
    value = {pa.int16(): st.integers(-9, 9), pa.string(): st.text(max_size=3)}.get(
        inner, st.lists(st.sampled_from([0.5, 2.0]), max_size=3)
    )
    fixed = pa.types.is_fixed_size_list(kind(inner))
    rows = st.lists(value, min_size=2 * fixed, max_size=2 if fixed else 4)
    rows = data.draw(st.lists(st.none() | rows if with_nulls and not fixed else rows, max_size=12))
    array = pa.array(rows, kind(inner)).slice(offset)
    shape = ((2 if fixed else None), *((None,) if pa.types.is_list(inner) else ()))
    feature = hr.Feature({pa.int16(): "int16", pa.string(): "str"}.get(inner, "float32"), shape)
    found = from_arrow(array, feature)
    assert len(found) == len(array)
    assert (found.to_list() if hasattr(found, "to_list") else found.tolist()) == [
        row or [] for row in array.to_pylist()
    ]


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=8), st.integers(0, 2))
def test_a_list_of_another_length_is_named(rows, offset):
    array = pa.array([[0], *rows], pa.list_(pa.int32())).slice(offset)
    wrong = next((at for at, row in enumerate(array.to_pylist()) if len(row) != 2), None)
    if wrong is None:
        assert from_arrow(array, hr.Feature("int32", (2,))).tolist() == array.to_pylist()
    else:
        with pytest.raises(BadValue) as caught:
            from_arrow(array, hr.Feature("int32", (2,)))
        assert (caught.value.row, caught.value.found) == (wrong, str(len(array[wrong])))


def test_a_bad_value_in_a_list_is_named():
    rows = [[[1], [2, 3]], [], [[4, None]], [[5]]]
    with pytest.raises(BadValue) as caught:
        from_arrow(pa.array(rows, pa.list_(pa.list_(pa.int32()))), hr.Feature("int32", (None, None)))
    assert caught.value.row == 2


def test_few_values_are_read_to_look_for_images(tmp_path, monkeypatch):
    pq.write_table(pa.table({"raw": [b"%d" % k for k in range(5000)]}), tmp_path / "x.parquet")
    asked, whole = [], parquet.ParquetTable.blocks
    monkeypatch.setattr(parquet.ParquetTable, "blocks", lambda *given: (asked.append(given[1:]), whole(*given))[1])
    hr.open(tmp_path / "x.parquet")
    assert asked == [(("raw",), 16)]
