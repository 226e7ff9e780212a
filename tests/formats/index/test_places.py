"""About how many bytes records and rows take, beside the files that they are in."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.formats.index.places import BlockPlaces
from headrace.formats.parquet import groups

SMALL, LARGE = 400, 40
TEXT = hr.Schema({"x": hr.Feature("str")})


def rows(small=SMALL, large=LARGE):
    """Text that cannot be compressed well: short, then long."""
    letters = np.random.default_rng(0).integers(97, 123, 5_000 * large, np.uint8).tobytes().decode()
    return ["ab"] * small + [letters[5_000 * at : 5_000 * at + 5_000] for at in range(large)]


def write(path, values, **options):
    schema = None if path.suffix == ".csv" else TEXT
    with hr.Writer(path, schema=schema, **options) as writer:
        for value in values:
            writer.write({"x": value})
    return path.stat().st_size


@pytest.mark.parametrize(
    ("name", "options", "exact"),
    [
        ("a.tfrecord", {}, True),
        ("a.recordio", {}, True),
        ("a.jsonl", {}, True),
        ("a.csv", {}, True),
        ("a.tar", {}, False),
        ("a.array_record", {}, False),
        ("a.avro", {}, False),
        ("a.parquet", {}, False),
        ("a.tfrecord.gz", {}, False),
        ("a.jsonl.gz", {}, False),
    ],
)
@pytest.mark.parametrize("files", [1, 3])
def test_sizes_follow_the_files(tmp_path, name, options, exact, files):
    """Each file has short rows, then long ones. Formats with blocks of several rows know the sizes of blocks only."""
    folder = tmp_path / "set"
    folder.mkdir()
    total = sum(write(folder / f"{at}{name}", rows(), **options) for at in range(files))
    source = hr.open(sorted(folder.iterdir()))
    n = SMALL + LARGE
    assert len(source) == files * n
    for each in (source, pickle.loads(pickle.dumps(source))):
        whole = each.stored_bytes(0, len(each))
        assert each.records.stored_bytes(0, len(each)) == each.records.stored_bytes(0, 10 * len(each)) == whole
        if exact:
            assert total - 100 * files <= whole <= total
            cuts = [0, 1, 2, SMALL, SMALL + 1, n, n + 5, files * n]
            parts = [each.stored_bytes(a, b) for a, b in zip(cuts, cuts[1:], strict=False) if a <= b]
            assert files == 1 or abs(sum(parts) - whole) <= len(parts)
        for at in range(files):
            small = each.stored_bytes(at * n, at * n + SMALL // 2)
            large = each.stored_bytes(at * n + SMALL + 1, at * n + n - 1)
            if name not in ("a.avro", "a.parquet", "a.array_record"):
                assert large > 5 * small > 0
            assert large >= small * LARGE / SMALL
        assert each.stored_bytes(5, 5) == each.stored_bytes(9, 3) == each.stored_bytes(len(each), len(each) + 3) == 0
        assert each.stored_bytes(0, len(each) + 10) == whole


def test_row_groups(tmp_path, monkeypatch):
    """Small ones are read together, unless they are too large for that."""
    monkeypatch.setattr(groups, "JOINED_ROWS", 0)
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": rows()}), tmp_path / "a.parquet", row_group_size=20)
    source = hr.open(tmp_path / "a.parquet")
    group = [source.stored_bytes(at, at + 20) for at in range(0, SMALL + LARGE, 20)]
    assert sum(group) == pytest.approx(source.stored_bytes(0, len(source)), abs=len(group))
    assert group[-1] > 90_000


def test_lines_that_are_skipped(tmp_path):
    lines = [b'{"x": "ab"}'] * 10 + [b"{damaged"] * 10 + [b'{"x": "cd"}'] * 10
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    source = hr.open(tmp_path / "a.jsonl", on_corrupt="skip")
    assert len(source) == 20
    assert source.stored_bytes(0, 10) == source.stored_bytes(10, 20) == 120
    assert source.stored_bytes(0, 20) == 240 + 90


def test_a_store_of_columns(tmp_path):
    texts = rows(100, 10)
    source = hr.ColumnSource({"x": np.array(texts, object), "y": np.zeros((110, 3), np.float32)}).cache(
        tmp_path, key="1"
    )
    assert source.stored_bytes(0, 100) == 100 * (2 + 12)
    assert source.stored_bytes(100, 110) == source.stored_bytes(100, 500) == 10 * (5_000 + 12)
    ragged = hr.ColumnSource({"r": hr.Ragged.from_list([[1] * at for at in range(20)], "int32")}).cache(
        tmp_path, key="2"
    )
    assert [ragged.stored_bytes(at, at + 1) for at in range(20)] == [4 * at for at in range(20)]
    sparse = pytest.importorskip("scipy.sparse").csr_array(np.tri(5, 40, dtype=np.float32))
    stored = hr.ColumnSource({"s": sparse}).cache(tmp_path, key="3")
    assert [stored.stored_bytes(at, at + 1) for at in range(5)] == [(4 + 8) * (at + 1) for at in range(5)]


@pytest.mark.parametrize("marks", [[0, 99, 3], [5, 2, 1], [-4, 1, 2], [0, -1, 3], [0, 2**62, 3]])
def test_a_damaged_store_of_columns_is_an_error(tmp_path, marks):
    hr.ColumnSource({"x": np.array(["a", "bc"], object)}).cache(tmp_path, key="1")
    (ends,) = tmp_path.rglob("*.ends")
    ends.write_bytes(np.array(marks, "<i8").tobytes())
    source = hr.ColumnSource({"x": np.array(["a", "bc"], object)}).cache(tmp_path, key="1")
    with pytest.raises(hr.CorruptFile, match="values that were stored"):
        source.batch([0, 1])
    with pytest.raises(hr.CorruptFile, match="values that were stored"):
        source.stored_bytes(0, 1)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 500)), min_size=1, max_size=12), st.data())
def test_blocks_count_in_proportion(blocks, data):
    counts, sizes = (np.array(part, np.int64) for part in zip(*blocks, strict=True))
    sizes[counts == 0] = 0
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    places = BlockPlaces(firsts, sizes)
    each = np.repeat(sizes / np.maximum(counts, 1), counts)
    first = data.draw(st.integers(0, len(each)))
    stop = data.draw(st.integers(first, len(each)))
    assert places.between(first, stop) == pytest.approx(each[first:stop].sum(), abs=1)
    assert places.between(0, len(each) + 7) == pytest.approx(sizes.sum(), abs=1)
