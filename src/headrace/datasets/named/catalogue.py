"""Builders by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from headrace.datasets.building.builder import DatasetBuilder
from headrace.datasets.named.cifar import cifar10, cifar100
from headrace.datasets.named.mnist import EMNIST_CONFIGS, emnist, fashion_mnist, kmnist, mnist
from headrace.datasets.named.tables import abalone, iris
from headrace.errors import NoFiles, Where, did_you_mean

__all__ = ["known_builders", "named_builder"]

BUILDERS: dict[str, Callable[[], DatasetBuilder]] = {
    "abalone": abalone,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "emnist": emnist,
    "fashion_mnist": fashion_mnist,
    "iris": iris,
    "kmnist": kmnist,
    "mnist": mnist,
}
_NAME = re.compile(r"(?P<name>\w+)(?:/(?P<config>[\w+.-]+))?(?::(?P<version>[\d.*]+))?")


def known_builders() -> Iterator[DatasetBuilder]:
    """The builders of all names and configs."""
    for name, build in BUILDERS.items():
        if name == "emnist":
            yield from (emnist(config) for config in EMNIST_CONFIGS)
        else:
            yield build()


def named_builder(name: str) -> DatasetBuilder:
    """The builder of a known dataset.

    Args:
        name: ``"mnist"``, ``"emnist/letters"``, ``"cifar10:3.*.*"``.

    Raises:
        NoFiles: The name, config or version is unknown.
    """
    match = _NAME.fullmatch(name)
    found = None if match is None else _found(match)
    if found is None:
        plain = name.partition("/")[0].partition(":")[0]
        meant = did_you_mean(plain, BUILDERS)
        raise NoFiles(
            Where(),
            expected=f"one of the known datasets {', '.join(builder.full_name for builder in known_builders())}",
            found=repr(name),
            hint=f"{meant} Your own files: headrace prepare NAME --from PATH.".lstrip(),
        )
    return found


def _found(match: re.Match[str]) -> DatasetBuilder | None:
    name, config, version = match["name"], match["config"], match["version"]
    if name not in BUILDERS or (config is not None and (name != "emnist" or config not in EMNIST_CONFIGS)):
        return None
    builder = emnist(config) if config is not None else BUILDERS[name]()
    wanted = re.escape(version or builder.version).replace(r"\*", r"\d+")
    return builder if re.fullmatch(wanted, builder.version) else None
