"""Folders in which every file is one example."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.formats.golden import NPY
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.app import app
from headrace.formats.npz.write import packed_arrays
from headrace.io.local import open
from headrace.io.local.open import DIFFERENT, read_alike


def fill(folder, arrays, pattern="{:04d}.npy"):
    folder.mkdir(parents=True, exist_ok=True)
    for number, array in enumerate(arrays):
        np.save(folder / pattern.format(number), array)
    return folder


def rows(n, *shape):
    return np.random.default_rng(n).random((n, *shape), np.float32)


def test_golden_folder_of_npz_reads_as_numpy_reads_it():
    folder = NPY / "one_file_per_example"
    source = hr.open(folder)  # left and right differ in length and label is a single value: these cannot be rows
    assert source.format == "npz_folder"
    assert list(source.schema) == ["left", "right", "label"]
    batch = source.batch(np.arange(len(source)))
    for number in range(len(source)):
        with np.load(folder / f"{number:04d}.npz") as file:
            for name in file.files:
                np.testing.assert_array_equal(batch[name][number], file[name])
    assert hr.verify(folder).records == len(source)
    assert source.select("label").batch([3])["label"].shape == (1,)


def test_choice_between_rows_and_files(tmp_path):
    array = np.arange(6.0).reshape(3, 2)
    fill(tmp_path / "npy", [array, array])
    assert len(hr.open(tmp_path / "npy")) == 6  # rows, as ever
    assert hr.open(tmp_path / "npy", format="npy_folder").schema["values"].shape == (3, 2)
    assert len(hr.open(tmp_path / "npy" / "*.npy", format="npy_folder")) == 2
    (tmp_path / "npy" / "labels.csv").write_text("file,label\n0001.npy,7\n", encoding="utf-8")
    assert hr.open(tmp_path / "npy")[0]["label"] == 7
    assert len(hr.open(tmp_path / "npy" / "*.npy")) == 6

    cases = {
        "rows": ({"a": array, "b": array}, 6),
        "examples": ({"a": array, "label": np.int64(1)}, 2),
        "either": ({"a": array, "b": array, "label": np.int64(1)}, None),
        "unclear": ({"a": array, "b": np.zeros(2)}, None),
    }
    for name, (arrays, count) in cases.items():
        (tmp_path / name).mkdir()
        for number in range(2):
            np.savez(tmp_path / name / f"{number}.npz", **arrays)
        if count is None:
            with pytest.raises(hr.SchemaMismatch, match="format='npz_folder'"):
                hr.open(tmp_path / name)
        else:
            assert len(hr.open(tmp_path / name)) == count
        assert len(hr.open(tmp_path / name, format="npz_folder")) == 2


@settings(max_examples=40)
@given(
    st.lists(
        hnp.arrays(
            hnp.scalar_dtypes().filter(lambda d: d.kind in "iufbcMm"), st.shared(hnp.array_shapes(max_dims=3), key="s")
        ),
        min_size=1,
        max_size=1,
    ),
    st.integers(1, 40),
    st.booleans(),
)
def test_files_read_as_numpy_reads_them(tmp_path_factory, arrays, count, fortran):
    folder = tmp_path_factory.mktemp("x")
    array = np.asfortranarray(arrays[0]) if fortran else arrays[0]
    fill(folder, [array] * count)
    batch = hr.open(folder, format="npy_folder").batch(np.arange(count))["values"]
    expected = np.stack([np.load(folder / f"{number:04d}.npy") for number in range(count)])
    assert batch.dtype == expected.dtype.newbyteorder("=")
    assert batch.tobytes() == expected.astype(batch.dtype).tobytes()


def test_the_plain_reader_equals_the_native_one(tmp_path, monkeypatch):
    fill(tmp_path / "x", rows(9, 5))
    (tmp_path / "x" / "0003.npy").write_bytes(b"short")
    (tmp_path / "x" / "0004.npy").write_bytes((tmp_path / "x" / "0005.npy").read_bytes() + b"long")
    (tmp_path / "x" / "0006.npy").unlink()
    content = (tmp_path / "x" / "0000.npy").read_bytes()
    paths = [os.fsencode(tmp_path / "x" / f"{number:04d}.npy") for number in range(9)]
    native = read_alike(paths, content[:128], len(content) - 128)
    monkeypatch.setattr(open, "READS_FILES", False)
    plain = read_alike(paths, content[:128], len(content) - 128)
    assert native[1].tolist() == plain[1].tolist() == [0, 0, 0, DIFFERENT, DIFFERENT, 0, 2, 0, 0]
    sound = native[1] == 0
    np.testing.assert_array_equal(native[0][sound], plain[0][sound])
    assert [array.shape for array in read_alike([], b"", 0)] == [(0, 0), (0,)]


def test_opening_twenty_thousand_files_opens_few_of_them(tmp_path):
    folder = tmp_path / "x"
    folder.mkdir()
    np.save(tmp_path / "one.npy", np.arange(3))
    content = (tmp_path / "one.npy").read_bytes()
    for number in range(20_000):
        (folder / f"{number}.npy").write_bytes(content)
    code = f"""
import os, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == "open" and ".npy" in str(args[0]) else None)
import headrace as hr
source = hr.open({str(folder)!r}, format="npy_folder")
assert len(source) == 20_000 and source.schema["values"].shape == (3,)
assert len(opened) <= 20, len(opened)
assert source.where(19_999).path.endswith("/19999.npy") and source.where(2).path.endswith("/2.npy")
assert source[19_999]["values"].tolist() == [0, 1, 2]
assert len(opened) <= 20, len(opened)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_lengths_that_vary(tmp_path):
    arrays = [np.arange(number % 7, dtype=np.float32) for number in range(40)]
    source = hr.open(fill(tmp_path / "x", arrays), format="npy_folder")
    assert source.schema["values"].shape == (None,)
    assert source.cuts_cleanly
    batch = source.batch([5, 5, 0, 6])["values"]
    assert batch.to_list() == [arrays[number].tolist() for number in (5, 5, 0, 6)]
    assert source.batch([])["values"].to_list() == []
    pictures = [np.zeros((number % 3 + 1, number % 2 + 1), np.uint8) for number in range(40)]
    source = hr.open(fill(tmp_path / "y", pictures), format="npy_folder")
    assert source.schema["values"].shape == (None, None)
    assert not source.cuts_cleanly
    assert [picture.shape for picture in source.batch([0, 1, 2])["values"]] == [(1, 1), (2, 2), (3, 1)]


def test_a_length_that_the_sample_did_not_show_is_an_error_that_names_the_file(tmp_path):
    folder = fill(tmp_path / "x", rows(100, 3))
    np.save(folder / "0001.npy", np.zeros(4, np.float32))
    source = hr.open(folder, format="npy_folder")
    assert source.schema["values"].shape == (3,)
    with pytest.raises(hr.SchemaMismatch, match=r"float32 with shape \(3,\).*float32 with shape \(4,\).*0001\.npy"):
        source.batch([0, 1])
    free = hr.open(folder, format="npy_folder", schema={"values": hr.Feature("float32", (None,))})
    assert free.batch([0, 1])["values"].lengths.tolist() == [3, 4]
    with pytest.raises(hr.SchemaMismatch):
        hr.open(folder, format="npy_folder", schema={"values": hr.Feature("float64", (None,))})
    np.save(folder / "0001.npy", np.zeros(3, ">f4"))  # another byte order, same numbers
    assert source.batch([0, 1])["values"].shape == (2, 3)
    report = hr.verify(folder, format="npy_folder")
    assert report.ok
    assert report.records == 100
    np.save(folder / "0001.npy", np.zeros(3, np.int32))
    (folder / "0002.npy").write_bytes(b"nothing")
    (folder / "0003.npy").unlink()
    report = hr.verify(folder, format="npy_folder")
    assert [os.path.basename(fault.where.path) for fault in report.faults] == ["0001.npy", "0002.npy"]
    with pytest.raises(hr.NoFiles, match=r"0003\.npy"):
        source.batch([3])


def test_class_folders(tmp_path):
    for name, count in (("dog", 2), ("cat", 3), ("ape", 0)):
        fill(tmp_path / "x" / name, rows(count, 4))
    source = hr.open(tmp_path / "x")
    assert source.format == "npy_folder"
    assert source.schema["label"].names == ("ape", "cat", "dog")
    assert source.batch(np.arange(5))["label"].tolist() == [1, 1, 1, 2, 2]
    assert source.where(4).path == str(tmp_path / "x" / "dog" / "0001.npy")
    assert pickle.loads(pickle.dumps(source))[4]["label"] == 2
    hr.write(tmp_path / "y", source, format="npy_folder")
    again = hr.open(tmp_path / "y")
    assert again.schema == source.schema
    np.testing.assert_array_equal(again.batch(np.arange(5))["values"], source.batch(np.arange(5))["values"])
    (tmp_path / "x" / "dog" / "x.tfrecord").write_bytes(b"")
    with pytest.raises(hr.UnsupportedData, match=r"x\.tfrecord"):
        hr.open(tmp_path / "x", format="npy_folder")


def test_splits_are_not_classes(tmp_path):
    fill(tmp_path / "train" / "cat", rows(2, 4))
    fill(tmp_path / "train" / "dog", rows(2, 4))
    fill(tmp_path / "test" / "dog", rows(2, 4))
    with pytest.raises(hr.UnsupportedData, match="split="):
        hr.open(fill(tmp_path / "flat" / "train", rows(1, 2)).parent, format="npy_folder")
    source = hr.open(tmp_path, split="test")
    assert source.schema["label"].names == ("cat", "dog")
    assert source[0]["label"] == 1


MANIFESTS = {
    "manifest.csv": 'file,label,who,code,weight\n0001.npy,7,"a, ""b""",007,0.5\n0000.npy,-3,ä,8,\n',
    "labels.csv": '\ufefffile_name,label,who,code,weight\r\n0001.npy,7,"a, ""b""",007,0.5\r\n0000.npy,-3,ä,8,\r\n',
    "manifest.json": json.dumps(
        [
            {"path": "0001.npy", "label": 7, "who": 'a, "b"', "code": "007", "weight": 0.5},
            {"path": "0000.npy", "label": -3, "who": "ä", "code": "8", "weight": None},
        ]
    ),
    "manifest.jsonl": '{"file": "0001.npy", "label": 7, "who": "a, \\"b\\"", "code": "007", "weight": 0.5}\n'
    '{"file": "0000.npy", "label": -3, "who": "ä", "code": "8", "weight": null}\n',
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests(tmp_path, name):
    arrays = rows(3, 4)
    folder = fill(tmp_path / "x", arrays)
    (folder / name).write_text(MANIFESTS[name], encoding="utf-8", newline="")
    source = hr.open(folder)
    assert [(each, feature.dtype) for each, feature in source.schema.items()] == [
        ("values", "float32"),
        ("label", "int64"),
        ("who", "str"),
        ("code", "str"),
        ("weight", "float64"),
    ]
    batch = source.batch([0, 1])
    np.testing.assert_array_equal(batch["values"], arrays[[1, 0]])
    assert batch["label"].tolist() == [7, -3]
    assert batch["who"].tolist() == ['a, "b"', "ä"]
    assert batch["code"].tolist() == ["007", "8"]
    assert np.isnan(batch["weight"][1])
    hr.write(tmp_path / "y", source, format="npy_folder")
    again = hr.open(tmp_path / "y")
    assert again.schema == source.schema
    assert again[0]["who"] == 'a, "b"'


def test_lines_of_a_manifest_end_at_newlines_only(tmp_path):
    folder = fill(tmp_path / "x", rows(2, 4))
    lines = [f'{{"file": "000{n}.npy", "who": "a\u2028b\x85c"}}' for n in range(2)]
    (folder / "manifest.jsonl").write_text("\r\n".join(lines), encoding="utf-8", newline="")
    assert hr.open(folder).batch([0, 1])["who"].tolist() == ["a\u2028b\x85c"] * 2


@pytest.mark.parametrize(
    ("name", "text", "error", "message"),
    [
        ("manifest.csv", "name,label\n0000.npy,1\n", hr.UnsupportedData, "a column of file names"),
        ("manifest.csv", "", hr.UnsupportedData, "no rows"),
        ("manifest.csv", "file,label\n0000.npy\n", hr.CorruptFile, "2 columns"),
        ("manifest.csv", "file,file\n0000.npy,1\n", hr.CorruptFile, "every column name once"),
        ("manifest.csv", "file,label\n0000.npy,1\ngone.npy,2\nalso.npy,3\n", hr.NoFiles, "no gone.npy and 1 more"),
        ("manifest.csv", "file,label\n0000.npy,1\nx.tfrecord,2\n", hr.NoFiles, "x.tfrecord"),
        ("manifest.csv", "file,values\n0000.npy,1\n", hr.SchemaMismatch, "every feature once"),
        ("manifest.json", "[1, 2]", hr.CorruptFile, "a list of objects"),
        ("manifest.json", "[" * 100_000, hr.CorruptFile, "manifest"),
        ("manifest.jsonl", '{"file": "0000.npy"', hr.CorruptFile, "manifest"),
        ("manifest.jsonl", '{"file": "0000.npy", "x": [1]}', hr.SchemaMismatch, "numbers, or text"),
        ("manifest.jsonl", '{"file": 3}', hr.CorruptFile, "no file name"),
        ("manifest.json", '{"0000.npy": ' + "[" * 5000 + "]" * 5000 + "}", hr.CorruptFile, "200 levels deep"),
        (
            "manifest.json",
            f'[{{"file": "0000.npy", "x": {2**64}}}]',
            hr.SchemaMismatch,
            "found 18446744073709551616.*'x'",
        ),
        ("manifest.json", f'[{{"file": "0000.npy", "x": {10**400}}}]', hr.SchemaMismatch, "a number of 401 digits"),
        (
            "manifest.jsonl",
            '{"file": "0000.npy", "x": 0.5}\n{"file": "0001.npy", "x": 9007199254740993}',
            hr.SchemaMismatch,
            "found 9007199254740993 - at .*record 1",
        ),
        (
            "manifest.csv",
            "file\n0000.npy\n../other.npy\n",
            hr.UnsupportedData,
            "below it, found '../other.npy'.*record 1",
        ),
        ("manifest.csv", "file\n/etc/other.npy\n", hr.UnsupportedData, "below it"),
        ("manifest.json", '{"http://127.0.0.1:1/x.npy": 1}', hr.UnsupportedData, "below it"),
    ],
)
def test_manifests_that_cannot_be_used(tmp_path, name, text, error, message):
    folder = fill(tmp_path / "x", rows(2, 2))
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(error, match=message):
        hr.open(folder)


def test_two_manifests_are_refused(tmp_path):
    folder = fill(tmp_path / "x", rows(1, 2))
    for name in ("manifest.csv", "labels.csv"):
        (folder / name).write_text("file\n0000.npy\n", encoding="utf-8")
    with pytest.raises(hr.UnsupportedData, match="one manifest"):
        hr.open(folder)


def npz_files(folder, arrays, *, deflate=False):
    folder.mkdir()
    for number, each in enumerate(arrays):
        (folder / f"{number}.npz").write_bytes(packed_arrays(each, deflate=deflate))
    return folder


@pytest.mark.parametrize("deflate", [False, True])
def test_npz_per_example(tmp_path, deflate):
    arrays = [{"x": row, "label": np.int64(number)} for number, row in enumerate(rows(40, 3, 2))]
    folder = npz_files(tmp_path / "x", arrays, deflate=deflate)
    source = hr.open(folder)
    batch = source.batch([39, 0, 39])
    np.testing.assert_array_equal(batch["x"], np.stack([arrays[number]["x"] for number in (39, 0, 39)]))
    assert batch["label"].tolist() == [39, 0, 39]
    np.savez(folder / "1.npz", **arrays[1])  # another layout than its neighbours, same values
    assert source.batch([0, 1])["label"].tolist() == [0, 1]
    np.savez(folder / "1.npz", label=np.int64(1))
    with pytest.raises(hr.SchemaMismatch, match=r"no such array.*1\.npz"):
        source.batch([0, 1])
    assert source.select("label").batch([0, 1])["label"].tolist() == [0, 1]


def test_a_damaged_array_in_one_of_many_files_is_named(tmp_path):
    arrays = [{"x": row, "label": np.int64(number)} for number, row in enumerate(rows(40, 3, 2))]
    folder = npz_files(tmp_path / "x", arrays)
    content = bytearray((folder / "1.npz").read_bytes())
    content[content.index(b"\x93NUMPY") + 130] ^= 1
    (folder / "1.npz").write_bytes(content)
    source = hr.open(folder)
    with pytest.raises(hr.CorruptFile, match=r"CRC-32.*1\.npz.*feature 'x'"):
        source.batch([0, 1])
    assert source.select("label").batch([0, 1])["label"].tolist() == [0, 1]
    assert hr.open(folder, verify=False).batch([0, 1])["x"].shape == (2, 3, 2)
    report = hr.verify(folder)
    assert [fault.where.path for fault in report.faults] == [str(folder / "1.npz")]
    assert zlib.crc32(b"") == 0


def test_writing_and_converting(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.writing.units.UNIT_EXAMPLES", 150)
    monkeypatch.setattr(os, "sync", lambda: None)
    columns = {"a": np.arange(400), "b": rows(400, 2)}
    source = hr.ColumnSource(columns)
    assert hr.write(tmp_path / "x", source, format="npz_folder") == 400
    shutil.rmtree(tmp_path / "x")
    hr.write(tmp_path / "x.npz", source)
    for format in ("npy_folder", "npz_folder"):
        hr.convert(tmp_path / "x.npz", tmp_path / format, format=format)  # in three units, which are joined
        back = hr.open(tmp_path / format, **({"format": format} if format == "npz_folder" else {}))
        some = np.arange(0, 400, 7)
        batch = back.batch(some)
        np.testing.assert_array_equal(batch["a"], some)
        np.testing.assert_array_equal(batch["b" if format == "npz_folder" else "values"], columns["b"][some])
    assert sorted(os.listdir(tmp_path)) == ["npy_folder", "npz_folder", "x.npz"]
    with pytest.raises(hr.UnsupportedData, match="an empty one"):
        hr.write(tmp_path / "npy_folder", source, format="npy_folder")
    with pytest.raises(hr.UnsupportedData, match="one array"):
        hr.write(tmp_path / "z", {"a": rows(3, 2), "b": rows(3, 2)}, format="npy_folder")


def test_ragged_examples_are_written(tmp_path):
    ragged = hr.Ragged.from_list([[1.0], [], [2.0, 3.0]])
    hr.write(tmp_path / "x", {"values": ragged, "label": np.arange(3)}, format="npy_folder")
    assert hr.open(tmp_path / "x").batch([2, 1, 0])["values"].to_list() == [[2.0, 3.0], [], [1.0]]
    hr.write(tmp_path / "y", {"values": ragged, "label": np.arange(3)}, format="npz_folder")
    assert hr.open(tmp_path / "y").batch([2, 1, 0])["values"].to_list() == [[2.0, 3.0], [], [1.0]]


def test_paths_stay_right_when_the_process_changes_its_folder(tmp_path, monkeypatch):
    fill(tmp_path / "x", rows(3, 2))
    monkeypatch.chdir(tmp_path)
    source = hr.open("x", format="npy_folder")
    copied = pickle.dumps(source)
    first = source[0]["values"]
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(source.batch([0])["values"][0], first)
    np.testing.assert_array_equal(pickle.loads(copied)[0]["values"], first)


def test_skipping_damaged_files_is_refused(tmp_path):
    with pytest.raises(hr.UnsupportedData, match="on_corrupt='raise'"):
        hr.open(fill(tmp_path / "x", rows(1, 2)), format="npy_folder", on_corrupt="skip")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are pipes on POSIX only")
def test_entries_that_are_not_files_are_ignored(tmp_path):
    folder = fill(tmp_path / "x", rows(2, 2))
    os.mkfifo(folder / "0002.npy")
    (folder / ".hidden.npy").write_bytes(b"")
    (folder / "notes.txt").write_bytes(b"")
    assert len(hr.open(folder, format="npy_folder")) == 2


def test_the_commands_read_archives_and_folders(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.arange(3), b=np.zeros((3, 2)))
    fill(tmp_path / "x" / "cat", rows(2, 4))
    for path, count in (("x.npz", 3), ("x", 2)):
        for command in (
            ["inspect", "--json"],
            ["head", "-n", "1", "--json"],
            ["schema", "--json"],
            ["verify", "--json"],
        ):
            done = CliRunner().invoke(app, [*command, str(tmp_path / path)], prog_name="headrace")
            assert done.exit_code == 0, done.stderr
            reported = json.loads(done.stdout)
            assert reported.get("records", count) == count
            assert reported.get("ok", True)
    assert json.loads(done.stdout)["files"] == 2


def test_verify_lists_faults_of_the_files_that_tell_the_types_too(tmp_path):
    folder = fill(tmp_path / "few", rows(5, 4))
    for number in (0, 3):
        (folder / f"{number:04d}.npy").write_bytes((folder / f"{number:04d}.npy").read_bytes()[:-3])
    np.save(folder / "0002.npy", np.zeros((2, 2), "i8"))
    report = hr.verify(folder, format="npy_folder")
    assert [os.path.basename(fault.where.path) for fault in report.faults] == ["0000.npy", "0003.npy"]
    assert report.records == 3


def test_verify_names_a_file_that_is_unlike_the_others(tmp_path):
    folder = fill(tmp_path / "few", rows(5, 4))
    np.save(folder / "0002.npy", np.zeros((2, 2), "i8"))
    report = hr.verify(folder, format="npy_folder")
    assert [(type(fault), os.path.basename(fault.where.path)) for fault in report.faults] == [
        (hr.SchemaMismatch, "0002.npy")
    ]
    assert report.records == 4


def test_large_numbers_in_manifests_are_exact(tmp_path):
    folder = fill(tmp_path / "x", rows(2, 2))
    big, exact = 2**64 - 1, 9007199254740993
    (folder / "manifest.json").write_text(f'[{{"file": "0000.npy", "x": {big}}}, {{"file": "0001.npy", "x": {exact}}}]')
    source = hr.open(folder)
    assert source.schema["x"] == hr.Feature("uint64")
    assert [int(example["x"]) for example in source] == [big, exact]
    (folder / "manifest.json").unlink()
    (folder / "manifest.csv").write_text(f"file,x,y,z\n0000.npy,0.5,{10**400},{10**30}\n0001.npy,{exact},1,\n")
    assert [(e["x"], e["y"], e["z"]) for e in hr.open(folder)] == [
        ("0.5", str(10**400), str(10**30)),
        (str(exact), "1", ""),
    ]


@pytest.mark.parametrize(
    "classes", [("train", "test"), ("a~", "b"), ("x.tmp", "y"), (".a", "b"), ("a/b", "c"), ("a\0", "b"), ("", "b")]
)
def test_classes_that_no_folder_can_be_called_are_in_the_manifest(tmp_path, classes):
    schema = {"values": hr.Feature("float32", (2,)), "label": hr.Feature("int64", names=classes)}
    columns = {"values": np.arange(6, dtype=np.float32).reshape(3, 2), "label": np.array([1, 0, 1])}
    hr.write(tmp_path / "x", columns, format="npy_folder", schema=schema)
    found = hr.open(tmp_path / "x").batch(range(3))
    assert (found["values"].tolist(), found["label"].tolist()) == (columns["values"].tolist(), [1, 0, 1])
