"""Bodies: byte for byte as in both of SageMaker's packages, and in the fixed dialect."""

import csv
import io
import json
import math
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headrace.containers import bodies as decoding
from headrace.containers import bodies as encoding
from headrace.containers import content_types
from headrace.containers.recordio_bodies import encode_recordio
from headrace.containers.toolkit import encoders, errors, inference_decoder, inference_encoder
from headrace.errors import RequestError

CSV, JSON, NPY, NPZ = content_types.CSV, content_types.JSON, content_types.NPY, content_types.NPZ
JSONLINES, RECORDIO = content_types.JSONLINES, content_types.RECORDIO_PROTOBUF
FAMILIES = [encoders, inference_encoder]


def test_a_quoted_field_may_be_longer_than_the_csv_module_allows():
    text = "word " * 30_000
    assert encoders.csv_rows(f'7,"{text}"\n') == [["7", text]]
    assert csv.field_size_limit() == 131072
    with pytest.raises(csv.Error):
        encoders.csv_rows(f'7,"{text}')


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([[0.1, 1], [1e-7, 1e20]]), "0.1,1.0\n1e-07,1e+20\n"),
        (np.array([0.1], np.float32), "0.1\n"),
        (np.array([[1, 2]]), "1,2\n"),
        (np.array([True, False]), "True\nFalse\n"),
        (np.array([np.nan, np.inf, -np.inf]), "nan\ninf\n-inf\n"),
        (np.array([1.0, 2.0]), "1.0\n2.0\n"),
    ],
)
def test_csv_as_sagemaker_writes_it(family, array, text):
    assert family.encode(array, CSV) == text
    assert encoding.encode(array, CSV) == text.encode()


def test_differences_between_the_families():
    texts = np.array([["a,b", "c"]])
    assert encoders.encode(texts, CSV) == '"a,b",c\n'
    assert inference_encoder.encode(texts, CSV) == "a,b,c\n"
    assert encoding.encode(texts, CSV) == b'"a,b",c\n'
    with pytest.raises(TypeError, match="iteration over a 0-d array"):
        encoders.encode(3.0, CSV)
    with pytest.raises(ValueError, match="Expected 1D or 2D array, got 0D array instead"):
        inference_encoder.encode(3.0, CSV)
    assert encoding.encode(3.0, CSV) == b"3.0\n"
    assert encoders.encode(np.zeros((1, 2, 2)), CSV) == "[0. 0.],[0. 0.]\n"
    for refused in (
        lambda: inference_encoder.encode(np.zeros((1, 2, 2)), CSV),
        lambda: encoding.encode(np.zeros((1, 2, 2)), CSV),
    ):
        with pytest.raises(ValueError):
            refused()


@pytest.mark.parametrize("family", FAMILIES)
def test_json_as_sagemaker_writes_it(family):
    value = {"a": np.array([0.1], np.float32), "b": [1, None, float("nan"), math.inf]}
    text = '{"a": [0.10000000149011612], "b": [1, null, NaN, Infinity]}'
    assert family.encode(value, JSON) == text
    assert encoding.encode(value, JSON) == text.encode()


@pytest.mark.parametrize(
    ("text", "containers", "inference", "fixed"),
    [
        ("1,2,3", (3,), (3,), (1, 3)),
        ("1,2,3\n", (3,), (3,), (1, 3)),
        ("1\n2\n", (2,), (2,), (2, 1)),
        ("5", (), (), (1, 1)),
        ("1,2\n3,4", (2, 2), (2, 2), (2, 2)),
    ],
)
def test_shapes_of_csv(text, containers, inference, fixed):
    assert encoders.decode(text, CSV).shape == containers
    assert inference_decoder.decode(text, CSV).shape == inference
    assert decoding.decode(text.encode(), CSV).shape == fixed


def test_dtypes_of_csv():
    assert encoders.decode("1,2", CSV).dtype == np.float64
    assert encoders.decode("1,M", CSV).dtype.kind == "U"
    assert inference_decoder.decode("1,2\n3,4", CSV).dtype == np.int64
    assert inference_decoder.decode("1,M", CSV).dtype.names == ("f0", "f1")
    assert decoding.decode(b"1,M", CSV).tolist() == [["1", "M"]]
    assert decoding.decode(b'"a,b",1', CSV).tolist() == [["a,b", "1"]]
    assert decoding.decode(b"1_0,2", CSV).dtype.kind == "U"  # Python would take that for 10


def test_ragged_csv():
    with pytest.raises(errors.ClientError, match="Error while decoding csv"):
        encoders.decode("1,2\n3", CSV)
    with warnings.catch_warnings(), pytest.raises(ValueError, match="Some errors were detected"):
        warnings.simplefilter("ignore")
        inference_decoder.decode("1,2\n3", CSV)


def test_unsupported():
    advice = (
        "Content type a/b is not supported by this framework.\n\n"
        "            Please implement input_fn to to deserialize the request data or an output_fn to\n"
        "            serialize the response. For more information, see the SageMaker Python SDK README."
    )
    for call in (encoders.decode, encoders.encode, inference_decoder.decode, inference_encoder.encode):
        with pytest.raises(errors.UnsupportedFormatError) as error:
            call(b"", "a/b")
        assert str(error.value) == advice
    with pytest.raises(errors.UnsupportedFormatError):
        encoders.decode("1", "text/csv; charset=utf-8")


def test_pickles_are_refused():
    buffer = io.BytesIO()
    np.save(buffer, np.array([print], dtype=object), allow_pickle=True)
    for decode in (encoders.decode, inference_decoder.decode):
        with pytest.raises(ValueError, match="allow_pickle"):
            decode(buffer.getvalue(), NPY)
    with pytest.raises(RequestError, match="object"):
        decoding.decode(buffer.getvalue(), NPY)
    with pytest.raises(RequestError, match="pickled"):
        encoding.encode(np.array([print], dtype=object), NPY)


NUMBERS = hnp.arrays(
    st.sampled_from([np.float64, np.float32, np.int64, np.int8, np.bool_]),
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=5),
)


@given(NUMBERS)
def test_csv_round_trip(array):
    body = encoding.encode(array, CSV)
    assert body.decode() == encoders.encode(array, CSV)
    decoded = decoding.decode(body, CSV)
    if array.dtype == bool:
        assert decoded.tolist() == [[str(cell) for cell in row] for row in array.tolist()]
    else:
        np.testing.assert_array_equal(decoded.astype(array.dtype) if array.dtype.kind == "f" else decoded, array)


@given(
    hnp.arrays(
        st.sampled_from([">f8", "<i2", "u1", "c8", "U3"]),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
    )
)
def test_npy_round_trip(array):
    decoded = decoding.decode(encoding.encode(array, NPY), NPY)
    assert decoded.dtype == array.dtype
    np.testing.assert_array_equal(decoded, array)
    fortran = io.BytesIO()
    np.save(fortran, np.asfortranarray(array))
    np.testing.assert_array_equal(decoding.decode(fortran.getvalue(), NPY), array)


@given(NUMBERS)
def test_json_and_jsonlines_round_trip(array):
    for media in (JSON, content_types.JSONLINES):
        np.testing.assert_array_equal(decoding.decode(encoding.encode(array, media), media), array)


def test_npz_and_recordio():
    matrix = scipy.sparse.random_array((4, 9), density=0.4, random_state=np.random.default_rng(0), format="csr")
    for form in ("csr", "csc", "coo", "bsr"):
        decoded = decoding.decode(encoding.encode(matrix.asformat(form), NPZ), NPZ)
        np.testing.assert_array_equal(decoded.toarray(), matrix.toarray())
        sparse = decoding.decode(encode_recordio(matrix.asformat(form)), content_types.RECORDIO_PROTOBUF)
        np.testing.assert_array_equal(sparse.toarray(), matrix.toarray())
    assert decoding.decode(encoding.encode(np.eye(2), NPZ), NPZ).toarray().tolist() == [[1, 0], [0, 1]]
    dense = decoding.decode(encode_recordio(matrix.toarray().astype(np.float32)), content_types.RECORDIO_PROTOBUF)
    np.testing.assert_array_equal(dense, matrix.toarray().astype(np.float32))
    assert encoders.array_to_recordio_protobuf(np.array([1.0, 2.0]), np.array([3.0])) == encode_recordio(
        np.array([[1.0, 2.0]]), np.array([3.0])
    )
    plain = io.BytesIO()
    np.savez(plain, a=np.arange(3))
    assert decoding.decode(plain.getvalue(), NPZ).tolist() == [0, 1, 2]
    np.savez(plain := io.BytesIO(), a=np.arange(3), b=np.eye(1))
    assert set(decoding.decode(plain.getvalue(), NPZ)) == {"a", "b"}


def test_predictions_of_other_libraries():
    import pandas as pd

    table = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert encoding.encode(table, CSV) == b"1,x\n2,y\n"
    assert encoding.encode(table, JSON) == b'[[1, "x"], [2, "y"]]'
    assert encoding.encode(scipy.sparse.csr_array(np.eye(2)), CSV) == b"1.0,0.0\n0.0,1.0\n"


@pytest.mark.parametrize("masked", [np.ma.array([1.0, -999], mask=[0, 1]), [1.0, np.ma.masked]])
def test_what_a_mask_hides_is_no_answer(masked):
    assert encoding.encode(masked, JSON) == b"[1.0, null]"
    assert encoding.encode(masked, JSONLINES) == b"1.0\nnull\n"
    assert encoding.encode(masked, CSV) == b"1.0\nnan\n"
    for media in (NPY, NPZ, RECORDIO):
        found = decoding.decode(encoding.encode(masked, media), media)
        found = np.ravel(found.toarray() if media == NPZ else found)
        assert np.array_equal(found, [1.0, np.nan], equal_nan=True)


def test_rows_with_masks_may_be_a_list():
    rows = list(np.ma.array([[1.0, -999], [3, 4]], mask=[[0, 1], [0, 0]]))
    assert encoding.encode(rows, CSV) == b"1.0,nan\n3.0,4.0\n"
    assert encoding.encode(rows, JSONLINES) == b"[1.0, null]\n[3.0, 4.0]\n"


def test_other_masked_values_have_no_form_in_csv():
    with pytest.raises(RequestError, match="406: .*masked ones of int64.*ask for application/json"):
        encoding.encode(np.ma.array([1, -999], mask=[0, 1]), CSV)


def test_values_of_numpy_are_not_answered_as_python_shows_them():
    labels = np.array([b"cat", "é".encode()])
    assert encoding.encode(labels, CSV) == encoding.encode(list(labels), CSV) == "cat\né\n".encode()
    assert encoding.encode(labels, JSON) == b'["cat", "\\u00e9"]'
    assert encoding.encode(labels, JSONLINES) == b'"cat"\n"\\u00e9"\n'
    for value in (np.array([b"\xff"]), np.array([b"a", 1], object)):
        with pytest.raises(RequestError, match=r"406|500"):
            encoding.encode(value, CSV)
    with pytest.raises(RequestError, match=r"406: .*csv has columns of plain values"):
        encoding.encode(np.array([(1, 2.0)], "i4,f8"), CSV)
    assert encoding.encode(np.array([0.5], np.longdouble), JSON) == b"[0.5]"
    with pytest.raises(RequestError, match="clongdouble"):
        encoding.encode(np.array([0.5], np.clongdouble), JSON)


def claims(shape):
    """An npy body whose header claims more data than there is."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return buffer.getvalue() + bytes(16)


def test_an_archive_may_not_unpack_to_much_more_than_it_is():
    with zipfile.ZipFile(bomb := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"{number}.npy", bytes(60 << 20))
    with pytest.raises(RequestError, match="more than 256 MiB"):
        decoding.decode(bomb.getvalue(), NPZ)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_would_be_unpacked_all_at_once(method):
    with zipfile.ZipFile(bomb := io.BytesIO(), "w", method) as archive:
        archive.writestr("0.npy", encoders.array_to_npy(np.eye(2)))
    with pytest.raises(RequestError, match="by another method than deflate") as error:
        decoding.decode(bomb.getvalue(), NPZ)
    assert error.value.status == 400


@pytest.mark.parametrize("made", ["{long}\n" + "1\n" * 100_000, '["{long}"' + ",1" * 100_000 + "]"])
def test_one_long_text_does_not_make_all_cells_as_long(made):
    body = made.replace("{long}", "x" * 100_000).encode()
    with pytest.raises(RequestError, match="a string of 100,000 characters among 100,001 values") as error:
        decoding.decode(body, JSON if body.startswith(b"[") else CSV)
    assert error.value.status == 400


def test_long_texts_in_objects_are_taken():
    body = json.dumps([{"text": "x" * 100_000, "numbers": list(range(10_000))}])
    assert decoding.decode(body.encode(), JSON)[0]["text"] == "x" * 100_000


@pytest.mark.parametrize("shape", [(1 << 40,), (1 << 62, 1 << 62), (3,)])
def test_lengths_are_not_believed(shape):
    with pytest.raises(RequestError) as error:
        decoding.decode(claims(shape), NPY)
    assert error.value.status == 400


GOOD = {
    CSV: b"1,2\n3,4\n",
    JSON: b"[[1, 2], [3, 4]]",
    content_types.JSONLINES: b"[1, 2]\n[3, 4]\n",
    NPY: encoders.array_to_npy(np.eye(2)),
    NPZ: encoding.encode(scipy.sparse.csr_array(np.eye(2)), NPZ),
    content_types.RECORDIO_PROTOBUF: encode_recordio(np.eye(2)),
}


@pytest.mark.parametrize("media", GOOD)
def test_cut_and_damaged_bodies_are_400_or_sound(media):
    body = GOOD[media]
    damaged = [body[:end] for end in range(len(body))]
    step = max(1, len(body) // 150)
    damaged += [body[:at] + bytes([body[at] ^ 0xFF]) + body[at + 1 :] for at in range(0, len(body), step)]
    for one in damaged:
        try:
            decoding.decode(one, media)
        except RequestError as error:
            assert error.status in (400, 415)


@given(st.sampled_from(list(GOOD)), st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_body_is_taken_or_400(media, body):
    try:
        decoding.to_float32(np.asarray(decoding.decode(body, media)), media)
    except RequestError as error:
        assert error.status == 400


def test_json_that_is_nested_too_deeply_is_a_wrong_value_and_no_fault_of_the_program():
    with pytest.raises(ValueError, match="nested too deeply"):
        encoders.decode("[" * 100_000 + "]" * 100_000, "application/json")
