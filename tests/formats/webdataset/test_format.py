"""WebDataset archives of other writers, and damage."""

import io
import json
import re
import tarfile

import numpy as np
import pytest

import headrace as hr
from headrace.errors import CorruptFile, CorruptRecord, SchemaMismatch, UnsupportedData
from headrace.formats.webdataset.write import join_tars


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.fixture
def put(tmp_path):
    def write(*members, name="x.tar", format=tarfile.GNU_FORMAT, mode="w"):
        path = tmp_path / name
        with tarfile.open(path, mode, format=format) as archive:
            for member, content in members:
                entry = tarfile.TarInfo(member)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return path

    return write


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_archives_of_other_writers(put, format, mode):
    path = put(
        ("train/a.jpg", b"\xff\xd8one"),
        ("train/a.cls", b"3"),
        ("train/a.json", json.dumps({"w": 1}).encode()),
        ("train/b.c.jpg", b""),
        ("train/b.jpg", b"\xff\xd8two"),
        ("train/b.cls", b" 4\n"),
        ("train/b.json", b"{}"),
        ("train/__meta__.txt", b"no example"),
        format=format,
        mode=mode,
    )
    found = hr.open(path, decode=False).schema
    source = hr.open(path, schema=found.select(["jpg", "cls", "json", "__key__"]), decode=False)
    assert source.schema["jpg"].encoding == "jpeg"
    assert len(source) == 2
    batch = source.batch([1, 0])
    assert batch["cls"].tolist() == [4, 3]
    assert batch["json"].tolist() == ["{}", '{"w": 1}']
    assert batch["__key__"].tolist() == ["train/b", "train/a"]


def test_long_names(put):
    key = "folder/" * 40 + "x"
    source = hr.open(put((f"{key}.txt", b"a"), (f"{key}y.txt", b"b")))
    assert source.batch([1, 0])["__key__"].tolist() == [key + "y", key]
    assert source.batch([1, 0])["txt"].tolist() == ["b", "a"]


def test_a_member_that_is_missing(put):
    path = put(("a.n.cls", b"1"), ("a.t.txt", b"x"), ("b.n.cls", b"2"))
    with pytest.raises(SchemaMismatch, match="a default") as raised:
        hr.open(path)[1]
    assert (raised.value.where.record, raised.value.where.feature) == (1, "t")
    given = {"n": hr.Feature("int8"), "t": hr.Feature("str", default="none")}
    assert hr.open(path, schema=given)[1] == {"n": 2, "t": "none"}


def test_arrays_of_different_shapes(put):
    members = [(f"{at:09d}.x.npy", npy(np.ones((at + 1, 2), np.float32))) for at in range(3)]
    source = hr.open(put(*members))
    assert source.schema == hr.Schema({"x": hr.Feature("float32", (None, 2))})
    assert source.batch([2, 0])["x"].lengths.tolist() == [3, 1]
    images = [(f"{at:09d}.x.npy", npy(np.full((at + 1, at + 2), at))) for at in range(3)]
    source = hr.open(put(*images))
    assert source.schema["x"].shape == (None, None)
    assert [image.shape for image in source.batch([2, 0])["x"]] == [(3, 4), (1, 2)]


def test_objects_that_are_not_arrays(put):
    sound = npy(np.arange(4))
    for wrong in (b"", b"\x93NUMPY", sound[:-1], sound + b"x", npy(np.array([None]))):
        path = put(("a.x.npy", sound), ("b.x.npy", wrong))
        with pytest.raises((CorruptRecord, UnsupportedData)) as raised:
            hr.open(path, schema={"x": hr.Feature("int64", (4,))}).batch([0, 1])
        assert (raised.value.where.record, raised.value.where.feature) == (1, "x")
    # An array that would need more memory than the member has bytes is refused from its header alone.
    huge = sound.replace(b"(4,)", b"(4" + b"0" * 11 + b",)").replace(b" " * 11 + b"\n", b"\n")
    with pytest.raises(CorruptRecord):
        hr.open(put(("a.x.npy", huge)))


def test_values_that_are_not_numbers(put):
    path = put(("a.cls", b"1"), ("b.cls", b"one"))
    with pytest.raises(CorruptRecord, match="an integer") as raised:
        hr.open(path).batch([0, 1])
    assert raised.value.where.record == 1


def test_the_same_key_again_is_another_example(put):
    source = hr.open(put(("a.txt", b"1"), ("b.txt", b"2"), ("a.txt", b"3"), ("a.txt", b"4")))
    assert source.batch([0, 1, 2, 3])["txt"].tolist() == ["1", "2", "3", "4"]


def test_files_that_are_not_archives(put, tmp_path):
    path = tmp_path / "x.tar"
    for content in (b"", b"no archive" * 100, bytes(300)):
        path.write_bytes(content)
        with pytest.raises(CorruptFile):
            hr.open(path)
    whole = put(("a.txt", b"1"), ("b.txt", b"2")).read_bytes()
    path.write_bytes(whole[:1024] + b"x" * 512 + whole[1536:])
    with pytest.raises(CorruptFile, match="another member"):
        hr.open(path)


def test_keys_are_written(tmp_path):
    keys = np.array(["dir/one", "two"], object)
    hr.write(tmp_path / "x.tar", {"__key__": keys, "label": np.array([1, 2], np.int16)})
    with tarfile.open(tmp_path / "x.tar") as archive:
        assert archive.getnames() == ["dir/one.label.npy", "two.label.npy"]
    assert hr.open(tmp_path / "x.tar")[0] == {"__key__": "dir/one", "label": 1}
    for bad in ("a.b", "", "a/"):
        with pytest.raises(UnsupportedData, match="without a dot"):
            hr.write(tmp_path / "y.tar", {"__key__": np.array([bad], object), "label": np.zeros(1)})


def test_the_standard_library_reads_what_is_written(tmp_path):
    hr.write(tmp_path / "x.tar", {"image": np.arange(8, dtype=np.uint8).reshape(2, 2, 2), "text": ["a", "ä"]})
    with tarfile.open(tmp_path / "x.tar") as archive:
        assert archive.getnames() == [f"{at:09d}.{end}" for at in (0, 1) for end in ("image.npy", "text.txt")]
        assert archive.extractfile("000000001.text.txt").read().decode() == "ä"
        assert np.load(io.BytesIO(archive.extractfile("000000001.image.npy").read())).tolist() == [[4, 5], [6, 7]]


def test_structured_arrays_are_refused_with_a_message(tmp_path):
    content = io.BytesIO()
    np.save(content, np.zeros(2, [("a", "<f4"), ("b", [("c", "<i2")])]))
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        member = tarfile.TarInfo("0.x.npy")
        member.size = len(content.getvalue())
        archive.addfile(member, io.BytesIO(content.getvalue()))
    with pytest.raises(SchemaMismatch, match=r"plain arrays, found the structured .*each field as a separate member"):
        hr.open(tmp_path / "x.tar")


@pytest.mark.parametrize("key", ["", "a.b", "a/", "/a", "../a", "a/../b", "a//b", "./a", "__a", "d/__a", "a\0", "."])
def test_keys_that_would_not_come_back_are_refused(tmp_path, key):
    with pytest.raises(UnsupportedData, match="a key that names a file inside the archive"):
        hr.write(tmp_path / "x.tar", [{"__key__": key, "a": 1}])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["a", "d/a", "d.e/a", "a b", "é", "_a", "a__", "x" * 300])
def test_other_keys_come_back(tmp_path, key):
    hr.write(tmp_path / "x.tar", [{"__key__": key, "a": 1}, {"__key__": key, "a": 2}])
    assert [(example["__key__"], int(example["a"])) for example in hr.open(tmp_path / "x.tar")] == [(key, 1), (key, 2)]


def test_keys_alone_are_not_examples(tmp_path):
    with pytest.raises(UnsupportedData, match="only __key__"):
        hr.write(tmp_path / "x.tar", [{"__key__": "a"}])


def test_members_with_the_name_of_keys_are_refused(put):
    path = put(("a.__key__", b"k"), ("a.cls", b"1"))
    with pytest.raises(UnsupportedData, match=r"members of other names than __key__.*x.tar, feature '__key__'"):
        hr.open(path)
    assert hr.open(path, schema={"cls": hr.Feature("int64")})[0] == {"cls": 1}
    with pytest.raises(SchemaMismatch, match=r"expected int64, found 'a' - at .*x.tar, record 0.* feature '__key__'"):
        list(hr.open(path, schema={"__key__": hr.Feature("int64")}))


OTHERS = [
    (np.array([1, 2], "u1"), np.array([300, 70000], "u4")),
    (np.array("dog"), np.array("elephant")),
    (np.float16(1), np.float64(1e6)),
    (np.float32(1), np.float64(0.1)),
    (np.array("2020-01-01", "M8[D]"), np.array("2020-01-01T23:59", "M8[m]")),
    (np.int64(1), np.uint64(2**64 - 1)),
]


@pytest.mark.parametrize(("first", "last"), OTHERS)
def test_arrays_after_those_that_show_the_types(put, first, last):
    path = put(*((f"{at:09d}.x.npy", npy(first)) for at in range(64)), (f"{64:09d}.x.npy", npy(last)))
    source = hr.open(path)
    for read in (
        lambda: source[64],
        lambda: list(hr.Loader(source, 65)),
        lambda: hr.convert(path, path.parent / "x.npz"),
    ):
        with pytest.raises(SchemaMismatch, match="found an array of") as raised:
            read()
        assert raised.value.where.record == 64
    assert [fault.where.record for fault in hr.verify(path).faults] == [64]


def test_later_arrays_that_fit(put):
    first, last = {"n": np.int64(1), "w": np.array("dog")}, {"n": np.array(-3, ">i2"), "w": np.array("ox")}
    rows = [first] * 64 + [last]
    path = put(*((f"{at:09d}.{name}.npy", npy(row[name])) for at, row in enumerate(rows) for name in row))
    assert hr.open(path)[64] == {"n": -3, "w": "ox"}


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (np.array(300), "int8"),
        (np.array(2**63 + 1, "u8"), "int64"),
        (np.array(1e300), "float32"),
        (np.array(2**53 + 1), "float64"),
        (np.array("abcdef"), "U3"),
        (np.array("2020-01-01T10", "M8[s]"), "M8[D]"),
        (np.array(3), "str"),
    ],
)
def test_arrays_that_a_schema_would_change(put, value, dtype):
    path, schema = put(("000000000.x.npy", npy(value))), {"x": hr.Feature(dtype)}
    with pytest.raises(SchemaMismatch, match=f"found an array of .*which holds {re.escape(str(value))}"):
        hr.open(path, schema=schema)[0]
    assert not hr.verify(path, schema=schema).ok


def test_a_schema_rounds_floats(put):
    path = put(("000000000.x.npy", npy(np.array(0.1))))
    assert hr.open(path, schema={"x": hr.Feature("float32")})[0] == {"x": np.float32(0.1)}
    assert hr.open(path, schema={"x": hr.Feature("float64")})[0] == {"x": 0.1}


def test_arrays_that_are_missing(put):
    times = npy(np.array("2020-01-01", "M8[D]"))
    path = put(("0.t.npy", times), ("0.n.npy", npy(np.arange(2))), ("0.i.cls", b"1"), ("1.i.cls", b"4"))
    schema = {"t": hr.Feature("M8[D]"), "n": hr.Feature("int64", (2,), default=7)}
    batch = hr.open(path, schema=schema).batch([0, 1])
    assert batch["t"].tolist() == [np.datetime64("2020-01-01").item(), None]
    assert batch["n"].tolist() == [[0, 1], [7, 7]]
    schema = {"n": hr.Feature("int64", (None,))}
    assert hr.open(path, schema=schema).batch([1, 0])["n"].to_list() == [[], [0, 1]]
    with pytest.raises(SchemaMismatch, match="a default") as raised:
        hr.open(path, schema={"n": hr.Feature("int64", (2,))}).batch([0, 1])
    assert raised.value.where.record == 1


@pytest.mark.parametrize(("text", "dtype"), [(b"abcdef", "U3"), (b"2020-01-01T10:00", "M8[D]")])
def test_text_that_a_schema_would_change(put, text, dtype):
    with pytest.raises(SchemaMismatch):
        hr.open(put(("000000000.x.txt", text)), schema={"x": hr.Feature(dtype)})[0]


def entry(archive, name, kind=tarfile.REGTYPE, content=b"", link=""):
    member = tarfile.TarInfo(name)
    member.type, member.size, member.linkname = kind, len(content), link
    archive.addfile(member, io.BytesIO(content))


def test_hard_links(tmp_path):
    """As tar stores the second name of a file."""
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        entry(archive, "./0.cls", content=b"1")
        entry(archive, "./1.cls", content=b"2")
        entry(archive, "2.cls", tarfile.LNKTYPE, link="1.cls")
        entry(archive, "./1.cls", content=b"3")
        entry(archive, "./3.cls", tarfile.LNKTYPE, link="./1.cls")
        entry(archive, "./4.cls", tarfile.LNKTYPE, link="./2.cls")
    assert hr.open(path).batch(range(6))["cls"].tolist() == [1, 2, 2, 3, 3, 2]
    assert hr.verify(path).records == 6
    with tarfile.open(path, "a") as archive:
        entry(archive, "5.cls", tarfile.LNKTYPE, link="6.cls")
        entry(archive, "6.cls", content=b"3")
    with pytest.raises(CorruptFile, match=r"the file before it that 5.cls is a hard link to, found no 6.cls"):
        hr.open(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_members_that_are_no_files(tmp_path, kind):
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as archive:
        entry(archive, "0.cls", content=b"1")
        entry(archive, "latest", kind, link="0.cls")
        entry(archive, ".hidden", kind, link="0.cls")
    assert len(hr.open(path)) == 1
    with tarfile.open(path, "a") as archive:
        entry(archive, "1.cls", kind, link="0.cls")
    with pytest.raises(UnsupportedData, match=r"regular files, found 1.cls, .*tar --dereference"):
        hr.open(path)
    assert not hr.verify(path).ok


def test_sparse_members(tmp_path):
    """With the header that GNU tar gives to a file of a mebibyte that holds one byte."""
    member = tarfile.TarInfo("0.bin")
    member.type, member.size = tarfile.GNUTYPE_SPARSE, 512
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (1 << 20, 1)
    header[483:495] = b"%011o\0" % ((1 << 20) + 1)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (tmp_path / "x.tar").write_bytes(bytes(header) + bytes(512) + bytes(1024))
    with pytest.raises(UnsupportedData, match=r"found 0.bin, a sparse one - .*--sparse"):
        hr.open(tmp_path / "x.tar")


def test_archives_without_examples(put):
    path = put(("train/cat/0001", b"x"), ("train/cat/0002", b"y"))
    with pytest.raises(UnsupportedData, match="only names without a dot, such as train/cat/0001"):
        hr.open(path)
    assert not hr.verify(path).ok
    assert len(hr.open(put(("README", b"x"), ("0.cls", b"1")))) == 1
    assert len(hr.open(put(("__meta__.txt", b"x"), (".hidden", b"")))) == 0


def test_members_of_one_name_without_their_kinds(put):
    example = hr.open(put(("0.a.npy", npy(np.array(1))), ("0.a.txt", b"two"), ("0.a.npy.bin", b"three")))[0]
    assert example == {"__key__": "0", "a.npy": 1, "a.txt": "two", "a.npy.bin": b"three"}


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_keys_of_later_parts_that_look_like_counters(tmp_path, compression):
    parts = {"named": ["a", "b"], "counted": ["000000000", "000000001"], "last": ["000000002", "c"]}
    paths = {name: str(tmp_path / f"{name}.tar") for name in parts}
    for name, keys in parts.items():
        rows = {"__key__": np.array(keys, object), "x": np.arange(2)}
        hr.write(paths[name], rows, compression=compression)
    for order in (["named", "counted"], ["counted", "counted", "last"]):
        join_tars([paths[name] for name in order], str(tmp_path / "all.tar"))
        expected = [key for name in order for key in parts[name]]
        assert list(hr.open(tmp_path / "all.tar")["__key__"]) == expected
    join_tars([paths["counted"]] * 2, str(tmp_path / "all.tar"))
    assert "__key__" not in hr.open(tmp_path / "all.tar").schema  # numbered from 0 to 3


@pytest.mark.parametrize("dtype", ["f4", "M8[s]", "U1", "c16"])
def test_arrays_of_both_byte_orders(put, dtype):
    values = np.arange(3).astype("U1" if dtype == "U1" else dtype)
    members = [npy(values.astype(order + dtype)) for order in "><>"]
    source = hr.open(put(*((f"{number}.npy", member) for number, member in enumerate(members))))
    assert source.schema["npy"] == hr.Feature(values.dtype, (3,))
    assert all(np.array_equal(row["npy"], values) for row in source)


@pytest.mark.parametrize("kind", ["U", "S"])
def test_arrays_of_text_of_several_widths(put, kind):
    members = [np.array(["abc", "d"]).astype(kind), np.array(["hello", "x"]).astype(kind)]
    source = hr.open(put(*((f"{number}.npy", npy(member)) for number, member in enumerate(members))))
    assert source.schema["npy"] == hr.Feature("str" if kind == "U" else "bytes", (2,))
    assert source.batch([1, 0])["npy"].tolist() == [members[1].tolist(), members[0].tolist()]


def test_endings_in_both_cases_are_one_feature(put):
    path = put(("000.CLS", b"1"), ("000.txt", b"a"), ("001.cls", b"2"), ("001.TXT", b"b"))
    assert {*hr.open(path).schema} >= {"cls", "txt"}
    assert hr.open(path).batch([0, 1])["cls"].tolist() == [1, 2]
    path = put(("000.CLS", b"1"), ("000.cls", b"2"), name="both.tar")
    assert len(hr.open(path)) == 1
    assert {"CLS", "cls"} <= {*hr.open(path).schema}
