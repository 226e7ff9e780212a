"""Training data of Amazon's algorithms: matrices as shards of Records in the store."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.sagemaker import image_uris
from headrace.sagemaker.amazon.common import write_numpy_to_dense_tensor, write_spmatrix_to_sparse_tensor
from headrace.sagemaker.image_uris import get_image_uri
from headrace.sagemaker.inputs import TrainingInput
from headrace.sagemaker.session import Session

__all__ = ["RecordSet", "get_image_uri", "image_uris", "upload_shards"]

CONTENT_TYPE = "application/x-recordio-protobuf"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSet:
    """Records in the store.

    Args:
        s3_data: URI of their manifest.
        num_records: Number of records.
        feature_dim: Width of a record.
        s3_data_type: ``"ManifestFile"`` or ``"S3Prefix"``.
        channel: Name of the channel they are for.
    """

    s3_data: str
    num_records: int
    feature_dim: int
    s3_data_type: str = "ManifestFile"
    channel: str = "train"

    def records_s3_input(self) -> TrainingInput:
        """The records as an input of a training job."""
        return TrainingInput(self.s3_data, s3_data_type=self.s3_data_type, content_type=CONTENT_TYPE)

    def data_channel(self) -> dict[str, TrainingInput]:
        """The records as the only channel of a training job."""
        return {self.channel: self.records_s3_input()}


def upload_shards(session: Session, prefix: str, features: Any, labels: Any, num_shards: int) -> str:
    """Write the rows of a matrix as shards ``matrix_N.pbr`` with a manifest.

    Args:
        session: The session whose store receives them.
        prefix: URI of the folder.
        features: ``(n, width)``, a dense array or a SciPy matrix, which stays sparse.
        labels: ``(n,)``, or ``None``.
        num_shards: Number of files.

    Returns:
        The URI of the manifest.
    """
    base = prefix.rstrip("/") + "/"
    count = features.shape[0]
    bounds = [count * number // num_shards for number in range(num_shards + 1)]
    rows = features.tocsr() if hasattr(features, "tocsr") else np.asarray(features)
    names = []
    for number in range(num_shards):
        part = slice(bounds[number], bounds[number + 1])
        buffer = io.BytesIO()
        write = write_spmatrix_to_sparse_tensor if hasattr(rows, "tocsr") else write_numpy_to_dense_tensor
        write(buffer, rows[part], None if labels is None else np.asarray(labels)[part])
        names.append(f"matrix_{number:0{len(str(num_shards))}}.pbr")
        session.store.put_bytes(buffer.getvalue(), base + names[-1])
    manifest = base + ".amazon.manifest"
    session.store.put_bytes(json.dumps([{"prefix": base}, *names]).encode(), manifest)
    return manifest
