"""Batched requests give the same answers as single ones, down to the type of every cell."""

import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.containers.conftest import ask

from headrace.containers.script import ScriptContainer
from headrace.containers.serving.batching import join_csv, split_rows
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
    return ScriptContainer(entry_point=folder / "tables.py", rows_independent=True).handler(folder)


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

    assert [part.tolist() for part in split_rows(pd.Series([1, 2, 3]), [2, 1])] == [[1, 2], [3]]
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
