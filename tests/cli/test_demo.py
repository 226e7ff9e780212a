"""``headrace demo``."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from headrace.cli.demo import command, digits
from headrace.cli.demo import serve as training
from headrace.cli.demo.digits import DemoSteps, Digits, Files, load_digits, show_formats, write_digits


def test_everything_holds(run, tmp_path):
    done = run("demo", "--output", tmp_path / "demo")
    assert done.code == 0, done.out
    assert "FAIL" not in done.out
    assert done.out.count("  ok  ") == 10
    assert "All checks passed." in done.out
    assert "image_folder" in done.out
    assert json.loads((tmp_path / "demo" / "loader.json").read_text())["version"] == 1


@pytest.fixture
def first_digits():
    found = load_digits()
    return Digits(found.images[:200], found.labels[:200])


def test_checks_can_fail(first_digits, tmp_path, capsys):
    steps = DemoSteps(1)
    write_digits(first_digits, Files(tmp_path), steps)
    changed = first_digits.images.copy()
    changed[150, 20] += 1
    digits.show_ways_to_read(Digits(changed, first_digits.labels), Files(tmp_path), steps)
    assert len(steps.failed) == 3
    assert "FAIL" in capsys.readouterr().out


def test_formats_that_differ_or_need_an_extra(first_digits, tmp_path, capsys, monkeypatch):
    holds = digits._holds
    monkeypatch.setattr(
        digits, "_holds", lambda source, *rest, **more: source.format != "npz" and holds(source, *rest, **more)
    )
    monkeypatch.setitem(sys.modules, "fastavro", None)
    (tmp_path / "digits-npy").mkdir()
    (tmp_path / "digits-npy" / "old").write_bytes(b"")
    steps = DemoSteps(1)
    show_formats(first_digits, tmp_path, steps)
    assert steps.failed == ["every example is the same in 11 formats, but not in npz"]
    assert 'pip install "headrace[avro]"' in capsys.readouterr().out


def test_failed_check_is_the_exit_code(run, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "EPOCHS", 1)
    monkeypatch.setattr(training, "BATCHES_BEFORE_STOP", 5)
    for step in ("show_formats", "show_serving"):
        monkeypatch.setattr(command, step, lambda *_: None)
    done = run("demo", "--output", tmp_path / "demo")
    assert done.code == 1
    assert "1 check failed." in done.out


def test_classifier_learns_by_the_gradient():
    """The step that ``learn`` takes is the numerical gradient of the loss."""
    chance = np.random.default_rng(0)
    images = chance.integers(0, 17, (5, 64)).astype(np.float32)
    labels = np.array([0, 3, 9, 3, 1])
    model = training.Classifier()

    def loss():
        return -np.log(model._forward(images)[2][np.arange(5), labels]).mean()

    before = {name: weights.copy() for name, weights in model.weights.items()}
    model.learn(images, labels)
    steps = {name: (before[name] - model.weights[name]) / training.STEP for name in before}
    model.weights = before
    for name, place in (("hidden", (20, 3)), ("digit", (7, 3)), ("digit_bias", (9,)), ("hidden_bias", (11,))):
        eps = np.float32(1e-2)
        model.weights[name][place] += eps
        above = loss()
        model.weights[name][place] -= 2 * eps
        below = loss()
        model.weights[name][place] += eps
        assert steps[name][place] == pytest.approx((above - below) / (2 * eps), abs=2e-3)


def test_a_file_in_place_of_the_folder(run, tmp_path):
    (tmp_path / "a.csv").write_text("1\n")
    done = run("demo", "--output", tmp_path / "a.csv")
    assert done.code == 2
    assert "is a file: name a folder" in " ".join(done.err.split())
