"""Datasets prepared by TensorFlow Datasets read as in its TensorFlow path: every feature, format and split expression."""

import base64
import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.datasets.alike import same_example

from headrace.datasets import data_source
from headrace.datasets.codec import FeaturesEncoder
from headrace.datasets.features.reading import feature_from_json, read_features
from headrace.errors import DataError
from headrace.sources.splits import ReadInstruction, even_splits, resolve_split

ROOT = Path(__file__).resolve().parents[2]
PEERS = Path(os.environ.get("HEADRACE_PEERS_VENV", ROOT / ".venv-peers")) / "bin" / "python"
SCRIPT = Path(__file__).with_name("tfds_peer.py")
ROWS = {"train": 12, "test": 5}


def has_tfds():
    code = "import importlib.util as u, sys; sys.exit(u.find_spec('tensorflow_datasets') is None)"
    return PEERS.exists() and subprocess.run([PEERS, "-c", code], check=False).returncode == 0


pytestmark = [pytest.mark.peer, pytest.mark.skipif(not has_tfds(), reason="needs .venv-peers with tensorflow-datasets")]


def ask(job, folder, *rest, text=None):
    given = [*rest, *(["-"] if text is not None else [])]
    done = subprocess.run(
        [PEERS, SCRIPT, job, str(folder), *given], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["array_record", "tfrecord", "parquet"])
def file_format(request):
    return request.param


@pytest.fixture(scope="module")
def folder(tmp_path_factory, file_format):
    return tmp_path_factory.mktemp(file_format)


@pytest.mark.parametrize("name", ["numbers", "kinds", "images", "episodes", "sequences"])
def test_every_value_is_what_tfds_reads(folder, file_format, name):
    ask("make", folder, name, file_format)
    theirs = ask("read", folder, name)
    for split, rows in theirs.items():
        source = data_source(name, split, data_dir=folder)
        assert len(source) == len(rows) == ROWS[split]
        batch = source.batch(np.arange(len(source)))
        for index, row in enumerate(rows):
            ours = source.nested(source[index])
            stacked = source.nested({key: column[index] for key, column in batch.items()})
            for found in (ours, stacked):
                same_example(row, found, f"{name}[{index}]")


@pytest.mark.parametrize("name", ["numbers", "kinds", "images", "episodes", "sequences"])
def test_our_features_are_tfds_features(folder, file_format, name):
    if file_format != "array_record":
        pytest.skip("the same for all formats")
    path = folder / name / "1.0.0" / "features.json"
    if not path.exists():
        ask("make", folder, name, file_format)
    ours = read_features(path).to_json()
    (again,) = ask("features", folder, text=json.dumps([json.dumps(ours)]))
    assert feature_from_json(again).to_json() == ours
    assert again == json.loads(path.read_text())


@pytest.mark.parametrize("name", ["numbers", "kinds", "episodes", "sequences"])
def test_tfds_reads_what_we_encode(tmp_path, name):
    golden = ROOT / "tests" / "golden" / "tfds" / "features"
    rows = json.loads((golden / f"{name}.json").read_text())
    source = data_source(name, "test", data_dir=golden)
    encoder = FeaturesEncoder(source.features)
    payloads = [base64.b64encode(encoder.encode(as_given(source, example))).decode() for example in source]
    theirs = ask("decode", golden, name, text=json.dumps(payloads))
    assert theirs == rows


def as_given(source, example):
    """An example in the form in which a generator gives it."""
    nested = source.nested(example)
    if "languages" in nested:
        found = nested["languages"]
        texts = {}
        for language, text in zip(found["language"], found["translation"]):
            texts.setdefault(language.decode(), []).append(text.decode())
        nested["languages"] = texts
    if "steps" in nested:
        nested["steps"] = [
            {
                "observation": {key: step[f"observation/{key}"] for key in ("image", "state")},
                **{key: step[key] for key in ("action", "words", "reward")},
            }
            for step in nested["steps"]
        ]
    return {key: list(column) for key, column in nested.items()} if source.prepared.name == "sequences" else nested


SIZES = {"train": [13, 0, 50, 37, 23], "test": [120], "small": [3, 4]}
QUIRKS = "where TFDS reads something else than what was asked for"


def questions(count):  # noqa: C901 - one branch for each kind of part
    rng = random.Random(3)
    bound = {
        "": lambda n: str(rng.choice([rng.randint(-n, n), 0])),
        "%": lambda n: (
            rng.choice([str(rng.randint(0, 100)), f"{rng.uniform(0, 100):.2f}", str(-rng.randint(10, 100))]) + "%"
        ),
    }
    out = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(list(SIZES))
            n = sum(SIZES[name])
            unit = rng.choice(["", "%"])
            kind = rng.randint(0, 4)
            if kind == 0:
                parts.append(name)
            elif kind == 1:
                shard = rng.randint(0, len(SIZES[name]) - 1)
                parts.append(
                    rng.choice([f"{name}[{shard}shard]", f"{name}[{shard}shard:]", f"{name}[:{shard + 1}shard]"])
                )
            else:
                start, stop = bound[unit](n), bound[unit](n)
                parts.append(f"{name}[{rng.choice([start, ''])}:{stop}]")
        out.append(("text", rng.choice(["+", " + "]).join(parts)))
    for name in SIZES:
        for a in (None, 0, 10, 33, -10, -100):
            for b in (None, 5, 50, 100, -5):
                out.append(("instruction", name, {"from_": a, "to": b, "unit": "%", "rounding": "pct1_dropremainder"}))
        for n in (1, 2, 3, 7):
            for index in range(n):
                for drop in (False, True):
                    out.append(("even", f"{name}+train[10:21]+test[:5%]", n, index, drop))
    return out


def ours_of(question):
    kind, *rest = question
    if kind == "text":
        split = rest[0]
    elif kind == "instruction":
        split = ReadInstruction(rest[0], **rest[1])
    else:
        split = even_splits(rest[0], rest[1], drop_remainder=rest[3])[rest[2]]
    sizes = {name: sum(lengths) for name, lengths in SIZES.items()}
    try:
        return [list(piece) for piece in resolve_split(split, sizes, shard_sizes=SIZES)]
    except DataError:
        return []


def test_split_expressions_mean_what_they_mean_to_tfds(tmp_path):
    asked = questions(600)
    answers = ask("splits", tmp_path, text=json.dumps([[SIZES, question] for question in asked]))
    compared = 0
    for question, theirs in zip(asked, answers, strict=True):
        if isinstance(theirs, str):
            assert ours_of(question) == [], question
            continue
        expected = [piece for piece in theirs if piece[1] < piece[2]]
        compared += bool(expected)
        assert ours_of(question) == expected, (question, theirs)
    assert compared > 300
