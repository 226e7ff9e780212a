"""What type checkers and editors know of the objects that users get: each expression and the type that mypy reveals for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

HEAD = """\
import numpy as np
from typing import Any, TypedDict

import headrace as hr


class Digit(TypedDict):
    image: np.ndarray
    label: int


def as_digit(example: hr.Example) -> Digit:
    return {"image": example["image"], "label": int(example["label"])}


def draw(example: hr.Example, rng: np.random.Generator) -> Digit:
    return {"image": rng.random(3), "label": 1}


def as_pair(batch: hr.Batch) -> tuple[np.ndarray, int]:
    return batch["image"], 3


def train(source: hr.Source) -> None: ...


source = hr.open("digits.tfrecord")
train(source.map(as_digit))  # a source of typed examples is a source
"""

EXAMPLE = "typing.Mapping[str, Any]"
SOURCE = f"Source[{EXAMPLE}]"
DIGIT = "Digit"
ARRAY = "numpy.ndarray[tuple[Any, ...], numpy.dtype[Any]]"
FLAGS = "numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.bool[bool]]]"

REVEALED = {
    # sources
    "source": SOURCE,
    "source[0]": EXAMPLE,
    "source[2:5]": SOURCE,
    "source[[1, 2]]": f"list[{EXAMPLE}]",
    "source[np.flatnonzero([True])]": f"list[{EXAMPLE}]",
    "source[source['label'] == 3]": SOURCE,
    "source[source['label'].isin([3]) | (source['label'] < 3)]": SOURCE,
    "source[['image', 'label']]": SOURCE,
    "next(iter(source))": EXAMPLE,
    "source.batch([1, 2])": "dict[str, Any]",
    "source.schema['image']": "Feature",
    "source.head()": SOURCE,
    "source.take(3).skip(1)": SOURCE,
    "source.sample(3, seed=1)": SOURCE,
    "source.sort('label', descending=True)": SOURCE,
    "source.random_split([0.8, 0.2])": f"list[{SOURCE}]",
    "source.shard(0, 2).split('train[:10%]')": SOURCE,
    "source.concat(source).zip(source)": SOURCE,
    "source.window(3).cache('here', key='1')": SOURCE,
    # columns
    "source['label']": "FeatureColumn",
    "source['label'][2:5]": "FeatureColumn",
    "source['label'] == 3": FLAGS,
    "source['label'] >= 3": FLAGS,
    "source['label'].isin([3])": FLAGS,
    # examples of a type of the user's own
    "source.map(as_digit)": f"Source[{DIGIT}]",
    "source.map(as_digit)[0]['label']": "int",
    "source.map(draw, seeded=True)[0]['image']": ARRAY,
    "source.map(as_digit).filter(lambda digit: digit['label'] == 3).sample(3)[0]": DIGIT,
    "source.map(as_digit).random_split([0.5, 0.5])[0].head()[0]": DIGIT,
    "source.flat_map(lambda example: [as_digit(example)])[0]": DIGIT,
    "source.map(lambda example: {**example, 'x': 1})": "Source[dict[str, Any]]",
    # loaders
    "next(iter(hr.Loader(source, 8)))": "dict[str, Any]",
    "next(iter(hr.Loader(source, 8, to='torch')))": "dict[str, Any]",
    "next(iter(hr.Loader(source, 8, map_batch=hr.Pad('image'))))": "dict[str, Any]",
    "next(iter(hr.Loader(source, 8, map_batch=hr.Bucket('image', bounds=(8, 16)))))": "list[dict[str, Any]]",
    "next(iter(hr.Loader(source, 8, map_batch=as_pair)))": f"tuple[{ARRAY}, int]",
    "next(iter(hr.Loader(source, 8, map_batch=lambda batch: len(batch))))": "int",
    "next(iter(hr.Loader(source, 8, map_batch=as_pair, to='torch')))": "Any",
    "hr.Loader({'x': [1]}, 8).state_dict()": "dict[str, Any]",
    "hr.Loader(source, 8).report()": "LoaderReport",
    # other ways in
    "hr.records('digits.tfrecord')": "Records",
    "hr.records('digits.tfrecord')[3]": "memoryview[int]",
    "hr.Packed(source, 8, feature='tokens')": "Packed",
    "hr.Packed(source, 8, feature='tokens')[0]": EXAMPLE,
    "hr.Mixture({source: 1})": "Mixture",
    "hr.ColumnSource({'x': [1]})[0]": EXAMPLE,
    "hr.from_generator(lambda: [{'x': 1}])": SOURCE,
    "hr.data_source('mnist', split='train')": "PreparedSource",
    "hr.data_source('mnist')": "dict[str, PreparedSource]",
    # out of a source, and what is said of it
    "source.to_numpy()": f"tuple[{ARRAY}, {ARRAY} | None]",
    "hr.stats('digits.tfrecord')": "Statistics",
    "hr.verify('digits.tfrecord')": "Report",
    "hr.convert('digits.tfrecord', 'digits.parquet')": "Converted",
}


def shorten(text: str) -> str:
    """A type with names without modules, but for those of ``typing`` and NumPy."""
    text = re.sub(r"TypedDict\(\w+\.Digit, \{[^}]*\}\)", "Digit", text)
    return re.sub(r"\bheadrace(\.\w+)*\.(\w+)", r"\2", text)


def test_what_is_revealed(tmp_path):
    lines = HEAD.splitlines()
    first = len(lines) + 1
    lines += [f"reveal_type({expression})" for expression in REVEALED]
    written = tmp_path / "uses.py"
    written.write_text("\n".join(lines) + "\n")
    config = Path(__file__).parents[1] / "pyproject.toml"
    found, errors, status = api.run(["--config-file", str(config), "--strict", str(written)])
    assert (errors, status) == ("", 0), found
    revealed = {int(line): shorten(text) for line, text in re.findall(r':(\d+): note: Revealed type is "(.*)"', found)}
    assert {each: revealed.get(number) for number, each in enumerate(REVEALED, first)} == REVEALED


def test_mistakes_are_found(tmp_path):
    """A checker sees what does not fit: near misses are no attributes of a source."""
    mistakes = {
        "source.shuffle(3)": "attr-defined",
        "source.batch(32)['image'].shape": None,
        "source.map(as_digit)[0]['lable']": "typeddict-item",
        "hr.Loader(source, 8, suffle=True)": "call-overload",
        "hr.Loader(source, 8, map_batch=len, to='tensorflow')": "call-overload",
        "source.sort(3)": "arg-type",
    }
    lines = HEAD.splitlines()
    first = len(lines) + 1
    written = tmp_path / "mistakes.py"
    written.write_text("\n".join([*lines, *mistakes]) + "\n")
    config = Path(__file__).parents[1] / "pyproject.toml"
    found, _, _ = api.run(["--config-file", str(config), "--strict", str(written)])
    codes = {int(line): code for line, code in re.findall(r":(\d+): error: .*\[([a-z-]+)\]", found)}
    assert {each: codes.get(number) for number, each in enumerate(mistakes, first)} == mistakes, found
