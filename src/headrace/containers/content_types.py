"""Content types: their names, the headers ``Content-Type`` and ``Accept``, and the text of a body in its charset."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from headrace.errors import RequestError

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
    "as_text",
    "charset",
    "choose",
    "media_type",
    "parameters",
    "parse_accept",
    "refuses",
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

PART = re.compile(r'(?:[^,"]|"[^"]*"?)+')
"""A part of a list. Quoted texts may have commas."""


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


def as_text(body: bytes, content_type: str) -> str:
    """The text of a body, in its charset.

    Raises:
        RequestError: 400, not in that charset; 415, an unknown charset.
    """
    name = charset(content_type)
    try:
        return body.decode(name).removeprefix("\ufeff")
    except LookupError as error:
        raise RequestError(415, f"unknown charset {name!r}") from error
    except UnicodeDecodeError as error:
        reason = f"the body is not {name} text: byte {error.start} is 0x{body[error.start]:02x}"
        raise RequestError(400, reason) from error
    except UnicodeError as error:  # charsets such as idna do not give a position
        raise RequestError(400, f"the body is not {name} text: {error}") from error


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
def _ranges(header: str) -> tuple[_Range, ...]:
    """What an ``Accept`` header lists, preferred ones first; ``*/*`` if it lists nothing."""
    listed = [_Range(media_type(part), _quality(part)) for part in PART.findall(header) if media_type(part)]
    return tuple(sorted(listed, key=lambda one: -one.quality)) or (_Range(ANY, 1.0),)


def _quality(part: str) -> float:
    try:
        return float(parameters(part).get("q", "1"))
    except ValueError:
        return 1.0


@cached
def parse_accept(header: str) -> tuple[str, ...]:
    """The content types of an ``Accept`` header without parameters, preferred ones first; ``*/*`` if it is empty.

    >>> parse_accept("text/csv;q=0.5, application/json, image/png;q=0")
    ('application/json', 'text/csv')
    """
    return tuple(one.media for one in _ranges(header) if one.quality > 0)


@cached
def refuses(header: str, media: str) -> bool:
    """Whether an ``Accept`` header gives a content type the quality 0, itself or through its family.

    >>> refuses("text/*;q=0, */*", "text/csv")
    True
    """
    refused, wanted = {one.media for one in _ranges(header) if one.quality <= 0}, parse_accept(header)
    family = media.partition("/")[0] + "/*"
    # The narrowest range counts.
    for name in (media, family, ANY):
        if name in refused or name in wanted:
            return name in refused
    return False


@cached
def choose(header: str, supported: tuple[str, ...], default: str) -> str | None:
    """The preferred supported content type; for ``*/*`` ``default``, unless it is refused; ``None`` if none is supported.

    >>> choose("image/png, text/*", ("application/json", "text/csv"), "application/json")
    'text/csv'
    """
    for media in parse_accept(header):
        if media in supported:
            return media
        family = "" if media in (ANY, "*") else media.removesuffix("*")
        if media in (ANY, "*") or media.endswith("/*"):
            fitting = [one for one in (default, *supported) if one.startswith(family) and not refuses(header, one)]
            if fitting:
                return fitting[0]
    return None
