"""The sums that a pass collects for every model, compared with plain loops."""

import numpy as np
import pytest

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.log import BINS, Tally
from headrace.containers.linear_learner.training.optimizers import loss_of


def parameters(criterion):
    return Hyperparameters.parse(
        {"predictor_type": "binary_classifier", "binary_classifier_model_selection_criteria": criterion}
    )


def plain_accuracy(scores, labels):
    """For each model, the best accuracy of any threshold between two bins."""
    found = []
    for column in scores.T:
        with np.errstate(over="ignore"):
            likely = [0.0 if np.isnan(score) else 1 / (1 + np.exp(-np.float64(score))) for score in column]
        bins = [min(int(one * BINS), BINS - 1) for one in likely]
        cuts = [sum((one >= cut) == (label == 1) for one, label in zip(bins, labels)) for cut in range(BINS + 1)]
        found.append(max(cuts) / len(labels))
    return found


@pytest.mark.parametrize("batches", [1, 3])
def test_accuracy_by_bins_of_scores(batches):
    given = parameters("accuracy")
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 60).astype(np.float32)
    scores = (rng.normal(0, 3, (60, 4)) + labels[:, None]).astype(np.float32)
    # In the middle of bins: next to a border, the last digit of a sigmoid would decide.
    middles = (np.floor(BINS / (1 + np.exp(-scores))) + 0.5) / BINS
    scores = np.log(middles / (1 - middles)).astype(np.float32)
    scores[0], scores[1] = np.inf, -np.inf
    tally = Tally(given, 4)
    for part, own in zip(np.array_split(scores, batches), np.array_split(labels, batches), strict=True):
        tally.add(part[..., None], own, np.zeros(part.shape, np.float32))
    assert tally.criterion() == pytest.approx([-one for one in plain_accuracy(scores, labels)])
    assert (tally.batches, tally.examples) == (batches, 60)


def test_scores_that_are_none_count_as_zero():
    tally = Tally(parameters("accuracy"), 1)
    scores = np.array([np.nan, 8, np.nan, 9], np.float32)[:, None, None]
    with np.errstate(invalid="ignore"):
        tally.add(scores, np.array([0, 1, 0, 1], np.float32), np.zeros((4, 1), np.float32))
    assert tally.criterion() == pytest.approx([-1.0])


def test_a_model_that_has_run_away_is_the_worst():
    given = parameters("loss_function")
    scores = np.array([[1.0, 1e30]], np.float32)[..., None]
    labels = np.zeros(1, np.float32)
    tally = Tally(given, 2)
    tally.add(scores, labels, np.array([[float(loss_of(given).value(scores[:, :1], labels)[0, 0]), np.inf]]))
    assert tally.best() == 0
    assert tally.criterion()[1] == np.inf
