"""The calls of AWS clients that notebooks make."""

import io
import json
import re
import tarfile
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest

from headrace import sagemaker
from headrace.hosting.endpoint import EndpointError
from headrace.sagemaker import Predictor, Session, SKLearnPredictor
from headrace.sagemaker.local import LocalSession
from headrace.sagemaker.s3 import S3Downloader, S3Uploader, is_s3_url, parse_s3_url, s3_path_join
from headrace.sagemaker.transformer import Transformer
from headrace.sagemaker.utils import (
    base_name_from_image,
    build_dict,
    get_short_version,
    name_from_image,
    sagemaker_short_timestamp,
    sagemaker_timestamp,
    unique_name_from_base,
)

SCRIPT = """
def model_fn(model_dir):
    return 3

def predict_fn(rows, factor):
    return rows * factor
"""


@pytest.fixture
def model(session, tmp_path):
    (tmp_path / "serve.py").write_text(SCRIPT)

    with tarfile.open(tmp_path / "model.tar.gz", "w:gz"):
        pass
    data = session.upload_data(tmp_path / "model.tar.gz", "my-bucket", "models")
    return sagemaker.SKLearnModel(
        data, "role", tmp_path / "serve.py", framework_version="1.2-1", name="times-three", sagemaker_session=session
    )


def test_an_endpoint_by_the_clients(session, model):
    model.deploy(1, "ml.m5.large", endpoint_name="three", model_data_download_timeout=60, routing_config={})
    client = session.boto_session.client("sagemaker")
    found = client.describe_endpoint(EndpointName="three")
    assert (found["EndpointName"], found["EndpointStatus"]) == ("three", "InService")
    assert [one["EndpointName"] for one in session.sagemaker_client.list_endpoints()["Endpoints"]] == ["three"]
    assert client.list_endpoints(NameContains="four") == {"Endpoints": []}
    for runtime in (session.sagemaker_runtime_client, session.boto_session.client("runtime.sagemaker")):
        answer = runtime.invoke_endpoint(
            EndpointName="three", ContentType="text/csv", Accept="application/json", Body="1,2"
        )
        assert json.loads(answer["Body"].read()) == [[3, 6]]
        assert (answer["ContentType"], answer["InvokedProductionVariant"]) == ("application/json", "AllTraffic")
    assert client.describe_model(ModelName="times-three")["ModelName"] == "times-three"
    client.delete_endpoint_config(EndpointConfigName="three")
    client.delete_model(ModelName="times-three")
    client.delete_endpoint(EndpointName="three")
    with pytest.raises(EndpointError, match="'three'"):
        client.describe_endpoint(EndpointName="three")
    with pytest.raises(ValueError, match="no client for 's3'"):
        session.boto_session.client("s3")
    with pytest.raises(ValueError, match="no resource for 's3' .* session.upload_data"):
        session.boto_session.resource("s3")


def test_a_predictor_whose_types_are_set_later(session, model):
    model.deploy(endpoint_name="three")
    with pytest.warns(DeprecationWarning, match="endpoint is called endpoint_name"):
        predictor = Predictor(endpoint="three", sagemaker_session=session, component_name=None)
    predictor.content_type = "text/csv"
    predictor.accept = "application/json"
    assert (predictor.content_type, predictor.accept) == ("text/csv", "application/json")
    assert predictor.predict("1,2") == b"[[3.0, 6.0]]"
    predictor.accept = predictor.content_type = None
    assert (predictor.accept, predictor.content_type) == ("*/*", "application/octet-stream")
    predictor.serializer = SimpleNamespace(CONTENT_TYPE="text/csv", serialize=str)
    predictor.deserializer = SimpleNamespace(ACCEPT=("text/csv",), deserialize=lambda stream, _: stream.read())
    assert (predictor.content_type, predictor.predict("1,2")) == ("text/csv", b"3.0,6.0\n")
    with pytest.raises(ValueError, match="InferenceComponentName"):
        predictor.predict("1,2", component_name="part")
    with pytest.warns(UserWarning, match="no argument 'seralizer'.*did you mean serializer"):
        Predictor("three", seralizer=None)
    with pytest.raises(TypeError, match="needs an endpoint_name"):
        SKLearnPredictor()


def test_a_predictor_without_serializer_or_deserializer_as_in_version_1(session, model):
    predictor = model.deploy(endpoint_name="v1")
    predictor.content_type, predictor.serializer, predictor.deserializer = "text/csv", None, None
    assert (predictor.predict("1,2"), predictor.accept) == (b"[[3.0, 6.0]]", "*/*")


def test_what_a_predictor_reports(session, model, tmp_path):
    (tmp_path / "serve.py").write_text(SCRIPT + "\nprint('the script was imported')\n")
    predictor = model.deploy(endpoint_name="three")
    assert (predictor.endpoint, repr(predictor)) == ("three", "SKLearnPredictor('three')")
    described = predictor.describe()
    assert (described["name"], described["status"]) == ("three", "InService")
    assert "the script was imported" in predictor.logs()
    assert session.describe_model("times-three")["ModelName"] == "times-three"
    predictor.delete_model()
    with pytest.raises(ValueError, match="no model 'times-three'"):
        session.describe_model("times-three")
    predictor.deserializer = lambda stream, content_type: (content_type, stream.read())
    predictor.serializer = lambda value: ",".join(map(str, value))
    predictor.serializer.content_type = predictor.accept = "text/csv"
    assert predictor.predict([1, 2]) == ("text/csv", b"3.0,6.0\n")


def test_a_transformer_by_the_name_of_a_model(session, model, tmp_path):
    with pytest.raises(ValueError, match="no model 'times-three'"):
        Transformer("times-three", 1, "ml.m5.large", sagemaker_session=session)
    model.create("ml.m5.large")
    pipeline = sagemaker.PipelineModel([model, model], name="times-nine", sagemaker_session=session)
    pipeline.create("ml.m5.large")
    np.savetxt(tmp_path / "rows.csv", [[1, 2], [3, 4]], delimiter=",", fmt="%d")
    rows = session.upload_data(tmp_path / "rows.csv")
    elsewhere = Session(session.root)
    for name, factor in (("times-three", 3), ("times-nine", 9)):
        transformer = Transformer(
            model_name=name,
            instance_count=1,
            instance_type="ml.m5.large",
            strategy="SingleRecord",
            assemble_with="Line",
            output_path="s3://my-bucket/" + name,
            accept="text/csv",
            base_transform_job_name="by-name",
            volume_kms_key="key",
            sagemaker_session=elsewhere,
        )
        transformer.transform(rows, content_type="text/csv", split_type="Line", logs=False)
        assert transformer.model_name == name
        job = session.sagemaker_client.describe_transform_job(TransformJobName=transformer.latest_transform_job.name)
        assert job["TransformStartTime"] <= job["TransformEndTime"] < datetime.now(UTC)
        assert (job["TransformJobName"][:8], job["TransformJobStatus"]) == ("by-name-", "Completed")
        assert job["ModelName"] == name
        attached = Transformer.attach(job["TransformJobName"], Session(session.root))
        attached.wait()
        attached.stop_transform_job()
        for attribute in (
            "model_name",
            "strategy",
            "assemble_with",
            "output_path",
            "accept",
            "base_transform_job_name",
        ):
            assert getattr(attached, attribute) == getattr(transformer, attribute), attribute
        assert repr(attached.latest_transform_job) == f"<transform job {transformer.latest_transform_job.job_name}>"
        answers = session.read_s3_file("my-bucket", f"{name}/rows.csv.out").split()
        assert [[float(cell) for cell in row.split(",")] for row in answers] == [
            [factor, 2 * factor],
            [3 * factor, 4 * factor],
        ]


def test_a_transformer_refuses_the_name_of_another_job_at_once(session, model, tmp_path):
    (tmp_path / "rows.csv").write_text("1,2\n")
    rows = session.upload_data(tmp_path / "rows.csv")
    first, second = (Transformer(model, 1, "ml.m5.large", sagemaker_session=session) for _ in range(2))
    first.transform(rows, content_type="text/csv", job_name="one", logs=False, wait=True)
    with pytest.raises(ValueError, match="the job 'one' already exists"):
        second.transform(rows, content_type="text/csv", job_name="one", logs=False, wait=False)
    assert (second.latest_transform_job, second.output_path) == (None, None)


def test_an_attached_transformer_leaves_open_what_the_user_did(session, model, tmp_path):
    np.savetxt(tmp_path / "rows.csv", [[1, 2], [3, 4]], delimiter=",", fmt="%d")
    rows = session.upload_data(tmp_path / "rows.csv")
    transformer = model.transformer(1, "ml.m5.large", accept="text/csv")
    transformer.transform(rows, content_type="text/csv", logs=False)
    attached = Transformer.attach(transformer.latest_transform_job.name, session)
    assert (attached.strategy, attached.max_payload, attached.max_concurrent_transforms) == (None, None, None)
    attached.transform(rows, content_type="text/csv", logs=False)
    (answer,) = session.objects(attached.output_path)
    assert answer.path.read_text().split() == ["3.0,6.0", "9.0,12.0"]


def test_an_aws_session_sets_the_region(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_SAGEMAKER_DIR", str(tmp_path / "here"))
    for make in (Session, LocalSession):
        session = make(SimpleNamespace(region_name="eu-west-1"), sagemaker_client=object())
        assert session.root == tmp_path / "here"
        assert session.boto_region_name == session.boto_session.region_name == "eu-west-1"
    session.config = {"local": {"local_code": True}}
    assert Session(boto_session=SimpleNamespace(region_name=None)).boto_region_name == "us-east-1"
    with pytest.raises(TypeError, match="no argument 'sagemaker_cleint'"):
        Session(sagemaker_cleint=None)


def test_files_by_the_names_of_the_sdk(session, tmp_path):
    (tmp_path / "a.csv").write_text("1\n")
    uri = S3Uploader.upload(str(tmp_path / "a.csv"), "s3://my-bucket/deep/down", sagemaker_session=session)
    assert uri == "s3://my-bucket/deep/down/a.csv"
    assert S3Downloader.list("s3://my-bucket/deep", session) == [uri]
    assert S3Downloader.read_file(uri, session) == "1\n"
    (copy,) = S3Downloader.download(uri, str(tmp_path / "back"), sagemaker_session=session)
    assert copy == str(tmp_path / "back" / "a.csv")
    text = S3Uploader.upload_string_as_file_body("x", "s3://my-bucket/t.txt", sagemaker_session=session)
    assert (text, S3Downloader.read_file(text, session)) == ("s3://my-bucket/t.txt", "x")
    assert (
        S3Uploader.upload_bytes(io.BytesIO(b"\0y"), "s3://my-bucket/b", sagemaker_session=session) == "s3://my-bucket/b"
    )
    assert S3Downloader.read_bytes("s3://my-bucket/b", session) == b"\0y"
    assert s3_path_join("a/", "/b") == "a/b"
    assert s3_path_join("s3://b//", "a//c") == "s3://b/a/c"
    assert s3_path_join("s3://my-bucket", "a", with_end_slash=True) == "s3://my-bucket/a/"
    assert is_s3_url("s3://my-bucket/a")
    assert not is_s3_url("file:///a")
    with pytest.raises(ValueError, match="s3://"):
        parse_s3_url("a/b")


def test_jobs_by_the_clients(session, tmp_path):
    (tmp_path / "x.py").write_text("print('done')\n")
    estimator = sagemaker.SKLearn(tmp_path / "x.py", sagemaker_session=session)
    estimator.fit(logs=False, job_name="one")
    client = session.sagemaker_client
    described = client.describe_training_job(TrainingJobName="one")
    assert (described["TrainingJobName"], described["TrainingJobStatus"]) == ("one", "Completed")
    seconds = (described["TrainingEndTime"] - described["TrainingStartTime"]).total_seconds()
    assert abs(described["TrainingTimeInSeconds"] - seconds) <= 0.5
    assert described["BillableTimeInSeconds"] == described["TrainingTimeInSeconds"]
    assert described["TrainingJobArn"] == "arn:aws:sagemaker:local:000000000000:training-job/one"
    assert described["CreationTime"] <= described["SecondaryStatusTransitions"][0]["EndTime"] < datetime.now(UTC)
    with pytest.raises(AttributeError, match=r"'describe_endpoint_config': .* docs/sagemaker.md"):
        client.describe_endpoint_config(EndpointConfigName="one")
    with pytest.raises(
        AttributeError, match="'_current_job_name': private attributes of the SDK's SKLearn are missing"
    ):
        _ = estimator._current_job_name
    client.stop_training_job(TrainingJobName="one")  # It has ended, so that nothing happens.
    assert client.describe_training_job(TrainingJobName="one")["TrainingJobStatus"] == "Completed"
    assert repr(estimator.latest_training_job) == "<training job one>"
    assert session.wait_for_job("one") == client.describe_training_job(TrainingJobName="one")
    with pytest.raises(ValueError, match="no model in .* was deployed as 'one'"):
        session.model_of_endpoint("one")
    with pytest.raises(ValueError, match="'two'"):
        client.stop_transform_job(TransformJobName="two")


def test_calls_that_come_too_early(session, model):
    with pytest.raises(ValueError, match="must be created before attempting to delete"):
        sagemaker.PipelineModel([model, model], sagemaker_session=session).delete_model()
    transformer = Transformer(model, 1, "ml.m5.large", sagemaker_session=session)
    with pytest.raises(ValueError, match="call transform first"):
        transformer.wait()
    with pytest.raises(ValueError, match="has no model_data: the URI of a model.tar.gz"):
        sagemaker.SKLearnModel(entry_point=model._entry_point, sagemaker_session=session).deploy()
    with pytest.raises(ValueError, match="give an entry_point, or one of"):
        sagemaker.Model("1.dkr.ecr.us-east-1.amazonaws.com/xgboost:1", sagemaker_session=session)
    with pytest.raises(ValueError, match="py_version must be 'py3', got 'py2'"):
        sagemaker.SKLearn("x.py", py_version="py2", sagemaker_session=session)
    with pytest.raises(ValueError, match="Unsupported linear-learner version: 2"):
        sagemaker.image_uris.retrieve("linear-learner", "us-east-1", "2")


def test_names():
    image = sagemaker.image_uris.retrieve("linear-learner", "us-east-1")
    assert name_from_image(image).startswith("linear-learner-2")
    assert len({unique_name_from_base("a" * 80) for _ in range(5)}) == 5
    assert len(unique_name_from_base("a" * 80)) == 63
    assert base_name_from_image(image) == "linear-learner"
    assert re.fullmatch(r"\d{6}-\d{4}", sagemaker_short_timestamp())
    assert (build_dict("a", 1), build_dict("a", None)) == ({"a": 1}, {})
    assert get_short_version("1.15.2") == "1.15"
    assert len(sagemaker_timestamp()) == len("2026-01-31-23-59-59-123")


def test_endpoints_are_listed_as_asked(session, model):
    model.deploy(endpoint_name="three")
    client = session.sagemaker_client
    model.name = None
    model.deploy(endpoint_name="four")

    def names(**request):
        return [one["EndpointName"] for one in client.list_endpoints(**request)["Endpoints"]]

    created = client.describe_endpoint(EndpointName="three")["CreationTime"]
    assert created.tzinfo is not None
    assert names() == names(SortBy="CreationTime") == names(StatusEquals="InService") == ["four", "three"]
    assert names(SortBy="Name", SortOrder="Ascending") == ["four", "three"]
    assert names(SortOrder="Ascending") == ["three", "four"]
    assert names(StatusEquals="Failed") == []
    assert names(CreationTimeAfter=created) == names(LastModifiedTimeAfter=created.timestamp()) == ["four"]
    assert names(CreationTimeBefore=created.replace(year=2020)) == []
    page = client.list_endpoints(MaxResults=1)
    assert [one["EndpointName"] for one in page["Endpoints"]] == ["four"]
    assert names(NextToken=page["NextToken"]) == ["three"]
    for wrong in ({"Typo": 1}, {"SortBy": "Size"}):
        with pytest.raises(ValueError, match=r"ListEndpoints has no Typo here; it has|SortBy is one of Name"):
            client.list_endpoints(**wrong)
    with pytest.raises(ValueError, match="DescribeEndpoint needs EndpointName"):
        client.describe_endpoint()
    runtime = session.sagemaker_runtime_client
    for wrong in ({"TargetModel": "b.tar.gz"}, {"TargetVariant": "Blue"}, {"Typo": 1}):
        with pytest.raises(ValueError, match=r"target_model='b|target_variant='Blue'|InvokeEndpoint has no Typo"):
            runtime.invoke_endpoint(EndpointName="three", Body="1,2", ContentType="text/csv", **wrong)
    assert Predictor("three", session).predict(
        "1,2", initial_args={"EndpointName": "four", "ContentType": "text/csv"}
    ) == Predictor("four", session).predict("1,2", initial_args={"ContentType": "text/csv"})
