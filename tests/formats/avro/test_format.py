"""Avro files of other writers, and damage."""

import datetime as dt
import decimal
import json
import uuid

import fastavro
import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptFile, SchemaMismatch, UnsupportedData
from headrace.formats.avro import format as avro


@pytest.fixture
def put(tmp_path):
    def write(fields, rows, **options):
        path = tmp_path / "x.avro"
        schema = {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
        with path.open("wb") as file:
            fastavro.writer(file, schema, rows, **options)
        return path

    return write


def logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def test_types_of_other_writers(put):
    utc = dt.UTC
    fields = {
        "n": ["null", "int"],
        "kind": {"type": "enum", "name": "k", "symbols": ["cat", "dog"]},
        "raw": {"type": "fixed", "name": "f", "size": 2},
        "when": logical("long", "timestamp-millis"),
        "day": logical("int", "date"),
        "clock": logical("long", "time-micros"),
        "price": logical("bytes", "decimal", precision=8, scale=2),
        "who": logical("string", "uuid"),
        "deep": {"type": "record", "name": "d", "fields": [{"name": "v", "type": {"type": "array", "items": "float"}}]},
    }
    row = {
        "n": 3,
        "kind": "dog",
        "raw": b"ab",
        "when": dt.datetime(2020, 1, 1, 12, tzinfo=utc),
        "day": dt.date(2020, 2, 29),
        "clock": dt.time(1, 2, 3, 4),
        "price": decimal.Decimal("-1.25"),
        "who": uuid.UUID(int=5),
        "deep": {"v": [1.5, 2.5]},
    }
    source = hr.open(put(fields, [row, {**row, "deep": {"v": []}}]))
    assert {name: (f.dtype, f.shape) for name, f in source.schema.items()} == {
        "n": ("int32", ()),
        "kind": ("str", ()),
        "raw": ("bytes", ()),
        "when": ("M8[ms]", ()),
        "day": ("M8[D]", ()),
        "clock": ("m8[us]", ()),
        "price": ("float64", ()),
        "who": ("str", ()),
        "deep/v": ("float32", (None,)),
    }
    batch = source.batch([1, 0])
    assert batch["when"][0] == np.datetime64("2020-01-01T12:00")
    assert batch["day"][0] == np.datetime64("2020-02-29")
    assert batch["clock"][0] == np.timedelta64(3723000004, "us")
    assert batch["price"][0] == -1.25
    assert batch["who"][0] == str(uuid.UUID(int=5))
    assert batch["deep/v"].to_list() == [[], [1.5, 2.5]]


def test_missing_values(put):
    path = put({"n": ["null", "long"], "f": ["float", "null"]}, [{"n": None, "f": None}, {"n": 2, "f": 1.5}])
    assert np.isnan(hr.open(path).select("f").batch([0])["f"][0])
    with pytest.raises(SchemaMismatch, match="a default") as raised:
        hr.open(path)[0]
    assert (raised.value.where.record, raised.value.where.feature) == (0, "n")
    assert hr.open(path, schema={"n": hr.Feature("uint8", default=9)}).batch([0, 1])["n"].tolist() == [9, 2]


@pytest.mark.parametrize(
    ("kind", "dtype", "values", "default", "expected"),
    [
        ("string", "str", ["a", None], "?", ["a", "?"]),
        ("long", "int64", [1, None], 7, [1, 7]),
        ("double", "float64", [1.5, None], -1, [1.5, -1]),
    ],
)
def test_missing_values_in_lists(put, kind, dtype, values, default, expected):
    path = put({"x": {"type": "array", "items": ["null", kind]}}, [{"x": []}, {"x": values}])
    filled = hr.open(path, schema={"x": hr.Feature(dtype, (None,), default=default)})
    assert filled.batch([0, 1])["x"].to_list() == [[], expected]
    if dtype == "float64":
        assert np.isnan(hr.open(path)[1]["x"][1])
        return
    with pytest.raises(SchemaMismatch, match="a default") as raised:
        hr.open(path)[1]
    assert (raised.value.where.record, raised.value.where.feature) == (1, "x")


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "map", "values": "int"},
        ["int", "string"],
        {"type": "array", "items": {"type": "record", "name": "q", "fields": []}},
        logical("bytes", "decimal", precision=30, scale=2),
    ],
    ids=["map", "union", "array of records without fields", "long decimal"],
)
def test_types_that_are_refused(put, kind):
    path = put({"x": kind, "y": "int"}, [])
    with pytest.raises(UnsupportedData, match="'x'"):
        hr.open(path)
    assert list(hr.open(path, schema={"y": hr.Feature("int32")}).schema) == ["y"]


def test_a_file_that_holds_no_records(tmp_path):
    with (tmp_path / "x.avro").open("wb") as file:
        fastavro.writer(file, "int", [1, 2])
    with pytest.raises(UnsupportedData, match="records"):
        hr.open(tmp_path / "x.avro")


def test_blocks_are_decoded_once_and_found_again(put, monkeypatch):
    path = put({"n": "int"}, [{"n": n} for n in range(200)], sync_interval=20)
    source = hr.open(path)
    read = []
    whole = avro.AvroTable._read_block
    monkeypatch.setattr(avro.AvroTable, "_read_block", lambda self, b, n: (read.append(b), whole(self, b, n))[1])
    order = np.random.default_rng(0).permutation(200)
    for _ in range(2):
        assert source.batch(order)["n"].tolist() == order.tolist()
    assert len(read) > 5
    assert len(read) == len(set(read))
    monkeypatch.setattr(avro.AvroTable, "_scan", None)  # The index is in the cache now.
    assert hr.open(path)[150] == {"n": 150}


def test_blocks_are_found_without_a_copy_of_the_file(put, monkeypatch):
    path = put({"b": "bytes"}, [{"b": bytes(10_000)} for _ in range(200)], sync_interval=20_000)
    copied, copy = [], avro._native.copy_bytes

    def copy_bytes(*given):
        copied.append(len(part := copy(*given)))
        return part

    monkeypatch.setattr(avro._native, "copy_bytes", copy_bytes)
    assert len(hr.open(path)) == 200
    assert max(copied) <= 64 << 10 < path.stat().st_size // 10


def test_position_of_damage(put):
    path = put({"s": "string"}, [{"s": "word" * 10} for _ in range(50)], sync_interval=100)
    source = hr.open(path)
    sound = source.where(30).offset
    content = bytearray(path.read_bytes())
    content[sound + 5] = 0xFF
    path.write_bytes(content)
    report = hr.verify(path)
    assert not report.ok
    assert report.records < 50
    with pytest.raises((CorruptFile, SchemaMismatch)) as raised:
        hr.open(path).batch(np.arange(50))
    assert raised.value.where.path == str(path)


def test_names_that_avro_does_not_have(tmp_path):
    for names in (["a b"], ["1"], ["a", "a/b"], ["a/b", "a"]):
        with pytest.raises(UnsupportedData, match="rename"):
            hr.write(tmp_path / "x.avro", {name: np.zeros(1) for name in names})
    assert list(tmp_path.iterdir()) == []
    hr.write(tmp_path / "x.avro", {"a/b": np.zeros(1), "a/c": np.ones(1)})
    with (tmp_path / "x.avro").open("rb") as file:
        assert list(fastavro.reader(file)) == [{"a": {"b": 0.0, "c": 1.0}}]


# ---------------------------------------------------------------------------------------------- types without an end


def _long(value):
    out, value = b"", value << 1
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def _avro(schema, body=b"", records=0):
    """A file that no library writes."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    sync = b"s" * 16
    head = b"Obj\x01" + _long(1) + _long(11) + b"avro.schema" + _long(len(text)) + text + b"\0" + sync
    return head + (_long(records) + _long(len(body)) + body + sync if records else b"")


INNER = {
    "array": {"type": "array", "items": "Node"},
    "map": {"type": "map", "values": "Node"},
    "union": ["null", "Node"],
    "array of unions": {"type": "array", "items": ["null", "Node"]},
}


@pytest.mark.parametrize("kind", INNER)
@pytest.mark.parametrize("columns", [None, {"id": hr.Feature("int64")}])
def test_records_in_themselves_are_refused_before_any_is_read(tmp_path, kind, columns):
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "id", "type": "long"}, {"name": "next", "type": INNER[kind]}],
    }
    levels = 500_000  # of which each takes a call
    (tmp_path / "x.avro").write_bytes(_avro(node, b"\x02\x02" * levels + b"\x02\x00" * levels, records=1))
    with pytest.raises(UnsupportedData, match=r"types that are not recursive, found 'Node' in itself - at .*x.avro"):
        _ = hr.open(tmp_path / "x.avro", schema=columns)[0]
    assert not hr.verify(tmp_path / "x.avro").ok


@pytest.mark.parametrize("levels", [65, 5000, 100_000])
def test_deep_types_are_refused(tmp_path, levels):
    deep = b'{"type":"array","items":' * levels + b'"long"' + b"}" * levels
    schema = b'{"type":"record","name":"r","fields":[{"name":"id","type":"long"},{"name":"x","type":' + deep + b"}]}"
    (tmp_path / "x.avro").write_bytes(_avro(schema))
    with pytest.raises(UnsupportedData, match="types in each other"):
        _ = hr.open(tmp_path / "x.avro", schema={"id": hr.Feature("int64")}).schema
        len(hr.open(tmp_path / "x.avro", schema={"id": hr.Feature("int64")}))


def test_a_schema_of_sparse_features_does_not_fit_dense_fields(tmp_path):
    claim = json.dumps({"features": {"x": {"dtype": "float32", "shape": [2], "sparse": True}}})
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": {"type": "array", "items": "float"}}]}
    with (tmp_path / "x.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"x": [1.0, 2.0]}], metadata={"headrace.schema": claim})
    source = hr.open(tmp_path / "x.avro")
    assert not source.schema["x"].sparse
    assert source[0]["x"].tolist() == [1, 2]


def test_two_ways_to_one_name_are_refused(tmp_path):
    inner = {"type": "record", "name": "q", "fields": [{"name": "b", "type": "int"}]}
    fields = [{"name": "a/b", "type": "int"}, {"name": "a", "type": inner}, {"name": "c", "type": "int"}]
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [{"a/b": 1, "a": {"b": 2}, "c": 3}])
    for schema in (None, {"a/b": hr.Feature("int32")}):
        with pytest.raises(hr.UnsupportedData, match="every column name once, found two .*a.avro, feature 'a/b'"):
            hr.open(path, schema=schema)
    assert hr.open(path, schema={"c": hr.Feature("int32")})[0] == {"c": 3}


@pytest.mark.parametrize(
    ("stored", "value", "dtype"),
    [
        ("double", 1e300, "float32"),
        ("double", 1e300, "float16"),
        ("int", 70000, "float16"),
        ("int", 2**24 + 1, "float32"),
        ("long", 2**53 + 1, "float64"),
        (["null", "long"], 2**53 + 1, "float64"),
    ],
)
def test_numbers_that_the_schema_does_not_hold_are_refused(put, stored, value, dtype):
    rows = [{"x": 1}, {"x": value}] + ([{"x": None}] if isinstance(stored, list) else [])
    for shape, given, kind in (
        ((), rows, stored),
        ((None,), [{"x": [row["x"]]} for row in rows], {"type": "array", "items": stored}),
    ):
        source = hr.open(put({"x": kind}, given), schema={"x": hr.Feature(dtype, shape)})
        with pytest.raises(SchemaMismatch, match=rf"expected {dtype}, found .* record 1, byte 0x.*, feature 'x'"):
            list(source)


def test_floats_are_rounded_to_the_schema(put):
    source = hr.open(put({"x": "double"}, [{"x": 0.1}, {"x": np.inf}]), schema={"x": hr.Feature("float32")})
    assert source.batch([0, 1])["x"].tolist() == [np.float32(0.1), np.inf]
    large = hr.open(put({"x": ["null", "long"]}, [{"x": 1}, {"x": 2**63 - 1}]), schema={"x": hr.Feature("uint64")})
    assert large.batch([0, 1])["x"].tolist() == [1, 2**63 - 1]


EMPTY = [
    "null",
    {"type": "fixed", "name": "f", "size": 0},
    {"type": "record", "name": "e", "fields": []},
    {"type": "record", "name": "e", "fields": [{"name": "n", "type": "null"}]},
]


@pytest.mark.parametrize("items", EMPTY, ids=str)
@pytest.mark.parametrize("depth", [1, 2])
def test_claims_of_many_items_that_take_no_bytes_are_refused(tmp_path, items, depth):
    """A few bytes could claim billions of items, which fastavro made one by one."""
    kind = items
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    fields = [
        {"name": "id", "type": "long"},
        {
            "name": "m",
            "type": {"type": "map", "values": ["null", "string", {"type": "enum", "name": "s", "symbols": ["a"]}]},
        },
        {"name": "x", "type": kind},
    ]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields}).encode()
    header = _avro(schema)

    def write(count, sizes=False):
        items = avro._avro_long(-count) + b"\0" if sizes else avro._avro_long(count)
        claimed = b"\x04\x02k\x02\x02v\x02k\x04\x00\0" + b"\x02" * (depth - 1) + items + b"\0" * depth
        block = b"\x02" + avro._avro_long(len(claimed) + 1) + b"\x02" + claimed + header[-16:]
        (tmp_path / "x.avro").write_bytes(header + block)
        return hr.open(tmp_path / "x.avro", schema={"id": hr.Feature("int64")})

    for sizes in (False, True):
        assert list(write(1000, sizes)) == [{"id": 1}]
        with pytest.raises(
            CorruptFile, match=r"an intact block, found .* 1,048,576 items .* at .*x.avro, byte 0x"
        ) as caught:
            list(write(2**33, sizes))
        assert caught.value.where.offset == len(header)
    assert len(hr.verify(tmp_path / "x.avro", schema={"id": hr.Feature("int64")}).faults) == 1


def test_arrays_of_named_types_that_take_bytes(put):
    pair = {"type": "record", "name": "p", "fields": [{"name": "a", "type": {"type": "fixed", "name": "f", "size": 1}}]}
    fields = {"one": pair, "many": {"type": "array", "items": "p"}, "raw": {"type": "array", "items": "f"}}
    path = put(fields, [{"one": {"a": b"1"}, "many": [{"a": b"2"}], "raw": [b"3"]}])
    assert hr.open(path, schema={"one/a": hr.Feature("bytes")})[0] == {"one/a": b"1"}
    assert hr.open(path, schema={"raw": hr.Feature("bytes", (None,))})[0]["raw"].tolist() == [b"3"]


def test_bytes_after_the_records_of_a_block_are_a_fault(put):
    path = put({"x": "int"}, [{"x": 1}, {"x": 2}, {"x": 3}])
    whole = path.read_bytes()
    assert hr.verify(path).ok
    at = whole.index(b"\x06\x06\x02\x04\x06")  # three records in three bytes
    path.write_bytes(whole[:at] + b"\x02" + whole[at + 1 :])
    report = hr.verify(path)
    assert not report.ok
    assert "a block of 1 records, found 1 records, and 2 bytes after them" in str(report.faults[0])
    assert (report.faults[0].where.path, report.faults[0].where.offset) == (str(path), at)


@pytest.mark.parametrize("unit", ["millis", "micros"])
def test_missing_times_take_a_default(put, unit):
    moment = dt.datetime(2020, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    kind = ["null", logical("long", f"timestamp-{unit}")]
    default = np.datetime64("2021-01-01T00:00:01")
    for dtype in ("M8[us]", "M8[s]"):
        source = hr.open(
            put({"x": kind}, [{"x": moment}, {"x": None}]), schema={"x": hr.Feature(dtype, default=default)}
        )
        assert source.batch([0, 1])["x"].tolist() == [moment.replace(tzinfo=None), default.item()]
    pair = {"x": hr.Feature("M8[us]", (2,), default=default)}
    rows = [{"x": [moment, moment]}, {"x": None}]
    source = hr.open(put({"x": ["null", {"type": "array", "items": kind[1]}]}, rows), schema=pair)
    assert source[1]["x"].tolist() == [default.item()] * 2


@pytest.mark.parametrize(
    ("kind", "values", "dtype", "expected"),
    [
        ("string", ["2020-01-02", "NaT"], "M8[D]", np.array(["2020-01-02", "NaT"], "M8[D]")),
        ("string", ["2020-01-02T02:00:00+02:00"], "M8[s]", np.array(["2020-01-02"], "M8[s]")),
        ("int", [1, 0], "bool", [True, False]),
        ("double", [1.0, 0.0], "bool", [True, False]),
        ("double", [2.0, -3.0], "int64", [2, -3]),
        ("boolean", [True, False], "int8", [1, 0]),
        ("bytes", ["ä".encode(), b""], "str", ["ä", ""]),
        ("string", ["ä", ""], "bytes", ["ä".encode(), b""]),
    ],
)
def test_a_schema_decides_as_in_parquet(put, kind, values, dtype, expected):
    path = put({"x": kind, "l": {"type": "array", "items": kind}}, [{"x": value, "l": [value] * 2} for value in values])
    batch = hr.open(path, schema={"x": hr.Feature(dtype), "l": hr.Feature(dtype, (2,))}).batch(range(len(values)))
    assert np.array_equal(np.asarray(batch["x"]), np.asarray(expected), equal_nan=dtype[0] == "M")
    assert np.array_equal(np.asarray(batch["l"])[:, 1], np.asarray(expected), equal_nan=dtype[0] == "M")


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        ("string", ["2020-01-02T01:00"], "M8[D]"),
        ("string", ["x"], "M8[D]"),
        ("int", [1, 2], "bool"),
        ("double", [1.0, 2.5], "int64"),
        ("double", [1.0, float("nan")], "int64"),
        ("double", [1.0, 2.0**63], "int64"),
        ("double", [1.0, -1.0], "uint64"),
        ("double", [1.0, 300.0], "int8"),
        ("bytes", [b"", b"\xff"], "str"),
        ("int", [1], "str"),
        ("boolean", [True], "float64"),
    ],
)
def test_what_a_schema_would_change_is_refused(put, kind, values, dtype):
    path = put({"x": kind}, [{"x": value} for value in values])
    with pytest.raises(SchemaMismatch) as raised:
        hr.open(path, schema={"x": hr.Feature(dtype)}).batch(range(len(values)))
    assert (raised.value.where.record, raised.value.where.feature) == (len(values) - 1, "x")


def test_rows_beside_one_with_a_null(tmp_path):
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": ["null", "long"]}]}
    with (tmp_path / "x.avro").open("wb") as file:
        fastavro.writer(file, schema, [{"n": None if number == 5 else number} for number in range(100)])
    source = hr.open(tmp_path / "x.avro")
    assert source[0] == {"n": 0}
    assert source.batch([99, 4, 6])["n"].tolist() == [99, 4, 6]
    with pytest.raises(SchemaMismatch, match="record 5"):
        source.batch([4, 5])
    found = iter(source)
    assert [next(found)["n"] for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(SchemaMismatch, match="record 5"):
        next(found)


@pytest.mark.parametrize(
    ("kind", "value", "dtype"),
    [
        (logical("long", "timestamp-micros"), 253402300799000000, "M8[ns]"),
        (logical("long", "timestamp-millis"), 1500000000123, "M8[s]"),
        (logical("long", "timestamp-millis"), 1500000000123, "M8[D]"),
        (logical("int", "date"), 2932896, "M8[ns]"),
        (logical("int", "time-millis"), 1500, "m8[s]"),
        ("string", "abcdef", "U3"),
        ("bytes", b"abcdef", "S3"),
    ],
)
def test_what_another_type_does_not_hold(put, kind, value, dtype):
    plain = kind["type"] if isinstance(kind, dict) else kind
    path = put({"x": kind, "l": {"type": "array", "items": kind}}, [])
    good = value[:3] if plain in ("string", "bytes") else 0
    rows = [{"x": good, "l": []}, {"x": good, "l": [good, value]}, {"x": value, "l": []}]
    put({"x": kind, "l": {"type": "array", "items": kind}}, rows)
    for name, shape, row in (("x", (), 2), ("l", (None,), 1)):
        schema = {name: hr.Feature(dtype, shape)}
        with pytest.raises(SchemaMismatch) as raised:
            hr.open(path, schema=schema).batch([0, 1, 2])
        assert (raised.value.where.record, raised.value.where.feature) == (row, name)
        assert not hr.verify(path, schema=schema).ok


def test_times_in_other_units(put):
    fields = {"t": logical("long", "timestamp-millis"), "c": logical("int", "time-millis")}
    path = put(fields, [{"t": 86400000, "c": 5}])
    schema = {"t": hr.Feature("M8[D]"), "c": hr.Feature("M8[us]")}  # times of day are those of the first day
    assert hr.open(path, schema=schema)[0] == {
        "t": np.datetime64("1970-01-02"),
        "c": np.datetime64("1970-01-01T00:00:00.005"),
    }
    with pytest.raises(SchemaMismatch, match=r"expected timedelta64\[D\], found 1970-01-02"):
        hr.open(path, schema={"t": hr.Feature("m8[D]")})[0]


def test_decimals_that_are_whole_numbers(put):
    whole = decimal.Decimal(2**53 + 1)
    path = put({"x": logical("bytes", "decimal", precision=20, scale=1)}, [{"x": whole}, {"x": decimal.Decimal("0.5")}])
    source = hr.open(path, schema={"x": hr.Feature("int64")})
    assert source[0] == {"x": 2**53 + 1}
    with pytest.raises(SchemaMismatch):
        source[1]


def test_uuids_of_bytes(put):
    number = uuid.UUID("12345678-1234-5678-1234-567812345678")
    path = put({"x": {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}}, [{"x": number.bytes}])
    assert hr.open(path)[0] == {"x": str(number)}
    assert hr.open(path, schema={"x": hr.Feature("bytes")})[0] == {"x": number.bytes}


def avro_file(path, kind, blocks, codec=b"null"):
    """A file of records with the field ``x``, from the number of records and the bytes of each block."""
    schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": "x", "type": kind}]}).encode()
    pack, number = avro._avro_bytes, avro._avro_long
    head = b"Obj\x01" + number(2) + pack(b"avro.schema") + pack(schema) + pack(b"avro.codec") + pack(codec) + b"\0"
    path.write_bytes(head + b"S" * 16 + b"".join(number(count) + pack(block) + b"S" * 16 for count, block in blocks))
    return path


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ({"type": "string", "logicalType": "decimal", "precision": 4}, b"\x0ahello", "hello"),
        ({"type": "string", "logicalType": "date"}, b"\x0ahello", "hello"),
        ({"type": "int", "logicalType": "timestamp-millis"}, b"\2", 1),
        ({"type": "int", "logicalType": ["a"]}, b"\2", 1),
    ],
)
def test_logical_types_of_other_types_are_ignored(tmp_path, kind, content, expected):
    path = avro_file(tmp_path / "x.avro", kind, [(1, content)])
    assert hr.open(path)[0] == {"x": expected}
    assert hr.verify(path).ok


@pytest.mark.parametrize("kind", ["long", logical("long", "timestamp-millis")])
def test_blocks_without_records(tmp_path, kind):
    path = avro_file(tmp_path / "x.avro", kind, [(0, b""), (2, b"\2\4"), (0, b""), (1, b"\6")])
    assert hr.open(path).batch([2, 0])["x"].astype(int).tolist() == [3, 1]
    report = hr.verify(path)
    assert (report.ok, report.records) == (True, 3)


def test_records_that_take_no_bytes(tmp_path):
    inner = {"type": "record", "name": "i", "fields": [{"name": "n", "type": "null"}]}
    assert len(hr.open(avro_file(tmp_path / "x.avro", inner, [(3, b"")]), schema={})) == 3


@pytest.mark.parametrize("codec", ["foo", "zstandard"])
def test_codecs_that_fastavro_lacks(tmp_path, monkeypatch, codec):
    def missing(_):
        raise ValueError(
            "zstandard codec is supported but you need to install one of the following libraries: ('zst',)"
        )

    monkeypatch.setitem(fastavro.read.BLOCK_READERS, "zstandard", missing)
    path = avro_file(tmp_path / "x.avro", "long", [(1, b"\2")], codec.encode())
    with pytest.raises(UnsupportedData, match=f"found the codec {codec} - .*x.avro") as raised:
        len(hr.open(path))
    assert ("pip install zst" in str(raised.value)) == (codec == "zstandard")


def test_records_with_names_that_look_alike(tmp_path):
    columns = {"a/b/x": np.arange(2), "a_b/y": np.arange(2), "a/b_/z": np.arange(2)}
    hr.write(tmp_path / "x.avro", columns)
    assert hr.open(tmp_path / "x.avro")[1] == {"a/b/x": 1, "a/b_/z": 1, "a_b/y": 1}


def shards(tmp_path, kinds, rows):
    for number, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
        with (tmp_path / f"x{number}.avro").open("wb") as file:
            fastavro.writer(
                file, {"type": "record", "name": "r", "fields": [{"name": "c", "type": kind}]}, [{"c": row}]
            )
    return sorted(tmp_path.glob("*.avro"))


ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("kinds", "rows"),
    [
        ([ENUM, {**ENUM, "symbols": ["C", "A", "B"]}], ["B", "C"]),
        (["string", {"type": "string", "avro.java.string": "String"}, ENUM], ["a", "b", "A"]),
        ([{"type": "fixed", "name": name, "size": size} for name, size in (("F", 4), ("n.F", 2))], [b"abcd", b"ef"]),
        ([["null", "long"], {"type": "long", "logicalType": "unknown"}], [1, 2]),
        ([{"type": "array", "items": "string"}, {"type": "array", "items": ENUM}], [["a"], ["A", "B"]]),
        (
            [logical("bytes", "decimal", precision=8, scale=scale) for scale in (2, 3)],
            [decimal.Decimal("1.25"), decimal.Decimal("-0.125")],
        ),
    ],
)
def test_shards_of_types_that_give_the_same_feature(tmp_path, kinds, rows):
    paths = shards(tmp_path, kinds, rows)
    expected = [float(row) if isinstance(row, decimal.Decimal) else row for row in rows]
    for order in (1, -1):
        source = hr.open(paths[::order])
        assert [np.asarray(row["c"]).tolist() for row in source] == expected[::order]


@pytest.mark.parametrize("kinds", [("int", "long"), ("long", logical("long", "timestamp-millis"))])
def test_shards_of_other_features_are_refused_with_a_way_out(tmp_path, kinds):
    paths = shards(tmp_path, kinds, (1, 2))
    with pytest.raises(
        SchemaMismatch, match=r"expected .*, as in .*x0.avro.*name the features that they share: schema="
    ):
        len(hr.open(paths))
    if "int" in kinds:
        assert [row["c"] for row in hr.open(paths, schema={"c": hr.Feature("int64")})] == [1, 2]


def test_a_record_type_without_fields_is_damage(tmp_path):
    path = avro_file(tmp_path / "x.avro", "int", [(1, b"\2")])
    path.write_bytes(path.read_bytes().replace(b'"fields"', b'"fieldr"'))
    with pytest.raises(CorruptFile, match="a record type with fields, as all have, found 'r' with"):
        hr.open(path)


def test_fields_of_arrays_of_records(put):
    call = {"type": "record", "name": "call", "fields": [{"name": "id", "type": "int"}]}
    item = {
        "type": "record",
        "name": "item",
        "fields": [
            {"name": "role", "type": {"type": "enum", "name": "k", "symbols": ["user", "model"]}},
            {"name": "text", "type": ["null", "string"]},
            {"name": "when", "type": logical("long", "timestamp-millis")},
            {"name": "calls", "type": {"type": "array", "items": ["null", call]}},
        ],
    }
    fields = {"m": ["null", {"type": "array", "items": item}], "again": {"type": "array", "items": "item"}, "n": "int"}
    when = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    one = {"role": "user", "text": "a", "when": when, "calls": [{"id": 1}, {"id": 2}]}
    two = {"role": "model", "text": "b", "when": when, "calls": []}
    path = put(
        fields, [{"m": [one, two], "again": [two], "n": 1}, {"m": None, "again": [], "n": 2}] * 3, codec="deflate"
    )
    source = hr.open(path)
    assert {name: (f.dtype, f.shape) for name, f in source.schema.items()} == {
        "m/role": ("str", (None,)),
        "m/text": ("str", (None,)),
        "m/when": ("M8[ms]", (None,)),
        "m/calls/id": ("int32", (None, None)),
        "again/role": ("str", (None,)),
        "again/text": ("str", (None,)),
        "again/when": ("M8[ms]", (None,)),
        "again/calls/id": ("int32", (None, None)),
        "n": ("int32", ()),
    }
    batch = source.batch([4, 1])
    assert batch["m/role"].to_list() == [["user", "model"], []]
    assert batch["m/calls/id"].to_list() == [[[1, 2], []], []]
    assert batch["m/when"][0].tolist() == [when.replace(tzinfo=None)] * 2
    assert batch["again/text"].to_list() == [["b"], []]
    assert list(source.select("m/text").batch([0])) == ["m/text"]
    assert not hr.verify(path).faults


def test_records_in_arrays_that_lack_a_value(put):
    item = {"type": "record", "name": "item", "fields": [{"name": "k", "type": ["null", "int"]}]}
    path = put({"m": {"type": "array", "items": ["null", item]}}, [{"m": [{"k": 1}]}, {"m": [{"k": None}, None]}])
    with pytest.raises(SchemaMismatch, match=r"found none.*record 1.*'m/k'"):
        hr.open(path)[1]
    assert hr.open(path, schema={"m/k": hr.Feature("int32", (None,), default=-1)})[1]["m/k"].tolist() == [-1, -1]
