"""Channels, as a script sees them in every mode."""

import contextlib
import gzip
import json
import os
import shutil
import threading

import pytest

from headrace.contracts.job import Channel
from headrace.errors import JobFailed
from headrace.formats.recordio.format import read_stream
from headrace.io.write.atomic import AtomicFile
from headrace.jobs import pipes, tree
from headrace.jobs.pipes import PipeFeeder, epoch_bytes
from headrace.jobs.spec import TrainingSpec
from headrace.jobs.store import InputObject, PathStore, augmented_values, list_objects, shuffled_order

READ = """
    import os
    base = os.environ["SM_CHANNEL_TRAIN"]
    for epoch in range(3):
        with open(f"{{base}}_{{epoch}}", "rb") as pipe:
            content = pipe.read({limit})
        open(os.environ["SM_MODEL_DIR"] + f"/{{epoch}}", "wb").write(content)
"""


@pytest.fixture
def piped(run, script, model):
    """What a script reads from a pipe in three epochs."""

    def read(channel, *, limit="", **options):
        files = model(run(script(READ.format(limit=limit)), channels={"train": channel}, **options))
        return [files[str(epoch)] for epoch in range(3)]

    return read


def records(content):
    import io

    return list(read_stream(io.BytesIO(content), lambda magic, plain: magic))


def test_pipe_mode_gives_all_objects_once_per_epoch(piped, store):
    store.put("s3://in/data/b", "2\n")
    store.put("s3://in/data/a", "1\n" * 200_000)
    assert piped(Channel(uri="s3://in/data", input_mode="Pipe")) == [b"1\n" * 200_000 + b"2\n"] * 3


def test_a_reader_that_stops_early_continues_with_the_next_epoch(piped, store):
    store.put("s3://in/data/a", b"12" * 500_000)
    assert piped(Channel(uri="s3://in/data", input_mode="Pipe"), limit=3) == [b"121"] * 3


@pytest.mark.parametrize("compression", ["None", "Gzip"])
def test_records_of_whole_objects(piped, store, compression):
    contents = [b"", b"1", b"12", b"12345678" * 100_000]
    for number, content in enumerate(contents):
        store.put(f"s3://in/data/{number}", gzip.compress(content) if compression == "Gzip" else content)
    channel = Channel(uri="s3://in/data/", input_mode="Pipe", record_wrapper="RecordIO", compression=compression)
    for content in piped(channel):
        assert len(content) % 4 == 0
        assert records(content) == contents


def test_gzip_is_inflated(piped, store):
    store.put("s3://in/data/a.gz", gzip.compress(b"1\n") + gzip.compress(b"2\n"))
    assert piped(Channel(uri="s3://in/data", input_mode="Pipe", compression="Gzip")) == [b"1\n2\n"] * 3


def test_an_object_that_cannot_be_read_fails_the_job_instead_of_ending_the_epoch(run, script, store):
    store.put("s3://in/data/a.gz", gzip.compress(os.urandom(100_000))[:-100])
    channel = Channel(uri="s3://in/data", input_mode="Pipe", compression="Gzip")
    with pytest.raises(JobFailed, match=r"^ClientError: .*/a\.gz is not a whole gzip file: EOFError") as error:
        run(script(READ.format(limit="")), channels={"train": channel})
    assert "\n" not in str(error.value)


def test_shuffling_changes_with_the_epoch_only(piped, store):
    for number in range(9):
        store.put(f"s3://in/data/{number}", str(number))
    channel = Channel(uri="s3://in/data/", input_mode="Pipe", shuffle_seed=3)
    epochs = piped(channel)
    assert len(set(epochs)) == 3
    assert {bytes(sorted(epoch)) for epoch in epochs} == {b"012345678"}
    assert shuffled_order(9, channel, 0) == [int(digit) for digit in epochs[0].decode()]


def test_manifest(run, script, store, model):
    store.put("s3://in/data/a/1", "1")
    store.put("s3://in/data/b/2", "2")
    store.put("s3://in/data/b/3", "3")
    store.put("s3://in/list.manifest", json.dumps([{"prefix": "s3://in/data/"}, "a/1", "b/2"]))
    text = """
        import os
        base = os.environ["SM_CHANNEL_TRAIN"]
        found = sorted(os.path.relpath(os.path.join(f, n), base) for f, _, names in os.walk(base) for n in names)
        open(os.environ["SM_MODEL_DIR"] + "/found", "w").write(",".join(found))
    """
    channel = Channel(uri="s3://in/list.manifest", data_type="ManifestFile")
    assert model(run(script(text), channels={"train": channel})) == {"found": b"a/1,b/2"}


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("{}", "must be a JSON list"),
        ("[", "must be a JSON list"),
        ('["a"]', "must be a JSON list"),
        ('[{"prefix": "s3://in/data/"}, "nothing"]', "s3://in/data/nothing, which does not exist"),
        ('[{"prefix": "s3://in/data/"}, "../../x"]', "not a relative path"),
    ],
)
def test_manifests_that_are_wrong(store, manifest, words):
    store.put("s3://in/list", manifest)
    with pytest.raises(JobFailed, match=words):
        list_objects(Channel(uri="s3://in/list", data_type="ManifestFile"), store, "channel train")


def test_augmented_manifest(piped, store):
    store.put("s3://in/images/1.jpg", b"\xff\xd8one")
    store.put("s3://in/images/2.jpg", b"\xff\xd8two")
    lines = [
        {"source-ref": f"s3://in/images/{n}.jpg", "label": n, "note": "x", "more": {"a": [1]}, "unused": 1}
        for n in (1, 2)
    ]
    store.put("s3://in/list", "\n".join(map(json.dumps, lines)) + "\n")
    channel = Channel(
        uri="s3://in/list",
        data_type="AugmentedManifestFile",
        attribute_names=("source-ref", "label", "note", "more"),
        input_mode="Pipe",
        record_wrapper="RecordIO",
    )
    wanted = [b"\xff\xd8one", b"1", b"x", b'{"a":[1]}', b"\xff\xd8two", b"2", b"x", b'{"a":[1]}']
    assert [records(content) for content in piped(channel)] == [wanted] * 3


def test_augmented_manifests_that_lack_something(run, script, store):
    store.put("s3://in/list", '{"a": 1}\n{"b": 1}\n')
    channel = Channel(uri="s3://in/list", data_type="AugmentedManifestFile", attribute_names=("a",), input_mode="Pipe")
    with pytest.raises(JobFailed, match="line 2 of list must be a JSON object with a"):
        run(script("pass"), channels={"train": channel})


READ_FAST = """
    import os
    path = os.environ["SM_CHANNEL_TRAIN"] + "/a/b"
    open(os.environ["SM_MODEL_DIR"] + "/x", "w").write(open(path).read() + str(os.path.islink(path)))
"""
REWRITE = """
    import os
    open(os.environ["SM_CHANNEL_TRAIN"] + "/a/b", "w").write("other")
"""


def test_fast_file_mode_copies_nothing(run, script, store, model, monkeypatch):
    monkeypatch.setattr(tree, "clone_file", lambda source, target: False)
    store.put("s3://in/data/a/b", "1")
    assert model(run(script(READ_FAST), channels={"train": Channel(uri="s3://in/data", input_mode="FastFile")})) == {
        "x": b"1True"
    }


def test_a_script_that_writes_to_linked_input_fails_and_the_file_is_named(run, script, store, monkeypatch):
    monkeypatch.setattr(tree, "clone_file", lambda source, target: False)
    store.put("s3://in/data/a/b", "1")
    channels = {"train": Channel(uri="s3://in/data", input_mode="FastFile")}
    with pytest.raises(
        JobFailed, match=r"ClientError: .*/a/b of channel train changed during the job.*input_mode='File'"
    ):
        run(script(REWRITE), channels=channels)
    with pytest.raises(JobFailed, match="ValueError: its own error"):
        run(script(REWRITE + "    raise ValueError('its own error')"), channels=channels, name="second")
    assert any("/a/b of channel train changed" in line for line in run.lines)


def test_where_the_file_system_can_fast_file_mode_gives_private_copies(run, script, store, monkeypatch, tmp_path):
    # Stands in for a file system with copies that share their data.
    monkeypatch.setattr(tree, "clone_file", lambda source, target: bool(shutil.copyfile(source, target)))
    store.put("s3://in/data/a/b", "1")
    run(script(REWRITE), channels={"train": Channel(uri="s3://in/data", input_mode="FastFile")})
    assert store.resolve("s3://in/data/a/b").read_text() == "1"


def test_cloning_shares_data_or_leaves_nothing(tmp_path):
    (tmp_path / "a").write_text("1")
    done = tree.clone_file(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").exists() == done
    if done:
        (tmp_path / "b").write_text("2")
    assert (tmp_path / "a").read_text() == "1"


def test_file_mode_is_a_copy(run, script, store):
    store.put("s3://in/data/a", "1")
    run(
        script("import os; open(os.environ['SM_CHANNEL_TRAIN'] + '/a', 'w').write('2')"),
        channels={"train": "s3://in/data"},
    )
    assert store.resolve("s3://in/data/a").read_text() == "1"


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("s3://in/ab", ["1", "x/2", "abc"]),  # the folder of that name, and other keys with that prefix
        ("s3://in/ab/", ["1", "x/2"]),
        ("s3://in/ab/1", ["1"]),
        ("s3://in/ab/x", ["2"]),
    ],
)
def test_prefixes_are_those_of_s3(store, prefix, names):
    for key in ("ab/1", "ab/x/2", "abc", "b"):
        store.put(f"s3://in/{key}", key)
    assert [one.name for one in list_objects(Channel(uri=prefix), store, "channel train")] == names


def test_objects_that_would_get_one_name(store):
    for key in ("ab/abc", "abc"):
        store.put(f"s3://in/{key}", key)
    with pytest.raises(JobFailed, match="two objects of channel train would both be abc"):
        list_objects(Channel(uri="s3://in/ab"), store, "channel train")


@pytest.mark.skipif(os.name == "nt", reason="needs links and FIFOs")
def test_links_that_lead_nowhere_and_fifos_are_not_left_out(tmp_path):
    folder = tmp_path / "data" / "sub"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("1")
    (folder / "link.csv").symlink_to(folder / "a.csv")
    channel = Channel(uri=str(tmp_path / "data"))
    assert [one.name for one in list_objects(channel, PathStore(), "channel train")] == ["sub/a.csv", "sub/link.csv"]
    (folder / "b.csv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(
        JobFailed, match=r"^ClientError: Data download failed: sub/b.csv of channel train in .* leads nowhere"
    ):
        list_objects(channel, PathStore(), "channel train")
    (folder / "b.csv").unlink()
    os.mkfifo(folder / "c.csv")
    with pytest.raises(JobFailed, match=r"sub/c.csv of channel train in .* neither a file nor a folder"):
        list_objects(channel, PathStore(), "channel train")


def test_paths_as_a_store(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "b").write_text("2")
    (tmp_path / "data" / "a").write_text("1")
    (tmp_path / "data2").write_text("3")
    for uri in (str(tmp_path / "data"), (tmp_path / "data").as_uri()):
        found = list_objects(Channel(uri=uri), PathStore(), "channel train")
        assert [(one.name, one.path.read_text()) for one in found] == [("a", "1"), ("b", "2")]
    monkeypatch.chdir(tmp_path / "data")
    for uri, names in [
        ("..", ["data/a", "data/b", "data2"]),
        (".", ["a", "b"]),
        ("a", ["a"]),
        ("../data/", ["a", "b"]),
    ]:
        assert [one.name for one in list_objects(Channel(uri=uri), PathStore(), "channel train")] == names
    with pytest.raises(ValueError, match="neither a path nor"):
        PathStore().resolve("s3://bucket/key")


@pytest.mark.parametrize("prefix", ["out", "out/", "out/a"])
def test_unfinished_files_are_not_objects(store, prefix):
    """Even if the writer was killed: jobs read the answers of other jobs."""
    store.put("s3://data/out/b/a.csv", "1")
    folder = store.resolve("s3://data/out")
    names = [one.uri for one in store.objects(f"s3://data/{prefix}")]
    with AtomicFile(folder / "b" / "a.csv") as file, AtomicFile(folder / "a.csv"):
        file.write(b"half")
        assert [one.uri for one in store.objects(f"s3://data/{prefix}")] == names
        assert [one.path.name for one in PathStore().objects(str(folder))] == ["a.csv"]


def test_a_feeder_ends_without_a_reader(tmp_path):
    def epoch(number):
        yield b"x" * (1 << 20)

    feeder = PipeFeeder(tmp_path, "train", epoch, pytest.fail)
    assert (tmp_path / "train_0").is_fifo()
    feeder.close()
    assert list(tmp_path.iterdir()) == []
    feeder = PipeFeeder(tmp_path, "train", epoch, pytest.fail)
    with (tmp_path / "train_0").open("rb") as pipe:
        pipe.read(1)
        closing = threading.Thread(target=feeder.close)
        closing.start()  # while the writer is in the middle of the epoch, and the pipe is full
    closing.join(300)
    assert not closing.is_alive()
    assert list(tmp_path.iterdir()) == []


def test_sharding_a_pipe(store):
    objects = [InputObject(name=str(n), path=store.resolve(store.put(f"s3://in/{n}", str(n)) or "")) for n in range(5)]
    for channel in (Channel(uri="s3://in", input_mode="Pipe", distribution="ShardedByS3Key"),):
        parts = [b"".join(epoch_bytes(objects, channel, store, host, 2)(0)) for host in range(2)]
        assert parts == [b"024", b"13"]


def test_all_violations_of_limits_are_reported_together():
    channels = {
        "a b": Channel(uri="x"),
        "w": Channel(uri="x", record_wrapper="RecordIO", compression="Gzip"),
        "m": Channel(uri="x", data_type="AugmentedManifestFile"),
        "f": Channel(uri="x", data_type="ManifestFile", input_mode="FastFile"),
    }
    hyperparameters = {
        **{f"h{n}": "1" for n in range(101)},
        "k" * 257: "v",
        "long": "v" * 2501,
        "a=b": "1",
        "nul": "a\0b",
    }
    with pytest.raises(ValueError) as error:
        TrainingSpec(
            name="-bad-",
            output_path="s3://x",
            channels=channels,
            hyperparameters=hyperparameters,
            environment={"1": "x", "LONG": "v" * 513, "NUL": "\0"},
            num_hosts=0,
            max_runtime_s=0,
        )
    reported = str(error.value)
    for words in (
        "its name must be",
        "at least 1 host",
        "max_runtime_s",
        "105 hyperparameters",
        "the name of hyperparameter 'a=b' has =,",
        "hyperparameter 'nul' has a NUL character",
        "environment variable 'NUL' has a NUL character",
        "'long' has 2501 characters",
        "257 characters",
        "channel name 'a b'",
        "channel 'w': the record wrapper",
        "channel 'w': compression",
        "channel 'm': an augmented manifest is for input_mode='Pipe'",
        "attribute_names",
        "input_mode='FastFile'",
        "environment variable '1'",
        "'LONG' has 513 characters",
    ):
        assert words in reported, words


def test_settings_of_other_types_are_reported_together():
    with pytest.raises(ValueError, match="cannot be run") as reported:
        TrainingSpec(
            name="a",
            output_path="m",
            num_hosts=1.5,
            max_runtime_s="5",
            environment={"A": 1},
            channels={"train": "data", "train_0": Channel(uri="data")},
        )
    for part in (
        "num_hosts must be an integer, got 1.5",
        "max_runtime_s must be a number, got '5'",
        "environment variable 'A' must be a string, got int",
        "channel 'train' must be a Channel, such as Channel(uri=...), got 'data'",
    ):
        assert part in str(reported.value)


@pytest.mark.parametrize(("length", "fits"), [(63, True), (64, False)])
def test_hyphens_count_in_names(length, fits):
    name = "a" + "-" * (length - 2) + "b"
    with contextlib.nullcontext() if fits else pytest.raises(ValueError, match="its name must be 1 to 63"):
        TrainingSpec(name=name, output_path="m")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("x\0y", "a NUL character"),
        ({"a": "\0"}, "a NUL character"),
        ("\ud800", "half a surrogate pair"),
        ({"\udfff": 1}, "half a surrogate pair"),
    ],
)
def test_json_hides_nothing_that_no_variable_holds(value, fault):
    with pytest.raises(ValueError, match=f"hyperparameter 'a' has {fault}"):
        TrainingSpec(name="job", output_path="x", hyperparameters=tree.as_json({"a": value}))


@pytest.mark.parametrize("value", ["\udcff", ["\0"], {"a": ["\0"]}, "\U0001f600", 1])
def test_what_variables_hold_is_a_hyperparameter(run, script, value):
    run(script("pass"), hyperparameters=tree.as_json({"a": value}))


@pytest.mark.parametrize(("name", "is_refused"), [("train_0", True), ("train_12", True), ("train_01", False)])
def test_a_channel_cannot_have_the_name_of_a_pipe(name, is_refused):
    channels = {name: Channel(uri="x"), "train": Channel(uri="x", input_mode="Pipe")}
    if not is_refused:
        TrainingSpec(name="job", output_path="x", channels=channels)
        return
    with pytest.raises(ValueError, match=f"channel '{name}' has the name of the pipe of channel 'train' for epoch"):
        TrainingSpec(name="job", output_path="x", channels=channels)


def test_pipes_may_have_names_of_other_pipes():
    pipe = Channel(uri="x", input_mode="Pipe")
    TrainingSpec(name="job", output_path="x", channels={"train": pipe, "train_1": pipe})


def test_a_script_may_remove_its_pipe(run, script, store, monkeypatch):
    monkeypatch.setattr(pipes, "CLOSE_S", 0.5)
    store.put("s3://in/data/a", "1\n")
    text = """
        import os, pathlib
        path = pathlib.Path(os.environ["SM_INPUT_DIR"], "data", "train_0")
        path.unlink()
        path.mkdir()
    """
    run(script(text), channels={"train": Channel(uri="s3://in/data", input_mode="Pipe")})


def test_a_script_may_remove_its_input(run, script, store):
    store.put("s3://in/data/a", "1\n")
    text = """
        import os, pathlib, shutil, time
        folder = pathlib.Path(os.environ["SM_INPUT_DIR"], "data")
        with open(folder / "train_0", "rb") as pipe:
            shutil.rmtree(folder)
            assert pipe.read() == b"1\\n"
        time.sleep(0.3)
    """
    run(script(text), channels={"train": Channel(uri="s3://in/data", input_mode="Pipe")})


def test_a_pipe_whose_name_is_taken_fails_the_job_instead_of_leaving_its_script_waiting(tmp_path):
    (tmp_path / "c_2").mkdir()
    faults = []
    failed = threading.Event()

    def on_error(error):
        faults.append(error)
        failed.set()

    feeder = PipeFeeder(tmp_path, "c", lambda epoch: iter([b"1"]), on_error)
    assert (tmp_path / "c_0").read_bytes() == b"1"
    assert failed.wait(10)
    assert faults[0].filename == str(tmp_path / "c_2")
    feeder.close()
    assert [one.name for one in tmp_path.iterdir()] == ["c_2"]


@pytest.mark.parametrize("setting", ["input_mode", "distribution", "record_wrapper", "compression", "data_type"])
def test_words_that_mean_nothing(setting):
    with pytest.raises(ValueError, match=f"channel 'c': {setting} must be one of .*, got 'pipe'"):
        TrainingSpec(name="job", output_path="s3://x", channels={"c": Channel(uri="x", **{setting: "pipe"})})


@pytest.mark.parametrize("name", ["a", "a-b", "a" * 63, "0"])
def test_good_names(name):
    assert TrainingSpec(name=name, output_path="x").name == name


@pytest.mark.parametrize("name", ["", "a" * 64, "a_b", "-a", "a-", "a/b", "..", "a\n"])
def test_bad_names(name):
    with pytest.raises(ValueError, match="its name must be"):
        TrainingSpec(name=name, output_path="x")


@pytest.mark.parametrize("begin", ["", "file://"])
def test_augmented_manifests_name_local_files_beside_them_only(tmp_path, begin):
    folder = tmp_path / "data"
    (folder / "images").mkdir(parents=True)
    (folder / "images" / "1.jpg").write_bytes(b"one")
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    manifest = folder / "list.jsonl"
    channel = Channel(uri=str(manifest), data_type="AugmentedManifestFile", attribute_names=("image-ref",))

    def values(path):
        manifest.write_text(json.dumps({"image-ref": begin + str(path)}))
        return augmented_values([InputObject(name="list.jsonl", path=manifest)], channel, PathStore(), 0, 1)

    assert values(folder / "images" / "1.jpg") == [[folder / "images" / "1.jpg"]]
    for path in (tmp_path / "secret", folder / ".." / "secret", folder / "link", "/etc/passwd"):
        with pytest.raises(JobFailed, match=r"line 1 of list\.jsonl names .* outside the manifest's folder"):
            values(path)
    with pytest.raises(JobFailed, match="not a file of this store"):
        manifest.write_text(json.dumps({"image-ref": "https://example.com/x"}))
        augmented_values([InputObject(name="list.jsonl", path=manifest)], channel, PathStore(), 0, 1)


def test_manifests_name_local_files_beside_them_only(tmp_path):
    folder = tmp_path / "data"
    (folder / "more").mkdir(parents=True)
    (folder / "more" / "a").write_bytes(b"a")
    (tmp_path / "secret").write_bytes(b"secret")
    manifest = folder / "list.json"
    channel = Channel(uri=str(manifest), data_type="ManifestFile")
    manifest.write_text(json.dumps([{"prefix": f"{folder}/more/"}, "a"]))
    assert [one.path for one in list_objects(channel, PathStore(), "channel train")] == [folder / "more" / "a"]
    for prefix in (f"{tmp_path}/", f"file://{tmp_path}/", f"{folder}/../"):
        manifest.write_text(json.dumps([{"prefix": prefix}, "secret"]))
        with pytest.raises(JobFailed, match="outside the manifest's folder"):
            list_objects(channel, PathStore(), "channel train")
    manifest.write_text(json.dumps([{"prefix": 5}, "secret"]))
    with pytest.raises(JobFailed):
        list_objects(channel, PathStore(), "channel train")


def test_lines_of_augmented_manifests_end_at_newlines_only(tmp_path):
    manifest = tmp_path / "list.jsonl"
    manifest.write_bytes('{"text": "a\u2028b\x85c"}\r\n\n{"text": "d"}\n'.encode())
    channel = Channel(uri=str(manifest), data_type="AugmentedManifestFile", attribute_names=("text",))
    found = augmented_values([InputObject(name="list.jsonl", path=manifest)], channel, PathStore(), 0, 1)
    assert found == [["a\u2028b\x85c".encode()], [b"d"]]


def test_an_empty_path_is_not_the_current_folder():
    for uri in ("", "file://"):
        with pytest.raises(ValueError, match=f"expected a path, found '{uri}', which would be the current folder"):
            PathStore().resolve(uri)


NAMES = ["A.csv", "%41.csv", "00%3A00.csv", "a?b#c.csv", "a b.csv", "d/\u00e9\n.csv", os.fsdecode(b"\xff.csv")]


def test_names_of_files_stay_as_they_are_in_uris(tmp_path):
    store = PathStore()
    for name in NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(os.fsencode(name))
    for uri in (str(tmp_path), f"file://{tmp_path}", f"file://localhost{tmp_path}/"):
        found = list_objects(Channel(uri=uri), store, "channel train")
        assert sorted(one.name for one in found) == sorted(NAMES)
        for one in found:
            assert store.resolve(one.uri) == one.path == tmp_path / one.name


def test_the_names_in_a_manifest_are_those_of_files(tmp_path):
    names = [name for name in NAMES if name.isprintable()]
    for name in names:
        (tmp_path / name).write_text(name)
    for prefix in (f"file://{tmp_path}/", f"{tmp_path}/"):
        (tmp_path / "list.json").write_text(json.dumps([{"prefix": prefix}, *names]))
        channel = Channel(uri=f"file://{tmp_path}/list.json", data_type="ManifestFile")
        found = list_objects(channel, PathStore(), "channel train")
        assert [(one.name, one.path.read_text()) for one in found] == [(name, name) for name in names]


def test_a_path_after_file_may_have_question_marks_and_hashes(tmp_path):
    assert PathStore().resolve(f"file://{tmp_path}/run#3?a") == tmp_path / "run#3?a"


def test_the_default_input_mode_is_checked_without_a_channel():
    with pytest.raises(ValueError, match="input_mode must be one of File, FastFile, Pipe, got 'file'"):
        TrainingSpec(name="x", output_path="s3://out", input_mode="file")
