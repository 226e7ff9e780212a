"""From names to folders."""

import json
from pathlib import Path

import pytest

from headrace.datasets.locate import find_prepared, prepared_names
from headrace.errors import NoFiles, UnsupportedData


@pytest.fixture
def root(tmp_path):
    for path in (
        "mnist/3.0.0",
        "mnist/3.0.1",
        "mnist/10.2.0",
        "mnist/3.0.2.incompleteX",
        "mnist/incomplete.abc_4.0.0",
        "wiki/en/1.0.0",
        "wiki/de-1.x/1.0.0",
        "one/only/2.0.0",
        "chosen/a/1.0.0",
        "chosen/b/1.0.0",
    ):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "dataset_info.json").write_text("{}")
    (tmp_path / "mnist" / "11.0.0").mkdir()  # without a dataset_info.json: not prepared
    (tmp_path / "empty" / "1.0.0").mkdir(parents=True)
    (tmp_path / "chosen" / ".config").mkdir()
    (tmp_path / "chosen" / ".config" / "metadata.json").write_text(json.dumps({"default_config_name": "b"}))
    (tmp_path / "downloads").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mnist", "mnist/10.2.0"),
        ("mnist:3.0.0", "mnist/3.0.0"),
        ("mnist:3.*.*", "mnist/3.0.1"),
        ("mnist:*.*.*", "mnist/10.2.0"),
        ("wiki/en", "wiki/en/1.0.0"),
        ("wiki/de-1.x:1.0.0", "wiki/de-1.x/1.0.0"),
        ("one", "one/only/2.0.0"),
        ("chosen", "chosen/b/1.0.0"),
        ("huggingface:mnist", "mnist/10.2.0"),
    ],
)
def test_names(root, name, folder):
    assert find_prepared(name, root) == root / folder


@pytest.mark.parametrize("folder", ["mnist/3.0.0", "mnist", "wiki/en", "one"])
def test_folders(root, folder, monkeypatch):
    wanted = {"mnist": "mnist/10.2.0", "wiki/en": "wiki/en/1.0.0", "one": "one/only/2.0.0"}.get(folder, folder)
    assert find_prepared(root / folder) == root / wanted
    assert find_prepared(str(root / folder)) == root / wanted
    monkeypatch.chdir(root)
    assert find_prepared(f"./{folder}") == Path(wanted)


def test_a_folder_in_the_current_one_comes_before_a_name(root, monkeypatch):
    monkeypatch.chdir(root)
    assert find_prepared("mnist") == Path("mnist/10.2.0")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mnst", "expected a prepared dataset 'mnst', found chosen, mnist, one, wiki .* Did you mean 'mnist'?"),
        ("mnist:5.*.*", "expected a prepared version 5.*.*, found 10.2.0, 3.0.0, 3.0.1"),
        ("wiki", "found the configs de-1.x, en .* Name one: 'wiki/de-1.x'."),
        ("wiki/eng", "expected a prepared config 'eng' of wiki, found de-1.x, en .* Did you mean 'en'?"),
        ("mnist/x", "found no configs"),
        ("empty", "expected a prepared version, such as 1.0.0, found only 1.0.0"),
        ("downloads", "found only nothing"),
    ],
)
def test_missing_files_list_what_exists(root, name, message):
    with pytest.raises(NoFiles, match=message):
        find_prepared(name, root)


def test_other_errors(root, tmp_path):
    with pytest.raises(UnsupportedData, match="expected a name such as"):
        find_prepared("mnist/config/x=3", root)
    with pytest.raises(NoFiles, match="no such folder of a prepared dataset"):
        find_prepared(tmp_path / "nowhere")
    with pytest.raises(NoFiles, match="found no prepared dataset .* TFDS prepares datasets with"):
        find_prepared("mnist", tmp_path / "nowhere")


def test_search_path_of_names(root, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with pytest.raises(NoFiles):
        find_prepared("mnist")
    monkeypatch.setenv("TFDS_DATA_DIR", str(root))
    assert find_prepared("mnist:3.0.0") == root / "mnist/3.0.0"
    (tmp_path / "home" / "tensorflow_datasets").mkdir(parents=True)
    (root / "wiki").rename(tmp_path / "home" / "tensorflow_datasets" / "wiki")
    assert find_prepared("wiki/en").name == "1.0.0"


def test_all_names(root):
    assert prepared_names(root) == [
        *("chosen/a:1.0.0", "chosen/b:1.0.0", "mnist:10.2.0", "mnist:3.0.0", "mnist:3.0.1"),
        *("one/only:2.0.0", "wiki/de-1.x:1.0.0", "wiki/en:1.0.0"),
    ]


def test_urls_are_no_folders(monkeypatch):
    """They would become a folder ``gs:``."""
    with pytest.raises(UnsupportedData, match=r"a folder of prepared datasets on this machine, found a URL of gs://"):
        find_prepared("mnist", "gs://tfds-data/datasets")
    with pytest.raises(UnsupportedData, match="a folder of a prepared dataset on this machine"):
        find_prepared("s3://bucket/mnist/3.0.1")
    monkeypatch.setenv("TFDS_DATA_DIR", "gs://tfds-data/datasets")
    with pytest.raises(UnsupportedData, match="TFDS_DATA_DIR, a folder"):
        prepared_names()
