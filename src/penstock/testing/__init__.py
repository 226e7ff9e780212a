"""Conformance suites: subclass one for your own format, source or codec, and pytest runs what every one of ours is held to.

Needs pytest and hypothesis, which nothing else in penstock does.
"""

from __future__ import annotations

from penstock import _optional

_optional.require("pytest", extra="test")
_optional.require("hypothesis", extra="test")

# ruff: noqa: E402 - only now can what follows be imported
from penstock.testing.codecs import CodecTests
from penstock.testing.comparing import assert_same
from penstock.testing.formats import FormatTests
from penstock.testing.kinds import KINDS, kinds_batch, kinds_schema
from penstock.testing.sources import SourceTests

__all__ = ["KINDS", "CodecTests", "FormatTests", "SourceTests", "assert_same", "kinds_batch", "kinds_schema"]
