"""Every format behind URLs: same as local, and the number of requests."""

import pickle

import numpy as np
import pytest
from tests.io.file_server import serving

import headrace as hr
from headrace.errors import CorruptFile, NoFiles
from headrace.formats.array_record.write import ArrayRecordWriter
from headrace.io.local import fileset

ROWS = 2000
NAMES = [
    "a.tfrecord",
    "a.tfrecord.gz",
    "a.recordio",
    "a.array_record",
    "grouped.array_record",
    "a.npy",
    "a.npz",
    "deflated.npz",
    "a.csv",
    "a.csv.gz",
    "a.jsonl",
    "a.parquet",
    "a.avro",
    "a.tar",
]
BY_RANGE = ["a.tfrecord", "a.recordio", "a.array_record", "grouped.array_record", "a.npy", "a.csv"]
"""Formats of which only what is asked for is fetched."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(0)
    rows = [{"x": rng.random(40).astype("f4"), "y": i} for i in range(ROWS)]
    for name in ("a.tfrecord", "a.tfrecord.gz", "a.recordio", "a.array_record"):
        hr.write(folder / name, rows)
    hr.write(folder / "a.tar", rows[:50])
    with ArrayRecordWriter(folder / "grouped.array_record", group_size=50) as writer:
        writer.write_many([bytes(payload) for payload in hr.records(folder / "a.tfrecord")])
    np.save(folder / "a.npy", rng.random((ROWS, 30)))
    np.savez(folder / "a.npz", x=rng.random((ROWS, 3)), y=np.arange(ROWS))
    np.savez_compressed(folder / "deflated.npz", x=rng.random((ROWS, 3)), y=np.arange(ROWS))
    plain = [{"a": i, "b": i / 3, "c": f"row {i}"} for i in range(ROWS)]
    for name in ("a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "a.avro"):
        hr.write(folder / name, plain)
    return folder


@pytest.fixture
def server(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    with serving(folder) as server:
        yield server


@pytest.fixture
def large(monkeypatch):
    """Pretend that files are larger than the limit for whole downloads."""
    monkeypatch.setattr(fileset, "BLOCK_BYTES", 1000)


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(other[name]))


def check_alike(here, there):
    assert len(here) == len(there)
    assert here.schema == there.schema
    order = np.random.default_rng(1).permutation(len(here))[:100]
    same(here.batch(order), there.batch(order))
    same(here[3], there[3])
    for shuffle in (False, True):
        for one, other in zip(hr.Loader(here, 64, shuffle=shuffle), hr.Loader(there, 64, shuffle=shuffle), strict=True):
            same(one, other)
    for one, other in zip(here, there, strict=True):
        same(one, other)


@pytest.mark.parametrize("name", NAMES)
def test_small_files_read_as_from_this_machine(folder, server, name):
    check_alike(hr.open(folder / name), hr.open(f"{server.url}/{name}"))
    report = hr.verify(f"{server.url}/{name}")
    assert report.ok, report
    assert report.bytes == (folder / name).stat().st_size


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("large")
def test_large_files_read_as_from_this_machine(folder, server, name):
    check_alike(hr.open(folder / name), hr.open(f"{server.url}/{name}"))
    check_alike(hr.open(folder / name), pickle.loads(pickle.dumps(hr.open(f"{server.url}/{name}"))))


@pytest.mark.parametrize("name", BY_RANGE)
@pytest.mark.usefixtures("large")
def test_a_shuffled_batch_asks_for_its_records_and_nothing_else(server, name, monkeypatch):
    monkeypatch.setattr("headrace.io.store.object.GAP_BYTES", 0)
    source = hr.open(f"{server.url}/{name}")
    source.batch(np.array([5]))
    with server.counting() as asked:
        source.batch(np.array([100, 1900, 700, 101, 100]))
    assert len(asked) <= 3
    fetched = sum(
        int(end) - int(begin) + 1 for _, _, r in asked for begin, end in [r.removeprefix("bytes=").split("-")]
    )
    assert fetched < (server.root / name).stat().st_size / 3


@pytest.mark.parametrize("name", ["a.tfrecord", "a.array_record"])
@pytest.mark.usefixtures("large")
def test_in_order_blocks_are_fetched_whatever_the_size_of_a_batch(server, name):
    source = hr.open(f"{server.url}/{name}")
    len(source)
    with server.counting() as asked:
        assert sum(len(batch["y"]) for batch in hr.Loader(source, 10)) == ROWS
    assert len(asked) <= 4


@pytest.mark.usefixtures("large")
def test_the_index_is_kept_for_the_version_of_the_object(folder, server, tmp_path):
    url = f"{server.url}/a.tfrecord"
    len(hr.records(url))
    with server.counting() as asked:
        assert len(hr.records(url)) == ROWS
    assert all(request[2] == "bytes=0-4095" for request in asked)
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as changing:
        target = tmp_path / "other" / "a.tfrecord"
        hr.write(target, [{"y": 1}] * 5)
        assert len(hr.records(f"{changing.url}/a.tfrecord")) == 5
        opened = hr.records(f"{changing.url}/a.tfrecord")
        assert len(opened) == 5
        hr.write(target, [{"y": 1}] * 700)
        assert len(hr.records(f"{changing.url}/a.tfrecord")) == 700
        with pytest.raises(CorruptFile, match="changed"):
            opened.spans(np.arange(5))


@pytest.mark.usefixtures("large")
def test_array_records_are_never_fetched_whole(server):
    with server.counting() as asked:
        assert len(hr.records(f"{server.url}/grouped.array_record")) == ROWS
    assert len(asked) <= 3


@pytest.mark.usefixtures("large")
def test_shards_lists_and_skipping(folder, server, tmp_path, monkeypatch):
    monkeypatch.setattr(fileset, "BLOCK_BYTES", 1000)
    served = tmp_path / "shards"
    served.mkdir()
    hr.write(f"{served}/x.tfrecord@3", hr.open(folder / "a.tfrecord"))
    with serving(served) as other:
        check_alike(hr.open(f"{served}/x.tfrecord@3"), hr.open(f"{other.url}/x.tfrecord@3"))
        urls = [f"{other.url}/x.tfrecord-0000{n}-of-00003" for n in (2, 0)]
        check_alike(hr.open([url.replace(other.url, str(served)) for url in urls]), hr.open(urls))
        check_alike(hr.open(urls[0].replace(other.url, str(served))), hr.open(urls[0]))
        with pytest.raises(NoFiles, match=r"x.tfrecord@9 names the whole set"):
            hr.open(f"{other.url}/x.tfrecord-00001-of-00009")
        damaged = bytearray((served / "x.tfrecord-00001-of-00003").read_bytes())
        damaged[5000] ^= 1
        (served / "x.tfrecord-00001-of-00003").write_bytes(damaged)
        rest = hr.open(f"{other.url}/x.tfrecord@3", on_corrupt="skip")
        assert len(rest) == ROWS - 1
        same(rest[1500], hr.open(f"{served}/x.tfrecord@3", on_corrupt="skip")[1500])
        (served / "x.tfrecord-00001-of-00003").unlink()
        with pytest.raises(NoFiles, match="00001-of-00003"):
            len(hr.open(f"{other.url}/x.tfrecord@3"))


def test_conversion_from_a_url(folder, server, tmp_path):
    done = hr.convert(f"{server.url}/a.tfrecord", tmp_path / "b.array_record")
    assert done.examples == ROWS
    check_alike(hr.open(folder / "a.tfrecord"), hr.open(tmp_path / "b.array_record"))


@pytest.mark.usefixtures("large")
def test_workers_read_urls(folder, server):
    source = hr.open(f"{server.url}/a.tfrecord")
    len(source)
    loader = hr.Loader(source, 500, shuffle=True, workers=1)
    for one, other in zip(loader, hr.Loader(hr.open(folder / "a.tfrecord"), 500, shuffle=True), strict=True):
        same(one, other)


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    served = tmp_path / "pictures"
    (served / "images").mkdir(parents=True)
    for number in range(30):
        Image.new("RGB", (16, 16), (number, 0, 255 - number)).save(served / "images" / f"{number}.png")
    lines = [f"images/{number}.png,{number}" for number in range(30)]
    (served / "train.csv").write_text("\n".join(["image,label", *lines]) + "\n")
    with serving(served) as server:
        yield server


def test_images_beside_a_table_at_a_url(pictures):
    source = hr.open(f"{pictures.url}/train.csv")
    assert source.schema["image"].shape == (16, 16, 3)
    source.batch(np.array([0]))
    with pictures.counting() as asked:
        batch = source.batch(np.array([3, 29, 4, 3]))
    assert len(asked) == 3
    assert batch["image"][:, 0, 0, 0].tolist() == [3, 29, 4, 3]
    same(source.batch(np.arange(30)), hr.open(pictures.root / "train.csv").batch(np.arange(30)))


def test_urls_in_a_table_on_this_machine(pictures, tmp_path):
    lines = [f"{pictures.url}/images/{number}.png,{number}" for number in range(30)]
    (tmp_path / "urls.csv").write_text("\n".join(["image,label", *lines]) + "\n")
    source = hr.open(tmp_path / "urls.csv", image_columns=["image"])
    assert source.batch(np.array([7]))["image"][0, 0, 0].tolist() == [7, 0, 248]


def test_a_missing_image_is_named(pictures):
    source = hr.open(f"{pictures.url}/train.csv")
    (pictures.root / "images" / "5.png").unlink()
    with pytest.raises(NoFiles, match=r"images/5\.png") as found:
        source.batch(np.array([4, 5]))
    assert found.value.where.record == 5
