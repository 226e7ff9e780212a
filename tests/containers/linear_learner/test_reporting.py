"""The log lines from which tools read metrics."""

import json
import re

import numpy as np
import pytest
from sklearn import metrics
from tests.containers.linear_learner.jobs import train_csv


def examples(n=200):
    random = np.random.default_rng(0)
    features = random.normal(size=(n, 3))
    return features, features @ [1.0, 2.0, 3.0] + random.normal(size=n)


def measure(lines, name):
    found = [line for line in lines if re.search(rf"#quality_metric: .*{re.escape(name)} <\w+>=", line)]
    return float(found[-1].rpartition("=")[2])


def test_the_lines_of_a_job(tmp_path):
    features, labels = examples()
    validation = examples(50)
    _, lines = train_csv(
        tmp_path, features, labels, validation, predictor_type="regressor", mini_batch_size=50, epochs=2, num_models=3
    )
    assert lines[0] == "Docker entrypoint called with argument(s): train"
    text = "\n".join(lines)
    for wanted in (
        "Reading default configuration from",
        "Merging with provided configuration from",
        "Final configuration: {",
        "stdev_weight=[",
        "#quality_metric: host=algo-1, epoch=0, train mse_objective <loss>=",
        "#quality_metric: host=algo-1, epoch=1, validation mse_objective <loss>=",
        "#early_stopping_criteria_metric: host=algo-1, epoch=0, criteria=mse_objective, value=",
        "Epoch 0: Loss improved. Updating best model",
        "#progress_metric: host=algo-1, completed 50 % of epochs",
        "#progress_metric: host=algo-1, completed 100 % of epochs",
        "train throughput=",
        "#validation_score (algo-1) : ('mse', ",
        "#quality_metric: host=algo-1, validation mse <loss>=",
        'Best model found for hyperparameters: {"optimizer": "adam", "learning_rate": ',
        "Test data is not provided.",
    ):
        assert wanted in text
    stamped = [line for line in lines if not line.startswith(("#metrics", "Docker"))]
    assert all(re.match(r"\[\d\d/\d\d/\d{4} \d\d:\d\d:\d\d INFO \d+\] ", line) for line in stamped)


def test_metrics_of_every_model(tmp_path):
    _, lines = train_csv(tmp_path, *examples(), predictor_type="regressor", mini_batch_size=80, epochs=2, num_models=3)
    found = [json.loads(line.removeprefix("#metrics ")) for line in lines if line.startswith("#metrics ")]
    assert len(found) == 2 * 3
    assert found[0]["Dimensions"] == {
        "Algorithm": "Linear Learner",
        "Host": "algo-1",
        "Operation": "training",
        "epoch": 0,
        "model": 0,
    }
    batches = found[0]["Metrics"]["train_mse_objective"]
    assert batches["count"] == 3  # 80, 80 and the 40 that are left
    assert batches["min"] <= batches["sum"] / 3 <= batches["max"]


def test_validation_counts_in_units_of_the_label(tmp_path):
    features, labels = examples()
    handler, lines = train_csv(
        tmp_path, features, labels * 100, (features, labels * 100), predictor_type="regressor", mini_batch_size=20
    )
    errors = handler.model.scores(features)[:, 0] - labels * 100
    assert measure(lines, "validation mse") == pytest.approx(np.mean(errors**2), rel=1e-3)
    assert measure(lines, "validation rmse") == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-3)
    assert measure(lines, "validation absolute_loss") == pytest.approx(np.mean(np.abs(errors)), rel=1e-3)


def test_measures_of_a_binary_classifier(tmp_path):
    features, labels = examples(500)
    classes = (labels > 1).astype(int)
    handler, lines = train_csv(
        tmp_path, features, classes, (features, classes), predictor_type="binary_classifier", mini_batch_size=50
    )
    model = handler.model
    answers = model.answers(model.scores(features))
    called = model.labels(answers)
    expected = {
        "binary_classification_accuracy": metrics.accuracy_score(classes, called),
        "binary_f_1.000": metrics.f1_score(classes, called),
        "precision": metrics.precision_score(classes, called),
        "recall": metrics.recall_score(classes, called),
        "roc_auc_score": metrics.roc_auc_score(classes, answers[:, 0]),
        "binary_classification_cross_entropy_objective": metrics.log_loss(classes, answers[:, 0].astype(float)),
    }
    for name, value in expected.items():
        assert measure(lines, f"validation {name}") == pytest.approx(value, rel=1e-4)


def test_measures_of_several_classes(tmp_path):
    features, labels = examples(500)
    classes = np.digitize(labels, [-2, 0, 3])
    handler, lines = train_csv(
        tmp_path,
        features,
        classes,
        (features, classes),
        predictor_type="multiclass_classifier",
        num_classes=4,
        mini_batch_size=50,
        num_models=4,
        accuracy_top_k=2,
    )
    model = handler.model
    answers = model.answers(model.scores(features)).astype(float)
    called = answers.argmax(axis=1)
    expected = {
        "multiclass_accuracy": metrics.accuracy_score(classes, called),
        "multiclass_top_k_accuracy_2": metrics.top_k_accuracy_score(classes, answers, k=2),
        "macro_recall": metrics.recall_score(classes, called, average="macro"),
        "macro_precision": metrics.precision_score(classes, called, average="macro"),
        "macro_f_1.000": metrics.f1_score(classes, called, average="macro"),
        "multiclass_balanced_accuracy": metrics.balanced_accuracy_score(classes, called),
        "multiclass_log_loss": metrics.log_loss(classes, answers / answers.sum(axis=1, keepdims=True)),
    }
    for name, value in expected.items():
        assert measure(lines, f"validation {name}") == pytest.approx(value, rel=1e-4)


@pytest.mark.parametrize("loss", ["squared_loss", "absolute_loss", "huber_loss", "quantile_loss", "eps_insensitive_squared_loss", "eps_insensitive_absolute_loss"])  # fmt: skip
def test_a_loss_of_validation_counts_in_units_of_the_label(tmp_path, loss):
    """Ten times the label gives ten or a hundred times the loss: distances are in standard deviations of the label."""
    features, labels = examples()
    found = []
    for times in (1, 10):
        _, lines = train_csv(
            tmp_path / str(times),
            features,
            labels * times,
            (features, labels * times),
            predictor_type="regressor",
            mini_batch_size=50,
            loss=loss,
        )
        name = "mse_objective" if loss == "squared_loss" else f"{loss}_objective"
        of_epochs = [line for line in lines if f"validation {name} <loss>=" in line and "epoch=" in line]
        criteria = [line for line in lines if "#early_stopping_criteria_metric" in line]
        values = [float(line.rpartition("=")[2]) for line in (of_epochs[-1], criteria[-1])]
        found.append([*values, measure(lines, f"validation {name}")])
    one, ten = found
    assert np.divide(ten, one) == pytest.approx(10 if "absolute" in loss or "quantile" in loss else 100, rel=0.01)
    assert one[1] <= one[0] * 1.001  # the best of all models; the other line is for the first model
    assert one[2] <= one[1] * 1.001


def test_the_lines_count_as_the_real_ones_do(tmp_path):
    _, lines = train_csv(
        tmp_path,
        *examples(),
        predictor_type="regressor",
        mini_batch_size=100,
        epochs=15,
        learning_rate=1e-9,
        num_models=1,
    )
    text = "\n".join(lines)
    assert "completed 6 % of epochs" in text
    stale = re.findall(r"Epoch \d+: Loss has not improved for (\d+) epochs\.", text)
    assert stale == ["0", "1", "2", "3"]
    chosen = json.loads(text.rpartition("Best model found for hyperparameters: ")[2].partition("\n")[0])
    assert list(chosen) == [
        "optimizer",
        "learning_rate",
        "l1",
        "wd",
        "lr_scheduler_step",
        "lr_scheduler_factor",
        "lr_scheduler_minimum_lr",
    ]
    assert chosen["lr_scheduler_step"] >= 1


def test_training_stops_early(tmp_path):
    features, labels = examples()
    _, lines = train_csv(
        tmp_path,
        features,
        labels,
        predictor_type="regressor",
        mini_batch_size=10,
        epochs=200,
        early_stopping_patience=2,
    )
    last = max(int(line.split("Epoch ")[1].split(":")[0]) for line in lines if re.search(r"Epoch \d+:", line))
    assert last < 100
