"""Mappings as variables and as arguments."""

from __future__ import annotations

import json
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["MappingMixin", "SplitResultSpec", "split_by_criteria", "to_cmd_args", "to_env_vars"]

SplitResultSpec: type[SplitResultSpec] = namedtuple("SplitResultSpec", "included excluded")  # noqa: PYI024 - as scripts know it


def to_env_vars(mapping: Mapping[str, Any]) -> dict[str, str]:
    """``SM_`` and the name in capitals; strings unchanged, empty for ``None``, other values as JSON without spaces.

    >>> to_env_vars({"model_dir": "/opt/ml/model", "hps": {"b": 1, "a": None}})
    {'SM_MODEL_DIR': '/opt/ml/model', 'SM_HPS': '{"a":null,"b":1}'}
    """
    return {f"SM_{str(name).upper()}" if name else "": _as_variable(value) for name, value in mapping.items()}


def _as_variable(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def to_cmd_args(mapping: Mapping[str, Any]) -> list[str]:
    """``--name value`` in the order of the names, ``-n value`` for names of one letter.

    >>> to_cmd_args({"n_estimators": 20, "verbose": True, "c": None, "grid": {"b": 2, "a": 1}})
    ['-c', '', '--grid', 'a=1,b=2', '--n_estimators', '20', '--verbose', 'True']
    """
    args: list[str] = []
    for name in sorted(mapping):
        text = _as_text(name)
        args += [("--" if len(text) > 1 else "-") + text if text else "", _as_argument(mapping[name])]
    return args


def _as_argument(value: Any) -> str:
    if hasattr(value, "items"):
        return ",".join(f"{name}={part}" for name, part in sorted(value.items()))
    return _as_text(value)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def split_by_criteria(
    dictionary: Mapping[str, Any], keys: Iterable[str] | None = None, prefix: str | None = None
) -> SplitResultSpec:
    """The entries whose name is among ``keys`` or begins with ``prefix``, and the others."""
    chosen = set(keys or ())
    included = {n: v for n, v in dictionary.items() if n in chosen or (prefix and n.startswith(prefix))}
    return SplitResultSpec(included, {n: v for n, v in dictionary.items() if n not in included})


class MappingMixin(Mapping[str, Any]):
    """Objects with properties that can be read as a mapping."""

    def properties(self) -> list[str]:
        """Their names."""
        kind = type(self)
        return sorted(name for name in dir(kind) if isinstance(getattr(kind, name), property))

    def __getitem__(self, name: str) -> Any:
        if name not in self.properties():
            raise KeyError(f"Trying to access invalid key: {name}")
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.properties())

    def __len__(self) -> int:
        return len(self.properties())

    def __str__(self) -> str:
        return str(dict(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)!r})"
