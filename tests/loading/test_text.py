"""Columns of text and bytes on the whole way from a file to a loop."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr

N = 50
TEXTS = ["é" * (i % 4) + f"text {i}" for i in range(N)]
RAW = [b"\xff\x00" * (i % 3) + str(i).encode() for i in range(N)]
TAGS = [[f"tag {j}" for j in range(i % 5)] for i in range(N)]
SCHEMA = {
    "text": hr.Feature("str"),
    "raw": hr.Feature("bytes"),
    "pair": hr.Feature("str", (2,)),
    "tags": hr.Feature("str", (None,)),
    "id": hr.Feature("int64"),
}


def example(i):
    return {"text": TEXTS[i], "raw": RAW[i], "pair": [TEXTS[i], ""], "tags": TAGS[i], "id": i}


@pytest.fixture
def source(tmp_path):
    hr.write(tmp_path / "a.tfrecord", [example(i) for i in range(N)], schema=SCHEMA)
    return hr.open(tmp_path / "a.tfrecord", schema=SCHEMA)


def check(batch):
    """Whether every column of a batch holds the values of its ids."""
    ids = np.asarray(batch["id"]).tolist()
    assert all(isinstance(batch[name], hr.Strings) for name in ("text", "raw", "pair"))
    assert isinstance(batch["tags"].values, hr.Strings)
    assert batch["text"].tolist() == [TEXTS[i] for i in ids]
    assert batch["raw"].tolist() == [RAW[i] for i in ids]
    assert batch["pair"].tolist() == [[TEXTS[i], ""] for i in ids]
    assert batch["tags"].to_list() == [TAGS[i] for i in ids]
    return ids


def seen(batches):
    return [i for batch in batches for i in check(batch)]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"workers": 1}], ids=["here", "threads", "worker"])
def test_loaders_and_resume(source, shuffle, options):
    whole = seen(hr.Loader(source, 8, shuffle=shuffle, seed=3, **options))
    assert sorted(whole) == list(range(N))
    loader = hr.Loader(source, 8, shuffle=shuffle, seed=3, **options)
    batches = iter(loader)
    first = seen([next(batches), next(batches)])
    state = loader.state_dict()
    again = hr.Loader(source, 8, shuffle=shuffle, seed=3, **options)
    again.load_state_dict(state)
    assert first + seen(again) == whole


def test_views(source):
    assert check(source[10:20].batch(range(10))) == list(range(10, 20))
    assert check(source[::-3].batch([0, 1])) == [N - 1, N - 4]
    assert check(source.concat(source).batch([0, N, N + 7, 3])) == [0, 0, 7, 3]
    assert sorted(seen(hr.Loader(source.filter(lambda e: e["text"].endswith("4")), 4))) == [4, 14, 24, 34, 44]
    mapped = source.map(lambda e: {**e, "text": e["text"].upper()})
    upper = mapped.batch([2, 5])["text"]
    assert isinstance(upper, hr.Strings)
    assert upper.tolist() == [TEXTS[2].upper(), TEXTS[5].upper()]
    assert type(source[3]["text"]) is str
    assert type(source[3]["raw"]) is bytes


def test_mixtures(source):
    mixed = hr.Mixture([(source, 1.0), (source[5:25], 1.0)])
    assert len(seen(hr.Loader(mixed, 7))) > 0


def test_map_batch_and_written_again(source, tmp_path):
    loader = hr.Loader(source, 16, map_batch=lambda b: {**b, "bucket": b["text"].hash_buckets(10)})
    for batch in loader:
        check(batch)
        assert batch["bucket"].tolist() == hr.Strings.from_values(batch["text"].tolist()).hash_buckets(10).tolist()
    hr.write(tmp_path / "b.tfrecord", source.batch(range(N)), schema=SCHEMA)
    assert (tmp_path / "b.tfrecord").read_bytes() == (tmp_path / "a.tfrecord").read_bytes()


def test_padding(source):
    padded = hr.Pad("tags", length=3, fill="-", truncate=True)(source.batch(range(N)))["tags"]
    assert isinstance(padded, hr.Strings)
    assert padded.tolist() == [(tags + ["-"] * 3)[:3] for tags in TAGS]
    packed = hr.Pack("tags", length=8, fill="")(source.batch(range(N)))["tags"]
    assert isinstance(packed, hr.Strings)
    assert sorted(value for row in packed.tolist() for value in row if value) == sorted(
        t for tags in TAGS for t in tags
    )


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_other_libraries_leave_text_as_it_is(source, library):
    pytest.importorskip(library)
    for batch in hr.Loader(source, 16, to=library):
        check(batch)
        assert not isinstance(batch["id"], np.ndarray)


def test_text_that_is_not_utf8_names_record_and_feature(tmp_path):
    values = np.array([b"a", b"b", "é".encode()[:1], b"c"], object)
    hr.write(tmp_path / "c.tfrecord", {"x": values}, schema={"x": hr.Feature("bytes")})
    bad = hr.open(tmp_path / "c.tfrecord", schema={"x": hr.Feature("str")})
    with pytest.raises(hr.SchemaMismatch, match=r"UTF-8 text.*b'\\xc3'") as caught:
        bad.batch([3, 2, 1])
    assert (caught.value.where.record, caught.value.where.feature) == (2, "x")
