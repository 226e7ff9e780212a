"""The numerics of training, compared with slow, plain code."""

import io
import os
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.containers.linear_learner.jobs import RECORDIO, train

from headrace.containers.linear_learner.hyperparameters import Hyperparameters
from headrace.containers.linear_learner.training.channels import MiniBatch
from headrace.containers.linear_learner.training.epochs import limit_blas_threads
from headrace.containers.linear_learner.training.models import Models, fit_scaler, list_candidates
from headrace.containers.linear_learner.training.optimizers import Penalty, loss_of, optimizer_of
from headrace.containers.linear_learner.training.rows import DenseRows, SparseRows, as_rows, concat_rows
from headrace.sagemaker.common import write_numpy_to_dense_tensor

REGRESSION = [
    "squared_loss", "absolute_loss", "huber_loss", "quantile_loss", "eps_insensitive_squared_loss",
    "eps_insensitive_absolute_loss",
]  # fmt: skip
SEEDS = st.integers(0, 2**32 - 1)


def parameters(predictor="regressor", **given):
    given = {
        "predictor_type": predictor,
        **({"num_classes": 4} if predictor == "multiclass_classifier" else {}),
        **given,
    }
    return Hyperparameters.parse({name: str(value) for name, value in given.items()})


def plain_value(loss, found, score, label):
    """The definition of a loss, for one example; ``score`` is a list for several classes."""
    away = score[0] - label
    sign = 2 * label - 1
    beyond = max(abs(away) - found.loss_insensitivity, 0)
    return {
        "squared_loss": lambda: away**2,
        "absolute_loss": lambda: abs(away),
        "huber_loss": lambda: away**2 / 2 if abs(away) <= found.huber_delta else found.huber_delta * (abs(away) - found.huber_delta / 2),
        "quantile_loss": lambda: max((1 - found.quantile) * away, -found.quantile * away),
        "eps_insensitive_squared_loss": lambda: beyond**2,
        "eps_insensitive_absolute_loss": lambda: beyond,
        "logistic": lambda: -np.log(1 / (1 + np.exp(-sign * score[0]))),
        "hinge_loss": lambda: max(found.margin - sign * score[0], 0),
        "softmax_loss": lambda: -np.log(np.exp(score[int(label)]) / np.exp(score).sum()),
    }[loss]()  # fmt: skip


def cases():
    yield from (("regressor", loss, 1) for loss in REGRESSION)
    yield from (("binary_classifier", loss, 1) for loss in ("logistic", "hinge_loss"))
    yield ("multiclass_classifier", "softmax_loss", 4)


@pytest.mark.parametrize(("predictor", "loss", "outputs"), list(cases()))
@given(seed=SEEDS, first=st.floats(0.05, 0.95), second=st.floats(0.1, 2))
def test_every_loss_and_its_derivative(predictor, loss, outputs, seed, first, second):
    found = parameters(
        predictor, loss=loss, quantile=first, huber_delta=second, loss_insensitivity=first, margin=second
    )
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 2, (3, 2, outputs))  # float64: differences of it can be taken
    labels = rng.normal(0, 2, 3) if predictor == "regressor" else rng.integers(0, max(2, outputs), 3).astype(float)
    one = loss_of(found)
    plain = [[plain_value(loss, found, score, label) for score in row] for row, label in zip(scores, labels)]
    np.testing.assert_allclose(one.value(scores, labels), plain, rtol=1e-6, atol=1e-9)
    value, derivative = one.both(scores, labels)
    np.testing.assert_array_equal(value, one.value(scores, labels))
    assert derivative.shape == scores.shape
    step = 1e-6
    for place in np.ndindex(scores.shape):
        up, down = scores.copy(), scores.copy()
        up[place] += step
        down[place] -= step
        example, model, _ = place
        slope = (one.value(up, labels) - one.value(down, labels))[example, model] / (2 * step)
        near_a_kink = abs(one.both(up, labels)[1][place] - one.both(down, labels)[1][place]) > 1e-3
        assume(not near_a_kink)
        # The gradient is that of half the square: the factor belongs to the learning rate.
        factor = 2 if loss in ("squared_loss", "eps_insensitive_squared_loss") else 1
        assert factor * derivative[place] == pytest.approx(slope, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("outputs", [1, 4])
def test_scores_far_from_zero_overflow_nothing(outputs):
    one = loss_of(parameters("multiclass_classifier" if outputs > 1 else "binary_classifier"))
    ends = np.array([-1e30, -1e4, -90.0, -1e-6, 0.0, 1e-6, 90.0, 1e4, 1e30], np.float32)
    scores = np.stack(np.meshgrid(*[ends] * outputs), axis=-1).reshape(-1, 1, outputs)
    labels = np.arange(len(scores)) % max(2, outputs)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        value, derivative = one.both(scores, labels)
    wide = scores.astype(np.float64)
    if outputs == 1:
        plain = np.logaddexp(0, -(2 * labels[:, None] - 1) * wide[..., 0])
    else:
        wide -= wide.max(axis=2, keepdims=True)
        plain = np.log(np.exp(wide).sum(axis=2)) - wide[np.arange(len(labels)), :, labels]
    np.testing.assert_allclose(value, plain, rtol=1e-6, atol=1e-6)
    assert np.abs(derivative).max() <= 1
    # Products with subnormal numbers take twice the time.
    assert min(np.abs(some[some != 0]).min() for some in (value, derivative)) > 1e-30
    assert value.dtype == derivative.dtype == np.float32


def plain_steps(name, weights, gradients, rate):
    """As in the papers, one number at a time."""
    out = []
    for start, column in zip(weights, gradients):
        w, a, b = start, 0.0, 0.0
        for t, g in enumerate(column, 1):
            if name == "sgd":
                a = 0.5 * a - rate * g
                w += a
            elif name == "adam":
                a, b = 0.8 * a + 0.2 * g, 0.95 * b + 0.05 * g * g
                w -= rate * (a / (1 - 0.8**t)) / np.sqrt(b / (1 - 0.95**t))
            elif name == "adagrad":
                b += g * g
                w -= rate * g / np.sqrt(b)
            else:
                b = 0.9 * b + 0.1 * g * g
                w -= rate * g / np.sqrt(b)
        out.append(w)
    return out


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad", "rmsprop"])
@given(seed=SEEDS)
def test_every_optimizer_takes_the_steps_of_its_paper(name, seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(2, 3)).astype(np.float32)
    gradients = rng.normal(size=(7, 2, 3)).astype(np.float32)
    gradients += np.copysign(np.float32(0.1), gradients)  # large enough that the epsilon in the divisor does not show
    rates = np.array([0.1, 0.01, 1.0], np.float32)
    optimizer = optimizer_of(name, weights.shape, momentum=0.5, beta_1=0.8, beta_2=0.95)
    now = weights.copy()
    for gradient in gradients:
        optimizer.step(now, gradient.copy(), rates)
    for model, rate in enumerate(rates.tolist()):
        plain = plain_steps(name, weights[:, model].tolist(), gradients[:, :, model].T.tolist(), rate)
        np.testing.assert_allclose(now[:, model], plain, rtol=1e-3, atol=1e-3 * rate)


def test_penalties():
    weights = np.array([[2.0, -3.0], [0.0, 4.0]], np.float32)
    gradient = np.ones((2, 2), np.float32)
    Penalty(np.array([0.5, 0.0], np.float32), np.array([0.0, 0.25], np.float32)).add(gradient, weights)
    assert gradient.tolist() == [[2.0, 0.75], [1.0, 1.25]]


def matrix(seed, rows=40, width=6):
    """Sparse numbers of several sizes; one column is always zero, one is always the same, one never zero."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, width)) * 10.0 ** rng.integers(-3, 4, width)
    values[rng.random((rows, width)) < 0.6] = 0
    values[:, 0], values[:, 1], values[:, 2] = 0, 0.1, rng.normal(5, 1, rows)
    return values.astype(np.float32)


@given(seed=SEEDS, form=st.sampled_from(["csr", "coo", "csc"]))
def test_sparse_is_dense(seed, form):
    values = matrix(seed)
    rng = np.random.default_rng(seed + 1)
    dense, sparse = DenseRows(values), as_rows(scipy.sparse.coo_array(values).asformat(form))
    assert isinstance(sparse, SparseRows)
    assert (len(sparse), sparse.width) == (len(dense), dense.width)
    mean, deviation = dense.moments()
    np.testing.assert_allclose(sparse.moments()[0], mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sparse.moments()[1], deviation, rtol=1e-9, atol=1e-12 * np.abs(values).max())
    scale = np.where(deviation > 0, deviation, 1).astype(np.float32)
    weights = rng.normal(size=(values.shape[1], 4)).astype(np.float32)
    derivatives = rng.normal(size=(len(values), 4)).astype(np.float32)
    for ours, plain, exact in (
        (sparse, dense, values.astype(float)),
        (
            sparse.scale(mean.astype(np.float32), scale),
            dense.scale(mean.astype(np.float32), scale),
            (values.astype(float) - mean.astype(np.float32)) / scale,
        ),
    ):
        for found, expected in (
            (ours.multiply(weights), exact @ weights),
            (plain.multiply(weights), exact @ weights),
            (ours.multiply_transposed(derivatives), exact.T @ derivatives),
            (plain.multiply_transposed(derivatives), exact.T @ derivatives),
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=2e-4 * max(1, np.abs(expected).max()))


def test_a_sparse_column_that_does_not_vary_is_divided_by_nothing():
    values = np.full((10_000, 2), 0.1, np.float32)
    values[:, 1] = np.arange(10_000) % 7
    sparse = as_rows(scipy.sparse.csr_array(values))
    assert sparse.moments()[1][0] < 1e-12
    scaler = fit_scaler(sparse, np.arange(10_000, dtype=np.float32), parameters())
    assert scaler.deviation[0] == 1


@pytest.mark.parametrize(
    ("width", "given", "examples", "expected"),
    [
        (10, {}, 400, 50),  # 14 passes of parts of 8
        (10, {}, 3000, 36),  # 14 passes of three mini-batches of parts of 28: 1,500 steps
        (10, {}, 200_000, 1),
        (10, {"learning_rate": 0.1}, 400, 1),
        (100_000, {}, 3000, 1),  # each step would cost more than it gains
    ],
)
def test_small_data_gives_more_steps_than_mini_batches(width, given, examples, expected):
    found = parameters(mini_batch_size=1000, **given)
    count = min(examples, 1000)
    ones = np.ones(count, np.float32), (np.arange(count), np.arange(count) % width)
    rows, labels = as_rows(scipy.sparse.coo_array(ones, shape=(count, width))), np.float32([0, 1] * (count // 2))
    models = Models(found, list_candidates(found, 1.0), fit_scaler(rows, labels, found))
    models.plan(examples, 14)
    before = models.schedule.next
    steps = []
    models.schedule.next = lambda: steps.append(1) or before()
    scores, scaled, values = models.step(MiniBatch(rows, labels))
    assert len(steps) == expected
    assert len(scores) == len(scaled) == len(values) == len(rows)


def test_blocks_of_rows_below_each_other():
    values = matrix(1)
    parts = [values[:7], values[7:8], values[8:]]
    assert (concat_rows([DenseRows(part) for part in parts]).values == values).all()
    sparse = concat_rows([as_rows(scipy.sparse.csr_array(part)) for part in parts])
    assert (sparse.matrix.toarray() == values).all()


@pytest.mark.parametrize("predictor", ["regressor", "binary_classifier", "multiclass_classifier"])
@given(seed=SEEDS, unbias=st.booleans(), normalize=st.booleans(), labels=st.booleans())
def test_folded_weights_on_raw_features_are_scaled_weights_on_scaled_ones(predictor, seed, unbias, normalize, labels):
    found = parameters(
        predictor, unbias_data=unbias, normalize_data=normalize, normalize_label=labels, unbias_label=labels
    )
    rng = np.random.default_rng(seed)
    values = matrix(seed)
    targets = (
        rng.normal(30, 9, len(values)) if predictor == "regressor" else rng.integers(0, found.outputs or 2, len(values))
    )
    rows = DenseRows(values)
    scaler = fit_scaler(rows, targets.astype(np.float32), found)
    weights = rng.normal(size=(values.shape[1], found.outputs)).astype(np.float32)
    bias = rng.normal(size=found.outputs).astype(np.float32)
    scaled = (values.astype(float) - scaler.mean) / scaler.deviation @ weights + bias
    expected = scaled * scaler.label_deviation + scaler.label_mean
    raw_weights, raw_bias = scaler.fold(weights, bias)
    parts = np.abs(values.astype(float)) @ np.abs(raw_weights) + np.abs(raw_bias)  # these lose precision as float32
    assert (
        np.abs(values.astype(float) @ raw_weights + raw_bias - expected) <= 1e-5 * (1 + parts + np.abs(expected))
    ).all()
    if predictor == "regressor":
        back = scaler.label(targets.astype(np.float32)) * scaler.label_deviation + scaler.label_mean
        np.testing.assert_allclose(back, targets, rtol=1e-4, atol=1e-3)
        assert abs(scaler.label(targets.astype(np.float32)).mean()) < 1e-3 or not labels


@pytest.mark.parametrize("size", [100, 1000])
def test_memory_does_not_depend_on_how_much_comes_through_a_pipe(tmp_path, size):
    """Two passes over 80 MB of Records hold only a few mini-batches at a time."""
    features = np.random.default_rng(0).normal(size=(4000, 200)).astype(np.float32)
    file = io.BytesIO()
    write_numpy_to_dense_tensor(file, features, features[:, 0])
    content, repeats = file.getvalue(), 25
    folder = tmp_path / "input" / "data"
    folder.mkdir(parents=True)

    def fill(pipe):
        with pipe.open("wb") as fifo:
            for _ in range(repeats):
                fifo.write(content)

    for epoch in range(2):  # the second pass computes the metrics
        pipe = folder / f"train_{epoch}"
        os.mkfifo(pipe)
        threading.Thread(target=fill, args=(pipe,), daemon=True).start()
    settings = {"epochs": 1, "mini_batch_size": size, "num_models": 1, "num_point_for_scaler": 500}
    tracemalloc.start()
    try:
        train(tmp_path, channels={"train": RECORDIO}, modes={"train": "Pipe"}, predictor_type="regressor", **settings)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(content) * repeats > 75 << 20
    assert most < 25 << 20


def test_small_products_are_left_to_one_thread():
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads():
        return [one["num_threads"] for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    with limit_blas_threads(1000):
        assert set(threads()) <= {1}
    with limit_blas_threads(1 << 30):
        assert threads() == before
    assert threads() == before
