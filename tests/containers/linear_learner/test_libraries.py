"""What PyTorch makes of a step, beside NumPy."""

import os
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.linear_learner.jobs import RECORDIO, train

from headrace.containers.linear_learner.training import choosing, weighing
from headrace.containers.linear_learner.training.libraries import NUMPY, torch_library
from headrace.containers.linear_learner.training.optimizers import Penalty, optimizer_of
from headrace.containers.linear_learner.training.rows import Dense, rows_of
from headrace.sagemaker.common import write_numpy_to_dense_tensor, write_spmatrix_to_sparse_tensor

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SEEDS = st.integers(0, 2**32 - 1)
LOSSES = [
    *(("regressor", loss) for loss in ("squared_loss", "absolute_loss", "huber_loss", "quantile_loss", "eps_insensitive_squared_loss", "eps_insensitive_absolute_loss")),
    ("binary_classifier", "logistic"), ("binary_classifier", "hinge_loss"), ("multiclass_classifier", "softmax_loss"),
]  # fmt: skip
OF_EACH_FORM = ("squared_loss", "logistic", "softmax_loss")
JOBS = [(*one, "adam") for one in LOSSES] + [
    (predictor, loss, optimizer)
    for predictor, loss in LOSSES if loss in OF_EACH_FORM
    for optimizer in ("sgd", "adagrad", "rmsprop")
]  # fmt: skip


@pytest.fixture(scope="module")
def library():
    return torch_library()


def numbers(rng, *shape):
    """Of several sizes, some of them zero."""
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-2, 3, shape)
    values[rng.random(shape) < 0.3] = 0
    return values.astype(np.float32)


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad", "rmsprop"])
@given(seed=SEEDS)
def test_the_same_steps(library, name, seed):
    rng = np.random.default_rng(seed)
    rates = np.array([0.1, 0.01, 1.0], np.float32)
    begun = numbers(rng, 5, 3)
    ours, torchs, mixed = begun.copy(), begun.copy(), begun.copy()
    optimizers = [optimizer_of(name, begun.shape, momentum=0.5, beta_1=0.8, beta_2=0.95) for _ in range(3)]
    for number in range(6):
        gradient = numbers(rng, 5, 3)
        for weights, optimizer, by in (
            (ours, optimizers[0], NUMPY),
            (torchs, optimizers[1], library),
            (mixed, optimizers[2], library if number % 2 else NUMPY),
        ):
            optimizer.step(weights, gradient.copy(), rates, by)
    scale = np.abs(ours).max()
    np.testing.assert_allclose(torchs, ours, rtol=1e-5, atol=1e-5 * scale)
    np.testing.assert_allclose(mixed, ours, rtol=1e-5, atol=1e-5 * scale)
    assert not np.array_equal(ours, begun)


@pytest.mark.parametrize(("wd", "l1"), [(0, 0), (0.5, 0), (0, 0.25), (0.5, 0.25)])
@given(seed=SEEDS)
def test_the_same_penalty(library, wd, l1, seed):
    rng = np.random.default_rng(seed)
    penalty = Penalty(np.float32([wd, 2 * wd]), np.float32([l1, 0]))
    weights, gradient = numbers(rng, 4, 2), numbers(rng, 4, 2)
    ours, torchs = gradient.copy(), gradient.copy()
    penalty.add(ours, weights)
    penalty.add(torchs, weights, library)
    np.testing.assert_allclose(torchs, ours, rtol=1e-6)


@given(seed=SEEDS, kind=st.sampled_from(["dense", "csr", "unsorted", "twice", "empty"]), frozen=st.booleans())
def test_the_same_products(library, seed, kind, frozen):
    rng = np.random.default_rng(seed)
    values = numbers(rng, 7, 5)
    if kind == "empty":
        values[:] = 0
    rows = Dense(values) if kind == "dense" else rows_of(matrix(values, kind))
    if frozen:
        for array in [rows.values] if kind == "dense" else [rows.matrix.data]:
            array.flags.writeable = False
    mean, deviation = rng.normal(size=5).astype(np.float32), rng.uniform(0.5, 2, 5).astype(np.float32)
    weights, derivatives = numbers(rng, 5, 3), numbers(rng, 7, 3)
    exact = (values.astype(float) - mean) / deviation
    size = np.abs(exact).max() * max(1, np.abs(weights).max(), np.abs(derivatives).max())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of what must not be written to, or of a beta
        scaled = rows.scaled(mean, deviation, library)
        found = scaled.times(weights), scaled.part(slice(2, 6)).times(weights), scaled.back(derivatives)
        plain = rows.scaled(mean, deviation).times(weights)
    for one, expected in zip(found, (exact @ weights, exact[2:6] @ weights, exact.T @ derivatives), strict=True):
        assert isinstance(one, np.ndarray)
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5 * size)
    np.testing.assert_allclose(found[0], plain, rtol=1e-4, atol=1e-5 * size)
    if kind != "dense":
        np.testing.assert_array_equal(rows.matrix.toarray(), values)


def matrix(values, kind):
    """Rows in a form that SciPy multiplies, though it is not the usual one."""
    sparse = scipy.sparse.csr_array(values)
    if kind == "unsorted":
        for begin, end in zip(sparse.indptr, sparse.indptr[1:]):
            sparse.indices[begin:end] = sparse.indices[begin:end][::-1].copy()
            sparse.data[begin:end] = sparse.data[begin:end][::-1].copy()
        sparse.has_sorted_indices = False
    if kind == "twice":
        parts = np.repeat(sparse.data / 2, 2), np.repeat(sparse.indices, 2), sparse.indptr * 2
        sparse = scipy.sparse.csr_array(parts, shape=sparse.shape)
    return sparse


def test_a_machine_without_mkl_multiplies_by_scipy(library, monkeypatch):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    without = torch_library.__wrapped__()
    rng = np.random.default_rng(0)
    sparse, weights = scipy.sparse.csr_array(numbers(rng, 7, 5)), numbers(rng, 5, 3)
    monkeypatch.setattr(torch, "sparse_csr_tensor", None)
    found = without.product(sparse, without.share(weights))
    np.testing.assert_array_equal(np.asarray(found), sparse @ weights)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize(("predictor", "loss", "optimizer"), JOBS)
def test_the_same_models(tmp_path, monkeypatch, library, predictor, loss, kind, optimizer):
    """Whole jobs by either, from the data to the artifact."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(300, 12)).astype(np.float32)
    features[rng.random(features.shape) < 0.5] = 0
    scores = features @ rng.normal(size=(12, 3)) + rng.normal(size=(300, 3)) / 2
    labels = {
        "regressor": scores[:, 0],
        "binary_classifier": scores[:, 0] > 0,
        "multiclass_classifier": scores.argmax(axis=1),
    }[predictor].astype(np.float32)
    monkeypatch.setattr(weighing, "WORTH_SHARING", 0)
    models = []
    for name, by in (("numpy", NUMPY), ("torch", library)):
        asked = []
        monkeypatch.setattr(choosing.Choice, "library", property(lambda _, by=by: asked.append(1) or by))
        base = tmp_path / name
        channel = base / "input/data/train"
        channel.mkdir(parents=True)
        with (channel / "rows.pbr").open("wb") as file:
            if kind == "dense":
                write_numpy_to_dense_tensor(file, features, labels)
            else:
                write_spmatrix_to_sparse_tensor(file, scipy.sparse.csr_matrix(features), labels)
        given = {"predictor_type": predictor, "loss": loss, "optimizer": optimizer, "epochs": 3, "mini_batch_size": 50}
        if predictor == "multiclass_classifier":
            given["num_classes"] = 3
        handler, _ = train(base, channels={"train": RECORDIO}, **given)
        assert asked
        models.append(handler.model)
    ours, torchs = models
    np.testing.assert_allclose(torchs.weights, ours.weights, rtol=5e-3, atol=2e-3)
    np.testing.assert_allclose(torchs.bias, ours.bias, rtol=5e-3, atol=2e-3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_afterwards_can_use_pytorch():
    """In an interpreter of its own, whose only thread forks."""
    code = """
        import os, signal, numpy as np
        from headrace.containers.linear_learner.training.libraries import torch_library
        by = torch_library()
        large = np.ones((1000, 1000), np.float32)
        by.module.set_num_threads(2)
        np.asarray(by.share(large) @ by.share(large))
        child = os.fork()
        if not child:
            signal.alarm(60)
            found = np.asarray((by.share(large) @ by.share(large)).exp_())
            os._exit(int(not np.isinf(found).all()))
        assert os.waitpid(child, 0)[1] == 0
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)


def test_a_job_says_who_took_its_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(choosing, "WORTH_A_STEP", 0)
    monkeypatch.setattr(choosing, "WORTH_TRYING", 0.0)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(400, 6)).astype(np.float32)
    channel = tmp_path / "input/data/train"
    channel.mkdir(parents=True)
    with (channel / "rows.pbr").open("wb") as file:
        write_numpy_to_dense_tensor(file, features, features[:, 0])
    _, lines = train(tmp_path, channels={"train": RECORDIO}, predictor_type="regressor", mini_batch_size=20, epochs=4)
    said = [line for line in lines if "Steps: " in line]
    assert len(said) == 1
    assert "by NumPy" in said[0]
    assert "by PyTorch" in said[0]
