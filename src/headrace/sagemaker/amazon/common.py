"""The functions of RecordIO-protobuf, where version 2 of the SDK has them."""

from __future__ import annotations

from headrace.sagemaker.common import (
    read_recordio,
    read_records,
    write_numpy_to_dense_tensor,
    write_spmatrix_to_sparse_tensor,
)
from headrace.sagemaker.deserializers import RecordDeserializer, record_deserializer
from headrace.sagemaker.serializers import RecordSerializer, numpy_to_record_serializer

__all__ = [
    "RecordDeserializer",
    "RecordSerializer",
    "numpy_to_record_serializer",
    "read_recordio",
    "read_records",
    "record_deserializer",
    "write_numpy_to_dense_tensor",
    "write_spmatrix_to_sparse_tensor",
]
