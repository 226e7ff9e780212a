"""Inputs of ``headrace train``, as a script sees them."""

import gzip
import json
import re
import signal
import tarfile
import threading
from pathlib import Path

import pytest

from headrace.cli.train import SETTINGS, _set_by_sigterm, channel_of
from headrace.formats.open import open_records

SCRIPT = """
import json, os
from pathlib import Path

base = Path(os.environ["SM_INPUT_DIR"]) / "data"
host = os.environ["SM_CURRENT_HOST"]
found = {}
for name, channel in json.loads(os.environ["SM_INPUT_DATA_CONFIG"]).items():
    if channel["TrainingInputMode"] == "Pipe":
        found[name] = (base / f"{name}_0").read_bytes().hex()
    else:
        found[name] = {path.name: path.read_text() for path in sorted((base / name).rglob("*")) if path.is_file()}
(Path(os.environ["SM_MODEL_DIR"]) / f"{host}.json").write_text(json.dumps(found))
"""


@pytest.fixture
def found(run):
    """What each host of a job finds in its channels."""

    def job(*channels, hosts=1):
        Path("reader.py").write_text(SCRIPT)
        options = [part for one in channels for part in ("--channel", one)]
        done = run("train", "reader.py", *options, "--name", "job", "--hosts", hosts)
        assert done.code == 0, done.err
        with tarfile.open("job/output/model.tar.gz") as archive:
            return [json.load(archive.extractfile(f"algo-{number}.json")) for number in range(1, hosts + 1)]

    return job


def put(folder, **files):
    Path(folder).mkdir()
    for name, content in files.items():
        data = content.encode()
        Path(folder, name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)


@pytest.mark.parametrize(
    ("script", "begin"),
    [
        ("my_train.py", "my-train"),
        ("_t.v2.py", "t-v2"),
        ("__init__.py", "init"),
        ("\u00e9t\u00e9 1.py", "t-1"),
        ("\u00e9.py", "job"),
    ],
)
def test_scripts_of_any_name_have_jobs_with_generated_names(run, script, begin):
    Path(script).write_text("print('here')")
    done = run("train", script)
    assert done.code == 0, done.err
    assert re.fullmatch(rf"{begin}(-\d+){{7}}/output/model.tar.gz\n", done.out)


def test_pipes_of_records_and_files_side_by_side(found):
    put("lines", a_gz="first", b_gz="second")
    put("plain", c="third")
    ((one),) = found("train=lines;input_mode=Pipe;record_wrapping=RecordIO;compression=Gzip", "other=plain;text/csv")
    Path("pipe.rec").write_bytes(bytes.fromhex(one["train"]))
    assert list(open_records("pipe.rec", format="recordio")) == [b"first", b"second"]
    assert one["other"] == {"c": "third"}


def test_each_host_its_share(found):
    put("shards", a="1", b="2", c="3")
    first, second = found("train=shards;distribution=ShardedByS3Key", "all=shards", hosts=2)
    assert {**first["train"], **second["train"]} == first["all"] == second["all"] == {"a": "1", "b": "2", "c": "3"}
    assert not set(first["train"]) & set(second["train"])
    assert first["train"]
    assert second["train"]


def test_manifests(found):
    put("data", a="1", b="2", c="3")
    Path("some.manifest").write_text(json.dumps([{"prefix": f"{Path('data').absolute()}/"}, "a", "c"]))
    Path("lines.manifest").write_text(json.dumps({"label": 7, "text-ref": str(Path("data/b").absolute())}) + "\n")
    (one,) = found(
        "some=some.manifest;s3_data_type=ManifestFile",
        "lines=lines.manifest;s3_data_type=AugmentedManifestFile;attribute_names=label, text-ref;input_mode=Pipe"
        ";record_wrapping=RecordIO",
    )
    assert one["some"] == {"a": "1", "c": "3"}
    Path("pipe.rec").write_bytes(bytes.fromhex(one["lines"]))
    assert list(open_records("pipe.rec", format="recordio")) == [b"7", b"2"]


def test_content_types_keep_their_parameters(tmp_path):
    def channel(text):
        return channel_of(f"train={tmp_path}{text}", "File")[1]

    assert channel("").content_type is None
    for parameter in ("label_size=1", "charset=utf-8", "header=present", "boundary=x", "version=2", "profile=a", "q=1"):
        assert channel(f";text/csv;{parameter}").content_type == f"text/csv;{parameter}"
    seeded = channel(";input_mode=Pipe;text/csv; label_size=1;shuffle_seed=3")
    assert (seeded.content_type, seeded.input_mode, seeded.shuffle_seed) == ("text/csv; label_size=1", "Pipe", 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (";compresion=Gzip", "no setting 'compresion'; the settings are " + ", ".join(SETTINGS)),
        (";text/csv;inputmode=Pipe", "no setting 'inputmode'; did you mean input_mode?"),
        (";text/csv;Input-Mode=Pipe", "no setting 'Input-Mode'; did you mean input_mode?"),
        (";compression=gz", "compression must be one of None, Gzip, got 'gz'"),
        (";text/csv;distribution=Half", "distribution must be one of FullyReplicated, ShardedByS3Key, got 'Half'"),
        (";shuffle_seed=-1", "shuffle_seed is an integer, got '-1'"),
        (";input_mode=pipe", "input_mode must be one of File, FastFile, Pipe, got 'pipe'"),
    ],
)
def test_refusals(run, text, message):
    put("data", a="1")
    done = run("train", "none.py", "--channel", f"train=data{text}")
    assert done.code == 2
    assert message in done.err.replace("\n", " ")


def test_only_the_main_thread_handles_signals():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def work():
        with _set_by_sigterm(threading.Event()):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_an_empty_path_is_not_the_current_folder(run):
    Path("reader.py").write_text("")
    for args, message in (
        (["train", "reader.py", "--channel", "train="], "--channel train has an empty path: write train=."),
        (["train", "reader.py", "--output", ""], "expected a path, found an empty text"),
        (["transform", "m.tar.gz", "--input", "", "--output", "out"], "expected a path, found an empty text"),
        (["transform", "m.tar.gz", "--input", "in", "--output", ""], "expected a path, found an empty text"),
        (["transform", "", "--input", "in", "--output", "out"], "expected a path, found an empty text"),
        (["serve", ""], "expected a path, found an empty text"),
        (["invoke", "name", "--file", ""], "expected a path, found an empty text"),
        (["prepare", "x", "--from", ""], "expected a path, found an empty text"),
    ):
        done = run(*args)
        assert done.code == 2
        assert message in " ".join(done.err.split())
    assert [path.name for path in Path().iterdir()] == ["reader.py"]


def test_the_home_folder(run, tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "rows").mkdir(parents=True)
    (home / "rows" / "a.csv").write_text("1,2\n")
    (home / "reader.py").write_text(SCRIPT)
    monkeypatch.setenv("HOME", str(home))
    done = run("train", "~/reader.py", "--channel", "train=~/rows", "--output", "~/out", "--name", "job")
    assert done.code == 0, done.err
    model = home / "out" / "job" / "output" / "model.tar.gz"
    with tarfile.open(model) as archive:
        assert json.load(archive.extractfile("algo-1.json")) == {"train": {"a.csv": "1,2\n"}}
    (home / "sum.py").write_text(
        "def model_fn(folder): return 1\ndef predict_fn(rows, model): return rows.sum(axis=1, keepdims=True)\n"
    )
    options = ["--script", "~/sum.py", "--input", "~/rows", "--output", "~/sums", "--accept", "text/csv"]
    done = run("transform", "~/out/job/output/model.tar.gz", *options)
    assert done.code == 0, done.err
    assert (home / "sums" / "a.csv.out").read_text().strip() == "3.0"
    assert not Path("~").exists()


def test_a_wrong_input_mode_without_a_channel(run):
    Path("reader.py").write_text("")
    done = run("train", "reader.py", "--input-mode", "file")
    assert done.code == 2
    assert "input_mode must be one of File, FastFile, Pipe, got 'file'" in done.err
