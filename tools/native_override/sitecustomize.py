"""Load `headrace._native` from the file in HEADRACE_NATIVE, which is built for sanitizers or coverage.

Python imports this file in every process if PYTHONPATH has this folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

NATIVE = "headrace._native"


class NativeFinder:
    """Finds that one module, before any other finder."""

    @staticmethod
    def find_spec(name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """The module from that file."""
        return spec_from_file_location(name, os.environ["HEADRACE_NATIVE"]) if name == NATIVE else None


if "HEADRACE_NATIVE" in os.environ:
    sys.meta_path.insert(0, NativeFinder)
