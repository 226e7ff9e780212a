import numpy as np
import pytest

import headrace as hr
from headrace import _native
from headrace.codecs.infer import infer_payloads
from headrace.codecs.sagemaker_record.codec import SageMakerRecordCodec
from headrace.codecs.sagemaker_record.infer import infer_records
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import SchemaMismatch


def payloads(schema, batch, n):
    block, starts, sizes = SageMakerRecordCodec(Schema(schema)).encode_batch(batch, n, 0, 0)
    return [bytes(block[start : start + size]) for start, size in zip(starts, sizes, strict=True)]


def inferred(*groups):
    return infer_records([_native.spans_of_buffers(group) for group in groups])


def one(name, feature, *rows):
    dtype = object if feature.is_text else feature.dtype
    return payloads({name: feature}, {name: np.array(rows, dtype)}, len(rows))


def test_one_value_is_a_scalar_but_for_the_vector():
    scalar = one("age", Feature("float32"), 1, 2)
    assert inferred(scalar).schema["age"] == Feature("float32")
    vector = one("values", Feature("float32", (1,)), [1], [2])
    assert inferred(vector).schema["values"] == Feature("float32", (1,))
    label = one("label", Feature("float32"), 1)
    assert inferred(label).schema["label"] == Feature("float32")


def test_shapes_that_vary():
    short, long = one("x", Feature("float32", (2,)), [1, 2]), one("x", Feature("float32", (3,)), [1, 2, 3])
    assert inferred(short, long).schema["x"] == Feature("float32", (None,))
    tall, flat = (
        one("x", Feature("int32", (2, 3)), np.ones((2, 3))),
        one("x", Feature("int32", (4, 3)), np.ones((4, 3))),
    )
    assert inferred(tall, flat).schema["x"] == Feature("int32", (None, 3))
    assert inferred(tall, one("y", Feature("int32"), 1)).schema["x"] == Feature("int32", (None, 3))
    deep = one("x", Feature("int32", (1, 2, 3)), np.ones((1, 2, 3)))
    assert inferred(tall, deep).schema["x"] == Feature("int32", (6,))  # ranks differ: only the number of values remains


def test_no_columns_at_all():
    assert inferred(one("values", Feature("float64", (0,)), [])).schema["values"] == Feature("float64", (0,))


def test_texts_and_images():
    assert inferred(one("t", Feature("str"), "a", "b")).schema["t"] == Feature("str")
    assert inferred(one("t", Feature("bytes"), b"\0")).schema["t"] == Feature("bytes")
    assert inferred(one("t", Feature("bytes"), b"\xff\xd8\xff\xe0....")).schema["t"] == Feature(
        "bytes", encoding="jpeg"
    )


def test_kinds_that_differ():
    with pytest.raises(SchemaMismatch, match="float32 in 1, int32 in 2"):
        inferred(one("x", Feature("float32"), 1), one("x", Feature("int32"), 1, 2))


def test_payloads_that_are_not_records():
    assert inferred([b"hello world"]) is None
    assert inferred([]) is None
    record = one("values", Feature("float32", (2,)), [1, 2])
    assert inferred([b"\x0b", *record, *record]).schema["values"] == Feature(
        "float32", (2,)
    )  # a damaged one among them
    assert inferred([b"\x0b", *record]) is None
    assert inferred([b"", b""]) is None
    assert inferred([b"\x1a\x03uid"]) is None
    example = b"\n\x0f\n\r\n\x01x\x12\x08\x12\x06\n\x04\0\0\x80?"
    assert infer_payloads([example]).codec == "example"
    assert inferred([example]) is None


def test_a_record_is_not_an_example():
    assert infer_payloads(one("values", Feature("float32", (2,)), [1, 2])).codec == "raw"


def sparse(count=2):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    rows = scipy_sparse.csr_array(np.ones((count, 3), np.float32))
    return payloads({"s": Feature("float32", (3,), sparse=True)}, {"s": rows}, count)


def test_a_sparse_feature_that_some_records_lack_has_empty_rows_there(tmp_path):
    found = inferred(sparse(), one("x", Feature("float32"), 1))
    assert found.schema["s"] == Feature("float32", (3,), sparse=True, default=0)
    assert inferred(sparse()).schema["s"] == Feature("float32", (3,), sparse=True)
    path = tmp_path / "a.recordio"
    hr.write_records(path, [*sparse(), *one("label", Feature("float32"), 1)])
    given = {"s": Feature("float32", (None,), sparse=True, default=0)}
    for schema in (None, given):
        assert hr.open(path, schema=schema, columns=["s"]).batch([0, 2])["s"].toarray()[:, :3].tolist() == [
            [1] * 3,
            [0] * 3,
        ]
    with pytest.raises(SchemaMismatch, match="found none in this record - .* record 2, .* Give the feature default=0"):
        hr.open(path, schema={"s": Feature("float32", (3,), sparse=True)})[2]
    hr.convert(path, tmp_path / "b.recordio")
    assert hr.open(tmp_path / "b.recordio").batch([0, 2])["s"].toarray().tolist() == [[1] * 3, [0] * 3]


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        (Feature("float32", (None,), default=9), "a default only with a fixed shape"),
        (Feature("str", (None,), default="x"), "a default only with a fixed shape"),
        (Feature("float32", (3,), sparse=True, default=9), "the default 0 for a sparse feature"),
    ],
)
def test_defaults_that_would_be_ignored_are_refused(feature, expected):
    with pytest.raises(hr.UnsupportedData, match=f"expected {expected}.* at feature 'v'"):
        SageMakerRecordCodec(Schema({"v": feature}))


def test_features_of_several_kinds_may_be_left_out(tmp_path):
    path = tmp_path / "a.recordio"
    narrow = payloads({"v": Feature("float32"), "x": Feature("int32")}, {"v": np.ones(1, "f4"), "x": np.array([1])}, 1)
    wide = payloads({"v": Feature("float64"), "x": Feature("int32")}, {"v": np.ones(1), "x": np.array([2])}, 1)
    hr.write_records(path, narrow + wide)
    for options in ({"schema": {"x": Feature("int32")}}, {"columns": ["x"]}):
        assert hr.open(path, **options).batch([0, 1])["x"].tolist() == [1, 2]
    for options in ({}, {"schema": {"v": Feature("float64")}}, {"columns": ["v"]}):
        with pytest.raises(SchemaMismatch, match="one kind of tensor in all records, found float32 in 1, float64 in 1"):
            hr.open(path, **options)
    hr.write_records(path, narrow * 256 + wide)
    message = "expected a dense float32 tensor of shape .*as in other records, found a dense float64 tensor of 1 values"
    for schema in ({"v": Feature("float64", (1,))}, {"v": Feature("float64", (None,))}):
        with pytest.raises(SchemaMismatch, match=message):
            hr.open(path, schema=schema)[256]
