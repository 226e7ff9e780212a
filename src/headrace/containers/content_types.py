"""Content types: their names, and what the headers of requests say about them."""

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
    "accepted",
    "charset",
    "choose",
    "media_type",
    "parameters",
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
"""What scripts get as ``str``; everything else comes as ``bytes``."""

remembered = lru_cache(
    maxsize=64
)  # clients say the same again and again, and taking it apart costs more than answering

PARAMETER = re.compile(r';\s*([\w-]+)\s*=\s*(?:"([^"]*)"|([^;,\s]*))')


@remembered
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


@remembered
def charset(header: str) -> str:
    """How the text of a body is encoded; UTF-8 where the header does not say."""
    return parameters(header).get("charset", "utf-8")


@dataclass(frozen=True, slots=True)
class _Range:
    media: str
    quality: float


@remembered
def accepted(header: str) -> tuple[str, ...]:
    """The content types of an ``Accept`` header without parameters, the preferred ones first; ``*/*`` where it is empty.

    >>> accepted("text/csv;q=0.5, application/json")
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


@remembered
def choose(header: str, supported: tuple[str, ...], default: str) -> str | None:
    """The first of what is accepted that is supported; ``default`` for ``*/*``; ``None`` where nothing fits.

    >>> choose("image/png, text/*", ("application/json", "text/csv"), "application/json")
    'text/csv'
    """
    for media in accepted(header):
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
