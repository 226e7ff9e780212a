"""Hugging Face datasets, both ways, with the library itself."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
from tests.adapters.test_arrow import COLUMNS
from tests.loading.workers.test_workers import same

import headrace as hr
from headrace.adapters.huggingface import from_hf, to_hf

pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def hf():
    return pytest.importorskip("datasets")


def png(value, size=(4, 5)):
    image = pytest.importorskip("PIL.Image").fromarray(np.full((*size, 3), value, np.uint8))
    stored = io.BytesIO()
    image.save(stored, "png")
    return stored.getvalue()


@pytest.fixture
def dataset(hf):
    features = hf.Features(
        {
            "label": hf.ClassLabel(names=["cat", "dog", "bird"]),
            "text": hf.Value("string"),
            "tokens": hf.List(hf.Value("int32")),
            "grid": hf.Array2D((2, 3), "float32"),
            "image": hf.Image(),
            "answers": {"start": hf.Value("int64"), "text": hf.Value("string")},
        }
    )
    n = 10
    return hf.Dataset.from_dict(
        {
            "label": [i % 3 for i in range(n)],
            "text": [f"text {i}" for i in range(n)],
            "tokens": [[i] * (i % 4) for i in range(n)],
            "grid": [np.full((2, 3), i, np.float32) for i in range(n)],
            "image": [{"bytes": png(i), "path": None} for i in range(n)],
            "answers": [{"start": i, "text": str(i)} for i in range(n)],
        },
        features=features,
    )


def test_from_hf(dataset):
    source = from_hf(dataset)
    assert len(source) == 10
    assert source.schema["label"] == hr.Feature("int64", names=["cat", "dog", "bird"])
    assert source.schema["grid"] == hr.Feature("float32", (2, 3))
    assert list(source.schema) == ["label", "text", "tokens", "grid", "image", "answers/start", "answers/text"]
    batch = source.batch([7, 2, 5])
    assert batch["label"].tolist() == [1, 2, 2]
    assert batch["text"].tolist() == ["text 7", "text 2", "text 5"]
    assert batch["tokens"].to_list() == [[7, 7, 7], [2, 2], [5]]
    assert batch["grid"].shape == (3, 2, 3)
    assert batch["grid"][:, 0, 0].tolist() == [7, 2, 5]
    assert batch["image"].shape == (3, 4, 5, 3)
    assert batch["image"][:, 0, 0, 0].tolist() == [7, 2, 5]
    assert batch["answers/start"].tolist() == [7, 2, 5]


def test_images_stay_encoded(dataset):
    assert from_hf(dataset, decode=False)[3]["image"] == png(3)


def test_the_datasets_own_order_counts(dataset):
    chosen = dataset.filter(lambda row: row["label"] == 1, load_from_cache_file=False).select([2, 0])
    source = from_hf(chosen)
    assert source.batch(np.arange(2))["text"].tolist() == ["text 7", "text 1"]
    assert [example["text"] for example in from_hf(dataset.shuffle(seed=1))] == dataset.shuffle(seed=1)["text"][:]
    assert from_hf(dataset.with_format("torch"))[0]["text"] == "text 0"


def test_splits(hf, dataset):
    splits = from_hf(hf.DatasetDict({"train": dataset, "test": dataset.select(range(2))}))
    assert {name: len(source) for name, source in splits.items()} == {"train": 10, "test": 2}


def test_streams_are_refused(hf, dataset):
    with pytest.raises(hr.UnsupportedData, match="streaming=False"):
        from_hf(dataset.to_iterable_dataset())


def test_loader_pickle_and_select(dataset):
    source = pickle.loads(pickle.dumps(from_hf(dataset).select("text", "label")))
    seen = [text for batch in hr.Loader(source, 3, shuffle=True) for text in batch["text"].tolist()]
    assert sorted(seen) == sorted(dataset["text"][:])


def test_to_hf(hf):
    dataset = to_hf(hr.ColumnSource(COLUMNS))
    assert len(dataset) == 7
    assert dataset[3]["x"] == [6.0, 7.0]
    assert dataset[2]["many"] == [1.5, 1.5]
    assert dataset["name"][:] == COLUMNS["name"].tolist()
    same(from_hf(dataset).batch(np.arange(7))["i"], COLUMNS["i"])
    assert (
        dataset.map(lambda row: {"twice": row["i"] * 2}, load_from_cache_file=False)["twice"][:]
        == (COLUMNS["i"] * 2).tolist()
    )


def test_there_and_back(hf, dataset, tmp_path):
    again = to_hf(from_hf(dataset, decode=False))
    assert again.features["label"] == dataset.features["label"]
    assert isinstance(again.features["image"], hf.Image)
    assert np.asarray(again[3]["image"]).tolist() == np.asarray(dataset[3]["image"]).tolist()
    assert again["tokens"][:] == dataset["tokens"][:]
    again.save_to_disk(tmp_path / "stored")
    stored = hf.load_from_disk(tmp_path / "stored")
    assert from_hf(stored).batch([4])["image"][0, 0, 0].tolist() == [4, 4, 4]
    assert len(pickle.dumps(from_hf(stored))) < 20_000


def test_images_by_path_are_read_with_their_example(hf, tmp_path, monkeypatch):
    (tmp_path / "a.png").write_bytes(png(7))
    monkeypatch.chdir(tmp_path)
    files = [("a.png", None), (None, png(3)), ("b.png", None), ("https://example.org/c.png", None)]
    images = [{"path": path, "bytes": content} for path, content in files]
    dataset = hf.Dataset.from_dict(
        {"i": images, "n": [1, 2, 3, 4]}, features=hf.Features({"i": hf.Image(), "n": hf.Value("int64")})
    )
    source = pickle.loads(pickle.dumps(from_hf(dataset)))
    assert [source[at]["i"][0, 0, 0] for at in (0, 1)] == [7, 3]
    assert from_hf(dataset, decode=False).batch([1, 0])["i"].tolist() == [png(3), png(7)]
    assert from_hf(dataset.select([1, 0]))[1]["i"][0, 0, 0] == 7
    assert source.select("n").batch([2, 3])["n"].tolist() == [3, 4]
    for at, found in ((2, "No such file"), (3, "a URL")):
        with pytest.raises(hr.UnsupportedData, match=f"found {found}.*stored by its path") as caught:
            source.batch([0, at])
        assert (caught.value.where.record, caught.value.where.feature) == (at, "i")


def test_a_dictionary_of_splits_is_no_source(hf, dataset):
    with pytest.raises(TypeError, match="a DatasetDict of the splits 'train'. Choose one"):
        hr.open(hf.DatasetDict({"train": dataset}))


def test_a_transform_is_not_called(hf):
    dataset = hf.Dataset.from_dict({"i": [1, 2], "t": ["a", "b"]})
    changed = dataset.with_transform(lambda batch: {"i": [10 * value for value in batch["i"]]})
    with pytest.warns(UserWarning, match=r"has a transform .*, which is not called here: pass it to source.map"):
        source = from_hf(changed)
    assert source[0] == {"i": 1, "t": "a"}
    assert from_hf(dataset.with_format(None, columns=["i"]))[1] == {"i": 2, "t": "b"}


def test_loaders_and_mixtures_take_datasets(hf):
    dataset = hf.Dataset.from_dict({"i": list(range(6))})
    for source in (dataset, hr.Mixture([(dataset, 1)])):
        assert [batch["i"].tolist() for batch in hr.Loader(source, 4)] == [[0, 1, 2, 3], [4, 5]]
    assert sorted(int(batch["i"][0]) for batch in hr.Loader(dataset, 1, shuffle=True, seed=3)) == list(range(6))
