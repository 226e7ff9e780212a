"""SageMaker's Record as protobuf messages, by the names that ``protoc`` generates from ``record.proto``.

The messages are built on first use, so this module can be imported without protobuf. They have a descriptor pool of their own,
because the SDK registers the same names in the default pool, and one process may load both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace._optional import available, require

if TYPE_CHECKING:
    Bytes: Any
    DESCRIPTOR: Any
    Float32Tensor: Any
    Float64Tensor: Any
    Int32Tensor: Any
    Record: Any
    Value: Any

__all__ = ["DESCRIPTOR", "Bytes", "Float32Tensor", "Float64Tensor", "Int32Tensor", "Record", "Value"]

HINT = "Matrices can be read without it: headrace.open(path).to_numpy() or .to_csr()."
PACKAGE = "aialgs.data"
KEYS_AND_SHAPE = [(2, "keys", "repeated uint64"), (3, "shape", "repeated uint64")]
MESSAGES = {
    "Float32Tensor": [(1, "values", "repeated float"), *KEYS_AND_SHAPE],
    "Float64Tensor": [(1, "values", "repeated double"), *KEYS_AND_SHAPE],
    "Int32Tensor": [(1, "values", "repeated int32"), *KEYS_AND_SHAPE],
    "Bytes": [(1, "value", "repeated bytes"), (2, "content_type", "optional string")],
    "Value": [
        (2, "float32_tensor", "oneof Float32Tensor"),
        (3, "float64_tensor", "oneof Float64Tensor"),
        (7, "int32_tensor", "oneof Int32Tensor"),
        (9, "bytes", "oneof Bytes"),
    ],
    "Record": [
        (1, "features", "map Value"),
        (2, "label", "map Value"),
        (3, "uid", "optional string"),
        (4, "metadata", "optional string"),
        (5, "configuration", "optional string"),
    ],
}


def __getattr__(name: str) -> Any:
    """Build the messages on first use.

    Raises:
        MissingExtra: protobuf is not installed.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update(_build_messages())
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *(__all__ if available("google.protobuf") else ())})


def _build_messages() -> dict[str, Any]:
    descriptors, pools, factory = (
        require(f"google.protobuf.{name}", extra="sagemaker", hint=HINT, package="protobuf")
        for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    file = descriptors.FileDescriptorProto(name="record.proto", package=PACKAGE)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field, declaration in fields:
            _declare(message, number, field, *declaration.split())
    pool = pools.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    built = {name: factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES}
    for kind in built.values():
        kind.__module__ = __name__  # for pickle and copy
    return {"DESCRIPTOR": pool.FindFileByName("record.proto"), **built}


def _declare(message: Any, number: int, name: str, rule: str, kind: str) -> None:
    """Add a field to a ``DescriptorProto``."""
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if rule in ("repeated", "map") else field.LABEL_OPTIONAL
    if rule == "map":
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        _declare(entry, 1, "key", "optional", "string")
        _declare(entry, 2, "value", "optional", kind)
        kind = f"{message.name}.{entry.name}"
    elif rule == "oneof":
        if not message.oneof_decl:
            message.oneof_decl.add(name="value")
        field.oneof_index = 0
    if kind[0].isupper():
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
        if rule == "repeated" and kind != "bytes":
            field.options.packed = True
