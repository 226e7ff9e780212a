"""Bodies that are damaged, or that few clients send."""

import io

import numpy as np
import pytest
import scipy.sparse
from tests.containers.conftest import ask

from headrace import _native
from headrace.containers import bodies, content_types
from headrace.containers.linear_learner.instances import features_of
from headrace.containers.recordio_bodies import decode_recordio, encode_recordio
from headrace.errors import DataError, RequestError, UnsupportedData
from headrace.sagemaker.amazon.record_pb2 import Record


def body_of(*records):
    return _native.frame_recordio_payloads([record.SerializeToString() for record in records]).tobytes()


def dense(*values):
    record = Record()
    record.features["values"].float32_tensor.values.extend(values)
    return record


def sparse(width, values):
    record = Record()
    tensor = record.features["values"].float32_tensor
    tensor.values.extend(values.values())
    tensor.keys.extend(values)
    if width is not None:
        tensor.shape.append(width)
    return record


def bytes_record():
    record = Record()
    record.features["values"].bytes.value.append(b"x")
    return record


def other_name():
    record = Record()
    record.features["other"].float32_tensor.values.append(1)
    return record


def uneven():
    record = sparse(4, {1: 1.0})
    record.features["values"].float32_tensor.keys.append(2)
    return record


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([dense(1, 2), dense(1)], "1"),
        ([bytes_record()], "bytes"),
        ([other_name()], "other"),
        ([Record()], "no features"),
        ([sparse(4, {0: 1.0}), dense(1)], "a dense one"),
        ([sparse(None, {0: 1.0})], "no shape"),
        ([sparse(4, {0: 1.0}), sparse(5, {0: 1.0})], "5"),
        ([sparse(4, {4: 1.0})], "1 keys"),
        ([uneven()], "2 keys"),
    ],
)
def test_records_that_do_not_match(records, found):
    with pytest.raises(DataError, match=found):
        decode_recordio(body_of(*records))


def test_records_that_are_too_wide():
    with pytest.raises(UnsupportedData, match="narrower"):
        decode_recordio(body_of(sparse(1 << 31, {0: 1.0})))
    with pytest.raises(DataError, match="empty body"):
        decode_recordio(b"")


def test_sparse_predictions_are_answered_as_sparse_records():
    matrix = scipy.sparse.csr_matrix(np.array([[0, 2.0], [0, 0]], np.float32))
    body = bodies.encode(matrix, content_types.RECORDIO_PROTOBUF)
    assert body == encode_recordio(matrix)
    assert (decode_recordio(body).toarray() == matrix.toarray()).all()


def test_an_archive_that_is_no_sparse_matrix():
    buffer = io.BytesIO()
    np.savez(
        buffer, format=b"csr", shape=np.array([1, 2]), data=np.ones(1), indices=np.array([7]), indptr=np.array([0, 1])
    )
    with pytest.raises(RequestError, match="not a sparse matrix"):
        bodies.decode(buffer.getvalue(), content_types.NPZ)


@pytest.mark.parametrize(
    "body", ['{"instances": [{"features": [1, 1' + 400 * "0" + "]}]}", '{"instances": [{"features": [1, "x"]}]}']
)
def test_instances_that_are_not_numbers(body):
    with pytest.raises(RequestError) as error:
        features_of(ask(body, content_types.JSON), 2)
    assert error.value.status == 400


@pytest.mark.parametrize("content_type", [content_types.CSV, content_types.JSON, content_types.NPY])
def test_tensors_that_require_grad_are_encoded(content_type):
    torch = pytest.importorskip("torch")
    prediction = torch.tensor([[0.5, 2.0]], requires_grad=True)
    assert bodies.encode(prediction, content_type) == bodies.encode(np.float32([[0.5, 2.0]]), content_type)
