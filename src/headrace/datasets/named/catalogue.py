"""The table of names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headrace import _registry
from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.named.mnist import EMNIST_CONFIGS, emnist
from headrace.errors import NoFiles, Where, did_you_mean

__all__ = ["known_builders", "named_builder"]

_NAME = re.compile(r"(?P<name>\w+)(?:/(?P<config>[\w+.-]+))?(?::(?P<version>[\d.*]+))?")


def known_builders() -> Iterator[DatasetBuilder]:
    """The builders of all names and configs."""
    for name in _registry.DATASETS:
        if name == "emnist":
            yield from (emnist(config) for config in EMNIST_CONFIGS)
        else:
            yield _made(name)


def named_builder(name: str) -> DatasetBuilder:
    """The builder of a known dataset.

    Args:
        name: ``"mnist"``, ``"emnist/letters"``, ``"cifar10:3.*.*"``.

    Raises:
        NoFiles: None is known by that name, config and version.
    """
    match = _NAME.fullmatch(name)
    found = None if match is None else _found(match)
    if found is None:
        plain = name.partition("/")[0].partition(":")[0]
        meant = did_you_mean(plain, _registry.DATASETS)
        raise NoFiles(
            Where(),
            expected=f"one of the known datasets {', '.join(builder.full_name for builder in known_builders())}",
            found=repr(name),
            hint=f"{meant} Your own files: headrace prepare NAME --from PATH.".lstrip(),
        )
    return found


def _found(match: re.Match[str]) -> DatasetBuilder | None:
    name, config, version = match["name"], match["config"], match["version"]
    if name not in _registry.DATASETS or (config is not None and (name != "emnist" or config not in EMNIST_CONFIGS)):
        return None
    builder = emnist(config) if config is not None else _made(name)
    wanted = re.escape(version or builder.version).replace(r"\*", r"\d+")
    return builder if re.fullmatch(wanted, builder.version) else None


def _made(name: str) -> DatasetBuilder:
    builder: DatasetBuilder = _registry.load(_registry.DATASETS[name])()
    return builder
