"""Arguments of the wrong type: every public call refuses them with a message that names the argument."""

import re

import numpy as np
import pytest

import headrace as hr
from headrace._arguments import check_integer

COLUMNS = {"x": np.arange(4)}


@pytest.fixture
def path(tmp_path):
    hr.write(tmp_path / "a.tfrecord", COLUMNS)
    return tmp_path / "a.tfrecord"


CALLS = {
    "records": hr.records,
    "open": hr.open,
    "verify": hr.verify,
    "convert": lambda path, **options: hr.convert(path, path.with_name("b.tfrecord"), **options),
    "write": lambda path, **options: hr.write(path.with_name("b.tfrecord"), COLUMNS, **options),
    "Writer": lambda path, **options: hr.Writer(path.with_name("b.tfrecord"), **options),
}


@pytest.mark.parametrize(
    ("calls", "options", "message"),
    [
        ("records open verify convert write Writer", {"format": 3}, "format must be text or a headrace.CSV, got 3"),
        ("records open verify convert write Writer", {"compression": 9}, "compression must be text, got 9"),
        ("open verify convert write Writer", {"codec": hr.Schema}, "codec must be text"),
        ("records open convert", {"on_corrupt": True}, "on_corrupt must be 'raise' or 'skip', got True"),
        ("records open", {"verify": "no"}, "verify must be True or False, got 'no'"),
        ("open convert", {"columns": "x"}, "columns must be several names, such as ['x'], got 'x'"),
        ("open convert", {"columns": [1]}, "columns must be several names, got [1]"),
        ("open", {"image_columns": "x"}, "image_columns must be several names"),
        ("convert write Writer", {"shards": "4"}, "shards must be an integer, got '4'"),
        ("convert write Writer", {"shards": 2.0}, "shards must be an integer, got 2.0"),
        ("convert", {"allow_loss": "yes"}, "allow_loss must be True or False, got 'yes'"),
        ("convert", {"overwrite": 1}, "overwrite must be True or False, got 1"),
        ("convert", {"threads": "all"}, "threads must be an integer, got 'all'"),
        ("convert write verify", {"progress": "bar"}, "progress must be True or False, got 'bar'"),
        ("verify", {"images": "all"}, "images must be True or False, got 'all'"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused(path, calls, options, message):
    for call in calls.split():
        with pytest.raises(TypeError, match=re.escape(message)):
            CALLS[call](path, **options)
    assert [each.name for each in path.parent.iterdir()] == ["a.tfrecord"], "nothing was written"


@pytest.mark.parametrize("call", ["records", "open", "convert"])
def test_another_word_is_refused_as_one(path, call):
    with pytest.raises(ValueError, match="on_corrupt must be 'raise' or 'skip', got 'ignore'"):
        CALLS[call](path, on_corrupt="ignore")


def test_numpys_values_are_as_good(path):
    assert len(hr.open(path, verify=np.True_, columns=np.array(["x"]))) == 4
    assert (
        hr.convert(
            path, path.with_name("b.tfrecord"), shards=np.int64(2), threads=np.int32(1), overwrite=np.False_
        ).examples
        == 4
    )


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"shards": True}, TypeError, "shards must be an integer, got True"),
        ({"shards": 0}, ValueError, "shards must be at least 1, got 0"),
        ({"threads": 0}, ValueError, "threads must be at least 1, got 0"),
        ({"on_corrupt": "skip", "columns": ("x", 1)}, TypeError, "columns must be several names, got ('x', 1)"),
    ],
)
def test_arguments_out_of_range_are_refused(path, options, kind, message):
    with pytest.raises(kind, match=re.escape(message)):
        CALLS["convert"](path, **options)


def test_functions_can_be_called(path):
    with pytest.raises(TypeError, match="map_batch must be a function, got 'upper'"):
        hr.Loader(hr.open(path), batch_size=2, map_batch="upper")


def test_whole_numbers_within_limits():
    assert check_integer(np.uint8(3), "n", least=1, most=3) == 3
    with pytest.raises(ValueError, match="n must be at most 3, got 4"):
        check_integer(4, "n", most=3)


def test_the_lengths_of_a_tensor_are_whole():
    with pytest.raises(TypeError, match="integer"):
        hr.datasets.features.Tensor(shape=(1.5,), dtype="int64")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hr.ColumnSource([{"x": 1}]), "columns must be a dict, as {'name': array}, got list"),
        (lambda: hr.write_records("x.tfrecord", None), "records must be an iterable of payloads, got NoneType"),
        (lambda: hr.Pad(3), "features must be the name of a feature, or several names, got 3"),
        (lambda: hr.Pack(["x", 3], length=4), "features must be the name of a feature, or several names, got ['x', 3]"),
        (lambda: hr.Packed([{"x": [1]}], 4, feature=None), "feature must be the name of a feature, or several names"),
        (lambda: hr.Ragged.from_list(3), "expected rows, such as [[1, 2], [3]], found int 3"),
        (lambda: hr.Feature("int64", names=3), "names must be several names, such as ['cat', 'dog'], got 3"),
        (lambda: hr.Feature("int64", names="catdog"), "names must be several names, such as ['catdog'], got 'catdog'"),
        (lambda: hr.Feature("int64", [1, "a"]), "axis lengths are integers (None where they vary), got [1, 'a']"),
        (lambda: hr.Shuffled(None), "n must be an integer, got None"),
        (lambda: hr.Shuffled(3, seed="7"), "seed must be an integer, got '7'"),
        (lambda: hr.InOrder("x"), "n must be an integer, got 'x'"),
        (lambda: hr.even_splits("train", "3"), "n must be an integer, got '3'"),
        (lambda: hr.ReadInstruction(None), "split_name must be the name of a split, such as 'train', got None"),
        (lambda: hr.CSV.parse(None), "options of CSV are text, such as 'delimiter=tab', got None"),
    ],
)
def test_arguments_of_another_type_are_named(call, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        call()
