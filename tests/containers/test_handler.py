"""Scripts as handlers of requests."""

import io
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.containers.conftest import DOUBLE, ask

from headrace.containers import bodies as decoding
from headrace.containers.script import ScriptContainer
from headrace.contracts.serving import AnswersMany, Handler, Response
from headrace.errors import JobFailed, RequestError


def test_the_defaults(load):
    handler = load()
    assert isinstance(handler, Handler)
    assert handler(ask("1,2\n3,4\n")).body == b"[6.0, 14.0]"
    assert handler(ask("1,2\n3,4\n", accept="text/csv")) == Response(body=b"6.0\n14.0\n", content_type="text/csv")


@pytest.mark.parametrize("content_type", ["text/csv", "text/csv; charset=utf-8", "TEXT/CSV"])
@pytest.mark.parametrize("body", ["1,2", "1,2\n", "1,2\r\n"])
def test_one_csv_row_is_one_row(load, body, content_type):
    assert json.loads(load()(ask(body, content_type)).body) == [6.0]


def test_one_column_is_as_many_rows(load):
    assert json.loads(load()(ask("1\n2\n")).body) == [2.0, 4.0]


def test_a_quirk_can_be_had_back(load):
    for dialect in ("sagemaker_containers", "sagemaker_inference"):
        handler = load(dialect=dialect)
        with pytest.raises(RequestError) as error:
            handler(ask("1,2", "text/csv; charset=utf-8"))
        assert error.value.status == 500
    with pytest.raises(RequestError, match="axis"):
        load(dialect="sagemaker_containers")(ask("1,2"))
    assert json.loads(load(dialect="sagemaker_inference")(ask("1\n2\n")).body) == [6.0]  # a column taken for a row


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        (ask("1", "image/png"), 415, "text/csv"),
        (ask("1,2", accept="image/png"), 406, "application/json"),
        (ask("1,2\n3"), 400, "row 2"),
        (ask(""), 400, "no rows"),
        (ask("1,M"), 400, "'M' at row 1, column 2"),
        (ask("[1,", "application/json"), 400, "JSON"),
        (ask("[[1], [1, 2]]", "application/json"), 400, "different lengths"),
        (ask('{"instances": [[1]]}', "application/json"), 400, "instances"),
        (ask("[" * 100_000, "application/json"), 400, "JSON"),
        (ask(b"\xff\xfe", "text/csv"), 400, "byte 0 is 0xff"),
        (ask("1", "text/csv; charset=klingon"), 415, "klingon"),
        (ask("1", "text/csv; charset=undefined"), 400, "undefined"),
        (ask(b"abc", "application/x-npy"), 400, "array"),
        (ask(b"PK", "application/x-npz"), 400, "npz"),
        (ask(b"abcdefgh", "application/x-recordio-protobuf"), 400, "RecordIO"),
    ],
)
def test_requests_at_fault(load, request_, status, words):
    with pytest.raises(RequestError) as error:
        load()(request_)
    assert error.value.status == status
    assert words in error.value.reason
    assert error.value.container == "serve"


def test_the_first_choice_that_can_be_answered(load):
    handler = load()
    for accept, content_type in [
        ("image/png, text/csv;q=0.5, application/json;q=0.1", "text/csv"),
        ("image/*, */*;q=0.1", "application/json"),
        ("text/*", "text/csv"),
    ]:
        assert handler(ask("1", accept=accept)).content_type == content_type


def test_a_script_that_exits_only_fails_the_request(load):
    handler = load(DOUBLE + "\n    def predict_fn(rows, model):\n        raise SystemExit(3)\n")
    with pytest.raises(RequestError, match="predict_fn failed with SystemExit: 3"):
        handler(ask("1"))


def test_a_panic_only_fails_the_request(load):
    handler = load("""
    class Panic(BaseException): pass
    def model_fn(d): return 1
    def predict_fn(x, m): raise Panic("out of bounds")
    """)
    with pytest.raises(RequestError, match="predict_fn failed with Panic: out of bounds") as error:
        handler(ask("1"))
    assert error.value.status == 500
    with pytest.raises(JobFailed, match="model_fn failed with BaseException: out"):
        load("def model_fn(d): raise BaseException('out')\ndef predict_fn(x, m): return x")
    with pytest.raises(JobFailed, match="cannot be imported: .*out"):
        load("raise BaseException('out')")


SETS = """
    import numpy as np
    def model_fn(d): return 1
    def transform_fn(m, body, content_type, accept, context):
        context.{call}
        return body, "text/plain"
"""


def test_numbers_of_numpy_as_status_and_header(load):
    status = load(SETS.format(call="set_response_status(np.int64(201))"))(ask("x")).status
    assert (status, type(status)) == (201, int)
    for call, words in (
        ('set_response_header(0, "X-Own", np.int64(3))', r"the header x-own must be a str, got .*3.*, a int64"),
        (
            'set_response_content_type(0, b"text/csv")',
            "the header content-type must be a str, got b'text/csv', a bytes",
        ),
        ('set_response_status("201")', "the status must be an integer, got '201', a str"),
    ):
        with pytest.raises(RequestError, match=words) as error:
            load(SETS.format(call=call))(ask("x"))
        assert error.value.status == 500


@pytest.mark.parametrize(
    "signature", ["x, model, **kwargs", "x, model, *, verbose=False", "x, model, /, *, verbose=False, **kwargs"]
)
def test_parameters_that_take_no_position_do_not_get_the_context(load, signature):
    handler = load(f"def model_fn(d, **kwargs): return 1\ndef predict_fn({signature}): return x")
    assert handler(ask("1,2")).body == b"[[1.0, 2.0]]"


def test_a_keyword_that_is_never_passed_is_reported_when_the_script_loads(load):
    with pytest.raises(JobFailed, match="predict_fn needs the keyword argument verbose, which is never passed"):
        load("def model_fn(d): return 1\ndef predict_fn(x, m, *, verbose): return x")
    with pytest.raises(JobFailed, match="model_fn takes 0 arguments"):
        load("def model_fn(**kwargs): return 1\ndef predict_fn(x, m): return x")


def test_a_builtin_without_a_signature_is_taken_as_it_is(load):
    assert load("def model_fn(d): return 1\npredict_fn = max")._predict_fn.wants_context is False


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_a_script_may_write_to_arrays_in_every_dialect(load, save):
    body = io.BytesIO()
    save(body, np.full((1, 2), 255.0, np.float32))
    content_type = "application/x-npy" if save is np.save else "application/x-npz"
    for dialect in ("fixed", "sagemaker_containers", "sagemaker_inference")[: 3 if save is np.save else 1]:
        handler = load("def model_fn(d): return 1\ndef predict_fn(x, m):\n    x /= 255\n    return x", dialect=dialect)
        answer = handler(ask(body.getvalue(), content_type, "application/json"))
        assert answer.body == b"[[1.0, 1.0]]"


def test_an_answer_that_cannot_be_made(load):
    text = "def model_fn(d): return 1\ndef transform_fn(model, data, content_type, accept): return object()"
    with pytest.raises(RequestError) as error:
        load(text)(ask("1"))
    assert (error.value.status, error.value.container) == (500, "serve")
    assert "returned a object that no content type can represent" in error.value.reason


@pytest.mark.parametrize("returned", ["{1, 2}", "lambda: 1", "[[1], [2, object()]]", "b'x'.__class__"])
def test_a_prediction_that_no_content_type_holds_is_the_script_s_fault(load, returned):
    handler = load(f"def model_fn(d): return 1\ndef predict_fn(rows, model): return {returned}")
    for accept in ("*/*", "text/csv", "application/x-npy"):
        with pytest.raises(RequestError) as error:
            handler(ask("1", accept=accept))
        assert error.value.status == 500, accept


def test_a_prediction_that_another_content_type_holds_is_the_client_s(load):
    handler = load(
        "import numpy\ndef model_fn(d): return 1\ndef predict_fn(rows, model): return numpy.zeros((1, 2, 3))"
    )
    with pytest.raises(RequestError, match=r"cannot be answered as text/csv: .*; ask for application/json") as error:
        handler(ask("1", accept="text/csv"))
    assert error.value.status == 406


def test_a_failing_function_is_named_and_chained(load):
    handler = load(DOUBLE + "\n    def predict_fn(rows, model):\n        return 1 / 0\n")
    with pytest.raises(RequestError, match="predict_fn failed with ZeroDivisionError: division by zero") as error:
        handler(ask("1"))
    assert error.value.status == 500
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_npy_is_never_unpickled(load):
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    for dialect, status in [("fixed", 400), ("sagemaker_containers", 500), ("sagemaker_inference", 500)]:
        with pytest.raises(RequestError) as error:
            load(dialect=dialect)(ask(buffer.getvalue(), "application/x-npy"))
        assert error.value.status == status


def test_a_script_may_choose_the_status(load):
    text = """
    from sagemaker_inference.errors import BaseInferenceToolkitError, UnsupportedFormatError
    def model_fn(model_dir): return None
    def input_fn(data, content_type):
        if content_type == "application/json":
            raise UnsupportedFormatError(content_type)
        raise BaseInferenceToolkitError(418, "short and stout", "teapot")
    def predict_fn(data, model): return data
    """
    for content_type, status in [("text/csv", 418), ("application/json", 415)]:
        with pytest.raises(RequestError) as error:
            load(text)(ask("1", content_type))
        assert error.value.status == status


@pytest.mark.parametrize(
    ("returned", "body", "content_type", "status"),
    [
        ("worker.Response('a', accept, mimetype=accept)", b"a", "text/csv; charset=utf-8", 200),
        ("worker.Response('a', mimetype=accept)", b"a", "text/csv; charset=utf-8", 200),
        ("worker.Response(b'a')", b"a", "application/json", 200),
        ("worker.Response('a', status=202, headers={'X-A': '1'}, mimetype='a/b')", b"a", "a/b", 202),
        ("('a', 'a/b')", b"a", "a/b", 200),
        ("'a'", b"a", "text/csv", 200),
        ("[[1, 2]]", b"1,2\n", "text/csv", 200),
    ],
)
def test_return_values_of_a_script(load, returned, body, content_type, status):
    text = f"""
    from sagemaker_containers.beta.framework import worker
    def model_fn(model_dir): return 3
    def transform_fn(model, data, content_type, accept):
        assert (model, data, content_type, accept) == (3, "1", "text/csv", "text/csv")
        return {returned}
    """
    answer = load(text)(ask("1", accept="text/csv"))
    assert (answer.body, answer.content_type, answer.status) == (body, content_type, status)


def test_dialects_refuse_what_their_packages_refuse(load):
    values = "def model_fn(d): return 1\ndef transform_fn(model, data, content_type, accept): return [1]"
    chosen = """
    from sagemaker_inference.errors import GenericInferenceToolkitError
    def model_fn(d): return 1
    def transform_fn(model, data, content_type, accept): raise GenericInferenceToolkitError(429, "later")
    """
    for dialect, status in [("sagemaker_containers", 500), ("sagemaker_inference", 429)]:
        with pytest.raises(RequestError, match="returned list"):
            load(values, dialect=dialect)(ask("1"))
        with pytest.raises(RequestError) as error:
            load(chosen, dialect=dialect)(ask("1"))
        assert error.value.status == status


def test_a_text_without_a_type(load):
    text = "def model_fn(d): return 1\ndef transform_fn(model, data, content_type, accept): return 'x'"
    found = {
        d: load(text, dialect=d)(ask("1", accept="a/b")).content_type
        for d in ("fixed", "sagemaker_containers", "sagemaker_inference")
    }
    assert found == {"fixed": "a/b", "sagemaker_containers": "text/html; charset=utf-8", "sagemaker_inference": "a/b"}


def test_context_comes_last_where_it_is_taken(load):
    text = """
    def pre_model_fn(model_dir, context): assert context.system_properties["model_dir"] == model_dir
    def model_fn(model_dir, context): return []
    def model_warmup_fn(model_dir, model): model.append("warm")
    def input_fn(data, content_type, context): return context.get_request_header(0, "X-Me")
    def predict_fn(data, model): return [data, *model]
    def output_fn(prediction, accept, context):
        context.set_response_status(202, "later")
        context.set_response_content_type(0, "a/b")
        return ",".join(prediction)
    def execution_parameters_fn(): return {"MaxConcurrentTransforms": 2}
    """
    handler = load(text)
    answer = handler(ask("x", **{"x-me": "hello"}))
    assert (answer.body, answer.status, answer.content_type) == (b"hello,warm", 202, "a/b")
    assert handler.execution_parameters() == {"MaxConcurrentTransforms": 2}


@pytest.mark.parametrize(
    "given", ["found", "json.dumps(found)", "json.dumps(found).encode()", "worker.Response(json.dumps(found))"]
)
def test_execution_parameters_in_each_form(load, given):
    handler = load(f"""
    import json
    from sagemaker_containers.beta.framework import worker
    def model_fn(model_dir): return 1
    def execution_parameters_fn():
        found = {{"MaxConcurrentTransforms": 2}}
        return {given}
    """)
    assert handler.execution_parameters() == {"MaxConcurrentTransforms": 2}


def test_execution_parameters_that_are_not_json(load):
    handler = load("""
    def model_fn(model_dir): return 1
    def execution_parameters_fn(): return "many"
    """)
    with pytest.raises(RequestError, match="execution_parameters_fn failed with JSONDecodeError"):
        handler.execution_parameters()


def test_async_functions_are_refused(load):
    text = """
    async def model_fn(model_dir): return 1
    async def predict_fn(data, model): yield 1
    """
    with pytest.raises(
        JobFailed, match=r"model_fn is an async function, .* with def, not async def; predict_fn is an async"
    ):
        load(text)


def test_all_problems_are_reported_together(load):
    text = """
    def modelfn(model_dir): pass
    input_fn = 3
    def predict_fn(data): pass
    def transform_fn(model, data, content_type, accept): pass
    """
    with pytest.raises(JobFailed) as error:
        load(text)
    reported = str(error.value)
    assert "\n" not in reported
    for words in (
        "model_fn(model_dir), which loads the model, is missing",
        "did you mean modelfn",
        "input_fn is not a function but int",
        "predict_fn takes 1",
    ):
        assert words in reported
    assert "transform_fn replaces" in reported


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import nothing_of_this_name", r"No module named 'nothing_of_this_name' \(serve.py, line 1\)"),
        ("def f(:", "SyntaxError"),
        ("def model_fn(model_dir): return open(model_dir + '/x')", "model_fn failed with FileNotFoundError"),
    ],
)
def test_a_script_that_does_not_load_gives_the_reason(load, text, words):
    with pytest.raises(JobFailed, match=words):
        load(text)


def test_no_entry_point(tmp_path, write_script):
    (tmp_path / "model" / "code").mkdir(parents=True)
    with pytest.raises(JobFailed, match="no inference.py"):
        ScriptContainer().handler(tmp_path / "model")
    (tmp_path / "model" / "code" / "mine.py").write_bytes(write_script().read_bytes())
    assert json.loads(ScriptContainer().handler(tmp_path / "model")(ask("1")).body) == [2.0]


def test_two_scripts_of_one_name_keep_apart(tmp_path):
    handlers = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "inference.py").write_text(
            "from neighbour import N\ndef model_fn(d): return N\ndef predict_fn(x, m): return m\n"
        )
        (folder / "neighbour.py").write_text(f"N = {number}\n")
        handlers.append(ScriptContainer(entry_point="inference.py", source_dir=folder).handler(tmp_path))
    assert [handler(ask("1")).body for handler in handlers] == [b"1", b"2"]


def test_environment_is_there_while_loading_only(load, monkeypatch):
    monkeypatch.delenv("MINE", raising=False)
    text = """
    import os
    def model_fn(model_dir): return os.environ["MINE"], os.environ["SM_MODEL_DIR"] == model_dir
    def predict_fn(rows, model): return [*model, os.environ.get("MINE")]
    """
    environment = {"MINE": "1", "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": "application/jsonlines"}
    assert load(text, environment=environment)(ask("1")).body == b'"1"\ntrue\nnull\n'


def test_dependencies_lie_beside_the_script(load, tmp_path):
    (tmp_path / "helping.py").write_text("N = 7")
    text = "import helping\ndef model_fn(d): return helping.N\ndef predict_fn(x, m): return m"
    assert load(text, dependencies=[tmp_path / "helping.py"])(ask("1")).body == b"7"
    lazy = "def model_fn(d): return __file__\ndef predict_fn(x, m):\n    import helping_2\n    return [__import__('pathlib').Path(m).read_text()[:6], helping_2.N]"
    (tmp_path / "helping_2.py").write_text("N = 8")
    handler = load(lazy, dependencies=[tmp_path / "helping_2.py"])
    assert json.loads(handler(ask("1")).body) == ["def mo", 8]
    folder = Path(handler.model).parent
    handler.close()
    assert not folder.exists()
    with pytest.raises(JobFailed, match=r"missing\.py does not exist"):
        load(text, dependencies=[tmp_path / "missing.py"])


def test_shims_are_seen_by_scripts_only(load):
    load("from sagemaker_containers.beta.framework import worker\ndef model_fn(d): return 1")
    assert "sagemaker_containers" not in sys.modules
    with pytest.raises(ImportError):
        import sagemaker_containers  # noqa: F401


def test_shims_do_not_need_headrace():
    """They resolve in an interpreter without headrace."""
    from headrace.containers.toolkit import shim

    site = str(shim.__file__).replace("shim.py", "site")
    code = (
        "from sagemaker_containers.beta.framework import content_types, encoders, env, modules, transformer, worker\n"
        "from sagemaker_inference import content_types, decoder, default_inference_handler, encoder, environment, errors\n"
        "from sagemaker_inference import utils\n"
        "from sagemaker_training import environment, mapping, params\n"
        "import sys, sagemaker_containers\n"
        "assert 'headrace' not in sys.modules\n"
        "print(encoders.encode([[1, 2]], content_types.CSV), sagemaker_containers.beta.framework.worker is worker)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": site}, capture_output=True, text=True, check=True
    )
    assert found.stdout == "1,2\n True\n"


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("1,1_0", "text/csv"),
        ('1,"1_0"', "text/csv"),
        ("1,\uff11", "text/csv"),
        ('[[1, "1_0"]]', "application/json"),
        ('[[null, "1_0"]]', "application/json"),
        ('[["1", "\u0663"]]', "application/json"),
    ],
)
def test_numbers_for_python_only_are_text(load, body, content_type):
    with pytest.raises(
        RequestError, match="'(1_0|\uff11|\u0663)' at row 1, column 2: the model takes numbers"
    ) as caught:
        load()(ask(body, content_type))
    assert caught.value.status == 400
    assert load()(ask('1," 1e1"')).body == b"[22.0]"
    assert load()(ask('[["1", "10"]]', "application/json")).body == b"[22.0]"


def test_only_scripts_that_allow_it_answer_many(load):
    assert isinstance(load(), AnswersMany)  # model.predict
    own = DOUBLE + "\n    def predict_fn(rows, model): return model.predict(rows)\n"
    assert not isinstance(load(own), AnswersMany)
    assert isinstance(load(own, rows_independent=True), AnswersMany)
    assert not isinstance(load(rows_independent=False), AnswersMany)


def test_many_at_once_equal_one_by_one(load):
    text = (
        DOUBLE
        + "\n    calls = []\n    def predict_fn(rows, model):\n        calls.append(len(rows))\n        return model.predict(rows)\n"
    )
    handler = load(text, rows_independent=True)
    npy = io.BytesIO()
    np.save(npy, np.ones((2, 2)))
    requests = [
        ask("1,2"),
        ask("3,4\n5,6\n"),
        ask("7,8", accept="text/csv"),
        ask("9,10", accept="text/csv"),
        ask("[[1, 2]]", "application/json"),
        ask("[[3, 4], [5, 6]]", "application/json"),
        ask("[1]", "application/json"),
        ask("1,M"),
        ask("5,6,7"),
        ask(npy.getvalue(), "application/x-npy"),
        ask("x", "image/png"),
    ]
    handler(requests[0])  # shows that each row has an entry
    many = handler.answer_many(requests)
    calls = handler.functions.predict_fn.call.__globals__["calls"]
    assert sorted(calls)[-3:] == [2, 3, 3]
    assert len(many) == len(requests)
    for request, answer in zip(requests, many, strict=True):
        try:
            alone = handler(request)
        except RequestError as error:
            assert (error.status, error.reason) == (answer.status, answer.reason)
        else:
            assert answer == alone


@pytest.fixture(scope="module")
def doubling(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doubling")
    (folder / "doubling.py").write_text(textwrap.dedent(DOUBLE))
    return ScriptContainer(entry_point=folder / "doubling.py").handler(folder)


HEADERS = st.sampled_from(
    [*decoding.DECODED, "text/csv; charset=latin-1", "text/csv;charset=", "", ";", "a", "*/*", "text/*;q=x", ",", "é"]
)
TEXTS = st.text(max_size=40) | st.sampled_from(
    ["1,2\n3,4", "[[1, 2]]", "[1]", "{}", "1e400,1", "null", '"', "[[[1]]]", "[[true, null]]"]
)


@given(st.binary(max_size=40) | TEXTS.map(str.encode), HEADERS, HEADERS)
def test_no_500_that_is_not_the_script_s_own(doubling, body, content_type, accept):
    request = ask(body, content_type, accept)
    (together,) = doubling.answer_many([request])
    try:
        answer = doubling(request)
    except RequestError as error:
        assert (error.status, error.reason) == (together.status, together.reason)
        assert error.status in (400, 406, 415) or error.reason.startswith("predict_fn failed with ")
    else:
        assert together == answer
        assert answer.status == 200
