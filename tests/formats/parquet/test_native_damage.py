"""Damaged Parquet files: the same values or the same error, with native code and without it."""

import io
import random
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.parquet.native_columns import compare, counted, outcome, portions, table_of
from tests.sweeps import TAKES_ALL, some_of

import headrace as hr
from headrace.formats.parquet import groups

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("f", pa.float32()),
        pa.field("b", pa.bool_()),
        pa.field("t", pa.string()),
        pa.field("l", pa.list_(pa.field("item", pa.int16(), nullable=False))),
        pa.field("s", pa.list_(pa.string())),
        pa.field("p", pa.list_(pa.int8(), 2)),
        pa.field("w", pa.timestamp("us")),
        pa.field("d", pa.date32()),
        pa.field("a", pa.list_(pa.float64())),
        pa.field("z", pa.struct({"e": pa.list_(pa.int32())})),
    ]
)
SHARES = {"f": (0.3,), "d": (0.3,), "a": (0.2,), "z": (0.2, 0.2, 0)}
NULLS = [SHARES.get(field.name, (0,)) for field in SCHEMA]
FORMS = {
    "plain_v1": {"compression": "none", "data_page_version": "1.0", "use_dictionary": False},
    "coded_v1": {"compression": "snappy", "data_page_version": "1.0", "use_dictionary": True},
    "plain_v2": {"compression": "zstd", "data_page_version": "2.0", "use_dictionary": False},
    "coded_v2": {"compression": "none", "data_page_version": "2.0", "use_dictionary": True},
    "plain_gzip": {"compression": "gzip", "data_page_version": "1.0", "use_dictionary": False},
    "differences": {
        "compression": "none",
        "use_dictionary": False,
        "column_encoding": {
            **dict.fromkeys(("n", "l.list.element", "p.list.element", "w", "d"), "DELTA_BINARY_PACKED"),
            "f": "BYTE_STREAM_SPLIT",
            "a.list.element": "BYTE_STREAM_SPLIT",
            "t": "DELTA_BYTE_ARRAY",
            "s.list.element": "DELTA_LENGTH_BYTE_ARRAY",
        },
    },
    "with_checksums": {"compression": "snappy", "data_page_version": "2.0", "write_page_checksum": True},
}
FLIPS = (0x01, 0x02, 0x80, 0x10, 0xFF, 0x04, 0x40, 0x08, 0x20)
ROWS = 10


@pytest.fixture(autouse=True)
def native(own_engines):
    """Native code comes first, whatever ``HEADRACE_ENGINES`` says."""


def file_of(form):
    table, target = table_of(SCHEMA, ROWS, NULLS, random.Random(3)), io.BytesIO()
    how = {"row_group_size": 6, "data_page_size": 40, "write_batch_size": 3, "store_schema": False} | FORMS[form]
    pq.write_table(table, target, **how)
    return target.getvalue()


def footer_of(content):
    return len(content) - 8 - struct.unpack("<I", content[-8:-4])[0]


def damaged(content, begin, end, step):
    """Files with one changed byte each, and which."""
    for at in some_of(range(begin, end, step)):
        flip = FLIPS[at // step % len(FLIPS)]
        yield (at, flip), content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :]


def columns_alone(path):
    """Each column as a whole, which another one does not hide."""
    names = list(hr.open(path).schema)
    return [outcome(lambda name=name: hr.open(path).select(name).batch(range(ROWS))) for name in names]


def together(path):
    return portions(path, 100)


def unchecked(path):
    return portions(path, 100, verify=False)


def in_parts(path):
    return portions(path, 2)


def verified(path):
    return [(type(fault).__name__, str(fault)) for fault in hr.verify(path).faults]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("read", "step"), [(together, 13), (unchecked, 47), (in_parts, 47), (verified, 31)])
def test_changed_pages(tmp_path, monkeypatch, read, step, form):
    if read is in_parts:
        monkeypatch.setattr(groups, "MOST_ROWS", 2)
    path, content = tmp_path / "x.parquet", file_of(form)
    faults = 0
    with counted() as native:
        for change, file in damaged(content, 4, footer_of(content), step):
            path.write_bytes(file)
            faults += "Corrupt" in repr(compare(lambda: read(path), change))
    assert faults > (5 if TAKES_ALL else 0)
    with_dictionary = FORMS[form].get("use_dictionary", True)  # pyarrow writes some empty pages then
    assert set(native) >= {*SCHEMA.names, "z/e"} - {"z"} - ({"s", "a", "z/e"} if with_dictionary else set())


@pytest.mark.parametrize("form", FORMS)
def test_changed_footers(tmp_path, form):
    """Where a footer says something else of a column, and pyarrow does not notice, both must be as wrong."""
    path, content = tmp_path / "x.parquet", file_of(form)
    with counted() as native:
        for change, file in damaged(content, footer_of(content), len(content) - 4, 13):
            path.write_bytes(file)
            compare(lambda: portions_if_few(path), change)
    assert sum(native.values()) > 50


def portions_if_few(path):
    rows = outcome(lambda: len(hr.open(path)))
    return portions(path, 100) if isinstance(rows, int) and rows < 1000 else rows


@given(
    form=st.sampled_from(sorted(FORMS)),
    changes=st.lists(st.tuples(st.integers(0, 1 << 12), st.integers(1, 255)), min_size=1, max_size=3),
)
def test_any_changes(tmp_path_factory, form, changes):
    path, content = tmp_path_factory.mktemp("any") / "x.parquet", bytearray(file_of(form))
    pages = footer_of(content) - 4
    for at, flip in changes:
        content[4 + at % pages] ^= flip
    path.write_bytes(content)
    compare(lambda: columns_alone(path))


def test_truncated_files(tmp_path):
    path, content = tmp_path / "x.parquet", file_of("plain_v1")
    for size in some_of(range(0, len(content), 41)):
        path.write_bytes(content[:size])
        compare(lambda: portions(path, 100), size)
    # Bytes lost in the middle: the footer is intact.
    for at in some_of(range(4, footer_of(content), 41)):
        path.write_bytes(content[:at] + content[at + 1 :])
        compare(lambda: columns_alone(path), at)


def test_footers_of_another_file(tmp_path):
    path, files = tmp_path / "x.parquet", [file_of(form) for form in FORMS]
    for pages in files:
        for footer in files:
            path.write_bytes(pages[: footer_of(pages)] + footer[footer_of(footer) :])
            compare(lambda: columns_alone(path))


def test_errors_of_several_columns(tmp_path):
    """The one that comes first if pyarrow reads all: not that of a column that native code gave up."""
    table = pa.table({"c": pa.array([None, 1], pa.int64()), "a": [[], [1.5]], "b": pa.array([1, None], pa.int16())})
    pq.write_table(table, tmp_path / "x.parquet")
    other = hr.Schema({"c": hr.Feature("int64", default=0), "a": hr.Feature("bool", (None,)), "b": hr.Feature("int16")})
    for names in (["c", "a", "b"], ["b", "a", "c"], ["c", "b", "a"]):
        schema = hr.Schema({name: other[name] for name in names})
        (_, found) = compare(lambda schema=schema: portions(tmp_path / "x.parquet", 2, schema=schema))
        assert f"feature {'ba'[names.index('a') < names.index('b')]!r}" in found[1]


def test_faults_of_rows_on_the_way(tmp_path, monkeypatch):
    """Parts of a large row group are decoded in order, but a null matters only to those who ask for its rows."""
    monkeypatch.setattr(groups, "MOST_ROWS", 2)
    pq.write_table(pa.table({"i": pa.array([0, 1, None, 3, 4, 5, None], pa.int8())}), tmp_path / "x.parquet")

    def read():
        source = hr.open(tmp_path / "x.parquet")
        return [outcome(lambda at=at: source.batch([at])) for at in (4, 6, 5, 2, 1)]

    found = compare(read)
    assert [len(each) for each in found] == [1, 2, 1, 2, 1]
    assert "record 6" in found[1][1]
    assert "record 2" in found[3][1]


def test_empty_pages(tmp_path):
    """pyarrow ends a column at a page without values, although it writes some itself."""
    table = pa.table({"l": pa.array([[1] * 7], pa.list_(pa.int64()))})
    pq.write_table(table, tmp_path / "x.parquet", data_page_size=1, write_batch_size=1)
    found = compare(lambda: portions(tmp_path / "x.parquet", 2))
    assert found[1][0] == "CorruptFile"
