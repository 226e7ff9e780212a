"""Records as objects with the attributes and methods that protobuf's messages have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import numpy as np

from penstock.codecs.sagemaker_record_message import (
    Message,
    Tensor,
    is_record,
    read_message,
    write_message,
    write_tensor,
)
from penstock.sagemaker.repeated import Check, Repeated, as_bytes, as_float32, as_float64, as_int32, as_uint64
from penstock.sagemaker.text_format import record_lines, value_lines

__all__ = ["Record", "TensorField", "Value", "ValueMap"]

KINDS = {"float32_tensor": 1, "float64_tensor": 2, "int32_tensor": 3, "bytes": 4}
CHECKS: dict[int, Check] = {1: as_float32, 2: as_float64, 3: as_int32}
STRINGS = ("uid", "metadata", "configuration")


class TensorField:
    """A numeric tensor: three sequences, which are filled in place."""

    __slots__ = ("_keys", "_shape", "_values")

    def __init__(self, kind: int, tensor: Tensor, on_change: Callable[[], None]) -> None:
        self._values = Repeated(_items(tensor.values), CHECKS[kind], on_change)
        self._keys = Repeated(_items(tensor.keys), as_uint64, on_change)
        self._shape = Repeated(_items(tensor.shape), as_uint64, on_change)

    def tensor(self, kind: int) -> Tensor:
        """As plain values."""
        return Tensor(kind, self._values, self._keys, self._shape)

    @property
    def values(self) -> Repeated:
        """The numbers."""
        return self._values

    @property
    def keys(self) -> Repeated:
        """Of a sparse tensor: the place of each number in it."""
        return self._keys

    @property
    def shape(self) -> Repeated:
        """Axis lengths."""
        return self._shape


class BytesField:
    """Bytes: ``value``, a sequence that is filled in place, and ``content_type``."""

    __slots__ = ("_content_type", "_on_change", "_value")

    def __init__(self, tensor: Tensor, on_change: Callable[[], None]) -> None:
        self._value = Repeated(_items(tensor.values), as_bytes, on_change)
        self._content_type = tensor.content_type
        self._on_change = on_change

    @property
    def value(self) -> Repeated:
        """The values."""
        return self._value

    @property
    def content_type(self) -> str:
        """What the bytes are; ``""`` where nobody says."""
        return self._content_type or ""

    @content_type.setter
    def content_type(self, text: str) -> None:
        checked = _checked_text(text)
        self._on_change()
        self._content_type = checked

    def tensor(self, kind: int) -> Tensor:
        """As plain values."""
        return Tensor(kind, self._value, content_type=self._content_type)


class Value:
    """One feature or label: at most one of ``float32_tensor``, ``float64_tensor``, ``int32_tensor`` and ``bytes``.

    Reading another one gives an empty tensor; putting something into it makes it the one that is there.
    """

    __slots__ = ("_fields", "_kind")

    def __init__(self, tensor: Tensor | None = None) -> None:
        self._fields: dict[int, TensorField | BytesField] = {}
        self._kind = 0
        if tensor is not None and tensor.kind:
            self._fields[tensor.kind] = self._made(tensor.kind, tensor)
            self._kind = tensor.kind

    def _made(self, kind: int, tensor: Tensor) -> TensorField | BytesField:
        def on_change() -> None:
            if self._fields.get(kind) is made and self._kind != kind:
                self._kind = kind
                self._fields = {kind: made}

        made = BytesField(tensor, on_change) if kind == KINDS["bytes"] else TensorField(kind, tensor, on_change)
        return made

    def _field(self, name: str) -> Any:
        kind = KINDS[name]
        if kind not in self._fields:
            self._fields[kind] = self._made(kind, Tensor())
        return self._fields[kind]

    @property
    def float32_tensor(self) -> TensorField:
        """Numbers of four bytes."""
        return self._field("float32_tensor")  # type: ignore[no-any-return]

    @property
    def float64_tensor(self) -> TensorField:
        """Numbers of eight bytes."""
        return self._field("float64_tensor")  # type: ignore[no-any-return]

    @property
    def int32_tensor(self) -> TensorField:
        """Whole numbers."""
        return self._field("int32_tensor")  # type: ignore[no-any-return]

    @property
    def bytes(self) -> BytesField:
        """Bytes."""
        return self._field("bytes")  # type: ignore[no-any-return]

    def WhichOneof(self, name: str) -> str | None:  # noqa: N802 - protobuf's name
        """Which of them is there; ``name`` is ``"value"``."""
        if name != "value":
            raise ValueError(f'Value has no oneof "{name}"')
        return next((field for field, kind in KINDS.items() if kind == self._kind), None)

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
        """Whether this one is there."""
        if name not in KINDS:
            raise ValueError(f'Protocol message Value has no "{name}" field.')
        return KINDS[name] == self._kind

    def tensor(self) -> Tensor:
        """As plain values."""
        return self._fields[self._kind].tensor(self._kind) if self._kind else Tensor()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and write_tensor(self.tensor()) == write_tensor(other.tensor())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "".join(line + "\n" for line in value_lines(self.tensor(), ""))


class ValueMap(MutableMapping[str, Value]):
    """Names to values. As in protobuf, asking for a name that is not there puts an empty value in."""

    __slots__ = ("_values",)

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._values = {name: Value(tensor) for name, tensor in tensors.items()}

    def __getitem__(self, name: str) -> Value:
        return self._values.setdefault(name, Value()) if name not in self._values else self._values[name]

    get_or_create = __getitem__

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or ``default``; puts nothing in."""
        return self._values.get(name, default)

    def __setitem__(self, name: str, value: Value) -> None:
        raise ValueError("a value cannot be assigned: fill the one that record.features[name] gives")

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def tensors(self) -> dict[str, Tensor]:
        """As plain values."""
        return {name: value.tensor() for name, value in self._values.items()}

    def __repr__(self) -> str:
        return repr(self._values)


class Record:
    """A SageMaker Record: what ``record_pb2.Record`` is to code that reads or fills one.

    >>> record = Record()
    >>> record.features["values"].float32_tensor.values.extend([1, 2])
    >>> record.SerializeToString().hex()
    '0a160a0676616c756573120c120a0a080000803f00000040'
    """

    __slots__ = ("_features", "_label", "_message", "_payload")

    def __init__(self) -> None:
        self._payload: bytes | None = b""  # what was read and not looked into yet

    def _opened(self) -> Record:
        if self._payload is not None:
            self._message = read_message(self._payload)
            self._features = ValueMap(self._message.features)
            self._label = ValueMap(self._message.label)
            self._payload = None
        return self

    @property
    def features(self) -> ValueMap:
        """The features by name."""
        return self._opened()._features

    @property
    def label(self) -> ValueMap:
        """The labels by name."""
        return self._opened()._label

    @classmethod
    def FromString(cls, payload: bytes) -> Record:  # noqa: N802 - protobuf's name
        """The Record in a payload.

        Raises:
            CorruptRecord: It is none.
        """
        record = cls()
        record.ParseFromString(payload)
        return record

    def ParseFromString(self, payload: bytes) -> int:  # noqa: N802 - protobuf's name
        """Become the Record in a payload; returns its length.

        Raises:
            CorruptRecord: It is none.
        """
        if not is_record(payload):
            read_message(payload)
        self._payload = bytes(payload)
        return len(self._payload)

    def SerializeToString(self, *, deterministic: bool = True) -> bytes:  # noqa: N802 - protobuf's name
        """The payload; map entries in the order of their keys in any case."""
        _ = deterministic
        return write_message(self.message())

    def ByteSize(self) -> int:  # noqa: N802 - protobuf's name
        """How long the payload is."""
        return len(self.SerializeToString())

    def Clear(self) -> None:  # noqa: N802 - protobuf's name
        """Become empty."""
        self._payload = b""

    def CopyFrom(self, other: Record) -> None:  # noqa: N802 - protobuf's name
        """Become equal to another one."""
        self.ParseFromString(other.SerializeToString())

    def HasField(self, name: str) -> bool:  # noqa: N802 - protobuf's name
        """Whether the record has a ``uid``, ``metadata`` or ``configuration``."""
        if name in ("features", "label"):
            raise ValueError(f"Field aialgs.data.Record.{name} does not have presence.")
        if name not in STRINGS:
            raise ValueError(f'Protocol message Record has no "{name}" field.')
        return getattr(self._opened()._message, name) is not None

    def ClearField(self, name: str) -> None:  # noqa: N802 - protobuf's name
        """Take one field out."""
        if name in STRINGS:
            setattr(self._opened()._message, name, None)
        elif name in ("features", "label"):
            getattr(self, name).clear()
        else:
            raise ValueError(f'Protocol message has no "{name}" field.')

    @property
    def uid(self) -> str:
        """Name of the record; ``""`` where it has none."""
        return self._opened()._message.uid or ""

    @uid.setter
    def uid(self, text: str) -> None:
        self._opened()._message.uid = _checked_text(text)

    @property
    def metadata(self) -> str:
        """Text about the record."""
        return self._opened()._message.metadata or ""

    @metadata.setter
    def metadata(self, text: str) -> None:
        self._opened()._message.metadata = _checked_text(text)

    @property
    def configuration(self) -> str:
        """Options for inference, as JSON text."""
        return self._opened()._message.configuration or ""

    @configuration.setter
    def configuration(self, text: str) -> None:
        self._opened()._message.configuration = _checked_text(text)

    def message(self) -> Message:
        """As plain values."""
        own = self._opened()._message
        return Message(self.features.tensors(), self.label.tensors(), own.uid, own.metadata, own.configuration)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self.SerializeToString() == other.SerializeToString()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        return Record.FromString, (self.SerializeToString(),)

    def __repr__(self) -> str:
        return "".join(line + "\n" for line in record_lines(self.message()))


def _checked_text(text: Any) -> str:
    if not isinstance(text, str):
        raise TypeError(f"text is str, got {type(text).__name__}")
    return text


def _items(values: Any) -> Any:
    return values if isinstance(values, np.ndarray) else list(values)
