"""The second half of the demo: from a script to an endpoint, and a training that is stopped and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import headrace as hr
from headrace import _optional, sagemaker
from headrace.cli.demo.steps import Files, Story
from headrace.sagemaker.deserializers import JSONDeserializer
from headrace.sagemaker.serializers import CSVSerializer
from headrace.sagemaker.session import name_from_base

__all__ = ["Classifier", "show_serving", "show_training"]


BASE = "headrace-demo"
TEST_EVERY = 5
TOLERANCE = 1.03
SCRIPT = '''\
"""A scaler, as a script for SageMaker's scikit-learn container."""

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


def show_serving(folder: Path, story: Story) -> None:
    """Train on the diabetes data of scikit-learn, and ask the endpoint for the patients that were left out."""
    found = _optional.require("sklearn.datasets", extra="demo").load_diabetes(scaled=False)
    test = np.arange(len(found.target)) % TEST_EVERY == 0
    folder.mkdir(parents=True, exist_ok=True)
    _save(folder / "train.csv", np.column_stack([found.target, found.data])[~test])
    (folder / "scaler.py").write_text(SCRIPT, encoding="utf-8")
    session = sagemaker.Session(folder / "store")
    pipeline = _trained(session, folder, story)
    predictor = pipeline.deploy(
        endpoint_name=name_from_base(BASE), serializer=CSVSerializer(), deserializer=JSONDeserializer()
    )
    try:
        _ask(predictor, found.data, found.target, test, story)
    finally:
        predictor.delete_endpoint()
        pipeline.delete_model()


def _trained(session: sagemaker.Session, folder: Path, story: Story) -> sagemaker.PipelineModel:
    train = session.upload_data(folder / "train.csv", key_prefix="diabetes/train")
    scaler = sagemaker.SKLearn(entry_point=folder / "scaler.py", framework_version="1.2-1", sagemaker_session=session)
    scaler.fit({"train": train}, logs=False)
    story.say(f"training job  {scaler.training_job_name}: {_status(session, scaler.training_job_name)}")
    transformer = scaler.transformer(assemble_with="Line", accept="text/csv")
    transformer.transform(train, content_type="text/csv", logs=False)
    features = str(transformer.output_path)
    story.say(f"transform job {', '.join(one.uri for one in session.objects(features))}")
    learner = sagemaker.LinearLearner(
        predictor_type="regressor", mini_batch_size=20, epochs=40, sagemaker_session=session
    )
    learner.fit({"train": sagemaker.TrainingInput(features, content_type="text/csv")}, logs=False)
    story.say(f"training job  {learner.training_job_name}: {_status(session, learner.training_job_name)}")
    return sagemaker.PipelineModel(models=[scaler.create_model(), learner.create_model()])


def _status(session: sagemaker.Session, name: str) -> str:
    return str(session.describe_training_job(name)["TrainingJobStatus"])


def _ask(predictor: Any, features: Any, labels: Any, test: Any, story: Story) -> None:
    one = predictor.predict(features[test][0])
    story.say(f"endpoint      {predictor.endpoint_name} answers the first patient: {json.dumps(one)}")
    answer = predictor.predict(features[test])
    scores = np.array([found["score"] for found in answer["predictions"]])
    story.check(
        bool(np.isclose(scores[0], one["predictions"][0]["score"])), "alone or with others, a row gets the same answer"
    )
    known = np.column_stack([features, np.ones(len(features))])
    best = known[test] @ np.linalg.lstsq(known[~test], labels[~test], rcond=None)[0]
    ours, least_squares = (_error(found, labels[test]) for found in (scores, best))
    story.check(
        ours <= TOLERANCE * least_squares,
        f"test error {ours:.1f}, least squares on the same rows {least_squares:.1f} (within 3 % is asked for)",
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
    """64 pixels, one layer of rectified units, and a softmax over ten digits; trained by gradient descent."""

    def __init__(self) -> None:
        chance = np.random.default_rng(SEED)
        self.weights: Weights = {
            "hidden": _layer(chance, 64, HIDDEN),
            "hidden_bias": np.zeros(HIDDEN, np.float32),
            "digit": _layer(chance, HIDDEN, 10),
            "digit_bias": np.zeros(10, np.float32),
        }

    def learn(self, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> None:
        """One step down the gradient of the mean cross-entropy of a batch."""
        pixels, units, chances = self._forward(images)
        chances[np.arange(len(labels)), labels] -= 1
        error = chances / np.float32(len(labels))
        below = (error @ self.weights["digit"].T) * (units > 0)
        self.weights["digit"] -= STEP * (units.T @ error)
        self.weights["digit_bias"] -= STEP * error.sum(axis=0)
        self.weights["hidden"] -= STEP * (pixels.T @ below)
        self.weights["hidden_bias"] -= STEP * below.sum(axis=0)

    def accuracy(self, images: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
        """Which part of the images is recognised."""
        return float((self._forward(images)[2].argmax(axis=1) == labels).mean())

    def save(self, path: Path) -> None:
        """Keep the weights."""
        with path.open("wb") as file:
            np.savez(file, *self.weights.values())

    def load(self, path: Path) -> None:
        """Take the weights of an earlier run."""
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


def show_training(files: Files, story: Story) -> None:
    """Train without a stop; train with one; compare; test."""
    digits = hr.open(files.tfrecord)
    test = digits[::5]
    train = digits[1::5].concat(digits[2::5], digits[3::5], digits[4::5])
    story.say(f"every fifth digit is for the test: {len(train):,} to learn from, {len(test)} to test with")

    whole = Classifier()
    _train(whole, _loader(train))
    kept = _stop_half_way(train, files.folder, story)
    resumed = _resume(train, files.folder, kept, story)

    same = all(np.array_equal(whole.weights[name], resumed.weights[name]) for name in whole.weights)
    story.check(same, "stopped and resumed, all weights are the same to the bit as without a stop")
    batch = test.batch(np.arange(len(test)))
    accuracy = resumed.accuracy(batch["image"], batch["label"])
    story.check(
        accuracy > WANTED_ACCURACY, f"{accuracy:.1%} of the test digits are recognised (more than 95 % is asked for)"
    )


def _loader(source: hr.Source) -> hr.Loader:
    return hr.Loader(source, BATCH, shuffle=True, seed=SEED, epochs=EPOCHS)


def _train(model: Classifier, loader: hr.Loader, batches: int | None = None) -> None:
    """Learn from all batches that the loader has left, or from so many of them."""
    for number, batch in enumerate(loader, start=1):
        model.learn(batch["image"], batch["label"])
        if number == batches:
            return


def _stop_half_way(train: hr.Source, folder: Path, story: Story) -> dict[str, Any]:
    """Train for a while, then keep model and state in files as a job does that is about to be killed."""
    model, loader = Classifier(), _loader(train)
    _train(model, loader, BATCHES_BEFORE_STOP)
    model.save(folder / "weights.npz")
    state: dict[str, Any] = loader.state_dict()
    text = json.dumps(state)
    (folder / "loader.json").write_text(text, encoding="utf-8")
    story.say(
        f"stopped in epoch {state['epoch']}, behind position {state['position']:,} of {len(train):,}: {len(text)} bytes of state"
    )
    return state


def _resume(train: hr.Source, folder: Path, kept: dict[str, Any], story: Story) -> Classifier:
    """Go on from the files alone, with a new model and a new loader."""
    model, loader = Classifier(), _loader(train)
    model.load(folder / "weights.npz")
    loader.load_state_dict(json.loads((folder / "loader.json").read_text(encoding="utf-8")))
    story.check(loader.state_dict() == kept, "a new loader stands where the old one stopped")
    _train(model, loader)
    return model
