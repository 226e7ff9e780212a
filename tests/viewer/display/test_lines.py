"""The parts of lines are those that the standard library's parsers find."""

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.viewer.display.lines import cell_fields, member_fields

TEXTS = st.text(st.sampled_from("ab,;\"\n\r 'ü\u4e2d"), max_size=6)


def reader(content):
    return lambda at, size: content[at : at + size]


@settings(max_examples=200)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.lists(TEXTS, min_size=1, max_size=3), st.sampled_from(",;\t"))
def test_cells_are_those_of_csv(cells, before, delimiter):
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(before)
    at = len(out.getvalue().encode())
    writer.writerow(cells)
    content = out.getvalue().encode()
    fields = cell_fields(reader(content), at, delimiter=delimiter.encode())
    found = [content[f.start : f.stop].decode() for f in fields if f.name.startswith("cell ")]
    assert [text[1:-1].replace('""', '"') for text in found] == cells
    assert fields[-1].name == "line end"
    assert fields[-1].stop == len(content)


def test_cells_have_the_names_of_their_columns():
    fields = cell_fields(reader(b"1,2,3"), 0, names=["x", "y"])
    assert [f.name for f in fields] == ["x", "delimiter", "y", "delimiter", "cell 2"]


def test_a_quote_that_never_ends_takes_the_rest():
    fields = cell_fields(reader(b'a,"b,c\nd'), 0)
    assert (fields[-1].start, fields[-1].stop) == (2, 8)


def test_a_row_of_many_cells_is_cut_off():
    assert len(cell_fields(reader(b"1," * 100_000), 0)) == 300


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200)
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5), st.booleans())
def test_members_are_those_of_json(example, ascii_only):
    line = json.dumps(example, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    content = b'{"before": 1}\n' + line + b"\n{}"
    fields = member_fields(reader(content), 14)
    assert [f.name for f in fields] == list(example)
    for field in fields:
        assert json.loads("{" + content[field.start : field.stop].decode() + "}") == {field.name: example[field.name]}


@pytest.mark.parametrize(
    ("line", "place", "reason"),
    [
        (b'{"a": 1, "b": tru}', 9, "Expecting value at byte 0xe"),
        (b'{"a": 1 "b": 2}', 8, "a comma or a closing brace"),
        (b'{"a" 1}', 1, "a colon"),
        (b"[1]", 0, "an object"),
        (b'{"a": "\xff', 1, "Unterminated string"),
        (b'{"a": ' + b"[" * 100_000, 1, ""),
        (b'{"a": ' + b"9" * 100_000 + b"}", 1, ""),
        (b'{"a": 1', 7, "a comma or a closing brace"),
        (b"", 0, "an object"),
    ],
)
def test_the_rest_of_a_damaged_line_is_one_field(line, place, reason):
    field = member_fields(reader(line), 0)[-1]
    assert (field.name, field.start, field.stop) == ("unreadable", place, len(line))
    assert reason in field.meaning


def test_a_line_of_many_members_is_cut_off():
    line = json.dumps({str(n): n for n in range(1000)}).encode()
    assert len(member_fields(reader(line), 0)) == 300


@settings(max_examples=300)
@given(st.binary(max_size=60))
def test_any_bytes_have_fields(content):
    for fields in (member_fields(reader(content), 0), cell_fields(reader(content), 0)):
        assert all(0 <= field.start <= field.stop <= len(content) for field in fields)
