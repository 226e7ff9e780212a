import errno
import functools
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from PIL import Image
from tests.io.file_server import serving

import headrace as hr
from headrace.contracts.protocols import RowSizer
from headrace.contracts.values import size_of
from headrace.writing import convert, sinks, units
from headrace.writing.sinks import open_sink
from headrace.writing.target import Target
from headrace.writing.units import join_units

N = 500


@pytest.fixture
def small_units(monkeypatch):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 64)


@pytest.fixture
def original(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"image": rng.random((N, 9), dtype=np.float32), "label": rng.integers(0, 10, N)}
    hr.write(tmp_path / "a.tfrecord", columns)
    return tmp_path / "a.tfrecord"


def test_every_pair(tmp_path, original, small_units):
    first = hr.open(original)
    names = ["a.tfrecord", "b.tfrecord.gz", "c.tfrecord@3", "d.npy", "e.tfrecord"]
    for source, target in [(s, t) for s in names for t in names if s != t]:
        path = tmp_path / source
        if not path.exists() and source != "c.tfrecord@3":
            hr.convert(original, path)
        out = hr.convert(path if source != "c.tfrecord@3" else original, tmp_path / target, overwrite=True)
        assert out.examples == N
        again = hr.open(tmp_path / target)
        assert np.array_equal(again.batch(range(N))["image"], first.batch(range(N))["image"])
        assert np.array_equal(again.batch(range(N))["label"], first.batch(range(N))["label"])
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_payloads_pass_through_byte_for_byte(tmp_path, small_units):
    wire = bytes.fromhex("0a0b0a09 0a0169 1204 1a02 0801".replace(" ", ""))  # our own writer would compress it
    hr.write_records(tmp_path / "a.tfrecord", [wire] * 200)
    hr.convert(tmp_path / "a.tfrecord", tmp_path / "b.tfrecord.gz")
    hr.convert(tmp_path / "b.tfrecord.gz", tmp_path / "c.tfrecord")
    assert (tmp_path / "c.tfrecord").read_bytes() == (tmp_path / "a.tfrecord").read_bytes()


def test_zlib_is_one_stream(tmp_path, original, small_units):
    hr.convert(original, tmp_path / "z.tfrecord.zlib")
    hr.convert(tmp_path / "z.tfrecord.zlib", tmp_path / "y.tfrecord")
    assert (tmp_path / "y.tfrecord").read_bytes() == original.read_bytes()


def test_columns_and_codec(tmp_path, original):
    hr.convert(original, tmp_path / "b.tfrecord", columns=["label"])
    assert list(hr.open(tmp_path / "b.tfrecord").schema) == ["label"]


def test_existing_files_are_kept(tmp_path, original):
    (tmp_path / "b.tfrecord").write_bytes(b"precious")
    with pytest.raises(hr.UnsupportedData, match="overwrite=True"):
        hr.convert(original, tmp_path / "b.tfrecord")
    assert (tmp_path / "b.tfrecord").read_bytes() == b"precious"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_refusal_names_what_would_be_lost(tmp_path):
    hr.write(tmp_path / "a.tfrecord", {"ids": hr.Ragged.from_list([[1], []], np.int64)})
    with pytest.raises(hr.UnsupportedData, match=r"numbers of a fixed shape.*feature 'ids'"):
        hr.convert(tmp_path / "a.tfrecord", tmp_path / "b.npy")
    assert not (tmp_path / "b.npy").exists()


@pytest.mark.parametrize("name", ["b.tfrecord", "b.tfrecord.gz", "b.array_record", "b.recordio", "b.csv"])
def test_a_damaged_payload_is_named_and_leaves_nothing(tmp_path, original, name):
    """Also where payloads are copied, which decodes none."""
    hr.write(tmp_path / "a.tfrecord", {"label": np.arange(1000)})
    damaged = bytearray(original.read_bytes())
    damaged[len(damaged) // 1000 * 20 + 14] ^= 1
    original.write_bytes(damaged)
    with pytest.raises(hr.CorruptRecord, match=r"payload checksum 0x.*a\.tfrecord, record 20, byte 0x"):
        hr.convert(original, tmp_path / name)
    assert os.listdir(tmp_path) == ["a.tfrecord"]


def test_a_damaged_payload_of_records_of_sagemaker_is_named(tmp_path):
    hr.write(tmp_path / "x.recordio", {"values": np.arange(90, dtype=np.float32).reshape(30, 3)})
    hr.write_records(tmp_path / "a.tfrecord", hr.records(tmp_path / "x.recordio"))
    damaged = bytearray((tmp_path / "a.tfrecord").read_bytes())
    damaged[len(damaged) // 30 * 20 + 16] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(damaged)
    source = hr.open(tmp_path / "a.tfrecord", codec="sagemaker_record")
    with pytest.raises(hr.CorruptRecord, match=r"payload checksum 0x.*a\.tfrecord, record 20, byte 0x"):
        hr.convert(source, tmp_path / "y.recordio")


def test_damaged_records_are_left_out_and_counted(tmp_path, original):
    data = bytearray(original.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "bad.tfrecord").write_bytes(data)
    with pytest.raises(hr.CorruptRecord):
        hr.convert(tmp_path / "bad.tfrecord", tmp_path / "b.tfrecord")
    out = hr.convert(tmp_path / "bad.tfrecord", tmp_path / "c.tfrecord", on_corrupt="skip")
    assert (out.examples, out.skipped) == (N - 1, 1)


SCRIPT = """
import os, signal, sys
import headrace as hr
from headrace.writing import units
from headrace.writing.distributed import unit_writer
units.UNIT_EXAMPLES = 50
write, pieces = unit_writer.open_sink, []
def killed(*args, **options):
    pieces.append(1)
    if len(pieces) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return write(*args, **options)
unit_writer.open_sink = killed
def named(event, args):
    if event == "os.rename" and os.path.basename(args[1]).startswith("b."):
        os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[3] == "last":
    sys.argv[3] = "0"
    sys.addaudithook(named)
out = hr.convert(sys.argv[1], sys.argv[2], codec="example" if "tfrecord" in sys.argv[2] else None, threads=2)
print(out.resumed)
"""


@pytest.mark.parametrize("target", ["b.tfrecord", "b.tfrecord@2", "b.npy", "b.parquet"])
def test_killed_at_any_moment_it_leaves_no_half_file_and_resumes(tmp_path, original, target):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    codes = []
    for piece in (
        1,
        4,
        1,
        3,
        2,
        "last",
        0,
    ):  # two threads: with the third, one is finished; before the last file has its name
        command = [sys.executable, "-c", SCRIPT, str(original), str(tmp_path / target), str(piece)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600, check=False)
        codes.append(done.returncode)
        for name in os.listdir(tmp_path):
            if name.startswith("b.") and "headrace" not in name:  # whatever has a final name is whole
                assert hr.verify([tmp_path / name]).ok
    assert codes == [-signal.SIGKILL] * 6 + [0], done.stderr
    assert int(done.stdout) > 0
    first, again = hr.open(original), hr.open(tmp_path / target)
    assert len(again) == N
    assert np.array_equal(again.batch(range(N))["label"], first.batch(range(N))["label"])
    # A killed writer can leave a hidden temporary file; the next writer removes it.
    assert not [name for name in os.listdir(tmp_path) if name.endswith("headrace-convert")]


def test_nothing_is_left_of_a_conversion_that_is_refused_for_a_value(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.writing.units.UNIT_EXAMPLES", 10)
    values = np.arange(100.0)
    values[77] = np.inf
    hr.write(tmp_path / "x.npy", {"x": values})
    with pytest.raises(hr.UnsupportedData, match="numbers that JSON has"):
        hr.convert(tmp_path / "x.npy", tmp_path / "y.jsonl", threads=2)
    assert os.listdir(tmp_path) == ["x.npy"]


def test_shards_of_a_conversion_that_is_refused_when_they_are_joined(tmp_path, monkeypatch):
    """The first shard has its final name already: it is removed, too."""
    monkeypatch.setattr("headrace.writing.units.UNIT_EXAMPLES", 10)
    hr.write(tmp_path / "x.npz", {"x": np.arange(100.0)})

    def refuse(shard, work, **options):
        if "y.npz-00001" in shard.path:
            raise hr.SchemaMismatch(hr.Where(), expected="one thing", found="another")
        join_units(shard, work, **options)

    monkeypatch.setattr("headrace.writing.convert.join_units", refuse)
    with pytest.raises(hr.SchemaMismatch):
        hr.convert(tmp_path / "x.npz", tmp_path / "y.npz@2")
    assert os.listdir(tmp_path) == ["x.npz"]


def test_nothing_is_left_where_nothing_is_finished(tmp_path, monkeypatch):
    hr.write(tmp_path / "x.npy", {"x": np.arange(100.0)})

    def fail(*_arguments, **_options):
        raise hr.MissingExtra("pyarrow", "arrow")

    monkeypatch.setattr("headrace.writing.distributed.unit_writer.open_sink", fail)
    with pytest.raises(hr.MissingExtra):
        hr.convert(tmp_path / "x.npy", tmp_path / "y.parquet")
    assert os.listdir(tmp_path) == ["x.npy"]


def test_nothing_is_left_where_the_plan_cannot_be_stored(tmp_path, monkeypatch):
    hr.write(tmp_path / "x.npy", {"x": np.arange(100.0)})

    def fail(*_arguments, **_options):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(units, "AtomicFile", fail)
    with pytest.raises(OSError, match="no space"):
        hr.convert(tmp_path / "x.npy", tmp_path / "y.tfrecord")
    assert os.listdir(tmp_path) == ["x.npy"]


def test_a_full_disk_leaves_what_is_finished(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.writing.units.UNIT_EXAMPLES", 10)
    hr.write(tmp_path / "x.npy", {"x": np.arange(40.0)})

    def full(path, *arguments, **options):
        if path.name.endswith("30"):
            raise OSError(28, "No space left on device")
        return open_sink(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("headrace.writing.distributed.unit_writer.open_sink", full)
        with pytest.raises(OSError, match="No space") as caught:
            hr.convert(tmp_path / "x.npy", tmp_path / "y.npz", threads=1)
    assert caught.value.__notes__ == ["Finished work is kept: the same call resumes it."]
    assert hr.convert(tmp_path / "x.npy", tmp_path / "y.npz").resumed == 30


def test_a_run_does_not_resume_with_pieces_of_another_version(tmp_path, monkeypatch):
    """First, last and number of examples, size and time are unchanged. Only one value in the middle differs."""
    src, dst = tmp_path / "x.csv", tmp_path / "x.tfrecord"
    src.write_bytes(b"x\n" + b"1\n" * 100 + b"2\n" + b"1\n" * 100)
    before = src.stat()

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device", str(dst))

    with monkeypatch.context() as patch:
        patch.setattr("headrace.writing.convert.join_units", fail)
        with pytest.raises(OSError, match="No space"):
            hr.convert(src, dst)
    with src.open("r+b") as file:
        file.seek(2 + 200)
        file.write(b"3")
    os.utime(src, ns=(before.st_atime_ns, before.st_mtime_ns))
    done = hr.convert(src, dst)
    assert done.resumed == 0
    assert hr.open(dst)[100]["x"] == 3


@pytest.mark.parametrize(
    ("name", "dst"),
    [("", "x.csv"), ("a b", "x.avro"), ("a/b", "x.tar@2"), ("\ud800", "x.tfrecord"), ("\ud800", "x.npz")],
)
def test_a_name_that_is_not_held_is_an_error_at_the_new_file(tmp_path, name, dst):
    source = hr.ColumnSource({"x": np.arange(3.0)}).rename({"x": name})
    with pytest.raises(hr.UnsupportedData, match=r"rename\(\) it") as raised:
        hr.convert(source, tmp_path / dst)
    assert raised.value.where.feature == name
    assert (raised.value.where.path or "").startswith(str(tmp_path / dst.partition("@")[0]))
    assert list(tmp_path.iterdir()) == []


def test_damage_is_skipped_where_files_are_opened(tmp_path):
    source = hr.ColumnSource({"x": np.arange(3)})
    with pytest.raises(ValueError, match="give it to hr.open, because this source is open"):
        hr.convert(source, tmp_path / "y.tfrecord", on_corrupt="skip")
    assert list(tmp_path.iterdir()) == []


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("format", ["npy_folder", "npz_folder"])
@pytest.mark.parametrize("step", [1000, 64])
def test_a_folder_is_replaced_by_another(tmp_path, original, monkeypatch, format, step):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", step)
    hr.convert(original, tmp_path / "expected", format=format)
    for before in ("a folder", "a file"):
        out = tmp_path / before
        if before == "a file":
            out.write_bytes(b"old")
        else:
            out.mkdir()
            (out / "old.npy").write_bytes(b"old")
        with pytest.raises(hr.UnsupportedData, match="already exists"):
            hr.convert(original, out, format=format)
        for _ in range(2):
            hr.convert(original, out, format=format, overwrite=True)
            assert files_below(out) == files_below(tmp_path / "expected")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("dst", ["out", "out.tfrecord"])
def test_a_folder_with_other_files_is_never_replaced(tmp_path, original, dst):
    out = tmp_path / dst
    (out / "below").mkdir(parents=True)
    (out / "1.npy").write_bytes(b"old")
    (out / "below" / "thesis.txt").write_bytes(b"kept")
    before = files_below(tmp_path)
    format = "npy_folder" if dst == "out" else None
    with pytest.raises(hr.UnsupportedData, match=r"found one with below.thesis\.txt"):
        hr.convert(original, out, format=format, overwrite=True)
    with pytest.raises(hr.UnsupportedData):
        hr.convert(original, out, format=format)
    assert files_below(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are pipes on POSIX only")
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_pipe_is_not_replaced(tmp_path, original, overwrite):
    os.mkfifo(tmp_path / "x.tfrecord-00001-of-00002")
    (tmp_path / "y.tfrecord").symlink_to("x.tfrecord-00001-of-00002")
    for name in ("x.tfrecord@2", "y.tfrecord"):
        with pytest.raises(hr.UnsupportedData, match="found a pipe"):
            hr.convert(original, tmp_path / name, overwrite=overwrite)
    assert stat.S_ISFIFO((tmp_path / "x.tfrecord-00001-of-00002").stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["a.tfrecord", "x.tfrecord-00001-of-00002", "y.tfrecord"]


def test_a_link_to_a_folder_is_not_replaced(tmp_path, original):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(hr.UnsupportedData, match="found a link to one"):
        hr.convert(original, tmp_path / "link", format="npy_folder", overwrite=True)
    assert sorted(os.listdir(tmp_path)) == before


def test_what_is_replaced_comes_back_if_that_fails(tmp_path, original, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old.npy").write_bytes(b"old")
    replace = os.replace

    def fails(source, target):
        if str(source).endswith("-whole") and Path(target) == out:
            raise OSError(5, "Input/output error")
        return replace(source, target)

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(OSError, match="Input/output error"):
        hr.convert(original, out, format="npy_folder", overwrite=True)
    assert files_below(out) == {"old.npy": b"old"}
    monkeypatch.undo()
    assert hr.convert(original, out, format="npy_folder", overwrite=True).resumed == N
    assert len(files_below(out)) > N


@pytest.mark.parametrize(
    ("name", "each_bytes", "examples"),
    [
        ("a.tfrecord", 0, 16_384),
        ("a.tfrecord.gz", 8_192, 16_384),
        ("a.array_record", 1 << 20, 128),
        ("a.parquet", 3 << 20, 42),
        ("a.npy", 1 << 40, 1),
        ("a.tfrecord.zlib", 1 << 20, 10**6),
    ],
)
def test_units_of_large_examples_have_few(name, each_bytes, examples):
    assert units.unit_examples(Target.of(name), 10**6, each_bytes) == examples


@pytest.mark.parametrize("name", ["no/such/b.npz", "no/such/b.tfrecord@3", "no/such/b"])
def test_missing_folders_are_not_made(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    hr.write("a.npy", np.zeros((4, 2)))
    format = None if "." in name else "npy_folder"
    for write in (hr.convert, lambda src, dst, **options: hr.write(dst, hr.open(src), **options)):
        with pytest.raises(hr.NoFiles, match=r"no such folder: no/such\. Make it first"):
            write("a.npy", name, format=format)
        with pytest.raises(hr.NoFiles, match=f"no such folder.*pass the text 's3://bucket/{name.partition('@')[0]}"):
            write("a.npy", Path("s3://bucket") / name, format=format)
    assert list(tmp_path.iterdir()) == [tmp_path / "a.npy"]


@pytest.mark.parametrize("name", ["b.tfrecord.gz", "b.array_record", "b.avro", "b.tfrecord"])
def test_large_examples_are_held_a_few_at_a_time(tmp_path, monkeypatch, name):
    """By units of few examples, each written in smaller batches; the files do not depend on the batches."""
    hr.write(tmp_path / "a.tfrecord", {"x": np.random.default_rng(0).random((300, 200), np.float32)})
    monkeypatch.setattr(units, "UNIT_BYTES", 50_000)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    hr.convert(tmp_path / "a.tfrecord", tmp_path / "one" / name)
    monkeypatch.setattr(sinks, "BATCH_BYTES", 5_000)
    monkeypatch.setattr(sinks, "FIRST_ROWS", 4)
    asked = []
    batch = hr.Source.batch
    monkeypatch.setattr(hr.Source, "batch", lambda self, at: asked.append(len(at)) or batch(self, at))
    hr.convert(tmp_path / "a.tfrecord", tmp_path / "two" / name)
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    # Payloads that pass unchanged are no batches.
    assert not asked or (max(asked) <= 62 and asked.count(6) > 30)


@pytest.mark.parametrize("name", ["b.tfrecord.gz", "b.jsonl", "b.avro"])
def test_examples_that_get_far_larger_are_held_a_few_at_a_time(tmp_path, monkeypatch, name):
    """Payloads that pass unchanged, too. As many large ones as small ones before would take 600,000 bytes here."""
    lengths = [2] * 500 + [2_000] * 300
    with hr.Writer(tmp_path / "a.tfrecord", schema=hr.Schema({"x": hr.Feature("str")})) as writer:
        for length in lengths:
            writer.write({"x": "x" * length})
    monkeypatch.setattr(sinks, "BATCH_BYTES", 50_000)
    held = []
    note = RowSizer.note
    monkeypatch.setattr(RowSizer, "note", lambda self, *found: held.append(found[-1]) or note(self, *found))
    hr.convert(tmp_path / "a.tfrecord", tmp_path / name)
    assert 590_000 < sum(held) < 640_000
    assert max(held) <= 330_000  # A small one takes three times as many bytes in a file as in memory.
    assert [len(each["x"]) for each in hr.open(tmp_path / name)] == lengths


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            lambda s: s.filter(lambda e: e["label"] in (0, 3, 4, 19)),
            lambda s: s.filter(lambda e: e["label"] in (0, 5, 6, 19)),
        ),
        (
            lambda s: s.filter(hr.condition("label in (0, 3, 19)")),
            lambda s: s.filter(hr.condition("label in (0, 4, 19)")),
        ),
        (lambda s: s.map(lambda e: {"label": 0 * e["label"]}), lambda s: s.map(lambda e: {"label": e["label"] % 19})),
        (lambda s: s.take(20), lambda s: hr.ColumnSource({"label": np.r_[0, 9, np.arange(2, 20)]})),
    ],
)
def test_nothing_of_another_choice_is_resumed(tmp_path, monkeypatch, before, after):
    """As many examples, and the same first and last one."""
    hr.write(tmp_path / "a.tfrecord", {"label": np.arange(20)})
    source = hr.open(tmp_path / "a.tfrecord")
    assert [before(source)[at]["label"] for at in (0, -1)] == [after(source)[at]["label"] for at in (0, -1)]
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 2)
    with monkeypatch.context() as context:
        context.setattr(convert, "join_units", lambda *_, **__: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            hr.convert(before(source), tmp_path / "x.tfrecord")
    done = hr.convert(after(source), tmp_path / "x.tfrecord")
    assert [int(e["label"]) for e in hr.open(tmp_path / "x.tfrecord")] == [int(e["label"]) for e in after(source)]
    assert done.resumed == 0
    # But the same is.
    with monkeypatch.context() as context:
        context.setattr(convert, "join_units", lambda *_, **__: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            hr.convert(before(source), tmp_path / "y.tfrecord")
    assert hr.convert(before(source), tmp_path / "y.tfrecord").resumed == len(before(source))


@pytest.mark.parametrize("name", ["b.parquet", "b.tfrecord", "b.jsonl", "b.array_record@2", "b.avro"])
def test_axes_that_vary_after_the_first_example_of_a_function(tmp_path, monkeypatch, name):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 5)
    hr.write(tmp_path / "a.tfrecord", {"n": np.arange(20)})
    source = hr.open(tmp_path / "a.tfrecord").map(lambda example: {"x": np.arange(example["n"] % 3 + 1)})
    done = hr.convert(source, tmp_path / name)
    assert done.schema["x"].shape == (None,)
    assert [e["x"].tolist() for e in hr.open(tmp_path / name)] == [list(range(n % 3 + 1)) for n in range(20)]


def test_a_format_without_axes_that_vary_refuses_a_function_whose_values_do(tmp_path):
    source = hr.ColumnSource({"n": np.arange(20)}).map(lambda example: {"x": np.arange(example["n"] % 3 + 1)})
    with pytest.raises(hr.UnsupportedData, match="a fixed shape"):
        hr.convert(source, tmp_path / "b.npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "column",
    [
        [np.zeros((2, 3), np.uint8), np.zeros((3, 2), np.uint8)],
        hr.Ragged.from_list([["a"], ["bc", "d"]], object),
        np.array(["a", None], object),
        np.array([b"a", 3], object),
        hr.Strings.from_values(["a", "b"]),
        scipy.sparse.csr_array(np.eye(2)),
    ],
)
def test_columns_of_every_kind_have_a_size(column):
    assert size_of(column) > 0


def test_arrays_of_several_shapes_are_written_and_converted(tmp_path):
    shapes = [(2, 3), (3, 2), (1, 1)] * 40
    source = hr.ColumnSource({"n": np.arange(120)}).map(lambda e: {"x": np.full(shapes[e["n"]], e["n"], np.uint8)})
    schema = {"x": hr.Feature("uint8", (None, None))}
    hr.write(tmp_path / "a.jsonl", source, schema=schema)
    hr.convert(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()
    assert [
        example["x"].tolist() if hasattr(example["x"], "tolist") else example["x"].to_list()
        for example in hr.open(tmp_path / "b.jsonl")
    ] == [np.full(shape, n).tolist() for n, shape in enumerate(shapes)]


@pytest.mark.parametrize("how", ["a file", "all files", "a link to it", "a link in it", "through a link"])
def test_a_folder_that_holds_the_source_is_not_replaced(tmp_path, how):
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "way").symlink_to("data")
    for name in ("train", "test"):
        np.save(tmp_path / "data" / f"{name}.npy", np.arange(12.0).reshape(4, 3))
    (tmp_path / "train.npy").symlink_to("data/train.npy")
    np.save(tmp_path / "elsewhere" / "more.npy", np.zeros((4, 3)))
    (tmp_path / "data" / "more.npy").symlink_to("../elsewhere/more.npy")
    source = {
        "a file": tmp_path / "data" / "train.npy",
        "all files": tmp_path / "data",
        "a link to it": tmp_path / "train.npy",
        "a link in it": tmp_path / "data" / "more.npy",
        "through a link": tmp_path / "way" / "train.npy",
    }[how]
    with pytest.raises(hr.UnsupportedData, match="without files of the source"):
        hr.convert(source, tmp_path / "data", format="npy_folder", overwrite=True)
    assert sorted(os.listdir(tmp_path / "data")) == ["more.npy", "test.npy", "train.npy"]


def test_a_folder_with_images_that_the_source_names_is_not_replaced(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "x.csv").write_text("image,label\nimages/0.png,0\n")
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "images" / "0.png")
    with pytest.raises(hr.UnsupportedData, match=r"without files of the source.*0\.png"):
        hr.convert(tmp_path / "x.csv", tmp_path / "images", format="image_folder", overwrite=True)
    assert os.listdir(tmp_path / "images") == ["0.png"]


OFFSET = 0


def reading_a_global(example):
    return {"y": example["n"] * 0 + OFFSET}


class Adder:
    def __init__(self, more):
        self.more = more

    def __call__(self, example):
        return {"y": example["n"] * 0 + self.more}


def with_closure(more):
    return lambda example: {"y": example["n"] * 0 + (more if example["n"] == 3 else 0)}


def with_default(more):
    def function(example, more=more):
        return {"y": example["n"] * 0 + (more if example["n"] == 3 else 0)}

    return function


def of_code(more):
    """A function that differs only in a constant of a function in it."""
    spaces = {}
    exec(f"def f(e):\n    return {{'y': e['n'] * 0 + (lambda n: {more} if n == 3 else 0)(e['n'])}}", spaces)
    return spaces["f"]


def interrupt(monkeypatch, source, target):
    with monkeypatch.context() as context:
        context.setattr(convert, "join_units", lambda *_, **__: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as caught:
            hr.convert(source, target)
    return caught.value.__notes__


@pytest.mark.parametrize("make", [with_closure, with_default, of_code, Adder, lambda more: partial(add, more=more)])
def test_functions_that_differ_in_a_few_examples(tmp_path, monkeypatch, make):
    """What they make is the same where it is compared."""
    monkeypatch.setattr(convert, "SAMPLED", 2)
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 20)
    source = hr.ColumnSource({"n": np.arange(60)})
    interrupt(monkeypatch, source.map(make(1)), tmp_path / "x.tfrecord")
    done = hr.convert(source.map(make(2)), tmp_path / "x.tfrecord")
    assert done.resumed == 0
    assert int(hr.open(tmp_path / "x.tfrecord")[3]["y"]) == 2
    interrupt(monkeypatch, source.map(make(1)), tmp_path / "y.tfrecord")
    assert hr.convert(source.map(make(1)), tmp_path / "y.tfrecord").resumed == 60


def add(example, more):
    return {"y": example["n"] * 0 + (more if example["n"] == 3 else 0)}


def test_a_function_that_reads_a_global(tmp_path, monkeypatch):
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 20)
    monkeypatch.setattr(convert, "fingerprint_of", lambda _: "")
    source = hr.ColumnSource({"n": np.arange(60)}).map(reading_a_global)
    interrupt(monkeypatch, source, tmp_path / "x.tfrecord")
    monkeypatch.setitem(globals(), "OFFSET", 5)
    assert hr.convert(source, tmp_path / "x.tfrecord").resumed == 0
    assert int(hr.open(tmp_path / "x.tfrecord")[3]["y"]) == 5


@pytest.mark.parametrize("kind", ["numbers", "objects", "ragged", "strings", "arrow"])
def test_memory_that_differs_in_a_few_examples(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(convert, "SAMPLED", 2)
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 20)

    def source(at_3):
        numbers = np.zeros(60, np.int64)
        numbers[3] = at_3
        if kind == "arrow":
            return hr.open(pytest.importorskip("pyarrow").table({"y": numbers}))
        texts = [str(number) for number in numbers]
        columns = {
            "numbers": numbers,
            "objects": np.array(texts, object),
            "ragged": hr.Ragged(numbers, np.arange(61)),
            "strings": hr.Strings.from_values(texts),
        }
        return hr.ColumnSource({"y": columns[kind]})

    interrupt(monkeypatch, source(1), tmp_path / "x.tfrecord")
    assert hr.convert(source(2), tmp_path / "x.tfrecord").resumed == 0
    assert np.ravel(hr.open(tmp_path / "x.tfrecord")[3]["y"]) == np.ravel(source(2)[3]["y"])
    interrupt(monkeypatch, source(1), tmp_path / "y.tfrecord")
    assert hr.convert(source(1), tmp_path / "y.tfrecord").resumed == 60


def test_a_function_of_which_nothing_is_known_is_not_resumed(tmp_path, monkeypatch):
    lock = threading.Lock()

    def function(example):
        with lock:
            return {"y": example["n"]}

    monkeypatch.setattr(units, "UNIT_EXAMPLES", 20)
    source = hr.ColumnSource({"n": np.arange(60)}).map(function)
    notes = interrupt(monkeypatch, source, tmp_path / "x.tfrecord")
    assert notes == [convert.UNKNOWN]
    assert os.listdir(tmp_path) == []
    assert hr.convert(source, tmp_path / "x.tfrecord").resumed == 0


PRINT_KEY = """
import functools, numpy as np, sys
from headrace.sources.operations.stored import key_of_values
class A:
    b = {"x", "y", "z"}
    @property
    def c(self): return self.b
def f(e, d={"p", "q"}):
    return e in {"one", "two", "three"} and np.mean(A().c)
@functools.lru_cache
def g(e): return f(e)
print(key_of_values(f, g, A(), functools.partial(f, d=1), np.arange(9), len, "x".join, np.random.default_rng(1)))
"""


def test_keys_are_those_of_every_process():
    """Sets have another order in each."""
    found = {
        subprocess.run(
            [sys.executable, "-c", PRINT_KEY],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
    assert found != {"None\n"}


def assert_only_the_same_is_resumed(tmp_path, monkeypatch, make, name="x.jsonl"):
    """``make(1)`` and ``make(2)`` differ in example 3 only."""
    monkeypatch.setattr(convert, "SAMPLED", 2)
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 2)
    interrupt(monkeypatch, make(1), tmp_path / name)
    done = hr.convert(make(2), tmp_path / name)
    hr.convert(make(2), tmp_path / f"fresh-{name}")
    assert done.resumed == 0
    assert (tmp_path / name).read_bytes() == (tmp_path / f"fresh-{name}").read_bytes()
    interrupt(monkeypatch, make(1), tmp_path / f"same-{name}")
    assert hr.convert(make(1), tmp_path / f"same-{name}").resumed == done.examples


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"dtype": "float32", "mean": 0.5, "std": 1}, {"dtype": "float32", "mean": 0.1, "std": 1}),
        ({"resize": 4}, {"resize": 4, "interpolation": "nearest"}),
        ({"resize": 4}, {"center_crop": 4}),
    ],
)
def test_nothing_is_resumed_of_images_decoded_in_another_way(tmp_path, monkeypatch, one, other):
    rng = np.random.default_rng(0)
    schema = {"image": hr.Feature("uint8", (8, 8, 3), encoding="png")}
    hr.write(tmp_path / "i.tfrecord", {"image": rng.integers(0, 256, (6, 8, 8, 3), np.uint8)}, schema=schema)

    def make(version):
        return hr.open(tmp_path / "i.tfrecord", decode=hr.ImageOptions(**(one if version == 1 else other)))

    assert_only_the_same_is_resumed(tmp_path, monkeypatch, make, "x.npy")
    assert_only_the_same_is_resumed(tmp_path, monkeypatch, lambda version: make(version).map(dict), "y.npy")


@pytest.mark.parametrize("write", [hr.convert, lambda source, path: hr.write(path, source)])
def test_images_stored_without_the_options_that_change_them_are_a_warning(tmp_path, write):
    schema = {"image": hr.Feature("uint8", (8, 8, 3), encoding="png")}
    hr.write(tmp_path / "i.tfrecord", {"image": np.zeros((6, 8, 8, 3), np.uint8)}, schema=schema)
    source = hr.open(tmp_path / "i.tfrecord", decode=hr.ImageOptions(resize=(4, 4), dtype="float32"))
    for number, form in enumerate((source, source[::2], source.rename({"image": "photo"}))):
        with pytest.warns(UserWarning, match=r"without ImageOptions\(resize=\(4, 4\), dtype='float32'\)"):
            write(form, tmp_path / f"{number}.tfrecord")
        assert next(iter(hr.open(tmp_path / f"{number}.tfrecord")[0].values())).shape == (8, 8, 3)
    write(source.encoded(), tmp_path / "stored.tfrecord")
    assert hr.open(tmp_path / "stored.tfrecord")[0]["image"].shape == (8, 8, 3)
    write(source.map(dict), tmp_path / "made.parquet")
    assert hr.open(tmp_path / "made.parquet").schema["image"] == hr.Feature("float32", (4, 4, 3))
    write(source, tmp_path / "made.npz")
    assert hr.open(tmp_path / "made.npz").schema["image"].shape == (4, 4, 3)
    write(
        hr.open(tmp_path / "i.tfrecord", decode=hr.ImageOptions(channels=3, any_size=True)), tmp_path / "same.tfrecord"
    )
    write(hr.open(tmp_path / "i.tfrecord", schema=schema), tmp_path / "given.tfrecord")
    grey = {"image": hr.Feature("uint8", (None, None, 1), encoding="png")}
    for number, (given, left_out) in enumerate(
        [
            ({"decode": hr.ImageOptions(channels=1)}, r"ImageOptions\(channels=1\)"),
            ({"decode": hr.ImageOptions(oriented=True)}, r"ImageOptions\(oriented=True\)"),
            ({"schema": grey}, r"Feature\('uint8', \(None, None, 1\)"),
        ]
    ):
        with pytest.warns(UserWarning, match=rf"stored images of 'image', without {left_out}"):
            write(hr.open(tmp_path / "i.tfrecord", **given), tmp_path / f"changed-{number}.tfrecord")


def test_options_that_are_left_out_are_named(tmp_path):
    schema = {"image": hr.Feature("uint8", (8, 8, 3), encoding="png")}
    hr.write(tmp_path / "i.tfrecord", {"image": np.zeros((6, 8, 8, 3), np.uint8)}, schema=schema)
    source = hr.open(tmp_path / "i.tfrecord", decode=hr.ImageOptions(resize=(4, 4)))
    with pytest.warns(UserWarning, match="'image', without"):
        done = hr.convert(source, tmp_path / "x.parquet")
    assert done.lost == ("'image' is stored as before ImageOptions(resize=(4, 4))",)


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_nothing_is_resumed_of_images_that_rows_name_and_that_were_replaced(tmp_path, monkeypatch, name):
    lines = ["image,label", *(f"{n}.png,{n}" for n in range(6))]
    objects = [json.dumps({"image": f"{n}.png", "label": n}) for n in range(6)]
    (tmp_path / name).write_text("\n".join(lines if name == "x.csv" else objects) + "\n")

    def make(version):
        for n in range(6):
            value = n + 100 * (version == 2 and n == 3)
            if version == 1 or n == 3:
                Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save(tmp_path / f"{n}.png")
        return hr.open(tmp_path / name)

    make(1)
    interrupt(monkeypatch, hr.open(tmp_path / name), tmp_path / "x.npz")
    done = hr.convert(make(2), tmp_path / "x.npz")
    assert (done.resumed, np.load(tmp_path / "x.npz")["image"][:, 0, 0, 0].tolist()) == (0, [0, 1, 2, 103, 4, 5])
    interrupt(monkeypatch, hr.open(tmp_path / name), tmp_path / "y.npz")
    assert hr.convert(hr.open(tmp_path / name), tmp_path / "y.npz").resumed == 6


def test_a_missing_image_that_appears_is_converted(tmp_path):
    (tmp_path / "x.csv").write_text("image\n0.png\n1.png\n")
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(tmp_path / "0.png")
    with pytest.raises(hr.NoFiles, match="an image at"):
        hr.convert(tmp_path / "x.csv", tmp_path / "x.npz")
    Image.fromarray(np.ones((4, 4, 3), np.uint8)).save(tmp_path / "1.png")
    assert hr.convert(tmp_path / "x.csv", tmp_path / "x.npz").examples == 2


def test_nothing_is_resumed_of_another_manifest(tmp_path, monkeypatch):
    (tmp_path / "n").mkdir()
    for n in range(6):
        np.save(tmp_path / "n" / f"{n}.npy", np.full(3, n))

    def make(version):
        labels = [n + 7 * (version == 2 and n == 3) for n in range(6)]
        rows = [f"{n}.npy,{label},t{label}" for n, label in enumerate(labels)]
        (tmp_path / "n" / "manifest.csv").write_text("\n".join(["file,label,text", *rows]))
        return hr.open(tmp_path / "n")

    assert_only_the_same_is_resumed(tmp_path, monkeypatch, make)


def test_nothing_is_resumed_of_objects_that_were_replaced(tmp_path, monkeypatch):
    """Also images of rows, which are at URLs then."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x.csv").write_text("\n".join(["image", *(f"{n}.png" for n in range(6))]) + "\n")
    for n in range(6):
        Image.fromarray(np.full((4, 4, 3), n, np.uint8)).save(tmp_path / "there" / f"{n}.png")
    with serving(tmp_path / "there") as server:
        interrupt(monkeypatch, hr.open(f"{server.url}/x.csv"), tmp_path / "x.npz")
        Image.fromarray(np.full((4, 4, 3), 103, np.uint8)).save(tmp_path / "there" / "3.png")
        done = hr.convert(hr.open(f"{server.url}/x.csv"), tmp_path / "x.npz")
        assert (done.resumed, np.load(tmp_path / "x.npz")["image"][3, 0, 0, 0]) == (0, 103)
        interrupt(monkeypatch, hr.open(f"{server.url}/x.csv"), tmp_path / "y.npz")
        assert hr.convert(hr.open(f"{server.url}/x.csv"), tmp_path / "y.npz").resumed == 6


@pytest.mark.parametrize(
    ("row", "one", "other"),
    [
        (b"\xe4", {"encoding": "cp1251"}, {"encoding": "latin-1"}),
        (b'"v"', {"quote": '"'}, {"quote": ""}),
        (b"?", {"missing": ["-"]}, {"missing": ["?"]}),
    ],
)
def test_nothing_is_resumed_of_rows_read_in_another_way(tmp_path, monkeypatch, row, one, other):
    (tmp_path / "a.csv").write_bytes(b"x\n" + b"".join((row if at == 3 else b"v") + b"\n" for at in range(6)))

    def make(version):
        types = {"x": hr.Feature("str", default="none")}
        return hr.open(tmp_path / "a.csv", format=hr.CSV(**(one if version == 1 else other), types=types))

    assert_only_the_same_is_resumed(tmp_path, monkeypatch, make)


def damage_of_tfrecord(path):
    where = hr.records(path).where(3).offset
    data = bytearray(path.read_bytes())
    data[where + 12 + len(hr.records(path)[3]) - 1] ^= 1
    path.write_bytes(data)


def damage_of_npz(path):
    data = bytearray(path.read_bytes())
    at = data.index(np.arange(6).tobytes()) + 24
    data[at] ^= 8
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage", "error"),
    [("a.tfrecord", damage_of_tfrecord, hr.CorruptRecord), ("a.npz", damage_of_npz, hr.CorruptFile)],
)
def test_nothing_is_resumed_that_was_read_without_checksums(tmp_path, monkeypatch, name, damage, error):
    hr.write(tmp_path / name, {"x": np.arange(6)})
    damage(tmp_path / name)
    monkeypatch.setattr(units, "UNIT_EXAMPLES", 2)
    interrupt(monkeypatch, hr.open(tmp_path / name, verify=False), tmp_path / "x.npy")
    with pytest.raises(error):
        hr.convert(hr.open(tmp_path / name), tmp_path / "x.npy")


@pytest.mark.parametrize("kind", ["plain", "list", "struct", "categorical"])
def test_nothing_is_resumed_of_another_dictionary(tmp_path, monkeypatch, kind):
    pa = pytest.importorskip("pyarrow")

    def make(version):
        codes = np.arange(6, dtype=np.int32) // 3 % 2 * (np.arange(6) == 3)
        words = ["a", "wrong" if version == 1 else "right"]
        if kind == "categorical":
            pd = pytest.importorskip("pandas")
            return hr.open(pd.DataFrame({"c": pd.Categorical.from_codes(codes, words)}))
        array = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(words))
        if kind == "list":
            array = pa.ListArray.from_arrays(np.arange(7, dtype=np.int32), array)
        if kind == "struct":
            array = pa.StructArray.from_arrays([array], ["d"])
        return hr.open(pa.table({"c": array}))

    assert_only_the_same_is_resumed(tmp_path, monkeypatch, make)


class OwnNode:
    """Examples of a user's own class."""

    def __init__(self, values):
        self.values = values
        self.schema = hr.Schema({"x": hr.Feature("int64")})

    def __len__(self):
        return len(self.values)

    def batch(self, indices):
        return {"x": self.values[indices]}

    def where(self, index):
        return hr.Where(record=index)


def test_nothing_is_resumed_of_a_node_with_other_values(tmp_path, monkeypatch):
    def make(version):
        return hr.Source(OwnNode(np.where(np.arange(6) == 3, version, 0)))

    assert_only_the_same_is_resumed(tmp_path, monkeypatch, make)


def test_nothing_is_resumed_of_another_cache(tmp_path, monkeypatch):
    source = hr.ColumnSource({"n": np.arange(6)})

    def make(version):
        return source.map(with_closure(version)).cache(tmp_path / "cache", key=str(version))

    assert_only_the_same_is_resumed(tmp_path, monkeypatch, make)


def test_nothing_is_resumed_of_another_dataset_of_hugging_face(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")

    def make(version):
        return hr.open(datasets.Dataset.from_dict({"x": [version if at == 3 else 0 for at in range(6)]}))

    assert_only_the_same_is_resumed(tmp_path, monkeypatch, make)


def attribute_of_function(version):
    def f(example):
        return {"y": example["n"] * 0 + (f.more if example["n"] == 3 else 0)}

    f.more = version
    return f


def of_class(body):
    """A class whose attribute ``k`` gives the version, as ``body`` says."""

    def make(version):
        spaces = {"functools": functools, "__name__": __name__}
        exec(body.format(version), spaces)
        return spaces["Made"]()

    return make


CALL = "    def __call__(self, e): return {{{{'y': e['n'] * 0 + (self.k{0} if e['n'] == 3 else 0)}}}}\n"
CACHED_METHOD = "class Made:\n    @functools.lru_cache\n    def k(self): return {}\n" + CALL.format("()")
CACHED_PROPERTY = "class Made:\n    @functools.cached_property\n    def k(self): return {}\n" + CALL.format("")
PARTIAL = "class Made:\n    def m(self, k): return k\n    k = functools.partialmethod(m, {})\n" + CALL.format("()")
DESCRIPTOR = "class D:\n    def __get__(self, *_): return {}\nclass Made:\n    k = D()\n" + CALL.format("")


@pytest.mark.parametrize(
    "make", [attribute_of_function, *map(of_class, [CACHED_METHOD, CACHED_PROPERTY, PARTIAL, DESCRIPTOR])]
)
def test_nothing_is_resumed_of_functions_behind_wrappers(tmp_path, monkeypatch, make):
    source = hr.ColumnSource({"n": np.arange(6)})
    assert_only_the_same_is_resumed(tmp_path, monkeypatch, lambda version: source.map(make(version)))


@pytest.mark.parametrize("name", ["x.tfrecord", "x.array_record", "x.parquet", "x.jsonl", "x.avro"])
def test_lists_of_a_function_are_converted_as_they_are_written(tmp_path, name):
    """Text of any length, and lists of which the first is empty."""

    def make(example):
        n = int(example["n"])
        return {"text": ["a", "b" * n], "tags": ["c"] * n, "numbers": [n] * n, "parts": [0.5] * n}

    source = hr.ColumnSource({"n": np.arange(4)}).map(make)
    hr.write(tmp_path / name.replace("x", "written", 1), source)
    assert hr.convert(source, tmp_path / name).lost == ()
    found, written = hr.open(tmp_path / name), hr.open(tmp_path / name.replace("x", "written", 1))
    assert found.schema == written.schema
    assert found.schema["numbers"].dtype == "int64"
    assert found.schema["tags"].dtype == "str"
    assert list(found[3]["text"]) == ["a", "bbb"]
    assert [list(example["tags"]) for example in found] == [["c"] * n for n in range(4)]


def test_a_file_that_its_own_pattern_matches_is_no_place(tmp_path):
    for name in ("a.csv", "b.csv"):
        hr.write(tmp_path / name, {"a": np.arange(5)})
    hr.convert(tmp_path / "*.csv", tmp_path / "all.csv")
    for act in (
        lambda: hr.convert(tmp_path / "*.csv", tmp_path / "all.csv", overwrite=True),
        lambda: hr.write(tmp_path / "all.csv", hr.open(tmp_path / "*.csv")),
    ):
        with pytest.raises(hr.UnsupportedData, match="one of the 3 files that are read together"):
            act()
    assert len(hr.open(tmp_path / "all.csv")) == 10
    assert hr.convert(tmp_path / "al*.csv", tmp_path / "all.csv", overwrite=True).examples == 10
    assert hr.write(tmp_path / "a.csv", hr.open(tmp_path / "a.csv").concat(hr.open(tmp_path / "b.csv"))) == 10
