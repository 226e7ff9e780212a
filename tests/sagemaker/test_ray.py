"""The SDK's flow on Ray: two hosts train, workers transform, replicas answer, and a newer model takes over."""

import numpy as np
import pytest

from headrace import sagemaker
from headrace.hosting.endpoint import EndpointError, find_endpoint
from headrace.sagemaker.deserializers import JSONDeserializer
from headrace.sagemaker.serializers import CSVSerializer

SCRIPT = """
import json, os

def model_fn(folder):
    return json.load(open(os.path.join(folder, "factor.json")))

def predict_fn(rows, factor):
    return rows * factor

if __name__ == "__main__":
    host = os.environ["SM_CURRENT_HOST"]
    with open(os.path.join(os.environ["SM_MODEL_DIR"], host), "w") as file:
        file.write(",".join(sorted(os.listdir(os.environ["SM_CHANNEL_TRAIN"]))))
    if host == "algo-1":
        json.dump(float(os.environ["SM_HP_FACTOR"]), open(os.path.join(os.environ["SM_MODEL_DIR"], "factor.json"), "w"))
"""


def trained(session, folder, factor):
    (folder / "train.py").write_text(SCRIPT)
    estimator = sagemaker.SKLearn(
        entry_point=folder / "train.py",
        framework_version="1.2-1",
        instance_type="local",
        instance_count=2,
        hyperparameters={"factor": factor},
        sagemaker_session=session,
        on="ray",
    )
    estimator.fit({"train": session.upload_data(folder / "rows", key_prefix="rows")}, logs=False)
    return estimator


@pytest.mark.ray
def test_the_flow_of_the_sdk(session, tmp_path, local_ray, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "rows").mkdir()
    for number in range(3):
        (tmp_path / "rows" / f"{number}.csv").write_text(f"{number},1\n")
    twice = trained(session, tmp_path, 2)
    described = session.describe_training_job(twice.training_job_name)
    assert list(described["HostNodes"]) == ["algo-1", "algo-2"]
    transformer = twice.transformer(2, assemble_with="Line", accept="text/csv", on="ray")
    transformer.transform(
        f"s3://{session.default_bucket()}/rows", content_type="text/csv", split_type="Line", logs=False
    )
    answers = session.resolve(transformer.output_path)
    assert [path.read_text() for path in sorted(answers.rglob("*.out"))] == ["0.0,2.0\n", "2.0,2.0\n", "4.0,2.0\n"]
    model = twice.create_model()
    predictor = model.deploy(serializer=CSVSerializer(), deserializer=JSONDeserializer(), on="ray", address="local")
    assert predictor.predict(np.array([[1, 5]])) == [[2.0, 10.0]]
    newer = trained(session, tmp_path, 3).create_model()
    newer.create()
    predictor.update_endpoint(model_name=newer.name)
    assert predictor.predict(np.array([[1, 5]])) == [[3.0, 15.0]]
    assert session.model_of_endpoint(predictor.endpoint_name) == newer.name
    predictor.delete_endpoint()
    with pytest.raises(EndpointError, match="no endpoint is named"):
        find_endpoint(predictor.endpoint_name)
