"""Pixels that a schema wants stored as encoded images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.codecs.images.encode import ImageEncoder
from headrace.contracts.schema import Schema
from headrace.contracts.tables import BatchWriter

__all__ = ["EncodingSink", "encoders_of"]


def encoders_of(schema: Schema) -> dict[str, ImageEncoder]:
    """What encodes the features of pixels that have an ``encoding``.

    Raises:
        UnsupportedData: One of them cannot be encoded.
    """
    return {name: ImageEncoder(name, feature) for name, feature in schema.items() if feature.is_image}


class EncodingSink:
    """Encodes the images of batches on their way into another sink.

    Args:
        inner: Takes the encoded images.
        encoders: What encodes some features; the others pass.
    """

    def __init__(self, inner: BatchWriter, encoders: Mapping[str, ImageEncoder]) -> None:
        self.inner = inner
        self.encoders = encoders
        self.count = 0

    def write_batch(self, batch: Mapping[str, Any], n: int, /) -> None:
        """Encode and pass on."""
        columns = dict(batch)
        for name, encoder in self.encoders.items():
            column = np.empty(n, object)
            column[:] = [encoder.encoded(batch[name][row], self.count + row) for row in range(n)]
            columns[name] = column
        self.inner.write_batch(columns, n)
        self.count += n

    def close(self) -> None:
        """Close the other sink."""
        self.inner.close()

    def abort(self) -> None:
        """Abort the other sink."""
        self.inner.abort()
