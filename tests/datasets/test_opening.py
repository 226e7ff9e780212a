"""Generated folders: formats, missing or wrong files, many files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
from headrace import _native
from headrace.datasets import data_source
from headrace.datasets.building import DatasetBuilder
from headrace.datasets.codec import FeaturesEncoder
from headrace.datasets.features import ClassLabel, Dataset, FeaturesDict, Image, Scalar, Tensor
from headrace.errors import CorruptFile, CorruptRecord, NoFiles, SchemaMismatch, UnsupportedData

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tfds"
FEATURES = FeaturesDict({"n": "int64", "label": ClassLabel(names=["a", "b"])})


def make(folder, lengths, *, file_format="tfrecord", write=None, features=FEATURES, rows=None, **more):
    """A prepared folder with one split."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder, first = FeaturesEncoder(features), 0
    for number, length in enumerate(lengths):
        name = f"made-train.{file_format}-{number:05}-of-{len(lengths):05}"
        given = rows or [{"n": i, "label": i % 2} for i in range(sum(lengths))]
        (write or hr.write_records)(folder / name, [encoder.encode(row) for row in given[first : first + length]])
        first += length
    fields = {"name": "made", "version": "1.0.0", "fileFormat": file_format, **more}
    split = {"name": "train", "shardLengths": [str(n) for n in lengths], "numBytes": "0"}
    (folder / "dataset_info.json").write_text(json.dumps({**fields, "splits": [split]}))
    (folder / "features.json").write_text(json.dumps(features.to_json()))
    return folder


def array_record(path, payloads):
    hr.write_records(path, payloads, format="array_record")


def riegeli(path, payloads):
    """The chunks of an ArrayRecord file without the footer that makes it one."""
    whole = path.with_suffix(".whole")
    hr.write_records(whole, payloads, format="array_record", compression="none")
    content = whole.read_bytes()
    records = hr.records(whole, format="array_record")
    path.write_bytes(content[: records.footer().begins[-1] + _chunk_bytes(content, int(records.footer().begins[-1]))])
    whole.unlink()


def _chunk_bytes(content, begin):
    """The size of one uncompressed chunk that crosses no block."""
    return 40 + int.from_bytes(content[begin + 8 : begin + 16], "little")


def parquet(path, payloads):
    pq.write_table(pa.table({"data": pa.array(payloads, pa.binary())}), path, row_group_size=3)


WRITERS = {"tfrecord": None, "array_record": array_record, "parquet": parquet}


@pytest.mark.parametrize("file_format", WRITERS)
def test_formats(tmp_path, file_format):
    folder = make(tmp_path / "1.0.0", [7, 0, 5], file_format=file_format, write=WRITERS[file_format])
    source = data_source(folder, "train")
    assert len(source) == 12
    assert source.batch([11, 0, 7, 6])["n"].tolist() == [11, 0, 7, 6]
    assert [int(example["n"]) for example in source] == list(range(12))
    assert source[-1]["label"] == 1
    assert data_source(folder, "train[2shard]").batch(range(5))["n"].tolist() == [7, 8, 9, 10, 11]
    assert data_source(folder, "train[:2]+train[-1:]").batch([0, 1, 2])["n"].tolist() == [0, 1, 11]
    assert source.where(8).record == 1


def test_parquet_with_something_else_in_it(tmp_path):
    def table(path, payloads):
        pq.write_table(pa.table({"text": ["x"] * len(payloads)}), path)

    source = data_source(make(tmp_path / "1.0.0", [2], file_format="parquet", write=table), "train")
    with pytest.raises(hr.SchemaMismatch, match="expected a column 'data' of binary values, found text: string"):
        source[0]
    damaged = make(
        tmp_path / "2.0.0", [2], file_format="parquet", write=lambda path, payloads: path.write_bytes(b"PAR1")
    )
    with pytest.raises(CorruptFile, match="expected a Parquet file"):
        data_source(damaged, "train")[0]


def test_parquet_payloads_are_picklable_and_counted(tmp_path):
    import pickle

    source = data_source(make(tmp_path / "1.0.0", [4, 3], file_format="parquet", write=parquet), "train")
    again = pickle.loads(pickle.dumps(source))
    assert [bytes(payload) for payload in again.records] == [bytes(payload) for payload in source.records]
    assert again.records.lengths == (4, 3)
    assert again.records.skipped == hr.Skipped()
    with pytest.raises(IndexError):
        again.records.spans(np.array([7]))


def test_another_format_that_is_there_is_taken(tmp_path):
    folder = make(tmp_path / "1.0.0", [3], file_format="tfrecord", alternativeFileFormats=["array_record"])
    encoder = FeaturesEncoder(FEATURES)
    (folder / "made-train.tfrecord-00000-of-00001").unlink()
    with pytest.raises(NoFiles, match="1 of 1 files missing: made-train.tfrecord-00000-of-00001"):
        data_source(folder, "train")
    payloads = [encoder.encode({"n": i, "label": "b"}) for i in range(3)]
    array_record(folder / "made-train.array_record-00000-of-00001", payloads)
    assert data_source(folder, "train").batch([2])["n"].tolist() == [2]


def test_missing_files_are_named(tmp_path):
    folder = make(tmp_path / "1.0.0", [2, 2, 2])
    (folder / "made-train.tfrecord-00001-of-00003").unlink()
    with pytest.raises(NoFiles, match="expected the files of split 'train' of made/1.0.0, found 1 of 3 files missing"):
        data_source(folder)


@pytest.mark.parametrize("file_format", WRITERS)
def test_wrong_lengths_are_reported_with_both_values(tmp_path, file_format):
    folder = make(tmp_path / "1.0.0", [2, 3, 2], file_format=file_format, write=WRITERS[file_format])
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = ["2", "2", "3"]  # as many in all
    (folder / "dataset_info.json").write_text(json.dumps(info))
    source = data_source(folder, "train")
    for read in (lambda: source[0], lambda: source.batch([0]), lambda: list(source), lambda: source[1:3][0]):
        with pytest.raises(CorruptFile, match="expected 2 examples, as dataset_info.json says, found 3") as caught:
            read()
        assert caught.value.where.path.endswith("-00001-of-00003")


def test_old_folders_without_lengths(tmp_path):
    folder = make(tmp_path / "1.0.0", [2, 3])
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0] = {"name": "train", "numShards": "2"}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    source = data_source(folder, "train[:80%]")
    assert source.batch(range(len(source)))["n"].tolist() == [0, 1, 2, 3]


def test_unknown_splits(tmp_path):
    folder = make(tmp_path / "1.0.0", [4])
    with pytest.raises(UnsupportedData, match="one of the splits .*'train'.* found 'trian' .* Did you mean 'train'?"):
        data_source(folder, "trian[:10%]")
    with pytest.raises(UnsupportedData, match="found 'test'"):
        data_source(folder, hr.ReadInstruction("test"))
    with pytest.raises(UnsupportedData, match="bounds within 4 examples"):
        data_source(folder, "train[:1000]")
    with pytest.raises(UnsupportedData, match="a split such as"):
        data_source(folder, "train[")
    with pytest.raises(UnsupportedData, match="holds examples"):
        data_source(folder, "train[2:2]")


def test_lists_and_dicts_of_splits(tmp_path):
    folder = make(tmp_path / "1.0.0", [4])
    first, second = data_source(folder, ["train[:1]", "train[1:]"])
    assert (len(first), len(second)) == (1, 3)
    named = data_source(folder, {"a": "train[:50%]", "b": ("train", "all")})
    assert (len(named["a"]), [len(part) for part in named["b"]]) == (2, [4, 4])


def test_damaged_images_are_named_by_file_record_and_feature(tmp_path):
    features = FeaturesDict({"image": Image(shape=(8, 8, 1))})
    pixels = np.zeros((8, 8, 1), np.uint8)
    rows = [{"image": pixels} for _ in range(6)]
    rows[4] = {"image": Image(shape=(8, 8, 1)).encode_example(pixels)[:-20]}
    source = data_source(make(tmp_path / "1.0.0", [3, 3], features=features, rows=rows), "train")
    for read in (lambda: source[4], lambda: source.batch([5, 4]), lambda: source.batch(range(6)), lambda: list(source)):
        with pytest.raises(CorruptRecord) as caught:
            read()
        where = caught.value.where
        assert (where.path[-18:], where.record, where.feature) == ("ord-00001-of-00002", 1, "image")
    assert len(source[:4].batch(range(4))["image"]) == 4


def test_very_many_files(tmp_path):
    folder = make(tmp_path / "1.0.0", [1])
    one = next(folder.glob("*.tfrecord*"))
    content = one.read_bytes()
    one.unlink()
    count = 1200  # more than are checked again before an old index is trusted
    for number in range(count):
        (folder / f"made-train.tfrecord-{number:05}-of-{count:05}").write_bytes(content)
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = ["1"] * count
    (folder / "dataset_info.json").write_text(json.dumps(info))
    source = data_source(folder, "train")
    assert len(source) == count
    assert source.batch([0, count - 1])["n"].tolist() == [0, 0]


def test_riegeli(tmp_path):
    folder = make(tmp_path / "1.0.0", [5], file_format="riegeli", write=riegeli)
    source = data_source(folder, "train")
    assert source.batch([4, 1])["n"].tolist() == [4, 1]
    assert source.records.format == "riegeli"
    path = next(folder.glob("*.riegeli*"))
    bad = bytearray(path.read_bytes())
    bad[-3] ^= 1
    path.write_bytes(bad)
    with pytest.raises((CorruptRecord, CorruptFile)):
        data_source(folder, "train").batch(range(5))


def test_names_of_classes_that_contradict(tmp_path):
    shutil.copytree(GOLDEN / "tfrecord" / "mini" / "1.2.0", tmp_path / "mini")
    (tmp_path / "mini" / "label.labels.txt").write_text("cat\ndog\n")
    with pytest.raises(CorruptFile, match="expected names of 3 classes, found 2 names"):
        data_source(tmp_path / "mini")
    (tmp_path / "mini" / "label.labels.txt").write_text("cat\ndog\ncat\n")
    with pytest.raises(CorruptFile, match="one name for each class"):
        data_source(tmp_path / "mini")
    (tmp_path / "mini" / "label.labels.txt").write_bytes(b"\xff\n")
    with pytest.raises(CorruptFile, match="names in UTF-8"):
        data_source(tmp_path / "mini")
    (tmp_path / "mini" / "label.labels.txt").unlink()
    assert data_source(tmp_path / "mini", "train").features["label"].names == ["0", "1", "2"]


def test_native_code_counts_what_it_is_given():
    with pytest.raises(ValueError, match="no image"):
        _native.decode_png([b"short"], 1, 1, 1)
    with pytest.raises(ValueError, match="1 to 8 bytes"):
        _native.decode_png([bytes(33)], 1, 9, 9)
    with pytest.raises(_native.FormatError):
        _native.decode_png([bytes(33)], 1 << 62, 1 << 62, 1)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("workers", ["none", "fork", "spawn"])
@pytest.mark.parametrize("kind", ["tfrecord", "array_record"])
def test_torchs_loader_accepts_it(kind, workers):
    import torch
    from torch.utils.data import DataLoader

    source = data_source(GOLDEN / kind / "mini" / "1.2.0", "train").select("image", "label", "tensor")
    workers = {} if workers == "none" else {"num_workers": 2, "multiprocessing_context": workers}
    batches = list(DataLoader(source, batch_size=5, **workers))
    assert [len(batch["label"]) for batch in batches] == [5, 5, 5, 5, 3]
    expected = source.batch(range(len(source)))
    for name, column in expected.items():
        found = torch.cat([batch[name] for batch in batches])
        np.testing.assert_array_equal(found.numpy(), column)


@pytest.fixture
def optional(tmp_path):
    rows = [{"x": None, "s": None, "y": 1}, {"x": 3, "s": "ab", "y": 2}, {"x": 1, "s": "b", "y": 3}]
    features = {"x": Scalar("int64", optional=True), "s": Scalar("string", optional=True), "y": "int64"}
    made = DatasetBuilder(name="o", features=features, splits={"train": rows}, shuffled=False)
    made.download_and_prepare(data_dir=tmp_path, progress=False)
    return data_source("o", "train", data_dir=tmp_path)


def test_missing_values_are_counted_sorted_and_filtered(optional):
    found = hr.stats(optional).features
    assert (found["x"].values, found["x"].empty, found["x"].minimum, found["x"].maximum) == (2, 1, 1, 3)
    assert (found["s"].values, found["s"].empty, found["s"].distinct) == (2, 1, 2)
    assert len(optional.filter(hr.condition("x > 1"))) == 1
    assert [int(row["y"]) for row in optional.sort("x")] == [3, 2, 1]
    assert [int(row["y"]) for row in optional.sort("s", descending=True)] == [3, 2, 1]


def test_missing_values_pass_through_functions_and_filters(optional):
    mapped = optional.map(lambda example: {**example, "y": example["y"] + 1})
    for indices in ([0, 1, 2], [2, 0, 1], [0]):
        found, expected = mapped.batch(indices), optional.batch(indices)
        assert [found[name].tolist() for name in "xs"] == [expected[name].tolist() for name in "xs"]
    for source in (optional, optional.map(dict)):
        for text, kept in {"x < y": [3], "x >= y": [2], "s = 'b'": [3], "not x = 3": [1, 3]}.items():
            picked = source.filter(hr.condition(text))
            assert [int(example["y"]) for example in picked] == kept, text
            assert len(picked) == len(kept)
            assert [int(example["y"]) for example in source if hr.condition(text)(example)] == kept, text


def test_a_function_on_missing_values_has_the_schema_of_later_ones(optional):
    mapped = optional.map(dict)
    assert mapped.schema == optional.schema
    assert optional.flat_map(lambda example: [dict(example)]).schema == optional.schema


@pytest.fixture
def lists(tmp_path):
    """Arrays of varying length: one missing, one empty."""
    rows = [{"v": None, "t": [], "y": 1}, {"v": [], "t": None, "y": 2}, {"v": [4, 5], "t": ["a"], "y": 3}]
    features = {
        "v": Tensor(shape=(None,), dtype="int64", optional=True),
        "t": Tensor(shape=(None,), dtype="string", optional=True),
        "y": "int64",
    }
    made = DatasetBuilder(name="o", features=features, splits={"train": rows}, shuffled=False)
    made.download_and_prepare(data_dir=tmp_path / "made", progress=False)
    return data_source("o", "train", data_dir=tmp_path / "made")


def plain(value):
    return None if value is None else value.tolist()


def test_missing_arrays_of_varying_length_are_missing_and_empty_ones_empty(lists):
    assert (lists.schema["v"].shape, lists.schema["t"].shape) == ((None,), (None,))
    for source in (lists, lists.map(dict), lists.select("v", "t"), lists[::-1][::-1]):
        batch = source.batch([2, 0, 1])
        assert [plain(value) for value in batch["v"]] == [[4, 5], None, []]
        assert [plain(value) for value in batch["t"]] == [[b"a"], [], None]
        assert [plain(example["v"]) for example in source] == [None, [], [4, 5]]
        assert plain(source[0]["v"]) is None
    found = hr.stats(lists).features
    assert (found["v"].values, found["v"].empty) == (2, 2)
    for text, kept in {"v = 5": [3], "length(v) = 0": [1, 2], "v[0] > y": [3], "t = 'a'": [3], "'a'": [3]}.items():
        assert [int(example["y"]) for example in lists.filter(hr.condition(text))] == kept, text
        assert [int(row["y"]) for row in lists if hr.condition(text)(row)] == kept, text


@pytest.mark.parametrize("name", ["x.tfrecord", "x.recordio", "x.parquet", "x.jsonl", "x.avro", "x.tar"])
def test_arrays_that_may_be_missing_are_written_where_they_are_there(lists, tmp_path, name):
    source = lists.select("v")
    assert hr.convert(source[1:], tmp_path / name).examples == 2
    assert hr.open(tmp_path / name).batch([0, 1])["v"].to_list() == [[], [4, 5]]
    with pytest.raises(SchemaMismatch, match=r"expected a value, found None - at .*record 0.*feature 'v'.*source\.map"):
        hr.convert(source, tmp_path / f"gap {name}")
    assert source[1:].cache(tmp_path / "stored", key="1").batch([0, 1])["v"].to_list() == [[], [4, 5]]
    with pytest.raises(SchemaMismatch, match="expected a value, found None"):
        source.cache(tmp_path / "stored", key="2")


def test_missing_values_have_no_arrow_column_but_others_do(optional):
    with pytest.raises(SchemaMismatch, match=r"expected a value, found None - at record 0.*source\.map"):
        optional.to_arrow()
    assert optional[1:].to_arrow().to_pydict() == {"x": [3, 1], "s": [b"ab", b"b"], "y": [2, 3]}


def test_steps_are_refused_by_every_format_and_may_be_left_out(tmp_path):
    rows = [{"steps": [{"r": 1.0}], "y": 1}]
    features = {"steps": Dataset({"r": "float32"}), "y": "int64"}
    DatasetBuilder(name="e", features=features, splits={"train": rows}).download_and_prepare(
        data_dir=tmp_path, progress=False
    )
    source = data_source("e", "train", data_dir=tmp_path)
    with pytest.raises(UnsupportedData, match=r"found the steps of episodes - at feature 'steps'.*source\.steps"):
        source.to_arrow()
    for ending in ("jsonl", "parquet", "csv", "avro", "npz", "npy", "tar", "tfrecord", "recordio", "array_record"):
        for call in (hr.write, lambda path, source: hr.convert(source, path)):
            with pytest.raises(UnsupportedData, match="found the steps of episodes"):
                call(tmp_path / f"x.{ending}", source)
    hr.convert(source, tmp_path / "x.jsonl", allow_loss=True)
    assert list(hr.open(tmp_path / "x.jsonl").schema) == ["y"]
