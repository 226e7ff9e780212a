"""What is wrong with the files, and the bytes of a record with the fields of its frame."""

from __future__ import annotations

import shlex
import struct
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import DataError, Where
from headrace.io.faults import name_in_errors
from headrace.io.urls import is_url
from headrace.sources.node import records_below
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.cells import hex_lines
from headrace.viewer.display.markup import element, join
from headrace.viewer.pages.page import BadQuery, Links, Page, Query, code_block, progress_note, table
from headrace.viewer.work import Work, Works
from headrace.writing.verify import Report, verify

__all__ = ["bytes_page", "faults_page"]

SHOWN_FAULTS, SHOWN_PATHS = 500, 20
WINDOW, BEFORE = 1024, 64
LENGTH, RECORDIO_MAGIC = 0x1FFFFFFF, 0xCED7230A
BLOCK = 1 << 16
"""Riegeli files, and ArrayRecord files in them, have a block header at each multiple of this."""


def faults_page(dataset: ShownDataset, query: Query, links: Links, works: Works) -> Page:
    """Every fault that a check of all files finds."""
    paths = list(dataset.paths or dataset.files)
    if not paths:
        content = join(
            [
                element("h1", "Faults"),
                element("p", "This dataset was not opened from files, so there is nothing to check."),
            ]
        )
        return Page(title="Faults", content=content, data={"faults": []})
    images = query.flag("images")

    def check(work: Work) -> Report:
        work.advance(0)
        return verify(paths[0] if len(paths) == 1 else paths, images=images)

    work = works.get(_key(dataset, links, images=images), "checking all files", check, patience_s=0.3)
    report: Report | None = work.result
    rows = []
    for number, fault in enumerate(report.faults[:SHOWN_FAULTS] if report else ()):
        has_bytes = fault.where.path is not None and fault.where.offset is not None
        place = str(fault.where) or "unknown"
        shown = (
            element("a", place, href=links.to("bytes", fault=str(number), images=images or None))
            if has_bytes
            else place
        )
        rows.append((number, type(fault).__name__, shown, f"expected {fault.expected}, found {fault.found}"))
    content = join(
        [
            element("h1", "Faults"),
            progress_note(work),
            element("p", _summary(report), class_="ok" if report.ok else "fault", role="status") if report else None,
            table(("fault", "kind", "place", "what"), rows, caption="faults") if rows else None,
            None
            if images
            else element("p", element("a", "Also decode every image", href=links.to("faults", images=1))),
            code_block(
                python=f"report = headrace.verify({(paths[0] if len(paths) == 1 else paths)!r}"
                + (", images=True)" if images else ")"),
                command=shlex.join(["headrace", "verify", *paths, *(["--images"] if images else [])])
                if len(paths) <= SHOWN_PATHS
                else None,
            ),
        ]
    )
    data = {**work.to_json(), "report": report.to_json() if report else None}
    return Page(title=f"Faults of {dataset.name}", content=content, data=data, refresh=None if work.is_finished else 2)


def _summary(report: Report) -> str:
    count = len(report.faults) + report.more_faults
    known = (
        f"{_count(report.files, 'file')}, {_count(report.records, 'intact record')}, {_count(report.bytes, 'byte')}: "
    )
    return known + ("no fault" if report.ok else _count(count, "fault"))


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Field:
    """A stretch of a frame: first byte, one after the last, its name, and what it says."""

    start: int
    stop: int
    name: str
    meaning: str


def bytes_page(dataset: ShownDataset, query: Query, links: Links, works: Works) -> Page:
    """The bytes at a fault or of a row, with the fields of the frame. The address names a fault or a row, never a file.

    Raises:
        BadQuery: There is no such fault or row.
    """
    where, title = _place(dataset, query, links, works)
    if where.path is None or where.offset is None:
        raise BadQuery("the place of this row in its file is not known by bytes")
    shift = query.number("shift", 0, least=-(2**60), most=2**60)
    if is_url(where.path) or not Path(where.path).is_file():
        raise BadQuery("bytes are shown for files on this machine")
    start = max(0, where.offset - BEFORE + shift)
    with name_in_errors(where.path), Path(where.path).open("rb") as file:
        file.seek(where.offset)
        head = file.read(64)
        file.seek(start)
        content = file.read(WINDOW)
        size = file.seek(0, 2)
    fields = _fields(_format_of(dataset), head, where.offset, is_compressed=_is_compressed(where.path))
    marks = tuple((f.start, f.stop, f"field-{n % 4}", f"{f.name}: {f.meaning}") for n, f in enumerate(fields))
    kept = {name: query.text(name) for name in ("fault", "row", "images")}
    steps = element(
        "nav",
        element("a", "Bytes before", href=links.to("bytes", shift=str(shift - WINDOW // 2), **kept), rel="prev")
        if start
        else None,
        element("a", "Bytes after", href=links.to("bytes", shift=str(shift + WINDOW // 2), **kept), rel="next")
        if start + WINDOW < size
        else None,
        class_="pager",
        aria_label="bytes",
    )
    rows = [(f.name, f"{f.start:#x} to {f.stop - 1:#x}", f.meaning) for f in fields]
    content_markup = join(
        [
            element("h1", title),
            element("p", str(where), f", of {size:,} bytes", class_="faint"),
            element(
                "p",
                "The file is compressed: these are its own bytes, and the place counts decompressed ones.",
                class_="faint",
            )
            if _is_compressed(where.path)
            else None,
            table(("field", "bytes", "meaning"), rows, caption="fields of the frame") if rows else None,
            steps,
            element("pre", *hex_lines(content, start, marks), class_="hex", tabindex="0"),
            code_block(
                python=f"with open({where.path!r}, 'rb') as file:\n    file.seek({start})\n    print(file.read({WINDOW}).hex(' '))"
            ),
        ]
    )
    data = {
        "path": where.path,
        "record": where.record,
        "offset": where.offset,
        "start": start,
        "hex": content.hex(),
        "fields": [{"name": f.name, "start": f.start, "stop": f.stop, "meaning": f.meaning} for f in fields],
    }
    return Page(title=title, content=content_markup, data=data)


def _place(dataset: ShownDataset, query: Query, links: Links, works: Works) -> tuple[Where, str]:
    if query.text("fault"):
        number, images = query.number("fault", 0), query.flag("images")
        work = works.find(_key(dataset, links, images=images))
        found: list[DataError] = work.result.faults if work is not None and isinstance(work.result, Report) else []
        if number >= len(found):
            raise BadQuery("there is no such fault: open the page of faults first")
        return found[number].where, f"Bytes at fault {number}"
    index, total = query.number("row", 0), dataset.count()
    if total is None or index >= total:
        raise BadQuery(f"row must be below {total or 0:,}, the number of examples; got {index:,}")
    return dataset.where(index), f"Bytes of row {index:,}"


def _key(dataset: ShownDataset, links: Links, *, images: bool) -> tuple[object, ...]:
    """What a check is about: files that have changed are checked again."""
    return ("faults", links.number, images, dataset.file_states)


def _format_of(dataset: ShownDataset) -> str:
    records = records_below(dataset.source.node)
    return str(records[0].format) if records else ""


def _is_compressed(path: str) -> bool:
    with name_in_errors(path), Path(path).open("rb") as file:
        head = file.read(4)
    return head[:2] == b"\x1f\x8b" or head == b"\x28\xb5\x2f\xfd"


def _fields(format: str, head: bytes, at: int, *, is_compressed: bool) -> list[Field]:
    """The fields of the frame that begins at ``at``."""
    if is_compressed:
        return []
    if format == "tfrecord" and len(head) >= len("length__crc_"):
        length = int.from_bytes(head[:8], "little")
        end = at + 12 + min(length, 2**62)
        return [
            Field(at, at + 8, "length", f"{length:,} bytes of payload"),
            Field(
                at + 8,
                at + 12,
                "checksum of the length",
                f"masked CRC-32C {int.from_bytes(head[8:12], 'little'):#010x}",
            ),
            Field(at + 12, end, "payload", f"{length:,} bytes"),
            Field(end, end + 4, "checksum of the payload", "masked CRC-32C"),
        ]
    if format == "recordio" and len(head) >= struct.calcsize("<II"):
        magic, word = struct.unpack("<II", head[:8])
        length, part = word & LENGTH, word >> 29
        fits = "correct" if magic == RECORDIO_MAGIC else f"expected {RECORDIO_MAGIC:#010x}"
        padding = -length % 4
        parts = ("a whole record", "the first part", "a middle part", "the last part")
        return [
            Field(at, at + 4, "magic number", f"{magic:#010x}, {fits}"),
            Field(
                at + 4,
                at + 8,
                "length and part",
                f"{length:,} bytes, {parts[part] if part < len(parts) else f'unknown part {part}'}",
            ),
            Field(at + 8, at + 8 + length, "payload", f"{length:,} bytes"),
            *([Field(at + 8 + length, at + 8 + length + padding, "padding", f"{padding} bytes")] if padding else []),
        ]
    if format == "array_record" and len(head) >= struct.calcsize("<QQQQQ"):
        return _chunk_fields(head, at)
    return []


def _chunk_fields(head: bytes, at: int) -> list[Field]:
    """The fields of a Riegeli chunk header; one that crosses a block boundary is not taken apart."""
    if at % BLOCK + 40 > BLOCK:
        return []
    begin = at + 24 if at % BLOCK == 0 else at
    header = head[begin - at :]
    if len(header) < struct.calcsize("<QQQQQ"):
        return []
    checksum, size, data_checksum, kind_and_records, decoded = struct.unpack("<QQQQQ", header[:40])
    kind, records = chr(kind_and_records & 0xFF), kind_and_records >> 8
    return [
        *([Field(at, at + 24, "block header", "one in every 65,536 bytes")] if begin != at else []),
        Field(begin, begin + 8, "checksum of the header", f"HighwayHash64 {checksum:#018x}"),
        Field(begin + 8, begin + 16, "size of the data", f"{size:,} bytes"),
        Field(begin + 16, begin + 24, "checksum of the data", f"HighwayHash64 {data_checksum:#018x}"),
        Field(begin + 24, begin + 32, "kind and records", f"kind {kind!r}, {records:,} records"),
        Field(begin + 32, begin + 40, "decoded size", f"{decoded:,} bytes"),
        Field(begin + 40, begin + 40 + min(size, 2**62), "data", f"{size:,} bytes"),
    ]
