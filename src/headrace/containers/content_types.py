"""Content types: their names, and parsing of the headers ``Content-Type`` and ``Accept``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

__all__ = [
    "ANY",
    "CSV",
    "JSON",
    "JSONLINES",
    "NPY",
    "NPZ",
    "OCTET_STREAM",
    "RECORDIO_PROTOBUF",
    "TEXT_TYPES",
    "charset",
    "choose",
    "media_type",
    "parameters",
    "parse_accept",
    "with_utf8",
]

ANY = "*/*"
CSV = "text/csv"
JSON = "application/json"
JSONLINES = "application/jsonlines"
NPY = "application/x-npy"
NPZ = "application/x-npz"
OCTET_STREAM = "application/octet-stream"
RECORDIO_PROTOBUF = "application/x-recordio-protobuf"
TEXT_TYPES = frozenset({CSV, JSON})
"""The types that scripts get as ``str``; others come as ``bytes``."""

cached = lru_cache(maxsize=64)  # clients repeat their headers, and parsing one costs more than the rest of a request

PARAMETER = re.compile(r';\s*([\w-]+)\s*=\s*(?:"([^"]*)"|([^;,\s]*))')


@cached
def media_type(header: str) -> str:
    """A content type without its parameters, in lower case.

    >>> media_type("Text/CSV; charset=utf-8")
    'text/csv'
    """
    return header.partition(";")[0].strip().lower()


def parameters(header: str) -> dict[str, str]:
    """The parameters of a content type, names in lower case.

    >>> parameters("text/csv;label_size=0; charset=UTF-8")
    {'label_size': '0', 'charset': 'UTF-8'}
    """
    return {name.lower(): quoted or plain for name, quoted, plain in PARAMETER.findall(header)}


@cached
def charset(header: str) -> str:
    """The charset of a body; UTF-8 by default."""
    return parameters(header).get("charset", "utf-8")


@cached
def with_utf8(header: str) -> str:
    """A content type for the same content in UTF-8: unchanged if it names no other charset.

    >>> with_utf8("text/csv; charset=latin-1; header=absent")
    'text/csv; header=absent; charset=utf-8'
    """
    if charset(header).lower() in ("utf-8", "utf8"):
        return header
    others = [part for part in header.split(";") if not part.strip().lower().startswith("charset")]
    return "; ".join([*map(str.strip, others), "charset=utf-8"])


@dataclass(frozen=True, slots=True)
class _Range:
    media: str
    quality: float


@cached
def parse_accept(header: str) -> tuple[str, ...]:
    """The content types of an ``Accept`` header without parameters, preferred ones first; ``*/*`` if it is empty.

    >>> parse_accept("text/csv;q=0.5, application/json")
    ('application/json', 'text/csv')
    """
    ranges = [_Range(media_type(part), _quality(part)) for part in header.split(",") if part.strip()]
    wanted = sorted((one for one in ranges if one.quality > 0), key=lambda one: -one.quality)
    return tuple(one.media for one in wanted) or (ANY,)


def _quality(part: str) -> float:
    try:
        return float(parameters(part).get("q", "1"))
    except ValueError:
        return 1.0


@cached
def choose(header: str, supported: tuple[str, ...], default: str) -> str | None:
    """The preferred supported content type; ``default`` for ``*/*``; ``None`` if none is supported.

    >>> choose("image/png, text/*", ("application/json", "text/csv"), "application/json")
    'text/csv'
    """
    for media in parse_accept(header):
        if media in (ANY, "*"):
            return default
        if media in supported:
            return media
        family = media.removesuffix("*")
        if media.endswith("/*"):
            fitting = [one for one in (default, *supported) if one.startswith(family)]
            if fitting:
                return fitting[0]
    return None
