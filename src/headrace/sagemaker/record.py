"""Records as objects with the attributes and methods that protobuf's messages have."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from headrace.codecs.sagemaker_record.message import (
    Message,
    Tensor,
    is_record,
    read_message,
    write_message,
    write_tensor,
)
from headrace.sagemaker.repeated import (
    Check,
    Repeated,
    as_bytes,
    as_float32,
    as_float64,
    as_int32,
    as_uint64,
    record_lines,
    value_lines,
)

__all__ = ["Record", "TensorField", "Value", "ValueMap"]

KINDS = {"float32_tensor": 1, "float64_tensor": 2, "int32_tensor": 3, "bytes": 4}
CHECKS: dict[int, Check] = {1: as_float32, 2: as_float64, 3: as_int32}
STRINGS = ("uid", "metadata", "configuration")


class Field:
    """A tensor or bytes, within its value. Putting something in makes it the one that the value holds."""

    __slots__ = ("__weakref__", "_kind", "_owner")

    def __init__(self, kind: int, owner: Value) -> None:
        self._kind = kind
        # Weak, so that records are freed without waiting for the garbage collector.
        self._owner = weakref.ref(owner)

    def touched(self) -> None:
        """A value is about to be put in."""
        owner = self._owner()
        if owner is not None:
            owner.choose(self._kind, self)


class TensorField(Field):
    """A numeric tensor: three sequences, which are filled in place."""

    __slots__ = ("_keys", "_shape", "_tensor", "_values")

    def __init__(self, kind: int, owner: Value, tensor: Tensor) -> None:
        super().__init__(kind, owner)
        self._tensor = tensor
        self._values: Repeated | None = None
        self._keys: Repeated | None = None
        self._shape: Repeated | None = None

    @property
    def values(self) -> Repeated:
        """The numbers."""
        if self._values is None:
            self._values = Repeated(self._tensor.values, CHECKS[self._kind], self)
        return self._values

    @property
    def keys(self) -> Repeated:
        """Of a sparse tensor: the place of each number in it."""
        if self._keys is None:
            self._keys = Repeated(self._tensor.keys, as_uint64, self)
        return self._keys

    @property
    def shape(self) -> Repeated:
        """Axis lengths."""
        if self._shape is None:
            self._shape = Repeated(self._tensor.shape, as_uint64, self)
        return self._shape

    def tensor(self) -> Tensor:
        """As plain values."""
        return Tensor(self._kind, self.values, self.keys, self.shape)


class BytesField(Field):
    """Bytes: ``value``, a sequence that is filled in place, and ``content_type``."""

    __slots__ = ("_content_type", "_value")

    def __init__(self, kind: int, owner: Value, tensor: Tensor) -> None:
        super().__init__(kind, owner)
        self._value = Repeated(tensor.values, as_bytes, self)
        self._content_type = tensor.content_type

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
        self.touched()
        self._content_type = checked

    def tensor(self) -> Tensor:
        """As plain values."""
        return Tensor(self._kind, self.value, content_type=self._content_type)


class Value:
    """One feature or label: at most one of ``float32_tensor``, ``float64_tensor``, ``int32_tensor`` and ``bytes``.

    Reading another one gives an empty tensor; putting something into it makes it the one that is there.
    """

    __slots__ = ("__weakref__", "_kind", "_others", "_own", "_tensor")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._kind = tensor.kind
        self._own: TensorField | BytesField | None = None
        self._others: dict[int, TensorField | BytesField] | None = None

    def _field(self, kind: int) -> Any:
        if kind == self._kind:
            if self._own is None:
                self._own = _made(kind, self, self._tensor)
            return self._own
        if self._others is None:
            self._others = {}
        if kind not in self._others:
            self._others[kind] = _made(kind, self, Tensor())
        return self._others[kind]

    def choose(self, kind: int, field: Field) -> None:
        """Let ``field`` be the one that is there, unless it is a forgotten one."""
        if kind != self._kind and self._others is not None and self._others.get(kind) is field:
            self._own = self._others[kind]
            self._others = None
            self._kind = kind

    @property
    def float32_tensor(self) -> TensorField:
        """Numbers of four bytes."""
        return self._field(KINDS["float32_tensor"])  # type: ignore[no-any-return]

    @property
    def float64_tensor(self) -> TensorField:
        """Numbers of eight bytes."""
        return self._field(KINDS["float64_tensor"])  # type: ignore[no-any-return]

    @property
    def int32_tensor(self) -> TensorField:
        """Whole numbers."""
        return self._field(KINDS["int32_tensor"])  # type: ignore[no-any-return]

    @property
    def bytes(self) -> BytesField:
        """Bytes."""
        return self._field(KINDS["bytes"])  # type: ignore[no-any-return]

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
        return self._tensor if self._own is None else self._own.tensor()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and write_tensor(self.tensor()) == write_tensor(other.tensor())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "".join(line + "\n" for line in value_lines(self.tensor(), ""))


def _made(kind: int, owner: Value, tensor: Tensor) -> TensorField | BytesField:
    return (BytesField if kind == KINDS["bytes"] else TensorField)(kind, owner, tensor)


class ValueMap(MutableMapping[str, Value]):
    """Names to values. As in protobuf, asking for a name that is not there puts an empty value in."""

    __slots__ = ("_entries",)

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._entries: dict[str, Any] = tensors  # a Value where it was looked at, else a Tensor

    def __getitem__(self, name: str) -> Value:
        found = self._entries.get(name)
        if not isinstance(found, Value):
            found = self._entries[name] = Value(found or Tensor())
        return found

    get_or_create = __getitem__

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or ``default``; puts nothing in."""
        return self[name] if name in self._entries else default

    def __setitem__(self, name: str, value: Value) -> None:
        raise ValueError("a value cannot be assigned: fill the one that record.features[name] gives")

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def tensors(self) -> dict[str, Tensor]:
        """As plain values."""
        return {name: entry.tensor() if isinstance(entry, Value) else entry for name, entry in self._entries.items()}

    def __repr__(self) -> str:
        return repr(dict(self.items()))


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
