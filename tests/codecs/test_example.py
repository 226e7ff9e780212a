"""ExampleCodec: payloads to columns of every kind and back, and errors for mismatches."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import tfrecord
from tests.reference.tf_example_wire import BYTES_LIST, FLOAT_LIST, INT64_LIST, example

import headrace as hr
from headrace import _native
from headrace.codecs.example.codec import ExampleCodec
from headrace.codecs.infer import infer_payloads
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged
from headrace.errors import CorruptRecord, NoSuchFeature, SchemaMismatch, UnsupportedData

GOLDEN = Path(__file__).parents[1] / "golden" / "tfrecord"


def spans(*payloads):
    return _native.spans_of_buffers(payloads)


def codec(lists=(), shared=(), **features):
    return ExampleCodec(Schema(features), lists=frozenset(lists), shared=frozenset(shared))


def payloads_of(codec, batch, n, head=12, tail=4):
    block, starts, sizes = codec.encode_batch(batch, n, head, tail)
    return [bytes(block[start : start + size]) for start, size in zip(starts, sizes, strict=True)]


def ints(*values):
    return INT64_LIST, list(values)


def floats(*values):
    return FLOAT_LIST, list(values)


def texts(*values):
    return BYTES_LIST, list(values)


def test_values_in_batches_and_examples():
    schema = {
        "scalar": Feature("int64"),
        "vector": Feature("float32", (3,)),
        "matrix": Feature("float32", (2, 2)),
        "some": Feature("int64", (None,)),
        "rows": Feature("float32", (None, 2)),
        "blob": Feature("bytes"),
        "blobs": Feature("bytes", (2,)),
        "text": Feature("str"),
        "words": Feature("str", (None,)),
    }
    payload = example(
        {
            "scalar": ints(7),
            "vector": floats(1, 2, 3),
            "matrix": floats(1, 2, 3, 4),
            "some": ints(5, -6),
            "rows": floats(1, 2, 3, 4),
            "blob": texts(b"\xff\x00"),
            "blobs": texts(b"a", b"b\x00"),
            "text": texts("ü".encode()),
            "words": texts(b"x", b"yz"),
        }
    )
    empty = example(
        {
            "scalar": ints(8),
            "vector": floats(0, 0, 0),
            "matrix": floats(0, 0, 0, 0),
            "blob": texts(b""),
            "blobs": texts(b"", b""),
            "text": texts(b""),
        }
    )
    batch = codec(**schema).decode_batch(spans(payload, empty))
    assert list(batch) == list(schema)
    for name, shape, dtype in [
        ("scalar", (2,), "int64"),
        ("vector", (2, 3), "float32"),
        ("matrix", (2, 2, 2), "float32"),
        ("blob", (2,), "object"),
        ("blobs", (2, 2), "object"),
        ("text", (2,), "object"),
    ]:
        assert (batch[name].shape, batch[name].dtype.name) == (shape, dtype)
    assert batch["matrix"][0].tolist() == [[1, 2], [3, 4]]
    assert batch["some"].to_list() == [[5, -6], []]
    assert batch["rows"].to_list() == [[[1, 2], [3, 4]], []]
    assert batch["blobs"].tolist() == [[b"a", b"b\x00"], [b"", b""]]
    assert batch["words"].to_list() == [["x", "yz"], []]

    one = codec(**schema).decode(payload)
    assert type(one["scalar"]) is np.int64
    assert one["blob"] == b"\xff\x00"
    assert one["text"] == "ü"
    assert one["rows"].tolist() == [[1, 2], [3, 4]]
    assert one["words"].tolist() == ["x", "yz"]


def test_feature_lists():
    lists = {"a": [ints(1, 2), ints(), ints(3)], "b": [floats(1.5), floats(2.5)], "w": [texts(b"x", b""), texts()]}
    payload = example({"a": texts(b"context"), "n": ints(2)}, lists)
    schema = {
        "a": Feature("int64", (None, None)),
        "b": Feature("float32", (None,)),
        "w": Feature("str", (None, None)),
        "context/a": Feature("bytes"),
        "n": Feature("int64"),
    }
    both = codec(lists=["a", "b", "w"], **schema)
    batch = both.decode_batch(spans(payload, example({"a": texts(b""), "n": ints(0)}, {})))
    assert batch["a"].to_list() == [[[1, 2], [], [3]], []]
    assert batch["b"].to_list() == [[1.5, 2.5], []]
    assert batch["w"].to_list() == [[["x", ""], []], []]
    assert batch["context/a"].tolist() == [b"context", b""]
    assert both.decode(payload)["a"].to_list() == [[1, 2], [], [3]]
    lists_ordered = {"a": lists["a"], "b": lists["b"], "w": lists["w"]}
    assert payloads_of(both, both.decode_batch(spans(payload)), 1) == [
        example({"a": texts(b"context"), "n": ints(2)}, lists_ordered)
    ]


def test_a_narrowed_or_pickled_codec_keeps_what_it_knows():
    payload = example({"a": ints(1), "b": ints(2)}, {"a": [ints(3)]})
    both = codec(lists=["a"], a=Feature("int64", (None,)), **{"context/a": Feature("int64"), "b": Feature("int64")})
    one = both.narrowed(("context/a",))
    for same in (one, pickle.loads(pickle.dumps(one)), one.narrowed(("context/a",))):
        assert same.decode(payload) == {"context/a": 1}
    assert both.narrowed(("b", "a")).decode(payload) == {"b": 2, "a": np.array([3])}
    with pytest.raises(NoSuchFeature):
        both.narrowed(("c",))


def test_unselected_arrays_are_not_read():
    payload = example({"a": ints(1), "b": texts(b"x")}).replace(b"\x0a\x03\x0a\x01x", b"\x0a\x03\x0a\x7fx")
    assert codec(a=Feature("int64")).decode(payload) == {"a": 1}
    with pytest.raises(CorruptRecord):
        codec(b=Feature("bytes")).decode(payload)


def test_no_records_and_no_features():
    empty = codec(a=Feature("int64", (2,)), b=Feature("str", (None,)), c=Feature("int64", (None, None))).decode_batch(
        spans()
    )
    assert empty["a"].shape == (0, 2)
    assert empty["b"].to_list() == empty["c"].to_list() == []
    assert codec().decode_batch(spans(example({"a": ints(1)}))) == {}
    assert payloads_of(codec(), {}, 2) == [b"\x0a\x00"] * 2


def test_keys_in_another_order_in_every_record():
    """The decoder guesses that keys come in the order of the previous record; a wrong guess may only cost time."""
    names = [f"k{i}" for i in range(7)]
    rng = np.random.default_rng(3)
    payloads = []
    for record in range(50):
        entries = [example({name: ints(record * 10 + i)})[2:] for i, name in enumerate(names)]
        kept = [entries[i] for i in rng.permutation(7)]
        body = b"".join(kept)
        payloads.append(b"\x0a" + bytes([len(body)]) + body)
    batch = codec(**{name: Feature("int64") for name in names}).decode_batch(spans(*payloads))
    for i, name in enumerate(names):
        assert batch[name].tolist() == [record * 10 + i for record in range(50)]


def test_a_key_in_the_context_of_one_record_and_in_the_lists_of_the_next():
    both = codec(lists=["a"], a=Feature("int64", (None,)), **{"context/a": Feature("int64", (None,))})
    batch = both.decode_batch(spans(example({"a": ints(1)}), example({}, {"a": [ints(2)]}), example({"a": ints(3)})))
    assert batch["a"].to_list() == [[], [2], []]
    assert batch["context/a"].to_list() == [[1], [], [3]]


def test_columns_outlive_the_payloads():
    payload = bytearray(example({"a": texts(b"abc"), "n": floats(1, 2)}))
    batch = codec(a=Feature("bytes"), n=Feature("float32", (None,))).decode_batch(spans(payload))
    payload[:] = bytes(len(payload))
    del payload
    assert batch["a"].tolist() == [b"abc"]
    assert batch["n"].to_list() == [[1, 2]]


def test_large_bytes():
    """More than a megabyte at once is copied without the GIL."""
    rng = np.random.default_rng(5)
    values = [rng.bytes(size) for size in (0, 1, 700_000, 1, 800_000)]
    payloads = [example({"a": texts(value)}) for value in values]
    assert codec(a=Feature("bytes")).decode_batch(spans(*payloads))["a"].tolist() == values


def test_defaults():
    schema = {
        "i": Feature("int64", default=-1),
        "v": Feature("float32", (2,), default=0.5),
        "m": Feature("uint8", (2, 2), default=[[1, 2], [3, 4]]),
        "s": Feature("str", default="ü"),
        "b": Feature("bytes", (2,), default=b"x"),
        "e": Feature("float16", (0,), default=[]),
    }
    batch = codec(**schema).decode_batch(
        spans(b"", example({"i": ints(3), "s": texts(b"here")}), example({"i": (0, [])}))
    )
    assert batch["i"].tolist() == [-1, 3, -1]
    assert batch["v"].tolist() == [[0.5, 0.5]] * 3
    assert batch["m"].tolist() == [[[1, 2], [3, 4]]] * 3
    assert batch["s"].tolist() == ["ü", "here", "ü"]
    assert batch["b"].tolist() == [[b"x", b"x"]] * 3
    assert batch["e"].shape == (3, 0)


def test_an_empty_list_is_not_a_missing_feature():
    with pytest.raises(SchemaMismatch, match="expected 1 values, found 0 - at record 0, feature 'i'"):
        codec(i=Feature("int64", default=1)).decode(example({"i": ints()}))
    assert codec(i=Feature("int64", (0,))).decode(example({"i": ints()}))["i"].shape == (0,)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool", "float64", "float16", "uint64", "int8"])
def test_other_dtypes_come_and_go(dtype):
    kind = np.dtype(dtype).kind
    values = [0, 1, 1] if kind == "b" else [0, 7, 100]
    stored = floats(*values) if kind == "f" else ints(*values)
    payload = example({"a": stored})
    for shape in [(3,), (None,)]:
        one = codec(a=Feature(dtype, shape))
        value = one.decode(payload)["a"]
        assert (value.dtype.name, value.tolist()) == (dtype, values)
        assert payloads_of(one, one.decode_batch(spans(payload)), 1) == [payload]


def test_the_upper_half_of_uint64():
    one = codec(a=Feature("uint64"))
    payload = example({"a": ints(-1)})
    assert one.decode(payload)["a"] == 2**64 - 1
    assert payloads_of(one, {"a": np.array([2**64 - 1], np.uint64)}, 1) == [payload]


@pytest.mark.parametrize(
    ("feature", "lists", "bad"),
    [
        (Feature("uint8", (2,)), {}, ints(3, 256)),
        (Feature("uint8", (None,)), {}, ints(3, 3, -1)),
        (Feature("bool", (None,)), {}, ints(2)),
        (Feature("float16", (None,)), {}, floats(1e6)),
        (Feature("str", (2,)), {}, texts(b"a", b"\xff")),
        (Feature("str", (None,)), {}, texts(b"\xff")),
    ],
)
def test_values_outside_the_dtype_name_their_record(feature, lists, bad):
    kind, values = bad
    good = (kind, values[:1] * 2) if feature.dtype == "uint8" else (kind, [b"a"] * 2 if kind == 1 else [1] * 2)
    many = [example({"a": good})] * 5
    many[3] = example({"a": bad})
    with pytest.raises(SchemaMismatch) as caught:
        codec(a=feature).decode_batch(spans(*many))
    assert (caught.value.where.record, caught.value.where.feature) == (3, "a")


@pytest.mark.parametrize("shape", [(None,), (None, 2), (None, None)])
def test_values_outside_the_dtype_in_feature_lists_name_their_record(shape):
    per_step = 2 if shape == (None, 2) else 1
    good = example({}, {"a": [ints(*[1] * per_step)] * 4})
    bad = example({}, {"a": [ints(*[1] * per_step), ints(*[1] * (per_step - 1), 256)]})
    with pytest.raises(SchemaMismatch) as caught:
        codec(lists=["a"], a=Feature("uint8", shape)).decode_batch(spans(good, example({}, {}), bad))
    assert caught.value.where.record == 2


def test_infinities_and_nan_fit_every_float():
    payload = example({"a": floats(float("inf"), float("-inf"), float("nan"))})
    value = codec(a=Feature("float16", (3,))).decode(payload)["a"]
    assert np.isinf(value[:2]).all()
    assert np.isnan(value[2])


def test_whole_numbers_and_floats_under_one_name():
    one = ExampleCodec(Schema({"x": Feature("float64", (None,))}), mixed=frozenset({"x"}))
    batch = one.decode_batch(spans(example({"x": ints(3, 2**53)}), example({"x": floats(0.5)})))
    assert batch["x"].to_list() == [[3.0, 2.0**53], [0.5]]
    with pytest.raises(SchemaMismatch):
        one.decode(example({"x": ints(2**53 + 1)}))


@pytest.mark.parametrize(
    ("feature", "stored", "message"),
    [
        (Feature("int64"), floats(1), "expected int64 values, found float32"),
        (Feature("int64", (None,)), floats(), "expected int64 values, found float32"),
        (Feature("bytes"), ints(1), "expected bytes values, found int64"),
        (Feature("float32", (2,)), floats(1, 2, 3), "expected 2 values, found 3"),
        (Feature("bytes", (2,)), texts(b""), "expected 2 values, found 1"),
        (Feature("float32", (None, 2)), floats(1, 2, 3), "expected a multiple of 2 values, found 3"),
        (Feature("int64"), (0, []), "expected a value, found none in this record"),
    ],
)
def test_values_that_contradict_the_schema(feature, stored, message):
    good = example({"b": ints(1), "a": (2, [1, 2]) if feature.shape == (None, 2) else (0, [])})
    bad = example({"b": ints(1), "a": stored})
    one = codec(b=Feature("int64"), a=feature)
    records = [good] * 2 + [bad] if not feature.is_fixed and stored[0] == 2 and stored[1] else [bad]
    with pytest.raises(SchemaMismatch) as caught:
        one.decode_batch(spans(*records))
    assert str(caught.value).startswith(f"{message} - at record {len(records) - 1}, feature 'a'.")


def test_the_first_bad_record_is_reported():
    """The same error whether native code or a later check finds it, and whichever feature comes first."""
    good, no_text, not_small = ({"a": ints(1), "b": texts(b"x")} for _ in range(3))
    no_text = {"a": ints(1), "b": texts(b"\xff")}
    not_small = {"a": ints(999), "b": texts(b"x")}
    kinds = {
        "text": example(no_text),
        "small": example(not_small),
        "wire": b"\x0a\x7f",
        "kind": example({"a": floats(1)}),
    }
    one = codec(a=Feature("uint8"), b=Feature("str"))
    for first, second in [("text", "small"), ("small", "text"), ("text", "wire"), ("small", "kind"), ("wire", "text")]:
        records = [example(good)] * 6
        records[2], records[4] = kinds[first], kinds[second]
        faults = one.faults_in(spans(*records))
        assert [fault.where.record for fault in faults] == [2, 4]
        with pytest.raises(type(faults[0])) as caught:
            one.decode_batch(spans(*records))
        assert str(caught.value) == str(faults[0])


def test_a_fault_names_the_byte_and_a_checksum_the_record():
    payload = example({"a": ints(1)})
    with pytest.raises(CorruptRecord, match=r"at record 1, byte 0x2\."):
        codec(a=Feature("int64")).decode_batch(spans(payload, payload[:-1]))
    raw = bytearray(tfrecord.framed(payload) * 3)
    raw[-7] ^= 1
    starts = tfrecord.read(tfrecord.framed(payload) * 3)[0]
    held = _native.gather_tfrecord([raw], None, np.array(starts), verify=True)
    with pytest.raises(CorruptRecord, match=r"expected payload checksum 0x\w+, found 0x\w+ - at record 2\."):
        codec(a=Feature("int64")).decode_batch(held)


@pytest.mark.parametrize(
    "feature",
    [
        Feature("float32", (2, None)),
        Feature("float32", (None, None, None)),
        Feature("float32", (None, 0)),
        Feature("float32", (9,), sparse=True),
        Feature("complex64"),
        Feature("M8[s]"),
        Feature("int64", (None,), default=3),
    ],
)
def test_features_that_examples_cannot_hold(feature):
    with pytest.raises(UnsupportedData):
        codec(a=feature)


def test_a_feature_list_has_steps():
    with pytest.raises(SchemaMismatch, match="begins with None"):
        codec(lists=["a"], a=Feature("int64", (3,)))


def test_no_memory_is_taken_for_a_count_that_no_payload_holds():
    with pytest.raises(SchemaMismatch, match=f"expected {2**61} values, found 1"):
        codec(a=Feature("int64", (2**61,))).decode(example({"a": ints(1)}))


COLUMNS = st.fixed_dictionaries(
    {
        "i": st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=3),
        "f": st.lists(st.floats(width=32), min_size=6, max_size=6),
        "ri": st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=4), min_size=3, max_size=3),
        "rf": st.lists(st.lists(st.floats(width=32), max_size=4), min_size=3, max_size=3),
        "b": st.lists(st.binary(max_size=200), min_size=3, max_size=3),
        "rs": st.lists(st.lists(st.text(max_size=3), max_size=3), min_size=3, max_size=3),
        "ll": st.lists(st.lists(st.lists(st.integers(0, 300), max_size=3), max_size=3), min_size=3, max_size=3),
    }
)


def ragged(rows, dtype):
    flat = np.empty(sum(map(len, rows)), dtype)
    flat[:] = [value for row in rows for value in row]
    return Ragged(flat, np.cumsum([0, *map(len, rows)]))


@given(COLUMNS)
def test_encoded_bytes_are_canonical_and_come_back(rows):
    schema = {
        "i": Feature("int64"),
        "f": Feature("float32", (2,)),
        "ri": Feature("int64", (None,)),
        "rf": Feature("float32", (None,)),
        "b": Feature("bytes"),
        "rs": Feature("str", (None,)),
        "ll": Feature("int64", (None, None)),
    }
    steps = [step for row in rows["ll"] for step in row]
    batch = {
        "i": np.array(rows["i"], np.int64),
        "f": np.array(rows["f"], np.float32).reshape(3, 2),
        "ri": ragged(rows["ri"], np.int64),
        "rf": ragged(rows["rf"], np.float32),
        "b": np.array([*rows["b"], None], object)[:-1],
        "rs": ragged(rows["rs"], object),
        "ll": Ragged(ragged(steps, np.int64), np.cumsum([0, *map(len, rows["ll"])])),
    }
    both = codec(**schema)
    payloads = payloads_of(both, batch, 3)
    for k, payload in enumerate(payloads):
        features = {
            "i": ints(rows["i"][k]),
            "f": floats(*rows["f"][2 * k : 2 * k + 2]),
            "ri": ints(*rows["ri"][k]),
            "rf": floats(*rows["rf"][k]),
            "b": texts(rows["b"][k]),
            "rs": texts(*(text.encode() for text in rows["rs"][k])),
        }
        assert payload == example(features, {"ll": [ints(*step) for step in rows["ll"][k]]})
    back = both.decode_batch(spans(*payloads))
    for name, column in batch.items():
        assert repr(back[name].to_list() if isinstance(column, Ragged) else back[name].tolist()) == repr(
            column.to_list() if isinstance(column, Ragged) else column.tolist()
        )


@pytest.mark.parametrize(("head", "tail", "align"), [(0, 0, 1), (12, 4, 1), (8, 0, 4)])
def test_frames_have_their_room(head, tail, align):
    one = codec(a=Feature("bytes"))
    values = [b"x" * size for size in (0, 1, 100, 3)]
    block, starts, sizes = one.encode_batch({"a": np.array(values, object)}, 4, head, tail, align)
    ends = np.concatenate([[0], starts + -(-sizes // align) * align + tail])
    assert (starts == ends[:-1] + head).all()
    assert len(block) == ends[-1]
    assert [bytes(block[a : a + n]) for a, n in zip(starts, sizes, strict=True)] == [
        example({"a": texts(v)}) for v in values
    ]


def test_keys_are_sorted_as_bytes():
    names = ["b", "a", "aa", "", "ü", "Z", "\U0001f600"]
    one = codec(**{name: Feature("int64") for name in names})
    payloads = payloads_of(one, {name: np.array([i]) for i, name in enumerate(names)}, 1)
    assert payloads == [example({name: ints(i) for i, name in enumerate(names)})]


@pytest.mark.parametrize("name", ["dense", "varlen", "extremes"])
def test_golden_examples_written_again_hold_the_same(name):
    payloads = tfrecord.read((GOLDEN / f"{name}.tfrecord").read_bytes())[1]
    found = infer_payloads(payloads)
    both = ExampleCodec(found.schema, lists=found.lists)
    again = payloads_of(both, both.decode_batch(spans(*payloads)), len(payloads))
    assert repr(both.decode_batch(spans(*again))) == repr(both.decode_batch(spans(*payloads)))


@pytest.mark.parametrize(
    ("feature", "column"),
    [
        (Feature("float32", (2,)), np.zeros((3, 3), np.float32)),
        (Feature("float32", (2,)), np.zeros((4, 2), np.float32)),
        (Feature("float32", (2,)), Ragged.from_list([[1.0], [], []])),
        (Feature("float32", (None,)), np.zeros((6, 2), np.float32)),
        (Feature("float32", (None,)), np.zeros(3, np.float32)),
        (Feature("float32", (None,)), Ragged.from_list([[1.0]])),
        (Feature("int64", (None,)), Ragged.trust(np.arange(3), np.array([0, 3, 1, 3]))),
        (Feature("float32", (None, 2)), np.zeros((3, 4, 3), np.float32)),
        (Feature("float32", (None, 2)), Ragged.from_list([[1.0], [], []])),
        (Feature("int64", (None, None)), np.zeros((3, 3), np.int64)),
        (Feature("int64"), [1, [2], 3]),
        (Feature("int64"), np.zeros(3)),
        (Feature("float32"), np.array(["a", "b", "c"])),
        (Feature("bytes"), np.zeros(3)),
        (Feature("str"), np.array([b"\xff", b"", b""], object)),
        (Feature("str"), np.array(["\ud800", "", ""], object)),
        (Feature("uint8"), np.array([1, 2, 256])),
        (Feature("uint64"), np.array([1, 2, -1])),
        (Feature("int64"), np.array([1, 2, 2**63], np.uint64)),
        (Feature("float32"), np.array([1, 2, 1e300])),
        (Feature("float16"), np.array([1, 2, 1e5], np.float32)),
    ],
)
def test_columns_that_do_not_fit_are_refused(feature, column):
    with pytest.raises(SchemaMismatch) as caught:
        codec(a=feature).encode_batch({"a": column}, 3, 0, 0)
    assert caught.value.where.feature == "a"


@pytest.mark.parametrize("column", [np.array([0.1]), np.array([2**24 + 1])])
def test_numbers_that_float32_cannot_hold_are_not_rounded_silently(column):
    with pytest.raises(UnsupportedData, match="float32"):
        codec(a=Feature("float64")).encode_batch({"a": column}, 1, 0, 0)


def test_a_missing_column():
    with pytest.raises(NoSuchFeature, match="no 'b'"):
        codec(a=Feature("int64"), b=Feature("int64")).encode_batch({"a": np.zeros(1, int)}, 1, 0, 0)


def test_equal_rows_where_lengths_may_vary():
    one = codec(
        lists=["s", "t"], a=Feature("int64", (None,)), s=Feature("int64", (None,)), t=Feature("int64", (None, None))
    )
    batch = {"a": np.array([[1, 2], [3, 4]]), "s": np.array([[5, 6], [7, 8]]), "t": np.arange(8).reshape(2, 2, 2)}
    want = [
        example(
            {"a": ints(*batch["a"][k].tolist())},
            {"s": [ints(v) for v in batch["s"][k].tolist()], "t": [ints(*v) for v in batch["t"][k].tolist()]},
        )
        for k in range(2)
    ]
    assert payloads_of(one, batch, 2) == want


def test_text_columns_keep_zero_bytes_and_take_str_and_bytes():
    one = codec(a=Feature("bytes"), s=Feature("str"))
    batch = {"a": [b"x\x00", b"\x00"], "s": ["x\x00", b"y"]}
    assert payloads_of(one, batch, 2) == [
        example({"a": texts(b"x\x00"), "s": texts(b"x\x00")}),
        example({"a": texts(b"\x00"), "s": texts(b"y")}),
    ]


def test_keys_that_are_not_utf8_round_trip():
    payload = example({"\udcff": ints(1)})
    assert b"\x0a\x01\xff" in payload
    found = infer_payloads([payload])
    assert list(found.schema) == ["\udcff"]
    one = ExampleCodec(found.schema)
    assert one.decode(payload) == {"\udcff": 1}
    assert payloads_of(one, one.decode_batch(spans(payload)), 1) == [payload]


def test_one_key_twice_is_refused():
    once = ("x", 3, 1, False, None)
    with pytest.raises(ValueError, match="two specs for the key 'x'"):
        _native.ExampleDecoder([once, once])
    with pytest.raises(ValueError, match="two specs for the key 'x'"):
        _native.ExampleDecoder([("x", 3, 1, True, None), ("x", 2, -1, True, None)])
    _native.ExampleDecoder([once, ("x", 3, -1, True, None)])  # a feature and a feature list


@pytest.mark.parametrize("name", ["out.tfrecord", "out.array_record", "out.recordio"])
def test_keys_that_are_not_utf_8_come_and_go(tmp_path, name):
    payload = example({"k\udcff": (INT64_LIST, [5]), "b\udcfe": (BYTES_LIST, [b"hello"])})
    hr.write_records(tmp_path / "in.tfrecord", [payload] * 3)
    source = hr.open(tmp_path / "in.tfrecord")
    assert list(source.schema) == ["b\udcfe", "k\udcff"]
    assert len(source.fingerprint) == 16
    assert r"'k\udcff' int64" in repr(source)
    state = hr.Loader(source, 2).state_dict()
    assert state["fingerprint"] == source.fingerprint
    hr.convert(tmp_path / "in.tfrecord", tmp_path / name)
    assert hr.open(tmp_path / name)[0] == {"b\udcfe": "hello", "k\udcff": 5}


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.jsonl", "out.avro", "out.tar"])
def test_keys_that_are_not_utf_8_where_names_are_text(tmp_path, name):
    hr.write_records(tmp_path / "in.tfrecord", [example({"k\udcff": (INT64_LIST, [5])})])
    with pytest.raises(UnsupportedData, match=r"names that \w+ can hold, found 'k\\udcff'"):
        hr.convert(tmp_path / "in.tfrecord", tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["in.tfrecord"]


@pytest.mark.parametrize("feature", [Feature("int64", (None,), steps=True), Feature("int64", (None, None))])
def test_values_in_a_feature_are_not_lost_where_a_feature_list_is_wanted(tmp_path, feature):
    """They were read as none."""
    one = codec(a=feature)
    wide = feature.shape == (None, None)
    listed = example({"z": ints(1)}, {"a": [ints(1), ints(2)]})
    expected = [[1], [2]] if wide else [1, 2]
    for before in ([], [listed], [example({"z": ints(3)})], [listed, example({"a": ints(1)}, {"a": [ints(1)]})] * 5):
        with pytest.raises(
            SchemaMismatch, match="expected a feature list, .* found a feature with int64 values"
        ) as caught:
            one.decode_batch(spans(*before, listed, example({"a": ints(1, 2)}), listed))
        assert (caught.value.where.record, caught.value.where.feature) == (len(before) + 1, "a")
        # again, when the decoder has learned what records look like
        with pytest.raises(SchemaMismatch, match="feature list"):
            one.decode_batch(spans(listed, example({"a": ints(1, 2), "z": ints(1)}), listed))
    # a feature without values, and one beside the list, lose nothing
    batch = one.decode_batch(spans(listed, example({"a": ints()}), example({"a": ints(7)}, {"a": [ints(1), ints(2)]})))
    found = [row.to_list() if wide else row.tolist() for row in batch["a"]]
    assert found == [expected, [], expected]
    for same in (one.narrowed(("a",)), pickle.loads(pickle.dumps(one))):
        with pytest.raises(SchemaMismatch, match="feature list"):
            same.decode(example({"a": ints(1)}))
    # also where files have such feature lists, unless they have features of the same name, too
    with pytest.raises(SchemaMismatch, match="feature list"):
        codec(lists=["a"], a=feature).decode(example({"a": ints(1)}))
    both = ExampleCodec(Schema({"a": feature, "context/a": Feature("int64", (None,))}))
    for known in (codec(lists=["a"], shared=["a"], a=feature), both, both.narrowed(("a",))):
        assert len(known.decode(example({"a": ints(1)}))["a"]) == 0
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, [example({"a": ints(1, 2)})] * 3)
    with pytest.raises(SchemaMismatch, match="x.tfrecord, record 0, .*feature 'a'"):
        list(hr.open(path, schema={"a": feature}))
    assert len(hr.verify(path, schema={"a": feature}).faults) == 3
    hr.write_records(path, [listed] * 256 + [example({"a": ints(1, 2)})])
    for schema in (None, {"a": feature}):
        with pytest.raises(SchemaMismatch, match=r"x.tfrecord, record 256, .*feature 'a'"):
            hr.open(path, schema=schema)[256]
    hr.write_records(path, [example({"a": ints(3)}, {"a": [ints(1)]})] * 2 + [example({"a": ints(5)})])
    assert [row.tolist() for row in hr.open(path, schema={"a": Feature("int64", (None,))}).batch([0, 2])["a"]] == [
        [1],
        [],
    ]


def test_an_integer_beside_floats_that_float64_does_not_hold(tmp_path):
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, [example({"a": floats(0.5)}), example({"a": ints(-(2**53) - 1)})])
    with pytest.raises(SchemaMismatch, match=r"float64 holds exactly, .* found -9007199254740993 - at .*record 1"):
        list(hr.open(path))


def test_float64_of_a_schema_takes_integers_anywhere(tmp_path):
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, [example({"a": floats(0.5), "b": ints(2)})] * 300 + [example({"a": ints(3), "b": ints(4)})])
    schema = Schema.infer(path, most=None)
    assert schema["a"] == Feature("float64")
    assert not hr.verify(path, schema=schema).faults
    source = hr.open(path, schema={"a": Feature("float64"), "b": Feature("float64")})
    assert [[float(value) for value in example.values()] for example in (source[0], source[300])] == [[0.5, 2], [3, 4]]
    assert source.batch(range(301))["a"].tolist() == [0.5] * 300 + [3]
    shapes = codec(a=Feature("float64", (None,)), b=Feature("float64", (None,), steps=True))
    for one in (shapes, pickle.loads(pickle.dumps(shapes)), shapes.narrowed(("a", "b"))):
        found = one.decode(example({"a": ints(1, 2)}, {"b": [ints(3), floats(0.5)]}))
        assert [value.tolist() for value in found.values()] == [[1, 2], [3, 0.5]]
    with pytest.raises(SchemaMismatch, match="found bytes - at record 1, feature 'a'"):
        shapes.decode_batch(spans(example({"a": ints(1)}), example({"a": texts(b"x")})))
    with pytest.raises(SchemaMismatch, match=r"float64 holds exactly, .*record 1"):
        shapes.decode_batch(spans(example({"a": ints(1)}), example({"a": ints(2**53 + 1)})))
    with pytest.raises(SchemaMismatch, match="found int64"):
        codec(a=Feature("float32")).decode(example({"a": ints(1)}))


@pytest.mark.parametrize("default", [0.1, 1e300, 16777217.0, 123456789, 0.5, np.nan, -np.inf])
def test_a_default_of_float64_is_not_rounded(default):
    one = codec(a=Feature("float64", default=default), b=Feature("float64", (2,), default=default))
    found = one.decode_batch(spans(example({"a": floats(0.25)}), example({"b": ints(1, 2)})))
    assert np.array_equal(found["a"], [0.25, default], equal_nan=True)
    assert np.array_equal(found["b"], [[default, default], [1, 2]], equal_nan=True)


def test_features_whose_own_name_begins_with_context(tmp_path):
    path = tmp_path / "x.tfrecord"
    records = [
        example({"a": ints(1), "context/a": ints(2), "context/b": ints(3)}, {"a": [ints(4), ints(5)]}),
        example({"a": ints(6), "context/a": ints(7), "context/b": ints(8)}, {"a": [ints(9)]}),
    ]
    hr.write_records(path, records)
    source = hr.open(path)
    assert list(source.schema) == ["a", "context/a", "context/b", "context/context/a"]
    assert [source[1][name].tolist() for name in source.schema] == [[9], 6, 8, 7]
    assert hr.open(path, columns=["context/context/a"])[0] == {"context/context/a": 2}
    hr.write(tmp_path / "y.tfrecord", source)
    assert [bytes(record) for record in hr.records(tmp_path / "y.tfrecord")] == [
        bytes(record) for record in hr.records(path)
    ]


@pytest.mark.parametrize(
    "feature",
    [Feature("int64", (None,)), Feature("int64", default=7), Feature("str", (None,)), Feature("float32", (2,))],
)
def test_steps_are_not_lost_where_a_feature_is_wanted(tmp_path, feature):
    """They were read as no values, or as the default."""
    value = {"int64": ints, "str": texts, "float32": floats}[feature.dtype]
    values = [b"x", b"y"] if feature.is_text else [1, 2]
    flat = example({"a": value(*values[: feature.count if feature.count >= 0 else None])})
    stepped = example({}, {"a": [value(values[0])]})
    one = codec(a=feature)
    for before in (
        [],
        [flat],
        [flat, example({"a": value(*values[:1] * max(feature.count, 1))}, {"b": [ints(1)]})] * 5,
    ):
        for _ in range(2):  # again, when the decoder has learned what records look like
            with pytest.raises(SchemaMismatch, match="expected a feature, .* found a feature list") as caught:
                one.decode_batch(spans(*before, stepped, flat))
            assert (caught.value.where.record, caught.value.where.feature) == (len(before), "a")
    # values beside the list, and a list without steps, lose nothing
    both = example({"a": value(*values[: feature.count if feature.count >= 0 else None])}, {"a": [ints(3)]})
    assert np.array_equal(one.decode(both)["a"], one.decode(flat)["a"])
    if feature.count < 0:
        assert len(one.decode(example({}, {"a": []}))["a"]) == 0
    # a feature that other records have beside the list has another name
    context = ExampleCodec(Schema({"context/a": Feature("int64", (None,))}), lists=frozenset({"a"}))
    assert len(context.decode(stepped)["context/a"]) == 0
    path = tmp_path / "x.tfrecord"
    hr.write_records(path, [flat] * 300 + [stepped])
    source = hr.open(path, schema={"a": feature})
    with pytest.raises(SchemaMismatch, match="x.tfrecord, record 300, .*feature 'a'.*steps=True"):
        source.batch([0, 300])
    assert len(hr.verify(path, schema={"a": feature}).faults) == 1
