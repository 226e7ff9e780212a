"""Conformance suites: subclass one for your own format, source or codec, and pytest runs the tests that all of ours pass.

The suites need pytest and hypothesis (``pip install "headrace[test]"``). They are imported on first use, so that importing this
module needs neither.
"""

from __future__ import annotations

import importlib as _importlib
import typing as _typing

from headrace import _optional
from headrace.testing.data import KINDS, assert_same, kinds_batch, kinds_schema

if _typing.TYPE_CHECKING:
    from headrace.testing.codecs import CodecTests
    from headrace.testing.formats import FormatTests
    from headrace.testing.sources import SourceTests

__all__ = ["KINDS", "CodecTests", "FormatTests", "SourceTests", "assert_same", "kinds_batch", "kinds_schema"]

_SUITES = {"CodecTests": "codecs", "FormatTests": "formats", "SourceTests": "sources"}
_NEEDED = ("pytest", "hypothesis")


def __getattr__(name: str) -> _typing.Any:
    """Load a suite when it is first asked for."""
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for needed in _NEEDED:
        _optional.require(needed, extra="test")
    value = getattr(_importlib.import_module(f"{__name__}.{_SUITES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What can be had here: ``help`` and ``inspect`` ask for everything that is listed."""
    suites = _SUITES if all(map(_optional.available, _NEEDED)) else ()
    return sorted({*globals(), *suites})
