"""Files and messages against the real SageMaker SDK, both ways."""

import importlib.util
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.reference import sagemaker_wire

from headrace.codecs.sagemaker_record.codec import read_message
from headrace.errors import CorruptRecord
from headrace.sagemaker import common

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv-peers-sagemaker" / "bin" / "python"
SCRIPT = Path(__file__).with_name("sagemaker_peer.py")
TENSORS = {1: "float32_tensor", 2: "float64_tensor", 3: "int32_tensor", 4: "bytes"}

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(not PEERS.exists(), reason='needs .venv-peers-sagemaker with "sagemaker<3", scipy and numpy'),
]


def ask(jobs, implementation="upb"):
    """The answer of the SDK, with one of protobuf's implementations."""
    variables = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation}
    done = subprocess.run(
        [PEERS, SCRIPT], input=json.dumps(jobs), capture_output=True, text=True, check=False, env=variables
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def ours(write, array, labels):
    file = io.BytesIO()
    try:
        write(file, array, labels)
    except (ValueError, TypeError) as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"hex": file.getvalue().hex()}


def value(found):
    kind = found.WhichOneof("value")
    if kind is None:
        return None
    tensor = getattr(found, kind)
    if kind == "bytes":
        return [kind, [item.hex() for item in tensor.value], tensor.content_type]
    dtype = {"float32_tensor": np.float32, "float64_tensor": np.float64, "int32_tensor": np.int32}[kind]
    return [kind, np.array(tensor.values, dtype).tobytes().hex(), list(tensor.keys), list(tensor.shape)]


def content(record):
    maps = {
        name: {key: value(getattr(record, name)[key]) for key in sorted(getattr(record, name))}
        for name in ("features", "label")
    }
    return {**maps, "uid": record.uid, "metadata": record.metadata, "configuration": record.configuration}


def plain_value(tensor):
    if tensor.kind == 0:
        return None
    if tensor.kind == 4:
        return ["bytes", [item.hex() for item in tensor.values], tensor.content_type or ""]
    return [TENSORS[tensor.kind], tensor.values.tobytes().hex(), list(tensor.keys), list(tensor.shape)]


def plain_content(message):
    maps = {
        name: {key: plain_value(tensor) for key, tensor in sorted(getattr(message, name).items())}
        for name in ("features", "label")
    }
    texts = {name: getattr(message, name) or "" for name in ("uid", "metadata", "configuration")}
    return {**maps, **texts}


def matrices(rng):
    """Dense arrays and labels that the SDK writes."""
    for dtype in (np.float32, np.float64, np.int64):
        for shape in ((0, 3), (3, 0), (1, 1), (5, 7), (40, 130)):
            array = (rng.standard_normal(shape) * 1000).astype(dtype)
            yield array, None
            for label in (np.float32, np.float64, np.int64):
                yield array, (rng.standard_normal(shape[0]) * 300).astype(label)
    yield np.array([[np.nan, np.inf, -np.inf, -0.0, 5e-324]]), np.array([np.nan])
    yield np.array([[2**31 - 1, -(2**31), 0, -1, 127, 128]]), np.array([-(2**31)])
    yield np.asfortranarray(rng.standard_normal((6, 4))), None
    yield rng.standard_normal((12, 9))[::3, ::2], rng.standard_normal(8)[::2]


def refused(rng):
    """Inputs that the SDK and Headrace refuse for the same reason."""
    yield np.zeros(3), None
    yield np.zeros((2, 2, 2)), np.zeros((2, 2))
    yield np.zeros((2, 3)), np.zeros((2, 1))
    yield np.zeros((2, 3)), np.zeros(4)
    yield np.zeros((2, 3)), np.array(["a", "b"])
    yield np.zeros((2, 3), complex), np.zeros(2)
    yield np.array([[2**31]]), None
    _ = rng


def saved(folder, cases):
    for number, (array, labels) in enumerate(cases):
        path = folder / f"{number}.npz"
        parts = {} if labels is None else {"labels": labels}
        if sp.issparse(array):
            parts |= {"data": array.data, "indices": array.indices, "indptr": array.indptr, "shape": array.shape}
        else:
            parts["array"] = array
        np.savez(path, **parts)
        yield str(path)


def test_dense_files_are_equal_to_the_byte(tmp_path):
    cases = list(matrices(np.random.default_rng(1)))
    answers = ask([{"do": "write", "format": "dense", "path": path} for path in saved(tmp_path, cases)])
    for (array, labels), expected in zip(cases, answers, strict=True):
        assert ours(common.write_numpy_to_dense_tensor, array, labels) == expected


def test_refusals_are_the_same(tmp_path):
    cases = list(refused(np.random.default_rng(1)))
    answers = ask([{"do": "write", "format": "dense", "path": path} for path in saved(tmp_path, cases)])
    for (array, labels), expected in zip(cases, answers, strict=True):
        found = ours(common.write_numpy_to_dense_tensor, array, labels)
        assert found["error"] == expected["error"]
        assert found["message"].startswith(expected["message"])


def test_sparse_files_of_every_format_are_equal_to_the_byte(tmp_path):
    rng = np.random.default_rng(2)
    cases = []
    for dtype in (np.float32, np.float64, np.int64):
        for shape in ((0, 3), (3, 0), (1, 1), (8, 12), (30, 60)):
            matrix = sp.random(*shape, 0.2, format="csr", random_state=rng)
            matrix.data = (matrix.data * 1000 - 500).astype(dtype)
            cases += [(matrix, None), (matrix, rng.standard_normal(shape[0]).astype(np.float32))]
    unsorted = sp.csr_matrix((np.array([1.0, 0, 3, 4]), np.array([2, 0, 0, 1]), np.array([0, 3, 3, 4])), shape=(3, 3))
    cases.append((unsorted, np.arange(3)))
    paths = list(saved(tmp_path, cases))
    for form in ("csr", "csc", "coo", "lil", "dok", "bsr", "dia"):
        # A matrix without rows or columns does not become every format.
        chosen = [
            (case, path)
            for case, path in zip(cases, paths, strict=True)
            if form in ("csr", "csc", "coo") or all(case[0].shape)
        ]
        answers = ask([{"do": "write", "format": form, "path": path} for _, path in chosen])
        for ((matrix, labels), _), expected in zip(chosen, answers, strict=True):
            for kind in (sp.csr_matrix, sp.csr_array):
                assert (
                    ours(common.write_spmatrix_to_sparse_tensor, kind(matrix.copy()).asformat(form), labels) == expected
                )


def test_files_of_ours_read_back_through_the_sdk(tmp_path):
    rng = np.random.default_rng(3)
    paths = []
    for number, (array, labels) in enumerate(matrices(rng)):
        paths.append(tmp_path / f"{number}.rec")
        with paths[-1].open("wb") as file:
            common.write_numpy_to_dense_tensor(file, array, labels)
    for path, expected in zip(paths, ask([{"do": "read", "path": str(path)} for path in paths]), strict=True):
        with path.open("rb") as file:
            assert [content(record) for record in common.read_records(file)] == expected


def examples(strategy, count):
    """Payloads of a strategy, always the same ones."""
    found = []

    @settings(max_examples=count, database=None, derandomize=True, phases=[Phase.generate])
    @given(strategy)
    def collect(payload):
        found.append(payload)

    collect()
    return found


@st.composite
def damaged(draw):
    payload = draw(sagemaker_wire.records())
    at = draw(st.integers(0, len(payload)))
    return payload[:at] + draw(st.binary(max_size=3)) + payload[at + draw(st.integers(0, 3)) :]


@pytest.mark.parametrize("strategy", [sagemaker_wire.records(), damaged()], ids=["legal", "damaged"])
def test_payloads_mean_to_us_what_they_mean_to_protobuf(strategy):
    payloads = examples(strategy, 400)
    jobs = [{"do": "parse", "payloads": [payload.hex() for payload in payloads]}]
    # upb treats map entries with unknown fields as unknown fields; protobuf's other implementations and Headrace do not.
    (answers,) = ask(jobs, "python")
    compared = 0
    for payload, expected in zip(payloads, answers, strict=True):
        if expected == "no message":
            with pytest.raises(CorruptRecord):
                read_message(payload)
        elif expected != "no text":  # keys that are no UTF-8, which protobuf's Python objects cannot show
            assert plain_content(read_message(payload)) == expected
            compared += 1
    assert compared > 20


def test_this_environment_has_no_sdk():
    assert importlib.util.find_spec("sagemaker") is None, sys.prefix
