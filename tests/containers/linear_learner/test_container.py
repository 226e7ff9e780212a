"""Requests of every form, answers compared byte for byte."""

import io
import json

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from headrace.containers.linear_learner.artifact import Model
from headrace.containers.linear_learner.container import LinearLearnerHandler
from headrace.contracts.serving import Request
from headrace.errors import RequestError
from headrace.sagemaker.common import read_records, write_numpy_to_dense_tensor, write_spmatrix_to_sparse_tensor

JSON, LINES, CSV, RECORDIO = "application/json", "application/jsonlines", "text/csv", "application/x-recordio-protobuf"
ROWS = [[1.0, 0.0, 2.0], [0.0, 0.5, 0.0]]


def regressor():
    weights, bias = np.float32([[1, 2, 0.5]]), np.float32([0.25])
    return LinearLearnerHandler(Model(predictor_type="regressor", loss="squared_loss", weights=weights, bias=bias))


def binary():
    weights, bias = np.float32([[1, -2, 0]]), np.float32([0])
    return LinearLearnerHandler(
        Model(predictor_type="binary_classifier", loss="logistic", weights=weights, bias=bias, threshold=0.6)
    )


def classes():
    weights, bias = np.float32([[1, 0, 0], [0, 1, 0], [0, 0, 1]]), np.float32([0, 0, 0])
    return LinearLearnerHandler(
        Model(predictor_type="multiclass_classifier", loss="softmax_loss", weights=weights, bias=bias)
    )


def ask(handler, body, content_type=CSV, accept="*/*"):
    body = body if isinstance(body, bytes) else body.encode()
    return handler(Request(body=body, content_type=content_type, accept=accept))


def dense_records(rows):
    buffer = io.BytesIO()
    write_numpy_to_dense_tensor(buffer, np.float32(rows))
    return buffer.getvalue()


def sparse_records(rows):
    buffer = io.BytesIO()
    write_spmatrix_to_sparse_tensor(buffer, scipy.sparse.csr_matrix(np.float32(rows)))
    return buffer.getvalue()


BODIES = {
    "csv": (CSV, "1,0,2\n0,0.5,0\n"),
    "csv with spaces": ("text/csv; charset=utf-8", "1, 0, 2\r\n0, 0.5, 0"),
    "csv with a label": ("text/csv; label_size=1", "9,1,0,2\n9,0,0.5,0\n"),
    "features": (JSON, json.dumps({"instances": [{"features": row} for row in ROWS]})),
    "values": (JSON, json.dumps({"instances": [{"data": {"features": {"values": row}}} for row in ROWS]})),
    "configuration": (JSON, json.dumps({"instances": [{"features": row, "configuration": {}} for row in ROWS]})),
    "keys": (
        JSON,
        json.dumps(
            {
                "instances": [
                    {"data": {"features": {"keys": [0, 2], "shape": [3], "values": [1, 2]}}},
                    {"data": {"features": {"keys": [1], "shape": [3], "values": [0.5]}}},
                ]
            }
        ),
    ),
    "keys and values": (
        JSON,
        json.dumps(
            {
                "instances": [
                    {"data": {"features": {"keys": [2, 0], "shape": [3], "values": [2, 1]}}},
                    {"features": ROWS[1]},
                ]
            }
        ),
    ),
    "jsonlines": (LINES, "".join(json.dumps({"features": row}) + "\n" for row in ROWS)),
    "jsonlines of data": (LINES, "\n".join(json.dumps({"data": {"features": {"values": row}}}) for row in ROWS)),
    "records": (RECORDIO, dense_records(ROWS)),
    "sparse records": (RECORDIO, sparse_records(ROWS)),
}


@pytest.mark.parametrize("name", BODIES)
def test_every_form_of_a_request(name):
    content_type, body = BODIES[name]
    answer = ask(regressor(), body, content_type)
    assert answer.content_type == JSON
    assert answer.body == b'{"predictions": [{"score": 2.25}, {"score": 1.25}]}'


@pytest.mark.parametrize("make", [dense_records, sparse_records])
def test_a_single_record_needs_no_recordio_around_it(make):
    framed = make(ROWS[:1])
    bare = framed[8 : 8 + int.from_bytes(framed[4:8], "little")]
    assert ask(regressor(), bare, RECORDIO).body == ask(regressor(), framed, RECORDIO).body


def test_answers_of_a_binary_classifier():
    answer = ask(binary(), "0,0,0\n2,0,0\n").body
    assert json.loads(answer)["predictions"][1]["score"] == pytest.approx(1 / (1 + np.exp(-2)))
    assert answer.startswith(b'{"predictions": [{"score": 0.5, "predicted_label": 0}, {"score": 0.88')
    assert answer.endswith(b', "predicted_label": 1}]}')


def test_answers_of_several_classes():
    found = json.loads(ask(classes(), "0,5,0").body)["predictions"]
    assert list(found[0]) == ["score", "predicted_label"]
    assert found[0]["predicted_label"] == 1
    assert sum(found[0]["score"]) == pytest.approx(1, abs=1e-6)


def test_lines_end_at_newlines_only():
    lines = ['{"features": [1, 2, 3], "configuration": "a\u2028b\x85c"}', '{"features": [1, 2, 3]}']
    answer = ask(regressor(), "\r\n".join(lines), LINES, LINES)
    assert len(answer.body.splitlines()) == 2


def test_jsonlines():
    answer = ask(binary(), "0,0,0\n0,0,0\n", accept=LINES)
    assert answer.content_type == LINES
    assert answer.body == b'{"score": 0.5, "predicted_label": 0}\n' * 2


def test_records():
    answer = ask(binary(), "0,0,0\n9,0,0\n", accept=RECORDIO)
    assert answer.content_type == RECORDIO
    records = read_records(io.BytesIO(answer.body))
    assert [list(record.label["predicted_label"].float32_tensor.values) for record in records] == [[0.0], [1.0]]
    assert list(records[0].label["score"].float32_tensor.values) == [0.5]
    three = read_records(io.BytesIO(ask(classes(), "0,5,0", accept=RECORDIO).body))[0]
    assert len(three.label["score"].float32_tensor.values) == 3


@pytest.mark.parametrize(
    ("body", "content_type", "accept", "status", "message"),
    [
        ("1,2,3", CSV, CSV, 406, "application/jsonlines"),
        ("1,2,3", "text/libsvm", "*/*", 415, "application/json"),
        ("1,2", CSV, "*/*", 400, "3 features"),
        ("1,M,3", CSV, "*/*", 400, "'M'"),
        ("", CSV, "*/*", 400, "no rows"),
        ("1,2,3\n1,2\n", CSV, "*/*", 400, "row 2"),
        ("{", JSON, "*/*", 400, "not valid JSON"),
        ("[]", JSON, "*/*", 400, "instances"),
        ('{"instances": []}', JSON, "*/*", 400, "no instances"),
        ('{"instances": [[1, 2, 3]]}', JSON, "*/*", 400, "instance 0"),
        ('{"instances": [{"features": [1, 2, "3"]}]}', JSON, "*/*", 400, "numbers"),
        ('{"instances": [{"features": [1, 2, true]}]}', JSON, "*/*", 400, "numbers"),
        ('{"instances": [{"features": [1, 2]}]}', JSON, "*/*", 400, "instance 0 has 2"),
        (
            '{"instances": [{"features": [1]}, {"data": {"features": {"keys": [0], "values": [5]}}}]}',
            JSON,
            "*/*",
            400,
            "takes 3 features, but instance 0 has 1",
        ),
        ('{"instances": [{"data": {"features": {"values": [1], "keys": [3]}}}]}', JSON, "*/*", 400, "below 3"),
        ('{"instances": [{"data": {"features": {"values": [1], "keys": [-1]}}}]}', JSON, "*/*", 400, "below 3"),
        ('{"instances": [{"data": {"features": {"values": [1, 1], "keys": [1, 1]}}}]}', JSON, "*/*", 400, "twice"),
        ('{"instances": [{"data": {"features": {"values": [1], "keys": [1, 2]}}}]}', JSON, "*/*", 400, "keys"),
        ('{"features": [1, 2, 3]}\n{', LINES, "*/*", 400, "line 2"),
        (b"\xff\xfe", CSV, "*/*", 400, "utf-8"),
        (b"\x0a\x23\xd7\xce\xff\xff\xff\x1f", RECORDIO, "*/*", 400, "unable to evaluate"),
        (b"1,2,3\n1,M,3", CSV, "*/*", 400, "row 2, column 2 is not a number: 'M'"),
        ("1,2,3\n1,1_0,3", CSV, "*/*", 400, "row 2, column 2 is not a number: '1_0'"),
        ('1,"1_0",3', CSV, "*/*", 400, "row 1, column 2 is not a number: '1_0'"),
        ("1,2,\uff11\uff12", CSV, "*/*", 400, "row 1, column 3 is not a number: '\uff11\uff12'"),
        ("1,2,\u0663", CSV, "*/*", 400, "row 1, column 3 is not a number: '\u0663'"),
        (
            b'{"instances": [{"data": {"features": {"keys": [0], "shape": [99], "values": [1]}}}]}',
            JSON,
            "*/*",
            400,
            "takes 3 features, but 'shape' is [99]",
        ),
    ],
)
def test_refusals(body, content_type, accept, status, message):
    with pytest.raises(RequestError) as caught:
        ask(regressor(), body, content_type, accept)
    assert caught.value.status == status
    assert message in caught.value.reason


@pytest.mark.parametrize(
    ("size", "body"),
    [
        (1, "M,1,0,2\nF,0,0.5,0\n"),
        (1, "9,1,0,2\n8,0,0.5,0"),
        (2, 'M,"a, b",1,0,2\nF,c,0,0.5,0\n'),
        (0, "1,0,2\n0,0.5,0"),
    ],
)
def test_labels_in_a_csv_of_any_kind_are_ignored(size, body):
    answer = ask(regressor(), body, f"text/csv; label_size={size}")
    assert answer == ask(regressor(), "1,0,2\n0,0.5,0")


@pytest.mark.parametrize(
    ("size", "body", "message"),
    [
        ("1", "M", "label_size=1 leaves no features in rows of 1 values"),
        ("9", "1,2,3", "label_size=9 leaves no features in rows of 3 values"),
        ("9" * 5000, "1,2,3", "leaves no features"),
        ("1", "M,1,x,3", "row 1, column 3 is not a number: 'x'"),
        ("1", "M,1,2", "takes 3 features, but the body has 2"),
        ("-1", "1,2,3", "label_size is a number of columns, found '-1'"),
        ("²", "1,2,3", "label_size is a number of columns, found '²'"),
        ("one", "1,2,3", "label_size is a number of columns"),
    ],
)
def test_label_sizes_that_do_not_fit(size, body, message):
    with pytest.raises(RequestError) as caught:
        ask(regressor(), body, f"text/csv; label_size={size}")
    assert caught.value.status == 400
    assert caught.value.reason.startswith("unable to evaluate payload provided: ")
    assert message in caught.value.reason


def test_a_model_of_one_feature_without_one():
    weights, bias = np.float32([[1]]), np.float32([0])
    handler = LinearLearnerHandler(Model(predictor_type="regressor", loss="squared_loss", weights=weights, bias=bias))
    with pytest.raises(RequestError, match="leaves no features"):
        ask(handler, "M\nF", "text/csv; label_size=1")


def test_the_first_of_several_that_are_accepted():
    assert ask(regressor(), "1,2,3", accept="text/csv, application/jsonlines").content_type == LINES


def test_requests_together_are_answered_as_each_alone():
    requests = [
        Request(body=body if isinstance(body, bytes) else body.encode(), content_type=kind, accept=accept)
        for (kind, body), accept in zip(BODIES.values(), [JSON, LINES, RECORDIO] * 4, strict=True)
    ]
    requests.insert(3, Request(body=b"1,2", content_type=CSV))
    handler = regressor()
    together = handler.answer_many(requests)
    for request, answer in zip(requests, together, strict=True):
        if isinstance(answer, RequestError):
            assert request.body == b"1,2"
        else:
            assert answer == handler(request)
    assert isinstance(handler.answer_many([requests[3]])[0], RequestError)


@given(st.sampled_from([JSON, LINES, CSV, RECORDIO]), st.binary(max_size=80))
def test_no_body_is_more_than_refused(content_type, body):
    try:
        ask(regressor(), body, content_type)
    except RequestError as error:
        assert error.status == 400


CELLS = st.text(max_size=4) | st.floats().map(repr) | st.sampled_from(["M", "1", "", '"', '"a, b"', "²", "1e999", "\0"])
SIZES = st.integers(-1, 5).map(str) | st.sampled_from(["", "²", "1.5", "9" * 30])
KINDS = st.sampled_from(["", "; charset=latin-1", "; charset=utf-16", "; charset=idna", "; charset=none"])


@given(st.lists(st.lists(CELLS, max_size=4), max_size=4), SIZES, KINDS)
def test_no_csv_is_more_than_refused(rows, size, charset):
    body = "\n".join(map(",".join, rows)).encode("utf-8", "surrogatepass")
    kind = f"text/csv; label_size={size}{charset}"
    request = Request(body=body, content_type=kind)
    for handler in (regressor(), binary(), classes()):
        (together,) = handler.answer_many([request])
        try:
            assert handler(request) == together
        except RequestError as error:
            assert error.status in (400, 415)


@given(st.sampled_from([dense_records, sparse_records]), st.data())
def test_no_damaged_records_are_more_than_refused(made, data):
    body = bytearray(made(ROWS))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        if not body:
            break
    try:
        ask(classes(), bytes(body), RECORDIO)
    except RequestError as error:
        assert error.status == 400


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["instances", "features", "data", "keys", "values", "shape"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(VALUES)
def test_no_json_is_more_than_refused(value):
    for body in (value, {"instances": value}, {"instances": [value]}, {"instances": [{"features": value}]}):
        try:
            ask(regressor(), json.dumps(body), JSON)
        except RequestError as error:
            assert error.status == 400
