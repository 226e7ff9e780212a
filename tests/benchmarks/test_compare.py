"""The harness: wrong data is detected, failures are shown, targets are judged, the README is updated."""

from __future__ import annotations

import ast
import zlib
from pathlib import Path

import numpy as np
import pytest
from benchmarks.compare import systems
from benchmarks.compare.__main__ import README, main
from benchmarks.compare.driver import Run, measure
from benchmarks.compare.report import BEGIN, END, Report, setting, update_readme
from benchmarks.compare.results import SystemResult, Target, faster, judge
from benchmarks.compare.systems import expected
from benchmarks.compare.tasks import Timing
from benchmarks.compare.workloads import WORKLOADS
from benchmarks.data import TINY, Files, row_checks
from benchmarks.example_bytes import framed_examples, image_offset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="module")
def files(folder):
    return Files(folder, TINY)


def _batches(files, order, *, images=None, labels=None):
    images = files.images if images is None else images
    labels = files.labels if labels is None else labels
    for start in range(0, len(order), 128):
        part = order[start : start + 128]
        yield images[part], labels[part]


def _task(files, order, kind="file", **columns):
    return expected.examples(files, lambda: _batches(files, order, **columns), kind)


def test_the_right_data_pass(files):
    rows = np.arange(TINY.rows)
    _task(files, rows).check()
    _task(files, np.random.default_rng(0).permutation(TINY.rows), "shuffled").check()


def _one_bit(files):
    images = files.images.copy()
    images.view(np.uint32)[17, 5] ^= 1
    return {"images": images}


def _two_labels(files):
    labels = files.labels.copy()
    other = int(np.flatnonzero(labels != labels[0])[0])
    labels[[0, other]] = labels[[other, 0]]
    return {"labels": labels}


WRONG_COLUMNS = {
    "one bit": _one_bit,
    "two labels": _two_labels,
    "dtype": lambda files: {"images": files.images.astype(np.float64)},
    "label dtype": lambda files: {"labels": files.labels.astype(np.int32)},
}


def _order(kind):
    return np.arange(TINY.rows) if kind == "file" else np.random.default_rng(0).permutation(TINY.rows)


@pytest.mark.parametrize("kind", ["file", "shuffled"])
@pytest.mark.parametrize("wrong", WRONG_COLUMNS)
def test_wrong_columns_do_not_pass(files, kind, wrong):
    task = _task(files, _order(kind), kind, **WRONG_COLUMNS[wrong](files))
    with pytest.raises(AssertionError, match="expected"):
        task.check()


@pytest.mark.parametrize("kind", ["file", "shuffled"])
def test_rows_twice_or_short_do_not_pass(files, kind):
    twice = _order(kind)
    twice[3] = twice[4]
    for rows in (twice, _order(kind)[:-1]):
        task = _task(files, rows, kind)
        with pytest.raises(AssertionError, match="expected"):
            task.check()


def test_orders_are_distinguished(files):
    rows = np.arange(TINY.rows)
    local = rows.reshape(-1, 4)[:, ::-1].reshape(-1)
    for task in (_task(files, rows[::-1]), _task(files, rows, "shuffled"), _task(files, local, "shuffled")):
        with pytest.raises(AssertionError):
            task.check()


def test_written_bytes_are_compared(files):
    data = bytearray(files.tfrecord.read_bytes())
    expected.written(files, "same", lambda path: path.write_bytes(data)).check()
    data[100] ^= 1
    with pytest.raises(AssertionError):
        expected.written(files, "other", lambda path: path.write_bytes(data)).check()


def _masked_crc32c(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def _framed(payload: bytes) -> bytes:
    length = len(payload).to_bytes(8, "little")
    return length + _masked_crc32c(length) + payload + _masked_crc32c(payload)


def test_generated_records_follow_the_format():
    image = bytes.fromhex("0a15 0a05 696d616765 120c 120a 0a08 0000803f 00000040")
    label = bytes.fromhex("0a0e 0a05 6c6162656c 1205 1a03 0a01 03")
    images, labels = np.array([[1.0, 2.0]], np.float32), np.array([3])
    assert framed_examples(images, labels) == _framed(bytes.fromhex("0a27") + image + label)
    assert framed_examples(images, labels, label_first=True) == _framed(bytes.fromhex("0a27") + label + image)
    assert framed_examples(images, labels).index(image[-8:]) == image_offset(2)


def test_row_checks_see_the_bytes_of_strided_rows():
    rows = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
    assert row_checks(rows).tolist() == [zlib.crc32(np.ascontiguousarray(row)) for row in rows]


def test_every_named_system_exists():
    base = Path(systems.__file__).parent
    for system in (system for workload in WORKLOADS.values() for system in workload.systems):
        module, _, function = system.start.partition(":")
        tree = ast.parse((base / f"{module}.py").read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, system.start


@pytest.fixture(scope="module")
def report(folder, files):
    files.prepare()
    run = Run(folder=folder, size="tiny", rounds=2, turn_s=0.0, quiet_s=0.0, roles=("limit",), say=lambda _: None)
    return Report(setting=setting("tiny", 2), tables={"W5": measure("W5", run)})


def test_systems_take_turns_in_processes_of_their_own(report):
    for result in report.tables["W5"].values():
        assert result.error is None
        assert len(result.timings) == 2
        assert result.timings[0].rows == TINY.npy_rows
        assert result.epoch_s > 0


def test_report_round_trips_json_and_marks_what_was_not_measured(report):
    again = Report.from_json(report.to_json())
    assert again.to_markdown() == report.to_markdown()
    assert "not measured" in report.to_markdown()
    assert "numpy slice-and-copy" in report.to_markdown()


def test_a_system_that_fails_is_shown_and_stops_no_other(folder, files, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(folder / "broken"))
    (folder / "broken").mkdir(parents=True)
    # Before every other way to import headrace, such as the import hook of an editable install.
    (folder / "broken" / "sitecustomize.py").write_text(
        "import sys\n"
        "class Broken:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'headrace':\n"
        "            raise RuntimeError('no such luck')\n"
        "sys.meta_path.insert(0, Broken)\n"
    )
    run = Run(folder=folder, size="tiny", rounds=1, quiet_s=0.0, roles=("headrace", "limit"), say=lambda _: None)
    table = measure("W5", run)
    assert "no such luck" in (table["Headrace"].error or "")
    assert table["limit: numpy slice-and-copy of the map"].error is None
    assert "no such luck" in Report(setting={}, tables={"W5": table}).to_markdown()


def _result(name, seconds):
    timings = [Timing(epoch_s=s, first_s=0.5, wall_s=s, cpu_s=s, rows=100) for s in seconds]
    return SystemResult(name=name, role="headrace", timings=timings)


def test_targets_hold_medians_against_the_fastest_other():
    table = {"a": _result("a", [1.0, 9.0, 1.0]), "b": _result("b", [4.0]), "c": _result("c", [2.0])}
    target = Target(text="times", required=2, measure=faster("a", "b", "c"))
    assert judge(target, table).found == pytest.approx(2.0)
    assert judge(target, table).met is True
    assert judge(Target(text="times", required=2.1, measure=faster("a", "b", "c")), table).met is False
    assert judge(Target(text="s", required=1, measure=lambda t: t["c"].epoch_s, at_most=True), table).met is False
    assert judge(target, {"a": table["a"]}).met is None


def test_readme_gets_the_table_between_its_markers(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    update_readme(readme, "new\n")
    assert readme.read_text() == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    readme.write_text("nothing here")
    with pytest.raises(ValueError, match="markers"):
        update_readme(readme, "new\n")
    assert BEGIN in README.read_text(encoding="utf-8")


def test_list_names_every_workload(capsys):
    assert main(["list"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == list(WORKLOADS)
