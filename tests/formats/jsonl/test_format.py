"""JSON Lines of other writers, and damage."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace as hr
from headrace.errors import CorruptRecord, SchemaMismatch, UnsupportedData
from headrace.formats.jsonl.format import LineFraming


@pytest.fixture
def put(tmp_path):
    def write(*lines, name="x.jsonl", end="\n"):
        path = tmp_path / name
        text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_bytes((end.join(text) + end).encode())
        return path

    return write


def test_inference_from_the_first_rows(put):
    source = hr.open(
        put(
            {"id": 1, "x": [1, 2.5], "tags": ["a"], "deep": {"er": {"v": True}}, "day": "2020-01-01"},
            {"id": 2, "x": [3, 4], "tags": [], "deep": {"er": {"v": False}}, "day": "2020-01-02", "more": 1.5},
        )
    )
    assert {name: (f.dtype, f.shape) for name, f in source.schema.items()} == {
        "id": ("int64", ()),
        "x": ("float64", (2,)),
        "tags": ("str", (None,)),
        "deep/er/v": ("bool", ()),
        "day": ("str", ()),
        "more": ("float64", ()),
    }
    batch = source.batch([1, 0])
    assert batch["x"].tolist() == [[3, 4], [1, 2.5]]
    assert batch["deep/er/v"].tolist() == [False, True]
    assert batch["more"][0] == 1.5
    assert np.isnan(batch["more"][1])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n", "\n \t\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_however_they_end(put, end, mark):
    path = put(*({"n": n} for n in range(5)), end=end)
    path.write_text(mark + path.read_text().rstrip(), encoding="utf-8")
    source = hr.open(path)
    assert source.batch([4, 0, 2])["n"].tolist() == [4, 0, 2]
    assert len(source) == 5
    content = path.read_bytes()
    assert content[source.where(3).offset :].startswith(b'{"n": 3}')


def test_a_schema_sets_the_types(put):
    path = put({"n": 1, "t": "2020-01-01T10:00:00", "x": [1, 2]}, {"t": "2020-01-02", "x": [3, 4]})
    given = {"t": hr.Feature("M8[s]"), "n": hr.Feature("uint8", default=7), "x": hr.Feature("float32", (2,))}
    batch = hr.open(path, schema=given).batch([1, 0])
    assert batch["t"].tolist()[1] == np.datetime64("2020-01-01T10:00:00").item()
    assert (batch["n"].tolist(), batch["n"].dtype) == ([7, 1], np.uint8)
    assert batch["x"].dtype == np.float32


def test_every_line_at_fault_is_named(put):
    path = put(*({"n": n} for n in range(300)), '{"n": 300', "[1]", {"n": "x"}, '{"n": 1} {"n": 2}', {"n": 5})
    report = hr.verify(path)
    assert [fault.where.record for fault in report.faults] == [300, 301, 302, 303]
    assert [type(fault) for fault in report.faults] == [CorruptRecord, CorruptRecord, SchemaMismatch, CorruptRecord]
    assert (report.records, report.bytes) == (301, path.stat().st_size)
    source = hr.open(path)
    for index, kind in ((300, CorruptRecord), (302, SchemaMismatch)):
        with pytest.raises(kind) as raised:
            source.batch([0, index, 1])
        assert raised.value.where.record == index
        assert path.read_bytes()[raised.value.where.offset :].startswith(b"{")
    assert source.batch([304])["n"].tolist() == [5]


NO_OBJECTS = [
    "null",
    " null\t",
    "null\r",
    "nullx",
    "null null",
    "null{}",
    "{}null",
    "{}null{}",
    "{} {}",
    "[null]",
    "5",
    '"s"',
    "true",
]


@pytest.mark.parametrize("line", NO_OBJECTS)
@pytest.mark.parametrize("before", [0, 1, 300])
def test_a_line_that_is_no_object_is_refused_in_every_reading(put, line, before):
    """pyarrow takes null for a row, or ends the process."""
    path = put(*({"x": n + 0.5} for n in range(before)), line, {"x": 2.5})
    given = {"x": hr.Feature("float64", default=7)}
    for read in (
        lambda: list(hr.open(path)),
        lambda: list(hr.open(path, schema=given)),
        lambda: hr.open(path, schema=given)[before],
        lambda: hr.open(path, schema=given).batch([before, before + 1]),
        lambda: hr.Schema.infer(path) if before < 256 else list(hr.open(path)),
    ):
        with pytest.raises(CorruptRecord, match="one JSON object a line") as raised:
            read()
        assert raised.value.where.record == before
    for schema in (None, given) if before else (given,):
        assert [fault.where.record for fault in hr.verify(path, schema=schema).faults] == [before]
    for schema in (None, given):
        rest = hr.open(path, schema=schema, on_corrupt="skip")
        assert (rest.skipped.records, len(rest), rest[before]["x"]) == (1, before + 1, 2.5)


def test_an_object_does_not_go_on_in_the_next_line(put):
    """Two halves and a whole object make as many objects as lines."""
    path = put('{"x":', '1}{"x": 2}', {"x": 3})
    with pytest.raises(CorruptRecord) as raised:
        hr.open(path, schema={"x": hr.Feature("int64")}).batch([0, 1, 2])
    assert raised.value.where.record == 0


def test_rows_of_several_types(put):
    with pytest.raises(SchemaMismatch) as raised:
        hr.open(put({"n": 1}, {"n": 2}, {"n": "three"}))
    assert raised.value.where.record == 2


@pytest.mark.parametrize("value", [None, [], [[]]])
def test_values_without_a_type(put, value):
    path = put({"n": value, "m": 1})
    with pytest.raises(UnsupportedData, match="schema="):
        hr.open(path)
    assert hr.open(path, schema={"m": hr.Feature("int8")})[0] == {"m": 1}


def test_compressed(put, tmp_path):
    path = put(*({"n": n} for n in range(50)))
    packed = tmp_path / "y.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert hr.open(packed).batch([49, 3])["n"].tolist() == [49, 3]
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(hr.CorruptFile):
        hr.open(packed).batch([0])


def test_numbers_that_json_does_not_have(tmp_path):
    hr.write(tmp_path / "x.jsonl", {"x": np.array([np.nan, 1], np.float32)})
    assert (tmp_path / "x.jsonl").read_text() == '{"x":null}\n{"x":1.0}\n'
    with pytest.raises(UnsupportedData, match="inf"):
        hr.write(tmp_path / "y.jsonl", {"x": np.array([np.inf])})
    with pytest.raises(UnsupportedData, match="bytes"):
        hr.write(tmp_path / "y.jsonl", {"x": np.array([b"a"], object)})
    assert not (tmp_path / "y.jsonl").exists()


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_found_from_any_piece_on(seed):
    rng = np.random.default_rng(seed)
    content = bytes(rng.choice(np.frombuffer(b"a{ \t\r\n\n\n", np.uint8), rng.integers(1, 60)))
    framing = LineFraming("jsonl")
    view = memoryview(content)
    plain, at = [], 0
    for line in content.split(b"\n"):
        if line.strip(b" \t\r"):
            plain.append(at)
        at += len(line) + 1
    assert framing.find(view, 0) == (plain[0] if plain else -1)
    begin = plain[0] if plain else len(content)
    for cut in range(1, len(content)):
        if begin < cut:
            head, end = framing.scan(view, begin, cut, verify=False, max_records=cut)
            assert head.tolist() == [start for start in plain if start < cut]
            assert end == next((start for start in plain if start >= cut), len(content))
        assert framing.find(view, cut) == next((start for start in plain if start >= cut), -1)


def test_narrow_floats_are_written_short(tmp_path):
    batch = {
        "a": np.array([1.68, 0.1, 1e-40, 3.4028235e38], np.float32),
        "b": np.array([0.1, 2, 65504, 6e-8], np.float16),
    }
    hr.write(tmp_path / "x.jsonl", batch)
    assert (tmp_path / "x.jsonl").read_text().splitlines() == [
        '{"a":1.68,"b":0.1}',
        '{"a":0.1,"b":2.0}',
        '{"a":1e-40,"b":65500.0}',
        '{"a":3.4028235e+38,"b":6e-08}',
    ]
    assert hr.open(tmp_path / "x.jsonl")[0]["a"] == 1.68


@given(
    hnp.arrays(np.float32, 8, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)),
    hnp.arrays(np.uint16, 8),
)
def test_narrow_floats_round_trip(tmp_path_factory, single, bits):
    half = bits.view(np.float16)
    half = np.where(np.isfinite(half), half, np.float16(1))
    path = tmp_path_factory.mktemp("floats") / "x.jsonl"
    columns = {"a": single, "b": half, "c": single.reshape(8, 1), "d": hr.Ragged(single, np.arange(9))}
    schema = {
        "a": hr.Feature("float32"),
        "b": hr.Feature("float16"),
        "c": hr.Feature("float32", (1,)),
        "d": hr.Feature("float32", (None,)),
    }
    hr.write(path, columns, schema=schema)
    found = hr.open(path, schema=schema).batch(range(8))
    for name in ("a", "b", "c"):
        np.testing.assert_array_equal(found[name], columns[name])
    np.testing.assert_array_equal(found["d"].values, single)


def test_a_number_that_is_too_large_for_its_float(put):
    path = put({"x": 1.5}, {"x": 1e39})
    source = hr.open(path, schema={"x": hr.Feature("float32")})
    with pytest.raises(SchemaMismatch, match=r"a number that float32 holds, found 1e\+39 - .*record 1,"):
        source.batch([0, 1])
    assert hr.open(path).batch([1])["x"].tolist() == [1e39]
    assert [fault.where.record for fault in hr.verify(path, schema={"x": hr.Feature("float32")}).faults] == [1]


# ------------------------------------------------------------------------------------------------------------ depth


@pytest.mark.parametrize("levels", [200, 5000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("row", [0, 2, 300])
def test_deep_nesting_is_refused_before_it_is_parsed(put, levels, opening, closing, row):
    deep = '{"n":1,"x":' + opening * levels + "1" + closing * levels + "}"
    path = put(*({"n": 1} for _ in range(row)), deep, {"n": 2})
    match = rf"lists and objects more than 200 levels deep.*x.jsonl, record {row}, byte"
    with pytest.raises(CorruptRecord, match=match):
        hr.open(path)[row]
    with pytest.raises(CorruptRecord, match=match):
        hr.open(path, schema={"n": hr.Feature("int64")}).batch([row])
    assert any("200 levels deep" in str(fault) for fault in hr.verify(path).faults)


def test_depth_does_not_add_up_over_lines(put):
    path = put(*('{"n": [[[1]]]}' for _ in range(500)))
    assert len(list(hr.open(path))) == 500
    spread = put(*("[" for _ in range(100_000)))  # a value over many lines counts as well
    with pytest.raises(CorruptRecord):
        hr.open(spread, format="jsonl", schema={"n": hr.Feature("int64")}).batch(np.arange(100_000))


def test_brackets_in_text_do_not_count(put):
    text = '["[[[{{{' + "[" * 1000 + '\\"' + "[" * 1000
    assert hr.open(put({"t": text, text: 1}))[0] == {"t": text, text: 1}


def test_more_axes_than_arrays_have(put):
    with pytest.raises(UnsupportedData, match="31 deep at most, found 100"):
        _ = hr.open(put('{"x":' + "[" * 100 + "1" + "]" * 100 + "}")).schema


# ------------------------------------------------------------------------------------------------------------ numbers

BIG = 9007199254740993  # no float64


@pytest.mark.parametrize("rows", [[BIG, 2**63], [0, 2**64 - 1], [2**63, None, 5]])
def test_whole_numbers_stay_whole(put, rows, tmp_path):
    path = put(*({"x": row, "deep": {"y": [row, row]}} for row in rows))
    source = hr.open(path, schema={"x": hr.Feature("uint64", default=0), "deep/y": hr.Feature("uint64", (2,))})
    if None not in rows:
        source = hr.open(path)
        assert source.schema["x"] == hr.Feature("uint64")
        assert source.schema["deep/y"] == hr.Feature("uint64", (2,))
        assert source.batch([0, 1])["deep/y"].tolist() == [[row, row] for row in rows]
        hr.convert(path, tmp_path / "y.parquet")
        assert [e["x"] for e in hr.open(tmp_path / "y.parquet")] == rows
    else:
        source = source.select("x")
    assert [int(source[at]["x"]) for at in range(len(rows))] == [row or 0 for row in rows]


@pytest.mark.parametrize(
    ("rows", "row", "match"),
    [
        ([2**64], 0, "integers of 64 bits, found 18446744073709551616"),
        ([1, 10**400], 1, "integers of 64 bits, found an integer of 401 digits"),
        ([1, -(10**4000)], 1, "4001 digits"),
        ([-1, 2**63], 1, "with a sign, because others are negative, found 9223372036854775808"),
        ([1.5, BIG], 1, "holds exactly, because there are fractions beside them, found 9007199254740993"),
        ([BIG, 1, 2.5], 0, "holds exactly, because there are fractions beside them, found 9007199254740993"),
    ],
)
@pytest.mark.parametrize("shape", ["scalar", "list", "nested", "struct"])
def test_numbers_that_would_change_are_refused(put, rows, row, match, shape, tmp_path):
    wrap = {
        "scalar": lambda value: value,
        "list": lambda value: [0, value],
        "nested": lambda value: [[value], []],
        "struct": lambda value: {"y": value},
    }[shape]
    path = put(*({"x": wrap(value), "n": 1} for value in rows))
    with pytest.raises(UnsupportedData, match=rf"{match} - at .*x.jsonl, record {row}, .*feature 'x.*rounds"):
        _ = hr.open(path).schema
    with pytest.raises(UnsupportedData, match=match):
        hr.convert(path, tmp_path / "y.parquet")
    assert not (tmp_path / "y.parquet").exists()
    assert hr.open(path, schema={"n": hr.Feature("int64")})[row] == {"n": 1}  # the others can be read


def test_later_numbers_are_held_against_the_first_ones(put, tmp_path):
    path = put(*({"x": 0.5} for _ in range(300)), {"x": BIG})
    with pytest.raises(SchemaMismatch, match=r"float64 holds exactly, found 9007199254740993 - at .*record 300, .*'x'"):
        hr.convert(path, tmp_path / "y.parquet")
    assert hr.open(path, schema={"x": hr.Feature("float64")})[300]["x"] == float(BIG)  # as it was asked for
    path = put(*({"x": 1} for _ in range(300)), {"x": 2**63})
    with pytest.raises(SchemaMismatch, match="9223372036854775808"):
        _ = hr.open(path)[300]
    path = put(*({"x": 0.5} for _ in range(300)), {"x": 10**400})
    for schema in (None, {"x": hr.Feature("float64")}):
        with pytest.raises(SchemaMismatch, match="401 digits"):
            _ = hr.open(path, schema=schema)[300]


def test_large_floats_and_exact_whole_numbers_stay(put):
    rows = [0.5, 1e300, 2**53, 2**60, 2**70, -(2**63), 1e16, 123456789012345680.0]
    assert [e["x"] for e in hr.open(put(*({"x": row} for row in rows)))] == [float(row) for row in rows]


@given(
    st.lists(
        st.one_of(
            st.integers(-(2**70), 2**70),
            st.integers(2**53 - 3, 2**53 + 3),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_headers_are_read_as_in_python(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("x") / "x.jsonl"
    path.write_text("".join(json.dumps({"x": value}) + "\n" for value in values))
    try:
        found = [example["x"].item() for example in hr.open(path)]
    except UnsupportedData:
        whole = all(isinstance(value, int) for value in values)
        assert not (whole and (all(-(2**63) <= v < 2**63 for v in values) or all(0 <= v < 2**64 for v in values)))
        assert whole or any(isinstance(v, int) and int(float(v)) != v for v in values)
    else:
        assert found == values  # Python compares integers and floats exactly.


# --------------------------------------------------------------------------------------------------------------- text


@pytest.mark.parametrize("row", [0, 3])
def test_keys_and_values_that_are_not_utf8(tmp_path, row):
    lines = [b'{"a": "x"}'] * 5
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join([*lines[:row], b'{"\xff\xfe": 1, "a": "x"}', *lines[row:]]))
    with pytest.raises(CorruptRecord, match=rf"expected UTF-8 text, found byte 0xff in .*x.jsonl, record {row}"):
        _ = hr.open(path).schema
    path.write_bytes(b"\n".join([*lines[:row], b'{"a": "\xff"}', *lines[row:]]))
    with pytest.raises(CorruptRecord, match=rf"UTF-8 text.*record {row}.*feature 'a'"):
        hr.open(path).batch(np.arange(6))


def test_nulls_at_the_beginning_of_lists(put):
    """When pyarrow infers the types, it drops them, and the following values shift."""
    source = hr.open(put({"x": [None, 1.5]}, {"x": [2.5]}, {"x": []}, {"x": [-0.0]}))
    np.testing.assert_array_equal(source.batch(np.arange(4))["x"].values, [np.nan, 1.5, 2.5, -0.0])
    assert source.schema["x"] == hr.Feature("float64", (None,))
    nested = hr.open(put({"x": [[None, 1.5], [None]]}, {"x": [[2.5]]}))
    np.testing.assert_array_equal(nested.batch([0, 1])["x"].to_list()[0][0], [np.nan, 1.5])


TAIL = '{"t": "c", "x": 1}\n'
ODD = {
    "another type": ('{"t": "a", "x": 1}', '{"t": "b", "x": "s"}'),
    "twice": ('{"t": "a", "x": 1}', '{"t": "b", "x": 1, "x": 2}'),
    "twice, inside": ('{"t": "a", "x": {"y": 1, "y": 2}}', '{"t": "b"}'),
    "endless": ('{"t": "a", "x": 1e999}', '{"t": "b", "x": 1}'),
    "long": ('{"t": "a", "x": 123456789012345678901234567890}', '{"t": "b", "x": 1}'),
    "mixed list": ('{"t": "a", "x": [1, "x"]}', '{"t": "b"}'),
    "half a character": ('{"t": "a", "x": "\\ud800"}', '{"t": "b"}'),
    "list of objects": ('{"t": "a", "x": [{"y": 1}]}', '{"t": "b"}'),
}


@pytest.mark.parametrize("before", [0, 300], ids=["first rows", "later rows"])
@pytest.mark.parametrize("odd", list(ODD))
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_keys_that_are_not_wanted_may_hold_anything(put, odd, before, on_corrupt):
    path = put(TAIL * before + "\n".join(ODD[odd]) + "\n")
    wanted = {"t": hr.Feature("str")}
    texts = ["c"] * before + ["a", "b"]
    for source in (
        hr.open(path, schema=wanted, on_corrupt=on_corrupt),
        hr.open(path, columns=["t"], on_corrupt=on_corrupt),
        hr.open(path, schema={**wanted, "x": hr.Feature("int64")}, columns=["t"]) if on_corrupt == "raise" else None,
    ):
        if source is not None:
            assert list(source["t"]) == texts
            assert source[before]["t"] == "a"
    assert not hr.verify(path, schema=wanted).faults


def test_columns_of_objects_in_lines(put):
    rows = [
        '{"a": {"b": 1, "c": "x"}, "d/e": 1.5, "d": {"f": 1}}',
        '{"a": {"b": 2, "c": 3}, "d/e": 2, "d": {"f": "x"}}',
    ]
    path = put("\n".join(rows))
    assert hr.open(path, columns=["d/e", "a/b"])[1] == {"d/e": 2.0, "a/b": 2}
    given = {"a/b": hr.Feature("int64"), "d/e": hr.Feature("float32")}
    assert hr.open(path, schema=given)[0] == {"a/b": 1, "d/e": 1.5}
    with pytest.raises(hr.NoSuchFeature, match="'t'"):
        hr.open(put('{"text": 1}'), columns=["t"])


def test_images_beside_the_wanted_columns(put):
    path = put('{"t": "a", "x": 1, "image": "no.png"}\n{"t": "b", "x": "s", "image": "no.png"}')
    assert list(hr.open(path, columns=["t"], image_columns=["image"]).schema) == ["t"]


def test_two_ways_to_one_name_are_refused(put):
    path = put('{"a/b": 1, "a": {"b": 2}, "c": 3}')
    with pytest.raises(hr.UnsupportedData, match="every column name once, found two .*x.jsonl, feature 'a/b'"):
        hr.open(path)
    with pytest.raises(hr.UnsupportedData, match="every column name once"):
        hr.open(path, schema={"a/b": hr.Feature("int64")})
    assert hr.open(path, columns=["c"])[0] == hr.open(path, schema={"c": hr.Feature("int64")})[0] == {"c": 3}
    assert len(hr.verify(path).faults) == 1


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('{"t": "\\ud800"}', r"Unicode text, found \\ud800, half a surrogate pair"),
        ('{"t": "b", "t": "c"}', "each key once, found the key 't' twice"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 300])
@pytest.mark.parametrize("schema", [None, {"t": hr.Feature("str")}])
def test_half_characters_and_keys_that_are_there_twice(put, line, match, before, schema):
    path = put('{"t": "a"}\n' * before + f'{line}\n{{"t": "d"}}\n')
    with pytest.raises(hr.CorruptRecord, match=match) as caught:
        list(hr.open(path, schema=schema))
    assert caught.value.where.record == before
    assert "schema" not in str(caught.value)
    source = hr.open(path, schema=schema, on_corrupt="skip")
    assert list(source["t"]) == ["a"] * before + ["d"]
    assert source.skipped.records == 1
    if schema is not None or before == 300:
        assert [fault.where.record for fault in hr.verify(path, schema=schema).faults] == [before]


def test_given_types_are_not_asked_for(put):
    with pytest.raises(hr.SchemaMismatch, match="x: int64") as caught:
        hr.open(put('{"x": "a"}'), schema={"x": hr.Feature("int64")})[0]
    assert "Pass the types" not in str(caught.value)


@pytest.mark.parametrize("text", ["Infinity", "-Infinity", "Inf"])
@pytest.mark.parametrize("before", [1, 300])
def test_infinity_is_read_wherever_it_is(put, text, before):
    for value, later in (("1.5", text), ("[1.5, 2.5]", f"[0.5, {text}]")):
        path = put(
            *([f'{{"x": {value}, "y": 1234567890123456789}}'] * before), f'{{"x": {later}, "y": 1234567890123456789}}'
        )
        wanted = float(text)
        for schema in (None, {"x": hr.Feature("float64", (2,) if "[" in value else ())}):
            found = np.ravel(hr.open(path, schema=schema)[before]["x"])
            assert found[-1] == wanted
    path = put('{"x": 1}', f'{{"x": {text}}}')
    assert [example["x"] for example in hr.open(path)] == [1, float(text)]


@pytest.mark.parametrize("text", ["1.7976931348623159e308", "9" * 400 + ".5", "1e999"])
@pytest.mark.parametrize("schema", [None, {"x": hr.Feature("float64")}])
def test_a_fraction_beyond_float64_is_not_infinity(put, text, schema):
    for before in (1, 300):
        path = put(*(['{"x": 1.5}'] * before), f'{{"x": {text}}}')
        with pytest.raises((UnsupportedData, SchemaMismatch), match="float64|double") as raised:
            list(hr.open(path, schema=schema))
        assert raised.value.where.record == before
        assert "integers" not in str(raised.value)


def test_complex_numbers_are_refused_by_name(put):
    with pytest.raises(UnsupportedData, match="complex64") as raised:
        hr.open(put({"x": 1.5}), schema={"x": hr.Feature("complex64")})
    assert raised.value.where.feature == "x"


def test_text_has_no_more_digits_than_the_times_of_a_schema(put):
    path = put({"t": "2020-01-01T00:00:00.500"}, {"t": "2020-01-01T00:00:01.000"})
    assert hr.open(path, schema={"t": hr.Feature("M8[ms]")})[0]["t"] == np.datetime64("2020-01-01T00:00:00.5")
    seconds = hr.open(path, schema={"t": hr.Feature("M8[s]")})
    assert seconds[1]["t"] == np.datetime64("2020-01-01T00:00:01")
    with pytest.raises(SchemaMismatch, match=r"00\.500"):
        seconds[0]


def test_null_times_of_text_are_the_default(put):
    default = np.datetime64("1999-01-01T02:03:04")
    path = put({"t": "2020-01-01T00:00:00"}, {"t": None}, {})
    found = hr.open(path, schema={"t": hr.Feature("M8[s]", default=default)}).batch(range(3))["t"]
    assert found.tolist() == [np.datetime64("2020-01-01T00:00:00").item(), default.item(), default.item()]


@pytest.mark.parametrize("value", [5, "text", [1], True, []])
def test_another_value_where_an_object_belongs_is_no_missing_one(put, value):
    before = [{"a": {"b": 1.5}}] * 300
    last = {"a": value}
    for schema in (None, {"a/b": hr.Feature("float64", default=7)}):
        source = hr.open(put(*before, last), schema=schema)
        for index in ([300], [299, 300]):
            with pytest.raises(SchemaMismatch, match="changed from object to") as raised:
                source.batch(index)
            assert raised.value.where.record == 300
        assert not hr.verify(put(*before, last), schema=schema).ok
    assert hr.open(put(*before, {"a": None}), schema={"a/b": hr.Feature("float64", default=7)})[300]["a/b"] == 7


def test_another_value_where_an_inner_object_belongs(put):
    path = put({"a": {"b": {"c": 1}}}, {"a": {"b": 5}})
    with pytest.raises(SchemaMismatch, match="/a/b"):
        hr.open(path, schema={"a/b/c": hr.Feature("int64", default=7)})[1]


def test_beside_a_key_with_a_slash_its_first_part_may_hold_anything(put):
    path = put({"a/b": 1, "a": 5}, '{"a/b": 2, "a": [1e999, "x"]}')
    assert hr.open(path, schema={"a/b": hr.Feature("int64")}).batch([0, 1])["a/b"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("5.0", 5),
        ("-7.00", -7),
        ("1e3", 1000),
        ("1.5e1", 15),
        ("-0.0", 0),
        ("9007199254740993.0", 2**53 + 1),
        ("5.5", None),
        ("1e30", None),
        ("9223372036854775808.0", None),
        ("1e999999999", None),
        ("1e-999999999", None),
        ("1e99999999999999999999", None),
        ("NaN", None),
    ],
)
def test_whole_floats_are_integers_where_the_schema_says_so(tmp_path, number, value):
    line = f'{{"x": {number}, "v": [1, {number}], "f": 5.0, "t": "5.0"}}\n'
    (tmp_path / "x.jsonl").write_text('{"x": 1, "v": [2], "f": 0.5, "t": "a"}\n' + line)
    features = {"f": hr.Feature("float64"), "t": hr.Feature("str")}
    for name, shape in {"x": (), "v": (None,)}.items():
        source = hr.open(tmp_path / "x.jsonl", schema={name: hr.Feature("int64", shape), **features})
        if value is None:
            with pytest.raises(
                hr.SchemaMismatch, match=rf"expected {name}: .*int64.* - at .*x.jsonl, record 1, byte 0x27"
            ):
                source.batch([0, 1])
        else:
            assert np.ravel(source[1][name])[-1] == value
            assert (source[1]["f"], source[1]["t"]) == (5.0, "5.0")


def test_whole_floats_after_the_first_rows_are_integers(tmp_path):
    rows = ['{"x": 1}'] * 300 + ['{"x": 2.0}']
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    assert hr.open(tmp_path / "x.jsonl").batch([299, 300])["x"].tolist() == [1, 2]


BESIDES = [
    ({"n": 1.5, "late": 1}, "late"),
    ({"n": 1.5, "late": []}, "late"),
    ({"n": 1.5, "o": {"a": 1, "deep": "x"}}, "o/deep"),
    ({"n": 1.5, "late": {"deep": {"er": False}}}, "late/deep/er"),
]


@pytest.mark.parametrize(("row", "key"), BESIDES)
@pytest.mark.parametrize("other", [{"n": 2.5, "o": {"a": 2}}, {"n": 2.5, "o": {"a": 2.0}}])
def test_a_key_that_first_occurs_late_is_refused(put, row, key, other):
    """Its values would be lost. The other row is also one that native code leaves to pyarrow."""
    first = {"n": 0.5, "o": {"a": 1}}
    path = put(*[first] * 300, {"o": {"a": 3}, **row}, other)
    source = hr.open(path)
    for read in (lambda: source[300], lambda: source.batch([299, 301, 300]), lambda: list(source)):
        with pytest.raises(SchemaMismatch, match="only the keys of the first rows, found a new key") as raised:
            read()
        assert (raised.value.where.record, raised.value.where.feature) == (300, key)
        assert "columns=" in raised.value.hint
        assert "schema=" in raised.value.hint
    assert source.batch([299, 301])["n"].tolist() == [0.5, 2.5]
    assert [fault.where.record for fault in hr.verify(path).faults] == [300]
    with pytest.raises(SchemaMismatch, match="a new key"):
        hr.convert(path, path.with_suffix(".parquet"))


def test_a_late_key_is_ignored_where_others_are_listed(put):
    path = put(*({"n": n, "m": 1} for n in range(300)), {"n": 300, "m": 1, "late": 1})
    for source in (
        hr.open(path, columns=["n"]),
        hr.open(path, columns=["n", "m"]),
        hr.open(path, schema={"n": hr.Feature("int64")}),
        hr.open(path).select("n"),
    ):
        assert source[300]["n"] == 300
    late = {"n": hr.Feature("int64"), "late": hr.Feature("int64", default=0)}
    assert hr.open(path, schema=late).batch([299, 300])["late"].tolist() == [0, 1]


def test_a_late_key_that_holds_nothing_loses_nothing(put):
    rest = [{"n": 300, "late": None}, {"n": 301, "late": {}}, {"n": 302.0, "late": {"deep": None}}]
    source = hr.open(put(*({"n": n} for n in range(300)), *rest))
    assert source.batch([299, 300, 301, 302])["n"].tolist() == [299, 300, 301, 302]
    assert hr.open(put(*[{"meta": {}, "n": 1}] * 300))[299] == {"n": 1}


def test_a_late_key_in_rows_without_features(put):
    source = hr.open(put(*[{}] * 300, {"late": 1}))
    assert source[299] == {}
    with pytest.raises(SchemaMismatch, match="record 300"):
        source.batch([299, 300])


def lines_in(folder, **files):
    for name, rows in files.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_the_first_rows_of_later_files_are_looked_at(tmp_path):
    first = [{"x": 1, "l": [1, 2]}] * 300
    lines_in(tmp_path, a=first, b=[{"x": 0.5, "l": [1], "more": 1.5}] * 3, c=[])
    source = hr.open(tmp_path)
    assert {name: (f.dtype, f.shape) for name, f in source.schema.items()} == {
        "x": ("float64", ()),
        "l": ("int64", (None,)),
        "more": ("float64", ()),
    }
    assert source[302]["more"] == 1.5
    assert np.isnan(source[0]["more"])
    lines_in(tmp_path, **{f"b{number:03}": [{"x": number, "l": [1]}] for number in range(100)}, d=[{"z": 1.5}])
    assert "z" in hr.open(tmp_path).schema


@pytest.mark.parametrize("bad", [{"x": "text"}, "[1]", '{"x": '])
def test_a_bad_first_row_of_a_later_file_is_an_error_where_it_is_read(tmp_path, bad):
    lines_in(tmp_path, a=[{"x": 1}] * 300)
    (tmp_path / "b.jsonl").write_text(f"{bad if isinstance(bad, str) else json.dumps(bad)}\n")
    source = hr.open(tmp_path)
    assert source[299] == {"x": 1}
    with pytest.raises((SchemaMismatch, CorruptRecord)) as raised:
        source[300]
    assert (raised.value.where.path, raised.value.where.record) == (str(tmp_path / "b.jsonl"), 0)


def test_later_files_of_which_lines_are_skipped(tmp_path):
    lines_in(tmp_path, a=[{"x": n} for n in range(300)])
    (tmp_path / "a.jsonl").write_text("damage\n" + (tmp_path / "a.jsonl").read_text())
    (tmp_path / "b.jsonl").write_text('damage\n{"x": 5, "y": 1.5}\n')
    source = hr.open(tmp_path, on_corrupt="skip")
    assert (len(source), source[300]) == (301, {"x": 5, "y": 1.5})


def test_verify_goes_on_after_damage_in_the_first_rows(put):
    rows: list = [{"n": n} for n in range(1000)]
    for damaged in (3, 700, 900):
        rows[damaged] = '{"n": 1,}'
    report = hr.verify(put(*rows))
    assert [fault.where.record for fault in report.faults] == [3, 700, 900]
    assert report.records == 997


@pytest.mark.parametrize("before", [0, 300])
def test_text_that_is_not_utf8_is_damage(tmp_path, before):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": "b"}\n' * before + b'{"a": "\xff"}\n{"a": "c"}\n')
    source = hr.open(path)
    with pytest.raises(CorruptRecord, match=r"UTF-8 text, found byte 0xff") as raised:
        source[before]
    assert raised.value.where.record == before
    assert source[before + 1] == {"a": "c"}
    assert [type(fault) for fault in hr.verify(path).faults] == [CorruptRecord]


def test_folders_as_spark_writes_them(tmp_path):
    for number in range(3):
        (tmp_path / f"part-{number}.json").write_text(f'{{"n": {number}}}\n')
    (tmp_path / "_SUCCESS").touch()
    assert hr.open(tmp_path).batch([2, 0])["n"].tolist() == [2, 0]
    packed = tmp_path / "part-1.json"
    (tmp_path / "part-1.json.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    assert hr.open(tmp_path).batch([2, 1, 0])["n"].tolist() == [2, 1, 0]


def test_a_folder_of_other_json_is_of_no_known_format(tmp_path):
    (tmp_path / "dataset_info.json").write_text('{\n  "name": "x"\n}\n')
    with pytest.raises(hr.UnknownFormat):
        hr.open(tmp_path)


@pytest.mark.parametrize("bad", [b'{"id": 1, "x": 5, "note": "caf\xe9"}', b'{"id": 1, "x": 5, "not\xe9": 2}'])
@pytest.mark.parametrize("before", [1, 300])
def test_bytes_that_are_not_utf8_in_other_keys(tmp_path, bad, before):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"id": 0, "x": 1.5}\n' * before + bad + b'\n{"id": 3, "x": 1}\n')
    report = hr.verify(path)
    assert [fault.where.record for fault in report.faults] == [before]
    if before > 256 or b"note" not in bad:  # else the key is known, and the rows before lack it
        with pytest.raises(CorruptRecord, match=f"byte 0xe9 .* record {before}"):
            hr.open(path).batch(range(before + 2))
    skipping = hr.open(path, on_corrupt="skip")
    assert ([int(e["id"]) for e in skipping][before - 1 :], skipping.skipped.records) == ([0, 3], 1)
    # What is not wanted may hold anything.
    for wanted in (
        {"schema": {"id": hr.Feature("int64"), "x": hr.Feature("float64")}},
        {"columns": ["id", "x"]},
    ):
        for how in ("raise", "skip"):
            source = hr.open(path, on_corrupt=how, **wanted)
            assert [int(e["id"]) for e in source][before - 1 :] == [0, 1, 3]
            assert source.skipped.records == 0
    assert hr.verify(path, schema={"id": hr.Feature("int64")}).ok
    note = {"id": hr.Feature("int64"), "note": hr.Feature("str", default="")}
    if b"note" in bad:
        assert hr.open(path, on_corrupt="skip", schema=note).skipped.records == 1


def test_a_repeated_key_beside_other_bytes(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"id": 0}\n{"id": 1, "id": 2, "\xff": 3}\n')
    schema = {"id": hr.Feature("int64")}
    with pytest.raises(CorruptRecord, match="twice"):
        hr.open(path, schema=schema).batch([0, 1])
    assert hr.open(path, schema=schema, on_corrupt="skip").skipped.records == 1


@pytest.mark.parametrize("text", ["70000", "1e308", "1.8e308", "-9e308", "1" + "0" * 308, "1e309"])
@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.filterwarnings("error")
def test_numbers_beyond_float16_are_refused(tmp_path, text, is_list):
    (tmp_path / "x.jsonl").write_text(f'{{"a": {f"[{text}]" if is_list else text}}}\n')
    with pytest.raises(SchemaMismatch):
        hr.open(tmp_path / "x.jsonl", schema={"a": hr.Feature("float16", (None,) if is_list else ())})[0]


def test_minus_zero_is_an_integer_of_every_type(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": -0}\n{"a": -0.0}\n{"a": 5}\n')
    for dtype in ("uint8", "uint64", "int8"):
        assert hr.open(tmp_path / "x.jsonl", schema={"a": hr.Feature(dtype)})["a"].batch([0, 1, 2]).tolist() == [
            0,
            0,
            5,
        ]
        assert hr.open(tmp_path / "x.jsonl", schema={"a": hr.Feature(dtype)})[0] == {"a": 0}


def test_objects_in_lists(put):
    source = hr.open(
        put(
            {
                "messages": [{"role": "user", "content": "hé"}, {"role": "assistant", "content": "yo"}],
                "boxes": [[1, 2], [3, 4]],
            },
            {"messages": [{"role": "user", "content": "x"}], "boxes": [[5, 6]]},
            {"messages": None, "boxes": []},
        )
    )
    assert {name: (f.dtype, f.shape) for name, f in source.schema.items()} == {
        "messages/role": ("str", (None,)),
        "messages/content": ("str", (None,)),
        "boxes": ("int64", (None, 2)),
    }
    assert source[0]["messages/content"].tolist() == ["hé", "yo"]
    assert source.batch([2, 1])["messages/role"].to_list() == [[], ["user"]]
    assert source.select("messages/content").batch([0])["messages/content"].to_list() == [["hé", "yo"]]


def test_lists_of_as_many_objects_vary_nevertheless(put):
    source = hr.open(put(*[{"m": [{"k": 1}, {"k": 2}]}] * 300, {"m": [{"k": 3}]}))
    assert source.schema["m/k"].shape == (None,)
    assert source[300]["m/k"].tolist() == [3]


def test_a_schema_for_objects_in_lists(put):
    path = put({"m": [{"k": 1, "t": "a", "z": {"y": [1.5]}}, {"t": "b"}], "other": [{"q": {}}]}, {"m": []})
    given = {"m/t": hr.Feature("str", (None,))}
    assert hr.open(path, schema=given).batch([1, 0])["m/t"].to_list() == [[], ["a", "b"]]
    given = {"m/k": hr.Feature("int8", (None,), default=7)}
    assert hr.open(path, schema=given).batch([1, 0])["m/k"].to_list() == [[], [1, 7]]
    for both in (("m", "m/k"), ("m/k", "m")):
        with pytest.raises(SchemaMismatch, match="either 'm' or what is in it, found both"):
            hr.open(path, schema={name: hr.Feature("int64", (None,)) for name in both})[0]
    with pytest.raises(SchemaMismatch, match=r"an axis for the objects in the list 'm'.*shape is \(None,\)"):
        hr.open(path, schema={"m/t": hr.Feature("str")})[0]


def test_what_objects_in_lists_lack_or_have_in_addition(put):
    with pytest.raises(SchemaMismatch, match=r"expected a value, found none.*record 1.*'m/t'"):
        hr.open(put({"m": [{"t": "a"}]}, {"m": [{"t": "b"}, {}]}))[1]
    path = put(*[{"m": [{"t": "a"}]}] * 256, {"m": [{"t": "a"}, {"new": 5}]})
    with pytest.raises(SchemaMismatch, match=r"a new key.*record 256.*'m/new'"):
        hr.open(path)[256]
    assert hr.verify(path).faults
    numbers = put({"m": [{"x": 1.5}]}, {"m": [{"x": None}, {"x": 2}]})
    assert np.isnan(hr.open(numbers)[1]["m/x"]).tolist() == [True, False]
    with pytest.raises(CorruptRecord, match="twice"):
        hr.open(put({"m": [{"t": "a"}]}, '{"m": [{"t": "a", "t": "b"}]}'))[1]
    with pytest.raises((SchemaMismatch, UnsupportedData)):
        hr.open(put({"m": [{"t": "a"}, 5]})).schema
    with pytest.raises(UnsupportedData, match="'m'"):
        hr.open(put({"m": [{}]})).schema
    with pytest.raises(UnsupportedData, match="m/t"):
        hr.open(put({"m/t": ["a"], "m": [{"t": "a"}]})).schema


def test_large_integers_in_objects_in_lists(put):
    assert hr.open(put({"m": [{"k": 2**63}, {"k": 1}]}))[0]["m/k"].tolist() == [2**63, 1]
    with pytest.raises(UnsupportedData, match=r"integers of 64 bits.*'m/k'"):
        hr.open(put({"m": [{"k": 2**64}]})).schema
    path = put({"m": [{"x": 0.5}]}, {"m": [{"x": 2**53 + 1}]})
    with pytest.raises((SchemaMismatch, UnsupportedData), match="float64 holds exactly"):
        _ = hr.open(path)[1]


@pytest.mark.parametrize(
    ("first", "later", "name", "expected"),
    [
        ({"m": []}, {"m": [{"r": 5}, {"r": 6}]}, "m/r", [5, 6]),
        ({"m": None}, {"m": {"r": [5, 6]}}, "m/r", [5, 6]),
        ({"m": [{"q": 1}]}, {"m": [{"r": 5}, {"r": 6}]}, "m/r", [5, 6]),
        ({"m": {"q": 1}}, {"m": {"r": [5, 6]}}, "m/r", [5, 6]),
        ({"m": [{"p": None}]}, {"m": [{"p": {"r": 5}}, {"p": {"r": 6}}]}, "m/p/r", [5, 6]),
        ({"m": {"p": []}}, {"m": {"p": [{"r": 5}, {"r": 6}]}}, "m/p/r", [5, 6]),
        ({"m": 1}, {"m/r": [5, 6]}, "m/r", [5, 6]),
        ({"x": 1}, {"m/r": [5, 6]}, "m/r", [5, 6]),
    ],
)
def test_keys_that_occur_late_are_read_where_the_first_rows_leave_room(put, first, later, name, expected):
    source = hr.open(put(*[first] * 300, later), schema={name: hr.Feature("int64", (None,))})
    assert source[300][name].tolist() == expected
    if first == {"m": []}:  # A list says more than a null.
        assert hr.open(put({"m": None}, *[first] * 300, later), schema=source.schema)[301][name].tolist() == expected
