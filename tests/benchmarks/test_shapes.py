"""The sweep: shapes as text, the bytes of its files, what its checks find, every system of Headrace, and the report."""

from __future__ import annotations

import io
import json
import os
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.compare.driver import Run, WorkerError
from benchmarks.compare.report import update_readme
from benchmarks.compare.results import SystemResult
from benchmarks.compare.tasks import Timing
from benchmarks.shapes import report, rows
from benchmarks.shapes.__main__ import README, main
from benchmarks.shapes.driver import FIRST_TENFOLD, ONCE, TENFOLD, Library, compare_first, compare_threads, grow, sweep
from benchmarks.shapes.files import ShapeFiles
from benchmarks.shapes.protobuf_bytes import masked_checksums
from benchmarks.shapes.reading import Reading
from benchmarks.shapes.report import Sweep
from benchmarks.shapes.rows import AGAIN, ALONE, HF, NAMED, NUMPY, OURS, ROOT, ROWS, find_row, random_rows
from benchmarks.shapes.shape import FORMATS, Column, Shape
from benchmarks.shapes.values import Cells, cells_of, digest_rows
from benchmarks.shapes.worker import Host, serve
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr

MIXED = "2f32[3]+1i<50000[0-9]+1n31+1i63+1s1-8[0-4]+1b5+1w3-9[2]+1s4~3"
OPENED = [
    ("ours:loader", f"tfrecord {MIXED} batch=7"),
    ("ours:loader", f"tfrecord {MIXED} batch=16 shuffled shards=3"),
    ("ours:loader_alone", f"tfrecord {MIXED}"),
    ("ours:loader_joined", "tfrecord 1f32[5] shards=4"),
    ("ours:loader", "tfrecord 1j80[20x30]+1k batch=5"),
    ("ours:loader", "tfrecord 1p80-90[40x30]+1k batch=5 shuffled"),
    ("ours:loader", "tfrecord 1g[9x7]+1k batch=5"),
    ("ours:loader", "sequence 2i14+1f32[2-6x3]+1s3[0-3] batch=5"),
    ("ours:loader", "npy 1u8[4x4x3] batch=9 shuffled"),
    ("ours:loader", "csv 2i31+1f64+2q9+1w8+1t batch=9"),
    ("ours:loader_opened", "csv 1i7+1s3"),
    ("ours:loader", "jsonl 1w9+1i16[0-6]+1f64+2f64[3]+1t batch=9"),
    ("ours:loader_opened", "jsonl 1f64"),
    ("ours:loader", "parquet 1f32+1f64+1i7+1i15+1i31+1i63+2s5~2+1w9+1i16[0-6]+1f32[4] batch=9 shuffled"),
    ("ours:loader", "jsonl 1s4[0-4]~3+1w9-20[0-4]+1i7[0-4]+1k batch=9 objects"),
    ("ours:loader", "parquet 1s4[0-4]~3+1w9-20[0-4]+1i7[0-4]+1k batch=9 shuffled objects"),
    ("ours:records", "array_record 1b90 batch=4 shuffled group=8"),
    ("ours:records", "array_record 1d300-900 batch=1 shuffled"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture
def run(folder):
    return Run(folder=folder, size="tiny", rounds=1, turn_s=0.0, quiet_s=0.0, timeout_s=100, say=lambda _: None)


def _files(folder, text):
    shape = Shape.parse(text)
    return ShapeFiles(folder, shape, shape.rows("tiny")).make()


def test_the_text_of_a_shape_names_it():
    for row in [*ROWS.values(), *random_rows(200, 1)]:
        assert Shape.parse(str(row.shape)) == row.shape
    assert str(Shape.parse("tfrecord 13f32+1i<50000[20-500] shuffled rows=9")) == (
        "tfrecord 13f32+1i<50000[20-500] batch=256 shuffled rows=9"
    )
    assert Column.parse("2s3-9[0-4x2]~7") == Column(
        count=2, kind="s", size=(3, 9), shape=(2,), lengths=(0, 4), distinct=7
    )


@pytest.mark.parametrize(
    "text",
    [
        *("tfrecords 1f32", "tfrecord 1x32", "tfrecord 1f32 batch", "tfrecord 1f32 speed=9", "csv 1f32[2"),
        *("csv 1f32[0-2] objects", "jsonl 1f32 objects", "jsonl 1f32[0-2]+1s3[0-5] objects"),
    ],
)
def test_what_is_no_shape_is_refused(text):
    with pytest.raises(ValueError, match="none of|no column|objects are in"):
        Shape.parse(text)


def test_rows_reach_the_ends_of_every_axis():
    shapes = [row.shape for row in ROWS.values()]
    assert {shape.format for shape in shapes} == set(FORMATS)
    counts = [sum(column.count for column in shape.columns) for shape in shapes]
    assert (min(counts), max(counts)) == (1, 200)
    assert {1, 4096} <= {shape.batch for shape in shapes}
    assert {1, 256} <= {shape.group for shape in shapes}
    assert {1, 10, 100, 1000} <= {shape.shards for shape in shapes}
    assert max(shape.row_bytes for shape in shapes) >= 1e6
    assert {column.kind for shape in shapes for column in shape.columns} == set("fintuswqbdjpgk") - {"u", "t"} | {
        "u",
        "t",
    }
    assert all(row.shape.rows("full") * row.shape.row_bytes < 600e6 for row in ROWS.values())


def test_random_shapes_are_the_same_for_a_seed_only():
    assert random_rows(20, 3) == random_rows(20, 3)
    assert random_rows(20, 3) != random_rows(20, 4)


def _plain_masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


@given(st.lists(st.binary(min_size=4, max_size=1200), max_size=4))
def test_checksums_are_those_of_a_plain_loop(texts):
    assert masked_checksums(texts) == [_plain_masked_crc(text) for text in texts]


@pytest.mark.parametrize(("start", "text"), OPENED)
def test_every_system_of_headrace_returns_every_row(folder, start, text):
    files = _files(folder, text)
    if start.endswith("joined"):
        files.joined().make()
    host = Host(folder)
    requests = [
        {"do": "open", "start": start, "shape": text, "size": "tiny"},
        {"do": "check", "start": start},
        {"do": "turn", "start": start, "seconds": 0.0, "most": 1},
        {"do": "memory"},
        {"do": "close", "start": start},
    ]
    replies = io.StringIO()
    serve(host, io.StringIO("\n".join(map(json.dumps, requests))), replies)
    opened, checked, timed, memory, closed = map(json.loads, replies.getvalue().splitlines())
    assert [opened, checked, closed] == [None] * 3
    assert timed[0]["rows"] == files.rows or start == "ours:records"
    assert 0 < timed[0]["rows"] <= files.rows
    assert memory["peak"] >= 0
    assert not host.tasks


def test_a_failure_is_an_answer(folder):
    host = Host(folder)
    answer = host.answer({"do": "open", "start": "ours:loader", "shape": "npy 1f32[3]", "size": "quick"})
    assert "FileNotFoundError" in answer["error"]


def test_systems_of_one_process_take_turns_of_one_epoch(folder):
    _files(folder, "npy 1f32[3]")
    host, order = Host(folder), []
    for start in ("ours:loader", "ours:loader_alone"):
        host.do_open(start=start, shape="npy 1f32[3]", size="tiny")
        run = host.tasks[start].run
        host.tasks[start] = SimpleNamespace(run=lambda start=start, run=run: (order.append(start), run())[1])
    found = host.do_alternate("ours:loader ours:loader_alone", seconds=0.05)
    assert len(found["ours:loader"]) == len(found["ours:loader_alone"]) == len(order) / 2 >= 1
    assert (
        order == (["ours:loader", "ours:loader_alone", "ours:loader_alone", "ours:loader"] * len(order))[: len(order)]
    )


def test_a_failure_of_one_leaves_all_without_figures(run, monkeypatch):
    monkeypatch.setattr(Library, "alternate", lambda *_: (_ for _ in ()).throw(WorkerError("gone")))
    tables = compare_threads([find_row("npy 1f32[3]")], run, lambda *_: None)
    assert [result.error for table in tables.values() for result in table.values()] == ["gone"] * 3


def test_the_files_are_made_once(folder):
    files = _files(folder, "npy 1f32[2]")
    before = Path(files.path).stat().st_mtime_ns
    assert Path(_files(folder, "npy 1f32[2]").path).stat().st_mtime_ns == before
    files.remove()
    assert not files.root.exists()


def _reading(files, batches):
    ((name, _),) = files.shape.names
    return Reading(files=files, epoch=lambda: batches, columns=lambda batch: {name: batch})


@pytest.mark.parametrize("text", ["npy 1f32[3] batch=9", "npy 1i31[3] batch=9 shuffled"])
def test_wrong_rows_do_not_pass(folder, text):
    files = _files(folder, text)
    rows = np.load(files.path)
    good = rows[np.random.default_rng(0).permutation(len(rows))] if files.shape.shuffled else rows
    task = _reading(files, np.array_split(good, 3))
    task.check()
    assert task.run().rows == len(rows)
    bit = good.copy()
    bit.view(np.uint32)[5, 1] ^= 1
    swapped = good.copy()
    swapped[0, [0, 1]] = swapped[0, [1, 0]]
    for wrong in (bit, swapped, good[:-1], np.concatenate([good[1:], good[1:2]]), rows[::-1] if good is rows else rows):
        with pytest.raises(AssertionError, match="expected"):
            _reading(files, [wrong]).check()


def test_other_pictures_do_not_pass(folder):
    files = _files(folder, "tfrecord 1j80[20x30]+1k batch=5")
    whole = hr.open(files.path).batch(range(files.rows))
    task = Reading(files=files, epoch=lambda: [whole], columns=dict, exact=True)
    task.check()
    whole = {**whole, "j_000": np.roll(whole["j_000"], 1, axis=0)}
    with pytest.raises(AssertionError, match="picture of each number"):
        task.check()


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), min_size=1, max_size=6))
def test_digests_of_ragged_rows_do_not_depend_on_how_they_are_given(rows):
    column = Column.parse("1i63[0-5]")
    flat, lengths = np.array([value for row in rows for value in row], np.int64), np.array([len(row) for row in rows])
    found = digest_rows({"a": cells_of(rows, column)}, len(rows))
    assert np.array_equal(found, digest_rows({"a": Cells(flat, lengths)}, len(rows)))
    assert [digest_rows({"a": cells_of([row], column)}, 1)[0] for row in rows] == found.tolist()


def test_systems_take_turns_and_threads_are_compared(run, monkeypatch):
    monkeypatch.setenv("HEADRACE_PEERS_VENV", str(run.folder))  # no peers: NumPy is everywhere
    seen = []
    row = find_row("npy 1f32[784] batch=16")
    tables = sweep([row], run, lambda name, table: seen.append((name, set(table))))
    assert seen == [(row.name, {OURS, NUMPY})]
    assert [result.error for result in tables[row.name].values()] == [None, None]
    compared = compare_threads([row, find_row("chunks")], run, lambda *_: None)
    assert set(compared) == {row.name}
    assert set(compared[row.name]) == {OURS, ALONE, AGAIN}
    found = Sweep(command="threads", setting={}, tables=compared)
    assert found.ratios[0].peer == ALONE
    assert "Default `Loader` beside `threads=0`: worst" in found.headline()
    assert "`threads=0` beside itself: worst" in found.headline()
    assert "by chance" in found.table()


@pytest.mark.parametrize(("rows", "said"), [(8, "0.8 x NumPy"), (8850, "885 x NumPy"), (11505, "1,150 x NumPy")])
def test_large_ratios_are_written_out(rows, said):
    def result(name, role, rows):
        timing = Timing(epoch_s=1.0, first_s=None, wall_s=1.0, cpu_s=1.0, rows=rows)
        return SystemResult(name=name, role=role, timings=[timing])

    table = {OURS: result(OURS, "headrace", rows), NUMPY: result(NUMPY, "peer", 10)}
    found = Sweep(command="run", setting={}, tables={"npy 1f32[3]": table})
    assert f"**Best: {said}, `npy 1f32[3]" in found.headline()


def test_results_without_the_second_measurement_of_no_threads_can_still_be_read():
    timing = Timing(epoch_s=1.0, first_s=None, wall_s=1.0, cpu_s=1.0, rows=10)
    table = {name: SystemResult(name=name, role="headrace", timings=[timing]) for name in (OURS, ALONE)}
    found = Sweep(command="threads", setting={}, tables={"npy 1f32[3]": table})
    assert "itself" not in found.headline()
    assert found.table().count("npy 1f32[3]") == 1


def test_first_epochs_are_those_of_new_processes(run, monkeypatch):
    monkeypatch.setenv("HEADRACE_PEERS_VENV", str(run.folder))
    row = find_row("npy 1f32[784] batch=16")
    tables = compare_first([row], run, lambda *_: None)
    assert [result.error for result in tables[row.name].values()] == [None, None]
    assert all(len(result.timings) == run.rounds for result in tables[row.name].values())
    found = Sweep(command="first", setting={}, tables=tables)
    assert found.headline().startswith("First epoch of a process, with opening, without imports and caches: worst")


def test_growth_reads_the_rows_ten_times_and_removes_the_copies(run):
    row = find_row("npy 1f32[20] batch=16")
    tables = grow([row], run, lambda *_: None)
    once, ten = (tables[row.name][name] for name in (ONCE, TENFOLD))
    assert {result.error for result in tables[row.name].values()} == {None}
    assert ten.timings[0].rows == 10 * once.timings[0].rows
    first_ten = tables[row.name][FIRST_TENFOLD]
    assert [timing.rows for timing in first_ten.timings] == [ten.timings[0].rows] * run.rounds
    assert once.anonymous_mb > 0 or not Path("/proc/self/status").exists()
    files = ShapeFiles(run.folder, row.shape, once.timings[0].rows)
    assert files.root.exists()
    assert not files.repeated(10).root.exists()
    found = Sweep(command="growth", setting={}, tables=tables)
    assert "first epochs: speed per row at worst" in found.headline()
    assert "at most" in found.headline()
    assert "first epoch" in found.table()
    earlier = Sweep(command="growth", setting={}, tables={row.name: {ONCE: once, TENFOLD: ten}})
    assert "first epochs" not in earlier.headline()


@pytest.mark.parametrize(
    "name", ["tokens-shuffled", "shards", "photos", "csv", "npy 1f32[20] batch=16", "chunks", "clicks-parquet"]
)
def test_every_row_of_repeated_files_is_checked(folder, name):
    row = find_row(name)
    files = _files(folder, str(row.shape))
    many = files.repeated(3).make()
    assert many.rows == 3 * files.rows
    assert len(many.paths) == 3 * len(files.paths)
    module, _, function = row.systems[0].start.partition(":")
    task = getattr(import_module(f"benchmarks.shapes.systems.{module}"), function)(many)
    task.check()
    os.remove(many.paths[-1])
    with pytest.raises((AssertionError, IndexError)):
        getattr(import_module(f"benchmarks.shapes.systems.{module}"), function)(many).check()


def _table(**seconds):
    return {
        name: SystemResult(
            name=name,
            role="headrace" if name.startswith("Headrace") else "peer",
            timings=[Timing(epoch_s=s, first_s=None, wall_s=s, cpu_s=s, rows=100) for s in each],
        )
        for name, each in seconds.items()
    }


@pytest.fixture
def found():
    tables = {
        "csv": _table(**{OURS: [2.0, 9.0, 2.0], "pandas": [1.0], "PyArrow CSV": [4.0]}),
        "npy 1f32": _table(**{OURS: [1.0], NUMPY: [3.0]}),
        "npy 1i31": _table(**{NUMPY: [3.0]}),
    }
    tables["npy 1i31"][OURS] = SystemResult(name=OURS, role="headrace", error="wrong data")
    return Sweep(command="run", setting={"when": "now", "commit": "c", "machine": "m", "sizes": "tiny"}, tables=tables)


def test_the_headline_is_the_worst_ratio_and_its_shape(found):
    assert [(ratio.row, ratio.peer) for ratio in found.ratios] == [("csv", "pandas"), ("npy 1f32", NUMPY)]
    assert found.ratios[0].times == pytest.approx(0.5)
    worst, best = found.headline().splitlines()[:3:2]
    assert worst.startswith("**Worst: 0.5 x pandas, `csv: csv 1i31+2f64+2q20+1t batch=256")
    assert best == "**Best: 3 x NumPy, `npy 1f32 batch=256`**"
    assert "1 below 1" in found.headline()
    assert found.failures == ["npy 1i31: Headrace: wrong data"]
    text = found.to_markdown()
    assert "wrong data" in text
    assert "times pandas" in found.wanted()
    assert Sweep.from_json(found.to_json()).to_markdown() == text


def test_a_copy_that_was_made_before_is_held_against_an_open_source():
    """Other peers parse the text in each epoch, as a source does that is opened again."""
    both = {OURS: [2.0], rows.OPENED: [0.5], "PyArrow JSON": [4.0]}
    ratio = report.fastest("jsonl 1f64", _table(**both, **{HF: [1.5]}))
    assert (ratio.peer, ratio.times) == ("PyArrow JSON", pytest.approx(2))
    ratio = report.fastest("jsonl 1f64", _table(**both, **{HF: [0.25]}))
    assert (ratio.peer, ratio.times) == (HF, pytest.approx(0.5))
    ratio = report.fastest("parquet 1f64", _table(**{OURS: [2.0], HF: [1.0]}))
    assert (ratio.peer, ratio.times) == (HF, pytest.approx(0.5))


def test_the_readme_has_the_headline_between_its_markers(found, tmp_path):
    begin, end = report.MARKERS
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    update_readme(readme, report.summary({"run": found}), report.MARKERS)
    text = readme.read_text()
    assert text.startswith(f"before\n{begin}\n\n**Worst: 0.5 x")
    assert text.endswith(f"\n{end}\nafter\n")
    readme.write_text("nothing here")
    with pytest.raises(ValueError, match="markers"):
        update_readme(readme, "new", report.MARKERS)
    assert begin in README.read_text(encoding="utf-8")
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_list_names_every_row_and_wrong_rows_are_refused(capsys):
    assert main(["list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(ROWS)
    assert len(NAMED) == 16
    with pytest.raises(SystemExit):
        main(["run", "tfrecord nothing"])
    assert "neither a row nor a shape" in capsys.readouterr().err
    assert (ROOT / "benchmarks").is_dir()
