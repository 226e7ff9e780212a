"""``headrace demo``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from headrace.cli.demo import command
from headrace.cli.demo import serve as training
from headrace.cli.demo import steps as doors
from headrace.cli.demo.steps import Digits, Files, Story, load_digits, write_digits


def test_everything_holds(run, tmp_path):
    done = run("demo", "--output", tmp_path / "demo")
    assert done.code == 0, done.out
    assert "FAIL" not in done.out
    assert done.out.count("  ok  ") == 12
    assert "Everything holds." in done.out
    assert "examples a second" in done.out
    assert json.loads((tmp_path / "demo" / "loader.json").read_text())["version"] == 1


@pytest.fixture
def files(tmp_path):
    digits = load_digits()
    found = Files(tmp_path)
    write_digits(Digits(digits.images[:200], digits.labels[:200]), found)
    return found


def test_checks_can_fail(files, capsys):
    digits = load_digits()
    changed = digits.images[:200].copy()
    changed[150, 20] += 1
    story = Story(1)
    doors.show_doors(Digits(changed, digits.labels[:200]), files, story)
    assert len(story.failed) == 4
    assert "FAIL" in capsys.readouterr().out


def test_failed_check_is_the_exit_code(run, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "EPOCHS", 1)
    monkeypatch.setattr(training, "BATCHES_BEFORE_STOP", 5)
    for step in ("show_speed", "show_formats", "show_serving"):  # whose checks hold all the same
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
