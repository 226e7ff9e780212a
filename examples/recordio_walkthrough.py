"""RecordIO-protobuf step by step: two rows in, two records out, and the matrix back. No AWS, no SageMaker SDK.

pip install "headrace[sagemaker,sklearn]"
python examples/recordio_walkthrough.py
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse

import headrace as hr
from headrace.sagemaker.common import read_records, write_numpy_to_dense_tensor, write_spmatrix_to_sparse_tensor


def main() -> None:
    matrix = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
    labels = np.array([1.0, 0.0])

    buffer = io.BytesIO()
    write_numpy_to_dense_tensor(buffer, matrix, labels)
    print(f"dense: {len(buffer.getvalue())} bytes, the first record begins {buffer.getvalue()[:8].hex(' ', 4)}")
    buffer.seek(0)
    for record in read_records(buffer):
        values = record.features["values"].float64_tensor.values
        print(f"  values {list(values)}, label {record.label['values'].float64_tensor.values[0]}")

    sparse = scipy.sparse.coo_array(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "sparse.recordio")
        with path.open("wb") as file:
            write_spmatrix_to_sparse_tensor(file, sparse, np.array([0.0, 1.0]))
        print("sparse:")
        with path.open("rb") as file:
            records = read_records(file)
        for record in records:
            tensor = record.features["values"].float64_tensor
            print(f"  keys {list(tensor.keys)}, values {list(tensor.values)}, shape {list(tensor.shape)}")
        print(records[0])

        source = hr.open(path)
        print(source.schema)
        found, found_labels = source.to_csr()
    print(found.toarray(), found_labels)
    assert np.array_equal(found.toarray(), sparse.toarray())


if __name__ == "__main__":
    main()
