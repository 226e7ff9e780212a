"""Filters and joins."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts.serving import Response
from headrace.jobs.transform.join import Joiner, NumberText, RecordFault, _cell
from headrace.jobs.transform.payloads import payloads_of
from headrace.jobs.transform.spec import TransformSpec

CSV, JSON, LINES = "text/csv", "application/json", "application/jsonlines"


@pytest.fixture
def joining(tmp_path):
    class Case:
        def __init__(self, content, format=CSV, accept=CSV, *, split="Line", single=False, **options):
            path = tmp_path / "object"
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            assemble = split if split == "Line" else "None"
            spec = TransformSpec(name="a", input_uri="a", output_path="b", content_type=format, accept=accept,
                                 split_type=split, assemble_with=options.pop("assemble_with", assemble), **options)  # fmt: skip
            self.accept = accept
            self.joining = Joiner(spec)
            (self.payload,) = payloads_of(path, split=split, is_gzip=False, limit=0, is_single=single)

        def body(self):
            return self.joining.body(self.payload).decode()

        def output(self, answer, content_type=None):
            body = answer.encode() if isinstance(answer, str) else answer
            return self.joining.output(
                self.payload, Response(body=body, content_type=content_type or self.accept)
            ).decode()

        def fault(self, act, *args):
            with pytest.raises(RecordFault) as caught:
                act(*args)
            return caught.value.reason, caught.value.position

    return Case


# What the model sees


@pytest.mark.parametrize(
    ("content", "path", "seen"),
    [
        ("1,a,2\n3,b,4\n", "$", "1,a,2\n3,b,4\n"),
        ("1,a,2\n3,b,4\n", "$[1:]", "a,2\nb,4\n"),
        ("1,a,2\n3,b,4", "$[1:]", "a,2\nb,4"),
        ("1,a,2\r\n3,b,4\r\n", "$[-1,0]", "2,1\n4,3\n"),
        ('1,"a,b",2\n', "$[1]", '"a,b"\n'),
        ('1,"say ""x""",2\n', "$[1:]", '"say ""x""",2\n'),
        ("1, 0.5,x\n", "$[1]", " 0.5\n"),
        (",x\n", "$[0]", '""\n'),
        ("1,2\n3\n", "$[0]", "1\n3\n"),
    ],
)
def test_columns_of_rows(joining, content, path, seen):
    assert joining(content, input_filter=path).body() == seen


def test_the_rows_of_a_whole_object_may_span_lines(joining):
    assert joining('1,"a\nb"\n2,c\n', split="None", input_filter="$[1]").body() == '"a\nb"\nc\n'


@pytest.mark.parametrize(
    ("format", "split", "content", "path", "seen"),
    [
        (LINES, "Line", '{"id": 1, "x": [1, 2]}\n{"id": 2, "x": [3]}\n', "$.x", "[1, 2]\n[3]\n"),
        (LINES, "Line", '{"a": 1, "b": "é", "c": 3}\n', "$['b','a']", '{"b": "é", "a": 1}\n'),
        (LINES, "None", "[1,2]\n\n[3,4]", "$[0]", "1\n3\n"),
        (JSON, "None", '{"instances": [\n1,\n2], "id": 9}', "$.instances", "[1, 2]"),
        (JSON, "Line", '{"x": {"y": 12345678901234567890}}\n', "$.x", '{"y": 12345678901234567890}\n'),
        (LINES, "Line", '"\\ud800"\n', "$", '"\\ud800"\n'),
        (LINES, "Line", '["\\ud800"]\n', "$[0]", '"\\ud800"\n'),
    ],
)
def test_members_of_values(joining, format, split, content, path, seen):
    assert joining(content, format, JSON, split=split, input_filter=path).body() == seen + (
        "\n" if split == "None" and format == JSON else ""
    )


def test_a_record_that_lacks_something_is_named(joining):
    case = joining("1,2\n3\n4,5\n", input_filter="$[1]")
    assert case.fault(case.body) == ("input_filter '$[1]': expected an element at position 1, found 1 element", 1)
    case = joining('{"a": 1}\n{"b": 1}\n', LINES, input_filter="$.a")
    assert case.fault(case.body) == ("input_filter '$.a': expected an object with 'a', found one with 'b'", 1)


@pytest.mark.parametrize(
    ("content", "format", "reported"),
    [
        (b'1,2\n"3,4\n', CSV, "Failed to parse input as CSV: unexpected end of data"),
        (b'1,2\n"3"x,4\n', CSV, "Failed to parse input as CSV: ',' expected after '\"'"),
        (b"1,2\n\xff,4\n", CSV, "Failed to parse input as CSV: 'utf-8' codec can't decode byte 0xff"),
        (b"1\n{]\n", LINES, "Failed to parse input as JSON Lines: Expecting property name"),
        (b"1\n1 2\n", JSON, "Failed to parse input as JSON: Extra data"),
        (b"1\n" + b"[" * 100_000 + b"\n", LINES, "Failed to parse input as JSON Lines: "),
    ],
)
def test_a_record_that_is_none_is_named(joining, content, format, reported):
    case = joining(content, format, JSON, join_source="Input")
    reason, position = case.fault(case.output, "1\n2\n")
    assert reason.startswith(reported)
    assert position == 1


# What is kept of the answer


def test_answers_are_kept_unchanged(joining):
    assert joining("1\n", assemble_with="None").output(b"any\r\nthing") == "any\r\nthing"


@pytest.mark.parametrize(
    ("answer", "kept"), [("1\n", "1\n"), ("1", "1\n"), ("1\n2", "1\n2\n"), ("", "\n"), ("1\n\n", "1\n\n")]
)
def test_answers_end_with_one_newline(joining, answer, kept):
    assert joining("1\n").output(answer) == kept


@pytest.mark.parametrize(
    ("accept", "path", "answer", "kept"),
    [
        (CSV, "$[0]", "1,2\n3,4\n", "1\n3\n"),
        (CSV, "$[-1,0]", '"a\nb",2', '2,"a\nb"\n'),
        (LINES, "$.score", '{"score": 1, "x": 2}\n{"score": [1]}', "1\n[1]\n"),
        (None, "$.score", '{"score": 1}\n', "1\n"),
    ],
)
def test_parts_of_answers_are_kept(joining, accept, path, answer, kept):
    assert joining("1\n2\n", accept=accept, output_filter=path).output(answer, accept or LINES) == kept


def test_an_answer_that_lacks_something_is_named(joining):
    case = joining("1\n2\n", output_filter="$[1]")
    assert case.fault(case.output, "1,2\n3\n") == (
        "output_filter '$[1]': expected an element at position 1, found 1 element",
        1,
    )


def test_an_answer_of_another_kind_is_refused(joining):
    case = joining("1\n", accept=None, output_filter="$[1]")
    assert case.fault(case.output, b"\x93", "application/x-npy")[0] == (
        "the algorithm answered with application/x-npy, which filters do not support"
    )


@pytest.mark.parametrize("split", ["Line", "None"])
def test_a_byte_order_mark_is_no_part_of_the_first_cell(joining, split):
    content = '\ufeff"Smith, J",1,2\n"Doe, J",3,4\n'
    assert joining(content, split=split, input_filter="$[1:]").body() == "1,2\n3,4\n"
    case = joining(content, split=split, join_source="Input")
    assert case.output('\ufeff"a"\n"b"\n') == '"Smith, J",1,2,a\n"Doe, J",3,4,b\n'
    assert joining('\ufeff{"f": 1}\n', LINES, LINES, input_filter="$.f").body() == "1\n"


def test_the_charset_of_a_content_type_counts(joining):
    case = joining("é,1\nü,2\n".encode("latin-1"), "text/csv; charset=latin-1; header=absent", input_filter="$[0]")
    assert case.body() == "é\nü\n"
    assert case.joining.content_type == "text/csv; header=absent; charset=utf-8"
    assert joining("1\n", "text/csv; charset=latin-1").joining.content_type == "text/csv; charset=latin-1"
    case = joining("é\n".encode("latin-1"), "text/csv; charset=latin-1", join_source="Input")
    assert case.output("ü\n".encode("latin-1"), "text/csv; charset=latin-1") == "é,ü\n"
    case = joining("1\n", "text/csv; charset=other", input_filter="$[0]")
    assert case.fault(case.body) == ("Failed to parse input as CSV: unknown encoding: other", 0)


@pytest.mark.parametrize(
    ("answer", "content_type", "reason"),
    [
        ('{"score": 0.5, "label": "x"}\n', JSON, "it is application/json"),
        ("[0.5, 1]\n", LINES, "it is application/jsonlines"),
        ('{"score": 0.5}\n', CSV, 'bare " in non-quoted field'),
    ],
)
@pytest.mark.parametrize("options", [{"join_source": "Input"}, {"output_filter": "$[0]"}])
def test_json_is_not_taken_for_csv(joining, answer, content_type, reason, options):
    case = joining("1,2\n", **options)
    assert (
        case.fault(case.output, answer, content_type)[0]
        == f"Failed to parse output from the algorithm as CSV: {reason}"
    )


def test_csv_with_the_content_type_of_json_is_csv(joining):
    assert joining("1\n", join_source="Input").output('0.5,"a ""b"", c"\n', JSON) == '1,0.5,"a ""b"", c"\n'


def test_a_quoted_cell_may_be_long(joining):
    text = "word " * 30_000
    assert joining(f'7,"{text}"\n', input_filter="$[1]").body() == f"{text}\n"
    assert csv.field_size_limit() == 131072


# Side by side


@pytest.mark.parametrize(
    ("content", "answer", "path", "kept"),
    [
        ("1,a\n2,b\n", "0.5\n0.7\n", "$", "1,a,0.5\n2,b,0.7\n"),
        ("1,a\n2,b\n", "0.5,x\n0.7,y", "$[0,-2:]", "1,0.5,x\n2,0.7,y\n"),
        ('"1,5",a\n', "0.5\r\n", "$", '"1,5",a,0.5\n'),
        ("1\n", '"a\nb"\n', "$", '1,"a\nb"\n'),
    ],
)
def test_rows_side_by_side(joining, content, answer, path, kept):
    assert joining(content, join_source="Input", output_filter=path).output(answer) == kept


def test_the_join_uses_the_original_input(joining):
    case = joining("7,1,2\n8,3,4\n", join_source="Input", input_filter="$[1:]", output_filter="$[0,-1]")
    assert case.body() == "1,2\n3,4\n"
    assert case.output("3\n7\n") == "7,3\n8,7\n"


@pytest.mark.parametrize(
    ("format", "accept", "split", "content", "answer", "kept"),
    [
        (LINES, LINES, "Line", '{"id": 1}\n[2]\n', '{"s": 1}\n{"s": 2}\n',
         '{"id": 1, "SageMakerOutput": {"s": 1}}\n{"SageMakerInput": [2], "SageMakerOutput": {"s": 2}}\n'),
        (LINES, LINES, "Line", '{"SageMakerOutput": 1}\n', "2\n", '{"SageMakerOutput": 2}\n'),
        (JSON, JSON, "None", '{"id": 1}', '{"s":\n 2}', '{"id": 1, "SageMakerOutput": {"s": 2}}'),
        (JSON, JSON, "None", "[1, 2]", "3", '{"SageMakerInput": [1, 2], "SageMakerOutput": 3}'),
        (JSON, JSON, "Line", '{"id": 1}\n', '{"s":\n 2}', '{"id": 1, "SageMakerOutput": {"s": 2}}\n'),
        (CSV, LINES, "Line", "1,x,1e3,007\n", '{"s": 2}\n', '{"SageMakerInput": [1, "x", 1e3, "007"], "SageMakerOutput": {"s": 2}}\n'),
        (LINES, CSV, "Line", '{"id": 1}\n', "0.5,nan\n", '{"id": 1, "SageMakerOutput": [0.5, "nan"]}\n'),
        (CSV, JSON, "None", "1,2\n3,4\n", '{"p": 5}', '{"SageMakerInput": [[1, 2], [3, 4]], "SageMakerOutput": {"p": 5}}'),
        (CSV, CSV, "None", "1\n2\n", "3\n4\n", "1,3\n2,4\n"),
    ],
)  # fmt: skip
def test_values_side_by_side(joining, format, accept, split, content, answer, kept):
    assert joining(content, format, accept, split=split, join_source="Input").output(answer) == kept


def test_parts_of_what_was_joined(joining):
    case = joining('{"id": 1, "x": 5}\n', LINES, LINES, join_source="Input", output_filter="$['id','SageMakerOutput']")
    assert case.output('{"s": 2}\n') == '{"id": 1, "SageMakerOutput": {"s": 2}}\n'


def test_counts_must_agree(joining):
    case = joining("1\n2\n", join_source="Input")
    assert case.fault(case.output, "1\n") == ("2 records got 1 answers, which cannot be joined", None)


def test_one_document_for_several_records_is_reported(joining):
    case = joining("1\n2\n", accept=JSON, join_source="Input")
    reason, _ = case.fault(case.output, json.dumps({"predictions": [1, 2]}, indent=1))
    assert reason.startswith("Failed to parse output from the algorithm as JSON Lines")
    assert "set accept to application/jsonlines" in reason
    reason, _ = case.fault(case.output, json.dumps({"predictions": [1, 2]}))
    assert (
        reason
        == "2 records got 1 answers, which cannot be joined (set accept to application/jsonlines, or strategy to SingleRecord)"
    )


def test_an_answer_that_is_not_csv_is_reported(joining):
    case = joining("1\n", join_source="Input")
    assert (
        case.fault(case.output, '"x\n')[0] == "Failed to parse output from the algorithm as CSV: unexpected end of data"
    )


CELLS = st.text(alphabet='ab1.,"\n é', max_size=5)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1, max_size=6), st.booleans())
def test_rows_are_those_of_the_csv_module(tmp_path_factory, rows, quotes):
    """The fast path for rows without quotes agrees with the csv module."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL if quotes else csv.QUOTE_MINIMAL)
    writer.writerows(rows)
    path = tmp_path_factory.getbasetemp() / "rows"
    path.write_text(buffer.getvalue(), newline="")
    spec = TransformSpec(name="a", input_uri="a", output_path="b", content_type=CSV, input_filter="$[1,0]")
    (payload,) = payloads_of(path, split="None", is_gzip=False, limit=0, is_single=False)
    found = Joiner(spec).body(payload).decode()
    assert list(csv.reader(io.StringIO(found, newline=""))) == [[second, first] for first, second in rows]


NUMBERS = st.integers().map(str) | st.floats().map(repr) | st.text(alphabet="0123456789.eE+- n", max_size=8)


@given(NUMBERS)
def test_a_cell_is_a_number_if_json_says_so(text):
    try:
        expected = json.loads(text, parse_constant=str)
    except ValueError:
        expected = text
    if not isinstance(expected, int | float) or (isinstance(expected, float) and not math.isfinite(expected)):
        expected = text
    found = _cell(text)
    if isinstance(found, NumberText):
        assert found.text == text.strip(" ")
        found = json.loads(found.text)
    elif isinstance(found, float):
        assert repr(found) == text.strip(" ")
    assert found == expected
    assert type(found) is type(expected)


WRITTEN = [
    "12345678901234567.25",
    "0.1000000000000000055",
    "1.10",
    "-0",
    "-0.0",
    "1e3",
    "1E+2",
    "0.00001",
    "5e-324",
    "0.5",
    "-7",
]


def test_numbers_stay_as_they_are_written(joining):
    numbers = ", ".join(WRITTEN)
    record = f'{{"a": [{numbers}], "b": {{"é": 1.10, "c": "1.10"}}, "d": [true, null]}}'
    case = joining(record + "\n", LINES, LINES, join_source="Input", input_filter="$.b")
    assert case.body() == '{"é": 1.10, "c": "1.10"}\n'
    answer = '{"score": 1.0000000000000000001}'
    assert case.output(answer + "\n") == f'{record[:-1]}, "SageMakerOutput": {answer}}}\n'
    assert joining('[1.10, "\\ud800"]\n', LINES, LINES, input_filter="$[0,1]").body() == '[1.10, "\\ud800"]\n'
    deep = "[" * 199 + "1.10" + "]" * 199
    assert joining(f"[{deep}]\n", LINES, LINES, input_filter="$[0]").body() == f"{deep}\n"
    assert joining("[1.10, NaN, -Infinity]\n", LINES, LINES, input_filter="$[0:]").body() == "[1.10, NaN, -Infinity]\n"
    joined = joining(",".join(WRITTEN) + "\n", CSV, LINES, join_source="Input").output("1\n")
    assert joined == f'{{"SageMakerInput": [{numbers}], "SageMakerOutput": 1}}\n'


def test_a_record_with_a_key_twice_is_named(joining):
    case = joining('{"k": 1}\n{"k": 1, "l": {"k": 2}, "k": 2}\n', LINES, LINES, join_source="Input")
    reason, position = case.fault(case.output, "1\n2\n")
    assert (reason, position) == ("Failed to parse input as JSON Lines: the key 'k' occurs twice in an object", 1)


@pytest.mark.parametrize("format", [JSON, LINES])
def test_numbers_beyond_float64_are_refused(joining, format):
    """They would be stored as ``Infinity``, which is not JSON."""
    large, small = '{"x": 1e400}', '{"x": 1e300}'
    for content, answer, side in ((large, small, "input"), (small, large, "output from the algorithm")):
        case = joining(content, format, format, split="None", join_source="Input")
        reason, _ = case.fault(case.output, answer)
        assert reason.startswith(f"Failed to parse {side} as JSON")
        assert reason.endswith("the number 1e400 is beyond the range of float64")
    case = joining(small, format, format, split="None", join_source="Input")
    assert json.loads(case.output(small)) == {"x": 1e300, "SageMakerOutput": {"x": 1e300}}
