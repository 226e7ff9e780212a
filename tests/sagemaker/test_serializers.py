"""Bodies, as the SDK writes and reads them."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from headrace.containers.toolkit import encoders as toolkit_encoders
from headrace.sagemaker import deserializers, serializers
from headrace.sagemaker.amazon import common
from headrace.sagemaker.common import read_records

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "sagemaker_sdk" / "serializers.json").read_text(encoding="utf-8")
)
VALUES = {
    "str": "1,2",
    "list": [1, 2, 3],
    "ll": [[1, 2], [3, 4]],
    "mixed": [["a,b", 1.5], ['q"x', None]],
    "f8": np.array([[0.1, 1], [1e-7, 1e20]]),
    "f4": np.float32([0.1, 2]),
    "i8": np.arange(4).reshape(2, 2),
    "bool": np.array([True, False]),
    "empty": [],
    "emptyarr": np.array([]),
    "emptyrow": [[]],
    "tuple": (1, 2),
    "d3": np.zeros((1, 2, 2)),
    "bytes": b"1,2\n3,4",
    "strs": ["a", "b"],
    "dict": {"a": np.float32([1, 2]), "b": 3},
    "num": 5,
    "df": pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}),
}


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


BODIES = {
    "csv": (b'1,2\n3,"a,b"\n', "text/csv"),
    "nums": (b"1,2\n3,4\n", "text/csv"),
    "json": (b'{"a": [1, 2.5]}', "application/json"),
    "jl": (b"[1, 2]", "application/json"),
    "lines": (b'{"a":1}\n{"b":2}\n', "application/jsonlines"),
    "txt": ("é".encode(), "text/plain"),
    "npy": (npy(np.float32([[1, 2]])), "application/x-npy"),
}


def plain(value):
    if hasattr(value, "read"):
        value = value.read()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, pd.DataFrame):
        return json.loads(json.dumps(value.to_dict()))
    return json.loads(json.dumps(value, default=str))


@pytest.mark.parametrize("call", GOLDEN)
def test_as_the_sdk_does_it(call):
    name, given = call.rstrip(")").split("(")
    try:
        if hasattr(serializers, name):
            found = plain(getattr(serializers, name)().serialize(VALUES[given]))
        else:
            body, content_type = BODIES[given]
            found = plain(getattr(deserializers, name)().deserialize(io.BytesIO(body), content_type))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    assert found == GOLDEN[call]


def test_files_are_read():
    assert serializers.CSVSerializer().serialize(io.StringIO("5,6")) == "5,6"
    assert serializers.IdentitySerializer().serialize(io.BytesIO(b"x")) == b"x"
    for kind in (serializers.JSONSerializer, serializers.JSONLinesSerializer, serializers.LibSVMSerializer):
        assert kind().serialize(io.BytesIO(b"1 1:2")) == b"1 1:2"
        assert kind().serialize(io.StringIO("1 1:2")) == "1 1:2"


def test_a_row_of_a_table_is_a_row():
    table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert serializers.CSVSerializer().serialize(table.iloc[1]) == "2,y"
    assert serializers.CSVSerializer().serialize(table) == "1,x\n2,y\n"


def test_line_ends_in_cells_are_quoted():
    rows = [["a\nb", 1], ["c\r", "d\n"]]
    body = serializers.CSVSerializer().serialize(rows)
    assert body == '"a\nb",1\n"c\r","d\n"'
    assert pd.read_csv(io.StringIO(body), header=None).to_numpy().tolist() == [["a\nb", "1"], ["c\r", "d\n"]]


def test_values_that_are_neither_text_nor_files(tmp_path):
    (tmp_path / "x").write_bytes(b"12")
    given = serializers.DataSerializer()
    assert [given.serialize(one) for one in (b"1", str(tmp_path / "x"), {"data": b"2"})] == [b"1", b"12", b"2"]
    with pytest.raises(ValueError, match="Could not open/read file"):
        given.serialize(str(tmp_path / "y"))
    with pytest.raises(ValueError, match="not Data serializable"):
        given.serialize(0)
    with pytest.raises(ValueError, match="Unable to handle input format"):
        serializers.LibSVMSerializer().serialize([1])


def test_serializers_of_a_notebook():
    class Lines(serializers.BaseSerializer):
        CONTENT_TYPE = "text/lines"

        def serialize(self, data):
            return "\n".join(data)

    class Upper(serializers.SimpleBaseSerializer):
        def serialize(self, data):
            return data.upper()

    class Words(deserializers.BaseDeserializer):
        ACCEPT = ("text/lines",)

        def deserialize(self, stream, content_type):
            return [content_type, *stream.read().decode().split()]

    class Lower(deserializers.SimpleBaseDeserializer):
        def deserialize(self, stream, content_type):
            return stream.read().decode().lower()

    assert (Lines().serialize("ab"), Upper().content_type, Upper("a/b").content_type) == (
        "a\nb",
        "application/json",
        "a/b",
    )
    assert (Words().ACCEPT, Words().deserialize(io.BytesIO(b"a b"), "x")) == (("text/lines",), ["x", "a", "b"])
    assert (Lower("a/b").ACCEPT, Lower().deserialize(io.BytesIO(b"AB"), "x")) == (("a/b",), "ab")


def test_data_that_the_sdk_would_pickle_or_corrupt_is_refused():
    with pytest.raises(ValueError, match="one or two axes"):
        serializers.CSVSerializer().serialize(np.zeros((1, 2, 2)))
    with pytest.raises(ValueError, match="pickle"):
        serializers.NumpySerializer().serialize([["a", None]])
    with pytest.raises(ValueError, match="pickle"):
        deserializers.NumpyDeserializer().deserialize(io.BytesIO(npy_of_objects()), "application/x-npy")


def npy_of_objects():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], object), allow_pickle=True)
    return buffer.getvalue()


def test_records_both_ways():
    body = serializers.RecordSerializer().serialize(np.float32([[1, 2], [3, 4]]))
    records = deserializers.RecordDeserializer().deserialize(io.BytesIO(body), "application/x-recordio-protobuf")
    assert [list(record.features["values"].float32_tensor.values) for record in records] == [[1, 2], [3, 4]]
    sparse = serializers.RecordSerializer().serialize(scipy.sparse.csr_matrix(np.float32([[0, 5]])))
    assert list(read_records(io.BytesIO(sparse))[0].features["values"].float32_tensor.keys) == [1]


def test_sparse_matrices():
    matrix = scipy.sparse.csr_matrix(np.eye(3))
    body = serializers.SparseMatrixSerializer().serialize(matrix)
    assert (scipy.sparse.load_npz(io.BytesIO(body)) != matrix).nnz == 0


def test_accept_headers():
    assert deserializers.PandasDeserializer().accept == "text/csv, application/json"
    assert deserializers.BytesDeserializer().accept == "*/*"
    assert deserializers.JSONDeserializer(accept="application/custom").ACCEPT == ("application/custom",)


@pytest.mark.parametrize(
    ("old", "value", "body"),
    [("csv_serializer", [1, 2], "1,2"), ("json_serializer", [1], "[1]")],
)
def test_names_of_version_1_warn_and_work(old, value, body):
    with pytest.warns(DeprecationWarning, match=old):
        assert getattr(serializers, old)(value) == body
    with pytest.warns(DeprecationWarning, match="json_deserializer"):
        assert deserializers.json_deserializer(io.BytesIO(b"[1]"), "application/json") == [1]
    with pytest.warns(DeprecationWarning, match="numpy_to_record_serializer"):
        serializers.numpy_to_record_serializer()


def test_the_content_type_is_that_of_the_instance():
    assert serializers.CSVSerializer("text/tab").CONTENT_TYPE == "text/tab"
    assert serializers.NumpySerializer(content_type="a/b").CONTENT_TYPE == "a/b"
    assert serializers.CSVSerializer.CONTENT_TYPE == serializers.CSVSerializer().CONTENT_TYPE == "text/csv"

    class Own(serializers.SimpleBaseSerializer):
        @property
        def CONTENT_TYPE(self):
            return "own/type"

        def serialize(self, data):
            return data

    assert Own("x/y").CONTENT_TYPE == "own/type"


def test_pickled_arrays_are_not_read():
    array = np.arange(3.0)
    buffer = io.BytesIO()
    np.save(buffer, array)
    buffer.seek(0)
    reader = deserializers.NumpyDeserializer(allow_pickle=False)
    np.testing.assert_array_equal(reader.deserialize(buffer, "application/x-npy"), array)
    with pytest.raises(ValueError, match="runs the code in it"):
        deserializers.NumpyDeserializer(allow_pickle=True)


def test_record_deserializer_is_the_name_of_version_1():
    with pytest.warns(DeprecationWarning, match="RecordDeserializer in version 2"):
        found = deserializers.record_deserializer()
    assert type(found) is deserializers.RecordDeserializer
    assert common.record_deserializer is deserializers.record_deserializer


@pytest.mark.torch
def test_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    made = serializers.TorchTensorSerializer()
    assert made.CONTENT_TYPE == "tensor/pt"
    body = made.serialize(tensor.requires_grad_())
    np.testing.assert_array_equal(np.load(io.BytesIO(body)), tensor.detach().numpy())
    found = deserializers.TorchTensorDeserializer().deserialize(io.BytesIO(body))
    assert torch.equal(found, tensor)
    with pytest.raises(ValueError, match=r"is not a torch\.Tensor"):
        made.serialize([1, 2])
    with pytest.raises(ValueError, match="Unable to serialize"):
        made.serialize(torch.zeros(2, dtype=torch.bfloat16))
    with pytest.raises(ValueError, match="Unable to deserialize"):
        deserializers.TorchTensorDeserializer().deserialize(io.BytesIO(b"no array"))


def test_npy_of_many_fields():
    array = np.zeros(
        2, [(f"field{number}", "<f8") for number in range(1000)]
    )  # a header of more than NumPy's 10,000 bytes
    found = deserializers.NumpyDeserializer().deserialize(io.BytesIO(npy(array)), "application/x-npy")
    assert found.dtype == array.dtype
    assert toolkit_encoders.decode(npy(array), "application/x-npy").dtype == array.dtype


def test_serializers_are_functions_too():
    assert serializers.IdentitySerializer()(b"a") == b"a"
    assert serializers.IdentitySerializer().serialize(io.BytesIO(b"file")) == b"file"
    assert serializers.StringSerializer()("t\u00e9xt") == "t\u00e9xt".encode()
    with pytest.raises(ValueError, match="Object of type <class 'bytes'> is not String serializable"):
        serializers.StringSerializer().serialize(b"a")
    assert serializers.CSVSerializer().serialize(io.BytesIO(b"1,2")) == "1,2"
    assert serializers.NumpySerializer().serialize(io.BytesIO(npy(np.arange(3)))) == npy(np.arange(3))


def test_deserializers_state_what_they_accept():
    assert deserializers.JSONDeserializer().accept == "application/json"
    assert deserializers.CSVDeserializer(accept=("text/csv", "text/plain")).accept == "text/csv, text/plain"
    stream = io.BytesIO(b"a")
    assert deserializers.StreamDeserializer()(stream, "text/plain") == (stream, "text/plain")


def test_line_ends_in_texts_are_kept():
    rows = [["a\nb", "x\u2028y\x85z"], ["c\r\nd", 'e"f']]
    body = serializers.CSVSerializer().serialize(rows).encode()
    assert deserializers.CSVDeserializer().deserialize(io.BytesIO(body), "text/csv") == rows
    body = '{"a": "x\u2028y\x85z"}\r\n\n{"a": 1}\n'.encode()
    found = deserializers.JSONLinesDeserializer().deserialize(io.BytesIO(body), "application/jsonlines")
    assert found == [{"a": "x\u2028y\x85z"}, {"a": 1}]


def test_rows_of_text_as_the_sdk_writes_them():
    write = serializers.CSVSerializer().serialize
    assert write(("a", "b")) == "a,b"
    assert write(("M", 0.44, 0.365)) == "M,0.44,0.365"
    assert write(np.array(["x,y", "z"])) == write(np.array(["x,y", "z"], object)) == "x,y\nz"
    assert write(np.array(["M", 0.5], object)) == "M,0.5"
    assert write(((1, 2), (3, 4))) == "1,2\n3,4"
    with pytest.raises(ValueError, match=r"Unable to handle input format: <class 'float'>.*write \[row\] or a tuple"):
        write(["M", 0.44, 0.365])


def test_values_in_csv_are_never_pythons_names_for_them():
    write = serializers.CSVSerializer().serialize
    assert write([np.arange(4).reshape(2, 2)]) == "0,1,2,3"
    assert write(np.array([b"a,b", b"c"])) == write([b"a,b", b"c"]) == "a,b\nc"
    assert write([[b"a", 1], (np.array(2), np.float32(0.5))]) == "a,1\n2,0.5"
    assert write(bytearray(b"1,2")) == write(memoryview(b"1,2")) == "1,2"
    assert write(pd.Series(["1,2", "3,4"])) == "1,2\n3,4"
    assert write(pd.Series([1.5, 2])) == "1.5,2.0"
    assert write(pd.Series(["x", "y"], index=["a", "b"])) == "x,y"
    assert (
        write(np.ma.array([[1.0, -999]], mask=[[0, 1]])) == write([np.ma.array([1.0, -999], mask=[0, 1])]) == "1.0,nan"
    )
    for value in ([[1, [2, 3]]], [[{}]], [{"a": 1}], [{1, 2}], np.array([(1, 2.0)], "i4,f8"), [[1, np.arange(2)]]):
        with pytest.raises(ValueError, match=r"each cell|Unable to handle"):
            write(value)
    with pytest.raises(ValueError, match=r"masked ones of int64.*filled"):
        write(np.ma.array([1, 2], mask=[0, 1]))


def test_tensors_are_arrays():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    write = serializers.CSVSerializer().serialize
    assert write(tensor) == write(list(tensor)) == write([list(row) for row in tensor]) == "1.0,2.0\n3.0,4.0"
    assert write(list(tensor[0])) == write(tensor[0]) == "1.0,2.0"
    assert serializers.NumpySerializer().serialize(tensor) == npy(np.float32([[1, 2], [3, 4]]))
    with pytest.raises(ValueError, match="BFloat16"):
        write(tensor.to(torch.bfloat16))


def test_masked_values_are_not_sent():
    masked = np.ma.array([1.0, -999], mask=[0, 1])
    assert serializers.NumpySerializer().serialize(masked) == npy(np.array([1, np.nan]))
    assert serializers.RecordSerializer().serialize(masked) == serializers.RecordSerializer().serialize([1, np.nan])
    assert serializers.JSONSerializer().serialize(masked) == "[1.0, null]"
    assert serializers.JSONSerializer().serialize([np.longdouble(0.5)]) == "[0.5]"
    assert serializers.JSONSerializer().serialize(np.array([0.5], np.longdouble)) == "[0.5]"


def test_the_dtype_of_an_array_is_kept():
    serializer = serializers.NumpySerializer(dtype=np.float32)
    assert serializer.serialize(np.array([1.0])) == npy(np.array([1.0]))
    assert serializer.serialize([1.0]) == npy(np.float32([1.0]))
