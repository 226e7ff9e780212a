"""Runs in .venv-peers-sagemaker: runs jobs from standard input with the real SDK, one JSON answer per job."""

import io
import json
import logging
import os
import sys
import warnings

os.environ["SAGEMAKER_SUPPRESS_V2_WARNING"] = "1"
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from google.protobuf.message import DecodeError  # noqa: E402
from sagemaker.amazon import common  # noqa: E402
from sagemaker.amazon.record_pb2 import Record  # noqa: E402

DTYPES = {"float32_tensor": np.float32, "float64_tensor": np.float64, "int32_tensor": np.int32}


def write(job):
    """The bytes of a file, or the error."""
    arrays = np.load(job["path"])
    labels = arrays.get("labels")
    file = io.BytesIO()
    try:
        if job["format"] == "dense":
            common.write_numpy_to_dense_tensor(file, arrays["array"], labels)
        else:
            csr = sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
            common.write_spmatrix_to_sparse_tensor(file, csr.asformat(job["format"]), labels)
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)}
    return {"hex": file.getvalue().hex()}


def value(found):
    kind = found.WhichOneof("value")
    if kind is None:
        return None
    tensor = getattr(found, kind)
    if kind == "bytes":
        return [kind, [item.hex() for item in tensor.value], tensor.content_type]
    return [kind, np.array(tensor.values, DTYPES[kind]).tobytes().hex(), list(tensor.keys), list(tensor.shape)]


def content(record):
    maps = {
        name: {key: value(getattr(record, name)[key]) for key in sorted(getattr(record, name))}
        for name in ("features", "label")
    }
    return {**maps, "uid": record.uid, "metadata": record.metadata, "configuration": record.configuration}


def read(job):
    """What is in every record of a file."""
    with open(job["path"], "rb") as file:
        return [content(record) for record in common.read_records(file)]


def parse(job):
    """What is in payloads."""
    answers = []
    for payload in job["payloads"]:
        record = Record()
        try:
            record.ParseFromString(bytes.fromhex(payload))
            record.DiscardUnknownFields()
            found = content(record)
        except DecodeError:
            answers.append("no message")
            continue
        except UnicodeDecodeError:
            answers.append("no text")
            continue
        answers.append(found)
    return answers


if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    json.dump([globals()[job["do"]](job) for job in jobs], sys.stdout)
