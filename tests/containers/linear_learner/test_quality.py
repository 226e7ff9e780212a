"""Quality equals scikit-learn's on the same split."""

import numpy as np
import pytest
from sklearn import datasets, linear_model, model_selection, preprocessing
from tests.containers.linear_learner.jobs import train_csv


def abalone_like(n=3000):
    """Correlated shell sizes and weights, three sexes as columns, rings that depend on them plus noise."""
    random = np.random.default_rng(3)
    size = random.normal(0.5, 0.12, n).clip(0.08, 0.8)
    length, diameter, height = size, size * 0.8 + random.normal(0, 0.01, n), size * 0.28 + random.normal(0, 0.02, n)
    whole = 6 * size**3 * random.normal(1, 0.1, n)
    weights = [whole * share * random.normal(1, 0.12, n) for share in (0.43, 0.22, 0.29)]
    sex = np.eye(3)[random.integers(0, 3, n)]
    numbers = np.column_stack([length, diameter, height, whole, *weights])
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    rings = 10 + 1.5 * numbers[:, 0] + 2 * numbers[:, 6] - 1.8 * numbers[:, 4] - sex[:, 1] + random.gamma(2, 1.2, n)
    return np.column_stack([numbers, sex]), rings


def split(features, labels, seed=0):
    return model_selection.train_test_split(features, labels, test_size=0.25, random_state=seed)


# Small mini-batches, and default ones, of which this data fills only a few.
each_split = pytest.mark.parametrize(("seed", "mini_batch_size"), [(0, 32), (3, 32), (5, 1000), (6, 1000)])


def rmse(predicted, labels):
    return float(np.sqrt(np.mean((predicted - labels) ** 2)))


@each_split
@pytest.mark.parametrize("data", [abalone_like, lambda: datasets.load_diabetes(return_X_y=True)])
def test_regression_is_as_good_as_ridge(tmp_path, data, seed, mini_batch_size):
    train, test, train_labels, test_labels = split(*data(), seed)
    handler, _ = train_csv(tmp_path, train, train_labels, predictor_type="regressor", mini_batch_size=mini_batch_size)
    scale = preprocessing.StandardScaler().fit(train)
    ridge = linear_model.Ridge(1.0).fit(scale.transform(train), train_labels)
    ours = rmse(handler.model.scores(test)[:, 0], test_labels)
    assert ours <= 1.02 * rmse(ridge.predict(scale.transform(test)), test_labels)


@each_split
def test_a_binary_classifier_is_as_good_as_logistic_regression(tmp_path, seed, mini_batch_size):
    train, test, train_labels, test_labels = split(*datasets.load_breast_cancer(return_X_y=True), seed)
    options = {"predictor_type": "binary_classifier", "mini_batch_size": mini_batch_size}
    handler, _ = train_csv(tmp_path, train, train_labels, **options)
    scale = preprocessing.StandardScaler().fit(train)
    other = linear_model.LogisticRegression().fit(scale.transform(train), train_labels)
    model = handler.model
    ours = np.mean(model.labels(model.answers(model.scores(test))) == test_labels)
    assert ours >= 0.98 * other.score(scale.transform(test), test_labels)


@pytest.mark.parametrize(("seed", "mini_batch_size"), [(0, 100), (7, 32), (5, 1000)])
def test_several_classes_are_separated_as_by_multinomial_regression(tmp_path, seed, mini_batch_size):
    train, test, train_labels, test_labels = split(*datasets.load_digits(return_X_y=True), seed)
    options = {"predictor_type": "multiclass_classifier", "num_classes": 10, "mini_batch_size": mini_batch_size}
    handler, _ = train_csv(tmp_path, train, train_labels, **options)
    scale = preprocessing.StandardScaler().fit(train)
    other = linear_model.LogisticRegression().fit(scale.transform(train), train_labels)
    model = handler.model
    ours = np.mean(model.labels(model.answers(model.scores(test))) == test_labels)
    assert ours >= 0.98 * other.score(scale.transform(test), test_labels)


def test_a_few_rows_are_enough_for_a_line(tmp_path):
    features = np.column_stack([np.arange(50.0), np.arange(50) % 3])
    labels = 2 * features[:, 0]
    handler, _ = train_csv(tmp_path, features, labels, predictor_type="regressor")
    assert rmse(handler.model.scores(features)[:, 0], labels) < 0.03 * labels.std()


def test_given_rates_learn_from_whole_mini_batches(tmp_path):
    """One plain gradient step per mini-batch, as expected when a rate is given."""
    features = np.array([[0.0], [2.0], [4.0]])
    options = {
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "use_lr_scheduler": "false",
        "use_bias": "false",
        "l1": 0,
        "wd": 0,
    }
    given = {"normalize_data": "false", "normalize_label": "false", "early_stopping_tolerance": 1e-9, "num_models": 1}
    handler, _ = train_csv(tmp_path, features, features[:, 0], predictor_type="regressor", epochs=3, **options, **given)
    start = np.random.default_rng(0).uniform(-0.07, 0.07)
    # The error shrinks by 1 - rate * mean of squares = 1 - 0.5 * 20 / 3 in each of three steps, and the first is best.
    reached = [1 + (start - 1) * (1 - 0.5 * 20 / 3) ** steps for steps in (1, 2, 3)]
    assert np.abs(handler.model.weights[0, 0] - reached).min() < 1e-4


@pytest.mark.parametrize("optimizer", ["adam", "sgd", "adagrad", "rmsprop"])
def test_every_optimizer_finds_the_line(tmp_path, optimizer):
    random = np.random.default_rng(0)
    features = random.normal(5, 2, (600, 4))
    labels = features @ [1.0, -2.0, 0.5, 3.0] + 7
    handler, _ = train_csv(
        tmp_path, features, labels, predictor_type="regressor", mini_batch_size=20, optimizer=optimizer
    )
    assert rmse(handler.model.scores(features)[:, 0], labels) < 0.05 * labels.std()


@pytest.mark.parametrize(
    ("loss", "settings"),
    [
        ("absolute_loss", {}),
        ("huber_loss", {}),
        ("eps_insensitive_squared_loss", {}),
        ("eps_insensitive_absolute_loss", {}),
        ("quantile_loss", {"quantile": 0.5}),
    ],
)
def test_robust_losses_find_the_line_beside_outliers(tmp_path, loss, settings):
    random = np.random.default_rng(0)
    features = random.normal(size=(600, 3))
    labels = features @ [1.0, -2.0, 0.5] + 7 + random.normal(0, 0.01, 600)
    handler, _ = train_csv(
        tmp_path, features, labels, predictor_type="regressor", mini_batch_size=20, loss=loss, **settings
    )
    assert rmse(handler.model.scores(features)[:, 0], labels) < 0.06 * labels.std()


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_the_share_of_labels_below_a_quantile(tmp_path, quantile):
    random = np.random.default_rng(1)
    features = random.normal(size=(2000, 2))
    labels = features @ [1.0, 2.0] + random.exponential(2, 2000)
    handler, _ = train_csv(
        tmp_path,
        features,
        labels,
        predictor_type="regressor",
        mini_batch_size=50,
        loss="quantile_loss",
        quantile=quantile,
    )
    below = np.mean(labels < handler.model.scores(features)[:, 0])
    assert abs(below - quantile) < 0.05


def test_hinge_loss_gives_margins_and_a_threshold(tmp_path):
    features, labels = datasets.load_breast_cancer(return_X_y=True)
    handler, _ = train_csv(
        tmp_path, features, labels, predictor_type="binary_classifier", mini_batch_size=32, loss="hinge_loss"
    )
    model = handler.model
    scores = model.answers(model.scores(features))
    assert scores.min() < -1
    assert scores.max() > 1
    assert np.mean(model.labels(scores) == labels) > 0.97


@pytest.mark.parametrize(
    ("criterion", "settings", "measure"),
    [
        ("precision_at_target_recall", {"target_recall": 0.9}, "recall"),
        ("recall_at_target_precision", {"target_precision": 0.9}, "precision"),
    ],
)
def test_the_threshold_keeps_the_target(tmp_path, criterion, settings, measure):
    random = np.random.default_rng(0)
    labels = (random.random(3000) < 0.3).astype(int)
    features = random.normal(size=(3000, 5)) + labels[:, None] * 0.9
    handler, _ = train_csv(
        tmp_path,
        features,
        labels,
        predictor_type="binary_classifier",
        binary_classifier_model_selection_criteria=criterion,
        **settings,
    )
    model = handler.model
    called = model.labels(model.answers(model.scores(features)))
    right = np.sum((called == 1) & (labels == 1))
    found = right / labels.sum() if measure == "recall" else right / called.sum()
    assert 0.9 <= found + 1e-9 < 0.99


@pytest.mark.parametrize(
    ("criterion", "settings", "expected"),
    [
        ("precision_at_target_recall", {"target_recall": 0.9}, 1),
        ("recall_at_target_precision", {"target_precision": 0.9}, 0),
        ("accuracy", {}, 0),
    ],
)
def test_few_scores_leave_the_ends_as_thresholds(tmp_path, criterion, settings, expected):
    """One weak binary feature: only classifying all, or none, as positive reaches the target."""
    features = np.tile([[0.0], [1.0]], (500, 1))
    labels = np.tile([1, 0, 0, 1, 0, 1, 0, 0, 0, 0], 100)
    handler, _ = train_csv(
        tmp_path,
        features,
        labels,
        predictor_type="binary_classifier",
        binary_classifier_model_selection_criteria=criterion,
        **settings,
    )
    model = handler.model
    called = model.labels(model.answers(model.scores(features)))
    if criterion == "recall_at_target_precision":
        assert model.threshold == pytest.approx(0.5, abs=0.3)
    else:
        assert (called == expected).all()


def test_examples_of_one_class_only(tmp_path):
    features = np.random.default_rng(0).normal(size=(200, 2))
    for label in (0, 1):
        handler, _ = train_csv(
            tmp_path / str(label),
            features,
            np.full(200, label),
            predictor_type="binary_classifier",
            positive_example_weight_mult="balanced",
        )
        model = handler.model
        answers = model.answers(model.scores(features))
        assert (model.labels(answers) == label).all()
        assert (np.abs(answers - label) < 0.3).all()


def test_class_weights_are_those_of_all_examples(tmp_path):
    """Data ordered by class, whose first examples are of one class."""
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], 400)
    features = random.normal(size=(1200, 2)) + np.array([[0, 0], [3, 0], [0, 3]])[labels]
    options = {"mini_batch_size": 50, "num_point_for_scaler": 200}
    classes = {"predictor_type": "multiclass_classifier", "num_classes": 3, **options}
    plain, _ = train_csv(tmp_path / "plain", features, labels, **classes)
    balanced, _ = train_csv(tmp_path / "balanced", features, labels, balance_multiclass_weights="true", **classes)
    assert np.array_equal(balanced.model.weights, plain.model.weights)  # as frequent as each other
    rare = (np.arange(1200) >= 1100).astype(int)
    binary = {"predictor_type": "binary_classifier", "binary_classifier_model_selection_criteria": "loss_function"}
    models = [
        train_csv(tmp_path / name, features, rare, positive_example_weight_mult=name, **binary, **options)[0].model
        for name in ("balanced", "11.0")
    ]
    assert np.array_equal(models[0].weights, models[1].weights)


def test_rare_positive_examples_count_more_where_that_is_asked_for(tmp_path):
    random = np.random.default_rng(0)
    labels = (random.random(4000) < 0.05).astype(int)
    features = random.normal(size=(4000, 3)) + labels[:, None]
    options = {
        "predictor_type": "binary_classifier",
        "mini_batch_size": 100,
        "binary_classifier_model_selection_criteria": "loss_function",
    }
    plain, _ = train_csv(tmp_path / "plain", features, labels, **options)
    balanced, _ = train_csv(tmp_path / "balanced", features, labels, positive_example_weight_mult="balanced", **options)
    counts = [np.mean(one.model.scores(features)[:, 0] > 0) for one in (plain, balanced)]
    assert counts[0] < 0.04
    assert counts[1] > 0.15
