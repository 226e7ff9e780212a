"""Long texts of which many recur: each is held once, however many rows have it. And numbers that are stored in far less than they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.formats.parquet import groups
from headrace.formats.table.column_cache import RecurringTexts
from headrace.io.engines import engines

TEXTS = ["é" * 1500, "", "b" * 900, "c" * 5000]
ROWS = 6000


def written(path, values, **options):
    table = pa.table({"text": pa.array(values), "row": np.arange(len(values))})
    pq.write_table(table, path, dictionary_pagesize_limit=64 << 10, **options)
    return hr.open(path)


def choose(seed=0):
    return [TEXTS[code] for code in np.random.default_rng(seed).integers(0, len(TEXTS), ROWS)]


def kept(source):
    return [column for (_, name), (column, _) in source.node.records._kept._columns.items() if name == "text"]


@pytest.mark.parametrize(
    "options", [{}, {"data_page_version": "2.0"}, {"row_group_size": 4000}, {"compression": "none"}]
)
def test_rows_in_order(tmp_path, options):
    values = choose()
    source = written(tmp_path / "x.parquet", values, **options)
    found = [text for batch in hr.Loader(source, 700) for text in batch["text"]]
    assert found == values
    if engines().parquet.is_own:
        held = kept(source)
        assert {type(column) for column in held} == {RecurringTexts}
        assert sum(column.nbytes for column in held) < 100_000  # of 11 MB


@pytest.mark.parametrize("row_group_size", [ROWS, 2500, 100])
def test_rows_from_all_over(tmp_path, row_group_size):
    """Row groups of 100 rows are too small to be worth it, each by itself; several are read at once."""
    values = choose(1)
    source = written(tmp_path / "x.parquet", values, row_group_size=row_group_size)
    for batch in hr.Loader(source, 256, shuffle=True, seed=3):
        assert list(batch["text"]) == [values[row] for row in batch["row"]]
    assert source[17]["text"] == values[17]


def test_a_dictionary_that_was_given_up(tmp_path):
    """Writers do so when it gets too large: the rest of the row group holds its texts itself."""
    rng = np.random.default_rng(2)
    others = ["".join(map(chr, rng.integers(97, 123, 3000))) for _ in range(200)]
    values = [*choose(), *others, *choose(3)]
    source = written(tmp_path / "x.parquet", values)
    for options in ({}, {"shuffle": True, "seed": 1}):
        for batch in hr.Loader(source, 512, **options):
            assert list(batch["text"]) == [values[row] for row in batch["row"]]


def test_nulls(tmp_path):
    values = [None if row % 7 == 3 else text for row, text in enumerate(choose(4))]
    written(tmp_path / "x.parquet", values)
    schema = {"text": hr.Feature("str", default="nothing"), "row": hr.Feature("int64")}
    source = hr.open(tmp_path / "x.parquet", schema=schema)
    for batch in hr.Loader(source, 512):
        assert list(batch["text"]) == ["nothing" if values[row] is None else values[row] for row in batch["row"]]


@pytest.mark.parametrize("shuffle", [False, True])
def test_bytes_and_lists(tmp_path, shuffle):
    values = choose(5)
    columns = {
        "bytes": pa.array([text.encode() for text in values]),
        "lists": pa.array([values[row : row + row % 3] for row in range(ROWS)]),
        "pairs": pa.array([[values[row], values[-row]] for row in range(ROWS)], pa.list_(pa.string(), 2)),
        "row": np.arange(ROWS),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=3500)
    source = hr.open(tmp_path / "x.parquet")
    for batch in hr.Loader(source, 600, shuffle=shuffle, seed=2):
        rows = batch["row"].tolist()
        assert list(batch["bytes"]) == [values[row].encode() for row in rows]
        assert [list(texts) for texts in batch["lists"]] == [values[row : row + row % 3] for row in rows]
        assert batch["pairs"].tolist() == [[values[row], values[-row]] for row in rows]
    if engines().parquet.is_own and not shuffle:
        held = source.node.records._kept._columns
        assert {name for (_, name), (column, _) in held.items() if type(column) is RecurringTexts} == {
            "bytes",
            "lists",
            "pairs",
        }


def test_messages_of_chats(tmp_path):
    """Lists of structs, of which one field is a long prompt that recurs."""
    prompts = choose(6)
    chats = [
        [{"role": "system", "content": prompts[row]}, {"role": "user", "content": str(row)}] for row in range(ROWS)
    ]
    pq.write_table(pa.table({"messages": chats}), tmp_path / "x.parquet")
    at = 0
    for batch in hr.Loader(hr.open(tmp_path / "x.parquet"), 512):
        for content in batch["messages/content"]:
            assert list(content) == [prompts[at], str(at)]
            at += 1
    assert at == ROWS


def test_damaged_text(tmp_path):
    """It is looked at once, and pyarrow says what is wrong with it."""
    array = pa.array([b"\xff" * 2000, b"good"] * 4000)
    array = pa.Array.from_buffers(pa.string(), len(array), array.buffers())
    pq.write_table(pa.table({"text": array}), tmp_path / "x.parquet")
    with pytest.raises(hr.DataError, match=r"text"):
        hr.open(tmp_path / "x.parquet").batch(np.arange(100))


def test_numbers_that_are_stored_in_little(tmp_path):
    """A block has at most 64 MiB of them, which columns of zeros would exceed by far."""
    rows, columns, length = 250_000, 40, 30
    zeros = pa.array(np.zeros(rows))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * length, "f4")), length)
    pq.write_table(pa.table({"v": lists} | {f"c{at}": zeros for at in range(columns)}), tmp_path / "x.parquet")
    source = hr.open(tmp_path / "x.parquet")
    blocks = source.node.records._blocks
    row_bytes = 8 * columns + 4 * length
    assert len(blocks) > 1
    assert max(block.rows for block in blocks) * row_bytes <= groups.DECODED_BYTES
    assert source.batch(np.arange(0, rows, 1000))["v"].shape == (250, length)
