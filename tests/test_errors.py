import inspect
import os
import pickle
from functools import partial

import numpy as np
import pytest

import headrace as hr
from headrace import _optional, errors
from headrace._faults import describe
from headrace.errors import (
    CorruptRecord,
    DataError,
    MissingExtra,
    NoSuchFeature,
    RequestError,
    TransformError,
    Where,
    did_you_mean,
)

PLACE = Where(path="a.tfrecord", record=812, offset=0x1F4C0)


def test_one_grammar():
    error = CorruptRecord(PLACE, expected="payload checksum 0x01", found="0x02", hint="Look.")
    assert str(error) == "expected payload checksum 0x01, found 0x02 - at a.tfrecord, record 812, byte 0x1f4c0. Look."


def test_data_errors_pickle_whole():
    error = NoSuchFeature(PLACE, expected="x", found="y", hint="z")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.where) == (NoSuchFeature, str(error), PLACE)


def test_relocation_fills_in_what_is_known():
    error = CorruptRecord(Where(record=3, feature="x"), expected="a", found="b")
    assert error.relocated(PLACE).where == Where(path="a.tfrecord", record=812, offset=0x1F4C0, feature="x")


def test_every_class_derives_from_what_people_catch():
    for name in errors.__all__:
        kind = getattr(errors, name)
        if name in ("Where", "HeadraceError", "DataError"):
            continue
        assert issubclass(kind, errors.HeadraceError)
        assert issubclass(kind, (ValueError, KeyError, OSError, RuntimeError, ImportError)), name


def test_every_class_is_in_the_tree_of_the_docstring():
    for name in errors.__all__:
        if inspect.isclass(getattr(errors, name)) and name != "Where":
            assert name in (errors.__doc__ or "")


def test_missing_extra_gives_the_install_command():
    assert 'pip install "headrace[torch]"' in str(MissingExtra("torch", "torch"))


def test_transform_error_names_function_place_and_cause():
    error = TransformError("normalise", PLACE, ZeroDivisionError("division by zero"))
    assert (
        str(error)
        == "normalise failed with ZeroDivisionError: division by zero - at a.tfrecord, record 812, byte 0x1f4c0."
    )


class Mute(Exception):
    """Its message fails."""

    def __str__(self):
        raise ValueError("no words")


def raise_mute(*_):
    raise Mute


def test_an_exception_whose_message_fails_is_named_by_its_type():
    assert str(TransformError("normalise", Where(), Mute())) == "normalise failed with Mute."
    source = hr.ColumnSource({"x": np.arange(4)})
    loops = [{"threads": 0}, {"threads": 1}, {"workers": 1, "start_method": "fork"}]
    for read in (
        lambda: source.map(raise_mute)[2],
        lambda: len(source.filter(raise_mute)),
        lambda: len(source.flat_map(raise_mute)),
        *(partial(list, hr.Loader(source.map(raise_mute), 2, **options)) for options in loops),
        *(partial(list, hr.Loader(source, 2, map_batch=raise_mute, **options)) for options in loops),
    ):
        with pytest.raises(TransformError, match=r"raise_mute on .* failed with Mute - at"):
            read()


class Fault:
    fault, offset, expected, found, record, feature = "wrong_count", 7, 784, 3, 2, 1


@pytest.mark.parametrize(
    "name",
    [
        "truncated",
        "length_checksum",
        "payload_checksum",
        "wire",
        "wrong_kind",
        "wrong_count",
        "missing",
        "header",
        "magic",
        "range",
        "new",
    ],
)
def test_every_native_fault_has_words(name):
    fault = Fault()
    fault.fault = name
    error = describe(fault, Where(path="f"), ["a", "b"])
    assert isinstance(error, DataError)
    assert error.where == Where(path="f", record=2, offset=7, feature="b")


def test_signatures_of_urls_are_not_shown():
    where = Where(path="https://host/x.tfrecord?X-Amz-Signature=secret", record=3)
    assert str(where) == "https://host/x.tfrecord?..., record 3"
    assert where.path.endswith("secret")
    assert str(Where(path="what?.tfrecord")) == "what?.tfrecord"


MISSPELLED = {
    "select": (lambda path: hr.open(path).select("imge"), "image"),
    "columns": (lambda path: hr.open(path, columns=["lable"]), "label"),
    "schema": (lambda path: hr.open(path, schema={"lable": hr.Feature("int64")}), "label"),
    "format": (lambda path: hr.open(path, format="npzz"), "npz"),
    "new format": (lambda path: hr.write(path, {"a": [1]}, format="parqet"), "parquet"),
    "codec": (lambda path: hr.open(f"{path}.tfrecord", codec="exmple"), "example"),
    "compression": (lambda path: hr.write(f"{path}.tfrecord", {"a": [1]}, compression="gzp"), "gzip"),
    "split": (lambda path: hr.open([path, path], split="trian"), "train"),
    "dataset": (lambda path: hr.data_source("fashon_mnist", data_dir=path), "fashion_mnist"),
    "CSV option": (lambda _: hr.CSV.parse("headr=yes"), "header"),
    "encoding": (lambda _: hr.CSV(encoding="cp9322"), "cp932"),
}


@pytest.mark.parametrize("case", MISSPELLED)
def test_misspellings_get_a_suggestion(tmp_path, case):
    path = str(tmp_path / "x-train.npz")
    hr.write(path, {"image": np.zeros(3), "label": np.zeros(3, np.int64)})
    hr.write(f"{path}.tfrecord", {"a": [1]})
    call, meant = MISSPELLED[case]
    with pytest.raises((hr.DataError, ValueError), match=f"Did you mean '{meant}'"):
        call(path)


def test_nothing_is_asked_where_nothing_is_close():
    assert did_you_mean("zebra", ["image", "label"]) == ""
    assert did_you_mean("image", ["image"]) == ""
    assert did_you_mean(7, ["image"]) == ""
    assert did_you_mean("image", []) == ""


@pytest.mark.parametrize("argument", ["columns", "image_columns"])
def test_text_is_not_a_list_of_names(tmp_path, argument):
    hr.write(tmp_path / "x.npz", {"image": np.zeros(3)})
    with pytest.raises(TypeError, match=rf"{argument} must be several names, such as \['image'\]"):
        hr.open(tmp_path / "x.npz", **{argument: "image"})
    assert hr.CSV(missing="NA").missing == ("NA",)
    for options in ({"header": "a,b"}, {"header": 0}, {"missing": "?,NA"}):
        with pytest.raises(ValueError, match="list of (names|words), such as"):
            hr.CSV(**options)
    with pytest.raises(TypeError, match="expected a batch, as .*, got list: write examples one by one"):
        hr.Writer(tmp_path / "y.npz").write_batch([{"a": 1}])
    with pytest.raises(
        TypeError,
        match=r"expected an integer, the number of a record, found slice. For several records: \[records\[i\] for i",
    ):
        hr.records(tmp_path / "y.tfrecord@2")[0:2] if hr.write_records(tmp_path / "y.tfrecord@2", [b"a"] * 2) else None
    with pytest.raises(hr.NoFiles, match="It is a set of shards: .*y.tfrecord@2 names them all"):
        hr.open(tmp_path / "y.tfrecord")
    label = {"label": hr.Feature("int64", names=["cat", "dog"])}
    for name in ("z.tfrecord", "z.csv", "z.npz"):
        with pytest.raises(hr.SchemaMismatch, match=r"names.index\(label\)"):
            hr.write(tmp_path / name, {"label": ["cat", "dog"]}, schema=label)
    hr.write(tmp_path / "z.parquet", {"label": [0, 1]}, schema=label)
    with pytest.raises(TypeError, match="condition.\"label = 'cat'\""):
        _ = hr.open(tmp_path / "z.parquet")["label"] == "cat"
    with pytest.raises(hr.UnsupportedData, match="found inf - at .*record 1, feature 'f'. Put NaN"):
        hr.write(tmp_path / "z.jsonl", {"f": np.array([1.0, np.inf])})
    with pytest.raises(hr.SchemaMismatch, match=r"pass headrace.open\(\[path, ...\]\)"):
        hr.Loader([str(tmp_path / "z.npz")], 2)


@pytest.mark.parametrize(
    "error",
    [
        TransformError("normalise", PLACE, ZeroDivisionError("division by zero")),
        RequestError(415, "no such type", container="container-1"),
        MissingExtra("torch", "torch", "Use NumPy."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_pickle_whole(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_optional_packages(tmp_path, monkeypatch):
    (tmp_path / "has_a_need.py").write_text("import not_installed_either\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra, match=r"this needs not_here. .*headrace\[torch\].*Use NumPy."):
        _optional.require("not_here.part", extra="torch", hint="Use NumPy.")
    with pytest.raises(ModuleNotFoundError, match="not_installed_either"):
        _optional.require("has_a_need", extra="torch")
    assert [_optional.available(name) for name in ("json.decoder", "not_here", "not_here.part")] == [True, False, False]


def test_paths_below_the_current_folder_are_shown_without_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(Where(path=str(tmp_path / "a" / "x.npy"))) == os.path.join("a", "x.npy")
    assert str(Where(path=str(tmp_path))) == str(tmp_path)
    assert str(Where(path=f"{tmp_path}2/x.npy")) == f"{tmp_path}2/x.npy"
