"""Object stores (s3, gs, az): reading and writing, with a small server that emulates them."""

import io
import itertools
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.io.store_server import DATE, KINDS, environment, etag_of, serving_store
from tests.sources.alike import alike

import headrace as hr
from headrace.errors import NoFiles, Unreachable, UnsupportedData
from headrace.io.local.open import total_size
from headrace.io.store import client, listing, upload
from headrace.io.store.client import client_for
from headrace.writing.salvage import salvage

ROWS = 300
EXAMPLES = [{"x": np.full(4, number, np.float32), "label": np.int64(number % 3)} for number in range(ROWS)]
FORMATS = ("tfrecord", "tfrecord.gz", "recordio", "array_record", "npz", "jsonl", "parquet", "avro", "tar")


@pytest.fixture(params=KINDS)
def store(request, monkeypatch):
    with serving_store() as store:
        for name, value in environment(request.param, store.url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(client, "RETRIES", 2)
        store.base = f"{request.param}://bucket"
        yield store


@pytest.fixture
def s3(monkeypatch):
    with serving_store() as store:
        for name, value in environment("s3", store.url).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(client, "RETRIES", 2)
        store.base = "s3://bucket"
        yield store


@pytest.mark.parametrize("ending", FORMATS)
def test_an_uploaded_file_reads_like_a_local_one(store, tmp_path, ending):
    assert hr.write(f"{store.base}/a/x.{ending}", EXAMPLES) == ROWS
    assert hr.write(tmp_path / f"x.{ending}", EXAMPLES) == ROWS
    if ending != "avro":  # A mark in it is random.
        assert store.objects[f"a/x.{ending}"] == (tmp_path / f"x.{ending}").read_bytes()
    assert list(store.objects) == [f"a/x.{ending}"]
    assert alike(f"{store.base}/a/x.{ending}", tmp_path / f"x.{ending}") == ROWS


def test_shards_folders_globs(store):
    hr.write(f"{store.base}/deep/er/s.tfrecord@4", EXAMPLES)
    for path in (
        "deep/er/s.tfrecord@4",
        "deep/er/s.tfrecord@*",
        "deep/er/s.tfrecord-?????-of-00004",
        "deep/er",
        "deep/er/",
    ):
        assert len(hr.open(f"{store.base}/{path}")) == ROWS
    assert len(hr.open(f"{store.base}/deep/er/s.tfrecord-0000[01]*")) == ROWS // 2
    assert len(hr.open(f"{store.base}/deep/er/s.tfrecord-00001-of-00004")) == ROWS // 4
    assert len(hr.open([f"{store.base}/deep/er/s.tfrecord-00001-of-00004"])) == ROWS // 4
    with pytest.raises(NoFiles, match=r"00001-of-00005.*s.tfrecord@5 or s.tfrecord@\* names the whole set"):
        hr.open(f"{store.base}/deep/er/s.tfrecord-00001-of-00005")
    assert len(hr.open(f"{store.base}/d*/*/s.*")) == ROWS
    assert len(hr.open(f"{store.base}/*/er/*-00003-*")) == ROWS // 4
    with pytest.raises(NoFiles, match="none"):
        hr.open(f"{store.base}/*/nowhere/*.tfrecord")
    with pytest.raises(NoFiles, match="only the folders er"):
        hr.open(f"{store.base}/deep")


def test_two_stars_reach_folders_at_any_depth(store):
    for number, name in enumerate(("x.npy", "a/x.npy", "a/b/x.npy", "a/.c/x.npy", "a/b/y.npy")):
        hr.write(f"{store.base}/d/{name}", np.full(1, number))
    for pattern, numbers in (
        ("d/**/x.npy", [0, 1, 2]),
        ("**/x.npy", [0, 1, 2]),
        ("d/**/b/*.npy", [2, 4]),
        ("d/*/**/y.npy", [4]),
        ("d/**", [0, 1, 2, 4]),
    ):
        assert sorted(hr.open(f"{store.base}/{pattern}").batch(range(len(numbers)))["values"]) == numbers
        assert len(hr.open(f"{store.base}/{pattern}")) == len(numbers)
    with pytest.raises(NoFiles, match="objects that match, found none"):
        hr.open(f"{store.base}/d/**/z.npy")


def test_a_number_in_a_mistyped_name_costs_nothing(store):
    hr.write(f"{store.base}/log@20241231.csv", EXAMPLES)
    with store.counting() as asked, pytest.raises(NoFiles, match="such object, or the first of 1732851234 shards"):
        hr.open(f"{store.base}/log@1732851234.csv")
    assert len(asked) < 12
    store.objects["s-00000-of-1732851234.csv"] = b""
    with pytest.raises(NoFiles, match="found 1 of them, without s-0000.* and 1732851228 more"):
        hr.open(f"{store.base}/s@*.csv")


def test_content_decides_in_a_store(store, tmp_path):
    hr.write(tmp_path / "x.npz", {"k": np.arange(5)})
    store.objects["a/training_data.npy"] = (tmp_path / "x.npz").read_bytes()
    store.objects["a/table"] = b"k,x\n1,2\n3,4\n"
    assert hr.open(f"{store.base}/a/training_data.npy").batch([4])["k"].tolist() == [4]
    assert hr.open(f"{store.base}/a/table").batch([1])["x"].tolist() == [4]


def test_many_objects_come_in_pages(store):
    store.page = 7
    for number in range(40):
        store.objects[f"many/{number}.tfrecord"] = b""
        store.objects[f"many/{number % 9}/inner.tfrecord"] = b""
    objects, folders = listing.list_folder(f"{store.base}/many/")
    assert (len(objects), len(folders)) == (40, 9)
    assert len(listing.list_below(f"{store.base}/many")) == 49
    assert len(listing.list_below(f"{store.base}/many", most=10)) == 10
    assert listing.size_below(f"{store.base}/many") == 0
    assert listing.objects_exist([f"{store.base}/{name}" for name in ("many", "many/3.tfrecord", "man", "many/3")]) == [
        True,
        True,
        False,
        True,
    ]
    assert len(hr.records(f"{store.base}/many")) == 0


def test_odd_names(store, tmp_path):
    hr.write(tmp_path / "x.tfrecord", EXAMPLES[:5])
    name = "odd/ü%20 a+b=1~#?&.tfrecord"
    hr.write(f"{store.base}/{name}", EXAMPLES[:5])
    assert list(store.objects) == [name]
    assert len(hr.open(f"{store.base}/{name}")) == 5
    assert len(hr.open(f"{store.base}/odd")) == 5


def test_markers_of_folders_are_no_objects(store, tmp_path):
    rows = {"x": np.zeros(3)}
    hr.write(f"{store.base}/f/a.npy", rows)
    hr.write(f"{store.base}/f/b.npy", rows)
    hr.write(f"{store.base}/i/cat/1.npy", rows)
    store.objects |= {"f/": b"", "i/": b"", "i/cat/": b"", "new/": b""}
    assert len(hr.open(f"{store.base}/f")) == len(hr.open(f"{store.base}/f/")) == 6
    assert len(hr.open(f"{store.base}/f/*")) == 6
    assert listing.list_below(f"{store.base}/i") == [f"{store.base}/i/cat/1.npy"]
    assert listing.list_folder(f"{store.base}/i") == ([], [f"{store.base}/i/cat"])
    assert listing.objects_exist([f"{store.base}/new", f"{store.base}/f"]) == [False, True]
    images = [{"image": np.zeros((2, 2, 3), np.uint8), "label": number % 2} for number in range(4)]
    schema = {"image": hr.Feature("uint8", (2, 2, 3), encoding="png"), "label": hr.Feature("int64")}
    hr.write(tmp_path / "images", images, format="image_folder", schema=schema)
    for file in (tmp_path / "images").rglob("*.png"):
        store.objects[f"images/{file.relative_to(tmp_path / 'images').as_posix()}"] = file.read_bytes()
    store.objects |= {"images/": b"", "images/00000/": b"", "images/00001/": b""}
    assert len(hr.open(f"{store.base}/images")) == 4


def test_classes_that_exist_only_as_markers_count_as_empty_folders_do(store, tmp_path):
    hr.write(f"{store.base}/n/cat/1.npy", {"x": np.zeros(3)})
    hr.write(f"{store.base}/n/eel/1.npy", {"x": np.zeros(3)})
    store.objects["n/dog/"] = b""
    assert hr.open(f"{store.base}/n").schema["label"].names == ("cat", "dog", "eel")
    schema = {"image": hr.Feature("uint8", (2, 2, 3), encoding="png")}
    hr.write(tmp_path / "x", [{"image": np.zeros((2, 2, 3), np.uint8)}], format="image_folder", schema=schema)
    image = next((tmp_path / "x").rglob("*.png")).read_bytes()
    store.objects |= {f"{name}/{place}": image for name in ("i", "s/train") for place in ("cat/1.png", "eel/1.png")}
    store.objects |= {"i/dog/": b"", "i/ant/deep/": b"", "s/": b"", "s/test/": b""}
    assert hr.open(f"{store.base}/i").schema["label"].names == ("ant", "cat", "dog", "eel")
    assert hr.open(f"{store.base}/i").batch([1])["label"].tolist() == [3]
    assert hr.open(f"{store.base}/s/train").schema["label"].names == ("cat", "eel")


def test_empty_objects_are_no_folders(store):
    store.objects |= {"e/a/x.npy": b"1", "e/a/empty": b"", "e/none": b""}
    found = listing.list_tree(f"{store.base}/e")
    assert found == ([f"{store.base}/e/{name}" for name in ("a/empty", "a/x.npy", "none")], [], False)


def test_keys_that_cannot_be_listed_are_named(store):
    store.objects |= {"g/x-00000-of-00001.npy": b"?", "g//b.npy": b"?"}
    for path in ("g", "g/*.npy", "g/x@*.npy"):
        with pytest.raises(UnsupportedData, match=r"found 'g//.*pass a list of the URLs"):
            hr.open(f"{store.base}/{path}")
    with pytest.raises(UnsupportedData, match=r"found 'g//b\.npy'.*Rename that object\.$"):
        hr.open(f"{store.base}/g//b.npy")


def test_names_that_look_like_globs_are_those_objects(store):
    names = ("wXb.npy", "w?b.npy", "w[1].npy", "w1.npy", "d[1]/x.npy", "d1/x.npy")
    for number, name in enumerate(names):
        hr.write(f"{store.base}/{name}", {"values": np.full(3, number)})
    for number, name in enumerate(names):
        assert hr.open(f"{store.base}/{name}").batch(range(3))["values"].tolist() == [number] * 3
    assert len(hr.open(f"{store.base}/w*.npy")) == 12


def test_missing_files(store):
    store.objects["here/x.tfrecord"] = b""
    for path, found in [
        ("nope.tfrecord", "no such object"),
        ("nope/", "no such object"),
        ("here/z*", "none"),
        ("here/x@3", "404"),
    ]:
        with pytest.raises(NoFiles, match=found):
            hr.records(f"{store.base}/{path}").__len__()
    kind = store.base[:2]
    for act in (hr.open, lambda url: hr.write(url, EXAMPLES)):
        with pytest.raises(NoFiles, match="bucket of this name"):
            act(f"{kind}://elsewhere/x.tfrecord")
    with pytest.raises(UnsupportedData, match="with a bucket"):
        hr.open(f"{kind}:///x.tfrecord")


def test_throttling_is_waited_out(store):
    hr.write(f"{store.base}/x.tfrecord@3", EXAMPLES)
    turns = iter(range(1000))

    def throttle(handler):
        if next(turns) % 3 == 0:
            handler.refuse(503 if handler.command == "GET" else 429, "SlowDown")
            return True
        return False

    store.fault = throttle
    assert len(hr.open(f"{store.base}/x.tfrecord@3")) == ROWS
    hr.write(f"{store.base}/y.tfrecord", EXAMPLES)
    store.fault = None
    assert len(hr.open(f"{store.base}/y.tfrecord")) == ROWS


def test_a_store_that_only_throttles(s3):
    s3.objects["x.tfrecord"] = b"?" * 100

    def throttle(handler):
        handler.refuse(503, "SlowDown")
        return True

    s3.fault = throttle
    with pytest.raises(Unreachable, match=r"the response 503.*repeated several times"):
        hr.open("s3://bucket/x.tfrecord")


def test_answers_that_are_cut_short_are_asked_for_again(store, tmp_path):
    hr.write(tmp_path / "x.tfrecord", EXAMPLES)
    store.objects["x.tfrecord"] = (tmp_path / "x.tfrecord").read_bytes()
    left = [2]

    def cut(handler):
        if handler.command != "GET" or not handler.key or left[0] == 0:
            return False
        left[0] -= 1
        content = store.objects[handler.key][:4096]
        place = f"bytes 0-{len(content) - 1}/{len(store.objects[handler.key])}"
        head = {"ETag": etag_of(store.objects[handler.key]), "Last_Modified": DATE, "Content_Range": place}
        handler.give(206, content[:50], Content_Length=str(len(content)), **head)
        handler.close_connection = True
        return True

    store.fault = cut
    assert alike(f"{store.base}/x.tfrecord", tmp_path / "x.tfrecord") == ROWS
    assert left == [0]


def test_refusals(store):
    store.objects["x.tfrecord"] = b"?"

    def refuse(handler):
        handler.refuse(403, "AccessDenied")
        return True

    store.fault = refuse
    with pytest.raises(Unreachable, match="permission to read this, found a refusal.*403.*Credentials"):
        hr.open(f"{store.base}/x.tfrecord")
    with pytest.raises(Unreachable, match="permission to write this"):
        hr.write(f"{store.base}/y.tfrecord", EXAMPLES)


def test_other_credentials_are_taken_at_once(s3, monkeypatch):
    hr.write("s3://bucket/x.tfrecord", EXAMPLES)
    monkeypatch.delenv("AWS_SKIP_SIGNATURE")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    def check(handler):
        if "Credential=right/" in handler.headers.get("Authorization", ""):
            return False
        handler.refuse(403, "InvalidAccessKeyId")
        return True

    s3.fault = check
    with pytest.raises(Unreachable, match="403"):
        hr.open("s3://bucket/x.tfrecord")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "right")
    assert len(hr.open("s3://bucket/x.tfrecord")) == ROWS


EXIT = """
import sys
import headrace as hr
from headrace.io.store import client

base, = sys.argv[1:]
hr.write(f"{base}/x.tfrecord", [{"n": 1}])
len(hr.open(f"{base}/x.tfrecord"))
used = client._clients[0]
kept = [used._watched_future()]  # As if a thread of obstore still held it, until obstore is called again.
call = used._call_obstore
used._call_obstore = lambda: (call(), kept.clear())
"""


def test_a_process_exits_in_silence(store):
    """Azure's stores cannot be printed if the account comes from the environment: obstore panics."""
    done = subprocess.run(
        [sys.executable, "-c", EXIT, store.base], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interrupted_upload_leaves_no_object(store):
    with pytest.raises(RuntimeError), hr.Writer(f"{store.base}/x.tfrecord") as writer:
        writer.write(EXAMPLES[0])
        raise RuntimeError
    with pytest.raises(ValueError, match="boom"):
        hr.write_records(f"{store.base}/r.tfrecord", (payload for payload in _failing()))
    assert store.objects == {}
    hr.write(f"{store.base}/x.tfrecord", EXAMPLES[:1])
    before = dict(store.objects)
    with pytest.raises(ValueError, match="boom"):
        hr.write_records(f"{store.base}/x.tfrecord", _failing())
    assert store.objects == before


def _failing():
    yield b"one"
    raise ValueError("boom")


def test_large_objects_go_in_parts_and_appear_whole(store, monkeypatch):
    monkeypatch.setattr(upload, "PART_BYTES", 5 << 20)
    values = np.random.default_rng(0).integers(0, 255, (13, 1 << 20), dtype=np.uint8)
    hr.write(f"{store.base}/big.npy", {"values": values})
    assert store.uploads == {}
    assert sum("part" in path or "comp=block&" in path for _, path in store.asked) == 3
    assert np.array_equal(np.load(io.BytesIO(store.objects["big.npy"])), values)


def test_an_upload_that_fails_in_the_middle_leaves_no_object(store, monkeypatch, tmp_path):
    monkeypatch.setattr(upload, "PART_BYTES", 5 << 20)

    parts = itertools.count()

    def refuse(handler):
        if ("partNumber" in handler.path or "comp=block&" in handler.path) and next(parts) == 1:
            handler.refuse(403, "AccessDenied")
            return True
        return False

    store.fault = refuse
    with pytest.raises(Unreachable, match="permission to write this"):
        hr.write(f"{store.base}/big.npy", {"values": np.zeros((13, 1 << 20), np.uint8)})
    assert store.objects == {}
    if not store.base.startswith("az"):  # There, uncommitted blocks expire by themselves.
        assert store.uploads == {}
    assert _leftovers() == []


def _leftovers():
    return list(Path(upload.staging_folder()).iterdir())


def test_convert_between_stores_and_here(store, tmp_path):
    hr.write(f"{store.base}/x.tfrecord", EXAMPLES)
    done = hr.convert(f"{store.base}/x.tfrecord", f"{store.base}/out/y.array_record@3")
    assert done.paths == tuple(f"{store.base}/out/y.array_record-0000{number}-of-00003" for number in range(3))
    assert done.bytes == sum(len(content) for name, content in store.objects.items() if name.startswith("out"))
    hr.convert(f"{store.base}/x.tfrecord", tmp_path / "y.array_record")
    assert alike(f"{store.base}/out/y.array_record@3", tmp_path / "y.array_record") == ROWS
    with pytest.raises(UnsupportedData, match="already exists"):
        hr.convert(f"{store.base}/x.tfrecord", f"{store.base}/out/y.array_record@3")
    hr.convert(f"{store.base}/x.tfrecord", f"{store.base}/out/y.array_record@3", overwrite=True)


def test_an_interrupted_conversion_does_only_what_is_missing(s3):
    hr.write("s3://bucket/x.tfrecord", EXAMPLES)
    s3.fault = lambda handler: (
        "y.npz-00002" in handler.path and handler.command == "PUT" and (handler.refuse(403, "AccessDenied") or True)
    )
    with pytest.raises(Unreachable):
        hr.convert("s3://bucket/x.tfrecord", "s3://bucket/y.npz@4")
    assert [name for name in sorted(s3.objects) if "npz" in name] == ["y.npz-00000-of-00004", "y.npz-00001-of-00004"]
    s3.fault = None
    with s3.counting() as asked:
        done = hr.convert("s3://bucket/x.tfrecord", "s3://bucket/y.npz@4")
    assert done.resumed == ROWS  # All units were finished: only the upload was left.
    assert [path for method, path in asked if method == "PUT"] == [
        "/bucket/y.npz-00002-of-00004",
        "/bucket/y.npz-00003-of-00004",
    ]
    assert len(hr.open("s3://bucket/y.npz@4")) == ROWS


def _images(count):
    from PIL import Image

    for number in range(count):
        out = io.BytesIO()
        Image.fromarray(np.full((8, 8, 3), number, np.uint8)).save(out, "PNG")
        yield {"image": out.getvalue(), "label": number % 3}


IMAGES = {"image": hr.Feature("bytes", encoding="png"), "label": hr.Feature("int64", names=("a", "b", "c"))}


def test_image_folders(store, tmp_path):
    images = list(_images(30))
    for place in (f"{store.base}/images", tmp_path / "images"):
        hr.write(place, images, format="image_folder", schema=IMAGES)
    assert alike(f"{store.base}/images", str(tmp_path / "images")) == 30
    store.page = 4
    assert alike(f"{store.base}/images/", str(tmp_path / "images")) == 30
    assert alike(f"{store.base}/images/b", str(tmp_path / "images/b")) == 10
    assert hr.verify(f"{store.base}/images").ok
    hr.convert(f"{store.base}/images", f"{store.base}/again", format="image_folder")
    assert alike(f"{store.base}/again", str(tmp_path / "images")) == 30
    with pytest.raises(UnsupportedData, match="one with objects"):
        hr.write(f"{store.base}/images", images, format="image_folder", schema=IMAGES)


def test_a_batch_of_images_is_fetched_at_once(s3):
    hr.write("s3://bucket/images", list(_images(8)), format="image_folder", schema=IMAGES)
    source = hr.open("s3://bucket/images")
    together = threading.Barrier(4, timeout=300)
    s3.fault = lambda handler: bool(handler.command == "GET" and handler.key and together.wait() > 9)
    assert len(source.batch(np.arange(4))["image"]) == 4


def test_splits_are_folders(s3):
    images = [example["image"] for example in _images(6)]
    for split, classes in (("train", 3), ("test", 2)):
        for number, image in enumerate(images):
            s3.objects[f"set/{split}/c{number % classes}/{number}.png"] = image
    source = hr.open("s3://bucket/set", split="test")
    assert len(source) == 6
    assert source.schema["label"].names == ("c0", "c1", "c2")
    with pytest.raises(UnsupportedData, match="the splits"):
        hr.open("s3://bucket/set").schema


@pytest.mark.parametrize("format", ["npy_folder", "npz_folder"])
def test_folders_of_arrays(store, tmp_path, format):
    examples = [{"values": np.full((4, 3), number, np.float32), "label": number} for number in range(20)]
    for place in (f"{store.base}/arrays", tmp_path / "arrays"):
        hr.write(place, examples, format=format)
    options = {} if format == "npy_folder" else {"format": format}  # Without a manifest they might be joined files.
    assert alike(f"{store.base}/arrays", str(tmp_path / "arrays"), **options) == 20
    assert hr.verify(f"{store.base}/arrays", **options).ok
    if format == "npy_folder":
        del store.objects["arrays/00000007.npy"]
        with pytest.raises(NoFiles, match="no 00000007.npy"):
            hr.open(f"{store.base}/arrays")


def test_class_folders_of_arrays(s3, tmp_path):
    for number in range(12):
        out = io.BytesIO()
        np.save(out, np.full(3, number))
        s3.objects[f"arrays/{'xyz'[number % 3]}/{number}.npy"] = out.getvalue()
    source = hr.open("s3://bucket/arrays")
    assert source.schema["label"].names == ("x", "y", "z")
    batch = source.batch(np.arange(12))
    assert batch["label"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert batch["values"][:, 0].tolist() == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]


@pytest.mark.parametrize("listed", [5, 1000])
@pytest.mark.parametrize("kind", ["labels.csv", "manifest.jsonl", "train.csv", "below"])
def test_notes_after_the_first_objects_of_a_listing_count(s3, tmp_path, monkeypatch, listed, kind):
    s3.page = listed
    monkeypatch.setattr("headrace.formats.open.LISTED", listed)
    names = [
        f"{'images/' if kind == 'train.csv' else ''}{number:02}.{'png' if 'train' in kind else 'npy'}"
        for number in range(8)
    ]
    if kind == "below":  # the folder of a class is larger than what is listed
        names = [f"{'a' if number < 7 else 'b'}/{name}" for number, name in enumerate(names)]
    elif kind == "manifest.jsonl":
        (tmp_path / kind).write_text("".join(f'{{"file": "{name}", "label": {name[-5]}}}\n' for name in names))
    else:
        (tmp_path / kind).write_text("file,label\n" + "".join(f"{name},{name[-5]}\n" for name in names))
    for name, image in zip(names, _images(8), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name.endswith("npy"):
            np.save(tmp_path / name, np.ones((3, 2)))
        else:
            (tmp_path / name).write_bytes(image["image"])
    s3.objects |= {f"d/{path.relative_to(tmp_path)}": path.read_bytes() for path in tmp_path.glob("**/*.*")}
    found = hr.open("s3://bucket/d")
    assert len(found) == 8
    assert "label" in found.schema
    assert alike("s3://bucket/d", str(tmp_path)) == 8


def test_a_folder_that_fails_on_its_way_is_taken_back(s3):
    s3.fault = lambda handler: "00000005" in handler.path and (handler.refuse(403, "AccessDenied") or True)
    with pytest.raises(Unreachable):
        hr.write("s3://bucket/images", list(_images(8)), format="image_folder", schema=IMAGES)
    s3.fault = None
    assert s3.objects == {}
    assert _leftovers() == []


def test_late_uploads_are_removed_too(s3, monkeypatch):
    """Requests in flight when another one fails."""
    seen, failed, arrived = threading.Event(), threading.Event(), threading.Event()
    as_headrace_error, remove_objects = upload.as_headrace_error, upload.remove_objects

    def fails(*args, **options):
        failed.set()
        return as_headrace_error(*args, **options)

    def removes(urls):
        assert arrived.is_set()
        remove_objects(urls)

    def fault(handler):
        if handler.command != "PUT":
            return False
        if "00000005" in handler.path:
            seen.wait(300)
            handler.refuse(403, "AccessDenied")
            return True
        if "00000006" in handler.path:
            seen.set()
            failed.wait(300)
            arrived.set()
        return False

    monkeypatch.setattr(upload, "as_headrace_error", fails)
    monkeypatch.setattr(upload, "remove_objects", removes)
    s3.fault = fault
    with pytest.raises(Unreachable, match="00000005"):
        hr.write("s3://bucket/images", list(_images(8)), format="image_folder", schema=IMAGES)
    s3.fault = None
    assert s3.objects == {}
    assert _leftovers() == []


def test_a_store_has_no_empty_folders(s3):
    with pytest.raises(UnsupportedData, match="the empty folder c"):
        hr.write("s3://bucket/images", list(_images(2)), format="image_folder", schema=IMAGES)
    assert s3.objects == {}


def test_csv_with_images_beside_it_and_webdataset(s3):
    images = list(_images(12))
    for number, example in enumerate(images):
        s3.objects[f"rows/p/{number}.png"] = example["image"]
    s3.objects["rows/rows.csv"] = ("image,label\n" + "".join(f"p/{n}.png,{n}\n" for n in range(12))).encode()
    batch = hr.open("s3://bucket/rows/rows.csv").batch(np.array([7, 3]))
    assert batch["image"][:, 0, 0, 0].tolist() == [7, 3]
    for part in range(3):
        hr.write(f"s3://bucket/tars/x-{part}.tar", images[4 * part : 4 * part + 4])
    assert len(hr.open("s3://bucket/tars")) == len(hr.open("s3://bucket/tars/*.tar")) == 12


@pytest.mark.parametrize("url", ["http://h/x.tfrecord", "https://h/x.npz@3", "hdfs://h/x.tfrecord", "ftp://h/x.csv"])
def test_destinations_that_accept_no_files_are_refused(url):
    for act in (lambda: hr.write(url, EXAMPLES), lambda: hr.Writer(url), lambda: hr.write_records(url, [b""])):
        with pytest.raises(UnsupportedData, match=r"s3://, gs:// or az://, to write to, found a \w+:// URL"):
            act()
    with pytest.raises(UnsupportedData, match="to write to"):
        hr.convert("nowhere.tfrecord", url)


def test_folders_of_http_servers_are_refused():
    for format in ("image_folder", "npy_folder", "npz_folder"):
        with pytest.raises(UnsupportedData, match=r"found a folder.*cannot list its files.*image_columns="):
            hr.open("http://127.0.0.1:9/folder/", format=format).schema


@pytest.mark.parametrize("name", ["", "folder/"])
def test_an_object_needs_a_name(s3, name):
    with pytest.raises(UnsupportedData, match="a URL with a name for the new object"):
        hr.write(f"s3://bucket/{name}", EXAMPLES, format="tfrecord")


def test_sizes_include_everything_below(s3):
    hr.write("s3://bucket/images", list(_images(6)), format="image_folder", schema=IMAGES)
    assert total_size(["s3://bucket/images"]) == sum(map(len, s3.objects.values()))
    with pytest.raises(NoFiles):
        total_size(["s3://bucket/nothing"])


@pytest.mark.parametrize("ending", ["tfrecord", "array_record", "recordio"])
def test_salvage_from_a_store_into_it(s3, ending):
    hr.write(f"s3://bucket/x.{ending}@2", EXAMPLES)
    name = f"x.{ending}-00001-of-00002"
    damaged = bytearray(s3.objects[name])
    damaged[-len(damaged) // 3] ^= 0xFF
    s3.objects[name] = bytes(damaged)
    salvage(f"s3://bucket/{name}", f"s3://bucket/saved.{ending}")
    assert 0 < len(hr.open(f"s3://bucket/saved.{ending}")) <= ROWS // 2


def test_images_beside_rows_in_a_folder_with_a_question_mark(tmp_path):
    with serving_store() as store, pytest.MonkeyPatch.context() as patch:
        for name, value in environment("s3", store.url).items():
            patch.setenv(name, value)
        patch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
        store.objects["a?b/rows.csv"] = b"path,label\nimg 1.png,1\n"
        with pytest.raises(hr.HeadraceError, match=r"s3://bucket/a\?b/img 1\.png"):
            hr.open("s3://bucket/a?b/rows.csv", image_columns=["path"]).batch([0])


def test_a_full_cache_is_named_instead_of_the_store(s3, tmp_path, monkeypatch):
    def full(_fd, _view):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headrace.io.write.atomic.os.write", full)
    with pytest.raises(OSError, match="No space") as raised:
        hr.write("s3://bucket/x.npy", np.zeros(1 << 20))
    assert "uploads" in raised.value.filename


@pytest.mark.parametrize(
    "name", ["GOOGLE_SKIP_SIGNATURE", "GOOGLE_SERVICE_ACCOUNT_PATH", "AWS_ROLE_ARN", "AZURE_CLIENT_ID"]
)
def test_every_variable_with_credentials_makes_new_stores(s3, monkeypatch, name):
    hr.write("s3://bucket/x.tfrecord", EXAMPLES)
    old = client_for("s3://bucket").stores["s3://bucket"]
    monkeypatch.setenv(name, "x")
    assert len(hr.open("s3://bucket/x.tfrecord")) == ROWS
    assert client_for("s3://bucket").stores["s3://bucket"] is not old
