"""A featurizer job, then a Linear Learner job: the result predicts."""

import json

import numpy as np
import pytest
from tests.containers.conftest import SCRIPTS, ask

from headrace.containers.linear_learner.container import LinearLearnerContainer
from headrace.containers.script import ScriptContainer
from headrace.contracts.job import Channel, Container
from headrace.contracts.serving import Request
from headrace.jobs.tree import as_text, unpack

WEIGHTS = np.array([1.0, 2.0, 3.0, -1.0, 0.5, 4.0, -2.0])


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    numbers = rng.random((400, 7)).round(4)
    sexes = rng.integers(0, 3, 400)
    rings = (5 + numbers @ WEIGHTS + sexes + rng.normal(0, 0.1, 400)).round(3)
    rows = [f"{'MFI'[s]},{','.join(map(str, n))},{r}" for s, n, r in zip(sexes, numbers, rings, strict=True)]
    return rows, rings


@pytest.mark.parametrize("input_mode", ["File", "Pipe"])
def test_from_a_table_to_a_prediction(run, store, table, tmp_path, input_mode):
    rows, rings = table
    store.put("s3://in/table.csv", "\n".join(rows))
    featurizer, learner = ScriptContainer(entry_point=SCRIPTS / "abalone_featurizer.py"), LinearLearnerContainer()
    assert isinstance(learner, Container)

    def trained(container, **options):
        record = run(container, name=container.name.replace("_", "-"), **options)
        unpack(store.resolve(record.model_uri), tmp_path / container.name / "model")
        return container.handler(tmp_path / container.name / "model")

    features = trained(featurizer, channels={"train": "s3://in/table.csv"})
    store.put("s3://out/features/table.csv.out", features(ask("\n".join(rows), accept="text/csv")).body)
    channel = Channel(uri="s3://out/features", content_type="text/csv", input_mode=input_mode)
    hyperparameters = as_text({"predictor_type": "regressor", "feature_dim": 10, "mini_batch_size": 32})
    predict = trained(learner, channels={"train": channel}, hyperparameters=hyperparameters)

    hop = features(ask("\n".join(row.rpartition(",")[0] for row in rows)))
    answer = predict(Request(body=hop.body, content_type=hop.content_type))
    scores = [one["score"] for one in json.loads(answer.body)["predictions"]]
    assert np.sqrt(np.mean((scores - rings) ** 2)) < 0.2  # the noise alone is 0.1, the spread of the rings 1.8
