"""The second half of the demo: training that stops and resumes, and a script that becomes an endpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import headrace as hr
from headrace import _optional, sagemaker
from headrace.cli.demo.digits import DemoSteps, Files
from headrace.sagemaker.deserializers import JSONDeserializer
from headrace.sagemaker.serializers import CSVSerializer
from headrace.sagemaker.session import name_from_base

__all__ = ["Classifier", "show_serving", "show_training"]


BASE = "headrace-demo"
TEST_EVERY = 5
TOLERANCE = 1.03
SCRIPT = '''\
"""A scaler: a script for SageMaker's scikit-learn container."""

import json
import os

import numpy as np
from sagemaker_containers.beta.framework import worker
from sklearn.externals import joblib
from sklearn.preprocessing import StandardScaler


def model_fn(model_dir):
    return joblib.load(os.path.join(model_dir, "model.joblib"))


def predict_fn(rows, model):
    features = rows[:, -model.n_features_in_ :]
    return np.column_stack([rows[:, : -model.n_features_in_], model.transform(features)])


def output_fn(rows, accept):
    if accept == "text/csv":
        return worker.Response("\\n".join(",".join(map(str, row)) for row in rows.tolist()), mimetype=accept)
    instances = [{"features": row} for row in rows.tolist()]
    return worker.Response(json.dumps({"instances": instances}), mimetype="application/json")


if __name__ == "__main__":
    table = np.loadtxt(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "train.csv"), delimiter=",")
    joblib.dump(StandardScaler().fit(table[:, 1:]), os.path.join(os.environ["SM_MODEL_DIR"], "model.joblib"))
'''


def show_serving(folder: Path, steps: DemoSteps) -> None:
    """Train on the diabetes data of scikit-learn, and predict held-out patients by the endpoint."""
    found = _optional.require("sklearn.datasets", extra="demo").load_diabetes(scaled=False)
    test = np.arange(len(found.target)) % TEST_EVERY == 0
    folder.mkdir(parents=True, exist_ok=True)
    _save(folder / "train.csv", np.column_stack([found.target, found.data])[~test])
    (folder / "scaler.py").write_text(SCRIPT, encoding="utf-8")
    session = sagemaker.Session(folder / "store")
    pipeline = _train_pipeline(session, folder, steps)
    predictor = pipeline.deploy(
        endpoint_name=name_from_base(BASE), serializer=CSVSerializer(), deserializer=JSONDeserializer()
    )
    try:
        _ask(predictor, found.data, found.target, test, steps)
    finally:
        predictor.delete_endpoint()
        pipeline.delete_model()


def _train_pipeline(session: sagemaker.Session, folder: Path, steps: DemoSteps) -> sagemaker.PipelineModel:
    train = session.upload_data(folder / "train.csv", key_prefix="diabetes/train")
    scaler = sagemaker.SKLearn(entry_point=folder / "scaler.py", framework_version="1.2-1", sagemaker_session=session)
    scaler.fit({"train": train}, logs=False)
    steps.say(f"training job  {scaler.training_job_name}: {_status(session, scaler.training_job_name)}")
    transformer = scaler.transformer(assemble_with="Line", accept="text/csv")
    transformer.transform(train, content_type="text/csv", logs=False)
    features = str(transformer.output_path)
    steps.say(f"transform job {', '.join(one.uri for one in session.objects(features))}")
    learner = sagemaker.LinearLearner(
        predictor_type="regressor", mini_batch_size=20, epochs=40, sagemaker_session=session
    )
    learner.fit({"train": sagemaker.TrainingInput(features, content_type="text/csv")}, logs=False)
    steps.say(f"training job  {learner.training_job_name}: {_status(session, learner.training_job_name)}")
    return sagemaker.PipelineModel(models=[scaler.create_model(), learner.create_model()])


def _status(session: sagemaker.Session, name: str) -> str:
    return str(session.describe_training_job(name)["TrainingJobStatus"])


def _ask(predictor: Any, features: Any, labels: Any, test: Any, steps: DemoSteps) -> None:
    one = predictor.predict(features[test][0])
    steps.say(f"endpoint      {predictor.endpoint_name} predicts for the first patient: {json.dumps(one)}")
    answer = predictor.predict(features[test])
    scores = np.array([found["score"] for found in answer["predictions"]])
    steps.check(
        bool(np.isclose(scores[0], one["predictions"][0]["score"])),
        "a row gets the same prediction alone and in a batch",
    )
    known = np.column_stack([features, np.ones(len(features))])
    best = known[test] @ np.linalg.lstsq(known[~test], labels[~test], rcond=None)[0]
    ours, least_squares = (_error(found, labels[test]) for found in (scores, best))
    steps.check(
        ours <= TOLERANCE * least_squares,
        f"test error {ours:.1f}, least squares {least_squares:.1f} (at most 3 % more is allowed)",
    )


def _error(predicted: Any, labels: Any) -> float:
    return float(np.sqrt(np.mean((predicted - labels) ** 2)))


def _save(path: Path, table: Any) -> None:
    np.savetxt(path, table, delimiter=",", fmt="%.6g")


BATCH = 64
EPOCHS = 30
HIDDEN = 128
STEP = np.float32(0.5)
SEED = 7
WANTED_ACCURACY = 0.95
BATCHES_BEFORE_STOP = 400

Weights = dict[str, npt.NDArray[np.float32]]


class Classifier:
    """64 pixels, a layer of rectified units, a softmax over ten digits. Trained by gradient descent."""

    def __init__(self) -> None:
        chance = np.random.default_rng(SEED)
        self.weights: Weights = {
            "hidden": _layer(chance, 64, HIDDEN),
            "hidden_bias": np.zeros(HIDDEN, np.float32),
            "digit": _layer(chance, HIDDEN, 10),
            "digit_bias": np.zeros(10, np.float32),
        }

    def learn(self, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> None:
        """Take a gradient step on the mean cross-entropy of a batch."""
        pixels, units, chances = self._forward(images)
        chances[np.arange(len(labels)), labels] -= 1
        error = chances / np.float32(len(labels))
        below = (error @ self.weights["digit"].T) * (units > 0)
        self.weights["digit"] -= STEP * (units.T @ error)
        self.weights["digit_bias"] -= STEP * error.sum(axis=0)
        self.weights["hidden"] -= STEP * (pixels.T @ below)
        self.weights["hidden_bias"] -= STEP * below.sum(axis=0)

    def accuracy(self, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
        """Share of the images that is recognised."""
        return float((self._forward(images)[2].argmax(axis=1) == labels).mean())

    def save(self, path: Path) -> None:
        """Write the weights."""
        with path.open("wb") as file:
            np.savez(file, *self.weights.values())

    def load(self, path: Path) -> None:
        """Read the weights of an earlier run."""
        with np.load(path, allow_pickle=False) as kept:
            self.weights = {name: kept[f"arr_{number}"] for number, name in enumerate(self.weights)}

    def _forward(self, images: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], ...]:
        pixels = images / np.float32(16)
        units = np.maximum(pixels @ self.weights["hidden"] + self.weights["hidden_bias"], 0)
        scores = units @ self.weights["digit"] + self.weights["digit_bias"]
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return pixels, units, powers / powers.sum(axis=1, keepdims=True)


def _layer(chance: np.random.Generator, inputs: int, outputs: int) -> npt.NDArray[np.float32]:
    weights = chance.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)
    return np.asarray(weights, np.float32)


def show_training(files: Files, steps: DemoSteps) -> None:
    """Train without and with a stop, compare the weights, and test the model."""
    digits = hr.open(files.tfrecord)
    test = digits[::5]
    train = digits[1::5].concat(digits[2::5], digits[3::5], digits[4::5])
    steps.say(f"{len(train):,} digits for training, every fifth ({len(test)}) for testing")

    whole = Classifier()
    _train(whole, _loader(train))
    kept = _stop_half_way(train, files.folder, steps)
    resumed = _resume(train, files.folder, kept, steps)

    same = all(np.array_equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)
    steps.check(same, "stopped and resumed, the weights equal those of an uninterrupted run bit for bit")
    batch = test.batch(np.arange(len(test)))
    accuracy = resumed.accuracy(batch["image"], batch["label"])
    steps.check(accuracy > WANTED_ACCURACY, f"{accuracy:.1%} of the test digits are recognised (95 % are required)")


def _loader(source: hr.Source) -> hr.Loader:
    return hr.Loader(source, BATCH, shuffle=True, seed=SEED, epochs=EPOCHS)


def _train(model: Classifier, loader: hr.Loader, batches: int | None = None) -> None:
    """Train on the remaining batches of the loader, or on the first ``batches`` of them."""
    for number, batch in enumerate(loader, start=1):
        model.learn(batch["image"], batch["label"])
        if number == batches:
            return


def _stop_half_way(train: hr.Source, folder: Path, steps: DemoSteps) -> dict[str, Any]:
    """Train for a while, then write model and loader state, as a job does before it is killed."""
    model, loader = Classifier(), _loader(train)
    _train(model, loader, BATCHES_BEFORE_STOP)
    model.save(folder / "weights.npz")
    state: dict[str, Any] = loader.state_dict()
    text = json.dumps(state)
    (folder / "loader.json").write_text(text, encoding="utf-8")
    steps.say(
        f"stopped in epoch {state['epoch']} at position {state['position']:,} of {len(train):,}; the state is {len(text)} bytes"
    )
    return state


def _resume(train: hr.Source, folder: Path, kept: dict[str, Any], steps: DemoSteps) -> Classifier:
    """Resume from the files, with a new model and a new loader."""
    model, loader = Classifier(), _loader(train)
    model.load(folder / "weights.npz")
    loader.load_state_dict(json.loads((folder / "loader.json").read_text(encoding="utf-8")))
    steps.check(loader.state_dict() == kept, "a new loader continues where the first one stopped")
    _train(model, loader)
    return model
