"""A folder instead of an AWS account."""

import errno
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.io.injected_faults import Faults

from headrace import sagemaker
from headrace.contracts.job import Channel
from headrace.jobs.store import list_objects
from headrace.sagemaker import Session, TrainingInput, get_execution_role, get_image_uri, image_uris, s3_input
from headrace.sagemaker.deserializers import csv_deserializer
from headrace.sagemaker.inputs import channels_of
from headrace.sagemaker.s3 import S3Uploader
from headrace.sagemaker.serializers import csv_serializer, numpy_to_record_serializer
from headrace.sagemaker.session import base_from_name, name_from_base

BUCKET = "sagemaker-us-east-1-000000000000"


def test_a_file_goes_up_and_comes_back(session, tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1,2\n")
    uri = session.upload_data(tmp_path / "x.csv", key_prefix="abalone/train")
    assert uri == f"s3://{BUCKET}/abalone/train/x.csv"
    assert session.resolve(uri).read_bytes() == b"1,2\n"
    assert session.list_s3_files(BUCKET, "abalone") == ["abalone/train/x.csv"]
    assert session.read_s3_file(BUCKET, "abalone/train/x.csv") == "1,2\n"
    copies = session.download_data(tmp_path / "back", BUCKET, "abalone")
    assert [Path(copy).read_bytes() for copy in copies] == [b"1,2\n"]


def test_a_folder_goes_up_as_a_prefix(session, tmp_path):
    for name in ("a/1.csv", "b/2.csv"):
        (tmp_path / "data" / name).parent.mkdir(parents=True)
        (tmp_path / "data" / name).write_bytes(name.encode())
    sizes = []
    uri = session.upload_data(str(tmp_path / "data"), bucket="my-bucket", key_prefix="p", callback=sizes.append)
    assert uri == "s3://my-bucket/p"
    assert [one.uri for one in session.objects(uri)] == ["s3://my-bucket/p/a/1.csv", "s3://my-bucket/p/b/2.csv"]
    assert sizes == [7, 7]


def test_texts(session):
    uri = session.upload_string_as_file_body("hello", "my-bucket", "a/b.txt")
    assert uri == "s3://my-bucket/a/b.txt"
    assert session.read_s3_file("my-bucket", "a/b.txt") == "hello"


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("s3://my-bucket/../x", "'..'"),
        ("s3://my-bucket/a/../../x", "'..'"),
        ("s3://../x", "bucket"),
        ("s3://UPPER/x", "bucket"),
        ("https://my-bucket/x", "s3://"),
        ("x.csv", "s3://"),
    ],
)
def test_uris_that_lead_elsewhere(session, uri, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        session.resolve(uri)


@pytest.mark.parametrize("start", ["/", "//", "a//", "/a//"])
def test_empty_parts_of_a_key_stay_in_the_bucket(session, tmp_path, start):
    outside = str(tmp_path / "outside").lstrip("/")
    uri = session.upload_string_as_file_body("hello", "my-bucket", f"{start}{outside}/x.txt")
    assert session.resolve(uri).is_relative_to(session.resolve("s3://my-bucket"))
    assert not (tmp_path / "outside").exists()
    assert session.read_s3_file("my-bucket", f"{start}{outside}/x.txt") == "hello"
    (one,) = session.objects(uri.rpartition("/")[0])
    assert one.uri == uri


def test_an_empty_prefix_in_a_uri(session, tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1\n")
    session.upload_data(tmp_path / "x.csv", bucket="my-bucket", key_prefix="")
    session.upload_data(tmp_path / "x.csv", bucket="my-bucket-2", key_prefix="")
    prefix = ""
    assert session.resolve(f"s3://my-bucket/{prefix}/x.csv").read_bytes() == b"1\n"
    for uri in ("s3://my-bucket", "s3://my-bucket/", "s3://my-bucket//", f"s3://my-bucket/{prefix}/x"):
        (one,) = list_objects(Channel(uri=uri), session.store, "channel train")
        assert (one.name, one.path.read_bytes()) == ("x.csv", b"1\n")


def test_linked_folders_are_uploaded(session, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.csv").write_bytes(b"1\n")
    (tmp_path / "data" / "link").symlink_to(tmp_path / "elsewhere")
    uri = session.upload_data(tmp_path / "data", key_prefix="p")
    assert [one.uri for one in session.objects(uri)] == [f"s3://{BUCKET}/p/link/x.csv"]


def test_links_that_lead_nowhere_are_not_uploaded(session, tmp_path):
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "x.csv").write_bytes(b"1\n")
    (tmp_path / "data" / "deep" / "lost.csv").symlink_to("nowhere")
    with pytest.raises(ValueError, match=r"deep/lost\.csv in .* cannot be uploaded: it is a link that leads nowhere"):
        session.upload_data(tmp_path / "data", key_prefix="p")
    assert session.objects(f"s3://{BUCKET}/p") == []


def test_an_object_whose_key_ends_in_a_slash_is_a_folder(session, tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    assert S3Uploader.upload_string_as_file_body("", "s3://my-bucket/dir/", sagemaker_session=session).endswith("/dir/")
    assert session.upload_data(tmp_path / "a", "my-bucket", "dir") == "s3://my-bucket/dir/a"
    assert [one.uri for one in session.objects("s3://my-bucket/dir/")] == ["s3://my-bucket/dir/a"]
    with pytest.raises(ValueError, match="ends in a slash"):
        S3Uploader.upload_bytes(b"1", "s3://my-bucket/other/", sagemaker_session=session)


def test_relative_files_as_in_local_mode(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "a b.csv").write_bytes(b"1\n")
    for uri in ("file://./data", "file://data", (tmp_path / "data").as_uri(), f"file://localhost{tmp_path}/data"):
        assert session.resolve(uri) == tmp_path / "data"
        (one,) = session.objects(uri)
        assert (one.uri, one.path.read_bytes()) == (f"{uri}/deep/a b.csv", b"1\n")
    assert session.resolve("file://data/deep/a%20b.csv").read_bytes() == b"1\n"


def test_missing_files(session, tmp_path):
    with pytest.raises(ValueError, match="no file or folder"):
        session.upload_data(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no training job"):
        session.describe_training_job("nothing")
    with pytest.raises(ValueError, match="no model"):
        session.describe_model("nothing")


def test_models_are_found_by_another_session(session):
    session.save_model("my-model", {"ModelName": "my-model"})
    assert Session(session.root).describe_model("my-model") == {"ModelName": "my-model"}
    session.delete_model("my-model")
    session.delete_model("my-model")
    with pytest.raises(ValueError, match="no model"):
        session.describe_model("my-model")
    with pytest.raises(ValueError, match="letters"):
        session.save_model("../x", {})


def test_default_locations(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_SAGEMAKER_DIR", str(tmp_path / "here"))
    assert Session().root == tmp_path / "here"
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert Session(default_bucket=None).default_bucket() == "sagemaker-eu-west-1-000000000000"
    assert Session(default_bucket="mine").default_bucket() == "mine"
    assert get_execution_role().startswith("arn:aws:iam::")


def test_names():
    names = [name_from_base("a" * 100) for _ in range(5)]
    assert len(set(names)) == 5
    assert all(len(name) == 63 for name in names)
    assert [base_from_name(name) for name in (name_from_base("a-b"), "a-2026", "-2026-01-02-03-04-05-006")] == [
        "a-b",
        "a-2026",
        "-2026-01-02-03-04-05-006",
    ]
    model = sagemaker.SKLearnModel("s3://b-b/x", "r", "x.py", name=name_from_base("mine"))
    assert re.fullmatch(r"mine(-\d+){7}", model._name_for_endpoint())
    assert re.fullmatch(r"job-\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-\d{3}", name_from_base("job"))


def test_images():
    assert image_uris.retrieve("linear-learner", "us-east-1") == (
        "382416733822.dkr.ecr.us-east-1.amazonaws.com/linear-learner:1"
    )
    assert image_uris.retrieve("sklearn", "us-east-1", "1.2-1").endswith("/sagemaker-scikit-learn:1.2-1-cpu-py3")
    by_position = image_uris.retrieve("sklearn", "us-east-1", "1.2-1", "py3", "ml.m5.xlarge")
    assert by_position == image_uris.retrieve("sklearn", "us-east-1", version="1.2-1", py_version="py3")
    with pytest.raises(ValueError, match="does not run here"):
        image_uris.retrieve("xgboost", "us-east-1", "1")
    with pytest.raises(ValueError, match="version"):
        image_uris.retrieve("sklearn", "us-east-1", "9")
    with pytest.warns(DeprecationWarning, match="get_image_uri"):
        assert get_image_uri("us-east-1", "linear-learner").endswith("linear-learner:1")


def test_inputs():
    assert list(channels_of("s3://b-b/x", "File")) == ["training"]
    channel = channels_of({"train": TrainingInput("s3://b-b/x", content_type="text/csv", distribution="ShardedByS3Key")}, "Pipe")["train"]  # fmt: skip
    assert (channel.content_type, channel.distribution, channel.input_mode) == ("text/csv", "ShardedByS3Key", "Pipe")
    with pytest.warns(DeprecationWarning, match="TrainingInput"):
        assert s3_input("s3://b-b/x", content_type="text/csv").content_type == "text/csv"
    with pytest.raises(ValueError, match="must start with"):
        channels_of("x.csv", "File")
    with pytest.raises(ValueError, match="Cannot format input"):
        channels_of([1], "File")
    assert TrainingInput("s3://b-b/x", instance_groups=["one"], target_attribute_name="y").input_mode is None


@pytest.mark.parametrize(
    "call",
    [
        lambda session, image: sagemaker.SKLearn("x.py", train_instance_type="a", sagemaker_session=session),
        lambda session, image: sagemaker.Estimator(image_name=image, sagemaker_session=session),
        lambda session, image: sagemaker.LinearLearner(
            predictor_type="regressor", train_max_run=3, sagemaker_session=session
        ),
        lambda session, image: sagemaker.Model(image=image, sagemaker_session=session),
        lambda session, image: sagemaker.SKLearnModel(
            "s3://b-b/x", "r", "x.py", image=image, sagemaker_session=session
        ),
        lambda session, image: s3_input("s3://b-b/x"),
        lambda session, image: get_image_uri("us-east-1", "linear-learner"),
        lambda session, image: csv_serializer([1]),
        lambda session, image: csv_deserializer(io.BytesIO(b"1")),
        lambda session, image: numpy_to_record_serializer(),
    ],
)
def test_old_names_warn_at_the_line_that_uses_them(session, call):
    image = image_uris.retrieve("linear-learner", "us-east-1")
    with pytest.warns(DeprecationWarning, match="version 2 of the SDK") as reported:
        call(session, image)
    assert {one.filename for one in reported} == {__file__}


def test_modules_are_there_without_importing_them():
    code = (
        "from headrace import sagemaker\n"
        "sagemaker.s3.S3Uploader, sagemaker.utils.name_from_base, sagemaker.local.LocalSession, sagemaker.LocalSession\n"
        "sagemaker.content_types.CONTENT_TYPE_CSV, sagemaker.amazon.amazon_estimator.get_image_uri\n"
        "sagemaker.amazon.common.write_numpy_to_dense_tensor, sagemaker.amazon.linear_learner.LinearLearner\n"
        "sagemaker.sklearn.estimator.SKLearn, sagemaker.estimator.Estimator, sagemaker.model.Model\n"
        "sagemaker.pipeline.PipelineModel, sagemaker.predictor.Predictor, sagemaker.session.s3_input\n"
        "sagemaker.inputs.TrainingInput, sagemaker.transformer.Transformer, sagemaker.image_uris.retrieve\n"
        "sagemaker.serializers.CSVSerializer, sagemaker.deserializers.JSONDeserializer\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("go", ["upload", "text", "download"])
def test_faults_of_the_disk_name_the_file_and_leave_nothing(session, tmp_path, go):
    (tmp_path / "x.csv").write_bytes(b"1,2\n" * 100_000)
    session.upload_data(tmp_path / "x.csv", key_prefix="there")
    calls = {
        "upload": lambda: session.upload_data(tmp_path / "x.csv"),
        "text": lambda: session.upload_string_as_file_body("x" * 400_000, "my-bucket", "a"),
        "download": lambda: session.download_data(tmp_path / "back", BUCKET, "there"),
    }
    faults = Faults(tmp_path, session.root)
    with faults.counting():
        calls[go]()
    for name in ("data/x.csv",):
        session.resolve(f"s3://{BUCKET}/{name}").unlink(missing_ok=True)
    session.resolve("s3://my-bucket/a").unlink(missing_ok=True)
    before = sorted(path for path in session.root.rglob("*") if path.is_file())
    failed = 0
    for number in range(faults.counts["write"]):
        with faults.failing("write", number, errno.ENOSPC), pytest.raises(OSError, match="No space") as raised:
            calls[go]()
        assert raised.value.filename is not None
        assert sorted(path for path in session.root.rglob("*") if path.is_file()) == before
        failed += 1
    assert failed


def test_copies_are_named_as_the_objects(session, tmp_path):
    for key in ("data/train.csv", "data/train.csv.bak", "data/train-2.csv", "ab", "a/ab"):
        session.upload_string_as_file_body(key, "my-bucket", key)

    def copies(prefix):
        found = map(Path, session.download_data(tmp_path / "back", "my-bucket", prefix))
        return {one.relative_to(tmp_path / "back").as_posix(): one.read_text() for one in found}

    assert copies("data/train.csv") == {one: f"data/{one}" for one in ("train.csv", "train.csv.bak")}
    every = {one: f"data/{one}" for one in ("train.csv", "train.csv.bak", "train-2.csv")}
    assert copies("data/tr") == copies("data") == copies("data/") == every
    with pytest.raises(ValueError, match="two objects that begin with s3://my-bucket/a would both be"):
        copies("a")


def test_the_home_folder(session, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    session.upload_string_as_file_body("1", "my-bucket", "x.csv")
    assert session.download_data("~/back", "my-bucket", "x.csv") == [str(tmp_path / "home" / "back" / "x.csv")]
    assert not Path("~").exists()


def test_an_empty_path_is_not_the_current_folder(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="a path to upload, found an empty text"):
        session.upload_data("")
    with pytest.raises(ValueError, match='must start with "s3://" or "file://"'):
        channels_of("file://", "File")
    with pytest.raises(ValueError, match="expected a path, found 'file://'"):
        session.resolve("file://")


def test_an_object_in_the_place_of_a_folder(session):
    session.upload_string_as_file_body("1", "my-bucket", "k")
    with pytest.raises(ValueError, match="s3://my-bucket/k/x/y cannot be an object, because a part of its key is one"):
        session.upload_string_as_file_body("2", "my-bucket", "k/x/y")
    session.upload_string_as_file_body("1", "my-bucket", "folder/x")
    with pytest.raises(ValueError, match="because other objects begin with s3://my-bucket/folder/"):
        session.upload_string_as_file_body("2", "my-bucket", "folder")


def test_arguments_by_position(session, tmp_path):
    (tmp_path / "x.csv").write_bytes(b"1,2\n")
    sizes = []
    session.upload_data(tmp_path / "x.csv", None, "data", sizes.append)
    assert sizes == [4]
    given = TrainingInput("s3://b/x", None, None, None, None, "S3Prefix", ["group"], "Pipe")
    assert (given.instance_groups, given.input_mode) == (["group"], "Pipe")


def test_an_input_as_the_api_describes_it():
    assert TrainingInput("s3://b/x", content_type="text/csv", input_mode="Pipe").config == {
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": "s3://b/x",
                "S3DataDistributionType": "FullyReplicated",
            }
        },
        "ContentType": "text/csv",
        "InputMode": "Pipe",
    }
