"""Nested structured arrays, compared with NumPy's own reading; long headers."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace as hr
from headrace.errors import CorruptFile, SchemaMismatch, UnsupportedData
from headrace.formats.npy.header import MOST_BYTES, header_bytes, read_header
from headrace.io.local.mapped import MappedFile

PLAIN = st.sampled_from(["<f4", ">f8", "|u1", "|b1", "<c16", "<M8[ns]", ">m8[D]", "|S3", "<U2", ">i2", "|V5"]).map(
    np.dtype
)
NAMES = st.text(st.sampled_from("abcxyzé日 _"), min_size=1, max_size=3)
SHAPES = st.sampled_from([(), (1,), (3,), (2, 2), (0,)])


def structured(inner):
    field = st.tuples(inner, SHAPES).map(lambda both: np.dtype(both) if both[1] else both[0])
    fields = st.lists(st.tuples(NAMES, field), min_size=1, max_size=3, unique_by=lambda field: field[0])
    return st.tuples(fields, st.booleans()).map(lambda both: np.dtype(both[0], align=both[1]))


DTYPES = structured(st.recursive(PLAIN, structured, max_leaves=6))


def leaves(array, prefix=""):
    """Every leaf field, by NumPy alone."""
    for name in array.dtype.names:
        if array[name].dtype.names is None:
            yield prefix + name, array[name]
        else:
            yield from leaves(array[name], f"{prefix}{name}.")


def filled(dtype, shape, seed):
    """An array of random bytes, whose text is text."""
    array = np.zeros(shape, dtype)
    rng = np.random.default_rng(seed)
    for _, leaf in leaves(array) if dtype.names else [("", array)]:
        if leaf.dtype.kind == "U":
            leaf[...] = rng.choice(["", "a", "é日"], leaf.shape)
        elif leaf.dtype.kind == "S":
            leaf[...] = rng.choice([b"", b"a", b"xyz"], leaf.shape)
        elif leaf.dtype.kind == "V":
            leaf[...] = np.frombuffer(rng.bytes(leaf.dtype.itemsize * leaf.size), leaf.dtype).reshape(leaf.shape)
        else:
            leaf[...] = rng.integers(0, 100, leaf.shape).astype(leaf.dtype)
    return array


def assert_alike(batch, expected, order):
    assert list(batch) == [name for name, _ in expected]
    for name, values in expected:
        assert batch[name].dtype == values.dtype.newbyteorder("=")
        assert batch[name].shape == values[order].shape
        assert batch[name].tolist() == values[order].tolist()


@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")
@settings(max_examples=60, deadline=None)
@given(dtype=DTYPES, inner=hnp.array_shapes(min_dims=0, max_dims=1, max_side=2) | st.just(()), seed=st.integers(0, 99))
def test_every_nested_dtype_reads_as_numpy_reads_it(tmp_path_factory, dtype, inner, seed):
    folder = tmp_path_factory.mktemp("nested")
    array = filled(dtype, (4, *inner), seed)
    np.save(folder / "x.npy", array)
    np.savez(folder / "x.npz", t=array, plain=np.arange(4))
    order = [3, 0, 3]
    own = list(leaves(np.load(folder / "x.npy")))
    assert_alike(hr.open(folder / "x.npy").batch(order), own, order)
    assert hr.verify(folder / "x.npy").ok
    of_t = [(f"t.{name}", values) for name, values in own]
    found = hr.open(folder / "x.npz").batch(order)
    assert found.pop("plain").tolist() == order
    assert_alike(found, of_t, order)
    name, values = of_t[-1]
    assert_alike(hr.open(folder / "x.npz", columns=[name]).batch(order), [(name, values)], order)
    for number in range(4):
        np.save(folder / f"one-{number}.npy", array[number])
        np.savez(folder / f"one-{number}.npz", t=array[number])
    assert_alike(hr.open(sorted(folder.glob("one-?.npy")), format="npy_folder").batch(order), own, order)
    assert_alike(hr.open(sorted(folder.glob("one-?.npz")), format="npz_folder").batch(order), of_t, order)


def test_names_and_shapes_of_nested_fields(tmp_path):
    point = np.dtype([("x", "<f4"), ("y", "<f4", (2,))])
    rows = np.zeros(5, [("id", "<i8"), ("box", [("from", point), ("corners", point, (3,))])])
    rows["box"]["corners"]["y"] = np.arange(30).reshape(5, 3, 2)
    np.save(tmp_path / "x.npy", rows)
    source = hr.open(tmp_path / "x.npy")
    assert dict(source.schema) == {
        "id": hr.Feature("int64"),
        "box.from.x": hr.Feature("float32"),
        "box.from.y": hr.Feature("float32", (2,)),
        "box.corners.x": hr.Feature("float32", (3,)),
        "box.corners.y": hr.Feature("float32", (3, 2)),
    }
    assert source[4]["box.corners.y"].tolist() == [[24, 25], [26, 27], [28, 29]]
    hr.convert(tmp_path / "x.npy", tmp_path / "y.npz")
    assert hr.open(tmp_path / "y.npz").batch([4])["box.corners.y"].tolist() == [[[24, 25], [26, 27], [28, 29]]]


def test_two_features_of_one_name_are_refused(tmp_path):
    rows = np.zeros(2, [("a.b", "<i4"), ("a", [("b", "<i4")])])
    np.save(tmp_path / "x.npy", rows)
    with pytest.raises(SchemaMismatch, match=r"two named 'a\.b'"):
        hr.open(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", **{"a": rows["a"], "a.b": rows["a.b"]})
    with pytest.raises(SchemaMismatch, match=r"two named 'a\.b'"):
        hr.open(tmp_path / "x.npz")
    with pytest.raises(SchemaMismatch, match=r"two named 'a\.b'"):
        hr.open([tmp_path / "x.npz"], format="npz_folder")


@pytest.mark.parametrize("fields", [420, 1000, 3000])
def test_many_columns_are_written_and_read_again(tmp_path, fields):
    columns = {f"column {k}": np.arange(3) * k for k in range(fields)}
    for ending in ("npy", "npz"):
        hr.write(tmp_path / f"x.{ending}", columns)
        assert hr.open(tmp_path / f"x.{ending}").batch([2])[f"column {fields - 1}"].tolist() == [2 * (fields - 1)]
    hr.convert(tmp_path / "x.npy", tmp_path / "y.npy")  # which puts parts together
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "x.npy").read_bytes()


@pytest.mark.filterwarnings("ignore:Stored array in format:UserWarning")
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_headers(tmp_path, version):
    array = np.zeros(4, [(f"field{k}", "<f8") for k in range(500)])
    array["field7"] = np.arange(4)
    with (tmp_path / "x.npy").open("wb") as file:
        np.lib.format.write_array(file, array, version=version)
    assert hr.open(tmp_path / "x.npy").batch([3])["field7"].tolist() == [3]


def test_a_header_that_could_not_be_read_is_not_written(tmp_path):
    fields = MOST_BYTES // 16
    dtype = np.dtype([(f"f{k:06}", "<f8") for k in range(fields)])
    with pytest.raises(UnsupportedData, match=f"{fields} fields"):
        header_bytes(dtype, (1,))
    with pytest.raises(UnsupportedData, match="header of 1048576 bytes"):
        hr.Writer(tmp_path / "x.npy", schema={f"f{k:06}": hr.Feature("float64") for k in range(fields)})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("length", [MOST_BYTES + 1, 1 << 31, (1 << 32) - 1])
def test_a_hostile_length_is_refused_before_it_is_read(tmp_path, length):
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\2\0" + length.to_bytes(4, "little") + b"{" * 100)
    for call in (hr.open, lambda path: read_header(MappedFile(str(path)))):
        with pytest.raises(CorruptFile, match=rf"at most {MOST_BYTES} bytes, found {length}"):
            call(path)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.write(path, "a.npy")
    with pytest.raises(CorruptFile, match=f"at most {MOST_BYTES} bytes"):
        len(hr.open(tmp_path / "x.npz"))


@pytest.mark.parametrize("descr", ["[" * 50_000, "(" * 50_000 + ")" * 50_000, "[('a'," * 5000 + "'<f4'" + ")]" * 5000])
def test_a_hostile_depth_is_refused(tmp_path, descr):
    body = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (1,)}}".encode()
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\2\0" + len(body).to_bytes(4, "little") + body)
    with pytest.raises(CorruptFile):
        hr.open(path)


def test_ten_levels_of_nesting(tmp_path):
    dtype = np.dtype("<i4")
    for level in range(10):
        dtype = np.dtype([(f"l{level}", dtype)])
    np.save(tmp_path / "x.npy", np.ones(2, dtype))
    source = hr.open(tmp_path / "x.npy")
    assert list(source.schema) == [".".join(f"l{level}" for level in reversed(range(10)))]
    content = io.BytesIO((tmp_path / "x.npy").read_bytes())
    assert np.load(content).dtype == dtype
