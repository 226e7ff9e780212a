"""The native way of writing JSON Lines, beside the one by way of Python values."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import headrace as hr
from headrace import _native
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.formats.jsonl.write import JsonLinesWriter

FLOATS = (
    st.floats(allow_infinity=False)
    | st.integers(-(10**17), 10**17).map(float)
    | st.builds(lambda whole, digits: whole / 10**digits, st.integers(-(10**16), 10**16), st.integers(0, 22))
)
VALUES = {
    "bool": st.booleans(),
    "float64": FLOATS,
    "float32": st.floats(width=32, allow_infinity=False),
    "float16": st.floats(width=16, allow_infinity=False),
    "timedelta64[s]": st.integers(-(2**62), 2**62) | st.just(np.iinfo(np.int64).min),
    "datetime64[D]": st.integers(-3_000_000, 3_000_000) | st.just(np.iinfo(np.int64).min),
    "datetime64[ns]": st.integers(-(2**60), 2**60),
    **{
        name: st.integers(int(np.iinfo(name).min), int(np.iinfo(name).max))
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text('"\\\n\r\t\b\f\0\x1f\x7f/é東😀ab', max_size=80)


def flat_column(draw, dtype, count):
    """``count`` values of a dtype."""
    if dtype == "str":
        values = draw(st.lists(TEXTS, min_size=count, max_size=count))
        if draw(st.booleans()):
            return Strings.from_values(values, is_text=True)
        column = np.empty(count, object)
        column[:] = values
        return column
    values = draw(st.lists(VALUES[dtype], min_size=count, max_size=count))
    if dtype[0] in "td":
        return np.array(values, np.int64).view(dtype)
    return np.array(values, dtype)


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


@st.composite
def batches(draw):
    """A schema, a batch, and its rows."""
    n = draw(st.integers(1, 5))
    schema, batch = {}, {}
    for name in draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True)):
        dtype = draw(st.sampled_from([*VALUES, "str"]))
        shape = draw(st.sampled_from([(), (2,), (0,), (2, 3), (None,), (None, None), (None, 2), (2, None)]))
        count, lengths = n, []
        for length in shape:
            lengths.append(
                draw(st.lists(st.integers(0, 3) if length is None else st.just(length), min_size=count, max_size=count))
            )
            count = sum(lengths[-1])
        column = flat_column(draw, dtype, count)
        inner = len(shape)
        while inner and None not in shape[inner - 1 :]:
            inner -= 1
        if shape[inner:] and not (inner == 0 and 0 in shape):
            column = column.reshape(-1 if shape[-1] else 0, *shape[inner:]) if inner else column.reshape(n, *shape)
        elif shape[inner:]:
            column = column.reshape(n, *shape)
        for one in reversed(lengths[:inner]):
            column = Ragged(column, offsets_of(one))
        schema[name], batch[name] = hr.Feature(dtype, shape), column
    return hr.Schema(schema), batch, n


def written(path, schema, batch, n, *, plain):
    """The bytes of a file, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        if plain:
            patch.setattr(_native, "encode_json_lines", lambda columns, rows: None)
        writer = JsonLinesWriter(path, schema)
        try:
            writer.write_batch(batch, n)
            writer.close()
        except Exception as error:
            writer.abort()
            return type(error), str(error)
        return path.read_bytes()


def test_both_ways_give_the_same_bytes(tmp_path_factory):
    is_written = []

    @given(case=batches())
    def check(case):
        schema, batch, n = case
        path = tmp_path_factory.mktemp("lines") / "x.jsonl"
        plain = written(path, schema, batch, n, plain=True)
        assert written(path, schema, batch, n, plain=False) == plain
        is_written.append(isinstance(plain, bytes))
        if is_written[-1]:
            assert len([json.loads(line) for line in plain.splitlines()]) == n

    check()
    assert sum(is_written) >= len(is_written) // 2


def lines_of(column, dtype, tmp_path, *, plain=False):
    schema = hr.Schema({"x": hr.Feature(dtype)})
    return written(tmp_path / "x.jsonl", schema, {"x": column}, len(column), plain=plain)


@given(values=st.lists(FLOATS, min_size=1, max_size=200))
@example(
    values=[
        0.0,
        -0.0,
        1e-4,
        9.999999e-5,
        0.1,
        123456.789,
        1e15,
        1e16,
        9007199254740991.0,
        5e-324,
        1e22,
        1e23,
        0.3 + 0.6,
    ]
)
def test_floats_as_python_writes_them(tmp_path_factory, values):
    found = lines_of(np.array(values), "float64", tmp_path_factory.mktemp("floats"))
    wanted = ["null" if value != value else repr(value) for value in values]
    assert found.decode() == "".join(f'{{"x":{text}}}\n' for text in wanted)


def test_narrow_floats_at_every_exponent(tmp_path):
    rng = np.random.default_rng(7)
    ends = (np.arange(256, dtype=np.uint32) << 23)[:, None] + np.array(
        [0, 1, 2, 2**22, 2**23 - 2, 2**23 - 1], np.uint32
    )
    bits = np.concatenate([ends.reshape(-1), rng.integers(0, 2**32, 20_000, np.uint32)])
    decimals = np.round(rng.random(5_000) * 10.0 ** rng.integers(-6, 9, 5_000), 3).astype(np.float32)
    tens = np.array([float(f"1e{exponent}") for exponent in range(-45, 39)]).astype(np.float32)
    values = np.concatenate([bits.view(np.float32), decimals, tens])
    values = values[np.isfinite(values)]
    assert lines_of(values, "float32", tmp_path) == lines_of(values, "float32", tmp_path, plain=True)


def test_plain_code_finds_the_fault(tmp_path, monkeypatch):
    schema = hr.Schema({"x": hr.Feature("float64"), "t": hr.Feature("str")})
    good, half = np.array(["a", "b"], object), np.array(["a", "\ud800"], object)
    for plain in (False, True):
        assert "inf" in written(tmp_path / "x", schema, {"x": np.array([1, np.inf]), "t": good}, 2, plain=plain)[1]
        assert "surrogates" in written(tmp_path / "x", schema, {"x": np.ones(2), "t": half}, 2, plain=plain)[1]
        assert written(tmp_path / "x", schema, {"x": np.ones(3), "t": good}, 2, plain=plain)[0] is ValueError
        bad = np.array(["a", b"b"], object)
        assert written(tmp_path / "x", schema, {"x": np.ones(2), "t": bad}, 2, plain=plain)[0] is TypeError
    assert not list(tmp_path.iterdir())


def test_the_dtype_of_the_schema_says_how_floats_are_written(tmp_path):
    column = np.array([0.1, 3], np.float32)
    assert lines_of(column, "float32", tmp_path) == b'{"x":0.1}\n{"x":3.0}\n'
    assert lines_of(column, "float64", tmp_path) == b'{"x":0.10000000149011612}\n{"x":3.0}\n'
    assert lines_of(np.arange(2), "float64", tmp_path) == b'{"x":0}\n{"x":1}\n'


def test_native_code_checks_places():
    good = np.arange(3), np.array([0, 1, 3])

    def lines(numbers, *lists, kind=4, rows=2):
        return _native.encode_json_lines([(b'"x"', kind, list(lists), numbers)], rows)

    assert bytes(lines(*good)) == b'{"x":[0]}\n{"x":[1,2]}\n'
    for bad in ([0, 1, 4], [0, -1, 3], [2, 1, 3], [0, 1]):
        assert lines(np.arange(3), np.array(bad)) is None
    assert lines(np.arange(3)) is not None
    assert lines(np.arange(1)) is None
    assert lines(np.arange(3), 2) is None
    assert lines(np.arange(0), 2**63) is None
    assert lines(np.arange(0), 0) is not None
    text = np.frombuffer(b"ab\xff", np.uint8)
    assert bytes(lines((text, np.array([0, 1, 2])), kind=12)) == b'{"x":"a"}\n{"x":"b"}\n'
    for places in ([0, 1, 3], [0, 1, 4], [1, 0, 1], [0, 1]):
        assert lines((text, np.array(places)), kind=12) is None
    with pytest.raises(ValueError, match="kind"):
        lines(np.arange(3), kind=14)
    with pytest.raises(ValueError, match="nested"):
        lines(np.arange(3), *[1] * 65)
    with pytest.raises(ValueError, match="offsets"):
        lines(np.arange(3), np.zeros(0, np.int64))
