"""Threshold metrics, compared with scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from headrace.containers.linear_learner.artifact import Model
from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.channels import MiniBatch
from headrace.containers.linear_learner.training.rows import DenseRows
from headrace.containers.linear_learner.training.scores import (
    Cuts,
    area_under_curve,
    calibrate,
    f_score,
    score_examples,
)

EXAMPLES = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40)


def counted(examples):
    scores, labels = np.array([score for score, _ in examples]), np.array([label for _, label in examples])
    return scores, labels, np.bincount(scores[labels], minlength=6), np.bincount(scores[~labels], minlength=6)


@given(EXAMPLES)
def test_every_cut(examples):
    scores, labels, positive, negative = counted(examples)
    cuts = Cuts.of(positive, negative)
    for cut in range(7):
        called = scores >= cut
        assert cuts.accuracy[cut] == pytest.approx(metrics.accuracy_score(labels, called))
        assert cuts.precision[cut] == pytest.approx(metrics.precision_score(labels, called, zero_division=0))
        assert cuts.recall[cut] == pytest.approx(metrics.recall_score(labels, called, zero_division=0))
        assert f_score(cuts.precision, cuts.recall, 2.0)[cut] == pytest.approx(
            metrics.fbeta_score(labels, called, beta=2.0, zero_division=0)
        )


def test_a_threshold_tells_the_answers_of_its_cut_apart():
    """Large scores have the same probability in float32: 1."""
    parameters = Hyperparameters.parse(
        {"predictor_type": "binary_classifier", "binary_classifier_model_selection_criteria": "f_beta", "f_beta": "0.1"}
    )
    weights, bias = np.ones((1, 1), np.float32), np.zeros(1, np.float32)
    model = Model(predictor_type="binary_classifier", loss="logistic", weights=weights, bias=bias)
    scores = np.array([-3, -2, -1, 1, 20, 30, 40], np.float32)[:, None]
    labels = np.array([0, 0, 0, 0, 0, 1, 1])
    found = score_examples(model, [MiniBatch(DenseRows(scores), labels)], parameters)
    calibrated = calibrate(model, found)
    assert calibrated.labels(calibrated.answers(scores)).tolist() == [0, 0, 0, 0, 1, 1, 1]
    measures = found.measures(calibrated, parameters)
    assert (measures["precision"], measures["recall"]) == (pytest.approx(2 / 3), 1)


@given(EXAMPLES.filter(lambda examples: len({label for _, label in examples}) == 2))
def test_the_area_under_the_curve(examples):
    scores, labels, positive, negative = counted(examples)
    assert area_under_curve(positive, negative) == pytest.approx(metrics.roc_auc_score(labels, scores))
