import numpy as np
import pytest

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
