"""The modules that scripts import, compared with the original packages."""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from headrace.containers.toolkit import (
    encoders,
    environment,
    errors,
    functions,
    inference_decoder,
    inference_encoder,
    inference_utils,
    logs,
    mapping,
    modules,
    params,
    serving_environment,
    shim,
    transformer,
    worker,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "toolkit" / "toolkits.json").read_text(encoding="utf-8"))
FAMILIES = {
    "containers": (encoders.encode, encoders.decode),
    "inference": (inference_encoder.encode, inference_decoder.decode),
}


def outcome(function, *args):
    """In the form of the golden file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = function(*args)
    except Exception as error:
        return {"error": type(error).__name__}
    if isinstance(found, bytes):
        return {"hex": found.hex()}
    if isinstance(found, np.ndarray):
        dtype = str(found.dtype) if found.dtype.names is None else "structured"
        return {
            "dtype": dtype,
            "shape": list(found.shape),
            "values": json.loads(json.dumps(found.tolist(), default=str)),
        }
    return {"text": found}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", GOLDEN["encode"], ids=lambda case: f"{case['dtype']}-{case['type']}")
def test_encoding(case, family):
    array = np.array(case["value"], dtype=case["dtype"])
    assert outcome(FAMILIES[family][0], array, case["type"]) == case[family]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", GOLDEN["decode"], ids=lambda case: repr(case["text"]))
def test_decoding(case, family):
    np.testing.assert_equal(outcome(FAMILIES[family][1], case["text"], "text/csv"), case[family])


@pytest.mark.parametrize("name", ["to_cmd_args", "to_env_vars"])
def test_mappings(name):
    for case in GOLDEN[name]:
        assert getattr(mapping, name)(case["given"]) == case["found"]


def test_texts_of_errors():
    texts = GOLDEN["errors"]
    info = "OutOfMemory: Process killed by SIGKILL (signal 9)"
    assert str(errors.UnsupportedFormatError("a/b")) == texts["unsupported"] == texts["unsupported_inference"]
    assert str(errors.ExecuteUserScriptError("python a.py", 1, "boom")) == texts["script"]
    assert str(errors.ExecuteUserScriptError("python a.py", 137, b"", info)) == texts["killed"]
    assert str(errors.ChannelDoesNotExistError("x")) == texts["channel"]


def test_the_environment_of_a_tree(tmp_path, monkeypatch):
    for name, content in GOLDEN["environment"]["tree"].items():
        path = tmp_path / "input" / "config" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(tmp_path))
    monkeypatch.setenv("TRAINING_JOB_NAME", "job")
    monkeypatch.delenv("SAGEMAKER_PROGRAM", raising=False)
    found = environment.training_env().to_env_vars()
    reported = json.loads(json.dumps(found).replace(str(tmp_path), "BASE"))
    expected = GOLDEN["environment"]["variables"]
    assert {name: reported.get(name) for name in expected} == expected
    assert set(reported) - set(expected) == {"SM_NUM_CPUS", "SM_NUM_GPUS", "SM_NUM_NEURONS", "SM_TRAINING_ENV"}
    training_env = json.loads(reported["SM_TRAINING_ENV"])
    wanted = {
        **GOLDEN["environment"]["training_env"],
        "is_modelparallel_enabled": False,
    }  # the original has None for it
    assert {name: training_env.get(name) for name in wanted} == wanted
    assert environment.channel_path("train") == str(tmp_path / "input" / "data" / "train")
    assert environment.read_resource_config()["current_host"] == "algo-2"
    assert list(environment.read_input_data_config()) == ["train", "my-test.x"]
    assert environment.model_dir == str(tmp_path / "model")
    assert environment.ServingEnv is serving_environment.ServingEnvironment
    with pytest.raises(AttributeError):
        environment.nothing


def test_an_environment_is_a_mapping(tmp_path):
    env = environment.Environment({"hosts": ["a"], "current_host": "a"}, {}, {"n": 3}, str(tmp_path))
    assert env["hyperparameters"] == {"n": 3}
    assert dict(env)["is_master"] is True
    assert len(env) == len(list(env))
    assert "hosts" in str(env)
    with pytest.raises(KeyError):
        env["to_env_vars"]


def test_the_serving_environment(monkeypatch):
    for name in ("SAGEMAKER_PROGRAM", "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT", "SAGEMAKER_BIND_TO_PORT"):
        monkeypatch.delenv(name, raising=False)
    env = serving_environment.Environment()
    assert (env.module_name, env.default_accept, env.inference_http_port, env.model_server_timeout) == (
        "inference", "application/json", "8080", 60,
    )  # fmt: skip
    monkeypatch.setenv(params.USER_PROGRAM_ENV, "mine.py")
    monkeypatch.setenv(params.DEFAULT_INVOCATIONS_ACCEPT_ENV, "text/csv")
    monkeypatch.setenv(params.MODEL_SERVER_WORKERS_ENV, "3")
    assert (env.module_name, env.default_accept, env.model_server_workers) == ("mine", "text/csv", 3)
    assert dict(env)["use_nginx"] is False


@pytest.mark.parametrize(
    ("response", "body", "status", "content_type"),
    [
        (worker.Response(), b"", 200, "application/json"),
        (worker.Response("é", "text/csv", mimetype="text/csv"), "é".encode(), 200, "text/csv; charset=utf-8"),
        (worker.Response(b"x", mimetype="application/x-npy"), b"x", 200, "application/x-npy"),
        (worker.Response(["a", b"b"], status="404 NOT FOUND"), b"ab", 404, "application/json"),
        (worker.Response("a", headers={"content-type": "a/b"}), b"a", 200, "a/b"),
        (
            worker.Response("a", headers=[("X-A", 1)], mimetype="text/csv;charset=latin-1"),
            b"a",
            200,
            "text/csv;charset=latin-1",
        ),
    ],
)
def test_responses(response, body, status, content_type):
    assert (response.get_data(), response.data, response.status_code, response.content_type) == (
        body,
        body,
        status,
        content_type,
    )
    assert response.mimetype == content_type.partition(";")[0]
    assert response.response == [body]


def test_responses_can_be_changed():
    response = worker.Response("a")
    response.data = "b"
    assert response.get_data(as_text=True) == "b"
    response.set_data("c")
    response.mimetype = "text/plain"
    response.headers["x-a"] = 1
    response.headers["X-A"] = 2
    assert (response.data, response.content_type, response.status) == (b"c", "text/plain; charset=utf-8", "200 OK")
    assert response.headers.get("x-A") == "2"
    assert response.headers.get("nothing") is None
    with pytest.raises(TypeError, match="text or bytes"):
        worker.Response(3)
    with pytest.raises(AttributeError, match="Headrace runs for you"):
        worker.Worker


def test_default_functions():
    assert transformer.default_input_fn("1,2", "text/csv").tolist() == [1, 2]
    assert transformer.default_output_fn(np.array([1]), "application/json").data == b"[1]"
    handler = transformer.DefaultInferenceHandler()
    assert handler.default_input_fn("[1]", "application/json").tolist() == [1]
    assert handler.default_output_fn([1], "a/b, text/csv") == ("1\n", "text/csv")
    with pytest.raises(errors.UnsupportedFormatError):
        handler.default_output_fn([1], "a/b")
    for call in (transformer.default_model_fn, handler.default_model_fn):
        with pytest.raises(NotImplementedError, match="Please provide a model_fn implementation"):
            call("x")
    for call in (transformer.default_predict_fn, handler.default_predict_fn):
        with pytest.raises(NotImplementedError, match="Please provide a predict_fn implementation"):
            call("x", "y")


def test_small_functions(tmp_path):
    assert functions.matching_args(lambda a, b: None, {"a": 1, "c": 2}) == {"a": 1}
    assert functions.matching_args(lambda **k: None, {"a": 1}) == {"a": 1}
    with pytest.raises(errors.ClientError):
        functions.error_wrapper(lambda: 1 / 0, errors.ClientError)()
    assert functions.call_with_context(lambda a, context: (a, context), "c", 1) == (1, "c")
    with pytest.raises(TypeError, match="takes 3 arguments but 1 were given"):
        functions.call_with_context(lambda a, b, c: None, "c", 1)
    assert inference_utils.retrieve_content_type_header({"contentType": "a/b"}) == "a/b"
    assert inference_utils.retrieve_content_type_header({"Accept": "a/b"}) is None
    assert inference_utils.remove_crlf("a\r\nb") == "a  b"
    inference_utils.write_file(str(tmp_path / "x"), "1")
    assert inference_utils.read_file(str(tmp_path / "x")) == "1"


def test_importing_and_running_modules(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "a_module_of_the_user.py").write_text(
        "import os, sys\nN = 3\nif sys.argv[1:2] == ['x']: sys.exit(int(os.environ['CODE']))\n"
    )
    assert modules.import_module(tmp_path.as_uri(), "a_module_of_the_user.py").N == 3
    assert modules.exists("json")
    assert not modules.exists("nothing_of_this_name")
    assert not modules.has_requirements(str(tmp_path))
    assert modules.run_module(str(tmp_path), ["x"], {"CODE": 0}, "a_module_of_the_user").returncode == 0
    with pytest.raises(errors.ExecuteUserScriptError, match="ExitCode 3"):
        modules.run_module(str(tmp_path), ["x"], {"CODE": 3}, "a_module_of_the_user", capture_error=True)
    with pytest.raises(errors.ImportModuleError, match="no folder"):
        modules.import_module("s3://bucket/x", "y")
    with pytest.raises(errors.ImportModuleError, match="nothing_of_this_name"):
        modules.import_module(str(tmp_path), "nothing_of_this_name")


def test_running_a_module_in_the_background(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "background.py").write_text("import os, sys\nsys.exit(int(os.environ['CODE']) + len(sys.argv))\n")
    assert modules.run("background", ["x"], {"CODE": 3}, wait=False).wait() == 5
    with pytest.raises(errors.ExecuteUserScriptError, match="ExitCode 4"):
        modules.run("background", env_vars={"CODE": 3}, capture_error=True)


def test_installing_a_folder(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(
        modules.subprocess, "run", lambda command, **options: commands.append((command, options["cwd"])) or FakeEnd
    )
    modules.install(str(tmp_path))
    (tmp_path / "requirements.txt").write_text("")
    modules.install(str(tmp_path))
    assert [(command[1:], folder) for command, folder in commands] == [
        (["-m", "pip", "install", "."], str(tmp_path)),
        (["-m", "pip", "install", ".", "-r", "requirements.txt"], str(tmp_path)),
    ]


class FakeEnd:
    returncode = 0


def test_logging(monkeypatch):
    given = {}
    monkeypatch.setattr(logs.logging, "basicConfig", lambda **options: given.update(options))
    logs.configure_logger(20)
    assert given["level"] == 20
    assert "%(message)s" in given["format"]
    logs.configure_logger(10, "%(message)s", force=True)
    assert given == {"level": 10, "format": "%(message)s", "force": True}
    assert logs.get_logger().name == "sagemaker-containers"


@pytest.mark.parametrize(("output", "count"), [("GPU 0: A\nGPU 1: B\n", 2), (None, 0)])
def test_graphics_processors_are_counted(tmp_path, monkeypatch, output, count):
    command = tmp_path / "nvidia-smi"
    command.write_text("#!/bin/sh\nexit 1\n" if output is None else f"#!/bin/sh\nprintf '{output}'\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert environment.num_gpus.__wrapped__() == count


def test_the_real_packages_are_left_alone_outside():
    fake = type(sys)("sagemaker_inference")
    sys.modules["sagemaker_inference"] = fake
    try:
        with shim.inside(), shim.inside():
            import sagemaker_inference
            from sagemaker_inference import content_types

            assert sagemaker_inference is not fake
            assert content_types.CSV == "text/csv"
        assert sys.modules["sagemaker_inference"] is fake
    finally:
        del sys.modules["sagemaker_inference"]
    assert not [name for name in sys.modules if name.partition(".")[0] in shim.ROOTS]
    assert shim._FINDER not in sys.meta_path


@pytest.mark.parametrize("name", shim.MODULES)
def test_every_name_resolves(name):
    import importlib

    with shim.inside():
        module = importlib.import_module(name)
        package = importlib.import_module(name.rpartition(".")[0])
        assert getattr(package, name.rpartition(".")[2]) is module
    assert name not in sys.modules


def test_joblib_is_not_left_in_sklearn():
    import sklearn.externals

    with shim.inside():
        from sklearn.externals import joblib
    assert joblib.__name__ == "joblib"
    assert "joblib" not in vars(sklearn.externals)
    with shim.inside():
        from sklearn.externals import joblib as again

        assert sklearn.externals.joblib is joblib  # as a previously loaded script may write it
    assert again is joblib


def test_flask_and_werkzeug_where_they_are_not_installed(monkeypatch):
    monkeypatch.setattr(sys, "path", [])  # whatever version is installed here
    for _ in range(2):
        with shim.inside():
            import flask
            import werkzeug
            from werkzeug.wrappers import Response

            answer = Response("a,b", 201, {"x-a": "1"}, mimetype="text/csv")
            assert (answer.data, answer.status_code, answer.headers["X-A"]) == (b"a,b", 201, "1")
            assert answer.content_type == "text/csv; charset=utf-8"
            assert flask.Response("a").content_type == "text/html; charset=utf-8"
            assert flask.Response("a", content_type="text/csv").content_type == "text/csv"
            assert werkzeug.wrappers.Response is flask.Response
            with pytest.raises(
                AttributeError, match="not installed, and of theirs Headrace has only Response, not Flask"
            ):
                flask.Flask
        assert not {"flask", "werkzeug", "werkzeug.wrappers"} & sys.modules.keys()


def test_flask_where_it_is_installed(tmp_path, monkeypatch):
    (tmp_path / "flask.py").write_text("Response = 'its own'\n")
    monkeypatch.syspath_prepend(tmp_path)
    with shim.inside():
        from flask import Response
    assert Response == "its own"
    assert sys.modules.pop("flask").__file__ == str(tmp_path / "flask.py")
