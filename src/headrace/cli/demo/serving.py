"""From a script to an endpoint: featurize, learn, chain the two, ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from headrace import _optional, sagemaker
from headrace.cli.demo.story import Story
from headrace.sagemaker.deserializers import JSONDeserializer
from headrace.sagemaker.serializers import CSVSerializer
from headrace.sagemaker.session import name_from_base

__all__ = ["show_serving"]

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
