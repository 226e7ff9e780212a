"""Headers of .npy files: NumPy's are read, invalid ones are refused, and nothing that Python would refuse is read."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.reference.npy_header import Refused, parse

from headrace import _native

GOLDEN = Path(__file__).parent.parent / "golden" / "npy"
SOUND = sorted(path for path in GOLDEN.glob("*.npy") if path.name not in ("damaged_header.npy", "damaged_magic.npy"))
DTYPES = [
    "<f4", ">i8", "|b1", "<c16", "<U7", "|S3", "<M8[ns]", "|V5",
    [("id", "<i4"), ("x", "<f8", (2, 3))],
    [(("a title", "x"), "<f4"), ("y", [("in", ">u2"), ("ner", "|u1")])],
    [("größe", "<f4"), ("日本", "|u1"), ("it's", "<i2"), ('"', "<i2"), ("back\\slash\n", "|i1")],
]  # fmt: skip


def file(literal: bytes | str, major: int = 1) -> bytes:
    text = literal.encode("utf-8" if major == 3 else "latin-1") if isinstance(literal, str) else literal
    return b"\x93NUMPY" + bytes([major, 0]) + struct.pack("<H" if major == 1 else "<I", len(text)) + text


def header(descr="'<f4'", order="False", shape="(3,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def fault(data: bytes, **options) -> str:
    with pytest.raises(_native.FormatError) as caught:
        _native.parse_npy_header(data, **options)
    assert 0 <= caught.value.offset <= len(data)
    return caught.value.fault


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_golden_headers(path):
    data = path.read_bytes()
    version, descr, fortran_order, shape, offset = _native.parse_npy_header(data)
    assert (version, descr, fortran_order, shape, offset) == parse(data)
    with path.open("rb") as stream:
        assert version == np.lib.format.read_magic(stream)
        read = {1: np.lib.format.read_array_header_1_0}.get(version[0], np.lib.format.read_array_header_2_0)
        if version[0] < 3:
            assert (shape, fortran_order, np.lib.format.descr_to_dtype(descr)) == read(stream)
            assert offset == stream.tell()


def test_golden_damage():
    assert fault((GOLDEN / "damaged_magic.npy").read_bytes()) == "magic"
    assert fault((GOLDEN / "damaged_header.npy").read_bytes()) == "header"


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (5, 1)], ids=str)
def test_files_written_by_numpy(dtype, shape, version):
    stream = io.BytesIO()
    array = np.zeros(shape, dtype, order="F")
    if "日本" in str(dtype) and version < (3, 0):
        with pytest.raises(UnicodeEncodeError):
            np.lib.format.write_array(stream, array, version)
        return
    np.lib.format.write_array(stream, array, version)
    data = stream.getvalue()
    found, descr, fortran_order, lengths, offset = _native.parse_npy_header(data)
    assert (found, lengths, offset) == (version, shape, len(data) - array.nbytes)
    assert np.lib.format.descr_to_dtype(descr) == array.dtype
    assert fortran_order == np.lib.format.header_data_from_array_1_0(array)["fortran_order"]


def test_python_2_wrote_long_integers():
    assert _native.parse_npy_header(file(header(shape="(3L, 10L)")))[3] == (3, 10)
    assert _native.parse_npy_header(file(header(shape="(3L, 10L)"), 2))[3] == (3, 10)
    assert fault(file(header(shape="(3L, 10L)"), 3)) == "header"


@pytest.mark.parametrize("padding", ["", " ", "   \n", "\n", " " * 63 + "\n", "\t"])
def test_any_padding(padding):
    text = header().rstrip("\n") + padding
    assert _native.parse_npy_header(file(text) + b"xy") == ((1, 0), "<f4", False, (3,), 10 + len(text))


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "()", "None", "{'descr': '<f4', 'fortran_order': False}", header()[:-3], header().replace("'", ""),
        header(shape="(-1,)"), header(shape="(3)"), header(shape="[3]"), header(shape="3"), header(shape="(3.0,)"), header(shape="(True,)"),
        header(shape="(9223372036854775808,)"), header(shape="(99999999999999999999999999,)"), header(shape="('3',)"), header(shape="((3,),)"),
        header(order="0"), header(order="'False'"), header(order="None"), header(order="Falsey"), header(descr="4"), header(descr="True"),
        header(descr="None"), header(descr="b'<f4'"), header(descr="'<f4"), header(descr="'<f' '4'"), header(descr="open('x')"),
        header(descr="__import__('os')"), header(descr="'%s' % 1"), header(descr="{}"), header(descr="[" * 40 + "]" * 40), header(descr="1+1"),
        header() + header(), header() + "x", "x" + header(), header().replace("}", ", 'more': 1}"), header().replace("descr", "Descr"),
        header().replace("'shape': (3,)", "'shape': (3,), 'shape': (3,)"), header(descr="'\\ud800'"), header(descr="'\\q'"), header(descr="'a\0'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("major", [1, 2, 3])
def test_invalid_headers_are_refused(text, major):
    assert fault(file(text, major)) == "header"


def test_depth_is_limited():
    assert _native.parse_npy_header(file(header(descr="[" * 30 + "]" * 30)))[3] == (3,)
    assert fault(file(header(descr="[" * 4000 + "]" * 4000))) == "header"


def test_every_cut_is_seen():
    data = file(header())
    assert {fault(data[:size]) for size in range(len(data))} == {"truncated"}


def test_length_is_limited_and_not_believed():
    long = file(header().rstrip() + " " * 20_000 + "\n", 2)
    assert fault(long) == "range"
    assert _native.parse_npy_header(long, 30_000)[4] == len(long)
    assert _native.parse_npy_header(long, max_header=30_000)[4] == len(long)
    huge = b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + header().encode()
    assert fault(huge) == "range"
    assert fault(huge, max_header=1 << 40) == "truncated"


@pytest.mark.parametrize("version", [(0, 0), (4, 0), (255, 0), (1, 1), (3, 255)])
def test_unknown_versions(version):
    data = bytearray(file(header()))
    data[6:8] = bytes(version)
    assert fault(bytes(data)) == "header"


names = st.text(st.characters(codec="utf-8"), max_size=6)
values = st.recursive(
    names, lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple), max_leaves=8
)
blanks = st.text(" \t\n", max_size=2)


@given(values, st.booleans(), st.lists(st.integers(0, (1 << 63) - 1), max_size=4), st.permutations(range(3)), st.data())
def test_any_literal_comes_back(descr, fortran_order, shape, order, data):
    entries = [("descr", descr), ("fortran_order", fortran_order), ("shape", tuple(shape))]
    blank = [data.draw(blanks) for _ in range(4)]
    body = ",".join(f"{blank[0]}{entries[i][0]!r}{blank[1]}:{blank[2]}{entries[i][1]!a}{blank[3]}" for i in order)
    padding = data.draw(st.from_regex(r"[ \t]*\n*", fullmatch=True))
    blob = file(f"{{{body}}}{padding}", data.draw(st.sampled_from([1, 2, 3])))
    version, *found, offset = _native.parse_npy_header(blob)
    assert (found, offset) == ([descr, fortran_order, tuple(shape)], len(blob))
    assert parse(blob) == (version, *found, offset)


SEED = file(
    "{'descr': [('a', '<f4', (2,)), (\"b\\u00e9\", u'|i1')], 'fortran_order': False, 'shape': (3, 10L), }  \n", 2
)


@given(
    st.lists(st.tuples(st.sampled_from("xid"), st.integers(0, len(SEED) - 1), st.integers(0, 255)), max_size=4),
    st.sampled_from([1, 2, 3]),
)
@example([], 2)
def test_whatever_is_read_is_what_python_reads(edits, major):
    text = bytearray(SEED[12:] if major < 3 else SEED[12:].replace(b"10L", b"10"))
    for kind, place, value in edits:
        at = place % (len(text) or 1)
        text[at : at + (kind != "i")] = b"" if kind == "d" else bytes([value])
    blob = file(bytes(text), major)
    found = parsed(blob)
    assert found is not None or edits  # the seed itself is sound
    if found is None:
        return
    try:
        assert found == parse(blob)
    except Refused:
        pytest.fail(f"{blob!r} is nothing that Python reads, and was read as {found}")


def parsed(blob: bytes) -> tuple | None:
    """The parsed header, or None for a syntax error."""
    try:
        return _native.parse_npy_header(blob)
    except _native.FormatError as error:
        if error.fault != "header" or not 10 <= error.offset <= len(blob):
            raise
        return None
