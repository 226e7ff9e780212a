"""Batched requests give the same answers as single ones, down to the type of every cell."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.containers.conftest import DOUBLE, ask

from headrace.containers.script import ScriptContainer
from headrace.containers.serving.batching import join_csv, split_rows
from headrace.contracts.serving import AnswersMany
from headrace.errors import RequestError

PANDAS = """
import pandas as pd
from io import StringIO

CALLS = []

def model_fn(model_dir):
    return None

def input_fn(data, content_type):
    return pd.read_csv(StringIO(data), header=None)

def predict_fn(table, model):
    CALLS.append(len(table))
    kinds = [str(kind) for kind in table.dtypes]
    return [[kinds, [repr(cell) for cell in row]] for row in table.itertuples(index=False, name=None)]

def output_fn(prediction, accept):
    import json
    return json.dumps(prediction), accept
"""

CELLS = st.sampled_from(
    ["1", "-2", "007", "3.5", ".5", "1e3", "1e400", "M", "F", "abc", "", " ", "nan", "NA", "None", "True", "FALSE", "inf", "-Inf", " 4", "5 ",
     " x", "12345678901234567890", "1_0", "0x10", "+7", "1.", "2024-01-01", "é", "#1", "a b", '"q"', "1,2", "#N/A", "null",
     "<NA>", "\t1", "１", "1_000", "2j"]
)  # fmt: skip
BODIES = st.lists(st.lists(CELLS, min_size=2, max_size=2).map(",".join), min_size=1, max_size=3).map("\n".join)
LIKELY = st.lists(
    st.tuples(st.sampled_from("MFI"), st.integers(0, 99).map(lambda n: f"0.{n:02}")).map(",".join),
    min_size=1,
    max_size=3,
).map("\n".join)


@pytest.fixture(scope="module")
def table_handler(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    (folder / "tables.py").write_text(PANDAS)
    handler = ScriptContainer(entry_point=folder / "tables.py", rows_independent=True).handler(folder)
    handler(ask("1,2"))  # shows that each row has an entry
    return handler


def one_by_one(handler, requests):
    for request in requests:
        try:
            yield handler(request)
        except RequestError as error:
            yield error


def same(one, other):
    if isinstance(one, RequestError):
        return isinstance(other, RequestError) and (one.status, one.reason) == (other.status, other.reason)
    return one == other


@settings(max_examples=150)
@example(["1,3.5", "1,12345678901234567890"])
@example(["\t1,a", "b,c"])
@example(["<NA>,a", "b,c"])
@example(["１,a", "b,c"])
@example(["1_000,a", "b,c"])
@given(st.lists(BODIES | LIKELY, min_size=2, max_size=6))
def test_no_cell_is_read_otherwise_than_alone(table_handler, bodies):
    requests = [ask(body) for body in bodies]
    alone = list(one_by_one(table_handler, requests))
    together = table_handler.answer_many(requests)
    for body, one, other in zip(bodies, alone, together, strict=True):
        assert same(one, other), (body, one, other)


@pytest.mark.parametrize("cells", ["1,2", "a,b"])
def test_a_script_that_reads_one_row_as_an_axis_is_asked_one_by_one(load, cells):
    handler = load(
        """
    import io
    import numpy as np
    def model_fn(d): return None
    def input_fn(data, content_type): return np.genfromtxt(io.StringIO(data), delimiter=",", dtype=None, encoding="utf-8")
    def predict_fn(rows, model): return [str(rows.shape)] * len(rows)
    """,
        rows_independent=True,
    )
    requests = [ask(cells), ask(cells), ask(f"{cells}\n{cells}")]
    handler(requests[-1])
    assert handler.answer_many(requests) == list(one_by_one(handler, requests))


def test_bodies_that_look_alike_are_read_as_one(table_handler):
    calls = table_handler.functions.predict_fn.call.__globals__["CALLS"]
    calls.clear()
    answers = table_handler.answer_many([ask(f"M,0.{n}") for n in range(10, 42)])
    assert calls == [32]
    assert [json.loads(answer.body)[0][1][1] for answer in answers] == [repr(n / 100) for n in range(10, 42)]


def test_bodies_that_are_not_joined():
    joined = join_csv(["1,2", "3,4\n", '"a",1', "1,2\r\n", "", "5", "6,7,8", "1,M", None, "9,0\n\n"])
    assert joined == [([0, 1], "1,2\n3,4\n", [1, 1])]


@pytest.mark.parametrize(
    ("prediction", "parts"),
    [
        (np.arange(6).reshape(3, 2), [[[0, 1]], [[2, 3], [4, 5]]]),
        ([1, 2, 3], [[1], [2, 3]]),
        (np.arange(2), None),
        (3.0, None),
        ({"a": [1, 2, 3]}, None),
    ],
)
def test_predictions_taken_apart(prediction, parts):
    found = split_rows(prediction, [1, 2])
    assert (found if found is None else [np.asarray(part).tolist() for part in found]) == parts


def test_other_kinds_of_predictions_taken_apart():
    import pandas as pd
    import scipy.sparse

    assert [part.to_dict() for part in split_rows(pd.Series([1, 2, 3]), [2, 1])] == [{0: 1, 1: 2}, {0: 3}]
    assert split_rows(pd.Series([1, 2, 3], index=["a", "b", "c"]), [2, 1]) is None
    assert [part.shape for part in split_rows(pd.DataFrame({"a": [1, 2, 3]}), [2, 1])] == [(2, 1), (1, 1)]
    assert [part.shape for part in split_rows(scipy.sparse.coo_array(np.eye(3)), [2, 1])] == [(2, 3), (1, 3)]


def test_one_bad_request_does_not_spoil_the_others(load):
    text = """
    import numpy as np
    def model_fn(d): return None
    def predict_fn(rows, model):
        if (rows < 0).any(): raise ValueError("negative")
        return rows[:, 0]
    """
    handler = load(text, rows_independent=True)
    answers = handler.answer_many([ask("1,1"), ask("-1,1"), ask("3,1"), ask("1,M")])
    assert [getattr(answer, "status", None) for answer in answers] == [200, 500, 200, 400]
    assert [answers[0].body, answers[2].body] == [b"[1.0]", b"[3.0]"]


TWO_OUTPUTS = """
import json
import numpy as np

class TwoOutputs:
    def predict(self, rows): return OUTPUTS

def model_fn(model_dir): return TwoOutputs()
def output_fn(prediction, accept): return json.dumps([np.asarray(one).tolist() for one in prediction]), accept
"""


def bodies_of(answers):
    return [answer.body if hasattr(answer, "body") else str(answer) for answer in answers]


@pytest.mark.parametrize("numbers", [[1, 2], [1, 2, 3, 4], [2, 2, 1]])
@pytest.mark.parametrize(
    "outputs",
    [
        "[rows.sum(axis=1), rows.max(axis=1)]",
        "[rows.sum(axis=1).tolist(), rows.max(axis=1).tolist()]",
        "np.array([rows.mean(axis=1), rows.std(axis=1)])",
        "[rows.sum(), rows.max()]",
        "rows @ rows.T",
        "(rows @ rows.T).tolist()",
    ],
)
@pytest.mark.parametrize("batches", [1, 3])
def test_outputs_for_all_rows_are_not_taken_for_the_answers_to_as_many_rows(load, outputs, numbers, batches):
    handler = load(TWO_OUTPUTS.replace("OUTPUTS", outputs))
    requests = [ask("\n".join(f"{7 * i + j},{j * j}" for j in range(n))) for i, n in enumerate(numbers)]
    alone = bodies_of(one_by_one(handler, requests))
    assert [bodies_of(handler.answer_many(requests)) for _ in range(batches)] == [alone] * batches


def test_two_outputs_that_begin_with_requests_of_two_rows(load):
    handler = load(TWO_OUTPUTS.replace("OUTPUTS", "[rows.sum(axis=1), rows.max(axis=1)]"))
    requests = [ask("1,2\n3,4"), ask("5,6\n7,8"), ask("1,2"), ask("30,40")]
    together = [bodies_of(handler.answer_many(part)) for part in (requests[:2], requests[2:], requests[2:])]
    alone = bodies_of(one_by_one(handler, requests))
    assert together == [alone[:2], alone[2:], alone[2:]]


def count_calls(handler):
    calls, predict = [], handler.model.predict
    handler.model.predict = lambda rows: calls.append(len(rows)) or predict(rows)
    return calls


def test_rows_are_joined_once_a_single_request_has_shown_an_entry_per_row(load):
    handler = load()
    calls = count_calls(handler)
    requests = [ask("1,2"), ask("30,40"), ask("5,6")]
    expected = [b"[6.0]", b"[140.0]", b"[22.0]"]
    assert bodies_of(handler.answer_many(requests)) == expected
    assert bodies_of(handler.answer_many(requests)) == expected
    assert calls == [1, 1, 1, 3]


WITH_CONTEXT = """
import numpy as np

class Sum:
    def predict(self, rows): return rows.sum(axis=1)

def model_fn(model_dir): return Sum()

def input_fn(data, content_type, context):
    scale = float(context.get_request_header(0, "scale"))
    context.set_response_header(0, "scale", str(scale))
    context.set_response_status(201 if scale > 10 else 200)
    return np.array([[float(cell) for cell in line.split(",")] for line in data.split("\\n")]) * scale
"""


@pytest.mark.parametrize(("independent", "calls_expected"), [(None, [1] * 4), (True, [1, 1, 2])])
def test_each_request_keeps_its_context(load, independent, calls_expected):
    handler = load(WITH_CONTEXT, rows_independent=independent)
    calls = count_calls(handler)
    requests = [ask("1,2", scale="10"), ask("1,2", scale="100")]
    alone = list(one_by_one(handler, requests))
    assert [(one.body, one.status, one.headers) for one in alone] == [
        (b"[30.0]", 200, {"scale": "10.0"}),
        (b"[300.0]", 201, {"scale": "100.0"}),
    ]
    together = handler.answer_many(requests) if independent else list(one_by_one(handler, requests))
    assert list(together) == alone
    assert calls == calls_expected
    assert isinstance(handler, AnswersMany) is bool(independent)


def test_a_prediction_with_a_context_is_for_one_request(load):
    text = DOUBLE + "\n    def predict_fn(rows, model, context): return rows[:, 0]\n"
    assert not isinstance(load(text, rows_independent=True), AnswersMany)


NAMED = """
import io
import pandas as pd

class Sum:
    def predict(self, table): return table.sum(axis=1)

def model_fn(model_dir): return Sum()
def input_fn(data, content_type): return READ
def output_fn(prediction, accept): return prediction.to_json(), accept
"""


@pytest.mark.parametrize("independent", [None, True])
@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (
            'pd.read_csv(io.StringIO(data), names=["id", "a", "b"]).set_index("id")',
            [b'{"alice":3.0}', b'{"bob":7.5}', b'{"carol":12.5,"dora":16.5}'],
        ),
        (
            'pd.read_csv(io.StringIO(data), names=["id", "a", "b"])[["a", "b"]]',
            [b'{"0":3.0}', b'{"0":7.5}', b'{"0":12.5,"1":16.5}'],
        ),
    ],
)
def test_each_answer_has_the_index_that_it_has_alone(load, independent, read, expected):
    handler = load(NAMED.replace("READ", read), rows_independent=independent)
    requests = [ask("alice,1,2.0"), ask("bob,3,4.5"), ask("carol,5,7.5\ndora,7,9.5")]
    assert bodies_of(one_by_one(handler, requests)) == expected
    assert bodies_of(handler.answer_many(requests)) == expected


def test_frames_of_other_categories_are_not_joined(load):
    read = 'pd.read_csv(io.StringIO(data), names=["a"], dtype="category")'
    text = NAMED.replace("READ", read).replace("table.sum(axis=1)", "table.a.cat.codes")
    handler = load(text)
    requests = [ask("x\ny"), ask("y\nz"), ask("z")]
    alone = bodies_of(one_by_one(handler, requests))
    assert bodies_of(handler.answer_many(requests)) == alone


def test_masked_rows_keep_their_mask(load):
    handler = load(
        """
    import numpy as np
    class Sum:
        def predict(self, rows): return rows.sum(axis=1)
    def model_fn(d): return Sum()
    def input_fn(data, content_type):
        return np.ma.masked_less([[float(cell) for cell in data.split(",")]], 0)
    """
    )
    requests = [ask("1,-9"), ask("-9,2")]
    alone = bodies_of(one_by_one(handler, requests))
    assert alone == [b"[1.0]", b"[2.0]"]
    assert bodies_of(handler.answer_many(requests)) == alone


def test_an_input_fn_sees_each_body_alone(load):
    handler = load(
        """
    import io
    import numpy as np
    class Sum:
        def predict(self, rows): return rows.sum(axis=1)
    def model_fn(d): return Sum()
    def input_fn(data, content_type):
        rows = np.loadtxt(io.StringIO(data), delimiter=",", ndmin=2)
        return rows - rows.mean(axis=0)
    """
    )
    calls = count_calls(handler)
    requests = [ask("1,2\n3,5"), ask("10,20\n30,60"), ask("1,2")]
    alone = bodies_of(one_by_one(handler, requests))
    assert bodies_of(handler.answer_many(requests)) == alone
    assert calls == [2, 2, 1, 5]
