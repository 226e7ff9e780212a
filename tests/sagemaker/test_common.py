"""The functions of sagemaker.amazon.common against bytes that the SDK wrote."""

import gzip
import io
import os
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tests.reference import recordio

from headrace.errors import CorruptRecord
from headrace.sagemaker import common
from headrace.sagemaker.serializers import RecordSerializer

# What the SDK's writers make, from the format's description.
GOLDEN = [
    (np.array([[1, 2]], np.float32), np.array([3], np.float32), "0a23d7ce2c0000000a160a0676616c756573120c120a0a080000803f0000004012120a0676616c756573120812060a0400004040"),
    (np.array([[1.0, 2.0]]), None, "0a23d7ce200000000a1e0a0676616c75657312141a120a10000000000000f03f0000000000000040"),
    (np.array([[1, -1, 300]]), np.array([5]), "0a23d7ce2e0000000a1b0a0676616c75657312113a0f0a0d01ffffffffffffffffff01ac02120f0a0676616c75657312053a030a01050000"),
    (np.zeros((2, 0)), None, "0a23d7ce0e0000000a0c0a0676616c75657312021a000000" * 2),
    (np.zeros((0, 3)), None, ""),
]  # fmt: skip
SPARSE = "0a23d7ce330000000a1d0a0676616c756573121312110a080000e04000000041120201031a010412120a0676616c756573120812060a040000803f00"
EMPTY_ROW = "0a23d7ce250000000a0f0a0676616c756573120512031a010412120a0676616c756573120812060a040000803f000000"


def dense(array, labels=None):
    file = io.BytesIO()
    common.write_numpy_to_dense_tensor(file, array, labels)
    return file.getvalue()


def sparse(array, labels=None):
    file = io.BytesIO()
    common.write_spmatrix_to_sparse_tensor(file, array, labels)
    return file.getvalue()


def tensors(data):
    return [record.features["values"] for record in common.read_records(io.BytesIO(data))]


@pytest.mark.parametrize(("array", "labels", "expected"), GOLDEN)
def test_dense_bytes(array, labels, expected):
    assert dense(array, labels).hex() == expected
    assert dense(np.asfortranarray(array), labels).hex() == expected
    assert dense(np.repeat(array, 2, axis=0)[::2], labels).hex() == expected


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array])
def test_sparse_bytes_of_every_format(form, make):
    matrix = make(np.array([[0, 7, 0, 8], [0, 0, 0, 0]], np.float32)).asformat(form)
    assert sparse(matrix, np.ones(2, np.float32)).hex() == SPARSE + EMPTY_ROW


def test_stored_order_repeats_and_zeros_are_kept():
    rows = sp.csr_matrix((np.array([1.0, 2, 0]), np.array([2, 0, 0]), np.array([0, 3, 3])), shape=(2, 3))
    first, second = tensors(sparse(rows))
    assert list(first.float64_tensor.keys) == [2, 0, 0]
    assert list(first.float64_tensor.values) == [1, 2, 0]
    assert list(second.float64_tensor.shape) == [3]
    wide = sp.csr_array(
        (np.ones(1, np.float32), np.array([2**33], np.int64), np.array([0, 1], np.int64)), shape=(1, 2**40)
    )
    assert list(tensors(sparse(wide))[0].float32_tensor.keys) == [2**33]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", ">i4", ">i8"]
)
def test_whole_numbers_of_every_size_are_the_int32_tensor(dtype):
    array = np.array([[0, 1], [1, 0]])
    assert dense(array.astype(dtype), array[0].astype(dtype)) == dense(array, array[0])
    assert sparse(sp.csr_matrix(array.astype(np.dtype(dtype).newbyteorder("=")))) == sparse(sp.csr_matrix(array))


def test_floats_of_other_sizes_and_orders():
    array = np.array([[0.5, -np.inf], [np.nan, 65504]])
    assert dense(array.astype(np.float16)) == dense(array.astype(np.float32))
    assert dense(array.astype(">f8")) == dense(array)
    assert dense(array.astype(">f4"), np.ones(2, ">f4")) == dense(array.astype("f4"), np.ones(2, "f4"))


def test_array_likes():
    assert dense([[1.0, 2.0]], [3.0]) == dense(np.array([[1.0, 2.0]]), np.array([3.0]))
    with pytest.warns(PendingDeprecationWarning):
        old = np.matrix([[1.0, 2.0]])
    assert dense(old) == dense(np.array([[1.0, 2.0]]))
    masked = np.ma.array([[1.0, 2.0]], mask=[[False, True]])
    assert dense(masked) == dense(np.array([[1.0, np.nan]]))
    assert dense(np.ma.array([[1, 2]])) == dense(np.array([[1, 2]]))


REFUSED = [
    (dense, np.zeros(3), None, ValueError, "^Array must be a Matrix$"),
    (dense, np.zeros((1, 1, 1)), np.zeros((1, 1)), ValueError, "^Array must be a Matrix$"),
    (dense, np.zeros((2, 3), complex), np.zeros((2, 1)), ValueError, "^Labels must be a Vector$"),
    (dense, np.zeros((2, 3), complex), np.zeros(4), ValueError, r"^Label shape \(4,\) not compatible with array shape \(2, 3\)$"),
    (dense, np.zeros((2, 3)), np.zeros(3), ValueError, r"^Label shape \(3,\) not compatible with array shape \(2, 3\)$"),
    (dense, np.zeros((3, 2)), np.zeros(2), ValueError, r"^Label shape \(2,\) not compatible with array shape \(3, 2\)$"),
    (dense, np.zeros((2, 3), complex), np.array(["a", "b"]), ValueError, "^Unsupported dtype <U1 on array"),
    (dense, np.zeros((2, 3), complex), np.zeros(2), ValueError, "^Unsupported dtype complex128 on array"),
    (dense, np.zeros((2, 3), object), None, ValueError, "^Unsupported dtype object on array"),
    (dense, np.zeros((2, 3), np.longdouble), None, ValueError, "^Unsupported dtype float128 on array"),
    (dense, np.array([[2**31]]), None, ValueError, "^Value out of range: 2147483648"),
    (dense, np.array([[-(2**31) - 1]]), None, ValueError, "^Value out of range: -2147483649"),
    (dense, np.array([[2**32 - 1]], np.uint32), None, ValueError, "^Value out of range: 4294967295 in array"),
    (dense, np.zeros((1, 1)), np.array([2**63], np.uint64), ValueError, "^Value out of range: 9223372036854775808 in labels"),
    (dense, np.ma.array([[1, 2]], mask=[[0, 1]]), None, ValueError, "^Masked values in an array of int64"),
    (sparse, np.zeros((2, 3)), np.zeros(5), TypeError, "^Array must be sparse$"),
    (sparse, sp.coo_array(np.ones(3)), None, ValueError, "^Array must be a Matrix$"),
    (sparse, sp.csr_matrix((2, 3)), np.zeros((2, 1)), ValueError, "^Labels must be a Vector$"),
    (sparse, sp.csr_matrix((2, 3)), np.zeros(3), ValueError, "^Label shape"),
    (sparse, sp.csr_matrix((2, 3), dtype=complex), None, ValueError, "^Unsupported dtype complex128 on array"),
    (sparse, sp.csr_matrix(np.array([[2**31]])), None, ValueError, "^Value out of range: 2147483648 in array"),
]  # fmt: skip


@pytest.mark.parametrize(("write", "array", "labels", "kind", "message"), REFUSED)
def test_refusals_in_the_order_of_the_sdk_and_nothing_written(write, array, labels, kind, message):
    class Untouched:
        def write(self, part):
            pytest.fail("something was written")

    target = common.write_numpy_to_dense_tensor if write is dense else common.write_spmatrix_to_sparse_tensor
    with pytest.raises(kind, match=message):
        target(Untouched(), array, labels)


def test_a_column_number_outside_of_the_matrix():
    matrix = sp.csr_matrix(np.eye(3))
    matrix.indices[2] = 3
    with pytest.raises(ValueError, match="from 0 to 3 in a matrix of 3 columns"):
        sparse(matrix)


def test_many_blocks_and_many_kinds_of_files(tmp_path):
    array = np.arange(3000 * 400, dtype=np.float32).reshape(3000, 400)
    whole = dense(array, np.arange(3000))
    assert whole == b"".join(dense(array[i : i + 1], np.arange(i, i + 1)) for i in range(3000))
    path = tmp_path / "x"
    for make, more in ((open, {}), (open, {"buffering": 0}), (gzip.open, {})):
        with make(path, "wb", **more) as file:
            common.write_numpy_to_dense_tensor(file, array, np.arange(3000))
        data = path.read_bytes()
        assert (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data) == whole

    class Parts(list):
        def write(self, part):
            assert isinstance(part, bytes)
            self.append(part)

    parts = Parts()
    common.write_numpy_to_dense_tensor(parts, array, np.arange(3000))
    assert b"".join(parts) == whole


def test_writing_continues_at_the_file_position():
    file = io.BytesIO(b"before")
    file.seek(6)
    common.write_numpy_to_dense_tensor(file, np.array([[1.0, 2.0]]))
    assert file.getvalue() == b"before" + bytes.fromhex(GOLDEN[1][2])


def test_reading_back():
    array, labels = np.array([[1.5, -2], [3, 4]], np.float32), np.array([7, -8])
    records = common.read_records(io.BytesIO(dense(array, labels)))
    assert [list(record.features["values"].float32_tensor.values) for record in records] == array.tolist()
    assert [record.label["values"].int32_tensor.values[0] for record in records] == [7, -8]
    payloads = list(common.read_recordio(io.BytesIO(dense(array, labels))))
    assert [type(payload) for payload in payloads] == [bytes, bytes]
    assert [record.SerializeToString() for record in records] == payloads


def test_reading_requests_no_byte_after_a_record():
    file = io.BytesIO(recordio.frame(b"12345") + recordio.frame_parts([b"abcd", b"e"]) + recordio.frame(b"last"))
    payloads = common.read_recordio(file)
    assert next(payloads) == b"12345"
    assert file.tell() == 16
    assert next(payloads) == b"abcd" + recordio.MAGIC_BYTES + b"e"
    assert file.tell() == 16 + 12 + 12
    assert list(payloads) == [b"last"]


def test_records_of_several_parts_in_both_ways():
    payload = bytes.fromhex(GOLDEN[0][2])[8:]
    for cut in (0, 4, 20, 44):
        # ML-IO splits anywhere. Only this reading gives a Record.
        assert list(common.read_recordio(io.BytesIO(recordio.frame_parts([payload[:cut], payload[cut:]])))) == [payload]
    array = np.array([[1, 2, 3]], np.float32)
    array.view(np.uint32)[0, 1] = recordio.MAGIC
    numbers = []
    for shift in range(4):  # the uid moves the magic word through all places of a word
        whole = dense(array)
        payload = whole[8 : 8 + int.from_bytes(whole[4:8], "little")] + b"\x1a" + bytes([shift]) + b"u" * shift
        parts = recordio.split_as_dmlc(payload[-2 - shift :] + payload[: -2 - shift])
        numbers.append(len(parts))
        (record,) = common.read_records(io.BytesIO(recordio.frame_parts(parts)))
        assert record.features["values"].float32_tensor.values == array[0].tolist()
    assert sorted(numbers) == [1, 1, 1, 2]


def test_missing_padding_at_the_very_end_is_accepted():
    assert list(common.read_recordio(io.BytesIO(recordio.frame(b"12345")[:-3]))) == [b"12345"]
    assert list(common.read_recordio(io.BytesIO(recordio.frame_parts([b"1234", b"5"])[:-2]))) == [
        b"1234" + recordio.MAGIC_BYTES + b"5"
    ]


def test_truncation_at_every_byte():
    one = recordio.frame(b"12345")
    for whole in (one, recordio.frame_parts([b"1234", b"5678", b"9"])):
        for size in range(1, len(whole) - 3):
            payloads = common.read_recordio(io.BytesIO(one + whole[:size]))
            assert next(payloads) == b"12345"
            with pytest.raises(CorruptRecord) as caught:
                next(payloads)
            assert (caught.value.where.record, caught.value.where.offset) == (1, 16)


DAMAGED = [
    (b"!!!!" + bytes(4), "expected the magic word 0xced7230a, found 0x21212121 - at record 0, byte 0x0. Is this a RecordIO file at all?"),
    (recordio.frame(b"", 2), "expected a whole record or a first part, found a middle part - at record 0"),
    (recordio.frame(b"", 5), "found the unknown flag 5"),
    (recordio.frame(b"x", 1) + recordio.frame(b"y"), "expected a middle or a last part, found a whole record - at record 0"),
    (recordio.frame(b"x") + b"\0", "expected 8 more bytes, found 1 before the end - at record 1, byte 0xc."),
    (struct.pack("<II", recordio.MAGIC, (1 << 29) - 1) + b"short", "expected 536870912 more bytes, found 5 before the end"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), DAMAGED)
def test_damage(data, message):
    with pytest.raises(CorruptRecord) as caught:
        list(common.read_recordio(io.BytesIO(data)))
    assert message in str(caught.value)


def test_errors_name_the_file_and_the_record(tmp_path):
    path = tmp_path / "x.rec"
    path.write_bytes(dense(np.ones((2, 2))) + recordio.frame(b"no record"))
    with path.open("rb") as file, pytest.raises(CorruptRecord, match=r"a valid protobuf message.* - at record 2"):
        common.read_records(file)
    path.write_bytes(recordio.frame(b"x") + b"??")
    with path.open("rb") as file, pytest.raises(CorruptRecord, match=r"x\.rec, record 1, byte 0xc"):
        list(common.read_recordio(file))


def test_pipes_that_give_little_at_a_time():
    data = dense(np.arange(5000.0).reshape(50, 100))
    read_end, write_end = os.pipe()

    def feed():
        with open(write_end, "wb", buffering=0) as pipe:
            pipe.writelines(data[start : start + 777] for start in range(0, len(data), 777))

    thread = threading.Thread(target=feed)
    thread.start()
    with open(read_end, "rb", buffering=0) as pipe:
        records = common.read_records(pipe)
    thread.join()
    assert [record.features["values"].float64_tensor.values[0] for record in records] == list(range(0, 5000, 100))


def test_the_walk_through():
    golden = Path(__file__).resolve().parents[1] / "golden" / "recordio"
    rows = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
    assert dense(rows, np.array([1.0, 0.0])) == (golden / "walkthrough_dense.recordio").read_bytes()
    matrix = sp.coo_matrix(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]))
    assert sparse(matrix, np.array([0.0, 1.0])) == (golden / "walkthrough_sparse.recordio").read_bytes()


def test_what_a_serializer_makes_is_read_again():
    """The SDK's gives a file, ours bytes: scripts pass on either."""
    rows = np.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]])
    body = RecordSerializer().serialize(rows)
    assert list(common.read_recordio(body)) == list(common.read_recordio(io.BytesIO(body)))
    assert len(list(common.read_recordio(body))) == 2
