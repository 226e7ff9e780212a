"""What is wrong with the files."""

from __future__ import annotations

from headrace.viewer.dataset import ShownDataset
from headrace.viewer.display.markup import element, join
from headrace.viewer.pages.page import Links, Page, Query, code_block, progress_note, table
from headrace.viewer.pages.rows import command_for
from headrace.viewer.work import Work, Works
from headrace.writing.verify import Report, verify

__all__ = ["check_key", "faults_page", "refused_page"]

SHOWN_FAULTS = 500


def faults_page(dataset: ShownDataset, query: Query, links: Links, works: Works) -> Page:
    """Every fault that a check of all files finds."""
    paths = dataset.paths_of("verify")
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
        return verify(paths[0] if len(paths) == 1 else paths, images=images, **dataset.options_of("verify"))

    work = works.get(check_key(dataset, links, images=images), "checking all files", check, patience_s=0.3)
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
    given = "".join(f", {name}={value!r}" for name, value in dataset.options_of("verify").items())
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
                + given
                + (", images=True)" if images else ")"),
                command=command_for(dataset, "verify", "--images" if images else ""),
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


def check_key(dataset: ShownDataset, links: Links, *, images: bool) -> tuple[object, ...]:
    """What a check is about: files that have changed are checked again."""
    return ("faults", links.number, images, dataset.file_states)


def refused_page(dataset: ShownDataset, _: Query, links: Links) -> Page:
    """Why a dataset cannot be opened, and where to look: instead of its rows."""
    faults, place = links.to("faults"), links.to("bytes")
    skip = command_for(dataset, "view", "--skip-corrupt") if dataset.options.get("on_corrupt") != "skip" else None
    content = join(
        [
            element("h1", dataset.name),
            element("p", str(dataset.refusal), class_="fault", role="alert"),
            element(
                "p",
                "It cannot be opened, so it has no rows here. Look at ",
                element("a", "all faults", href=faults),
                " or at ",
                element("a", "the bytes at this one", href=place),
                ".",
            ),
            code_block(
                python=dataset.code, command="\n".join(each for each in (command_for(dataset, "verify"), skip) if each)
            ),
        ]
    )
    data = {"dataset": dataset.name, "error": str(dataset.refusal), "faults": faults, "bytes": place}
    return Page(title=dataset.name, content=content, data=data, status=422)
