"""Selects the decoder for Zstandard, GZIP, JPEG, PNG and the pages of Parquet: our own code, or only the libraries.

``HEADRACE_ENGINES`` decides, once per process:

- ``own``, the default: our decoder runs first. It handles plain, intact input, and leaves the rest to the library.
- ``library``: the libraries decode everything.

Both give the same results and the same errors, because the library always handles damaged files. ``library`` helps to
find out whether one of our decoders is at fault. ``native/core/engines`` documents each decoder.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Literal

from headrace import _native, _optional

__all__ = ["SETTING", "Choice", "Engine", "Engines", "describe_engines", "engines", "zlib_library"]

SETTING = "HEADRACE_ENGINES"
Choice = Literal["own", "library"]
LIBRARIES = {
    "zstandard": ("zstandard", "array-record"),
    "isal": ("isal", "compress"),
    "simplejpeg": ("simplejpeg", "images"),
    "pillow": ("PIL", "images"),
    "pyarrow": ("pyarrow", "arrow"),
}
"""The module of each library, and the extra that installs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How one compression or image format is decoded.

    Args:
        is_own: Whether our decoder is tried first.
        library: The distribution that decodes what our decoder refuses, or everything.
    """

    is_own: bool
    library: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """The engine of each format in this process."""

    choice: Choice
    zstd: Engine
    gzip: Engine
    jpeg: Engine
    png: Engine
    parquet: Engine


@cache
def engines() -> Engines:
    """The engines selected by ``HEADRACE_ENGINES``, which is read once.

    Raises:
        ValueError: The variable is set to anything but ``own`` or ``library``.
    """
    choice = _read_choice(os.environ.get(SETTING) or "own")
    is_own = choice == "own"
    return Engines(
        choice=choice,
        zstd=Engine(is_own=is_own, library="zstandard"),
        gzip=Engine(is_own=is_own, library="isal" if _optional.available("isal") else "zlib"),
        # Without vector instructions, libjpeg-turbo is faster.
        jpeg=Engine(is_own=is_own and _native.jpeg_is_fast(), library="simplejpeg"),
        png=Engine(is_own=is_own, library="pillow"),
        parquet=Engine(is_own=is_own, library="pyarrow"),
    )


def _read_choice(text: str) -> Choice:
    if text == "own":
        return "own"
    if text == "library":
        return "library"
    raise ValueError(f"{SETTING} must be 'own' or 'library', got {text!r}")


def zlib_library() -> Any:
    """The inflating module: ``isal.isal_zlib`` if installed, else ``zlib``."""
    return _optional.require("isal.isal_zlib", extra="compress") if _optional.available("isal") else zlib


def describe_engines() -> str:
    """The decoders of this process, one per line."""
    found = engines()
    lines = [f"decoders ({SETTING}={found.choice})"]
    for field in fields(found):
        engine = getattr(found, field.name)
        if isinstance(engine, Engine):
            library = f"{engine.library} {_version_of(engine.library)}"
            lines.append(f"  {field.name:7} {f'own, then {library}' if engine.is_own else library}")
    return "\n".join(lines)


def _version_of(library: str) -> str:
    if library == "zlib":
        return zlib.ZLIB_RUNTIME_VERSION
    module, extra = LIBRARIES[library]
    return _optional.require(module, extra=extra).__version__ if _optional.available(module) else "(not installed)"
