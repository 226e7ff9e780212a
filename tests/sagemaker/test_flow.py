"""The well-known flow (featurize, transform, train, pipeline, predict) and its surroundings."""

import importlib.util
import json
import signal
import subprocess
import sys
import tarfile
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headrace import sagemaker
from headrace.errors import JobFailed
from headrace.hosting.endpoint import EndpointError, find_endpoint
from headrace.sagemaker.deserializers import JSONDeserializer
from headrace.sagemaker.serializers import CSVSerializer

EXAMPLES = Path(__file__).parents[2] / "examples"
ROW = "M, 0.44, 0.365, 0.125, 0.516, 0.2155, 0.114, 0.155"


def example():
    spec = importlib.util.spec_from_file_location("abalone_endpoint", EXAMPLES / "abalone_endpoint.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The first three jobs, which the tests share."""
    folder = tmp_path_factory.mktemp("flow")
    session = sagemaker.Session(folder / "store")
    example().make_table(folder / "abalone.csv", 600)
    uploaded = [
        session.upload_data(part, key_prefix="abalone") for part in example().split(folder / "abalone.csv", folder)
    ]
    featurizer = sagemaker.SKLearn(
        entry_point=EXAMPLES / "scripts" / "sklearn_abalone_featurizer.py",
        framework_version="1.2-1",
        instance_type="ml.m5.xlarge",
        sagemaker_session=session,
    )
    featurizer.fit({"train": uploaded[0]}, logs=False)
    transformer = featurizer.transformer(1, "ml.m5.xlarge", assemble_with="Line", accept="text/csv")
    features = {}
    for channel, rows in zip(("test", "train"), reversed(uploaded), strict=True):
        transformer.transform(rows, content_type="text/csv", logs=False)
        features[channel] = sagemaker.TrainingInput(transformer.output_path, content_type="text/csv")
    learner = sagemaker.LinearLearner(
        predictor_type="regressor", feature_dim=10, mini_batch_size=32, sagemaker_session=session
    )
    learner.fit(features, logs=False)
    return session, featurizer, transformer, learner, features


def test_the_jobs(trained):
    session, featurizer, transformer, learner, features = trained
    described = session.describe_training_job(featurizer.training_job_name)
    assert described["TrainingJobStatus"] == "Completed"
    assert featurizer.model_data.endswith("/output/model.tar.gz")
    assert session.resolve(featurizer.model_data).is_file()
    assert transformer.latest_transform_job.describe()["TransformJobStatus"] == "Completed"
    (written,) = session.objects(transformer.output_path)
    assert written.uri.endswith("train.csv.out")
    rows = np.loadtxt(written.path, delimiter=",")
    assert rows.shape == (480, 11)
    ours, least_squares = example().errors(session, features, learner)
    assert ours <= 1.03 * least_squares


def test_one_prediction_through_the_pipeline(trained):
    session, featurizer, _, learner, _ = trained
    pipeline = sagemaker.PipelineModel(
        models=[featurizer.create_model(), learner.create_model()], role="any", sagemaker_session=session
    )
    predictor = pipeline.deploy(
        1, "ml.m5.xlarge", endpoint_name="abalone", serializer=CSVSerializer(), deserializer=JSONDeserializer()
    )
    answer = predictor.predict(ROW)
    assert list(answer) == ["predictions"]
    assert 9 < answer["predictions"][0]["score"] < 10.5
    same = subprocess.run(
        [sys.executable, "-m", "headrace", "invoke", "abalone", ROW], capture_output=True, text=True, check=True
    )
    assert json.loads(same.stdout) == answer
    with pytest.raises(sagemaker.ModelError, match="container-1"):
        predictor.predict("1,2")
    lines = sagemaker.Predictor("abalone", session, CSVSerializer()).predict(
        ROW, initial_args={"Accept": "application/jsonlines"}
    )
    assert lines == (json.dumps(answer["predictions"][0]) + "\n").encode()
    assert predictor.predict(ROW, target_variant="AllTraffic") == answer
    for refused in ({"target_model": "a.tar.gz"}, {"target_variant": "B"}, {"initial_args": {"SessionId": "x"}}):
        with pytest.raises(ValueError, match=r"target_model|target_variant|SessionId"):
            predictor.predict(ROW, **refused)
    predictor.delete_endpoint()
    with pytest.raises(EndpointError, match="no endpoint"):
        find_endpoint("abalone")
    assert session.describe_model(pipeline.name)["ModelName"] == pipeline.name
    predictor.delete_model()
    with pytest.raises(ValueError, match="no model"):
        session.describe_model(pipeline.name)


def test_a_pipeline_trains_stage_after_stage(trained, tmp_path):
    session, featurizer, _, learner, _ = trained
    example().make_table(tmp_path / "abalone.csv", 200)
    train = session.upload_data(tmp_path / "abalone.csv", key_prefix="small")
    script = EXAMPLES / "scripts" / "sklearn_abalone_featurizer.py"
    stages = [
        sagemaker.SKLearn(entry_point=script, sagemaker_session=session),
        sagemaker.LinearLearner(
            predictor_type="regressor", mini_batch_size=20, num_models=4, sagemaker_session=session
        ),
    ]
    pipeline = sagemaker.PipelineModel(models=stages)
    pipeline.fit(train)
    output = f"s3://{session.default_bucket()}/scores"
    transformer = pipeline.transformer(accept="application/jsonlines", assemble_with="Line", output_path=output)
    rows = tmp_path / "rows.csv"
    rows.write_text("\n".join(line.rpartition(",")[0] for line in (tmp_path / "abalone.csv").read_text().splitlines()))
    transformer.transform(session.upload_data(rows, key_prefix="rows"), content_type="text/csv", logs=False)
    (written,) = session.objects(output)
    scores = [json.loads(line)["score"] for line in written.path.read_text().splitlines()]
    assert len(scores) == 200
    with pytest.raises(TypeError, match="cannot be trained"):
        sagemaker.PipelineModel(models=[featurizer.create_model(), learner]).fit(train)


def test_linear_learner_takes_arrays(session):
    random = np.random.default_rng(0)
    features = random.normal(size=(200, 3)).astype(np.float32)
    labels = (features @ np.float32([1, 2, 3])).astype(np.float32)
    learner = sagemaker.LinearLearner("role", 1, "ml.m4.xlarge", predictor_type="regressor", sagemaker_session=session)
    records = learner.record_set(features, labels)
    assert (records.num_records, records.feature_dim) == (200, 3)
    learner.fit([records, learner.record_set(features, labels, channel="validation")], mini_batch_size=20, logs=False)
    assert learner.hyperparameters()["feature_dim"] == 3
    again = sagemaker.LinearLearner.attach(learner.training_job_name, session)
    predictor = again.deploy(1, "ml.m4.xlarge", endpoint_name="records")
    (record,) = predictor.predict(features[:1])
    assert record.label["score"].float32_tensor.values[0] == pytest.approx(labels[0], abs=0.3)
    predictor.delete_endpoint()


def test_record_sets_of_several_jobs(session):
    given = {"predictor_type": "regressor", "epochs": 1, "num_models": 1, "sagemaker_session": session}
    learner = sagemaker.LinearLearner(**given, mini_batch_size=50)
    used = []
    for n, width in ((120, 3), (30, 5)):
        features = np.random.default_rng(0).normal(size=(n, width)).astype(np.float32)
        records = learner.record_set(features, features.sum(axis=1))
        learner.fit(records, logs=False)
        used.append(session.describe_training_job(learner.training_job_name)["HyperParameters"])
        learner.fit(records, mini_batch_size=20, logs=False)
        used.append(session.describe_training_job(learner.training_job_name)["HyperParameters"])
    assert [(one["feature_dim"], one["mini_batch_size"]) for one in used] == [
        ("3", "50"),
        ("3", "20"),
        ("5", "50"),
        ("5", "20"),
    ]
    assert learner.hyperparameters()["mini_batch_size"] == 20
    learner.mini_batch_size = None
    learner.fit(records, logs=False)
    assert learner.hyperparameters()["mini_batch_size"] == 30
    learner.mini_batch_size = 10
    assert learner.hyperparameters()["mini_batch_size"] == 10


def test_hyperparameters_of_linear_learner_are_attributes(session):
    bucket = f"s3://{session.default_bucket()}/records"
    learner = sagemaker.LinearLearner(predictor_type="regressor", data_location=bucket, sagemaker_session=session)
    learner.epochs = 3
    assert (learner.predictor_type, learner.epochs) == ("regressor", 3)
    assert learner.hyperparameters() == {"predictor_type": "regressor", "epochs": 3}
    with pytest.raises(ValueError, match="epochs"):
        learner.epochs = 0
    with pytest.raises(ValueError, match="epoch"):
        learner.set_hyperparameters(epoch=3)
    assert learner.epochs == 3
    learner.epochs = None
    assert not hasattr(learner, "epochs")
    records = learner.record_set(np.ones((2, 2), np.float32), np.ones(2, np.float32))
    assert records.s3_data.startswith(f"{bucket}/linear-learner-train-")


def test_names_of_version_1(session, tmp_path):
    (tmp_path / "train.csv").write_text("".join(f"{2 * n},{n}\n" for n in range(40)))
    train = session.upload_data(tmp_path / "train.csv")
    with pytest.warns(DeprecationWarning, match="get_image_uri"):
        image = sagemaker.get_image_uri("us-east-1", "linear-learner")
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always")
        learner = sagemaker.Estimator(
            image_name=image,
            role="any",
            train_instance_count=1,
            train_instance_type="ml.m4.xlarge",
            train_volume_size=20,
            train_max_run=3600,
            sagemaker_session=session,
        )
    assert [str(one.message).split()[1] for one in reported if one.category is DeprecationWarning] == [
        "image_name",
        "train_instance_count",
        "train_instance_type",
        "train_volume_size",
        "train_max_run",
    ]
    learner.set_hyperparameters(feature_dim=1, predictor_type="regressor", mini_batch_size=10, epochs=2)
    with pytest.warns(DeprecationWarning, match="s3_input"):
        given = sagemaker.s3_input(train, content_type="text/csv")
    learner.fit({"train": given}, logs=False)
    assert learner.training_job_name.startswith("linear-learner-")
    assert session.describe_training_job(learner.training_job_name)["HyperParameters"]["feature_dim"] == "1"
    model = learner.create_model()
    model.deploy(endpoint_name="one", initial_instance_count=1, instance_type="ml.c4.xlarge")
    with pytest.warns(DeprecationWarning, match="RealTimePredictor"):
        predictor = sagemaker.RealTimePredictor(
            "one", session, serializer=CSVSerializer(), content_type="text/csv", accept="application/jsonlines"
        )
    assert json.loads(predictor.predict("3"))["score"] is not None
    with pytest.raises(ValueError, match="deploy first"):
        learner.delete_endpoint()
    learner.deploy(1, "ml.c4.xlarge", endpoint_name="two")
    learner.delete_endpoint()
    assert [one["EndpointName"] for one in session.sagemaker_client.list_endpoints()["Endpoints"]] == ["one"]


def test_a_failing_script_gives_its_reason(session, tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit('there is no such thing')\n")
    (tmp_path / "x.csv").write_text("1\n")
    estimator = sagemaker.SKLearn(entry_point=script, sagemaker_session=session)
    with pytest.raises(JobFailed, match="no such thing"):
        estimator.fit(session.upload_data(tmp_path / "x.csv"), logs=False)
    with pytest.raises(JobFailed):
        _ = estimator.model_data
    assert "no such thing" in session.describe_training_job(estimator.training_job_name)["FailureReason"]


TIMES = """
import argparse, os

def model_fn(model_dir):
    with open(os.path.join(model_dir, "factor")) as file:
        return int(file.read())

def predict_fn(rows, factor):
    return rows * factor

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--factor", type=int)
    with open(os.path.join(os.environ["SM_MODEL_DIR"], "factor"), "w") as file:
        file.write(str(parser.parse_args().factor))
"""


def test_an_estimator_with_a_script(session, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "times.py").write_text(TIMES)
    image = sagemaker.image_uris.retrieve("sklearn", "us-east-1", "1.2-1")
    with pytest.raises(ValueError, match="the scikit-learn image runs a script: give an entry_point"):
        sagemaker.Estimator(image, sagemaker_session=session)
    estimator = sagemaker.Estimator(
        image,
        entry_point="times.py",
        source_dir=tmp_path / "code",
        hyperparameters={"factor": 3},
        sagemaker_session=session,
    )
    assert repr(estimator) == "<Estimator: no job yet>"
    estimator.fit(logs=False)
    name = estimator.training_job_name
    assert name.startswith("sagemaker-scikit-learn-")
    assert repr(estimator) == f"<Estimator: {name}>"
    given = session.describe_training_job(name)["HyperParameters"]
    assert (given["factor"], given["sagemaker_program"]) == ("3", '"times.py"')
    assert json.loads(given["sagemaker_submit_directory"]) == (
        f"s3://{session.default_bucket()}/{name}/source/sourcedir.tar.gz"
    )
    predictor = estimator.deploy(endpoint_name="times", serializer=CSVSerializer(), deserializer=JSONDeserializer())
    assert predictor.predict([1, 2]) == [[3, 6]]
    assert session.describe_model(name)["Image"] == image
    estimator.delete_endpoint()
    estimator.delete_model()
    with pytest.raises(ValueError, match="no model"):
        session.describe_model(name)
    attached = sagemaker.Estimator.attach(name, session, image_uri=image, entry_point="times.py")
    assert (attached.training_job_name, attached.model_data) == (name, estimator.model_data)
    attached.stop_training_job()  # It has ended, so that nothing happens.
    assert session.describe_training_job(name)["TrainingJobStatus"] == "Completed"
    with pytest.raises(ValueError, match="no training job|no job"):
        sagemaker.Estimator.attach("unknown", session, image_uri=image, entry_point="times.py")


def test_a_job_in_the_background(session, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text("import os\nopen(os.path.join(os.environ['SM_MODEL_DIR'], 'm'), 'w').write('x')\n")
    estimator = sagemaker.SKLearn(entry_point=script, sagemaker_session=session)
    estimator.fit(wait=False, logs=False)
    estimator.latest_training_job.wait()
    found = sagemaker.SKLearn.attach(estimator.training_job_name, session)
    assert found.model_data == estimator.model_data


@pytest.mark.parametrize("wait", [True, False])
def test_the_name_of_another_job_is_refused_at_once(session, tmp_path, wait):
    (tmp_path / "a.py").write_text("print(1)\n")
    first = sagemaker.SKLearn(entry_point=tmp_path / "a.py", sagemaker_session=session)
    first.fit(job_name="one", logs=False)
    code = first.latest_training_job.code()
    before = session.resolve(code.uri).read_bytes()
    (tmp_path / "b.py").write_text("print(2)\n")
    second = sagemaker.SKLearn(entry_point=tmp_path / "b.py", sagemaker_session=session)
    with pytest.raises(ValueError, match="the job 'one' already exists: job names are unique; choose another job_name"):
        second.fit(job_name="one", logs=False, wait=wait)
    assert second.latest_training_job is None
    assert session.resolve(code.uri).read_bytes() == before


def test_a_job_that_was_not_waited_for_has_a_record(session, tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.5)\n")
    estimator = sagemaker.SKLearn(entry_point=tmp_path / "slow.py", sagemaker_session=session)
    estimator.fit(job_name="one", wait=False, logs=False)
    assert session.describe_training_job("one")["TrainingJobStatus"] == "InProgress"
    estimator.latest_training_job.wait()


def test_an_attached_estimator_finds_a_script_of_any_name(session, tmp_path):
    script = tmp_path / 'tr\u00e4"in.py'
    script.write_text("def model_fn(model_dir): return None\n")
    estimator = sagemaker.SKLearn(entry_point=script, sagemaker_session=session)
    estimator.fit(logs=False)
    found = sagemaker.SKLearn.attach(estimator.training_job_name, session)
    assert found.entry_point == script.name
    (stage,) = found.create_model()._stages()
    assert stage.arguments["entry_point"] == script.name


@pytest.mark.parametrize(
    ("logs", "shown"), [("All", True), (True, True), ("None", False), (None, False), (False, False)]
)
def test_logs_are_shown_where_they_are_wanted(session, tmp_path, capsys, logs, shown):
    (tmp_path / "says.py").write_text("print('hello')\n")
    sagemaker.SKLearn(tmp_path / "says.py", sagemaker_session=session).fit(logs=logs)
    assert ("hello" in capsys.readouterr().out) is shown


def test_a_base_model_is_a_channel(session, tmp_path):
    (tmp_path / "again.py").write_text(
        "import os\nprint(os.environ['SM_CHANNELS'], os.listdir(os.environ['SM_CHANNEL_BEFORE']))\n"
    )
    (tmp_path / "model.tar.gz").write_bytes(b"x")
    model = session.upload_data(tmp_path / "model.tar.gz")
    estimator = sagemaker.SKLearn(
        tmp_path / "again.py",
        model_uri=model,
        model_channel_name="before",
        input_mode="Pipe",
        sagemaker_session=session,
    )
    estimator.fit(logs=False)
    assert estimator.logs() == "[\"before\"] ['model.tar.gz']\n"


def test_ctrl_c_stops_the_job_and_keeps_its_model(session, tmp_path):
    (tmp_path / "saves.py").write_text(
        "import os, signal, sys, time\n"
        "def save(*_):\n"
        "    time.sleep(1)\n"
        "    open(os.path.join(os.environ['SM_MODEL_DIR'], 'model'), 'w').write('so far')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print('begun', flush=True)\n"
        "while True: time.sleep(0.05)\n"
    )
    code = (
        "import signal, sys; from headrace import sagemaker\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "estimator = sagemaker.SKLearn(entry_point=sys.argv[1], sagemaker_session=sagemaker.Session(sys.argv[2]))\n"
        "estimator.fit(job_name='interrupted')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "saves.py"), str(session.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "begun" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, reported = process.communicate(timeout=300)
    assert reported.rstrip().endswith("KeyboardInterrupt")
    job = session.describe_training_job("interrupted")
    assert job["TrainingJobStatus"] == "Stopped"
    with tarfile.open(session.resolve(job["ModelArtifacts"]["S3ModelArtifacts"])) as model:
        assert model.getnames() == ["model"]


def test_a_job_of_another_process_is_waited_for(session, tmp_path, monkeypatch):
    asked_again = tmp_path / "asked again"
    (tmp_path / "slow.py").write_text(
        "import os, time\n"
        "print('awake', flush=True)\n"
        f"while not os.path.exists({str(asked_again)!r}): time.sleep(0.05)\n"
    )

    def asks_again(seconds):
        asked_again.touch()  # The job runs until then.
        time.sleep(seconds)

    monkeypatch.setattr("headrace.sagemaker.jobs.time", SimpleNamespace(sleep=asks_again))
    code = (
        "import sys; from headrace import sagemaker\n"
        "estimator = sagemaker.SKLearn(entry_point=sys.argv[1], sagemaker_session=sagemaker.Session(sys.argv[2]))\n"
        "estimator.fit(job_name='theirs')\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "slow.py"), str(session.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert "awake" in process.stdout.readline()
        found = sagemaker.SKLearn.attach("theirs", session)
        assert found.model_data == "s3://sagemaker-us-east-1-000000000000/theirs/output/model.tar.gz"
        assert "awake" in session.logs_for_job("theirs", wait=True)


def test_refusals(session, tmp_path):
    with pytest.raises(ValueError, match="GPU"):
        sagemaker.SKLearn(entry_point="x.py", instance_type="ml.p3.2xlarge", sagemaker_session=session)
    with pytest.warns(
        UserWarning, match="no argument 'entry_pont': it is ignored, as in the SDK; did you mean entry_point"
    ):
        sagemaker.SKLearn(entry_point="x.py", entry_pont="y.py", sagemaker_session=session)
    with pytest.warns(UserWarning, match="SKLearn has no argument 'script_mode'") as warned:
        sagemaker.SKLearn(entry_point="x.py", script_mode=True, sagemaker_session=session)
    assert [warning.filename for warning in warned] == [__file__]  # a line of the notebook, which Python shows
    with pytest.raises(ValueError, match="git_config: code is not fetched from git here: clone"):
        sagemaker.SKLearn(entry_point="x.py", git_config={"repo": "https://x"}, sagemaker_session=session)
    for name in ("container_entry_point", "container_arguments", "distribution"):
        with pytest.raises(ValueError, match=f"{name}: .* here"):
            sagemaker.SKLearn(entry_point="x.py", sagemaker_session=session, **{name: ["a"]})
    assert sagemaker.SKLearn(entry_point="x.py", git_config=None, sagemaker_session=session).entry_point == "x.py"
    with pytest.raises(TypeError, match="hyperparameter 'rate': Object of type float32"):
        sagemaker.SKLearn(__file__, hyperparameters={"rate": np.float32(1)}, sagemaker_session=session).fit()
    with pytest.raises(ValueError, match="does not run here"):
        sagemaker.Estimator("123.dkr.ecr.us-east-1.amazonaws.com/xgboost:1", sagemaker_session=session)
    with pytest.raises(ValueError, match="2 to 15"):
        sagemaker.PipelineModel(models=[])
    with pytest.raises(ValueError, match="^epochs: .*; wd: "):
        sagemaker.LinearLearner(predictor_type="regressor", epochs="many", wd=-1, sagemaker_session=session)
    with pytest.raises(ValueError, match="'num_classes' should be set to a value greater than 2"):
        sagemaker.LinearLearner(predictor_type="multiclass_classifier", num_classes=2, sagemaker_session=session)
    with pytest.raises(ValueError, match="Expecting an S3 URL"):
        sagemaker.LinearLearner(predictor_type="regressor", data_location="x/y", sagemaker_session=session)
    estimator = sagemaker.SKLearn(entry_point=tmp_path / "none.py", sagemaker_session=session)
    with pytest.raises(JobFailed, match="none.py"):
        estimator.fit(logs=False)
    with pytest.raises(ValueError, match="call fit first"):
        estimator.deploy()
    with pytest.raises(ValueError, match="must start with"):
        estimator.fit("x.csv")


def test_an_attached_estimator_has_the_settings_of_the_job(session, tmp_path):
    (tmp_path / "times.py").write_text(TIMES)
    estimator = sagemaker.SKLearn(
        tmp_path / "times.py",
        hyperparameters={"factor": 7},
        instance_count=2,
        max_run=777,
        input_mode="FastFile",
        output_path="s3://my-bucket/out",
        checkpoint_s3_uri="s3://my-bucket/checkpoints",
        environment={"MODE": "train"},
        container_log_level=10,
        base_job_name="base",
        sagemaker_session=session,
    )
    estimator.fit(logs=False)
    settings = (
        "instance_count",
        "max_run",
        "input_mode",
        "output_path",
        "checkpoint_s3_uri",
        "environment",
        "container_log_level",
        "base_job_name",
    )
    (tmp_path / "times.py").unlink()  # The job's copy is in the store.
    found = sagemaker.SKLearn.attach(estimator.training_job_name, session)
    assert found.hyperparameters() == {"factor": 7}
    assert {name: getattr(found, name) for name in settings} == {name: getattr(estimator, name) for name in settings}
    found.fit(logs=False)
    first, second = (session.describe_training_job(one.training_job_name) for one in (estimator, found))
    assert (second["HyperParameters"]["factor"], second["ResourceConfig"]) == ("7", first["ResourceConfig"])
    other = sagemaker.SKLearn.attach(estimator.training_job_name, session, instance_count=1)
    assert (other.instance_count, other.max_run) == (1, 777)
    by_image = sagemaker.Estimator.attach(estimator.training_job_name, session)
    assert (by_image.base_name, by_image.entry_point) == ("sagemaker-scikit-learn", "times.py")


def test_an_attached_linear_learner_has_the_settings_of_the_job(session):
    features = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    given = {"predictor_type": "regressor", "epochs": 1, "num_models": 1, "max_run": 600, "base_job_name": "linear"}
    learner = sagemaker.LinearLearner(**given, output_path="s3://my-bucket/out", sagemaker_session=session)
    learner.fit(learner.record_set(features, features.sum(axis=1)), logs=False)
    for kind in (sagemaker.LinearLearner, sagemaker.Estimator):
        found = kind.attach(learner.training_job_name, session)
        assert (found.max_run, found.output_path, found.base_job_name) == (600, "s3://my-bucket/out", "linear")
        assert found.hyperparameters()["epochs"] == "1"
        assert found.model_data == learner.model_data
    with pytest.raises(ValueError, match="SKLearn runs a script: give an entry_point"):
        sagemaker.SKLearn.attach(learner.training_job_name, session)


def test_an_attached_estimator_continues_from_the_same_model(session, tmp_path):
    (tmp_path / "again.py").write_text("import os; print(os.listdir(os.environ['SM_CHANNEL_BEFORE']))\n")
    (tmp_path / "model.tar.gz").write_bytes(b"x")
    given = {"model_uri": session.upload_data(tmp_path / "model.tar.gz"), "model_channel_name": "before"}
    estimator = sagemaker.SKLearn(tmp_path / "again.py", **given, sagemaker_session=session)
    estimator.fit(logs=False)
    found = sagemaker.SKLearn.attach(estimator.training_job_name, session, "before")
    assert (found.model_uri, found.model_channel_name) == (given["model_uri"], "before")
    assert sagemaker.SKLearn.attach(estimator.training_job_name, session).model_uri is None
    with pytest.raises(ValueError, match="Duplicate channel before not allowed: it is that of model_uri"):
        found.fit({"before": given["model_uri"]})


def test_record_sets_of_one_channel_are_refused(session):
    learner = sagemaker.LinearLearner(predictor_type="regressor", sagemaker_session=session)
    sets = [learner.record_set(np.ones((n, 2), np.float32), np.ones(n, np.float32)) for n in (250, 50)]
    with pytest.raises(ValueError, match="Duplicate channels not allowed: train. Join the arrays"):
        learner.fit(sets)


def test_unknown_hyperparameters_of_linear_learner(session):
    with pytest.raises(TypeError, match="LinearLearner has no argument 'epoch'; did you mean epochs?"):
        sagemaker.LinearLearner(predictor_type="regressor", epoch=3, sagemaker_session=session)
    learner = sagemaker.LinearLearner(predictor_type="regressor", volume_size=3, sagemaker_session=session)
    with pytest.raises(AttributeError, match="no hyperparameter 'epoch'; did you mean epochs?"):
        learner.epoch = 3
    learner.note = "an attribute of the user"
    learner.max_run = 60
    assert (learner.note, learner.max_run) == ("an attribute of the user", 60)


SAYS = """
import os

def model_fn(model_dir):
    return {name!r}

def predict_fn(rows, name):
    return [name, os.environ.get("SCALE", "unset"), os.environ["SAGEMAKER_CONTAINER_LOG_LEVEL"]]
"""


@pytest.fixture
def scripts(tmp_path):
    """A script for training, and others for serving."""
    for path in ("src/code.py", "src/serve.py", "serving/code.py", "serving/other.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(SAYS.format(name=path))
    (tmp_path / "more.py").write_text("")
    return tmp_path


def code_of(session, model):
    """The script that a model runs, and the files beside it."""
    (stage,) = model._stages()
    with tarfile.open(stage.arguments["source_dir"]) as archive:
        text = archive.extractfile(stage.arguments["entry_point"]).read().decode()
        return text.partition("return '")[2].partition("'")[0], sorted(archive.getnames())


def test_a_model_with_other_code_than_the_job(session, scripts, monkeypatch):
    monkeypatch.chdir(scripts)
    image = sagemaker.image_uris.retrieve("sklearn", "us-east-1", "1.2-1")
    both = {"entry_point": "code.py", "source_dir": "src", "sagemaker_session": session}
    for estimator in (sagemaker.SKLearn(**both), sagemaker.Estimator(image, **both)):
        estimator.fit(logs=False)
        attached = type(estimator).attach(estimator.training_job_name, session)
        for one in (estimator, attached):
            whole = ["code.py", "serve.py"]
            assert code_of(session, one.create_model(name="a")) == ("src/code.py", whole)
            assert code_of(session, one.create_model(name="b", entry_point="serve.py")) == ("src/serve.py", whole)
            found = code_of(session, one.create_model(name="c", source_dir="serving"))
            assert found == ("serving/code.py", ["code.py", "other.py"])
            found = code_of(session, one.create_model(name="d", entry_point="other.py", source_dir="serving"))
            assert found == ("serving/other.py", ["code.py", "other.py"])
            found = code_of(session, one.create_model(name="e", dependencies=["more.py"]))
            assert found == ("src/code.py", ["code.py", "more.py", "serve.py"])
            with pytest.raises(JobFailed, match="the dependency missing does not exist"):
                one.create_model(name="f", dependencies=["missing"])._stages()


def test_code_that_the_variables_of_a_model_name(session, scripts):
    """As ``create_model`` of boto3 is called, and as the SDK itself describes models."""
    image = sagemaker.image_uris.retrieve("sklearn", "us-east-1", "1.2-1")
    for name in ("model.tar.gz", "sourcedir.tar.gz"):
        with tarfile.open(scripts / name, "w:gz") as archive:
            for path in (scripts / "serving").iterdir():
                archive.add(path, path.name)
    data, code = (session.upload_data(scripts / name, key_prefix="m") for name in ("model.tar.gz", "sourcedir.tar.gz"))

    def model(program, folder):
        env = {"SAGEMAKER_PROGRAM": program, "SAGEMAKER_SUBMIT_DIRECTORY": folder}
        return sagemaker.Model(image, data, env=env, sagemaker_session=session)

    for folder in (code, session.resolve(code).as_uri()):
        assert code_of(session, model("other.py", folder)) == ("serving/other.py", ["code.py", "other.py"])
    (stage,) = model("other.py", "/opt/ml/model/code")._stages()  # the code in the model, as the SDK repacks it
    assert "source_dir" not in stage.arguments


def test_deploy_passes_its_arguments_to_the_model(session, scripts):
    estimator = sagemaker.SKLearn(
        "code.py",
        source_dir=scripts / "src",
        container_log_level=10,
        environment={"SCALE": "of training"},
        code_location="s3://my-bucket/code/",
        sagemaker_session=session,
    )
    estimator.fit(logs=False)
    given = session.describe_training_job(estimator.training_job_name)["HyperParameters"]
    assert given["sagemaker_container_log_level"] == "10"
    assert json.loads(given["sagemaker_submit_directory"]).startswith("s3://my-bucket/code/sagemaker-scikit-learn-")
    assert estimator.create_model().env == {}  # The environment is that of the training job only.
    predictor = estimator.deploy(
        1,
        "ml.m5.large",
        CSVSerializer(),
        JSONDeserializer(),
        None,
        "says",
        env={"SCALE": "9"},
        entry_point="serve.py",
        model_name="my-model",
        role="other",
        tags=[],
    )
    assert predictor.predict([[1]]) == ["src/serve.py", "9", "10"]
    assert session.describe_model("my-model")["Environment"] == {"SCALE": "9"}
    estimator.delete_model()
    with pytest.raises(ValueError, match="no model"):
        session.describe_model("my-model")
    with pytest.raises(TypeError, match="SKLearnModel has no argument 'evn'; did you mean env?"):
        estimator.deploy(evn={})
    with pytest.raises(ValueError, match="use_compiled_model: models are not compiled here"):
        estimator.deploy(use_compiled_model=True)
    transformer = estimator.transformer(1, "ml.m5.large", "SingleRecord", "Line", model_name="of-transform")
    assert (transformer.model_name, transformer.strategy, transformer.assemble_with) == (
        "of-transform",
        "SingleRecord",
        "Line",
    )
    with pytest.raises(ValueError, match="no InvocationsMaxRetry; it has InvocationsTimeoutInSeconds and"):
        transformer.transform("s3://my-bucket/in", model_client_config={"InvocationsMaxRetry": 9})
    transformer = estimator.transformer(output_path="out")
    with pytest.raises(ValueError, match="begins with s3:// or file://, found 'out'"):
        transformer.transform("s3://my-bucket/in")
    assert transformer.latest_transform_job is None


def test_arguments_that_would_change_the_result(session):
    for name, value in (("disable_output_compression", True), ("checkpoint_local_path", "/opt/ml/mine")):
        with pytest.raises(ValueError, match=name):
            sagemaker.SKLearn("x.py", **{name: value}, sagemaker_session=session)
    with pytest.raises(ValueError, match="additional_model_data_sources: a container has one model here"):
        sagemaker.SKLearnModel("s3://b/m", entry_point="x.py", additional_model_data_sources=[{}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sagemaker.SKLearn(
            "x.py",
            disable_output_compression=False,
            checkpoint_local_path="/opt/ml/checkpoints",
            sagemaker_session=session,
        )
