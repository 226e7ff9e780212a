import copy
import datetime as dt
import os
import re
from array import array
from collections import UserList, deque
from decimal import Decimal
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.errors import SchemaMismatch, UnsupportedData

KINDS = {
    "dense": np.arange(24, dtype=np.float32).reshape(6, 2, 2),
    "number": np.arange(6),
    "text": ["a", "", "日本", "d", "e", "f"],
    "blob": [b"", b"\xff", b"\x00", b"x", b"y", b"z"],
    "ids": hr.Ragged.from_list([[1], [], [2, 3], [4], [5], []], np.int64),
    "boxes": hr.Ragged.from_list([[[1, 2]], [], [[3, 4], [5, 6]], [], [], []], np.float32),
    "steps": hr.Ragged(hr.Ragged.from_list([[1, 2], [], [3]], np.int64), np.array([0, 2, 2, 3, 3, 3, 3])),
}


def same(batch, columns):
    for name, column in columns.items():
        got = batch[name]
        expected = column.to_list() if isinstance(column, hr.Ragged) else np.asarray(column, object).tolist()
        assert (got.to_list() if isinstance(got, hr.Ragged) else got.tolist()) == expected, name


def schema():
    return {
        "dense": hr.Feature("float32", (2, 2)), "number": hr.Feature("int64"), "text": hr.Feature("str"), "blob": hr.Feature("bytes"),
        "ids": hr.Feature("int64", (None,)), "boxes": hr.Feature("float32", (None, 2)), "steps": hr.Feature("int64", (None, None)),
    }  # fmt: skip


@pytest.mark.parametrize("end", ["", ".gz", "@3"])
def test_every_kind_of_feature_comes_back(tmp_path, end):
    path = tmp_path / f"x.tfrecord{end}"
    assert hr.write(path, KINDS) == 6
    source = hr.open(path, schema=schema())
    same(source.batch(range(6)), KINDS)
    assert hr.open(path).schema["dense"].shape == (4,)  # an Example holds flat lists


def test_one_by_one_is_as_in_batches(tmp_path):
    hr.write(tmp_path / "batch.tfrecord", KINDS)
    with hr.Writer(tmp_path / "single.tfrecord") as writer:
        for example in hr.ColumnSource(
            {name: np.array(c, object) if isinstance(c, list) else c for name, c in KINDS.items()}
        ):
            writer.write(example)
        assert writer.count == 0  # examples are written in blocks
    assert writer.count == 6
    assert (tmp_path / "single.tfrecord").read_bytes() == (tmp_path / "batch.tfrecord").read_bytes()


def test_python_values(tmp_path):
    with hr.Writer(tmp_path / "x.tfrecord") as writer:
        writer.write({"x": 0.1, "n": 3, "t": "text", "v": [1, 2, 3], "f": [0.5, 0.1]})
        writer.write({"x": 0.2, "n": 4, "t": "t", "v": [1], "f": [0.25, 1.0]})
    source = hr.open(tmp_path / "x.tfrecord")
    assert source.batch([0, 1])["x"].tolist() == [np.float32(0.1), np.float32(0.2)]
    assert source[0]["v"].tolist() == [1, 2, 3]
    assert source.schema["f"] == hr.Feature("float32", (2,))


def test_float64_is_not_rounded_silently(tmp_path):
    exact, inexact = np.array([0.5, 1.25]), np.array([0.1])
    hr.write(tmp_path / "x.tfrecord", {"x": exact})
    with pytest.raises(
        hr.UnsupportedData, match=r"float64 values that it cannot - at .*y\.tfrecord, record 0, feature 'x'.*astype"
    ):
        hr.write(tmp_path / "y.tfrecord", {"x": inexact})
    assert os.listdir(tmp_path) == ["x.tfrecord"]
    hr.write(tmp_path / "y.tfrecord", {"x": inexact}, schema={"x": hr.Feature("float32")})


@pytest.mark.parametrize(
    "value", [[np.float64(0.1)], [[0.5, np.float64(0.1)]], [[np.array([0.1])]], [[1.5], [0.1, np.float64(0.1)]]]
)
def test_float64_in_lists_is_not_rounded_silently(tmp_path, value):
    for examples in ([{"x": value}], {"x": [value]}):
        with pytest.raises(
            hr.UnsupportedData, match=r"float64 values that it cannot - at .*x\.tfrecord, record 0, feature 'x'"
        ):
            hr.write(tmp_path / "x.tfrecord", examples)


@pytest.mark.parametrize("values", [[0.1, 0.2], [[0.1, 1], [0.2, 2]], [[0.1], []], (0.1, 0.2)])
def test_columns_of_python_floats_are_float32(tmp_path, values):
    hr.write(tmp_path / "x.tfrecord", {"x": values})
    with hr.Writer(tmp_path / "y.tfrecord") as writer:
        writer.write_batch({"x": values})
        writer.write_batch({"x": values})
    assert hr.open(tmp_path / "x.tfrecord").schema["x"].dtype == "float32"
    assert len(hr.open(tmp_path / "y.tfrecord")) == 4
    hr.write(tmp_path / "x.tfrecord@2", {"x": values})
    assert hr.open(tmp_path / "x.tfrecord@2").schema["x"].dtype == "float32"


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
    st.lists(st.floats(width=32), max_size=5),
    st.lists(st.binary(max_size=9), max_size=4),
)
def test_any_values_come_back(tmp_path_factory, ints, floats, texts):
    path = tmp_path_factory.mktemp("w") / "x.tfrecord"
    blobs = np.empty(len(texts), object)
    blobs[:] = texts
    one = np.array([0, 1])
    columns = {
        "i": hr.Ragged(np.array(ints, np.int64), one * len(ints)),
        "f": hr.Ragged(np.array(floats, np.float32), one * len(floats)),
        "t": hr.Ragged(blobs, one * len(texts)),
    }
    hr.write(path, columns)
    back = hr.open(
        path,
        schema={
            "i": hr.Feature("int64", (None,)),
            "f": hr.Feature("float32", (None,)),
            "t": hr.Feature("bytes", (None,)),
        },
    )[0]
    assert back["i"].tolist() == ints
    assert np.array_equal(back["f"], np.array(floats, np.float32), equal_nan=True)
    assert back["t"].tolist() == texts


def test_shards_are_runs_where_the_number_is_known(tmp_path):
    hr.write(tmp_path / "x.tfrecord@3", {"x": np.arange(10)})
    assert [len(hr.open([p])) for p in sorted(tmp_path.iterdir())] == [3, 3, 4]
    assert hr.open(tmp_path / "x.tfrecord@3").batch(range(10))["x"].tolist() == list(range(10))
    hr.write(tmp_path / "y.tfrecord", ({"x": i} for i in range(10)), shards=3)
    assert sorted(hr.open(tmp_path / "y.tfrecord@3").batch(range(10))["x"].tolist()) == list(range(10))
    hr.write(tmp_path / "z.tfrecord@5", {"x": np.arange(2)})  # more shards than examples
    assert len(hr.open(tmp_path / "z.tfrecord@5")) == 2


def test_npy_holds_what_it_can(tmp_path):
    hr.write(tmp_path / "one.npy", {"x": KINDS["dense"]})
    assert np.array_equal(np.load(tmp_path / "one.npy"), KINDS["dense"])
    hr.write(tmp_path / "two.npy", {"x": KINDS["dense"], "y": KINDS["number"]})
    back = hr.open(tmp_path / "two.npy")
    same(back.batch(range(6)), {"x": KINDS["dense"].tolist(), "y": KINDS["number"]})
    assert np.load(tmp_path / "two.npy").dtype.names == ("x", "y")
    for name in ("text", "ids"):
        with pytest.raises(hr.UnsupportedData, match=f"feature '{name}'"):
            hr.write(tmp_path / "no.npy", {name: KINDS[name]})
    with pytest.raises(hr.UnsupportedData, match="gzip"):
        hr.write(tmp_path / "no.npy.gz", {"x": KINDS["dense"]})
    assert sorted(os.listdir(tmp_path)) == ["one.npy", "two.npy"]


def test_mismatches_are_refused_and_leave_nothing(tmp_path):
    path = tmp_path / "x.tfrecord"
    cases = [
        ({"x": np.zeros(3), "y": np.zeros(2)}, None, hr.SchemaMismatch, "equal length"),
        ({"x": np.zeros((2, 3), np.float32)}, {"x": hr.Feature("float32", (4,))}, hr.SchemaMismatch, "shape"),
        ({"x": np.zeros(2, np.float32)}, {"x": hr.Feature("int64")}, hr.SchemaMismatch, "int64 values, found float32"),
        ({"y": np.zeros(2)}, {"x": hr.Feature("float32")}, hr.NoSuchFeature, "'y'"),
        ({"x": np.zeros(2, complex)}, None, hr.UnsupportedData, "complex128"),
        ({"x": [1, 2], "z": ["a", 3]}, None, hr.SchemaMismatch, "z"),
    ]
    for columns, wanted, error, words in cases:
        with pytest.raises(error, match=words):
            hr.write(path, columns, schema=wanted)
    assert os.listdir(tmp_path) == []


def test_an_error_in_the_middle_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError), hr.Writer(tmp_path / "x.tfrecord@2") as writer:
        writer.write_batch({"x": np.arange(5000)})
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
    with pytest.raises(ValueError, match="closed"):
        writer.write({"x": 1})


def test_nothing_is_a_file_too(tmp_path):
    with hr.Writer(tmp_path / "x.tfrecord"):
        pass
    assert (tmp_path / "x.tfrecord").read_bytes() == b""
    assert len(hr.open(tmp_path / "x.tfrecord")) == 0
    assert hr.write(tmp_path / "y.tfrecord", {"x": np.zeros((0, 3), np.float32)}) == 0


def test_names(tmp_path):
    with pytest.raises(hr.UnknownFormat, match="format='tfrecord'"):
        hr.Writer(tmp_path / "x.dat")
    with hr.Writer(tmp_path / "x.dat", format="tfrecord") as writer:
        writer.write({"x": 1})
    assert len(hr.open(tmp_path / "x.dat")) == 1
    with pytest.raises(ValueError, match="8 shards and shards= says 3"):
        hr.Writer(tmp_path / "x.tfrecord@8", shards=3)
    with pytest.raises(hr.UnsupportedData, match="'lz4'"):
        hr.Writer(tmp_path / "x.tfrecord", compression="lz4")


def test_records(tmp_path):
    payloads = [b"", b"a", bytearray(b"bc"), memoryview(b"def")]
    assert hr.write_records(tmp_path / "x.tfrecord", payloads) == 4
    assert [bytes(r) for r in hr.records(tmp_path / "x.tfrecord")] == [bytes(p) for p in payloads]
    hr.write(tmp_path / "y.tfrecord", {"record": [b"p", b"q"]})
    assert [bytes(r) for r in hr.records(tmp_path / "y.tfrecord")] == [b"p", b"q"]
    with pytest.raises(hr.UnsupportedData):
        hr.write_records(tmp_path / "x.npy", payloads)


@pytest.mark.parametrize("name", ["x.tfrecord", "x.array_record", "x.recordio", "x.csv", "x.tfrecord@2"])
@pytest.mark.parametrize(
    ("records", "found"),
    [
        (b"abc", "bytes"),
        (memoryview(b"abc"), "memoryview"),
        ("abc", "str"),
        ({b"k": 1}, "dict"),
        ([b"a", 5], "int"),
        ([b"a", True], "bool"),
        ([b"a", [1, 2]], "list"),
        ([b"a", "b"], "str"),
        ([b"a", np.array([1], object)], "ndarray"),
        (np.arange(3), "int64"),
        ([b"a", None], "NoneType"),
    ],
)
def test_what_is_not_bytes_is_no_record(tmp_path, name, records, found):
    """``bytes(5)`` is five NUL bytes."""
    with pytest.raises(TypeError, match=rf"(found|got) {found}\b.*write|Write one payload as \[payload\]"):
        hr.write_records(tmp_path / name, records)
    assert not list(tmp_path.iterdir())


def test_records_are_dealt_to_all_shards(tmp_path):
    payloads = [bytes([i]) for i in range(7)]
    assert hr.write_records(tmp_path / "x.tfrecord@3", payloads) == 7
    assert len(list(tmp_path.iterdir())) == 3
    assert [bytes(r) for r in hr.records(tmp_path / "x.tfrecord@3")] == payloads[0::3] + payloads[1::3] + payloads[2::3]
    with pytest.raises(ZeroDivisionError):
        hr.write_records(tmp_path / "y.tfrecord@2", (bytes([1 // (2 - i)]) for i in range(4)))
    assert not list(tmp_path.glob("y*"))


@pytest.mark.parametrize("end", ["", "@2"])
def test_sequence_examples_stay_sequence_examples(tmp_path, end):
    golden = hr.open(os.path.join(os.path.dirname(__file__), "..", "golden", "tfrecord", "sequence.tfrecord"))
    hr.write(tmp_path / f"x.tfrecord{end}", golden)
    again = hr.open(tmp_path / f"x.tfrecord{end}")
    assert again.schema == golden.schema
    assert {name for name, feature in again.schema.items() if feature.steps} == {"token", "weight"}
    same(again.batch(range(len(golden))), golden.batch(range(len(golden))))


def test_steps_given_in_a_schema(tmp_path):
    feature = hr.Feature("int64", (None,), steps=True)
    hr.write(tmp_path / "x.tfrecord", [{"x": [1, 2]}, {"x": []}], schema={"x": feature})
    assert hr.open(tmp_path / "x.tfrecord").schema == hr.Schema({"x": feature})
    assert hr.open(tmp_path / "x.tfrecord", schema={"x": feature})[0]["x"].tolist() == [1, 2]


def test_arguments_that_no_writer_takes(tmp_path):
    with pytest.raises(ValueError, match="codec must be 'example', 'sagemaker_record' or 'raw', got 'json'"):
        hr.write(tmp_path / "x.tfrecord", {"x": [1]}, codec="json")
    with pytest.raises(ValueError, match="shards must be at least 1, got 0"):
        hr.write(tmp_path / "x.tfrecord@0", {"x": [1]})
    assert list(tmp_path.iterdir()) == []


def test_a_writer_is_closed_once_and_says_what_it_wrote(tmp_path):
    path = tmp_path / "x.tfrecord"
    writer = hr.Writer(path)
    writer.write_batch({"x": np.arange(3)})
    assert repr(writer) == f"<Writer of {path}: 3 examples>"
    writer.close()
    whole = path.read_bytes()
    path.unlink()
    writer.close()
    assert not path.exists()
    path.write_bytes(whole)
    assert len(hr.open(path)) == 3


TEXTS = {
    "even": [["a", "b"], ["ccc", "d"]],
    "uneven": [["a", "b"], ["ccc"], []],
    "arrays": [np.array(["a", "bcd"]), np.array(["", "e"])],
    "bytes": [[b"a", b"b\0"], [b"", b"c"]],
}
FORMATS_OF_TEXT = ["parquet", "jsonl", "avro", "tfrecord", "array_record", "recordio"]


@pytest.mark.parametrize("end", FORMATS_OF_TEXT)
@pytest.mark.parametrize("kind", list(TEXTS))
def test_lists_of_text_are_text(tmp_path, kind, end):
    """Also texts that are longer than the first 1,024."""
    values = TEXTS[kind] * 400 + [[str(one) * 5 if kind != "bytes" else one * 5 for one in TEXTS[kind][0]]]
    path = tmp_path / f"x.{end}"
    if kind == "bytes" and end == "jsonl":
        with pytest.raises(UnsupportedData, match="JSON has no bytes"):
            hr.write(path, [{"k": value} for value in values])
        return
    hr.write(path, [{"k": value} for value in values])
    assert hr.open(path).schema["k"].dtype == ("bytes" if kind == "bytes" else "str")
    assert [example["k"].to_list() for example in hr.open(path)] == [list(value) for value in values]


@pytest.mark.parametrize("end", FORMATS_OF_TEXT)
@pytest.mark.parametrize("schema", [None, {"k": hr.Feature("str", (2, 2))}])
def test_lists_of_lists_of_text_keep_nuls_at_their_end(tmp_path, schema, end):
    values = [[["a\0", "b"], ["\0\0", "c"]], [["d", "e"], ["f", "g"]]]
    path = tmp_path / f"x.{end}"
    for examples in ([{"k": value} for value in values], {"k": values}):
        hr.write(path, examples, schema=schema)
        source = hr.open(path, schema={"k": hr.Feature("str", (2, 2))})
        assert source.batch([0, 1])["k"].to_list() == values


@pytest.mark.parametrize("end", FORMATS_OF_TEXT)
@pytest.mark.parametrize("value", [[["a", 1]], [[1.5, "x"]], [["a", b"b"]]])
def test_lists_of_lists_that_mix_text_and_other_values_are_refused(tmp_path, value, end):
    with pytest.raises(hr.SchemaMismatch, match=r"expected (text|bytes), as before, found .* record 0, feature 'k'"):
        hr.write(tmp_path / f"x.{end}", [{"k": value}])


@pytest.mark.parametrize("end", ["parquet", "tfrecord"])
def test_lists_of_text_that_a_function_makes(tmp_path, end):
    source = hr.ColumnSource({"t": hr.Strings.from_values(["a", "dddd"])}).map(lambda e: {"k": [e["t"]] * 2})
    hr.write(tmp_path / f"x.{end}", source)
    assert [example["k"].to_list() for example in hr.open(tmp_path / f"x.{end}")] == [["a", "a"], ["dddd", "dddd"]]
    assert source.to_arrow()["k"].to_pylist() == [["a", "a"], ["dddd", "dddd"]]


def test_arrays_of_text_stay_arrays_where_a_format_holds_them(tmp_path):
    for name in ("x.npz", "x.npy", "x.tar"):
        hr.write(tmp_path / name, [{"k": ["a", "bcd"]}])
        assert next(iter(hr.open(tmp_path / name).schema.values())) == hr.Feature("U3", (2,))


class Several(list):
    """Neither a plain list nor an array."""


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


CHANGING = {
    "array": (np.zeros(3, np.float32), lambda value, k: value.fill(k)),
    "view": (np.zeros((2, 3))[:, ::2], lambda value, k: value.fill(k)),
    "masked": (np.ma.array([0.0, 0.0]), lambda value, k: value.fill(k)),
    "list": ([0, 0], lambda value, k: value.__setitem__(0, k)),
    "lists": ([[0], [1]], lambda value, k: value[1].__setitem__(0, k)),
    "texts": (["", "b"], lambda value, k: value.__setitem__(0, f"{k}")),
    "objects": (np.array(["", "b"], object), lambda value, k: value.__setitem__(0, f"{k}")),
    "bytearray": (bytearray(2), lambda value, k: value.__setitem__(0, k)),
    "memoryview": (memoryview(bytearray(2)), lambda value, k: value.__setitem__(0, k)),
    "array.array": (array("d", [0, 0]), lambda value, k: value.__setitem__(0, k)),
    "deque": (deque([0, 1, 2], maxlen=3), lambda value, k: value.append(k)),
    "deque of arrays": (deque([np.zeros(2), np.ones(2)]), lambda value, k: value[1].fill(k)),
    "UserList": (UserList([0, 1]), lambda value, k: value.__setitem__(0, k)),
    "subclass of list": (Several([0, 1]), lambda value, k: value.__setitem__(0, k)),
    "namedtuple": (Pair(np.zeros(1), np.ones(1)), lambda value, k: value.second.fill(k)),
    "ragged": (hr.Ragged.from_list([[0], [1, 2]]), lambda value, k: value.values.fill(k)),
}


@pytest.mark.parametrize("kind", CHANGING)
def test_values_may_change_once_they_are_written(tmp_path, kind):
    value, change = CHANGING[kind]
    with hr.Writer(tmp_path / "again.parquet") as again, hr.Writer(tmp_path / "apart.parquet") as apart:
        for k in range(4):
            change(value, k)
            again.write({"x": value})
            apart.write({"x": copy.deepcopy(value) if kind != "memoryview" else memoryview(bytearray(value))})
    found, expected = (hr.open(tmp_path / f"{name}.parquet").batch(range(4))["x"] for name in ("again", "apart"))
    same({"x": found}, {"x": expected})
    first, last = (row.to_list() if isinstance(row, hr.Ragged) else list(row) for row in (found[0], found[3]))
    assert str(first) != str(last)


class Blob(bytes):
    """As classes of databases and of hexadecimal text."""


def test_bytes_of_a_subclass_stay_bytes(tmp_path):
    examples = [{"x": Blob(b"x\0")}, {"x": Blob(b"")}]
    hr.write(tmp_path / "list.tfrecord", examples)
    hr.write(tmp_path / "generator.tfrecord", iter(examples))
    assert (tmp_path / "list.tfrecord").read_bytes() == (tmp_path / "generator.tfrecord").read_bytes()
    for source in (hr.open(tmp_path / "generator.tfrecord"), hr.from_generator(lambda: iter(examples))):
        assert source.schema["x"].dtype == "bytes"
        assert source.batch([0, 1])["x"].tolist() == [b"x\0", b""]


def test_tensors_may_change_once_they_are_written(tmp_path):
    torch = pytest.importorskip("torch")
    value = torch.zeros(3)
    with hr.Writer(tmp_path / "x.tfrecord") as writer:
        for k in range(3):
            value.fill_(k)
            writer.write({"x": value})
    assert hr.open(tmp_path / "x.tfrecord").batch(range(3))["x"][:, 0].tolist() == [0, 1, 2]


class Again:
    """One dict for all examples, as a loop over a cursor gives it."""

    def __len__(self):
        return 6

    def __iter__(self):
        example = {"x": np.zeros(2)}
        for k in range(6):
            example["k"] = k
            example["x"][:] = k
            yield example


@pytest.mark.parametrize("end", ["", "@2"])
@pytest.mark.parametrize("make", [Again, lambda: iter(Again())])
def test_one_dict_for_all_examples(tmp_path, make, end):
    hr.write(tmp_path / f"x.npz{end}", make())
    files = hr.open(tmp_path / f"x.npz{end}")
    batch = files.batch(range(6))
    assert sorted(batch["k"].tolist()) == [0, 1, 2, 3, 4, 5]
    assert batch["x"][:, 1].tolist() == batch["k"].tolist()


@pytest.mark.parametrize(
    "name", ["x.parquet", "x.npz", "x.npy", "x.csv", "x.avro", "x.jsonl", "x.tfrecord", "x.array_record", "x.tar"]
)
def test_batches_may_change_once_they_are_written(tmp_path, name):
    given = {"x": hr.Feature("float32", (3,)), "k": hr.Feature("int64")}
    x, k = np.zeros((5, 3), np.float32), np.zeros(5, np.int64)
    with hr.Writer(tmp_path / name, schema=given) as writer:
        for value in range(3):
            x[:] = k[:] = value
            writer.write_batch({"x": x, "k": k})
            x[:] = k[:] = 9
    batch = hr.open(tmp_path / name, schema=given).batch(range(15))
    assert batch["k"].tolist() == batch["x"][:, 2].tolist() == [0] * 5 + [1] * 5 + [2] * 5


@pytest.mark.parametrize("bad", [{"a": "x"}, {"a": 300}, {"b": 1}])
@pytest.mark.parametrize("end", [".tfrecord", ".parquet", ".tfrecord@2"])
def test_a_writer_that_failed_writes_nothing(tmp_path, bad, end):
    hr.write(tmp_path / f"x{end}", {"a": np.arange(4)})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    writer = hr.Writer(tmp_path / f"x{end}", schema={"a": hr.Feature("int8")})
    skipped = 0
    for k in range(3000):
        try:
            writer.write({"a": 1} if k != 100 else bad)
        except hr.DataError:
            skipped += 1
        except ValueError as error:
            assert "storing examples failed" in str(error)
    assert skipped == 1  # in a later call: examples are stored many at a time
    with pytest.raises(ValueError, match=r"x.tfrecord|x.parquet") as caught:
        writer.close()
    assert ("features" if "b" in bad else "found") in str(caught.value)
    with pytest.raises(ValueError, match="storing examples failed"):
        writer.write_batch({"a": np.arange(3)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    writer.abort()
    writer.close()


def test_closing_after_closing_failed_is_an_error(tmp_path):
    writer = hr.Writer(tmp_path / "x.tfrecord")
    writer.write({"x": 1})
    writer.write({"x": "b"})
    with pytest.raises(SchemaMismatch):
        writer.close()
    for _ in range(2):
        with pytest.raises(ValueError, match="SchemaMismatch.*write all of them again"):
            writer.close()
    writer.abort()
    writer.close()
    assert not list(tmp_path.iterdir())


def test_no_part_of_a_refused_batch_is_written(tmp_path):
    rows = np.zeros(400_000, np.int64)
    rows[-1] = 1000
    writer = hr.Writer(tmp_path / "x.tfrecord", schema={"x": hr.Feature("int8")})
    with pytest.raises(SchemaMismatch, match="found 1000"):
        writer.write_batch({"x": rows})
    with pytest.raises(ValueError, match="SchemaMismatch.*found 1000"):
        writer.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("end", ["tfrecord", "parquet"])
@pytest.mark.parametrize("values", [[[1, 2], [1, 2], [1], [1, 2, 3]], [1, 2, 0.5, 3], [[0.1], [0.2], [], [0.3]]])
def test_shards_of_a_list_have_one_schema(tmp_path, end, values):
    examples = [{"a": value} for value in values]
    hr.write(tmp_path / f"one.{end}", examples)
    hr.write(tmp_path / f"two.{end}@2", examples)
    one, two = hr.open(tmp_path / f"one.{end}"), hr.open(tmp_path / f"two.{end}@2")
    assert one.schema == two.schema
    same(two.batch(range(4)), one.batch(range(4)))


def test_shards_of_columns_have_one_schema(tmp_path):
    images = [np.full((size, size, 3), size, np.uint8) for size in (2, 2, 3, 4)]
    hr.write(tmp_path / "x.parquet@2", {"image": images})
    assert [len(image) for image in hr.open(tmp_path / "x.parquet@2")["image"]] == [2, 2, 3, 4]


class Announces:
    def __init__(self, says, gives):
        self.says, self.gives = says, gives

    def __len__(self):
        return self.says

    def __iter__(self):
        return ({"a": k} for k in range(self.gives))


@pytest.mark.parametrize(("says", "gives"), [(10, 7), (7, 10), (0, 3), (3, 0)])
@pytest.mark.parametrize("end", ["", "@2", "@5"])
def test_a_wrong_length_loses_nothing(tmp_path, says, gives, end):
    assert hr.write(tmp_path / f"x.tfrecord{end}", Announces(says, gives)) == gives
    assert len(hr.open(tmp_path / f"x.tfrecord{end}")) == gives
    if gives:
        assert hr.open(tmp_path / f"x.tfrecord{end}").batch(range(gives))["a"].tolist() == list(range(gives))


def test_the_home_folder_is_that_of_reading(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    hr.write("~/x.npz@2", {"a": np.arange(3)})
    hr.convert("~/x.npz@2", "~/y.csv")
    hr.write_records("~/z.tfrecord", [b"a"])
    with hr.Writer("~/w.tfrecord") as writer:
        writer.write({"a": 1})
    hr.write(
        "~/images",
        {"image": np.zeros((2, 3, 3, 3), np.uint8)},
        format="image_folder",
        schema={"image": hr.Feature("uint8", (None, None, 3), encoding="png")},
    )
    hr.open("~/y.csv").map(dict).cache("~/cache", key="1")
    names = {"x.npz-00000-of-00002", "x.npz-00001-of-00002", "y.csv", "z.tfrecord", "w.tfrecord", "images", "cache"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert [len(hr.open(f"~/{name}")) for name in ("x.npz@2", "y.csv", "w.tfrecord", "images")] == [3, 3, 1, 2]


@pytest.mark.parametrize("end", FORMATS_OF_TEXT)
@pytest.mark.parametrize(
    ("feature", "value"),
    [
        (hr.Feature("float32", (None, 4)), [[0.5, 1.0, 2.0, 3.0]]),
        (hr.Feature("int64", (None, None)), [[1, 2]]),
        (hr.Feature("int64", (None, 2), steps=True), [[1, 2]]),
        (hr.Feature("str", (None, 2)), [["a", "b"]]),
    ],
)
def test_rows_without_values_have_the_axes_of_the_schema(tmp_path, feature, value, end):
    """Also where all 1,024 examples that are stored together have none."""
    path, schema = tmp_path / f"x.{end}", {"x": feature}
    for values in ([[]] * 1024 + [value], [value] * 1024 + [[]], [[]], [[], value]):
        hr.write(path, [{"x": each} for each in values], schema=schema)
        source = hr.open(path, schema=schema)
        assert [
            each["x"].to_list() if hasattr(each["x"], "to_list") else each["x"].tolist() for each in source
        ] == values
    hr.write(tmp_path / f"y.{end}@2", [{"x": []}, {"x": value}], schema=schema)
    hr.write(path, {"x": [[], []]}, schema=schema)
    assert len(hr.open(path, schema=schema)) == 2


@pytest.mark.parametrize(
    "name", ["x.tfrecord", "x.recordio", "x.npz", "x.csv", "x.parquet", "x.tar", "x.array_record@2"]
)
def test_examples_without_features_are_refused_where_their_number_is_lost(tmp_path, name):
    (tmp_path / "in.jsonl").write_text("{}\n{}\n")
    for write in (hr.write, lambda path, _: hr.convert(tmp_path / "in.jsonl", path)):
        with pytest.raises(hr.UnsupportedData, match="examples with features"):
            write(tmp_path / name, [{}, {}])
    assert os.listdir(tmp_path) == ["in.jsonl"]
    assert hr.write(tmp_path / name, []) == 0


@pytest.mark.parametrize("name", ["x.jsonl", "x.avro"])
def test_examples_without_features_are_kept(tmp_path, name):
    assert hr.write(tmp_path / name, [{}, {}]) == 2
    assert list(hr.open(tmp_path / name)) == [{}, {}]
    assert hr.convert(tmp_path / name, tmp_path / "y.avro").examples == 2
    assert len(hr.open(tmp_path / "y.avro")) == 2
    assert hr.verify(tmp_path / name).records == 2


def test_buffers_are_written_as_bytes(tmp_path):
    path, buffer = tmp_path / "x.tfrecord", bytearray(b"a\xff")
    with hr.Writer(path, schema={"a": hr.Feature("bytes")}) as writer:
        writer.write({"a": buffer})
        buffer[0] = ord("b")
        writer.write({"a": buffer})
    assert [example["a"] for example in hr.open(path)] == [b"a\xff", b"b\xff"]
    hr.write(tmp_path / "y.tfrecord", ({"a": record} for record in hr.records(path)))
    assert [example["a"] for example in hr.open(tmp_path / "y.tfrecord")] == [bytes(each) for each in hr.records(path)]


@pytest.mark.parametrize("name", ["x.parquet", "x.tfrecord", "x.jsonl"])
@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (dt.datetime(2024, 1, 1), r"found datetime .* Convert it: numpy\.datetime64\(value\) is a time"),  # noqa: DTZ001
        (dt.date(2024, 1, 1), r"found date .* Convert it: numpy\.datetime64\(value\) is a day"),
        (dt.timedelta(3), r"Convert it: numpy\.timedelta64\(value\)"),
        (Decimal("1.5"), r"Convert it: float\(value\) is a number"),
        ({1, 2}, r"Convert it: sorted\(value\) is a list"),
        (PurePosixPath("p"), r"found PurePosixPath .* Convert it: str\(value\)"),
        ([PurePosixPath("p"), PurePosixPath("q")], r"found PurePosixPath .* Convert it: str\(value\)"),
    ],
)
def test_objects_are_refused_with_advice(tmp_path, name, value, advice):
    with pytest.raises(SchemaMismatch, match=rf"{advice}") as error:
        hr.write(tmp_path / name, [{"a": value}])
    assert "at record 0, feature 'a'" in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x.tfrecord", "x.parquet", "x.npy", "x.tfrecord@2"])
@pytest.mark.parametrize(
    ("feature", "good", "bad"),
    [
        (hr.Feature("int64"), 1, 1.5),
        (hr.Feature("int8"), 1, 300),
        (hr.Feature("int64", (2,)), [1, 2], [1, 2.5]),
        (hr.Feature("uint8", (2,)), [1, 2], np.array([1, -1])),
    ],
)
def test_the_example_that_does_not_fit_is_named(tmp_path, name, feature, good, bad):
    """One float makes floats of a whole column of integers."""
    with (
        pytest.raises(SchemaMismatch, match=rf"expected {feature.dtype} values, found {re.escape(repr(bad))}") as error,
        hr.Writer(tmp_path / name, schema={"a": feature}) as writer,
    ):
        for row in range(1100):
            writer.write({"a": bad if row == 1037 else good})
    assert (error.value.where.record, error.value.where.feature) == (1037, "a")
    assert error.value.hint


def test_a_folder_in_the_place_of_a_file(tmp_path):
    (tmp_path / "x.tfrecord").mkdir()
    with pytest.raises(UnsupportedData, match="expected a file to write tfrecord to, found a folder of that name"):
        hr.write(tmp_path / "x.tfrecord", [{"a": 1}])
    assert [each.name for each in tmp_path.iterdir()] == ["x.tfrecord"]


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_a_json_array(tmp_path, name):
    (tmp_path / name).write_text('[{"a": 1}, {"a": 2}]')
    with pytest.raises(
        hr.DataError, match=r"one JSON array, hr\.write\('x\.jsonl', json\.load\(file\)\) makes lines of it"
    ):
        hr.open(tmp_path / name)
