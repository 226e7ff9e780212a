"""Find the folder of a prepared version by the name of a dataset, or by a folder."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from headrace.datasets.prepared import INFO_FILE
from headrace.errors import NoFiles, UnsupportedData, Where, did_you_mean
from headrace.io.faults import name_in_errors
from headrace.io.json_text import load_json
from headrace.io.urls import local_path

__all__ = ["KNOWN_NAMES", "data_folders", "find_prepared", "prepared_names"]

KNOWN_NAMES = ("abalone", "cifar10", "cifar100", "emnist", "fashion_mnist", "iris", "kmnist", "mnist")
"""Datasets that can be downloaded by name. :mod:`headrace.datasets.named.catalogue` has their builders."""

_NAME = re.compile(
    r"(?:[\w-]+:(?!\d|\*))?(?P<name>[a-zA-Z][\w]*)(?:/(?P<config>[\w+.-]+))?(?::(?P<version>(?:\d+|\*)(?:\.(?:\d+|\*)){2}))?"
)
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_HINT = "TFDS prepares datasets with tfds.builder(name).download_and_prepare()."
MANY = 12


def data_folders(data_dir: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders to search for prepared datasets: ``data_dir`` alone, or ``TFDS_DATA_DIR`` and ``~/tensorflow_datasets``.

    Raises:
        UnsupportedData: One is a URL.
    """
    if data_dir is not None:
        return [local_path(data_dir, "data_dir, a folder of prepared datasets")]
    given = os.environ.get("TFDS_DATA_DIR")
    default = Path("~/tensorflow_datasets").expanduser()
    if not given:
        return [default]
    return list(dict.fromkeys((local_path(given, "TFDS_DATA_DIR, a folder of prepared datasets"), default)))


def prepared_names(data_dir: str | os.PathLike[str] | None = None) -> list[str]:
    """List all prepared versions: ``["mini:1.2.0", "wiki/en:2.0.0"]``."""
    names: set[str] = set()
    for root in data_folders(data_dir):
        for dataset in _subfolders(root):
            names.update(f"{dataset.name}:{version.name}" for version in _versions(dataset))
            for config in _subfolders(dataset):
                names.update(f"{dataset.name}/{config.name}:{version.name}" for version in _versions(config))
    return sorted(names)


def find_prepared(name_or_folder: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Find the folder of a prepared version.

    Args:
        name_or_folder: ``"name"``, ``"name/config"``, either with ``":1.2.0"`` or ``":1.*.*"``; or a folder: of a
            version, or of a dataset with versions. Without a version, the highest.
        data_dir: Folder to search for names.

    Raises:
        NoFiles: Nothing was found; the message lists the candidates.
        UnsupportedData: The name is malformed.
    """
    if not isinstance(name_or_folder, (str, os.PathLike)):
        raise TypeError(f"a dataset is a name or a folder, got {type(name_or_folder).__name__}")
    folder = _as_folder(name_or_folder)
    if folder is not None:
        return _in_folder(folder)
    text = str(name_or_folder)
    match = _NAME.fullmatch(text)
    if match is None:
        raise UnsupportedData(
            Where(),
            expected="a name such as 'mnist', 'wiki/en' or 'mnist:3.*.*', or a folder",
            found=repr(text),
            hint="Builder arguments are not supported here: name the folder that the builder prepared.",
        )
    roots = data_folders(data_dir)
    for root in roots:
        dataset = root / match["name"]
        if dataset.is_dir():
            return _version_in(_config_in(dataset, match["config"]), match["version"])
    raise _unknown_name_error(match["name"], roots)


def _as_folder(given: str | os.PathLike[str]) -> Path | None:
    path = local_path(given, "a folder of a prepared dataset")
    if isinstance(given, os.PathLike) or path.is_absolute() or str(given).startswith((".", "~")):
        return path
    return path if path.is_dir() and ((path / INFO_FILE).is_file() or next(_versions(path), None)) else None


def _in_folder(folder: Path) -> Path:
    if (folder / INFO_FILE).is_file():
        return folder
    if folder.is_file():
        hint = "Open single files with headrace.open, or name the folder."
        raise NoFiles(Where(path=str(folder)), expected="a folder that TFDS prepared", found="a file", hint=hint)
    if not folder.is_dir():
        raise NoFiles(Where(path=str(folder)), expected="a folder of a prepared dataset", found="nothing of that name")
    if next(_versions(folder), None) is None:
        return _version_in(_config_in(folder, None), None)
    return _version_in(folder, None)


def _config_in(dataset: Path, config: str | None) -> Path:
    configs = [folder.name for folder in _subfolders(dataset) if next(_versions(folder), None) is not None]
    if config is not None:
        if config not in configs:
            raise NoFiles(
                Where(path=str(dataset)),
                expected=f"a prepared config {config!r} of {dataset.name}",
                found=_list_names(configs) if configs else "no configs",
                hint=did_you_mean(config, configs),
            )
        return dataset / config
    if next(_versions(dataset), None) is not None:
        return dataset
    default = _default_config(dataset)
    if default in configs:
        return dataset / str(default)
    if len(configs) == 1:
        return dataset / configs[0]
    raise NoFiles(
        Where(path=str(dataset)),
        expected="a prepared version, such as 1.0.0",
        found=f"the configs {_list_names(configs)}" if configs else f"only {_list_names(sorted(os.listdir(dataset)))}",
        hint=f"Name one: '{dataset.name}/{configs[0]}'." if configs else _HINT,
    )


def _default_config(dataset: Path) -> str | None:
    path = dataset / ".config" / "metadata.json"
    try:
        with name_in_errors(str(path)):
            found = load_json(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return found.get("default_config_name") if isinstance(found, dict) else None


def _version_in(folder: Path, wanted: str | None) -> Path:
    versions = list(_versions(folder))
    pattern = None if wanted is None else re.compile(re.escape(wanted).replace(r"\*", r"\d+"))
    matching = [version for version in versions if pattern is None or pattern.fullmatch(version.name)]
    if not matching:
        raise NoFiles(
            Where(path=str(folder)),
            expected="a prepared version" + (f" {wanted}" if wanted else ", such as 1.0.0"),
            found=_list_names([version.name for version in versions]) if versions else "none",
            hint="" if versions else _HINT,
        )
    return max(matching, key=lambda version: tuple(map(int, version.name.split("."))))


def _versions(folder: Path) -> Iterator[Path]:
    """Iterate over folders that are named like versions and hold a prepared dataset."""
    for inner in _subfolders(folder):
        if _VERSION.fullmatch(inner.name) and (inner / INFO_FILE).is_file():
            yield inner


def _subfolders(folder: Path) -> list[Path]:
    try:
        with name_in_errors(str(folder)), os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [folder / name for name in names if not name.startswith("incomplete.")]


def _unknown_name_error(name: str, roots: list[Path]) -> NoFiles:
    known: list[str] = []
    with contextlib.suppress(OSError):  # These names only improve the message.
        known = sorted({folder.name for root in roots for folder in _subfolders(root) if _holds_prepared(folder)})
    return NoFiles(
        Where(path=os.pathsep.join(map(str, roots))),
        expected=f"a prepared dataset {name!r}",
        found=_list_names(known) if known else "no prepared dataset",
        hint=did_you_mean(name, {*known, *KNOWN_NAMES}) or _HINT,
    )


def _holds_prepared(dataset: Path) -> bool:
    return any(next(_versions(folder), None) is not None for folder in (dataset, *_subfolders(dataset)))


def _list_names(names: list[str]) -> str:
    return ", ".join(names[:MANY]) + (f" and {len(names) - MANY} more" if len(names) > MANY else "") or "nothing"
