"""Lines that native code decodes, held against pyarrow's reader and against Python's json."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace.contracts.values import Ragged
from headrace.formats.jsonl import format as jsonl_format
from headrace.formats.jsonl import plain
from headrace.formats.jsonl.format import JsonLinesTable
from headrace.formats.jsonl.plain import PlainDecoder, as_strings, infer_plain, plain_decoder
from headrace.formats.jsonl.types import infer
from headrace.io.cache.folder import cache_folder
from headrace.io.local.signatures import Signature

SCHEMA = {
    "i": hr.Feature("int64"),
    "small": hr.Feature("int8"),
    "u": hr.Feature("uint64"),
    "x": hr.Feature("float64"),
    "half": hr.Feature("float32"),
    "b": hr.Feature("bool"),
    "t": hr.Feature("str"),
    "li": hr.Feature("int64", (None,)),
    "lx": hr.Feature("float64", (2,)),
    "lt": hr.Feature("str", (None,)),
    "lb": hr.Feature("bool", (None,)),
    "pair": hr.Feature("str", (2,)),
    "lists": hr.Feature("int64", (None, None)),
    "grid": hr.Feature("float32", (2, 2)),
    "pairs": hr.Feature("str", (None, 2)),
    "rows": hr.Feature("int64", (2, None)),
}
ROW = {
    "i": -(2**63), "small": -128, "u": 2**64 - 1, "x": -0.5, "half": 0.1, "b": True, "t": 'a "quoted" \n é 😀', "li": [1, -2],
    "lx": [1, 2.5], "lt": ["", "ü"], "lb": [True, False], "pair": ["k", "\\"],
    "lists": [[1, 2], [], [3]], "grid": [[1, 2.5], [-3, 4]], "pairs": [["a", "b"], ["", "d"]], "rows": [[1], [2, 3]],
}  # fmt: skip


@pytest.fixture
def both(tmp_path, monkeypatch):
    """Reads lines with native code and without it."""

    def read(content, schema=None, *, native=True):
        path = tmp_path / "x.jsonl"
        path.write_bytes(content)
        used = []

        def decoder(*arguments, **options):
            made = plain_decoder(*arguments, **options) if native else None
            used.append(made)
            return made

        monkeypatch.setattr(jsonl_format, "plain_decoder", decoder)
        table = JsonLinesTable([str(path)], given=None if schema is None else hr.Schema(schema))
        try:
            return table.batch(np.arange(len(table)), tuple(table.schema)), used
        except hr.DataError as error:
            return (type(error), str(error)), used

    return read


def same(one, other):
    """Whether two outcomes are the same: columns of the same types and values, or the same error."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return one == other
    return one.keys() == other.keys() and all(same_column(one[name], other[name]) for name in one)


def same_column(one, other):
    if isinstance(one, Ragged):
        return (
            isinstance(other, Ragged)
            and one.offsets.tolist() == other.offsets.tolist()
            and same_column(one.values, other.values)
        )
    if isinstance(one, hr.Strings):
        return isinstance(other, hr.Strings) and one.shape == other.shape and one.tolist() == other.tolist()
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def check_both(both, content, schema=None):
    native, _ = both(content, schema)
    plain, _ = both(content, schema, native=False)
    assert same(native, plain), (content, native, plain)
    return native


def values_of(row):
    return [values_of(item) for item in row] if isinstance(row, Ragged) else row.tolist()


def lines_of(*rows):
    return b"".join(json.dumps(row, ensure_ascii=number % 2 == 0).encode() + b"\n" for number, row in enumerate(rows))


def test_every_kind_of_value(both):
    batch = check_both(both, lines_of(ROW, ROW), SCHEMA)
    for name, feature in SCHEMA.items():
        column = batch[name]
        value = values_of(column[1]) if feature.shape else column[1]
        expected = ROW[name] if name != "half" else np.float32(0.1)
        assert value == expected, name
    assert isinstance(batch["t"], hr.Strings)
    assert isinstance(batch["lt"].values, hr.Strings)
    assert batch["pair"].shape == (2, 2)


def test_plain_lines_do_not_reach_the_other_reader(both, monkeypatch):
    monkeypatch.setattr(jsonl_format, "parse", None)
    batch, used = both(lines_of(ROW, dict(reversed(ROW.items())), {"more": [{"deep": None}], **ROW}), SCHEMA)
    assert [type(decoder) for decoder in used] == [PlainDecoder]
    assert batch["i"].tolist() == [-(2**63)] * 3


@pytest.mark.parametrize(
    "line",
    [
        b"{}", b"", b"{", b"[]", b"1", b'{"i": 1', b'{"i": 1}}', b'{"i": 1} {"i": 2}', b'{"i": 1,}', b'{"i" 1}', b'{"i"}',
        b'{"i": 01}', b'{"i": -}', b'{"i": +1}', b'{"i": 1.0}', b'{"i": 1e2}', b'{"i": 9223372036854775808}', b'{"i": 1e400}',
        b'{"i": -9223372036854775808}', b'{"i": -9223372036854775809}', b'{"i": "1"}', b'{"i": null}', b'{"i": true}',
        b'{"i": 1, "i": 2}', b'{"i": [1]}', b'{"i": {"j": 1}}', b'{"\\u0069": 1}', b'{"i\\u0000": 1, "i": 2}', b'{"i":\t 1 }\r',
        b'{"i": 1, "z": [1, {"y": "\\ud83d\\ude00"}, null, -0.5e-7, ""]}', b'{"i": 1, "z": "\\ud83d"}', b'{"i": 1, "z": "\\x"}',
        b'{"i": 1, "z": "a\tb"}', b'{"i": 1, "z": "\xff"}', b'{"i": 1, "\xff": 1}', b'{"i": 1, "z": 01}', b'{"i": 1, "z": [1,]}',
        b'{"i": 1, "z": NaN}', b'{"i": 1, "z": .5}', b'{"i": 1, "z": 1.}', b'{"i": 1, "z": 1e}', b'{"i": 1, "z": nul}',
        b'{"i": 1, "z": ' + b"[" * 150 + b"]" * 150 + b"}", b'{"i": 1, "z": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"i": 1, "z": 1' + b"0" * 400 + b"}", b'{"i": -0}', b'{"i": 1}\x00', b'{"i": 1, "z": "\x00"}', b'{"i": 1, "" : 2}',
    ],
)  # fmt: skip
def test_lines_of_every_kind(both, line):
    for content in (line + b"\n", line, b'{"i": 5}\n' + line + b'\n{"i": 6}\n'):
        check_both(both, content, {"i": hr.Feature("int64")})
        check_both(both, content)


@pytest.mark.parametrize(
    "value",
    [
        "0.0", "-0.0", "-0", "0", "5", "1e22", "1.7976931348623157e308", "1.7976931348623159e308", "4.9e-324", "2.2250738585072014e-308",
        "1e-400", "9007199254740992", "9007199254740993", "-9007199254740993", "9007199254740993.0", "12345678901234567890",
        "123456789012345678901234567890", "0.1000000000000000055511151231257827021181583404541015625", "1e5", "1E+5", "3.5e38",
        "0.30000000000000000000000001", "null", '"1.5"', "true", "[1.5]", "NaN", "Infinity", "1e9999999", "65520", "1e-50",
    ],
)  # fmt: skip
def test_floats(both, value):
    for dtype in ("float64", "float32", "float16"):
        check_both(both, b'{"x": 1.5}\n{"x": %s}\n' % value.encode(), {"x": hr.Feature(dtype)})
        check_both(both, b'{"x": [1.5]}\n{"x": [%s, 2]}\n' % value.encode(), {"x": hr.Feature(dtype, (None,))})
    check_both(both, b'{"x": 1.5}\n{"x": %s}\n' % value.encode())
    check_both(both, b'{"x": [1.5]}\n{"x": [%s, 2]}\n' % value.encode())


@pytest.mark.parametrize(
    "text",
    [
        b"\\u00e9", b"\\ud83d\\ude00", b"\\ud83d", b"\\ude00\\ud83d", b"\\ud83dx", b"\\ud83d\\u0041", b"\\u0000", b"\\u12", b"\\uZZZZ",
        b"\\/\\b\\f\\n\\r\\t\\\"\\\\", b"\\a", b"\\", b"a\x1fb", b"\x7f", b"\xc3\xa9", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
        b"x" * 1000 + b"\\n", b"\\uFFFF", b"\\uFeFF",
    ],
)  # fmt: skip
def test_texts(both, text):
    for content in (
        b'{"t": "a"}\n{"t": "%s"}\n' % text,
        b'{"t": ["%s", "b"]}\n' % text,
        b'{"t": "a", "%s": 1}\n' % text,
    ):
        check_both(both, content)


def test_missing_keys_and_nulls(both):
    rows = ({"x": 1.5, "l": [1], "t": ["a"]}, {"x": None, "l": None}, {}, {"l": [], "t": None, "x": 2})
    schema = {"x": hr.Feature("float32"), "l": hr.Feature("int64", (None,)), "t": hr.Feature("str", (None,))}
    batch = check_both(both, lines_of(*rows), schema)
    assert batch["l"].offsets.tolist() == [0, 1, 1, 1, 1]
    assert [math.isnan(x) for x in batch["x"]] == [False, True, True, False]
    for feature in (hr.Feature("int64"), hr.Feature("str"), hr.Feature("bool"), hr.Feature("int64", (1,))):
        check_both(both, lines_of(*rows), {"l" if feature.shape else "x": feature})
        check_both(both, b'{"x": null}\n', {"x": feature})
    schema = {"x": hr.Feature("float64", default=7), "l": hr.Feature("int64", (1,), default=[4])}
    check_both(both, lines_of({"x": None, "l": [5]}, {"l": None}), schema)


def test_lists_of_another_length(both):
    for rows in (({"v": [1, 2]}, {"v": [3]}), ({"v": [1, 2]}, {"v": [3, 4]}), ({"v": []},)):
        for length in (2, None):
            check_both(both, lines_of(*rows), {"v": hr.Feature("int32", (length,))})
            check_both(
                both, lines_of(*({"v": list(map(str, row["v"]))} for row in rows)), {"v": hr.Feature("str", (length,))}
            )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_the_ends_of_integers(both, dtype):
    limits = np.iinfo(dtype)
    inside = {"v": [limits.min, 0, limits.max]}
    batch = check_both(both, lines_of(inside), {"v": hr.Feature(dtype, (None,))})
    assert batch["v"].values.tolist() == inside["v"]
    for beyond in (limits.min - 1, limits.max + 1, 10**19, 10**20, 10**30):
        outcome = check_both(both, lines_of({"v": [beyond]}), {"v": hr.Feature(dtype, (None,))})
        assert isinstance(outcome, tuple) or outcome["v"].values.tolist() == [beyond]


def test_keys_in_any_order_and_many(both):
    names = [f"k{number}" for number in range(50)]
    random = np.random.default_rng(1)
    rows = [{names[k]: int(k) * row for k in random.permutation(50)} for row in range(30)]
    batch = check_both(both, lines_of(*rows))
    assert all(batch[name].tolist() == [number * row for row in range(30)] for number, name in enumerate(names))


def test_objects_in_objects(both):
    rows = (
        {"p": {"x": 1.5, "q": {"t": "a", "n": [1, 2]}}, "m": [[1], [2, 3]]},
        {"m": [[4, 5]], "p": {"q": {"n": [3], "t": "b"}, "x": 2}},
    )
    batch = check_both(both, lines_of(*rows))
    assert batch["p/x"].tolist() == [1.5, 2]
    assert batch["p/q/t"].tolist() == ["a", "b"]
    assert [row.tolist() for row in batch["p/q/n"]] == [[1, 2], [3]]
    assert [values_of(row) for row in batch["m"]] == [[[1], [2, 3]], [[4, 5]]]
    for other in (b'{"p": 1}', b'{"p": null}', b'{"p": {}}', b'{"p": [1]}', b'{"p": {"x": null, "q": null}}', b'{"m": [null]}',
                  b'{"m": [[null]]}', b'{"m": [1]}', b'{"m": [[[1]]]}', b'{"p": {"x": 1}, "p": {"x": 2}}', b'{"p": {"q": {"t": null}}}',
                  b'{"p": {"x": 1, "x": 2}}', b'{"p": {"q": {"t": "\\u0000"}}}', b'{"p": {"q": {"t": 5}}}'):  # fmt: skip
        check_both(both, lines_of(*rows) + other + b"\n")


def test_defaults(both):
    rows = (
        {"i": 1, "t": "a", "b": True, "x": 0.5, "u": 2},
        {"i": None, "t": None, "b": None, "x": None, "u": None},
        {},
    )
    schema = {
        "i": hr.Feature("int8", default=-5),
        "t": hr.Feature("str", default="é"),
        "b": hr.Feature("bool", default=True),
        "x": hr.Feature("float32", default=0.1),
        "u": hr.Feature("uint64", default=2**64 - 1),
    }
    batch, used = both(lines_of(*rows), schema)
    assert used != [None]
    assert same(batch, check_both(both, lines_of(*rows), schema))
    assert {name: column.tolist() for name, column in batch.items()} == {
        "i": [1, -5, -5],
        "t": ["a", "é", "é"],
        "b": [True, True, True],
        "x": [0.5, *[float(np.float32(0.1))] * 2],
        "u": [2, 2**64 - 1, 2**64 - 1],
    }


def test_what_native_code_leaves_alone():
    flat = {"a": hr.Feature("int64"), "b": hr.Feature("str", (None,))}
    assert plain_decoder(hr.Schema(flat), ("b", "a"), {}, exact=True) is not None
    assert plain_decoder(hr.Schema(flat), (), {}, exact=True) is None
    for paths in ((("b", "x"), ("b",)), (("x",), ("x",)), (("x",) * 65, ("y",))):
        found = dict(zip(flat, paths, strict=True))
        assert plain_decoder(hr.Schema(flat), ("a", "b"), found, exact=True) is None
        assert plain_decoder(hr.Schema(flat), ("b", "a"), found, exact=True) is None
    others = (
        hr.Feature("datetime64[s]"),
        hr.Feature("int64", (1,), default=[1]),
        hr.Feature("bytes"),
    )
    for feature in others:
        assert plain_decoder(hr.Schema({"a": feature}), ("a",), {}, exact=True) is None


def test_text_of_objects_becomes_strings():
    texts = np.array(["a", "b"], object)
    assert as_strings(texts).tolist() == ["a", "b"]
    assert isinstance(as_strings(Ragged(texts, np.array([0, 1, 2]))).values, hr.Strings)
    assert as_strings(np.arange(2)).tolist() == [0, 1]


def test_damage_anywhere_is_reported_as_before(both):
    row = {"i": -12, "t": 'é\n"', "l": [1, 23], "x": -1.5e-3, "b": True, "z": {"y": [None]}}
    schema = {
        "i": hr.Feature("int64"),
        "t": hr.Feature("str"),
        "l": hr.Feature("int64", (None,)),
        "x": hr.Feature("float64"),
    }
    whole = lines_of(row, row)
    for position in range(len(whole) // 2):
        for byte in ((0x22, 0x5C, 0xFF), (0x2C, 0x31, 0), (0x7D, 0x20, 0x2E))[position % 3]:
            check_both(both, whole[:position] + bytes([byte]) + whole[position + 1 :], schema)
    for cut in range(len(whole) // 2, len(whole)):  # the second row
        check_both(both, whole[:cut], schema)


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.integers(-300, 300), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.one_of(
    NUMBERS,
    st.booleans(),
    st.none(),
    st.text(max_size=12),
    st.lists(NUMBERS, max_size=4),
    st.lists(st.text(max_size=4), max_size=3),
    st.lists(st.lists(st.one_of(NUMBERS, st.none()), max_size=3), max_size=3),
    st.dictionaries(
        st.sampled_from(["a", "b"]), st.one_of(NUMBERS, st.none(), st.lists(NUMBERS, max_size=3)), max_size=2
    ),
)
ROWS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", "é"]), VALUES, max_size=4), min_size=1, max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.booleans(), st.sampled_from([(",", ":"), (" ,\t", " : ")]))
@example([{"a": 1.5, "b": "x"}, {"b": "y", "a": 2}], True, (",", ":"))
def test_any_rows(both, rows, ascii_only, marks):
    try:
        content = b"".join(json.dumps(row, ensure_ascii=ascii_only, separators=marks).encode() + b"\n" for row in rows)
    except UnicodeEncodeError:
        return
    check_both(both, content)


LISTS = st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=3)
INNER = st.fixed_dictionaries(
    {}, optional={"t": st.one_of(st.none(), st.text(max_size=4)), "n": st.lists(st.integers(), max_size=2)}
)
OUTER = st.fixed_dictionaries(
    {}, optional={"x": st.one_of(st.none(), st.floats(-5, 5)), "q": st.one_of(st.none(), INNER)}
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries({}, optional={"p": st.one_of(st.none(), OUTER), "m": st.one_of(st.none(), LISTS)}),
        min_size=1,
    )
)
def test_nested_rows_without_some_keys(both, rows):
    try:
        content = lines_of({"p": {"x": 1.5, "q": {"t": "a", "n": [1, 2]}}, "m": [[1], [2, 3]]}, *rows)
    except UnicodeEncodeError:
        return
    check_both(both, content)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1), st.text(), st.lists(st.floats(allow_nan=False, allow_infinity=False))
        )
    )
)
def test_values_against_json(both, rows):
    try:
        content = lines_of(*({"i": i, "t": t, "l": numbers} for i, t, numbers in rows))
    except UnicodeEncodeError:
        return
    schema = {"i": hr.Feature("int64"), "t": hr.Feature("str"), "l": hr.Feature("float64", (None,))}
    outcome, _ = both(content, schema)
    expected = [json.loads(line) for line in content.splitlines()]
    assert outcome["i"].tolist() == [row["i"] for row in expected]
    assert outcome["t"].tolist() == [row["t"] for row in expected]
    assert [row.tolist() for row in outcome["l"]] == [row["l"] for row in expected]


ITEM = st.fixed_dictionaries(
    {"t": st.text(max_size=4), "n": st.integers(-9, 9)},
    optional={
        "l": st.lists(st.integers(-9, 9), max_size=2),
        "u": st.none(),
        "p": st.fixed_dictionaries({"x": st.floats(-5, 5)}),
    },
)
CALLS = st.fixed_dictionaries(
    {"id": st.text(max_size=2), "of": st.lists(st.fixed_dictionaries({"k": st.integers(0, 5)}), max_size=3)}
)
ODD = st.one_of(
    st.none(), st.integers(), st.just({"t": None, "n": 1}), st.just({"n": 1}), st.just({"t": "a", "n": 1, "new": 2})
)


def nested_rows(items):
    return st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "m": st.one_of(st.none(), st.lists(items, max_size=3)),
                "c": st.lists(CALLS, max_size=2),
                "i": st.just(5),
            },
        ),
        min_size=1,
        max_size=5,
    )


FIRST = {"m": [{"t": "a", "n": 1, "l": [1], "p": {"x": 0.5}}], "c": [{"id": "b", "of": [{"k": 1}, {"k": 2}]}], "i": 5}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nested_rows(st.one_of(ITEM, ITEM, ITEM, ODD)))
@example([{"m": [{"t": "é", "n": 2}, {"n": 3, "t": ""}], "c": []}])
@example([{"m": [{"t": "a", "n": 1}, {"t": "b", "n": 2, "l": None}]}])
def test_lists_of_objects(both, rows):
    try:
        content = lines_of(FIRST, *[{"i": 5} | row for row in rows])
    except UnicodeEncodeError:
        return
    check_both(both, content)
    check_both(both, content, {"m/t": hr.Feature("str", (None,)), "c/of/k": hr.Feature("int8", (None, None))})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nested_rows(st.fixed_dictionaries({"t": st.text(max_size=4), "n": st.integers(-9, 9)})))
def test_fields_of_objects_in_lists_against_json(both, rows):
    try:
        content = lines_of({"c": FIRST["c"], "m": [{"t": "a", "n": 1}]}, *rows)
    except UnicodeEncodeError:
        return
    schema = {
        "m/t": hr.Feature("str", (None,)),
        "m/n": hr.Feature("int64", (None,)),
        "c/of/k": hr.Feature("uint64", (None, None)),
    }
    batch, used = both(content, schema)
    assert used != [None]
    expected = [json.loads(line) for line in content.splitlines()]
    for key in ("t", "n"):
        assert batch[f"m/{key}"].to_list() == [[item[key] for item in row.get("m") or []] for row in expected]
    assert batch["c/of/k"].to_list() == [
        [[k["k"] for k in call["of"]] for call in row.get("c", ())] for row in expected
    ]


KEYS = st.sampled_from(["a", "b", "é"])
SCALARS = {
    "int": st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9),
    "number": st.integers(-9, 9) | st.floats(-1e6, 1e6),
    "large": st.sampled_from([2**53, 2.0**53, 2**64, 1e-300]),
    "bool": st.booleans(),
    "text": st.text(max_size=4) | st.sampled_from(["2020-01-02", "2020-01-02 03:04:05", "\0", "\u2028"]),
    "null": st.none(),
    "any": st.integers() | st.booleans() | st.text(max_size=2) | st.floats(),
}


def shapes(inner):
    """What values at one place of a line look like: a name of `SCALARS`, a list of one kind, or an object."""
    return st.tuples(st.just("list"), inner) | st.tuples(st.just("object"), st.dictionaries(KEYS, inner, max_size=3))


SHAPES = st.recursive(st.sampled_from([*SCALARS, *["int", "number", "bool", "text"] * 3]), shapes, max_leaves=6)


def values_like(shape):
    if isinstance(shape, str):
        return SCALARS[shape]
    kind, inner = shape
    if kind == "list":
        some = values_like(inner)
        return st.none() | st.lists(some, max_size=3) | st.lists(some, min_size=2, max_size=2)
    found = st.fixed_dictionaries({}, optional={key: values_like(each) for key, each in inner.items()})
    whole = st.fixed_dictionaries({key: values_like(each) for key, each in inner.items()})
    return st.one_of(whole, whole, whole, whole, found, st.none())


@settings(max_examples=400)
@given(st.dictionaries(KEYS, SHAPES, min_size=1, max_size=3), st.sampled_from([0, 40, 1 << 20]), st.data())
def test_features_without_pyarrow_are_those_of_pyarrow(shape, few_bytes, data):
    rows = data.draw(
        st.lists(values_like(("object", shape)).filter(lambda row: row is not None), min_size=1, max_size=4)
    )
    try:
        lines = [json.dumps(row, ensure_ascii=data.draw(st.booleans())).encode() for row in rows]
    except UnicodeEncodeError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "FEW_BYTES", few_bytes)
        patch.setattr(plain, "PIECE_BYTES", 100)
        patch.setattr(plain, "MOST_PARSED", data.draw(st.sampled_from([200, 1 << 20])))
        found = infer_plain(lines)
    if found is not None:
        assert list(found.items()) == list(infer(lines).items())


@pytest.mark.parametrize(
    ("first", "later", "is_usual"),
    [
        ({"a": 1, "t": "x", "l": [1.5, 2]}, {"a": 2, "t": "y", "l": [3, 4.5]}, True),
        ({"a": 0.5}, {"a": 7}, True),
        ({"a": 0.5}, {}, True),
        ({"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 2}, {"c": 3}]}}, True),
        ({"a": 1}, {"a": 1.5}, False),
        ({"a": 1}, {"a": None}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({"a": 1}, {"a": 1 << 63}, False),
        ({"a": 0.5}, {"a": (1 << 53) + 1}, False),
        ({"a": 0.5}, {"a": 1e300}, False),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, False),
        ({"a": "x"}, {"b": "x"}, False),
    ],
)
def test_features_of_few_lines_are_those_of_all_that_have_them(monkeypatch, first, later, is_usual):
    lines = [json.dumps(first).encode(), *[json.dumps(first).encode()] * 3, json.dumps(later).encode()]
    monkeypatch.setattr(plain, "FEW_BYTES", 0)
    monkeypatch.setattr(plain, "MOST_PARSED", len(lines[0]))  # Else Python parses all of them after this.
    assert (infer_plain(lines) is not None) is is_usual
    monkeypatch.undo()
    whole = infer_plain(lines)
    if is_usual:
        monkeypatch.setattr(plain, "FEW_BYTES", 0)
        assert list(infer_plain(lines).items()) == list(whole.items()) == list(infer(lines).items())


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"a": 1, "a": 2}'],
        [b'{"a": {"b": 1, "b": 2}}'],
        [b'{"a/b": 1}'],
        [b'{"": 1}'],
        [b'{"a": NaN}'],
        [b'{"a": 1e999}'],
        [b'{"a": 9007199254740993.0}'],
        [b'{"a": 0.5}', b'{"a": 9007199254740993}'],
        [b'{"a": 9223372036854775808}'],
        [b'{"a": null}', b"{}"],
        [b'{"a": []}'],
        [b'{"a": {}}'],
        [b'{"a": 1}', b'{"a": "1"}'],
        [b'{"a": "' + bytes([120]) * (4 << 20) + b'"}'],
        [b'{"a": [1, true]}'],
        [b'{"a": [1, {"b": 2}]}'],
        [b'{"a": [[{"b": 2}]]}'],
        [b'{"a": "\xff"}'],
        [b'{"a": "\xed\xa0\x80"}'],
        [b'{"a": "\\ud800"}'],
        [b'{"\\udc00": 1}'],
        [b'{"a": 1} {"a": 2}'],
        [b"[1]"],
        [b'\xef\xbb\xbf{"a": 1}'],
        [b'{"a": ' + b"[" * 5000 + b"1" + b"]" * 5000 + b"}"],
        [b'{"a": ' + b'{"a": ' * 40 + b"1" + b"}" * 41],
    ],
)
def test_lines_that_only_pyarrow_can_tell_are_left_to_it(lines):
    assert infer_plain(lines) is None


def test_usual_lines_are_opened_and_read_without_pyarrow(tmp_path):
    """Its import takes longer than reading a small file."""
    path = tmp_path / "chats.jsonl"
    row = {
        "id": 1,
        "x": 0.5,
        "tags": ["a", "b"],
        "box": [[1, 2], [3, 4]],
        "of": {"k": True, "n": None},
        "s": "\U0001f600",
    }
    rows = [
        row | {"messages": [{"role": "user", "content": "hi"}] * count, "of": {"k": True, "n": 5}}
        for count in (1, 2, 0)
    ]
    path.write_bytes(lines_of(*rows))
    code = (
        "import sys, headrace as hr; source = hr.open(sys.argv[1]); "
        "print([len(batch['id']) for batch in hr.Loader(source, 2)], 'pyarrow' in sys.modules, source.schema['messages/role'].shape)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[2, 1] False (None,)"


ROWS = [
    {"a": number, "x": number / 3, "t": ["text", "of", str(number)], "o": {"b": [{"c": True}]}} for number in range(50)
]


def inferences(monkeypatch):
    """How many lines were looked at, each time that features were found."""
    seen = []

    def counted(lines):
        seen.append(len(lines))
        return infer_plain(lines)

    monkeypatch.setattr(jsonl_format, "infer_plain", counted)
    return seen


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def settled(monkeypatch):
    """Files count as unchanged for long enough."""
    monkeypatch.setattr(Signature, "is_settled", lambda _: True)


@pytest.mark.parametrize("kept_bytes", [1, 1 << 20])
def test_features_of_long_lines_are_kept_while_the_files_stay(tmp_path, settled, monkeypatch, kept_bytes):
    monkeypatch.setattr(jsonl_format, "KEPT_BYTES", kept_bytes)
    seen = inferences(monkeypatch)
    path = tmp_path / "a.jsonl"
    write_rows(path, ROWS)
    first, again = (hr.open(path).schema for _ in range(2))
    assert first == again
    assert list(first) == list(again) == ["a", "x", "t", "o/b/c"]
    assert len(seen) == (1 if kept_bytes == 1 else 2)
    assert hr.open(path)[7]["t"].tolist() == ["text", "of", "7"]
    assert [b["a"].tolist() for b in hr.Loader(hr.open(path), 50)] == [list(range(50))]
    write_rows(path, [{"a": "text"}] * 51)
    assert hr.open(path).schema == hr.Schema({"a": hr.Feature("str")})


def test_features_that_were_kept_are_those_of_the_same_columns_and_rows(tmp_path, settled, monkeypatch):
    monkeypatch.setattr(jsonl_format, "KEPT_BYTES", 1)
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    write_rows(path, ROWS)
    write_rows(other, ROWS[:20])
    for _ in range(2):
        assert list(hr.open(path).schema) == ["a", "x", "t", "o/b/c"]
        assert list(hr.open([str(path), str(other)]).schema) == ["a", "x", "t", "o/b/c"]
        table = JsonLinesTable([str(path)]).only(("a",))
        assert list(table.schema) == ["a"]
    bad = tmp_path / "c.jsonl"
    bad.write_text('{"a": 1}\n{"a": {"b": 1}}\n', encoding="utf-8")
    for _ in range(2):
        with pytest.raises(hr.errors.DataError):
            hr.open(bad)


def test_damage_behind_features_that_were_kept_is_found(tmp_path, settled, monkeypatch):
    monkeypatch.setattr(jsonl_format, "KEPT_BYTES", 1)
    path = tmp_path / "a.jsonl"
    write_rows(path, ROWS)
    _ = hr.open(path).schema
    content = path.read_bytes()
    kept = list(cache_folder("findings").iterdir())
    assert len(kept) == 1
    for stored in kept:
        text = stored.read_bytes()
        stored.write_bytes(text[:-9] + bytes([text[-9] ^ 1]) + text[-8:])
    assert list(hr.open(path).schema) == ["a", "x", "t", "o/b/c"]
    path.write_bytes(content[:60] + b"}" + content[61:])
    with pytest.raises(hr.errors.DataError):
        list(hr.Loader(hr.open(path), 10))
