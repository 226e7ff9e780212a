"""Record objects behave as protobuf's do."""

import copy
import pickle

import numpy as np
import pytest

from headrace.errors import CorruptRecord
from headrace.sagemaker.record import Record

GOLDEN = bytes.fromhex("0a160a0676616c756573120c120a0a080000803f0000004012120a0676616c756573120812060a0400004040")
SPARSE = bytes.fromhex("0a1d0a0676616c756573121312110a080000e04000000041120201031a0104")


def test_what_user_code_reads():
    record = Record()
    assert record.ParseFromString(GOLDEN) == len(GOLDEN)
    tensor = record.features["values"].float32_tensor
    assert list(tensor.values) == [1.0, 2.0]
    assert tensor.values == [1, 2]
    assert tensor.values[0] == 1
    assert tensor.values[-1:] == [2]
    assert isinstance(tensor.values[0], float)
    assert len(tensor.values) == 2
    assert not tensor.keys
    assert list(tensor.shape) == []
    assert repr(tensor.values) == "[1.0, 2.0]"
    assert [*record.label] == ["values"]
    assert record.label["values"].float32_tensor.values[0] == 3
    assert record.features["values"].WhichOneof("value") == "float32_tensor"
    assert record.features["values"].HasField("float32_tensor")
    assert not record.features["values"].HasField("bytes")
    assert len(record.features["values"].int32_tensor.values) == 0
    assert record.features["values"].WhichOneof("value") == "float32_tensor"  # looking changes nothing
    assert (record.uid, record.metadata, record.configuration) == ("", "", "")
    assert record.SerializeToString() == GOLDEN
    sparse = Record.FromString(SPARSE).features["values"].float32_tensor
    assert (list(sparse.values), list(sparse.keys), list(sparse.shape)) == ([7, 8], [1, 3], [4])


@pytest.mark.parametrize(
    ("name", "dtype", "plain"),
    [
        ("float32_tensor", np.float32, np.float64),
        ("float64_tensor", np.float64, np.float64),
        ("int32_tensor", np.int32, np.int64),
    ],
)
def test_arrays_are_those_of_python_numbers(name, dtype, plain):
    record = Record()
    getattr(record.features["values"], name).values.extend(np.array([1, 2], dtype))
    for value in (record, Record.FromString(record.SerializeToString())):
        values = getattr(value.features["values"], name).values
        assert np.array(values).dtype == plain
        assert np.asarray(values, dtype).dtype == dtype
        assert np.array_equal(values, [1, 2])
    keys = Record.FromString(SPARSE).features["values"].float32_tensor.keys
    assert np.array(keys).dtype == np.int64
    assert np.array(record.features["values"].float32_tensor.keys).dtype == np.float64  # as of an empty list


def test_filling_a_record():
    record = Record()
    value = record.features["values"]
    assert value.WhichOneof("value") is None
    assert "values" in record.features
    value.float32_tensor.values.extend([1, 2])
    record.label["values"].float32_tensor.values.append(3)
    assert record.SerializeToString() == GOLDEN
    assert record.ByteSize() == len(GOLDEN)
    value.int32_tensor.values.append(-1)
    assert value.WhichOneof("value") == "int32_tensor"
    assert len(value.float32_tensor.values) == 0
    record.uid, record.metadata, record.configuration = "u", "m", "{}"
    record.features["b"].bytes.value.append(b"\0\xff")
    record.features["b"].bytes.content_type = "x/y"
    back = Record.FromString(record.SerializeToString())
    assert back == record
    assert (back.uid, back.metadata, back.configuration) == ("u", "m", "{}")
    assert back.features["b"].bytes.value == [b"\0\xff"]
    assert back.features["b"].bytes.content_type == "x/y"
    assert back.features["values"].int32_tensor.values == [-1]
    assert back != Record()
    back.ClearField("uid")
    back.ClearField("features")
    assert not back.HasField("uid")
    assert len(back.features) == 0
    back.Clear()
    assert back.SerializeToString() == b""


def test_repeated_fields_change_in_every_way():
    values = Record.FromString(GOLDEN).features["values"].float32_tensor.values
    values[0] = 5
    values += [7, 6]
    values.insert(0, 9)
    values[1:2] = [0.5, 0.25]
    del values[2]
    values.remove(7)
    assert values == [9, 0.5, 2, 6]
    values.sort()
    values.reverse()
    assert values.pop() == 0.5
    values.clear()
    assert not values
    values.append(0.1)
    assert values == [float(np.float32(0.1))]


def test_what_a_field_cannot_hold():
    value = Record().features["x"]
    for refused, kind, message in (
        (lambda: value.int32_tensor.values.append(2**31), ValueError, "Value out of range: 2147483648"),
        (lambda: value.int32_tensor.values.append(1.5), TypeError, "float"),
        (lambda: value.float32_tensor.keys.append(-1), ValueError, "Value out of range: -1"),
        (lambda: value.float64_tensor.values.extend(["a"]), TypeError, "must be real number, not str"),
        (lambda: value.WhichOneof("nope"), ValueError, "nope"),
        (lambda: value.HasField("nope"), ValueError, "nope"),
        (lambda: setattr(value, "float32_tensor", 1), AttributeError, "setter|read-only"),
        (lambda: setattr(value.float32_tensor, "values", 1), AttributeError, "setter|read-only"),
        (lambda: setattr(value.bytes, "content_type", 1), TypeError, "int"),
    ):
        with pytest.raises(kind, match=message):
            refused()
    assert value.WhichOneof("value") is None  # what was refused has left no trace


def test_maps():
    record = Record.FromString(GOLDEN)
    assert record.features.get("other") is None
    assert "other" not in record.features
    assert next(iter(record.features.items()))[0] == "values"
    with pytest.raises(ValueError, match="cannot be assigned"):
        record.features["a"] = record.features["values"]
    del record.features["values"]
    assert record.SerializeToString() == GOLDEN[24:]
    record.features.get_or_create("empty")
    assert Record.FromString(record.SerializeToString()).features["empty"].WhichOneof("value") is None


def test_presence_and_unknown_names():
    record = Record()
    record.uid = ""
    assert record.HasField("uid")
    for name, message in (("features", "does not have presence"), ("nope", 'no "nope" field')):
        with pytest.raises(ValueError, match=message):
            record.HasField(name)
    with pytest.raises(ValueError, match="nope"):
        record.ClearField("nope")
    with pytest.raises(TypeError, match="int"):
        record.uid = 5


def test_damaged_payloads_leave_the_record_as_it_was():
    record = Record.FromString(GOLDEN)
    with pytest.raises(CorruptRecord):
        record.ParseFromString(b"\x0b")
    assert record.SerializeToString() == GOLDEN


def test_copies():
    record = Record.FromString(SPARSE)
    for other in (copy.deepcopy(record), pickle.loads(pickle.dumps(record)), copy.copy(record)):
        assert other == record
        other.features["values"].float32_tensor.values.append(1)
        assert other != record
    target = Record()
    target.CopyFrom(record)
    assert target == record


def test_text_is_what_protobuf_prints():
    record = Record.FromString(SPARSE)
    record.features["values"].float32_tensor.values.extend([0.1, 1 / 3, 1e20, float("nan")])
    record.uid = 'a"\n\x01ä'
    assert str(record) == (
        "features {\n"
        '  key: "values"\n'
        "  value {\n"
        "    float32_tensor {\n"
        "      values: 7\n      values: 8\n      values: 0.1\n      values: 0.333333343\n      values: 1e+20\n      values: nan\n"
        "      keys: 1\n      keys: 3\n"
        "      shape: 4\n"
        "    }\n"
        "  }\n"
        "}\n"
        'uid: "a\\"\\n\\001\\303\\244"\n'
    )
    assert str(record.features["values"]).startswith("float32_tensor {\n  values: 7\n")
