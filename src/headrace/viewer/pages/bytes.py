"""The bytes of a record or at a fault, with the fields that they are: what a frame, a row or a page of a file consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import DataError, HeadraceError, Where
from headrace.formats.csv.sniff import transcoding
from headrace.formats.open import detect
from headrace.io.faults import name_in_errors
from headrace.io.local.fileset import FileSet
from headrace.io.urls import is_url
from headrace.sources.node import records_below
from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.cells import hex_lines
from headrace.viewer.display.frames import Field, frame_fields
from headrace.viewer.display.lines import cell_fields, member_fields
from headrace.viewer.display.markup import element, join
from headrace.viewer.display.parquet_pages import chunk_fields, footer_fields, page_fields, row_group_of
from headrace.viewer.pages.faults import check_key
from headrace.viewer.pages.page import BadQuery, Links, Page, Query, code_block, table
from headrace.viewer.pages.rows import command_for
from headrace.viewer.work import Works
from headrace.writing.verify import Report

__all__ = ["bytes_page"]

WINDOW, BEFORE = 1024, 64
SHOWN_FIELDS = 400
HEAD = 64


@dataclass(frozen=True, slots=True)
class _FileBytes:
    """A file as its records see it.

    Args:
        wrapper: How the file is compressed or encoded, and so no longer is here; ``"none"``: these are its own bytes.
        size: Bytes in total.
        file: What reads them.
    """

    wrapper: str
    size: int
    file: Any

    def read(self, at: int, size: int) -> bytes:
        """Bytes from an offset on; fewer at the end."""
        begin = min(at, self.size)
        return bytes(self.file.read(begin, min(size, self.size - begin)))


def bytes_page(dataset: ShownDataset, query: Query, links: Links, works: Works) -> Page:
    """The bytes at a fault or of a row, with the fields that they are. The address names a fault or a row, never a file.

    Raises:
        BadQuery: There is no such fault or row.
    """
    where, title = _place(dataset, query, links, works)
    shift = query.number("shift", 0, least=-(2**60), most=2**60)
    if where.path is None or is_url(where.path):
        raise BadQuery("bytes are shown for files on this machine")
    if not Path(where.path).is_file():
        raise BadQuery(f"there is no file any more: {where.path}")
    if not query.text("fault") and where.path in dataset.changed_files:
        raise BadQuery(
            f"{where.path} was changed after it was opened, so the place of this row in it is not known: open it again"
        )
    format = _format_of(dataset, where.path)
    content = _open(where.path, format)
    at, fields = _fields(dataset, format, where, content)
    start = max(0, at - BEFORE + shift)
    shown = content.read(start, WINDOW)
    marks = tuple((f.start, f.stop, f"field-{n % 4}", f"{f.name}: {f.meaning}") for n, f in enumerate(fields))
    kept = {name: query.text(name) for name in ("fault", "row", "images")}
    steps = element(
        "nav",
        element("a", "Bytes before", href=links.to("bytes", shift=str(shift - WINDOW // 2), **kept), rel="prev")
        if start
        else None,
        element("a", "Bytes after", href=links.to("bytes", shift=str(shift + WINDOW // 2), **kept), rel="next")
        if start + WINDOW < content.size
        else None,
        class_="pager",
        aria_label="bytes",
    )
    rows = [
        (f.name, element("a", _stretch(f), href=links.to("bytes", shift=str(f.start - at), **kept)), f.meaning)
        for f in fields
    ]
    page = join(
        [
            element("h1", title),
            element("p", str(where), f", of {content.size:,} bytes", class_="faint"),
            element("p", _note(content.wrapper), class_="faint") if content.wrapper != "none" else None,
            table(("field", "bytes", "meaning"), rows, caption="fields of the frame") if rows else None,
            steps,
            element("pre", *hex_lines(shown, start, marks), class_="hex", tabindex="0"),
            code_block(
                python=_code(where.path, content.wrapper, start),
                command=command_for(dataset, "head", f"--rows {query.text('row')} --json")
                if query.text("row")
                else command_for(dataset, "verify"),
            ),
        ]
    )
    data = {
        "path": where.path,
        "record": where.record,
        "offset": at,
        "compression": content.wrapper,
        "size": content.size,
        "start": start,
        "hex": shown.hex(),
        "fields": [{"name": f.name, "start": f.start, "stop": f.stop, "meaning": f.meaning} for f in fields],
    }
    return Page(title=title, content=page, data=data)


def _stretch(field: Field) -> str:
    return f"{field.start:#x} to {max(field.start, field.stop - 1):#x}"


def _note(wrapper: str) -> str:
    if wrapper in ("gzip", "zlib"):
        return f"The file is a {wrapper} stream: these are its decompressed bytes, and places count those."
    return f"The file is in {wrapper}: these are its bytes as UTF-8, and places count those."


def _code(path: str, wrapper: str, start: int) -> str:
    end = f"\n    file.seek({start})\n    print(file.read({WINDOW}).hex(' '))"
    if wrapper == "gzip":
        return f"import gzip\n\nwith gzip.open({path!r}) as file:{end}"
    if wrapper == "none":
        return f"with open({path!r}, 'rb') as file:{end}"
    part = f"\nprint(content[{start}:{start + WINDOW}].hex(' '))"
    if wrapper == "zlib":
        return f"import zlib\n\nwith open({path!r}, 'rb') as file:\n    content = zlib.decompress(file.read()){part}"
    opened = f"open({path!r}, encoding={wrapper!r}, newline='')"
    return f"with {opened} as file:\n    content = file.read().removeprefix('\\ufeff').encode(){part}"


def _place(dataset: ShownDataset, query: Query, links: Links, works: Works) -> tuple[Where, str]:
    if query.text("fault"):
        number, images = query.number("fault", 0), query.flag("images")
        work = works.find(check_key(dataset, links, images=images))
        found: list[DataError] = work.result.faults if work is not None and isinstance(work.result, Report) else []
        if number >= len(found):
            raise BadQuery("there is no such fault: open the page of faults first")
        return found[number].where, f"Bytes at fault {number}"
    if dataset.refusal is not None:
        return dataset.refusal.where, "Bytes at the fault"
    index, total = query.number("row", 0), dataset.count()
    if total is None or index >= total:
        raise BadQuery(f"row must be below {total or 0:,}, the number of examples; got {index:,}")
    return dataset.where(index), f"Bytes of row {index:,}"


def _format_of(dataset: ShownDataset, path: str) -> str:
    """The format of a file: that of the opened records; else as it was given, or by its content and name."""
    records = records_below(dataset.source.node)
    if records:
        return str(records[0].format)
    given = dataset.options.get("format")
    if given is not None:
        return str(getattr(given, "name", given)).partition(":")[0]
    try:
        return str(detect(path).name)
    except (HeadraceError, OSError):
        return ""


def _open(path: str, format: str) -> _FileBytes:
    files = FileSet([path], compression=None)
    wrapper = files.wrapper(0)
    if format == "csv" and wrapper == "none":
        with name_in_errors(path), Path(path).open("rb") as file:
            encoding = transcoding(file.read(HEAD), None)
        if encoding:
            files, wrapper = FileSet([path], compression=encoding), encoding
    found = files.content(0)
    return _FileBytes(wrapper, found.size, found)


def _fields(dataset: ShownDataset, format: str, where: Where, content: _FileBytes) -> tuple[int, list[Field]]:
    """Where the record begins, and its fields."""
    at = where.offset or 0
    if format == "parquet":
        return _parquet_fields(where, content)
    if where.offset is None and dataset.refusal is None and format not in ("webdataset", "npy"):
        return at, []
    if format == "csv":
        dialect: Any = next((r.dialect for r in records_below(dataset.source.node) if hasattr(r, "dialect")), None)
        marks = (b",", b'"') if dialect is None else (dialect.delimiter.encode(), (dialect.quote or "").encode())
        names: Sequence[str] = () if dialect is None else dialect.names
        return at, cell_fields(content.read, at, delimiter=marks[0], quote=marks[1], names=names)
    if format == "jsonl":
        return at, member_fields(content.read, at)
    fields = frame_fields(format, content.read, at, content.size)[:SHOWN_FIELDS]
    # A member of an archive begins before its content.
    return min([at, *(each.start for each in fields if format == "webdataset")]), fields


def _parquet_fields(where: Where, content: _FileBytes) -> tuple[int, list[Field]]:
    """Of a row: the chunks of its row group, the pages of the first of them, and the footer."""
    footer = footer_fields(content.read, content.size)
    found = None if where.path is None else row_group_of(where.path, where.record or 0)
    if found is None:
        return where.offset or 0, footer
    chunks = chunk_fields(*found)
    if not chunks:
        return where.offset or 0, footer
    place = where.offset if where.offset is not None else chunks[0].start
    inside = next((each for each in chunks if each.start <= place < each.stop), chunks[0])
    pages = page_fields(content.read, inside.start, inside.stop)
    # Pages first: the colours of the narrower fields win over those of the chunk around them.
    return place, [*pages, *chunks, *footer]
