"""Inference: codec, kinds, counts, text, images, feature lists."""

from pathlib import Path

import pytest
from tests.reference import tfrecord
from tests.reference.tf_example_wire import BYTES_LIST, FLOAT_LIST, INT64_LIST, example

from headrace import _native
from headrace.codecs.infer import infer_payloads, infer_schema
from headrace.contracts.feature import Feature
from headrace.contracts.schema import Schema
from headrace.errors import CorruptRecord, SchemaMismatch

GOLDEN = Path(__file__).parents[1] / "golden" / "tfrecord"
UNSET = (0, [])


def ints(*values):
    return INT64_LIST, list(values)


def floats(*values):
    return FLOAT_LIST, list(values)


def texts(*values):
    return BYTES_LIST, list(values)


def found(*records):
    return infer_payloads([example(record) for record in records])


@pytest.mark.parametrize(
    ("values", "feature"),
    [
        ([ints(1), ints(2)], Feature("int64")),
        ([floats(1)], Feature("float32")),
        ([texts(b"a")], Feature("str")),
        ([floats(1, 2), floats(3, 4)], Feature("float32", (2,))),
        ([floats(1, 2), floats(3)], Feature("float32", (None,))),
        ([ints(1), None], Feature("int64", (None,))),
        ([ints(1), UNSET], Feature("int64", (None,))),
        ([ints(), ints()], Feature("int64", (None,))),
        ([ints(1), ints()], Feature("int64", (None,))),
        ([texts(b"a", b"b")], Feature("str", (2,))),
        ([texts(), texts()], Feature("bytes", (None,))),
    ],
)
def test_kinds_and_counts(values, feature):
    records = [{"other": ints(1)} | ({} if value is None else {"x": value}) for value in values]
    result = found(*records)
    assert result.codec == "example"
    assert result.schema == Schema({"other": Feature("int64"), "x": feature})
    assert (result.lists, result.mixed) == (frozenset(), frozenset())


@pytest.mark.parametrize(
    ("texts_seen", "dtype"),
    [
        ([b"plain", "日本\t\r\n".encode()], "str"),
        ([b""], "str"),
        ([b"ok", b"\xff"], "bytes"),
        ([b"nul\x00"], "bytes"),
        ([b"\x1b[0m"], "bytes"),
        ([b"\x7f"], "bytes"),
        ([b"\xc0\x80"], "bytes"),
        ([b"\xed\xa0\x80"], "bytes"),
        ([b"\xf4\x90\x80\x80"], "bytes"),
        ([b"cut \xe6\x97"], "bytes"),
    ],
)
def test_text_is_plain_utf8_in_every_record(texts_seen, dtype):
    assert found(*({"x": texts(text)} for text in texts_seen)).schema["x"] == Feature(dtype)


IMAGES = {
    "jpeg": b"\xff\xd8\xff\xe0rest",
    "png": b"\x89PNG\r\n\x1a\nrest",
    "gif": b"GIF89arest",
    "bmp": b"BM" + (40).to_bytes(4, "little") + bytes(34),
    "webp": b"RIFF\x00\x00\x00\x00WEBPrest",
    "tiff": b"II*\x00\x08\x00\x00\x00rest",
}


@pytest.mark.parametrize("encoding", IMAGES)
def test_images_by_their_first_bytes(encoding):
    image = {"x": texts(IMAGES[encoding])}
    assert found(image, image).schema["x"] == Feature("bytes", encoding=encoding)
    assert found(image, {"x": texts(b"\xff none")}).schema["x"] == Feature("bytes")
    other = IMAGES["gif" if encoding == "png" else "png"]
    assert found(image, {"x": texts(other)}).schema["x"] == Feature("bytes", encoding="image")  # of several kinds
    assert infer_payloads([IMAGES[encoding]] * 2).schema["record"] == Feature("bytes", encoding=encoding)
    assert infer_payloads([IMAGES[encoding], other]).schema["record"] == Feature("bytes", encoding="image")
    assert infer_payloads([IMAGES[encoding], b"\xff none"]).schema["record"] == Feature("bytes")


def test_text_that_begins_like_a_bitmap_is_text():
    assert found({"x": texts(b"BM is the name of a museum in London")}).schema["x"] == Feature("str")


@pytest.mark.parametrize(
    ("steps", "feature"),
    [
        ([[ints(1), ints(2)], [ints(3)]], Feature("int64", (None,), steps=True)),
        ([[floats(1, 2)], [floats(3, 4), floats(5, 6)]], Feature("float32", (None, 2), steps=True)),
        ([[texts(b"a", b"b"), texts()]], Feature("str", (None, None), steps=True)),
        ([[ints(1), UNSET]], Feature("int64", (None, None), steps=True)),
        ([[ints()], [ints(), ints()]], Feature("int64", (None, None), steps=True)),
        ([[ints(1)], []], Feature("int64", (None,), steps=True)),
    ],
)
def test_feature_lists(steps, feature):
    result = infer_payloads([example({}, {"x": one}) for one in steps])
    assert result.schema == Schema({"x": feature})
    assert result.lists == {"x"}


def test_one_name_in_context_and_lists():
    result = infer_payloads([example({"x": texts(b"a"), "y": ints(1)}, {"x": [ints(1)]})])
    assert result.schema == Schema(
        {"context/x": Feature("str"), "x": Feature("int64", (None,), steps=True), "y": Feature("int64")}
    )
    assert result.lists == {"x"}


def test_a_key_that_never_holds_a_list_is_left_out():
    assert list(found({"a": ints(1), "b": UNSET}, {"a": ints(1), "b": UNSET}).schema) == ["a"]


def test_names_come_in_order():
    assert list(found({"b": ints(1), "a": ints(1), "c": ints(1)}).schema) == ["a", "b", "c"]


def test_whole_numbers_in_some_records_and_floats_in_others():
    result = found({"x": ints(1)}, {"x": floats(0.5)})
    assert result.schema["x"] == Feature("float64")
    assert result.mixed == {"x"}


def test_bytes_and_numbers_under_one_name():
    records = [example({"x": ints(1), "y": ints(2)}), example({"x": texts(b"a"), "y": ints(2)})]
    with pytest.raises(SchemaMismatch, match="found bytes in 1, floats in 0, integers in 1 - at feature 'x'"):
        infer_payloads(records)
    given = Schema({"y": Feature("int64")})
    assert infer_schema([_native.spans_of_buffers(records)], given=given).schema is given


@pytest.mark.parametrize(
    "payloads",
    [
        [b"hello"],
        [b"\xff\xd8\xfe\xe0" + bytes(30)],
        [b"", b""],
        [b"{}"],
        [b"5.1,3.5,1.4,0.2,setosa"],
        [b"\x08\x01"],
        [b"x", example({"a": ints(1)})],
    ],
)
def test_records_that_are_not_examples_are_raw(payloads):
    result = infer_payloads(payloads)
    assert result.codec == "raw"
    assert result.schema == Schema({"record": Feature("bytes")})


def test_a_later_record_that_is_not_a_message_is_damage():
    assert infer_payloads([example({"a": ints(1)}), b"hello"]).codec == "example"
    assert list(infer_payloads([b"", example({"a": ints(1)})]).schema) == ["a"]


def test_a_record_that_is_half_right_counts_for_nothing():
    half = example({"a": ints(1), "b": ints(1)})[:-1] + b"\x81"
    assert infer_payloads([half]).codec == "raw"


def test_no_records():
    result = infer_schema([])
    assert (result.codec, result.schema) == ("example", Schema({}))


def test_a_bad_checksum_at_the_very_start_is_an_error_and_later_is_not():
    raw = bytearray(tfrecord.framed(example({"a": ints(1)})) * 2)
    starts = tfrecord.read(bytes(raw))[0]

    def held(damaged):
        copy = bytearray(raw)
        copy[damaged] ^= 1
        return _native.gather_tfrecord(
            [copy], None, _native.scan_tfrecord(raw, 0, len(raw), verify=True, max_records=9)[0], verify=True
        )

    assert len(starts) == 2
    with pytest.raises(CorruptRecord, match="payload checksum"):
        infer_schema([held(20)])
    assert list(infer_schema([held(len(raw) - 8)]).schema) == ["a"]


GOLDEN_SCHEMAS = {
    "dense": {"image": Feature("float32", (64,)), "label": Feature("int64")},
    "varlen": {
        "ids": Feature("int64", (None,)),
        "score": Feature("float32", (None,)),
        "words": Feature("bytes", (None,)),
    },
    "empty_payloads": {"image": Feature("float32", (None,)), "label": Feature("int64", (None,))},
    "sequence": {
        "id": Feature("int64"),
        "name": Feature("str"),
        "token": Feature("int64", (None, None), steps=True),
        "weight": Feature("float32", (None,), steps=True),
    },
}


@pytest.mark.parametrize("name", GOLDEN_SCHEMAS)
def test_golden_files(name):
    payloads = tfrecord.read((GOLDEN / f"{name}.tfrecord").read_bytes())[1]
    result = infer_payloads(payloads)
    assert result.schema == Schema(GOLDEN_SCHEMAS[name])
    assert result.lists == ({"token", "weight"} if name == "sequence" else set())
