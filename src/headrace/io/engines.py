"""Which decoder reads Zstandard, GZIP, JPEG and PNG: our own code, or the libraries alone.

``HEADRACE_ENGINES`` chooses, once for each process:

- ``own``, the default: our decoder comes first. It takes what is plain and sound, and refuses the rest, which the library decodes.
- ``library``: the libraries decode everything.

Both give the same results and the same errors, because a damaged file always ends at the library. ``library`` helps to find out whether one of
our decoders causes a fault. ``native/core/engines`` has a page on each of them.
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
}
"""The module of each library, and the extra that brings it."""


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
    """How each of them is decoded in this process."""

    choice: Choice
    zstd: Engine
    gzip: Engine
    jpeg: Engine
    png: Engine


@cache
def engines() -> Engines:
    """What ``HEADRACE_ENGINES`` chose. It is read once.

    Raises:
        ValueError: It is set to something else than ``own`` or ``library``.
    """
    choice = _read_choice(os.environ.get(SETTING) or "own")
    is_own = choice == "own"
    return Engines(
        choice=choice,
        zstd=Engine(is_own=is_own, library="zstandard"),
        gzip=Engine(is_own=is_own, library="isal" if _optional.available("isal") else "zlib"),
        # Without vector instructions libjpeg-turbo is faster.
        jpeg=Engine(is_own=is_own and _native.jpeg_is_fast(), library="simplejpeg"),
        png=Engine(is_own=is_own, library="pillow"),
    )


def _read_choice(text: str) -> Choice:
    if text == "own":
        return "own"
    if text == "library":
        return "library"
    raise ValueError(f"{SETTING} must be 'own' or 'library', got {text!r}")


def zlib_library() -> Any:
    """The module that inflates: ``isal.isal_zlib`` where it is installed, else ``zlib``."""
    return _optional.require("isal.isal_zlib", extra="compress") if _optional.available("isal") else zlib


def describe_engines() -> str:
    """The decoders of this process, one a line."""
    found = engines()
    lines = [f"decoders ({SETTING}={found.choice})"]
    for field in fields(found):
        engine = getattr(found, field.name)
        if isinstance(engine, Engine):
            library = f"{engine.library} {_version_of(engine.library)}"
            lines.append(f"  {field.name:5} {f'own, then {library}' if engine.is_own else library}")
    return "\n".join(lines)


def _version_of(library: str) -> str:
    if library == "zlib":
        return zlib.ZLIB_RUNTIME_VERSION
    module, extra = LIBRARIES[library]
    return _optional.require(module, extra=extra).__version__ if _optional.available(module) else "(not installed)"
