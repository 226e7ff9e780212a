"""Sound."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.contracts.values import Ragged
from headrace.datasets.features.base import BYTES, DtypeLike, Stored, shape_json
from headrace.datasets.features.tensor import Tensor
from headrace.errors import UnsupportedData, Where
from headrace.io.faults import name_in_errors

__all__ = ["Audio"]

FROM_WAV: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("<i2"), 4: np.dtype("<i4")}


class Audio(Tensor):
    """The samples of a recording, ``(length,)`` or ``(length, channels)``.

    Args:
        file_format: Format of the original files: ``"wav"``, ...
        shape: Axis lengths.
        dtype: Dtype of the samples.
        sample_rate: Samples per second, as information.
        encoding: As in :class:`Tensor`.
        lazy_decode: Examples hold files instead of samples. WAV files are decoded; for others open the data with
            ``decoders={...: SkipDecoding()}`` and decode the bytes yourself.
        description, value_range: Text.
    """

    class_name = "audio_feature.Audio"

    def __init__(
        self,
        *,
        file_format: str | None = None,
        shape: Sequence[int | None] = (None,),
        dtype: DtypeLike = "int64",
        sample_rate: int | None = None,
        encoding: str = "none",
        lazy_decode: bool = False,
        description: str = "",
        value_range: str = "",
    ) -> None:
        super().__init__(shape=shape, dtype=dtype, encoding=encoding, description=description, value_range=value_range)
        if len(self.shape) not in (1, 2):
            raise ValueError(f"a sound is (length,) or (length, channels), got {self.shape}")
        self.file_format: str | None = file_format or None
        self.sample_rate: int | None = sample_rate or None
        self.lazy_decode = lazy_decode

    @property
    def stored(self) -> dict[str, Stored]:
        return {"": Stored(dtype=BYTES)} if self.lazy_decode else super().stored

    @property
    def stored_dtype(self) -> str:
        return self.declared_dtype if self.lazy_decode else super().stored_dtype

    def decode(self, parts: list[Any]) -> Any:
        if not self.lazy_decode:
            return super().decode(parts)
        sounds = [self._from_file(content, record) for record, content in enumerate(parts[0])]
        if None not in self.shape:
            return np.stack(sounds) if sounds else np.zeros((0, *(n or 0 for n in self.shape)), self.value_dtype)
        empty = np.zeros((0, *(n or 0 for n in self.shape[1:])), self.value_dtype)
        return Ragged.from_list(sounds) if sounds else Ragged(empty, np.zeros(1, np.int64))

    def _from_file(self, content: bytes, record: int | None) -> npt.NDArray[Any]:
        if not content.startswith(b"RIFF"):
            raise UnsupportedData(
                Where(record=record),
                expected="a WAV file, the only format that is decoded here",
                found=f"a file of {self.file_format or 'another kind'} that begins with {content[:4]!r}",
                hint="Open the data with decoders={...: SkipDecoding()}, and decode the bytes with a library of your choice.",
            )
        import wave  # imported here, because few datasets have sounds

        try:
            with wave.open(io.BytesIO(content)) as sound:
                width, channels = sound.getsampwidth(), sound.getnchannels()
                memory = sound.readframes(sound.getnframes())
        except (wave.Error, EOFError) as error:
            raise self.misfit(f"a damaged WAV file ({error})", record=record) from error
        wanted = self.shape[1] if len(self.shape) == 2 else 1
        if (
            (channels != wanted and wanted is not None)
            or width not in (*FROM_WAV, 3)
            or len(memory) % (width * channels)
        ):
            raise self.misfit(f"{channels} channels of {width} bytes", record=record)
        samples = _samples(memory, width).astype(self.value_dtype)
        samples = samples.reshape(-1, channels) if len(self.shape) == 2 else samples
        self._check_shape(samples.shape)
        return samples

    def encode_example(self, value: Any) -> Any:
        """Encode an array, a path or an open file: as samples, or as the bytes of the file with ``lazy_decode``."""
        if isinstance(value, (np.ndarray, list, tuple)):
            if self.lazy_decode:
                raise self.misfit("an array", expected="a path or an open file, because of lazy_decode")
            return super().encode_example(value)
        if isinstance(value, bytes):
            content = value
        elif hasattr(value, "read"):
            content = value.read()
        else:
            with name_in_errors(str(value)):
                content = Path(value).read_bytes()
        return content if self.lazy_decode else super().encode_example(self._from_file(content, None))

    def content(self) -> tuple[str, dict[str, Any]]:
        out: dict[str, Any] = {
            "shape": shape_json(self.shape),
            "dtype": self.declared_dtype,
            "encoding": self.encoding.upper(),
        }
        if self.file_format:
            out["fileFormat"] = self.file_format
        if self.sample_rate:
            out["sampleRate"] = str(self.sample_rate)
        if self.lazy_decode:
            out["lazyDecode"] = True
        return "audio", out

    def _parameters(self) -> Mapping[str, Any]:
        return {**super()._parameters(), "sample_rate": self.sample_rate}


def _samples(memory: bytes, width: int) -> npt.NDArray[Any]:
    """Signed samples; 24-bit samples fill the upper bytes of 32 bits."""
    if width == 3:
        wide = np.zeros((len(memory) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(memory, np.uint8).reshape(-1, 3)
        return wide.view("<i4")[:, 0]
    samples = np.frombuffer(memory, FROM_WAV[width])
    return (samples ^ 0x80).view(np.int8) if width == 1 else samples
