"""Written files equal those of ``np.save``."""

import io
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.formats.golden import NPY

import headrace as hr
from headrace.errors import SchemaMismatch, UnsupportedData
from headrace.formats.npy.format import NpyRecords
from headrace.formats.npy.write import NpyWriter


def saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize(
    "name", ["f2", "f4", "bool", "c8", "datetime", "structured", "u1_4d", "unicode", "empty", "big_endian"]
)
def test_goldens_are_rewritten_to_the_byte(tmp_path, name):
    array = np.load(NPY / f"{name}.npy")
    with NpyWriter(tmp_path / "x.npy", array.dtype, array.shape[1:]) as writer:
        for row in range(len(array)):
            writer.write(array[row : row + 1])
    assert (tmp_path / "x.npy").read_bytes() == (NPY / f"{name}.npy").read_bytes()


@given(
    hnp.arrays(
        st.sampled_from(["<f4", ">i8", "S3", "bool"]), hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=6)
    ),
    st.lists(st.integers(0, 6), max_size=4),
)
def test_any_rows_in_any_portions(tmp_path_factory, array, cuts):
    path = tmp_path_factory.mktemp("npy") / "x.npy"
    with NpyWriter(path, array.dtype, array.shape[1:]) as writer:
        for part in np.split(array, sorted(min(cut, len(array)) for cut in cuts)):
            writer.write(part)
    assert path.read_bytes() == saved(array)
    assert writer.rows == len(array)


def test_rows_in_fortran_order_and_lists(tmp_path):
    array = np.arange(12.0).reshape(3, 4)
    with NpyWriter(tmp_path / "x.npy", "float64", (4,)) as writer:
        writer.write(np.asfortranarray(array))
        writer.write(array[::-1])
        writer.write(array.tolist())
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.concatenate([array, array[::-1], array]))


@pytest.mark.parametrize("dtype", ["float32", "M8[ns]", "S5"])
def test_rows_with_steps_between_them(tmp_path, dtype):
    table = np.arange(40).astype("M8[ns]" if dtype == "M8[ns]" else dtype).reshape(8, 5)
    for rows in (table[::-3], table[:, 1], table[:, ::2], np.broadcast_to(table[0, 0], (4, 3)), table[:, None, 1]):
        hr.write(tmp_path / "x.npy", {"x": rows})
        assert (tmp_path / "x.npy").read_bytes() == saved(np.ascontiguousarray(rows))


def test_no_rows_at_all(tmp_path):
    NpyWriter(tmp_path / "x.npy", "float32", (2,)).close()
    assert (tmp_path / "x.npy").read_bytes() == saved(np.zeros((0, 2), np.float32))
    assert len(NpyRecords([str(tmp_path / "x.npy")])) == 0


def test_dtypes_convert_only_where_no_value_can_change(tmp_path):
    with NpyWriter(tmp_path / "x.npy", "float64", ()) as writer:
        writer.write(np.array([1, 2], np.int32))
        for wrong in (np.array([1j]), np.array(["a"])):
            with pytest.raises(SchemaMismatch, match="float64") as raised:
                writer.write(wrong)
            assert raised.value.where.record == 2
    assert np.load(tmp_path / "x.npy").tolist() == [1.0, 2.0]


def test_shapes_must_fit(tmp_path):
    with NpyWriter(tmp_path / "x.npy", "int64", (2,)) as writer:
        for wrong in (np.zeros((1, 3), np.int64), np.zeros(2, np.int64), np.int64(1)):
            with pytest.raises(SchemaMismatch, match=r"\(2,\)"):
                writer.write(wrong)


def test_nothing_is_left_of_what_fails(tmp_path):
    with pytest.raises(RuntimeError), NpyWriter(tmp_path / "x.npy", "int64") as writer:
        writer.write([1])
        raise RuntimeError
    with pytest.raises(ValueError, match="closed"):
        writer.write([1])
    writer.close()
    with pytest.raises(UnsupportedData):
        NpyWriter(tmp_path / "y.npy", [("a", object)])
    assert os.listdir(tmp_path) == []


def test_rows_in_any_order_of_memory(tmp_path):
    array = np.arange(24, dtype=np.int16).reshape(4, 3, 2)
    with NpyWriter(tmp_path / "x.npy", "i2", (3, 2)) as writer:
        writer.write(np.asfortranarray(array[:1]))
        writer.write(np.repeat(array[1:], 2, axis=1)[:, ::2])
    assert (tmp_path / "x.npy").read_bytes() == saved(array)
