"""Parquet files of other writers, and damage."""

import base64
import contextlib
import datetime as dt
import decimal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace.errors import CorruptFile, SchemaMismatch, UnsupportedData
from headrace.formats.parquet import format as parquet
from headrace.formats.parquet import groups
from headrace.formats.parquet.write import pieces_of_groups


def put(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.parquet"


def test_types_of_other_writers(path):
    utc = dt.UTC
    put(
        path,
        {
            "small": pa.array([1, 2], pa.uint8()),
            "price": pa.array([decimal.Decimal("1.25"), decimal.Decimal("-3.50")], pa.decimal128(9, 2)),
            "when": pa.array([dt.datetime(2020, 1, 1, tzinfo=utc)] * 2, pa.timestamp("ms", "Europe/Berlin")),
            "day": pa.array([dt.date(2020, 2, 29)] * 2),
            "clock": pa.array([dt.time(1, 2, 3)] * 2, pa.time32("s")),
            "kind": pa.array(["cat", "dog"]).dictionary_encode(),
            "deep": pa.array([{"a": {"b": [1, 2]}, "c": "x"}, {"a": {"b": []}, "c": "y"}]),
            "fixed": pa.array([b"ab", b"cd"], pa.binary(2)),
        },
    )
    source = hr.open(path)
    assert {name: (f.dtype, f.shape) for name, f in source.schema.items()} == {
        "small": ("uint8", ()),
        "price": ("float64", ()),
        "when": ("M8[ms]", ()),
        "day": ("M8[D]", ()),
        "clock": ("m8[ms]", ()),  # Parquet has no seconds
        "kind": ("str", ()),
        "deep/a/b": ("int64", (None,)),
        "deep/c": ("str", ()),
        "fixed": ("bytes", ()),
    }
    batch = source.batch([1, 0])
    assert batch["price"].tolist() == [-3.5, 1.25]
    assert batch["when"][0] == np.datetime64("2020-01-01T00:00")
    assert batch["day"][0] == np.datetime64("2020-02-29")
    assert batch["clock"][0] == np.timedelta64(3723, "s")
    assert batch["kind"].tolist() == ["dog", "cat"]
    assert batch["deep/a/b"].to_list() == [[], [1, 2]]
    assert batch["fixed"].tolist() == [b"cd", b"ab"]


def test_missing_values(path):
    put(path, {"f": [1.0, None], "rows": [[1], None], "n": pa.array([1, None]), "name": pa.array(["a", None])})
    source = hr.open(path)
    floats = source.select("f", "rows").batch([0, 1])
    assert np.isnan(floats["f"][1])
    assert floats["rows"].to_list() == [[1], []]
    for name in ("n", "name"):
        with pytest.raises(SchemaMismatch, match="a default") as raised:
            source.select(name).batch([1])
        assert (raised.value.where.record, raised.value.where.feature) == (1, name)
    given = {"n": hr.Feature("int32", default=-1), "name": hr.Feature("str", default="?")}
    assert hr.open(path, schema=given)[1] == {"n": -1, "name": "?"}
    assert np.isnan(hr.open(path, schema={"n": hr.Feature("float32")})[1]["n"])


def test_lists_of_one_length_under_a_schema(path):
    put(path, {"v": [[1.0, 2.0], [3.0, 4.0], None]})
    fixed = hr.open(path, schema={"v": hr.Feature("float32", (2,), default=0)})
    assert fixed.batch([2, 1])["v"].tolist() == [[0, 0], [3, 4]]
    with pytest.raises(SchemaMismatch, match="3 values, found 2"):
        hr.open(path, schema={"v": hr.Feature("float32", (3,))}).batch([0])


def test_numbers_that_do_not_fit(path):
    put(path, {"n": [1, 2, 300, 4]})
    source = hr.open(path, schema={"n": hr.Feature("uint8")})
    with pytest.raises(SchemaMismatch) as raised:
        source.batch([0, 3, 2])
    assert raised.value.where.record == 2
    assert source.batch([0, 3])["n"].tolist() == [1, 4]
    with pytest.raises(SchemaMismatch, match="a column of that name"):
        hr.open(path, schema={"m": hr.Feature("uint8")})


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        pa.array([[[("a", 1)]]], pa.list_(pa.map_(pa.string(), pa.int64()))),
        pa.nulls(1),
        pa.array([decimal.Decimal("12345678901234567.8")]),
    ],
    ids=["map", "list of maps", "only nulls", "long decimal"],
)
def test_types_that_are_refused(path, column):
    put(path, {"x": column, "y": [1]})
    with pytest.raises(UnsupportedData, match="'x'.*schema="):
        hr.open(path)
    assert hr.open(path, schema={"y": hr.Feature("int64")})[0] == {"y": 1}


def test_long_decimals_as_text(path):
    put(path, {"x": pa.array([decimal.Decimal("12345678901234567.8")])})
    put(path.with_name("y.parquet"), {"price": pa.array([decimal.Decimal("12345678901234567.8")])})
    with pytest.raises(UnsupportedData, match=r'schema=\{\.\.\., "price": Feature\("float64"\)\}'):
        hr.open(path.with_name("y.parquet"))
    assert hr.open(path, schema={"x": hr.Feature("str")})[0] == {"x": "12345678901234567.8"}


def test_files_of_a_set_must_agree(tmp_path):
    put(tmp_path / "a.parquet", {"x": [1]})
    put(tmp_path / "b.parquet", {"x": [1.5]})
    with pytest.raises(SchemaMismatch, match=r"b\.parquet"):
        hr.open(tmp_path / "*.parquet")
    put(tmp_path / "b.parquet", {"x": [2]})
    both = hr.open(tmp_path / "*.parquet")
    assert both.batch([1, 0])["x"].tolist() == [2, 1]
    assert (both.where(1).path, both.where(1).record) == (str(tmp_path / "b.parquet"), 0)


def test_a_row_group_is_decoded_once(path, monkeypatch):
    put(path, {"x": np.arange(100), "y": np.arange(100)}, row_group_size=10)
    source = hr.open(path)
    read = []
    monkeypatch.setattr(groups, "JOINED_ROWS", 0)
    monkeypatch.setattr(
        parquet.ParquetTable,
        "_read_block",
        lambda table, block, names, whole=parquet.ParquetTable._read_block: (
            read.append((block, list(names))),
            whole(table, block, names),
        )[1],
    )
    order = np.random.default_rng(0).permutation(100)
    assert source.select("x").batch(order)["x"].tolist() == order.tolist()
    assert source.batch(order)["y"].tolist() == order.tolist()
    assert sorted(read) == sorted([(n, ["x"]) for n in range(10)] + [(n, ["y"]) for n in range(10)])


def test_a_carried_schema_only_refines(path):
    hr.write(path, {"x": np.zeros((3, 2, 2), np.float32)})
    assert hr.open(path).schema["x"].shape == (2, 2)
    table = pq.read_table(path)
    pq.write_table(pa.table({"x": ["not", "a", "matrix"]}).replace_schema_metadata(table.schema.metadata), path)
    assert hr.open(path).schema["x"] == hr.Feature("str")
    pq.write_table(table.replace_schema_metadata({"headrace.schema": "{"}), path)
    assert hr.open(path).schema["x"].shape == (2, 2)


def test_damage_is_an_error_or_nothing(tmp_path):
    path = tmp_path / "x.parquet"
    hr.write(path, {"x": np.arange(50), "y": np.arange(50) / 7})
    whole = path.read_bytes()
    for at in [*range(0, len(whole), 7)]:
        path.write_bytes(whole[:at])
        assert not hr.verify(path, format="parquet").ok
    refused = 0
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            source = hr.open(path, format="parquet")
            found = {name: source.select(name).batch(range(len(source)))[name] for name in source.schema}
        except (CorruptFile, SchemaMismatch, UnsupportedData):
            refused += 1
            continue
        # Without a checksum is the footer: names, and the number of rows.
        for column in found.values():
            assert column.tolist() in (np.arange(50).tolist(), (np.arange(50) / 7).tolist()), at
    assert refused > len(whole) // 20
    path.write_bytes(whole)
    report = hr.verify(path)
    assert (report.ok, report.records, report.bytes) == (True, 50, len(whole))


def test_columns_are_not_byte_records(path):
    put(path, {"x": [1]})
    with pytest.raises(UnsupportedData, match=r"typed columns.*headrace\.open"):
        hr.records(path)


@pytest.mark.parametrize("joined", [False, True])
def test_a_changed_value_is_noticed(tmp_path, joined):
    path = tmp_path / "x.parquet"
    hr.write(path, {"x": np.arange(50), "y": np.arange(50) / 7}, compression="none")
    if joined:
        path.rename(tmp_path / "part.parquet")
        path.write_bytes(b"".join(piece.content() for piece in pieces_of_groups([str(tmp_path / "part.parquet")])))
    whole, sound = path.read_bytes(), hr.open(path).batch(range(50))
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(4, footer, 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        with contextlib.suppress(CorruptFile, SchemaMismatch, UnsupportedData):
            found = hr.open(path).batch(range(50))
            assert found["x"].tolist() == sound["x"].tolist(), at
            assert found["y"].tolist() == sound["y"].tolist(), at


@pytest.mark.parametrize(
    ("shape", "rows"), [((2,), [[1, 2], None, [1]]), ((2, 2), [[[1, 2], [3, 4]], None, [[1], [2, 3]]])]
)
def test_a_default_hides_no_row_of_the_wrong_length(tmp_path, shape, rows):
    kind = pa.list_(pa.int64()) if len(shape) == 1 else pa.list_(pa.list_(pa.int64()))
    pq.write_table(pa.table({"x": pa.array(rows, kind)}), tmp_path / "x.parquet")
    source = hr.open(tmp_path / "x.parquet", schema={"x": hr.Feature("int64", shape, default=0)})
    with pytest.raises(SchemaMismatch, match="2 values, found 1") as error:
        source.batch(range(3))
    assert (error.value.where.record, error.value.where.feature) == (2, "x")


READS = """
import sys
import headrace as hr
source = hr.open(sys.argv[1])
assert source.batch([3, 1])["x"].tolist() == [[6.0, 7.0], [2.0, 3.0]]
assert source[2]["label"] == 2
assert "pandas" not in sys.modules
"""


def test_numbers_are_read_without_importing_pandas(tmp_path):
    """Arrow's own way to NumPy imports it, which takes longer than reading a small file."""
    path = tmp_path / "a.parquet"
    hr.write(path, {"label": np.arange(20), "x": np.arange(40.0).reshape(20, 2)})
    subprocess.run([sys.executable, "-c", READS, str(path)], check=True)


def test_arrays_of_examples_may_be_changed(path):
    rows = {"x": np.ones((4, 3)), "t": hr.Ragged(np.arange(6.0), np.array([0, 1, 3, 3, 6])), "s": np.array(["a"] * 4)}
    hr.write(path, rows)
    source = hr.open(path)
    for example in source:
        example["x"] *= 2
        example["t"] *= 2
    for found, number in zip(source, range(4), strict=True):
        assert found["x"].tolist() == [1, 1, 1]
        assert found["t"].tolist() == rows["t"][number].tolist()
    assert [float(example["x"][0]) for example in source.map(lambda example: {"x": example["x"].__imul__(3)})] == [
        3
    ] * 4


def test_a_column_that_is_there_twice_is_not_guessed(path):
    table = pa.table({"a/b": [1], "a": pa.array([{"b": 2, "c": 3}])})
    pq.write_table(table, path)
    for schema in (None, {"a/b": hr.Feature("int64")}):
        with pytest.raises(UnsupportedData, match="every column name once"):
            hr.open(path, schema=schema)[0]
    assert hr.open(path, schema={"a/c": hr.Feature("int64")})[0]["a/c"] == 3


def test_points_in_seconds_come_back_as_seconds(tmp_path):
    """Parquet has milliseconds at least; the schema in the file says seconds."""
    points = np.array(["2020-01-02T03:04:05", "NaT", "1969-12-31T23:59:59"], "M8[s]")
    columns = {"t": points, "pair": np.stack([points, points], 1), "list": hr.Ragged(points, np.array([0, 1, 1, 3]))}
    hr.write(tmp_path / "x.parquet", columns)
    for source in (hr.open(tmp_path / "x.parquet"), hr.open(pq.read_table(tmp_path / "x.parquet"))):
        assert [feature.dtype for feature in source.schema.values()] == ["M8[s]"] * 3
        batch = source.batch(range(3))
        for column in (batch["t"], batch["pair"][:, 1], batch["list"].values):
            assert column.dtype == "M8[s]"
            assert np.array_equal(column, points, equal_nan=True)


@pytest.mark.parametrize("dtype", ["complex64", "U3", "S3"])
def test_a_dtype_that_no_column_is_read_as(tmp_path, dtype):
    hr.write(tmp_path / "x.parquet", {"x": np.arange(3.0)})
    with pytest.raises(UnsupportedData, match="x.parquet.*'x'"):
        hr.open(tmp_path / "x.parquet", schema={"x": hr.Feature(dtype)})[0]


@pytest.fixture(params=[2, 7, 40])
def far_points(path, request, monkeypatch):
    """Points in time as Spark writes them, of which one is beyond nanoseconds."""
    monkeypatch.setattr(groups, "MOST_ROWS", 4)  # so that large row groups are read in parts
    micros = np.arange(40).astype("M8[us]")
    micros[33] = np.datetime64("9999-12-31T23:59:59", "us")
    lists = pa.ListArray.from_arrays(np.arange(41, dtype=np.int32), pa.array(micros))
    table = pa.table({"n": np.arange(40), "t": micros, "list": lists})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, store_schema=False, row_group_size=request.param)
    return path, micros


def test_points_of_96_bits_beyond_nanoseconds_are_refused(far_points):
    path, _ = far_points
    source = hr.open(path)
    assert source.schema["t"].dtype == "M8[ns]"
    for name in ("t", "list"):
        with pytest.raises(SchemaMismatch, match="out of bounds") as raised:
            source.select(name)[33]
        assert (raised.value.where.record, raised.value.where.feature) == (33, name)
    assert not hr.verify(path).ok
    assert source.select("n").batch(range(40))["n"].tolist() == list(range(40))


def test_points_of_96_bits_in_the_unit_of_a_schema(far_points):
    path, micros = far_points
    schema = {"t": hr.Feature("M8[us]"), "list": hr.Feature("M8[us]", (1,))}
    source = hr.open(path, schema=schema)
    for index in ([33], [0, 33, 2], [33, 34, 39]):
        for column in source.batch(index).values():
            assert np.array_equal(np.ravel(column), micros[index])
    assert np.array_equal(np.concatenate([batch["t"] for batch in hr.Loader(source, 3)]), micros)
    assert np.array_equal(np.ravel(source["list"][:]), micros)
    assert hr.verify(path, schema=schema).ok


def test_points_of_96_bits_keep_their_nanoseconds(path):
    nanos = np.array([-1, 0, 1_600_000_000_123_456_789], "M8[ns]")
    put(path, {"t": nanos}, use_deprecated_int96_timestamps=True)
    assert np.array_equal(hr.open(path)["t"][:], nanos)


def two_files(folder, first, second):
    pq.write_table(pa.table(first), folder / "1.parquet")
    pq.write_table(pa.table(second), folder / "2.parquet")
    return folder


def test_columns_in_another_order_are_read_by_name(tmp_path):
    one = {"x": [1, 2], "s": ["a", "b"], "p": [{"y": 1.5, "z": [1]}, {"y": 2.5, "z": [2]}]}
    other = {"p": [{"z": [3], "y": 3.5}], "s": pa.array(["c"], pa.large_string()), "x": [3]}
    two_files(tmp_path, one, other)
    source = hr.open(tmp_path)
    assert [example["s"] for example in source] == ["a", "b", "c"]
    for batch in (source.batch([2, 0]), next(iter(hr.Loader(source[[2, 0]], 2)))):
        assert (batch["x"].tolist(), batch["s"].tolist(), batch["p/y"].tolist()) == ([3, 1], ["c", "a"], [3.5, 1.5])
        assert [row.tolist() for row in batch["p/z"]] == [[3], [1]]
    assert hr.open(tmp_path, columns=["s"])[2] == {"s": "c"}


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ({"x": [1]}, "found no y - at"),
        ({"x": [1], "y": [1], "z": [1]}, "found z: int64 - at"),
        ({"y": [1.5], "x": [1]}, "found y: double - at"),
        ({"z": [1]}, "found no x, no y, z: int64 - at"),
    ],
)
def test_other_columns_are_named(tmp_path, other, found):
    with pytest.raises(hr.SchemaMismatch, match=found):
        hr.open(two_files(tmp_path, {"x": [1], "y": [2]}, other))


def test_a_column_that_a_later_file_lacks(tmp_path):
    schema = {"x": hr.Feature("int64"), "y": hr.Feature("int64", default=0)}
    source = hr.open(two_files(tmp_path, {"x": [1], "y": [2]}, {"x": [3]}), schema=schema)
    assert source[0] == {"x": 1, "y": 2}
    with pytest.raises(hr.SchemaMismatch, match=r"feature 'y'.*Every file needs it"):
        source[1]


class PlainKeys(pytest.importorskip("pyarrow.parquet.encryption").KmsClient):
    """Keys that are no secret."""

    def wrap_key(self, key, _):
        return base64.b64encode(key)

    def unwrap_key(self, key, _):
        return base64.b64decode(key)


@pytest.mark.parametrize("plain_footer", [True, False])
def test_encrypted_files_are_not_called_corrupt(tmp_path, plain_footer):
    encryption = pytest.importorskip("pyarrow.parquet.encryption")
    factory = encryption.CryptoFactory(lambda _: PlainKeys())
    settings = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["a"]}, plaintext_footer=plain_footer
    )
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    path = tmp_path / "x.parquet"
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), settings)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    with pytest.raises(hr.UnsupportedData, match="unencrypted Parquet.*Decrypt it first"):
        hr.open(path)[0]
    assert [type(fault) for fault in hr.verify(path).faults] == [hr.UnsupportedData]


@pytest.mark.parametrize("group_rows", [1000, 100_000])
def test_rows_beside_one_with_a_null(tmp_path, group_rows):
    """A null is an error for those who ask for its row, not for all rows of its block."""
    numbers = [*range(20_000)]
    numbers[1] = numbers[15_000] = None
    texts = [str(number) for number in range(20_000)]
    table = pa.table({"n": numbers, "t": texts, "l": [[number] for number in range(20_000)]})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=group_rows)
    source = hr.open(tmp_path / "x.parquet")
    assert source[0] == {"n": 0, "t": "0", "l": [0]}
    assert source.batch([19_999, 2, 14_999])["n"].tolist() == [19_999, 2, 14_999]
    assert source.batch(range(2, 15_000))["t"].tolist() == texts[2:15_000]
    assert source.select("t")[1] == {"t": "1"}
    for rows in ([0, 1], range(1, 5), range(14_990, 15_010), [15_000]):
        with pytest.raises(SchemaMismatch) as raised:
            source.batch(rows)
        assert (raised.value.where.record, raised.value.where.feature) == (1 if 1 in rows else 15_000, "n")
    kept = source.skip(2).take(14_998)
    assert sum(len(batch["n"]) for batch in hr.Loader(kept, 64, shuffle=True)) == 14_998
    found = iter(source)
    assert next(found)["n"] == 0
    with pytest.raises(SchemaMismatch, match="record 1, feature 'n'"):
        next(found)


@pytest.mark.parametrize("rows", [0, 2])
def test_columns_without_values_are_opened_as_the_error_says(tmp_path, rows):
    """What pandas writes for a column of objects that are all None."""
    empty, full = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"s": pa.nulls(rows)}), empty)
    pq.write_table(pa.table({"s": ["x"]}), full)
    with pytest.raises(
        UnsupportedData, match=r'the type null.*Give it one: schema=\{..., "s": Feature\("str", default=""\)\}'
    ):
        len(hr.open([empty, full]).schema)
    with pytest.raises(SchemaMismatch, match=r"found s: null.*Name all features: schema=.*, and a default"):
        len(hr.open([full, empty]).schema)
    source = hr.open([empty, full], schema={"s": hr.Feature("str", default="")})
    assert [row["s"] for row in source] == [""] * rows + ["x"]
