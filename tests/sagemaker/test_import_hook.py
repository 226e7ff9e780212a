"""Notebooks that import ``sagemaker``."""

import importlib
import sys
from types import ModuleType

import pytest

import headrace.sagemaker
from headrace.sagemaker import serializers
from headrace.sagemaker.import_hook import install_as_sagemaker


@pytest.fixture
def installed(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "sagemaker"]:
        monkeypatch.delitem(sys.modules, name)
    undo = install_as_sagemaker()
    yield undo
    undo()


def run(text):
    names = {}
    exec(text, names)
    return names


@pytest.mark.usefixtures("installed")
def test_every_form_of_import_gives_the_same_module():
    found = run("""
import sagemaker
import sagemaker.amazon.common as smac
from sagemaker import get_execution_role, image_uris
from sagemaker.amazon.amazon_estimator import get_image_uri, image_uris as same
from sagemaker.base_predictor import Predictor
from sagemaker.base_serializers import CSVSerializer as base
from sagemaker.local.local_session import LocalSession
from sagemaker.serializers import CSVSerializer
from sagemaker.sklearn.estimator import SKLearn
""")
    assert found["sagemaker"] is headrace.sagemaker
    assert found["CSVSerializer"] is found["base"] is serializers.CSVSerializer
    assert found["Predictor"] is headrace.sagemaker.Predictor
    assert found["image_uris"] is found["same"]
    assert found["SKLearn"] is headrace.sagemaker.SKLearn
    assert found["smac"].__spec__.name == "headrace.sagemaker.amazon.common"
    assert importlib.reload(found["smac"]) is found["smac"]


def test_it_can_be_undone(installed):
    run("import sagemaker.serializers")
    before = [one for one in sys.meta_path if type(one).__module__.startswith("headrace.sagemaker")]
    assert install_as_sagemaker() == installed
    assert [one for one in sys.meta_path if type(one).__module__.startswith("headrace.sagemaker")] == before
    installed()
    assert not [name for name in sys.modules if name.partition(".")[0] == "sagemaker"]
    assert not [one for one in sys.meta_path if type(one).__module__.startswith("headrace.sagemaker")]
    installed()


def test_not_over_the_sdk_itself(monkeypatch):
    module = ModuleType("sagemaker")
    module.__file__ = "/packages/sagemaker/__init__.py"
    monkeypatch.setitem(sys.modules, "sagemaker", module)
    with pytest.raises(ImportError, match=r"already imported, from /packages/sagemaker/__init__\.py: call .* first"):
        install_as_sagemaker()
    assert not [one for one in sys.meta_path if type(one).__module__.startswith("headrace.sagemaker")]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("from sagemaker import KMeans", "sagemaker.KMeans is not on this machine: .* only Linear Learner"),
        ("from sagemaker.amazon.kmeans import KMeans", "sagemaker.amazon.kmeans is not on this machine"),
        ("import sagemaker.tuner", "call fit in a loop"),
        ("import sagemaker; sagemaker.tuner.HyperparameterTuner", "call fit in a loop"),
        ("from sagemaker.workflow.steps import TrainingStep", "it is a service of AWS"),
        ("from sagemaker.pytorch import PyTorch", "give the script to SKLearn"),
        (
            "from sagemaker.inputs import FileSystemInput",
            "sagemaker.inputs.FileSystemInput is not on this machine: .*file://",
        ),
        (
            "import sagemaker.model as m; m.ModelPackage",
            "sagemaker.model.ModelPackage is not on this machine: it is a service",
        ),
        ("from sagemaker.exceptions import CapacityError", "it is a service of AWS"),
        ("from sagemaker.amazon.amazon_estimator import FileSystemRecordSet", "file://"),
        (
            "from sagemaker.logs import ColorWrap",
            "sagemaker.logs is not on this machine: the SDK needs it to talk to AWS",
        ),
        ("from sagemaker.utils import S3DataConfig", "the SDK needs it to talk to AWS"),
        ("from sagemaker.session import logger", "the SDK needs it to talk to AWS"),
        ("from sagemaker.sklearn.processing import SKLearnProcessor", "there are no processing jobs here"),
        ("from sagemaker.sklearn import SKLearnProcessor", "there are no processing jobs here"),
        ("from sagemaker.sparkml import SparkMLModel", "sagemaker.sparkml is not on this machine"),
        ("from sagemaker.predictor_async import AsyncPredictor", "it is a service of AWS"),
        ("from sagemaker.amazon import hyperparameter", "it belongs to the SDK's own code"),
        ("from sagemaker.local.image import _SageMakerContainer", "sagemaker.local.image is not on this machine"),
        ("from sagemaker.inputs import Nothing", "cannot import name 'Nothing'"),
        ("import sagemaker.nothing", "has no module 'nothing'"),
    ],
)
def test_missing_names_give_the_reason(statement, message):
    with pytest.raises(ImportError, match=message):
        run(statement)


def test_names_that_the_sdk_does_not_have():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = headrace.sagemaker.nothing
    assert not hasattr(headrace.sagemaker, "__wrapped__")


def test_missing_names_of_objects_say_why(tmp_path):
    session = headrace.sagemaker.Session(tmp_path)
    with pytest.raises(
        AttributeError, match="no attribute 'create_hub': attributes of the SDK's Session that need AWS"
    ):
        session.create_hub()
    assert not hasattr(session, "_repr_html_")


def test_the_prefix_of_the_default_bucket(tmp_path):
    assert headrace.sagemaker.Session(tmp_path).default_bucket_prefix is None
    session = headrace.sagemaker.Session(tmp_path, default_bucket_prefix="team/a/")
    (tmp_path / "x.csv").write_text("1")
    bucket = session.default_bucket()
    assert session.default_bucket_prefix == "team/a/"
    assert session.upload_data(tmp_path / "x.csv", key_prefix="in") == f"s3://{bucket}/team/a/in/x.csv"
    assert session.upload_data(tmp_path / "x.csv", bucket="other", key_prefix="in") == "s3://other/in/x.csv"


def test_attributes_that_only_the_sdk_has(session):
    model = headrace.sagemaker.SKLearnModel("file:///x.tar.gz", entry_point="x.py", sagemaker_session=session)
    pipeline = headrace.sagemaker.PipelineModel([model, model])
    with pytest.raises(
        AttributeError, match="'PipelineModel' object has no attribute 'vpc_config': attributes of the SDK's"
    ):
        _ = pipeline.vpc_config
    transformer = headrace.sagemaker.Transformer(pipeline, sagemaker_session=session)
    with pytest.raises(
        AttributeError,
        match="'Transformer' object has no attribute 'transform_with_monitoring': attributes of the SDK's",
    ):
        _ = transformer.transform_with_monitoring
    with pytest.raises(
        AttributeError, match="type object 'Transformer' has no attribute 'JOB_CLASS_NAME': attributes of"
    ):
        _ = headrace.sagemaker.Transformer.JOB_CLASS_NAME
    assert not hasattr(headrace.sagemaker.Predictor, "_repr_html_")
