"""The messages that notebooks import as sagemaker.amazon.record_pb2."""

import copy
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from tests.reference import recordio, sagemaker_wire

from headrace.codecs.sagemaker_record.codec import read_message
from headrace.errors import CorruptRecord
from headrace.sagemaker import install_as_sagemaker
from headrace.sagemaker.amazon import common, record_pb2

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "recordio"
PAYLOAD = bytes.fromhex("0a160a0676616c756573120c120a0a080000803f0000004012120a0676616c756573120812060a0400004040")
SPARSE = bytes.fromhex("0a1d0a0676616c756573121312110a080000e04000000041120201031a0104")
TENSORS = {1: "float32_tensor", 2: "float64_tensor", 3: "int32_tensor"}


def test_a_record_is_filled_and_written_as_in_the_sdk():
    undo = install_as_sagemaker()
    try:
        from sagemaker.amazon.record_pb2 import Record
    finally:
        undo()
    assert Record is record_pb2.Record
    record = Record()
    assert record.features["values"].WhichOneof("value") is None
    record.features["values"].float32_tensor.values.extend([1, 2])
    record.label["values"].float32_tensor.values.append(3)
    assert record.SerializeToString() == PAYLOAD
    record.features["values"].int32_tensor.values.append(-1)
    assert record.features["values"].WhichOneof("value") == "int32_tensor"
    record.features["b"].bytes.value.append(b"\0\xff")
    record.features["b"].bytes.content_type = "x/y"
    record.uid, record.metadata, record.configuration = "u", "m", "{}"
    back = Record.FromString(record.SerializeToString())
    assert back == record
    assert back.features["b"].bytes.value == [b"\0\xff"]
    assert (back.uid, back.metadata, back.configuration) == ("u", "m", "{}")


def test_every_field_has_the_number_and_the_type_of_record_proto():
    record = record_pb2.Record()
    record.features["f"].float32_tensor.values.append(1)
    record.features["f"].float32_tensor.keys.append(2)
    record.features["f"].float32_tensor.shape.append(3)
    assert record.SerializeToString().hex() == "0a130a0166120e120c0a040000803f1201021a0103"
    for kind, tag in (("float32_tensor", 0x12), ("float64_tensor", 0x1A), ("int32_tensor", 0x3A), ("bytes", 0x4A)):
        value = record_pb2.Value()
        getattr(value, kind).SetInParent()
        assert value.SerializeToString() == bytes([tag, 0])
    texts = record_pb2.Record(uid="a", metadata="b", configuration="c")
    assert texts.SerializeToString() == b"\x1a\x01a\x22\x01b\x2a\x01c"
    assert record_pb2.Bytes(value=[b"x"], content_type="y").SerializeToString() == b"\x0a\x01x\x12\x01y"
    assert record_pb2.Int32Tensor(values=[-1]).SerializeToString() == b"\x0a\x0a" + b"\xff" * 9 + b"\x01"
    assert record_pb2.Float64Tensor(values=[1.0]).SerializeToString() == b"\x0a\x08" + np.float64(1).tobytes()
    assert record_pb2.DESCRIPTOR.package == "aialgs.data"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("[ds]*.recordio")), ids=lambda path: path.stem)
def test_files_of_the_sdk_are_read_and_written_again_to_the_byte(path):
    records = common.read_records(io.BytesIO(path.read_bytes()))
    described = json.loads(path.with_suffix(".recordio.json").read_text())["examples"]
    for record, expected in zip(records, described, strict=False):
        for place in ("features", "label"):
            for name, tensor in expected[place].items():
                value = getattr(record, place)[name]
                assert value.WhichOneof("value") == tensor["kind"]
                found = getattr(value, tensor["kind"])
                assert list(found.values) == tensor["values"]
                assert list(found.keys) == tensor["keys"]
                assert list(found.shape) == tensor["shape"]
    payloads = [record.SerializeToString(deterministic=True) for record in records]
    assert b"".join(map(recordio.frame, payloads)) == path.read_bytes()


@settings(max_examples=50)
@given(sagemaker_wire.records())
def test_native_code_reads_what_protobuf_writes(payload):
    try:
        record = record_pb2.Record.FromString(payload)
        record.DiscardUnknownFields()  # upb treats a whole map entry with an unknown field as unknown
        texts = [record.uid, record.metadata, record.configuration]
        features = dict(record.features)
    except UnicodeDecodeError:  # names that are no UTF-8, which protobuf cannot show
        return
    message = read_message(record.SerializeToString())
    assert [message.uid or "", message.metadata or "", message.configuration or ""] == texts
    assert message.features.keys() == features.keys()
    for name, value in features.items():
        kind = value.WhichOneof("value")
        assert TENSORS.get(message.features[name].kind) == (None if kind == "bytes" else kind)
        if kind is not None and kind != "bytes":
            np.testing.assert_array_equal(message.features[name].values, getattr(value, kind).values)
            assert list(message.features[name].keys) == list(getattr(value, kind).keys)


def test_copies():
    record = record_pb2.Record.FromString(SPARSE)
    for other in (copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert other == record
        other.features["values"].float32_tensor.values.append(1)
        assert other != record


def test_a_payload_that_is_not_a_record():
    with pytest.raises(CorruptRecord, match="at record 1"):
        common.read_records(io.BytesIO(recordio.frame(PAYLOAD) + recordio.frame(b"\x0b")))


def test_names():
    assert {"Record", "Value", "DESCRIPTOR"} <= set(dir(record_pb2))
    with pytest.raises(AttributeError, match="has no attribute 'Tensor'"):
        _ = record_pb2.Tensor


WITHOUT_PROTOBUF = """
import io, sys
sys.modules["google.protobuf"] = None
import numpy as np
import headrace as hr
from headrace.sagemaker.amazon import common, record_pb2
from headrace.sagemaker.deserializers import RecordDeserializer
from headrace.sagemaker.serializers import RecordSerializer

assert "Record" not in dir(record_pb2)
body = RecordSerializer().serialize(np.eye(2))
file = io.BytesIO()
common.write_numpy_to_dense_tensor(file, np.eye(2))
assert file.getvalue() == body and len(list(common.read_recordio(io.BytesIO(body)))) == 2
with open(sys.argv[1], "wb") as file:
    file.write(body)
matrix, labels = hr.open(sys.argv[1]).to_numpy()
assert (matrix == np.eye(2)).all()
for use in (
    lambda: record_pb2.Record,
    lambda: common.read_records(io.BytesIO(body)),
    lambda: RecordDeserializer().deserialize(io.BytesIO(body), ""),
):
    try:
        use()
    except hr.MissingExtra as error:
        assert 'needs protobuf. Install it with: pip install "headrace[sagemaker]"' in str(error), error
        assert "to_numpy()" in str(error)
    else:
        raise AssertionError
try:
    from headrace.sagemaker.amazon.record_pb2 import Record
except ImportError as error:
    assert "headrace[sagemaker]" in str(error)
"""


def test_matrices_need_no_protobuf(tmp_path):
    subprocess.run([sys.executable, "-c", WITHOUT_PROTOBUF, tmp_path / "x.rec"], check=True)
