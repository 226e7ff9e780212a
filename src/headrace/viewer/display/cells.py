"""Values as cells of a page and as JSON. Both are bounded: nothing is made from more of a value than is shown."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.contracts.feature import Feature
from headrace.contracts.images import encoding_of
from headrace.contracts.strings import Strings
from headrace.contracts.values import Ragged
from headrace.viewer.display.markup import Markup, element, join, sparkline

__all__ = [
    "AUDIO",
    "CellPlace",
    "audio_type",
    "has_pixels",
    "hex_lines",
    "is_audio",
    "is_image_like",
    "json_value",
    "large_cell",
    "small_cell",
]

SMALL_TEXT, LARGE_TEXT = 160, 20_000
SMALL_BYTES, LARGE_BYTES = 12, 4096
SMALL_VALUES, LARGE_VALUES = 8, 512
SMALL_ITEMS, LARGE_ITEMS = 3, 64
JSON_VALUES, JSON_TEXT = 1000, 10_000
DRAWN = 20_000
"""The most numbers that a line is drawn through."""
GREY_AXES, COLOUR_AXES = 2, 3
LEAST_SIDE, MOST_SIDE = 8, 8192
AUDIO = {
    b"RIFF": "audio/wav",
    b"fLaC": "audio/flac",
    b"OggS": "audio/ogg",
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
}
"""First bytes of recordings that browsers play, and their media types."""


@dataclass(frozen=True, slots=True)
class CellPlace:
    """Where a value is: its row and feature, and the addresses of its media.

    Args:
        row: The index of the example.
        feature: Its type, images as they are stored.
        name: The name of the feature.
        media: Makes the address of an image or recording from its kind, its position among those of the value, and a size in pixels.
    """

    row: int
    feature: Feature
    name: str
    media: Callable[[str, int, int], str]


def audio_type(value: bytes) -> str | None:
    """The media type of a recording; ``None`` if it is none."""
    if value.startswith(b"RIFF"):
        return "audio/wav" if value[8:12] == b"WAVE" else None
    return next((kind for start, kind in AUDIO.items() if value.startswith(start)), None)


def is_audio(value: Any) -> bool:
    """Whether a value is an encoded recording."""
    return isinstance(value, bytes) and audio_type(value) is not None


def is_image_like(value: Any) -> bool:
    """Whether an array looks like the pixels of an image: ``uint8`` of two axes, or of three with 1, 3 or 4 channels."""
    if not isinstance(value, np.ndarray) or value.dtype != np.uint8:
        return False
    is_grey = value.ndim == GREY_AXES
    is_coloured = value.ndim == COLOUR_AXES and value.shape[2] in (1, 3, 4)
    return (is_grey or is_coloured) and all(LEAST_SIDE <= side <= MOST_SIDE for side in value.shape[:2])


def has_pixels(feature: Feature) -> bool:
    """Whether the values of a feature look like pixels, by their type."""
    if feature.dtype != "uint8" or not feature.is_fixed or len(feature.shape) not in (2, 3):
        return False
    sides = [int(length or 0) for length in feature.shape]
    return min(sides[:2]) >= LEAST_SIDE and (len(sides) == GREY_AXES or sides[2] in (1, 3, 4)) and math.prod(sides) > 0


def small_cell(value: Any, place: CellPlace) -> Markup:
    """A value in a table: one line, or a thumbnail."""
    return _cell(value, place, is_large=False)


def large_cell(value: Any, place: CellPlace) -> Markup:
    """A value on the page of its row."""
    return _cell(value, place, is_large=True)


def _cell(value: Any, place: CellPlace, *, is_large: bool) -> Markup:
    if isinstance(value, (str, np.str_)):
        return _text(str(value), is_large=is_large)
    if isinstance(value, (bytes, np.bytes_)):
        return _bytes(bytes(value), place, 0, is_large=is_large)
    if hasattr(value, "tocsr"):
        return _sparse(value, is_large=is_large)
    if isinstance(value, (Ragged, list)):
        return _show_nested(value, place, is_large=is_large)
    if isinstance(value, Strings):
        return _strings(value, place, is_large=is_large)
    if is_image_like(value):
        return _image(place, 0, f"{value.shape[1]} x {value.shape[0]}", is_large=is_large)
    array = np.asarray(value)
    if array.ndim == 0:
        return _scalar(array[()], place.feature, is_large=is_large)
    return _array(array, place, is_large=is_large)


def _scalar(value: Any, feature: Feature, *, is_large: bool) -> Markup:
    names = feature.names
    if names is not None and isinstance(value, np.integer) and 0 <= int(value) < len(names):
        return join(
            [element("span", names[int(value)], class_="name"), element("span", f" {int(value)}", class_="faint")]
        )
    if isinstance(value, (str, bytes)):
        return _text(value if isinstance(value, str) else repr(value), is_large=False)
    return element("span", _number(value, is_exact=is_large), class_="number")


def _number(value: Any, *, is_exact: bool = False) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, np.floating):
        short = f"{float(value):.7g}"
        return str(value) if is_exact and np.isfinite(value) and type(value)(short) != value else short
    return str(value)[:80]


def _text(value: str, *, is_large: bool) -> Markup:
    most = LARGE_TEXT if is_large else SMALL_TEXT
    shown = value[:most]
    more = element("span", f" ... {len(value):,} characters", class_="faint") if len(value) > most else None
    return element("div" if is_large else "span", shown, more, class_="text", dir="auto")


def _bytes(value: bytes, place: CellPlace, item: int, *, is_large: bool) -> Markup:
    if place.feature.encoding is not None or encoding_of(value[:64]) is not None:
        return _image(place, item, f"{len(value):,} bytes", is_large=is_large)
    if is_audio(value):
        player = element("audio", controls=True, preload="none", src=place.media("audio", item, 0))
        return join([player, element("span", f" {len(value):,} bytes", class_="faint")])
    if not is_large:
        text = _plain_text(value, SMALL_TEXT)
        if text is not None:
            return _text(text + ("..." if len(value) > SMALL_TEXT else ""), is_large=False)
        size = element("span", f" {len(value):,} bytes", class_="faint")
        return join([element("code", value[:SMALL_BYTES].hex(" "), class_="hex"), size])
    text = _plain_text(value, LARGE_TEXT)
    lines = element("pre", *hex_lines(value[:LARGE_BYTES], 0), class_="hex")
    shown = element("details", element("summary", f"{len(value):,} bytes"), lines) if text is not None else lines
    more = f"the first {LARGE_BYTES:,} of {len(value):,} bytes" if len(value) > LARGE_BYTES else f"{len(value):,} bytes"
    return join([None if text is None else _text(text, is_large=True), shown, element("p", more, class_="faint")])


def _plain_text(value: bytes, most: int) -> str | None:
    """The first ``most`` bytes as text, if they are text. A character may be cut at their end."""
    part = value[:most]
    for cut in range(4 if len(value) > most else 1):
        try:
            text = part[: len(part) - cut].decode()
        except UnicodeDecodeError:
            continue
        return text if all(char.isprintable() or char in "\n\t\r" for char in text) else None
    return None


def hex_lines(value: bytes, start: int, marks: tuple[tuple[int, int, str, str], ...] = ()) -> list[Markup]:
    """Bytes as lines of sixteen, with their positions and as ASCII.

    Args:
        value: The bytes.
        start: The position of the first.
        marks: Stretches to mark: first position, one after the last, a class and a title.
    """
    lines = []
    for at in range(0, len(value), 16):
        part = value[at : at + 16]
        cells: list[Markup] = []
        for number, byte in enumerate(part):
            mark = next((m for m in marks if m[0] <= start + at + number < m[1]), None)
            text = f"{byte:02x}"
            cells.append(element("span", text, class_=mark[2], title=mark[3]) if mark else Markup(text))
            cells.append(Markup(" "))
        pad = "   " * (16 - len(part))
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(join([element("span", f"{start + at:10x}  ", class_="faint"), *cells, pad, " ", letters, "\n"]))
    return lines


def _image(place: CellPlace, item: int, size: str, *, is_large: bool) -> Markup:
    pixels = 480 if is_large else 64
    picture = element(
        "img",
        src=place.media("image", item, pixels),
        alt=f"{place.name} of row {place.row}, {size}",
        loading="lazy",
        decoding="async",
        class_="large" if is_large else "thumb",
    )
    return element("a", picture, href=place.media("image", item, 0), class_="picture", title=size)


def _sparse(value: Any, *, is_large: bool) -> Markup:
    row = value.tocoo()
    columns, numbers = np.asarray(row.coords[-1] if hasattr(row, "coords") else row.col), np.asarray(row.data)
    most = LARGE_VALUES if is_large else SMALL_VALUES
    entries = ", ".join(f"{c}: {_number(v)}" for c, v in zip(columns[:most].tolist(), numbers[:most], strict=True))
    more = ", ..." if len(numbers) > most else ""
    count = element("span", f" {len(numbers):,} of {value.shape[-1]:,}", class_="faint")
    return join([element("span", f"{{{entries}{more}}}", class_="number"), count])


def _strings(value: Strings, place: CellPlace, *, is_large: bool) -> Markup:
    flat = value.reshape(-1)
    most = LARGE_ITEMS if is_large else SMALL_ITEMS
    items = [
        element("li", _text(v, is_large=False) if isinstance(v, str) else _bytes(v, place, number, is_large=False))
        for number, v in enumerate(flat[:most])
    ]
    return join([element("ul", *items, class_="items"), _count_note(flat.size, most)])


def _count_note(count: int, shown: int) -> Markup | None:
    return element("span", f"{count:,} values", class_="faint") if count > shown else None


def _show_nested(value: Any, place: CellPlace, *, is_large: bool) -> Markup:
    most = LARGE_ITEMS if is_large else SMALL_ITEMS
    rows = [element("li", _inner(value[number], place, number)) for number in range(min(len(value), most))]
    title = element("summary", f"{len(value):,} rows")
    return element("details", title, element("ol", *rows, start=0), class_="nested", open=is_large)


def _inner(value: Any, place: CellPlace, item: int) -> Markup:
    if isinstance(value, bytes):
        return _bytes(value, place, item, is_large=False)
    return _cell(value, place, is_large=False)


def _array(array: Any, place: CellPlace, *, is_large: bool) -> Markup:
    if array.dtype == object:
        return _show_nested([array[number] for number in range(min(len(array), LARGE_ITEMS))], place, is_large=is_large)
    flat = array.reshape(-1)
    most = LARGE_VALUES if is_large else SMALL_VALUES
    sides = " x ".join(map(str, array.shape))
    shape = element("span", f" {array.dtype} {sides}" if is_large else f" [{sides}]", class_="faint")
    names = place.feature.names
    if names is not None and array.dtype.kind in "iu":
        shown = ", ".join(names[v] if 0 <= v < len(names) else str(v) for v in flat[:most].tolist())
        return join([element("span", shown + (", ..." if len(flat) > most else ""), class_="name"), shape])
    numbers = element(
        "span",
        ", ".join(_number(each, is_exact=is_large) for each in flat[:most]) + (", ..." if len(flat) > most else ""),
        class_="number",
    )
    if array.dtype.kind not in "biuf" or len(flat) <= SMALL_VALUES:
        return join([numbers, shape if is_large or len(flat) > most or not len(flat) or array.ndim > 1 else None])
    line = sparkline(flat[:DRAWN], label=f"{place.name} of row {place.row}: {len(flat):,} values")
    return join([line, element("div", numbers), shape]) if is_large else join([line, shape])


def json_value(value: Any, most: int = JSON_VALUES) -> Any:
    """A value as JSON. A longer one becomes ``{"truncated": true, "count": n, "first": [...]}``.

    Bytes become ``{"b64": "..."}``, numbers that JSON lacks ``"nan"``, ``"inf"`` and ``"-inf"``.
    """
    if isinstance(value, str):
        return (
            value if len(value) <= JSON_TEXT else {"truncated": True, "count": len(value), "first": value[:JSON_TEXT]}
        )
    if isinstance(value, bytes):
        encoded = base64.b64encode(value[:JSON_TEXT]).decode("ascii")
        return {"b64": encoded} if len(value) <= JSON_TEXT else {"truncated": True, "count": len(value), "b64": encoded}
    if hasattr(value, "tocsr"):
        row = value.tocoo()
        columns = np.asarray(row.coords[-1] if hasattr(row, "coords") else row.col)
        return {
            "indices": json_value(columns, most),
            "values": json_value(np.asarray(row.data), most),
            "shape": list(value.shape),
        }
    if isinstance(value, (Ragged, list, tuple)) or (isinstance(value, Strings) and value.ndim == 1):
        return _bound_items([json_value(value[i], most) for i in range(min(len(value), most))], len(value), most)
    if isinstance(value, Strings):
        return json_value(value.reshape(-1), most)
    array = np.asarray(value)
    if array.ndim == 0:
        return _json_scalar(array[()])
    if array.size > most:
        first = [_json_scalar(v) for v in array.reshape(-1)[:most]]
        return {
            "truncated": True,
            "count": int(array.size),
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            "first": first,
        }
    return [json_value(item, most) for item in array] if array.ndim > 1 else [_json_scalar(item) for item in array]


def _bound_items(items: list[Any], count: int, most: int) -> Any:
    return items if count <= most else {"truncated": True, "count": count, "first": items}


def _json_scalar(value: Any) -> Any:
    if isinstance(value, (str, bytes)):
        return json_value(value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return str(value)
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, complex):
        return [_json_scalar(plain.real), _json_scalar(plain.imag)]
    if isinstance(plain, float) and not math.isfinite(plain):
        return str(plain)
    return plain if isinstance(plain, (str, int, float, bool)) or plain is None else str(plain)
