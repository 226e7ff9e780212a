"""What every codec is held to."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts.schema import Schema
from headrace.errors import DataError
from headrace.formats.open import open_records
from headrace.testing.data import assert_same, kinds_batch, kinds_schema
from headrace.writing.write import write_records

__all__ = ["CodecTests"]

ROWS = 20


class CodecTests(ABC):
    """Subclass it, say how to make a codec and which kinds of features it holds, and pytest runs these tests on it.

    Args:
        kinds: Names of :data:`~headrace.testing.KINDS` that come back as they were under the codec's schema.
    """

    kinds: tuple[str, ...]

    @abstractmethod
    def make(self, schema: Schema) -> Any:
        """The codec for a schema."""

    @pytest.fixture
    def codec(self) -> Any:
        """The codec for all kinds."""
        return self.make(kinds_schema(self.kinds))

    def spans(self, codec: Any, folder: Path, rows: int = ROWS) -> Any:
        """Encoded rows, as a format gives them."""
        batch = kinds_batch(rows, self.kinds)
        block, starts, sizes = codec.encode_batch(batch, rows, 12, 4)
        payloads = [bytes(block[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
        write_records(folder / "x.tfrecord", payloads)
        records: Any = open_records(folder / "x.tfrecord")
        return next(iter(records.iter_spans()))[1]

    def test_what_is_encoded_is_decoded(self, codec: Any, tmp_path: Path) -> None:
        assert_same(codec.decode_batch(self.spans(codec, tmp_path)), kinds_batch(ROWS, self.kinds))

    def test_one_payload_is_a_batch_of_one(self, codec: Any, tmp_path: Path) -> None:
        spans = self.spans(codec, tmp_path)
        batch = codec.decode_batch(spans)
        for position, payload in enumerate(spans.to_bytes()):
            assert_same(dict(codec.decode(payload)), {name: column[position] for name, column in batch.items()})

    def test_fewer_features_are_decoded(self, codec: Any, tmp_path: Path) -> None:
        names = self.kinds[::2]
        narrow = codec.narrowed(names)
        assert list(narrow.schema) == list(names)
        whole = kinds_batch(ROWS, self.kinds)
        assert_same(narrow.decode_batch(self.spans(codec, tmp_path)), {name: whole[name] for name in names})

    def test_it_is_picklable(self, codec: Any, tmp_path: Path) -> None:
        again = pickle.loads(pickle.dumps(codec))
        assert_same(again.decode_batch(self.spans(codec, tmp_path)), kinds_batch(ROWS, self.kinds))

    def test_damage_is_an_error_or_data(self, codec: Any, tmp_path: Path) -> None:
        """A payload that is cut off or has a flipped byte never raises anything but our own errors."""
        for payload in self.spans(codec, tmp_path, 3).to_bytes():
            damaged = [payload[:size] for size in range(len(payload))]
            damaged += [payload[:at] + bytes([payload[at] ^ 0x2A]) + payload[at + 1 :] for at in range(len(payload))]
            for candidate in damaged:
                try:
                    codec.decode(candidate)
                except DataError as error:
                    assert error.expected
                    assert error.found
