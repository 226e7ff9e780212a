"""Examples to payloads and back, and refusals."""

import io
import wave
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import headrace as hr
from headrace.codecs.example.codec import ExampleCodec
from headrace.datasets import Steps, data_source
from headrace.datasets.codec import MOST_CODECS, FeaturesCodec, FeaturesEncoder
from headrace.datasets.features import (
    Audio,
    BBox,
    BBoxFeature,
    ClassLabel,
    Dataset,
    FeaturesDict,
    Image,
    LabeledImage,
    Scalar,
    Sequence,
    Tensor,
    Text,
    Translation,
    TranslationVariableLanguages,
    Video,
)
from headrace.errors import CorruptRecord, SchemaMismatch, UnsupportedData

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tfds"


def through(feature, value):
    """A value, encoded and decoded."""
    features = FeaturesDict({"x": feature})
    decoded = FeaturesCodec(features).decode(FeaturesEncoder(features).encode({"x": value}))
    return decoded.get("x", decoded)


def plain(value):
    if isinstance(value, Steps):
        return [plain(step) for step in value]
    if isinstance(value, hr.Ragged):
        return [plain(row) for row in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def unflattened(steps):
    return [
        {
            "observation": {"image": s["observation/image"], "state": s["observation/state"]},
            **{k: s[k] for k in ("action", "words", "reward")},
        }
        for s in steps
    ]


@pytest.mark.parametrize("name", ["numbers", "kinds", "images", "episodes", "sequences"])
def test_files_of_tfds_convert(name):
    source = data_source(name, "test", data_dir=GOLDEN / "features")
    features = source.features
    encoder, codec = FeaturesEncoder(features), FeaturesCodec(features)
    for example in source:
        nested = source.nested(example)
        if name == "kinds":
            pairs = zip(nested["languages"]["language"], nested["languages"]["translation"], strict=True)
            languages = {}
            for language, text in pairs:
                languages.setdefault(language.decode(), []).append(text.decode())
            nested["languages"] = languages
        if name == "images":  # JPEG is lossy
            nested["jpeg"] = nested["jpeg_gray"] = None
            nested["jpeg"] = np.zeros((32, 40, 3), np.uint8)
            nested["jpeg_gray"] = np.zeros((1, 1, 1), np.uint8)
            nested["sixteen_colours"] = np.zeros((1, 1, 3), np.uint16)
        if name == "episodes":
            nested["steps"] = unflattened(nested["steps"])
        if name == "sequences":
            nested = {key: list(column) for key, column in nested.items()}
        if name == "images":
            with pytest.raises(UnsupportedData, match="one channel for 16-bit"):
                encoder.encode(nested)
            continue
        again = codec.decode(encoder.encode(nested))
        for key, value in example.items():
            assert repr(plain(again[key])) == repr(plain(value)), key


@given(
    hnp.arrays(
        st.sampled_from(["bool", "int8", "uint16", "int64", "uint64", "float16", "float32"]),
        hnp.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=4),
        elements={"allow_nan": False},
    ),
    st.sampled_from(["none", "bytes", "zlib"]),
    st.data(),
)
def test_arrays_of_any_shape(array, encoding, data):
    most = array.ndim if encoding != "none" else 1
    open_axes = data.draw(st.sets(st.integers(0, array.ndim - 1), max_size=most))
    shape = tuple(None if axis in open_axes else length for axis, length in enumerate(array.shape))
    if encoding == "none" and open_axes and 0 in [n for n in shape if n is not None]:
        return  # no values, so the length of the open axis is unknown
    if encoding != "none" and len(open_axes) == 1 and 0 in [n for n in shape if n is not None]:
        return
    found = through(Tensor(shape=shape, dtype=array.dtype, encoding=encoding), array)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@given(st.recursive(st.lists(st.integers(-5, 5), max_size=3), lambda inner: st.lists(inner, max_size=3), max_leaves=8))
def test_sequences_in_sequences(value):
    def depth(item):
        return 1 + max(map(depth, item), default=0) if isinstance(item, list) else 0

    def levelled(item, levels):
        if levels == 1:
            return [x for x in item if not isinstance(x, list)]
        return [levelled(x if isinstance(x, list) else [x], levels - 1) for x in item]

    levels = depth(value)
    feature = Tensor(shape=(), dtype="int64")
    for _ in range(levels):
        feature = Sequence(feature)
    wanted = levelled(value, levels)
    assert plain(through(feature, wanted)) == wanted


def sound(samples, width=2, channels=1):
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(8000)
        file.writeframes(samples)
    return buffer.getvalue()


def test_audio_files():
    samples = np.array([0, 1, -2, 32767], "<i2")
    lazy = Audio(dtype="int16", lazy_decode=True)
    assert through(lazy, io.BytesIO(sound(samples.tobytes()))).tolist() == samples.tolist()
    assert through(Audio(), sound(samples.tobytes())).tolist() == samples.tolist()
    stereo = Audio(shape=(None, 2), dtype="int16")
    assert through(stereo, sound(samples.tobytes(), channels=2)).tolist() == [[0, 1], [-2, 32767]]
    assert through(Audio(), sound(bytes([128, 0, 255]), width=1)).tolist() == [0, -128, 127]
    assert through(Audio(), sound(b"\1\0\0\xff\xff\xff", width=3)).tolist() == [256, -256]
    with pytest.raises(UnsupportedData, match="WAV"):
        through(lazy, b"fLaC....")
    with pytest.raises(SchemaMismatch, match="2 channels"):
        through(lazy, sound(samples.tobytes(), channels=2))
    with pytest.raises(SchemaMismatch, match="because of lazy_decode"):
        through(lazy, samples)
    for size in range(4, len(sound(samples.tobytes()))):
        with pytest.raises((SchemaMismatch, UnsupportedData)):
            found = through(lazy, sound(samples.tobytes())[:size])
            assert len(found) < 4  # wave returns the data that exist
            raise SchemaMismatch(hr.Where(), expected="", found="")


def test_images(tmp_path):
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    file = Image().encode_example(pixels)
    (tmp_path / "x.png").write_bytes(file)
    with (tmp_path / "x.png").open("rb") as opened:
        for value in (pixels, file, tmp_path / "x.png", str(tmp_path / "x.png"), opened):
            assert through(Image(), value).tolist() == pixels.tolist()
    from PIL import Image as Pillow

    assert through(Image(), Pillow.fromarray(pixels)).tolist() == pixels.tolist()
    assert through(Video(shape=(None, 2, 4, 3)), [pixels, pixels]).shape == (2, 2, 4, 3)
    assert through(LabeledImage(labels=["a", "b"]), pixels[..., :1]).shape == (2, 4, 1)
    frames = [Pillow.new("RGB", (3, 2), (i * 80, 0, 0)) for i in range(3)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    animation = Image(shape=(None, None, None, 3))
    assert through(animation, buffer.getvalue()).shape == (3, 2, 3, 3)
    with pytest.raises(CorruptRecord, match="an intact animation"):
        through(animation, buffer.getvalue()[:20])
    with pytest.raises(SchemaMismatch, match="images of shape"):
        through(Image(shape=(2, 5, 3)), file)
    with pytest.raises(SchemaMismatch, match="found float64"):
        through(Image(), pixels / 2)
    with pytest.raises(SchemaMismatch, match="an array, image file"):
        through(Image(), 5)


def test_animations_of_different_lengths_make_a_list():
    from PIL import Image as Pillow

    features = FeaturesDict({"x": Image(shape=(None, None, None, 3))})
    encoder, codec, files = FeaturesEncoder(features), FeaturesCodec(features), []
    for count in (1, 3):
        frames = [Pillow.new("RGB", (3, 2), (i * 80, 9, 0)) for i in range(count)]
        buffer = io.BytesIO()
        frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
        files.append(encoder.encode({"x": buffer.getvalue()}))
    batch = codec.decode_batch(codec.spans_of(files))
    assert [animation.shape for animation in batch["x"]] == [(1, 2, 3, 3), (3, 2, 3, 3)]


@pytest.mark.parametrize(
    ("feature", "value", "message"),
    [
        (ClassLabel(num_classes=3), 3, "a class from -1 to 2"),
        (ClassLabel(names=["a"]), "b", "a class of ClassLabel"),
        (Tensor(shape=(2,), dtype="int32"), [1, 2, 3], r"shape \(3,\)"),
        (Tensor(shape=(2,), dtype="int32"), [1.5, 2], "float64 values"),
        (Tensor(shape=(), dtype="int8"), 300, r"300 \(int64\)"),
        (Text(), 5, "bytes or text"),
        (BBoxFeature(), [0.5, 0, 0.1, 1], "maxima are not below"),
        (BBoxFeature(), BBox(0, 0, 2, 1), "from 0 to 1"),
        (Sequence("int64", 2), [1], "expected 2 elements, found 1"),
        (Sequence({"a": "int64", "b": "int64"}), {"a": [1], "b": []}, "lists of equal length"),
        (Translation(["en"]), {"fr": "x"}, "a dict of \\['en'\\]"),
        (TranslationVariableLanguages(["en"]), {"fr": "x"}, "languages among"),
    ],
)
def test_mismatches_are_refused_and_named(feature, value, message):
    with pytest.raises(SchemaMismatch, match=message) as caught:
        through(feature, value)
    assert caught.value.where.feature == "x"


def test_features_that_cannot_be():
    with pytest.raises(ValueError, match="two features would be stored as 'a/b'"):
        FeaturesDict({"a/b": "int64", "a": {"b": "int64"}})
    with pytest.raises(UnsupportedData, match="no Sequence or Dataset"):
        FeaturesCodec(FeaturesDict({"x": Sequence(Dataset("int64"))}))
    with pytest.raises(UnsupportedData, match="more than one axis varies"):
        FeaturesCodec(FeaturesDict({"x": Tensor(shape=(None, None), dtype="int64")}))
    with pytest.raises(UnsupportedData, match="elements of one shape"):
        FeaturesCodec(FeaturesDict({"x": Sequence(Tensor(shape=(None,), dtype="int64"))}))


def test_lengths_of_sequences_that_contradict_the_values():
    features = FeaturesDict({"x": Sequence(Sequence("int64"))})
    codec = FeaturesCodec(features)
    good = FeaturesEncoder(features).encode({"x": [[1, 2], [3]]})
    for lengths in ([2, 2], [4], [-1, 4], [1, 1]):
        wire = hr.Schema(
            {
                "x/ragged_flat_values": hr.Feature("int64", (None,)),
                "x/ragged_row_lengths_0": hr.Feature("int64", (None,)),
            }
        )
        columns = {
            "x/ragged_flat_values": hr.Ragged.from_list([[1, 2, 3]], "int64"),
            "x/ragged_row_lengths_0": hr.Ragged.from_list([lengths], "int64"),
        }
        block, starts, sizes = ExampleCodec(wire).encode_batch(columns, 1, 0, 0)
        bad = block[int(starts[0]) : int(starts[0] + sizes[0])].tobytes()
        with pytest.raises(SchemaMismatch, match="lengths of the sequences"):
            codec.decode_batch(codec.spans_of([good, bad, good]))


@pytest.mark.parametrize("bad", [([[1, 2], [1, 2]], 1), ([[1, 2]], 2)])
@pytest.mark.parametrize("inside", [Sequence, Dataset])
def test_shapes_and_values_of_arrays_that_differ_in_number(bad, inside):
    features = FeaturesDict({"x": inside(Tensor(shape=(None, None), dtype="int64", encoding="bytes"))})
    codec = FeaturesCodec(features)
    wire = hr.Schema({"x/shape": hr.Feature("int64", (None,)), "x/value": hr.Feature("bytes", (None,))})
    payloads = []
    for shapes, count in (([[1, 2]], 1), bad, ([[1, 2]], 2), ([[1, 2], [1, 2]], 1)):
        columns = {
            "x/shape": hr.Ragged.from_list([sum(shapes, [])], "int64"),
            "x/value": hr.Ragged.from_list([[bytes(16)] * count], object),
        }
        block, starts, sizes = ExampleCodec(wire).encode_batch(columns, 1, 0, 0)
        payloads.append(block[int(starts[0]) : int(starts[0] + sizes[0])].tobytes())
    with pytest.raises(SchemaMismatch, match="as many values as 'x/shape' has") as caught:
        codec.decode_batch(codec.spans_of(payloads))
    assert (caught.value.where.record, caught.value.where.feature) == (1, "x/value")
    with pytest.raises(SchemaMismatch, match="as many values as 'x/shape' has"):
        codec.decode(payloads[1])


def test_steps_with_optional_values():
    optional = {
        "number": Scalar("int64", optional=True),
        "text": Scalar("string", optional=True),
        "array": Tensor(shape=(None, None), dtype="int64", encoding="bytes", optional=True),
    }
    features = FeaturesDict({"steps": Dataset(optional)})
    given = [{"number": n, "text": b"%d" % n, "array": np.full((n, 2), n)} for n in range(3)]
    payload = FeaturesEncoder(features).encode({"steps": given})
    steps = FeaturesCodec(features).decode(payload)["steps"]
    assert plain(steps) == [{**step, "array": step["array"].tolist()} for step in given]
    assert steps.batch([2, 0])["number"].tolist() == [2, 0]
    for name in optional:
        with pytest.raises(SchemaMismatch, match="found None"):
            FeaturesEncoder(features).encode({"steps": [given[0], {**given[1], name: None}]})


def test_memory_does_not_grow_with_the_combinations_of_missing_values():
    features = FeaturesDict({f"f{bit}": Scalar("int64", optional=True) for bit in range(10)})
    encoder, codec = FeaturesEncoder(features), FeaturesCodec(features)
    for number in [*range(1, 600, 2), 1, 3]:
        given = {f"f{bit}": number if number >> bit & 1 else None for bit in range(10)}
        assert codec.decode(encoder.encode(given)) == given
    assert len(encoder._codecs) == MOST_CODECS


def test_damaged_arrays():
    features = FeaturesDict({"x": Tensor(shape=(2,), dtype="int32", encoding="zlib")})
    stored = FeaturesDict({"x": Text()})
    codec, encode = FeaturesCodec(features), FeaturesEncoder(stored).encode
    good = features["x"].encode_example([1, 2])
    for bad in (b"", good[:-1], b"nothing", zlib.compress(b"1234567"), zlib.compress(bytes(1 << 20))):
        with pytest.raises(SchemaMismatch) as caught:
            codec.decode_batch(codec.spans_of([encode({"x": good}), encode({"x": bad})]))
        assert (caught.value.where.record, caught.value.where.feature) == (1, "x")


@pytest.mark.parametrize(
    ("dtype", "given", "values"),
    [("int64", [], []), ("bool", [], []), ("uint8", (), []), ("uint64", [2**64 - 1, 0], [2**64 - 1, 0])],
)
def test_lists_without_values_and_large_integers_are_encoded(dtype, given, values):
    found = Tensor(shape=(None,), dtype=dtype).encode_example(given)
    assert (found.dtype, found.tolist()) == (np.dtype(dtype), values)


@pytest.mark.parametrize("given", [[0.5], ["a"], [2**64], [-1, 2**64 - 1]])
def test_lists_that_do_not_fit_are_still_refused(given):
    with pytest.raises(SchemaMismatch):
        Tensor(shape=(None,), dtype="uint64").encode_example(given)
