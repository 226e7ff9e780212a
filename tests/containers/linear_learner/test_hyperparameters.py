"""Accepted hyperparameters, and the values of ``auto``."""

import pytest

from headrace.containers.linear_learner.hyperparameters import DEFAULTS, Hyperparameters
from headrace.errors import JobFailed


def parse(**given):
    return Hyperparameters.parse({name: str(value) for name, value in given.items()})


def test_the_defaults_of_the_real_container():
    # As its log prints them; tools compare against these.
    assert DEFAULTS["num_models"] == "auto"
    assert DEFAULTS["num_calibration_samples"] == "10000000"
    assert DEFAULTS["mini_batch_size"] == "1000"
    assert DEFAULTS["epochs"] == "15"
    assert DEFAULTS["early_stopping_tolerance"] == "0.001"
    assert "predictor_type" not in DEFAULTS


def test_auto_for_a_regressor():
    found = parse(predictor_type="regressor")
    assert (found.loss, found.optimizer, found.num_models, found.outputs) == ("squared_loss", "adam", 32, 1)
    assert found.normalize_data
    assert found.normalize_label
    assert found.unbias_data
    assert found.unbias_label


def test_labels_of_classes_are_never_scaled():
    found = parse(predictor_type="binary_classifier", normalize_label="true", unbias_label="true")
    assert not found.normalize_label
    assert not found.unbias_label
    assert found.loss == "logistic"


def test_without_a_bias_nothing_is_taken_from_the_data():
    found = parse(predictor_type="regressor", use_bias="False", unbias_data="true", unbias_label="true")
    assert not found.unbias_data
    assert not found.unbias_label


@pytest.mark.parametrize("text", ["True", "true", "1"])
def test_booleans_as_the_sdk_sends_them(text):
    assert parse(predictor_type="regressor", use_lr_scheduler=text).use_lr_scheduler


def test_hidden_hyperparameters_of_the_platform_are_accepted():
    parse(predictor_type="regressor", _tuning_objective_metric="validation:mse", _log_level="debug", force_dense="true")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "predictor_type is required"),
        ({"predictor_type": "classifier"}, "'regressor'"),
        ({"predictor_type": "multiclass_classifier"}, "num_classes"),
        ({"predictor_type": "regressor", "loss": "logistic"}, "squared_loss"),
        ({"predictor_type": "regressor", "epochs": 0}, "an integer"),
        ({"predictor_type": "regressor", "epochs": "1.5"}, "an integer"),
        ({"predictor_type": "regressor", "learning_rate": "nan"}, "a number"),
        ({"predictor_type": "regressor", "learning_rate": -1}, "'auto'"),
        ({"predictor_type": "regressor", "wd": -0.1}, "wd"),
        ({"predictor_type": "regressor", "beta_1": 2}, "beta_1"),
        ({"predictor_type": "regressor", "quantile": 1}, "quantile"),
        ({"predictor_type": "regressor", "use_bias": "yes"}, "'true'"),
        ({"predictor_type": "regressor", "positive_example_weight_mult": "heavy"}, "'balanced'"),
        ({"predictor_type": "regressor", "learning_rat": 0.1}, "'learning_rat' is not a hyperparameter"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(JobFailed, match="Customer error") as caught:
        parse(**given)
    assert message in str(caught.value)


def test_all_problems_are_reported_together():
    with pytest.raises(JobFailed) as caught:
        parse(predictor_type="regressor", epochs="x", wd="y", unknown="z")
    assert all(name in str(caught.value) for name in ("epochs", "wd", "unknown"))
