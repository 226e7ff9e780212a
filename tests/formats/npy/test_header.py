"""Headers, byte for byte, compared with NumPy."""

import io

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptFile, HeadraceError, UnsupportedData
from headrace.formats.npy.header import header_bytes, read_header
from headrace.io.local.mapped import MappedFile

DTYPES = [
    "<f4", ">f8", "|u1", "|b1", "<c16", "<M8[ns]", ">m8[D]", "|S7", "<U3", "|V5",
    [("a", "<i4"), ("b", "<f8", (2, 3))],
    [("é", "<i4")],
    [("日本", "<i4")],
    np.dtype({"names": ["x", "y"], "formats": ["<i2", "<i8"], "offsets": [0, 8], "itemsize": 24}),
    np.dtype([(("a title", "name"), "<i4")]),
    [(f"field{number}", "<f8") for number in range(3000)],
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[:20])
@pytest.mark.parametrize("shape", [(0,), (3,), (2, 3, 4), (10**9, 1)])
def test_written_as_numpy_writes_it(dtype, shape):
    dtype = np.dtype(dtype)
    expected = io.BytesIO()
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib._format_impl._write_array_header(expected, header)
    assert header_bytes(dtype, shape) == expected.getvalue()


def read(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    return read_header(MappedFile(str(tmp_path / "x.npy")))


def header(text, version=(1, 0)):
    body = text.encode("utf8" if version[0] == 3 else "latin1")
    return b"\x93NUMPY" + bytes(version) + len(body).to_bytes(2 if version[0] == 1 else 4, "little") + body


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n",
        "{'shape': (2,), 'descr': '<f4', 'fortran_order': False}",
        '{"descr": "<f4", "fortran_order": False, "shape": (2L,)}   ',
        "{  'descr'  :  '<f4'  ,'fortran_order':False,'shape':(2,)}\n",
    ],
)
def test_other_writers_headers(tmp_path, text):
    found = read(tmp_path, header(text) + bytes(8))
    assert (found.dtype, found.shape, found.is_fortran) == (np.dtype("<f4"), (2,), False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}",
        "{'descr': 'nonsense', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': ['x'], 'fortran_order': False, 'shape': (2,)}",
        "{'descr': [('a', '<i4'), ('a', '<i4')], 'fortran_order': False, 'shape': (2,)}",
        "{'descr': 7, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': ('<f4', (9999999999999999999,)), 'fortran_order': False, 'shape': (2,)}",
        "{'descr': ('<f4', (1000000000, 1000000000)), 'fortran_order': False, 'shape': (2,)}",
        "__import__('os').system('true')",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + {}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4)}",
    ],
)
def test_invalid_headers(tmp_path, text):
    with pytest.raises(CorruptFile, match=r"x\.npy"):
        read(tmp_path, header(text) + bytes(8))


@pytest.mark.parametrize("descr", ["'|O'", "[('a', '|O')]", "[('a', [('b', 'O')])]", "('|O', (2,))"])
def test_objects_are_refused_wherever_they_are(tmp_path, descr):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}"
    with pytest.raises(UnsupportedData, match="pickle"):
        read(tmp_path, header(text) + bytes(64))


def test_a_header_without_end(tmp_path):
    with pytest.raises(CorruptFile, match="at most 1048576 bytes"):
        read(
            tmp_path,
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" + " " * 2_000_000, (2, 0)) + bytes(8),
        )
    with pytest.raises(HeadraceError):
        read(tmp_path, b"\x93NUMPY\2\0\xff\xff\xff\xff{")


def test_one_axis_is_in_both_orders(tmp_path):
    found = read(tmp_path, header("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}") + bytes(8))
    assert not found.is_fortran
    assert (found.rows, found.row_shape, found.row_bytes, found.data_bytes) == (2, (), 4, 8)


@pytest.mark.parametrize(
    "shape",
    [(0, 2**40, 2**40), (2**62, 0), (3, 0, 2**61), (2**70, 0), (0,) * 65],
    ids=lambda shape: f"{str(shape)[:20]}",
)
def test_axes_that_no_memory_holds(tmp_path, shape):
    with pytest.raises(CorruptFile, match="axes|a shape|dtype|header"):
        read(tmp_path, header(f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape!r}}}"))


def test_a_type_that_is_an_array_itself(tmp_path):
    text = "{'descr': ('<i4', (2,)), 'fortran_order': False, 'shape': (3,)}"
    with pytest.raises(CorruptFile, match="an array of numbers"):
        read(tmp_path, header(text) + bytes(24))


def test_a_long_axis_beside_an_empty_one_is_read(tmp_path):
    found = read(tmp_path, header("{'descr': '<i4', 'fortran_order': False, 'shape': (0, 1099511627776)}"))
    assert found.shape == (0, 2**40)
    hr.open(tmp_path / "x.npy").batch([])
    with pytest.raises(UnsupportedData, match="at most 16,777,216 values"):
        hr.convert(tmp_path / "x.npy", tmp_path / "x.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 has no such arrays")
def test_more_axes_than_features_have(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1,) * 32))
    assert hr.open(tmp_path / "x.npy")[0]["values"].ndim == 31
    np.save(tmp_path / "x.npy", np.ones((1,) * 33))
    with pytest.raises(UnsupportedData, match=r"at most 32 axes, found one of 33 - at .*x.npy"):
        hr.open(tmp_path / "x.npy")
