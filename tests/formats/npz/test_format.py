"""``.npz`` files as a table, against NumPy and ``zipfile``."""

import io
import os
import pickle
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.formats.golden import NPY

import headrace as hr
from headrace.formats.npz.directory import joined_crc, read_directory
from headrace.formats.npz.rows import NpzRecords
from headrace.formats.npz.write import packed_arrays
from headrace.formats.open import detect

BUNDLES = ["bundle.npz", "bundle_compressed.npz"]


def equal(batch, arrays, rows=slice(None)):
    assert list(batch) == list(arrays)
    for name, array in arrays.items():
        assert batch[name].dtype == array.dtype.newbyteorder("="), name
        np.testing.assert_array_equal(batch[name], array[rows])


def archive(members, **options):
    """A ZIP by the standard library, of names and bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", **options) as file:
        for name, content in members:
            file.writestr(name, content)
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.fixture
def put(tmp_path):
    def write(content, name="x.npz"):
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return write


@pytest.mark.parametrize("name", BUNDLES)
def test_goldens_read_as_numpy_reads_them(name):
    with np.load(NPY / name) as file:
        arrays = {key: file[key] for key in file.files}
    source = hr.open(NPY / name)
    assert source.format == "npz"
    assert len(source) == 8
    equal(source.batch(np.arange(8)), arrays)
    equal(source.batch([7, 0, 7]), arrays, [7, 0, 7])
    assert pickle.loads(pickle.dumps(source))[3]["label"] == 3
    assert hr.verify(NPY / name).records == 8
    assert hr.open(NPY / name, columns=["label"])[2] == {"label": 2}


COLUMNS = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
        lambda name: not name.endswith(".npy") and name != "file"
    ),
    st.tuples(hnp.scalar_dtypes().filter(lambda d: d.kind in "iufbc"), hnp.array_shapes(max_dims=2, max_side=3)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=40)
@given(COLUMNS, st.integers(0, 12), st.booleans(), st.integers(0, 1000))
def test_numpy_files_round_trip_both_ways(tmp_path_factory, columns, rows, packed, seed):
    folder = tmp_path_factory.mktemp("x")
    rng = np.random.default_rng(seed)
    arrays = {
        name: np.frombuffer(rng.bytes(rows * int(np.prod(shape)) * dtype.itemsize), np.uint8)
        .view(np.uint8)
        .reshape(rows, *shape, dtype.itemsize)
        for name, (dtype, shape) in columns.items()
    }
    arrays = {
        name: (array & 1).astype(bool)[..., 0] if columns[name][0].kind == "b" else _viewed(array, columns[name][0])
        for name, array in arrays.items()
    }
    saved = archive([(f"{name}.npy", npy(array)) for name, array in arrays.items()], compression=8 if packed else 0)
    (folder / "numpy.npz").write_bytes(saved)
    source = hr.open(folder / "numpy.npz", format="npz")
    same(source.batch(np.arange(rows)), arrays)
    hr.write(folder / "ours.npz", source, compression="deflate" if packed else "none")
    with np.load(folder / "ours.npz") as file:
        assert file.files == list(arrays)
        same({name: file[name] for name in file.files}, arrays)
    with zipfile.ZipFile(folder / "ours.npz") as file:
        assert file.testzip() is None


def _viewed(array, dtype):
    return np.ascontiguousarray(array).view(dtype)[..., 0]


def same(batch, arrays):
    """Equal to the bit: NaN too."""
    assert list(batch) == list(arrays)
    for name, array in arrays.items():
        native = array.astype(array.dtype.newbyteorder("="))
        assert batch[name].shape == native.shape
        assert batch[name].astype(native.dtype).tobytes() == native.tobytes()


def test_other_layouts_of_arrays(put):
    arrays = {
        "fortran": np.asfortranarray(np.arange(24.0).reshape(4, 3, 2)),
        "big": np.arange(4, dtype=">i4"),
        "named": np.array([(1, 2.0)] * 4, [("a", "i4"), ("b", "f8", (2,))]),
    }
    source = hr.open(put(archive([(f"{name}.npy", npy(array)) for name, array in arrays.items()])))
    assert list(source.schema) == ["fortran", "big", "named.a", "named.b"]
    batch = source.batch([2, 0])
    np.testing.assert_array_equal(batch["fortran"], arrays["fortran"][[2, 0]])
    np.testing.assert_array_equal(batch["big"], arrays["big"][[2, 0]])
    assert batch["big"].dtype.isnative
    np.testing.assert_array_equal(batch["named.b"], arrays["named"]["b"][[2, 0]])


def test_several_files_are_joined(tmp_path):
    whole = {"a": np.arange(10), "b": np.random.default_rng(0).random((10, 2))}
    for number, (start, stop) in enumerate([(0, 3), (3, 3), (3, 10)]):
        save = np.savez_compressed if number else np.savez
        save(tmp_path / f"part-{number}.npz", **{name: array[start:stop] for name, array in whole.items()})
    source = hr.open(tmp_path / "part-*.npz")
    equal(source.batch([9, 0, 4, 3]), whole, [9, 0, 4, 3])
    assert source.where(4).path.endswith("part-2.npz")
    assert source.where(4).record == 1
    np.savez(tmp_path / "part-3.npz", a=np.arange(2), b=np.zeros((2, 3)))
    with pytest.raises(hr.SchemaMismatch, match=r"rows of float64 with shape \(2,\)"):
        len(hr.open(tmp_path / "part-*.npz"))
    np.savez(tmp_path / "part-3.npz", a=np.arange(2), b=np.zeros((2, 2)), c=np.zeros(2))
    with pytest.raises(hr.SchemaMismatch, match="also c"):
        len(hr.open(tmp_path / "part-*.npz"))
    assert len(hr.open(tmp_path / "part-*.npz", columns=["a", "b"])) == 12
    np.savez(tmp_path / "part-3.npz", a=np.arange(2))
    with pytest.raises(hr.SchemaMismatch, match="an array 'b'"):
        len(hr.open(tmp_path / "part-*.npz"))


def test_arrays_that_are_not_aligned_are_refused_with_their_lengths(tmp_path):
    np.savez(tmp_path / "x.npz", images=np.zeros((5, 2)), labels=np.zeros(4), version=np.int64(3))
    with pytest.raises(hr.SchemaMismatch, match=r"version of shape \(\).*format='npz_folder'"):
        hr.open(tmp_path / "x.npz")
    with pytest.raises(hr.SchemaMismatch, match="found images 5, labels 4"):
        hr.open(tmp_path / "x.npz", columns=["images", "labels"])
    assert len(hr.open(tmp_path / "x.npz", columns=["images"])) == 5
    with pytest.raises(hr.NoSuchFeature, match="nothing"):
        hr.open(tmp_path / "x.npz", columns=["nothing"])
    assert not hr.verify(tmp_path / "x.npz").ok


def test_members_without_the_ending_are_arrays_too(put):
    source = hr.open(put(archive([("a", npy(np.arange(3)))])), format="npz")
    assert source[2] == {"a": 2}


@pytest.mark.parametrize(
    ("members", "error", "text"),
    [
        ([("a.npy", npy(np.arange(2))), ("a", npy(np.arange(2)))], hr.CorruptFile, "two called 'a'"),
        ([("a.npy", npy(np.arange(2))), ("notes.txt", b"hello")], hr.UnsupportedData, "the file 'notes.txt'"),
        ([("a.npy", b"hello")], hr.CorruptFile, "feature 'a'"),
        ([("a.npy", npy(np.arange(2))[:-1])], hr.CorruptFile, "16 bytes of int64"),
    ],
)
def test_other_members_are_refused(put, members, error, text):
    with pytest.raises(error, match=text):
        hr.open(put(archive(members)), format="npz")


@pytest.mark.parametrize(("method", "name"), [(zipfile.ZIP_BZIP2, "bzip2"), (zipfile.ZIP_LZMA, "LZMA")])
def test_other_packings_are_refused(put, method, name):
    with pytest.raises(hr.UnsupportedData, match=f"one packed by {name}"):
        hr.open(put(archive([("a.npy", npy(np.arange(2)))], compression=method)), format="npz")


def test_encrypted_members_are_refused(put):
    content = bytearray(archive([("a.npy", npy(np.arange(2)))]))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(hr.UnsupportedData, match="an encrypted one"):
        hr.open(put(bytes(content)), format="npz")


def test_objects_and_sparse_matrices_are_refused(tmp_path):
    sparse = pytest.importorskip("scipy.sparse")
    np.savez(tmp_path / "x.npz", a=np.array([{}, []], object))
    with pytest.raises(hr.UnsupportedData, match="pickle"):
        hr.open(tmp_path / "x.npz")
    sparse.save_npz(tmp_path / "y.npz", sparse.eye(3, format="csr"))
    with pytest.raises(hr.UnsupportedData, match=r"scipy\.sparse\.load_npz"):
        hr.open(tmp_path / "y.npz")


def test_data_descriptors_and_zip64_are_read(put):
    class Pipe(io.RawIOBase):
        """A stream without seek: sizes then follow the members."""

        def __init__(self):
            self.parts = []

        def writable(self):
            return True

        def write(self, part):
            self.parts.append(bytes(part))
            return len(part)

    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        pipe = Pipe()
        with zipfile.ZipFile(pipe, "w", compression) as file:
            for name in ("a", "b"):
                with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                    member.write(npy(np.arange(4)))
        source = hr.open(put(b"".join(pipe.parts)))
        assert source[3] == {"a": 3, "b": 3}


def test_sizes_in_the_zip64_field_of_the_directory_are_read(put):
    content = npy(np.arange(4))
    crc, size = zlib.crc32(content), len(content)
    local = struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 0, 0, 33, crc, 2**32 - 1, 2**32 - 1, 5, 20) + b"a.npy"
    local += struct.pack("<2H2Q", 1, 16, size, size) + content
    extra = struct.pack("<2H3Q", 1, 24, size, size, 0)
    many = 2**32 - 1
    entry = struct.pack("<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, 0, 0, 33, crc, many, many, 5, 28, 0, 0, 0, 0, many)
    entry += b"a.npy" + extra
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(entry), len(local))
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, len(local) + len(entry), 1)
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, many, many, 0)
    path = put(local + entry + end64 + locator + end)
    with np.load(path) as file:
        np.testing.assert_array_equal(file["a"], np.arange(4))
    assert hr.open(path)[3] == {"a": 3}


def test_overlapping_members_are_refused(put):
    content = bytearray(archive([("a.npy", npy(np.arange(4))), ("b.npy", npy(np.arange(4)))]))
    second = content.rindex(b"PK\x01\x02")
    content[second + 42 : second + 46] = bytes(4)  # both entries point to the first member
    content[second + 46 : second + 47] = b"a"
    with pytest.raises(hr.CorruptFile):
        read_directory(memoryview(bytes(content)), "x.npz")


def small(*, deflate):
    arrays = {"a": np.arange(3, dtype=np.int16), "b": np.array([[1.5, -2], [3, 4], [5, 6]], np.float32)}
    return packed_arrays(arrays, deflate=deflate), arrays


@pytest.mark.parametrize("deflate", [False, True])
@pytest.mark.parametrize("reader", ["npz", "npz_folder"])
def test_cut_and_flipped_bytes_give_an_error_or_equal_data(tmp_path, deflate, reader):
    content, arrays = small(deflate=deflate)
    damaged = [content[:size] for size in range(len(content))]
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        damaged.append(bytes(flipped))
    errors = 0
    path = tmp_path / "x.npz"
    for number, bad in enumerate(damaged):
        path.write_bytes(bad)
        os.utime(path, ns=(number, number))
        try:
            source = hr.open([str(path)], format=reader)
            batch = source.batch([0, 1, 2] if reader == "npz" else [0])
        except hr.DataError as error:
            assert error.where.path == str(path)
            errors += 1
            continue
        for name, array in arrays.items():
            np.testing.assert_array_equal(batch[name] if reader == "npz" else batch[name][0], array)
        assert number >= len(content), "a file that was cut off was read"
    assert errors > len(content)


@pytest.mark.parametrize("deflate", [False, True])
def test_a_changed_number_is_an_error_unless_unverified(put, deflate):
    content, arrays = small(deflate=deflate)
    at = content.index(b"\x93NUMPY") + 128 if not deflate else content.index(b"PK\1\2") - 6
    bad = bytearray(content)
    bad[at] ^= 4
    path = put(bytes(bad))
    with pytest.raises(hr.CorruptFile):
        hr.open(path).batch([0, 1, 2])
    report = hr.verify(path)
    assert len(report.faults) == 1
    assert report.records == 0
    if not deflate:
        assert hr.open(path, verify=False)[0]["a"] != arrays["a"][0]


def test_that_a_large_array_was_sound_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.io.cache.members.REMEMBERED_BYTES", 100)
    np.savez(tmp_path / "x.npz", a=np.arange(1000))
    assert hr.open(tmp_path / "x.npz")[5] == {"a": 5}

    def fail(*_):
        raise AssertionError("checked again")

    monkeypatch.setattr("headrace.io.cache.members.zlib_library", fail)
    assert hr.open(tmp_path / "x.npz")[5] == {"a": 5}


def test_deflated_arrays_are_inflated_once(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", a=np.arange(1000))
    assert hr.open(tmp_path / "x.npz")[5] == {"a": 5}
    monkeypatch.setattr("headrace.io.cache.members._inflate_blocks", None)
    assert hr.open(tmp_path / "x.npz")[6] == {"a": 6}


def test_without_room_in_the_cache_a_deflated_array_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_LIMIT", "1K")
    np.savez_compressed(tmp_path / "x.npz", a=np.arange(1000))
    with pytest.raises(hr.UnsupportedData, match="HEADRACE_CACHE_LIMIT"):
        hr.open(tmp_path / "x.npz")


def test_large_sets_are_read_instead_of_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.io.local.mapped.scattered_limit", lambda: 0)
    np.savez(tmp_path / "x.npz", a=np.arange(1000), b=np.arange(2000).reshape(1000, 2))
    batch = hr.open(tmp_path / "x.npz").batch([999, 5])
    np.testing.assert_array_equal(batch["b"], [[1998, 1999], [10, 11]])


def test_stored_arrays_are_mapped_and_not_loaded(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(1000))
    table = NpzRecords([str(tmp_path / "x.npz")])
    file, begin = table.archives.content(0, "a")
    assert file.opened == str(tmp_path / "x.npz")
    assert bytes(file.read(begin, 6)) == b"\x93NUMPY"


def test_only_zips_of_arrays_are_recognised(put):
    assert detect(put(archive([("a.npy", npy(np.arange(2)))]), "x.bin")).name == "npz"
    with pytest.raises(hr.UnknownFormat):
        detect(put(archive([("a.txt", b"hello")]), "x.zip"))


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_the_crc_of_joined_stretches(first, second):
    assert joined_crc(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_writing_in_pieces_and_failures(tmp_path):
    with hr.Writer(tmp_path / "x.npz") as writer:
        for start in range(0, 3000, 7):
            stop = min(start + 7, 3000)
            writer.write_batch({"a": np.arange(start, stop), "b": np.full((stop - start, 2), start, np.float32)})
    with np.load(tmp_path / "x.npz") as file:
        np.testing.assert_array_equal(file["a"], np.arange(3000))
    with pytest.raises(hr.UnsupportedData, match="fixed shape"):
        hr.write(tmp_path / "y.npz", {"a": hr.Ragged.from_list([[1], [2, 3]])})
    with pytest.raises(hr.UnsupportedData, match="'deflate'"):
        hr.write(tmp_path / "y.npz", {"a": np.arange(3)}, compression="gzip")
    assert sorted(os.listdir(tmp_path)) == ["x.npz"]


@pytest.mark.parametrize("compression", ["none", "deflate"])
def test_converting_joins_units(tmp_path, compression):
    columns = {"a": np.arange(40_000), "b": np.random.default_rng(0).random((40_000, 2))}
    hr.write(tmp_path / "x.tfrecord", {"a": columns["a"]})
    hr.write(tmp_path / "x.npz", columns)
    assert hr.convert(tmp_path / "x.npz", tmp_path / "y.npz", compression=compression).examples == 40_000
    equal(hr.open(tmp_path / "y.npz").batch(np.arange(40_000)), columns)
    hr.convert(tmp_path / "x.tfrecord", tmp_path / "z.npz@2")
    assert hr.open(tmp_path / "z.npz@2")[39_999] == {"a": 39_999}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_another_process_refuses_a_file_that_was_replaced(tmp_path, save):
    path = tmp_path / "x.npz"
    save(path, x=np.arange(8), y=np.arange(8.0))
    source = hr.open(path)
    assert source[7]["x"] == 7
    other = tmp_path / "other.npz"
    save(other, x=np.arange(100, 108), y=np.arange(8.0))
    os.replace(other, path)
    again = pickle.loads(pickle.dumps(source))
    with pytest.raises(hr.CorruptFile, match=r"expected the same file as when it was opened.*x\.npz"):
        again[0]
    assert source[7]["x"] == 7  # this process has the old file
    assert hr.open(path)[7]["x"] == 107
