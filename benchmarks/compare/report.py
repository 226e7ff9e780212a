"""The results of a run as text, as JSON, and in the README."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.compare.results import SystemResult, Table, Verdict, judge
from benchmarks.compare.tasks import Timing
from benchmarks.compare.workloads import WORKLOADS, Workload
from benchmarks.machine import commit, machine

BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"
_PACKAGES = ("headrace", "numpy", "isal", "tensorflow-cpu", "datasets", "pyarrow", "grain", "array_record", "torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one run measured.

    Attributes:
        setting: When, which commit, machine, versions, sizes.
        tables: For each workload, its systems.
    """

    setting: dict[str, str]
    tables: dict[str, Table]

    def verdicts(self, workload: str) -> list[Verdict]:
        """The targets of a workload, compared with its table."""
        return [judge(target, self.tables[workload]) for target in WORKLOADS[workload].targets]

    def to_json(self) -> str:
        """The report with every epoch, for `from_json`."""
        tables = {name: [asdict(result) for result in table.values()] for name, table in self.tables.items()}
        targets = {name: [{**asdict(v), "met": v.met} for v in self.verdicts(name)] for name in self.tables}
        return json.dumps({"setting": self.setting, "targets": targets, "workloads": tables}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Read what `to_json` wrote."""
        data = json.loads(text)
        tables = {name: {row["name"]: read_result(row) for row in rows} for name, rows in data["workloads"].items()}
        return cls(setting=data["setting"], tables=tables)

    def summary(self) -> str:
        """The setting and the targets, as Markdown."""
        lines = "\n".join(f"- {name}: {value}" for name, value in self.setting.items())
        return f"{lines}\n\n{_targets({name: self.verdicts(name) for name in self.tables})}\n"

    def details(self) -> str:
        """A table for each workload, as Markdown."""
        parts = [part for name, table in self.tables.items() for part in _section(WORKLOADS[name], table)]
        return "\n\n".join(parts) + "\n"

    def to_markdown(self) -> str:
        """Setting, targets and tables."""
        return f"{self.summary()}\n{self.details()}"


def setting(size: str, rounds: int) -> dict[str, str]:
    """Time, commit, machine and versions of a run."""
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "machine": machine(),
        "versions": ", ".join([f"Python {platform.python_version()}", *_versions()]),
        "sizes": f"{size}; {rounds} rounds",
    }


def update_readme(readme: Path, markdown: str, markers: tuple[str, str] = (BEGIN, END)) -> None:
    """Put the summary between the markers of the README."""
    begin, end = markers
    head, _, rest = readme.read_text(encoding="utf-8").partition(begin)
    _, marker, tail = rest.partition(end)
    if not marker:
        raise ValueError(f"{readme.name} does not have the markers {begin} and {end}")
    readme.write_text(f"{head}{begin}\n\n{markdown}\n{end}{tail}", encoding="utf-8")


def read_result(row: dict[str, object]) -> SystemResult:
    timings = [Timing(**timing) for timing in row.pop("timings")]  # type: ignore[attr-defined]
    return SystemResult(**row, timings=timings)  # type: ignore[arg-type]


def _targets(verdicts: dict[str, list[Verdict]]) -> str:
    rows = [
        [workload, verdict.text, say_required(verdict), say_found(verdict), say_met(verdict)]
        for workload, several in verdicts.items()
        for verdict in several
    ]
    return markdown_table(["workload", "what", "required", "found", "met"], rows, left=2)


def say_required(verdict: Verdict) -> str:
    return f"{'at most' if verdict.at_most else 'at least'} {verdict.required:.3g} {verdict.unit}"


def say_found(verdict: Verdict) -> str:
    return "not measured" if verdict.found is None else f"{verdict.found:.3g} {verdict.unit}"


def say_met(verdict: Verdict) -> str:
    return {True: "yes", False: "**no**", None: ""}[verdict.met]


def _section(workload: Workload, table: Table) -> Iterable[str]:
    yield f"### {workload.title}"
    if workload.note:
        yield workload.note
    ours = next((result for result in table.values() if result.role == "headrace" and result.timings), None)
    columns = ["system", "epoch s", "min-max", "epochs", "CPU s"]
    if workload.row_bytes:
        columns = ["system", "examples/s", "GB/s", "epoch s", "min-max", "epochs", "CPU s"]
        columns += ["first batch ms", "peak MB", "anonymous MB"]
    rows = [_row(result, ours, workload.row_bytes) for result in table.values()]
    yield markdown_table([*columns, "Headrace / this"], rows, left=1)
    notes = [f"- {result.name}: {result.error or result.note}" for result in table.values() if _noted(result)]
    if notes:
        yield "\n".join(notes)


def _noted(result: SystemResult) -> bool:
    return bool(result.error or result.note)


def _row(result: SystemResult, ours: SystemResult | None, row_bytes: int) -> list[str]:
    if not result.timings:
        return [result.name, "failed" if result.error else "not run"]
    low, high = result.spread
    first = "" if result.first_s is None else f"{result.first_s * 1e3:.3g}"
    cells = [f"{result.epoch_s:.4f}", f"{low:.4f}-{high:.4f}", str(len(result.timings)), f"{result.cpu_s:.3g}"]
    if row_bytes:
        cells = [f"{result.rate:,.0f}", f"{result.rate * row_bytes / 1e9:.3g}", *cells]
        cells += [first, f"{result.peak_mb:,.0f}", f"{result.anonymous_mb:,.0f}"]
    return [result.name, *cells, f"{ours.rate / result.rate:.3g}" if ours else ""]


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int, right: int = 0) -> str:
    """A Markdown table whose columns also line up as plain text; the first ``left`` and last ``right`` columns are words."""
    cells = [list(columns), *([*row, *[""] * (len(columns) - len(row))] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(columns))]
    words = [not left <= column < len(columns) - right for column in range(len(columns))]
    rule = ["-" * width if word else "-" * (width - 1) + ":" for word, width in zip(words, widths, strict=True)]
    lines = [[_pad(*cell) for cell in zip(row, widths, words, strict=True)] for row in cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


def _pad(cell: str, width: int, left: bool) -> str:
    return cell.ljust(width) if left else cell.rjust(width)


def _versions() -> Iterable[str]:
    for package in _PACKAGES:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            continue
