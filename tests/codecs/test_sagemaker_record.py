import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from tests.reference import recordio, sagemaker_record

import headrace as hr
from headrace import _native
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.codecs.sagemaker_record.columns import FEATURE, LABEL, UID, Place, names_of, place_of
from headrace.codecs.sagemaker_record.infer import infer_records
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.contracts.values import Ragged
from headrace.errors import CorruptRecord, DataError, NoSuchFeature, SchemaMismatch, UnsupportedData

GOLDEN = Path(__file__).parents[1] / "golden" / "recordio"
WRITTEN = sorted(
    path.stem
    for path in GOLDEN.glob("*.recordio")
    if "damaged" not in json.loads(path.with_suffix(".recordio.json").read_text())
)


def payloads_of(name):
    return list(recordio.read_records((GOLDEN / f"{name}.recordio").read_bytes()))


def codec_for(payloads, **more):
    found = infer_records([_native.spans_of_buffers(payloads)])
    return SageMakerRecordCodec(found.schema, places=found.places, kinds=found.kinds, **more)


def encoded(codec, batch, n):
    block, starts, sizes = codec.encode_batch(batch, n, 0, 0)
    return [bytes(block[start : start + size]) for start, size in zip(starts, sizes, strict=True)]


def round_trip(schema, batch, n):
    codec = SageMakerRecordCodec(Schema(schema))
    payloads = encoded(codec, batch, n)
    return payloads, codec.decode_batch(_native.spans_of_buffers(payloads))


@pytest.mark.parametrize("name", WRITTEN)
def test_golden_files_decode_to_what_the_sdk_reads_and_encode_to_its_bytes(name):
    payloads = payloads_of(name)
    examples = json.loads((GOLDEN / f"{name}.recordio.json").read_text())["examples"]
    codec = codec_for(payloads)
    batch = codec.decode_batch(_native.spans_of_buffers(payloads))
    values = batch["values"]
    if scipy.sparse.issparse(values):
        rows = [row["features"]["values"] for row in examples]
        assert values.data.tolist() == [v for row in rows for v in row["values"]]
        assert values.indices.tolist() == [k for row in rows for k in row["keys"]]
        assert values.shape == (len(rows), rows[0]["shape"][0])
    else:
        assert values.tolist() == [row["features"]["values"]["values"] for row in examples]
    if "label" in batch:
        assert batch["label"].tolist() == [row["label"]["values"]["values"][0] for row in examples]
    assert encoded(codec, batch, len(payloads)) == payloads


@pytest.mark.parametrize("name", WRITTEN)
def test_a_damaged_record_is_an_error_of_ours_or_other_values(name):
    payloads = payloads_of(name)[:4]
    codec = codec_for(payloads)
    for at in range(len(payloads[1])):
        for flip in (0x01, 0x80, 0xFF):
            bad = payloads[1][:at] + bytes([payloads[1][at] ^ flip]) + payloads[1][at + 1 :]
            try:
                batch = codec.decode_batch(_native.spans_of_buffers([payloads[0], bad, payloads[0]]))
            except DataError as error:
                assert error.where.record == 1
            else:
                assert {column.shape[0] for column in batch.values()} == {3}


def test_the_same_matrix_from_every_sparse_format_and_from_numpy():
    dense = np.load(GOLDEN / "sparse_dense_equivalent.npy")
    for name in ("csr", "csc", "coo", "lil"):
        payloads = payloads_of(f"sparse_{name}")
        codec = codec_for(payloads)
        assert repr(codec.schema["values"]) == "Feature('float32', (30,), sparse=True)"
        matrix = codec.decode_batch(_native.spans_of_buffers(payloads))["values"]
        assert isinstance(matrix, scipy.sparse.csr_array)
        assert np.array_equal(matrix.toarray(), dense)
        assert not matrix[[4]].nnz  # the empty row
        for form in (dense, scipy.sparse.coo_array(dense), scipy.sparse.lil_matrix(dense)):
            rows = {"values": form, "label": np.arange(11, dtype=np.float32)}
            assert encoded(codec, rows, 11) == payloads


def test_one_example():
    codec = codec_for(payloads_of("walkthrough_sparse"))
    example = codec.decode(payloads_of("walkthrough_sparse")[1])
    assert example["values"].toarray().tolist() == [1, 0, 1]
    assert example["label"] == 1.0


def test_every_kind_of_feature_comes_back():
    schema = {
        "values": Feature("float32", (2,)),
        "age": Feature("int32"),
        "one": Feature("float64", (1,)),
        "grid": Feature("float64", (2, 3)),
        "flags": Feature("bool", (2,)),
        "half": Feature("float16", (2,)),
        "big": Feature("int64", (2,)),
        "words": Feature("str", (None,)),
        "name": Feature("str"),
        "blob": Feature("bytes"),
        "row": Feature("int32", (None,)),
        "pairs": Feature("float32", (None, 2)),
        "image": Feature("int32", (None, None, 2)),
        "odd": Feature("float32", (2, None)),
        "sparse": Feature("float64", (5,), sparse=True),
        "label": Feature("int32", (3,)),
        "label_score": Feature("float32"),
        "uid": Feature("str"),
        "metadata": Feature("str"),
        "configuration": Feature("bytes"),
    }
    batch = {
        "values": np.array([[1, 2], [3, 4]], np.float32),
        "age": np.array([7, -8], np.int32),
        "one": np.array([[1.5], [2.5]]),
        "grid": np.arange(12.0).reshape(2, 2, 3),
        "flags": np.array([[True, False], [False, True]]),
        "half": np.array([[1, 2], [3, 4]], np.float16),
        "big": np.array([[2**31 - 1, -(2**31)], [0, 1]], np.int64),
        "words": Ragged(np.array(["ä", "b"], object), np.array([0, 2, 2])),
        "name": np.array(["x", ""], object),
        "blob": np.array([b"\xff\0", b""], object),
        "row": Ragged(np.arange(3, dtype=np.int32), np.array([0, 3, 3])),
        "pairs": Ragged(np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 3])),
        "odd": Ragged(Ragged(np.arange(6, dtype=np.float32), np.array([0, 2, 4, 5, 6])), np.array([0, 2, 4])),
        "sparse": scipy.sparse.csr_array(np.array([[0, 1.5, 0, 0, 2], [0, 0, 0, 0, 0]])),
        "label": np.array([[1, 2, 3], [4, 5, 6]], np.int32),
        "label_score": np.array([0.25, 0.5], np.float32),
        "uid": np.array(["a", "b"], object),
        "metadata": np.array(["", "m"], object),
        "configuration": np.array([b"{}", b"x"], object),
    }
    rows = Ragged(np.arange(14, dtype=np.int32).reshape(7, 2), np.array([0, 3, 6, 7]))
    batch["image"] = Ragged(rows, np.array([0, 2, 3]))
    schema["metadata"] = Feature("str", default="")
    payloads, back = round_trip(schema, batch, 2)
    for name, column in batch.items():
        found = back[name]
        if isinstance(column, Ragged):
            assert found.to_list() == column.to_list(), name
        elif scipy.sparse.issparse(column):
            assert (found != column).nnz == 0
            assert found.dtype == column.dtype
        else:
            assert found.dtype == column.dtype, name
            assert np.array_equal(found, column), name
    assert all(sagemaker_record.parse(payload)["features"] for payload in payloads)
    inferred = codec_for(payloads).schema
    for name in (
        "values",
        "age",
        "one",
        "grid",
        "pairs",
        "image",
        "odd",
        "sparse",
        "label",
        "label_score",
        "uid",
        "metadata",
        "name",
        "words",
    ):
        assert inferred[name] == schema[name], name
    assert inferred["half"].dtype == "float32"
    assert inferred["big"].dtype == "int32"


def test_wire_format():
    payloads, _ = round_trip(
        {"values": Feature("float32", (2, 1)), "label": Feature("int64")},
        {"values": np.ones((1, 2, 1), np.float32), "label": np.array([-1])},
        1,
    )
    record = sagemaker_record.parse(payloads[0])
    assert record["features"] == {b"values": {"kind": "float32", "values": [1, 1], "keys": [], "shape": [2, 1]}}
    assert record["label"] == {b"values": {"kind": "int32", "values": [-1], "keys": [], "shape": []}}


def test_given_schemas_convert_and_leave_out():
    payloads = payloads_of("dense_float64")
    found = infer_records([_native.spans_of_buffers(payloads)])
    narrow = SageMakerRecordCodec(Schema({"values": Feature("float32", (5,))}), places=found.places, kinds=found.kinds)
    batch = narrow.decode_batch(_native.spans_of_buffers(payloads))
    assert list(batch) == ["values"]
    assert batch["values"].dtype == np.float32
    folded = SageMakerRecordCodec(Schema({"values": Feature("float64", (5, 1))}))
    assert folded.decode_batch(_native.spans_of_buffers(payloads))["values"].shape == (9, 5, 1)
    payloads = payloads_of("dense_int64")
    small = SageMakerRecordCodec(
        Schema({"values": Feature("int8", (5,)), "label": Feature("float64")}), kinds={"label": 3}
    )
    batch = small.decode_batch(_native.spans_of_buffers(payloads))
    assert batch["values"].dtype == np.int8
    assert batch["label"].dtype == np.float64
    with pytest.raises(SchemaMismatch, match=r"uint8 values in \[0, 255\]"):
        SageMakerRecordCodec(Schema({"values": Feature("uint8", (5,))})).decode_batch(
            _native.spans_of_buffers(payloads)
        )


DENSE = Feature("float32", (5,))
MESSAGES = [
    ("dense_float32", {"values": Feature("float64", (5,))}, SchemaMismatch, "expected a dense float64 tensor of shape (5,), found a dense float32 tensor of 5 values - at record 0, feature 'values'. Pass a schema= that says what the records hold."),
    ("dense_float32", {"values": Feature("float32", (4,))}, SchemaMismatch, "expected a dense float32 tensor of shape (4,), found a dense float32 tensor of 5 values - at record 0, feature 'values'. If the number varies, use None in the schema's shape: Feature(dtype, (None,))."),
    ("dense_float32", {"values": Feature("float32", (5,), sparse=True)}, SchemaMismatch, "expected a sparse float32 tensor of shape (5,), found a dense float32 tensor of 5 values - at record 0, feature 'values'. Pass a schema= that says what the records hold."),
    ("sparse_csr", {"values": Feature("float32", (31,), sparse=True)}, SchemaMismatch, "expected a sparse float32 tensor of shape (31,), found a sparse float32 tensor of shape (30,) with 2 values - at record 0, feature 'values'. Where widths differ, the schema's shape needs None: Feature(dtype, (None,), sparse=True)."),
    ("sparse_csr", {"values": Feature("float32", (30,))}, SchemaMismatch, "expected a dense float32 tensor of shape (30,), found a sparse float32 tensor of shape (30,) with 2 values - at record 0, feature 'values'. Pass a schema= that says what the records hold."),
    ("dense_float32", {"label_x": Feature("float32")}, SchemaMismatch, "expected one float32 value, found none in this record - at record 0, feature 'label_x'. Give the feature a default=, or the shape (None,) if it may be absent."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "schema", "kind", "message"), MESSAGES)
def test_errors_say_what_was_expected_and_found(name, schema, kind, message):
    with pytest.raises(kind) as caught:
        SageMakerRecordCodec(Schema(schema)).decode_batch(_native.spans_of_buffers(payloads_of(name)))
    assert str(caught.value) == message


def value(kind, *parts):
    tensor = b"".join(parts)
    message = bytes([kind << 3 | 2, len(tensor)]) + tensor
    entry = b"\n\x06values\x12" + bytes([len(message)]) + message
    return b"\n" + bytes([len(entry)]) + entry


TWO = b"\n\x08" + np.float32([1, 2]).tobytes()
CONTRADICTIONS = [
    (value(2, TWO, b"\x12\x01\x01", b"\x1a\x01\x04"), "values, keys and shape of a tensor that go together, found 2 values, 1 keys and the shape (4,)"),
    (value(2, TWO, b"\x12\x02\x01\x02"), "found 2 values, 2 keys and no shape"),
    (value(2, TWO, b"\x12\x02\x01\x04", b"\x1a\x01\x04"), "expected keys below the width 4, found the key 4"),
    (value(2, b"\n\x09" + TWO[2:] + b"\0"), "expected a valid protobuf message"),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "message"), CONTRADICTIONS)
def test_records_that_contradict_themselves(payload, message):
    codec = SageMakerRecordCodec(Schema({"values": Feature("float32", (4,), sparse=True)}))
    good = value(2, TWO, b"\x12\x02\x01\x02", b"\x1a\x01\x04")
    with pytest.raises(CorruptRecord) as caught:
        codec.decode_batch(_native.spans_of_buffers([good, payload, good]))
    assert message in str(caught.value)
    assert caught.value.where.record == 1
    assert [fault.where.record for fault in codec.faults_in(_native.spans_of_buffers([payload, good, payload]))] == [
        0,
        2,
    ]


def test_a_payload_that_is_not_a_record():
    codec = SageMakerRecordCodec(Schema({"values": DENSE}))
    with pytest.raises(CorruptRecord, match="a valid protobuf message") as caught:
        codec.decode_batch(_native.spans_of_buffers([payloads_of("dense_float32")[0], b"\x0b no message"]))
    assert caught.value.where.record == 1
    with pytest.raises(CorruptRecord, match="3 more bytes, found 1 before the end") as caught:
        codec.decode_batch(_native.spans_of_buffers([b"\n\x00\n\x03a"]))
    assert caught.value.where.offset == 4


def test_features_that_records_lack():
    payloads = [*payloads_of("dense_float32")[:1], b"", *payloads_of("dense_float32_unlabelled")[:1]]
    spans = _native.spans_of_buffers(payloads)
    codec = codec_for(payloads)
    assert codec.schema["values"] == Feature("float32", (None,))
    assert codec.decode_batch(spans)["label"].lengths.tolist() == [1, 0, 0]
    filled = SageMakerRecordCodec(
        Schema(
            {
                "label": Feature("float32", default=-1),
                "values": Feature("float32", (5,), default=0.5),
                "uid": Feature("str", default="?"),
            }
        )
    )
    batch = filled.decode_batch(spans)
    assert batch["label"][1:].tolist() == [-1, -1]
    assert batch["values"][1].tolist() == [0.5] * 5
    assert batch["uid"].tolist() == ["?"] * 3


def test_sparse_rows_of_several_widths():
    narrow, wide = (value(2, TWO, b"\x12\x02\x01\x03", b"\x1a\x01" + bytes([width])) for width in (4, 6))
    codec = codec_for([narrow, wide])
    assert codec.schema["values"] == Feature("float32", (None,), sparse=True)
    assert codec.decode_batch(_native.spans_of_buffers([narrow, wide]))["values"].shape == (2, 6)
    assert codec.decode_batch(_native.spans_of_buffers([narrow]))["values"].shape == (1, 4)
    grid = value(2, TWO, b"\x12\x02\x01\x13", b"\x1a\x02\x04\x05")
    assert codec_for([grid]).decode(grid)["values"].shape == (20,)  # row-major, flat


def test_repeated_keys_are_kept():
    payload = value(2, TWO, b"\x12\x02\x03\x03", b"\x1a\x01\x04")
    codec = codec_for([payload])
    matrix = codec.decode_batch(_native.spans_of_buffers([payload]))["values"]
    assert matrix.indices.tolist() == [3, 3]
    assert matrix.toarray().tolist() == [[0, 0, 0, 3]]
    assert encoded(codec, {"values": matrix}, 1) == [payload]


REFUSED = [
    (Feature("int64"), np.array([0, 2**31]), UnsupportedData, r"numbers that int32 can hold.*found 2147483648 \(int64\) - at record 1"),
    (Feature("uint32"), np.array([2**32 - 1, 0], np.uint32), UnsupportedData, "found 4294967295"),
    (Feature("uint64"), np.array([2**64 - 1, 0], np.uint64), UnsupportedData, "found 18446744073709551615"),
    (Feature("int32"), np.array([0.5, 1]), SchemaMismatch, "numbers that become int32, found 0.5 .float64"),
    (Feature("float32"), np.array([1, 2**24 + 1]), UnsupportedData, "16777217"),
    (Feature("int32"), np.zeros((2, 1), np.int32), SchemaMismatch, r"a column of shape \(2,\), found shape \(2, 1\)"),
    (Feature("str"), np.array(["a", 1], object), SchemaMismatch, "expected UTF-8 text, found int 1 - at record 1"),
    (Feature("str"), np.array(["a", b"\xff"], object), SchemaMismatch, "expected UTF-8 text, found bytes .* - at record 1"),
    (Feature("str"), np.array(["\ud800", "a"], object), SchemaMismatch, "expected UTF-8 text, found str .* - at record 0"),
    (Feature("float32", (3,), sparse=True), np.zeros((2, 2), np.float32), SchemaMismatch, r"\(2, 3\), found shape \(2, 2\)"),
    (Feature("int32", (None,)), Ragged.from_list([[1]], "int32"), SchemaMismatch, "2 rows"),
    (Feature("int32", (None, 2)), Ragged.from_list([[[1]], [[2]]], "int32"), SchemaMismatch, r"shape \(None, 2\), found \(1, 1\) - at record 0"),
]  # fmt: skip


@pytest.mark.parametrize(("feature", "column", "kind", "message"), REFUSED)
def test_columns_that_would_lose_something_are_refused(feature, column, kind, message):
    with pytest.raises(kind, match=message):
        SageMakerRecordCodec(Schema({"x": feature})).encode_batch({"x": column}, 2, 0, 0)


def test_refusals_of_the_codec():
    codec = SageMakerRecordCodec(Schema({"x": Feature("float32", (3,), sparse=True)}))
    with pytest.raises(NoSuchFeature, match="no 'x'"):
        codec.encode_batch({}, 0, 0, 0)
    matrix = scipy.sparse.csr_array(np.eye(3, dtype=np.float32))
    matrix.indices[1] = -1
    with pytest.raises(UnsupportedData, match=r"in \[0, 3\), found -1 - at record 1, feature 'x'"):
        codec.encode_batch({"x": matrix}, 3, 0, 0)
    with pytest.raises(UnsupportedData, match="as in every Record"):
        SageMakerRecordCodec(Schema({"x": Feature("complex64")}))
    with pytest.raises(UnsupportedData, match="one text"):
        SageMakerRecordCodec(Schema({"uid": Feature("float32")}))
    with pytest.raises(UnsupportedData, match="different places"):
        SageMakerRecordCodec(Schema({"a": DENSE, "b": DENSE}), places={"a": Place(1, b"a"), "b": Place(1, b"a")})


def test_text_that_is_not_utf8():
    batch = {"t": Ragged(np.array([b"a", b"\xff"], object), np.array([0, 1, 2]))}
    payloads = encoded(SageMakerRecordCodec(Schema({"t": Feature("bytes", (None,))})), batch, 2)
    with pytest.raises(SchemaMismatch, match=r"UTF-8 text, found the bytes b'\\xff' - at record 1"):
        SageMakerRecordCodec(Schema({"t": Feature("str", (None,))})).decode_batch(_native.spans_of_buffers(payloads))


def test_names_and_places():
    places = [
        Place(FEATURE, b"label"),
        Place(FEATURE, b"uid"),
        Place(LABEL, b"values"),
        Place(UID),
        Place(FEATURE, b"\xff"),
    ]
    names = names_of(places)
    assert list(names) == ["feature_label", "feature_uid", "\udcff", "label", "uid"]
    assert place_of("label_a") == Place(LABEL, b"a")
    assert place_of("\udcff") == Place(FEATURE, b"\xff")
    assert names_of([Place(FEATURE, b"label")]) == {"label": Place(FEATURE, b"label")}


def test_narrowing_and_pickling():
    payloads = payloads_of("sparse_csr")
    codec = codec_for(payloads)
    for copy in (codec.narrowed(("label",)), pickle.loads(pickle.dumps(codec.narrowed(("label",))))):
        assert list(copy.schema) == ["label"]
        assert copy.decode_batch(_native.spans_of_buffers(payloads))["label"].tolist() == list(range(11))


def test_no_records_at_all():
    codec = SageMakerRecordCodec(
        Schema(
            {
                "a": Feature("float32", (None, None)),
                "b": Feature("float64", (2,)),
                "c": Feature("int32", (9,), sparse=True),
            }
        )
    )
    batch = codec.decode_batch(_native.spans_of_buffers([]))
    assert len(batch["a"]) == 0
    assert batch["b"].shape == (0, 2)
    assert batch["c"].shape == (0, 9)
    assert encoded(codec, batch, 0) == []


@pytest.mark.parametrize("shape", [(1,), (2,), (1, 1), (2, 1), (None, 1)])
def test_texts_of_a_shape_are_written_without_one(shape):
    """A Bytes message has no field for it; the next message in the block must not be overwritten."""
    schema = Schema({"a": Feature("str", shape), "b": Feature("int32"), "c": Feature("bytes", shape)})
    codec = SageMakerRecordCodec(schema)
    full = tuple(2 if length is None else length for length in shape)
    words = np.full((3, *full), "word", object)
    block, starts, sizes = codec.encode_batch(
        {"a": words, "b": np.arange(3), "c": words.astype("S").astype(object)}, 3, 8, 4
    )
    assert int(starts[-1] + sizes[-1]) + 4 <= len(block)
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        example = codec.decode(bytes(block[start : start + size]))
        assert example["b"] == number
        assert np.asarray(example["a"]).tolist() == words[0].tolist()
        assert np.asarray(example["c"]).tolist() == words[0].astype("S").astype(object).tolist()


def test_a_large_call_uses_idle_cores(monkeypatch):
    """Three megabytes of sparse rows: three threads give the same as one."""
    rows = scipy.sparse.random_array((2000, 50000), density=0.005, format="csr", dtype=np.float32, rng=1)
    schema = Schema({"values": Feature("float32", (50000,), sparse=True), "uid": Feature("str")})
    codec = SageMakerRecordCodec(schema)
    names = np.array([f"row {i}" for i in range(2000)], object)
    spans = _native.spans_of_buffers(encoded(codec, {"values": rows, "uid": names}, 2000))
    for cores in (1, 3):
        monkeypatch.setattr("headrace.codecs.sagemaker_record.codec.spare_cores", lambda cores=cores: cores)
        batch = codec.decode_batch(spans)
        assert batch["uid"].tolist() == names.tolist()
        for part in ("data", "indices", "indptr"):
            assert np.array_equal(getattr(batch["values"], part), getattr(rows, part))


def test_narrow_integers_as_uint64(tmp_path):
    hr.write(tmp_path / "x.recordio", {"x": np.array([1, 2, 3], np.int32)})
    assert hr.open(tmp_path / "x.recordio", schema={"x": hr.Feature("uint64")}).batch([2, 0])["x"].tolist() == [3, 1]
    hr.write(tmp_path / "y.recordio", {"x": np.array([1, -2], np.int32)})
    with pytest.raises(hr.SchemaMismatch, match="found -2"):
        hr.open(tmp_path / "y.recordio", schema={"x": hr.Feature("uint64")}).batch([0, 1])


def test_the_first_bad_record_is_reported_whatever_its_feature(tmp_path):
    path = tmp_path / "x.recordio"
    texts = np.array([b"x", b"\xff", b"x"], object)
    hr.write(path, {"a": np.array([1, 1, 300]), "b": texts, "c": np.array([1.0, 2, 3])})
    schema = Schema({"a": Feature("int8"), "b": Feature("str")})
    examples = iter(hr.open(path, schema=schema))
    assert next(examples) == {"a": 1, "b": "x"}
    with pytest.raises(SchemaMismatch, match=r"x.recordio, record 1, byte 0x.*, feature 'b'"):
        next(examples)
    faults = hr.verify(path, schema=schema).faults
    assert [(fault.where.record, fault.where.feature) for fault in faults] == [(1, "b"), (2, "a")]
    # One fault is found by native code, the other one after it.
    native = Schema({"b": Feature("str"), "c": Feature("float64", (2,))})
    hr.write(path, {"b": texts, "c": np.ones((3, 2))})
    other = tmp_path / "y.recordio"
    hr.write(other, {"b": np.array([b"y"], object), "c": np.ones((1, 3))})
    path.write_bytes(path.read_bytes() + other.read_bytes())
    examples = iter(hr.open(path, schema=native))
    assert next(examples)["b"] == "x"
    with pytest.raises(SchemaMismatch, match=r"x.recordio, record 1, byte 0x.*, feature 'b'"):
        next(examples)
    assert [fault.where.record for fault in hr.verify(path, schema=native).faults] == [1, 3]


@pytest.mark.parametrize("shape", [[0, 2**62, 2**62], [2**62, 0, 2**62]])
def test_shapes_without_values_that_no_array_has(tmp_path, shape):
    def field(number, body):
        return bytes([number << 3 | 2, len(body)]) + body

    axes = b"".join(b"\0" if not axis else b"\x80" * 8 + b"\x40" for axis in shape)
    tensor = field(2, field(3, axes))
    payload = field(1, field(1, b"x") + field(2, tensor))
    hr.write_records(tmp_path / "x.recordio", [payload])
    with pytest.raises(DataError, match=r"x.recordio, record 0.* feature 'x'"):
        list(hr.open(tmp_path / "x.recordio"))
    assert not hr.verify(tmp_path / "x.recordio").ok
