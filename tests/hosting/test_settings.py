"""Validation of settings, and settings from environment variables."""

import json

import pytest
from tests.hosting.places import sample

from headrace.hosting.settings import Settings
from headrace.hosting.stage import Stage, check_stages, container_names, load_handler
from headrace.io.system import usable_cores


@pytest.mark.parametrize(
    "bad",
    [{"port": -1}, {"port": 65536}, {"threads": 0}, {"timeout_s": 0}, {"timeout_s": float("nan")}, {"workers": -1}, {"batch": 0},
     {"gather_ms": -1}, {"concurrency": 0}, {"max_payload_bytes": 0}],
)  # fmt: skip
def test_settings_that_make_no_sense(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        Settings(**bad)


def test_the_environment_of_a_container():
    found = Settings().with_environment(
        {
            "SAGEMAKER_BIND_TO_PORT": "9090",
            "SAGEMAKER_MODEL_SERVER_WORKERS": "3",
            "SAGEMAKER_MODEL_SERVER_TIMEOUT": "30",
            "MAX_CONTENT_LENGTH": "1000",
        }
    )
    assert (found.port, found.num_workers, found.timeout_s, found.max_payload_bytes) == (9090, 3, 30.0, 1000)
    assert Settings().with_environment({}) == Settings()
    with pytest.raises(ValueError, match="SAGEMAKER_BIND_TO_PORT must be a number, got 'x'"):
        Settings().with_environment({"SAGEMAKER_BIND_TO_PORT": "x"})


def test_one_worker_for_each_processor():
    assert Settings().num_workers == usable_cores() >= 1


def test_plain_values_and_back():
    settings = Settings(port=0, workers=3, debug=True)
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    stage = sample("echo", arguments={"mark": "a"}, name="one", environment={"A": "b"}, model_dir="m")
    assert Stage.from_json(json.loads(json.dumps(stage.to_json()))) == stage


@pytest.mark.parametrize(
    "bad",
    [{"factory": "module"}, {"factory": ":name"}, {"factory": "a:b", "name": "a b"}, {"factory": "a:b", "name": "../x"},
     {"factory": "a:b", "name": "x" * 64}, {"factory": "a:b", "environment": {"A": "x" * 1025}}, {"factory": "a:b", "environment": {"": "x"}},
     {"factory": "a:b", "environment": {f"A{i}": "" for i in range(101)}}],
)  # fmt: skip
def test_stages_that_sagemaker_would_refuse(bad):
    with pytest.raises(ValueError):
        Stage(**bad)


def test_containers_that_make_no_endpoint(echo):
    with pytest.raises(ValueError, match="1 to 15"):
        check_stages([])
    with pytest.raises(ValueError, match="1 to 15"):
        check_stages([echo] * 16)
    with pytest.raises(ValueError, match="either all"):
        check_stages([echo, sample("echo", name="b")])
    with pytest.raises(ValueError, match="same name"):
        check_stages([sample("echo", name="b")] * 2)
    with pytest.raises(ValueError, match="32768"):
        check_stages([sample("echo", environment={f"A{i}": "x" * 1000 for i in range(34)})])
    check_stages([echo] * 15)
    assert container_names([echo, echo]) == ["container-1", "container-2"]


def test_loading_a_handler(tmp_path):
    (tmp_path / "model.txt").write_text("learned")
    handler = load_handler(sample("Container", model_dir=str(tmp_path)))
    assert handler(None).body == b"learned"
    with pytest.raises(TypeError, match="returned int, which cannot answer"):
        load_handler(sample("no_handler"))
