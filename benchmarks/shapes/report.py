"""The results of a sweep: the worst ratio first, as text, as JSON, and in the README."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.compare.report import markdown_table, read_result, say_found, say_met, say_required
from benchmarks.compare.results import SystemResult, Table, Verdict, judge
from benchmarks.shapes.driver import FIRST_ONCE, FIRST_TENFOLD, ONCE, TENFOLD
from benchmarks.shapes.rows import AGAIN, ALONE, HF, NAMED, OPENED, OURS, ROWS, find_row

MARKERS = ("<!-- shapes: begin -->", "<!-- shapes: end -->")


@dataclass(frozen=True, slots=True)
class Ratio:
    """Headrace beside another system on one row.

    Attributes:
        row: Its name.
        peer: The other system.
        times: How many times the other's rate Headrace reaches, by the median epochs.
        mean: The same by the mean epochs, which include the ones that a loader spends on finding out whether threads pay.
        shortest: The same by the shortest epochs.
        cpu: The same by CPU seconds.
        rate: Rows per second of Headrace.
    """

    row: str
    peer: str
    times: float
    mean: float
    shortest: float
    cpu: float
    rate: float


def compare(row: str, ours: SystemResult, other: SystemResult) -> Ratio:
    """The ratio of two systems."""
    return Ratio(
        row=row,
        peer=other.name,
        times=ours.rate / other.rate,
        mean=(ours.timings[0].rows / ours.mean_s) / (other.timings[0].rows / other.mean_s),
        shortest=other.spread[0] / ours.spread[0],
        cpu=other.cpu_s / max(ours.cpu_s, 1e-3),
        rate=ours.rate,
    )


def fastest(row: str, table: Table) -> Ratio | None:
    """Headrace beside its fastest peer, or None where one of them has no figures.

    Hugging Face reads a copy of JSON Lines that it made before: it is held against a source that was opened before, too.
    """
    if OURS not in table or not _measured(table[OURS]):
        return None
    opened = table.get(OPENED)
    ratios = [
        compare(row, opened if peer.name == HF and opened and _measured(opened) else table[OURS], peer)
        for peer in table.values()
        if peer.role == "peer" and _measured(peer)
    ]
    return min(ratios, key=lambda ratio: ratio.times, default=None)


def threads(row: str, table: Table) -> Ratio | None:
    """The default loader beside ``threads=0``, or None without figures."""
    return _between(row, table, OURS, ALONE)


def chance(row: str, table: Table) -> Ratio | None:
    """``threads=0`` beside itself, or None without figures."""
    return _between(row, table, AGAIN, ALONE)


def _between(row: str, table: Table, one: str, other: str) -> Ratio | None:
    both = [table.get(name) for name in (one, other)]
    return compare(row, *both) if all(result and _measured(result) for result in both) else None


def growth(row: str, table: Table) -> Ratio | None:
    """Ten times the rows beside the rows: speed for each in later epochs, or None without figures."""
    return _growth_between(row, table, ONCE, TENFOLD)


def first_growth(row: str, table: Table) -> Ratio | None:
    """The same in the first epoch of a process, in which nothing is kept from earlier ones."""
    return _growth_between(row, table, FIRST_ONCE, FIRST_TENFOLD)


def _growth_between(row: str, table: Table, once: str, tenfold: str) -> Ratio | None:
    one, ten = table.get(once), table.get(tenfold)
    if one is None or ten is None or not (_measured(one) and _measured(ten)):
        return None
    found = compare(row, ten, one)
    return Ratio(row, once, found.times, found.mean, found.shortest * 10, found.cpu * 10, ten.rate)


def _measured(result: SystemResult) -> bool:
    return bool(result.timings) and not result.error


_RATIOS = {"run": fastest, "first": fastest, "cold": fastest, "threads": threads, "growth": growth}


_FIRST = {
    "first": "First epoch of a process, with opening, without imports and caches",
    "cold": "The same, with files that are on the disk only",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one command measured.

    Attributes:
        command: ``run``, ``first``, ``cold``, ``threads`` or ``growth``.
        setting: When, which commit, machine, versions, sizes.
        tables: The systems of each row.
    """

    command: str
    setting: dict[str, str]
    tables: dict[str, Table]

    @property
    def ratios(self) -> list[Ratio]:
        """Every measured row, the worst first."""
        found = [_RATIOS[self.command](name, table) for name, table in self.tables.items()]
        return sorted((ratio for ratio in found if ratio), key=lambda ratio: ratio.times)

    @property
    def failures(self) -> list[str]:
        """Systems of Headrace that failed or returned wrong data."""
        return [
            f"{name}: {result.name}: {result.error}"
            for name, table in self.tables.items()
            for result in table.values()
            if result.error and result.role == "headrace"
        ]

    def headline(self) -> str:
        """The worst ratio and its shape, and the best one."""
        ratios = self.ratios
        if not ratios:
            return "Nothing was measured."
        worst, best = ratios[0], ratios[-1]
        middle = median(ratio.times for ratio in ratios)
        if self.command == "threads":
            mean = min(ratio.mean for ratio in ratios)
            return (
                f"Default `Loader` beside `threads=0`: worst {_said(worst)}; by mean epochs, which include tests of threads, at "
                f"worst {mean:.3g}; median {middle:.2f} x over {len(ratios)} rows; {_below(ratios)}{_chance(self.tables)}."
            )
        if self.command == "growth":
            return (
                f"Ten times the rows: {_first_growth(self.tables)}later epochs: speed per row at worst {worst.times:.2f} x "
                f"(`{worst.row}`), median {middle:.2f} x over {len(ratios)} rows; memory {_memory(self.tables)}."
            )
        if self.command in _FIRST:
            return (
                f"{_FIRST[self.command]}: worst {_said(worst)}; median {middle:.3g} x "
                f"over {len(ratios)} rows, each beside its fastest peer; {_below(ratios)}."
            )
        return (
            f"**Worst: {_said(worst)}**\n\n**Best: {_said(best)}**\n\n"
            f"Median {middle:.3g} x over {len(ratios)} rows, each beside its fastest peer; {_below(ratios)}."
        )

    def to_json(self) -> str:
        """The sweep with every epoch, for `from_json`."""
        tables = {name: [asdict(result) for result in table.values()] for name, table in self.tables.items()}
        return json.dumps({"command": self.command, "setting": self.setting, "rows": tables}) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Sweep:
        """Read what `to_json` wrote."""
        data = json.loads(text)
        tables = {name: {row["name"]: read_result(row) for row in rows} for name, rows in data["rows"].items()}
        return cls(command=data["command"], setting=data["setting"], tables=tables)

    @property
    def verdicts(self) -> list[tuple[str, Verdict]]:
        """The required ratios, compared with those found, by the row."""
        return [
            (name, judge(target, table))
            for name, table in self.tables.items()
            if name in ROWS
            for target in ROWS[name].targets
        ]

    def wanted(self) -> str:
        """The rows that something is required of, as a Markdown table."""
        rows = [[name, v.text, say_required(v), say_found(v), say_met(v)] for name, v in self.verdicts]
        return markdown_table(["row", "what", "required", "found", "met"], rows, left=2) if rows else ""

    def table(self) -> str:
        """Every row, the worst first, as a Markdown table."""
        rows = [
            [
                f"{r.times:.2f}",
                f"{r.mean:.2f}",
                f"{r.shortest:.2f}",
                f"{r.cpu:.2f}",
                *self._more(r),
                f"{r.rate:,.0f}",
                r.peer,
                f"`{_shape(r.row)}`",
            ]
            for r in self.ratios
        ]
        more = {"growth": ["first epoch", "MB", "MB ten times"], "threads": ["by chance"]}.get(self.command, [])
        return markdown_table(
            ["ratio", "mean", "shortest", "CPU", *more, "rows/s", "beside", "row"], rows, left=0, right=2
        )

    def _more(self, ratio: Ratio) -> list[str]:
        table = self.tables[ratio.row]
        if self.command == "threads":
            again = chance(ratio.row, table)
            return [f"{again.times:.2f}" if again else ""]
        if self.command != "growth":
            return []
        first = first_growth(ratio.row, table)
        return [f"{first.times:.2f}" if first else "", *(f"{table[name].anonymous_mb:.0f}" for name in (ONCE, TENFOLD))]

    def notes(self) -> list[str]:
        """Why figures are missing."""
        return [
            f"- `{_shape(name)}`: {result.name}: {result.error}"
            for name, table in self.tables.items()
            for result in table.values()
            if result.error
        ]

    def to_markdown(self) -> str:
        """Everything."""
        settings = "\n".join(f"- {name}: {value}" for name, value in self.setting.items())
        parts = [settings, self.headline(), self.table(), "\n".join(self.notes())]
        if self.command == "run":
            parts.insert(2, self.wanted())
        return "\n\n".join(part for part in parts if part) + "\n"


def summary(sweeps: dict[str, Sweep]) -> str:
    """The part of the README: headlines of the kept sweeps, and which required ratios were missed."""
    run = sweeps["run"]
    settings = (
        f"{run.setting['when']}, commit {run.setting['commit']}, {run.setting['machine']}; {run.setting['sizes']}."
    )
    others = [each.headline() for name, each in sweeps.items() if name != "run"]
    return "\n\n".join([run.headline(), *others, _missed(run), settings]) + "\n"


def _missed(run: Sweep) -> str:
    verdicts = [(name, verdict) for name, verdict in run.verdicts if verdict.met is not None]
    missed = [
        f"{name} {verdict.found:.3g} {verdict.text} (required {verdict.required:g})"
        for name, verdict in verdicts
        if not verdict.met
    ]
    met = len(verdicts) - len(missed)
    return f"Of the ratios required of named rows, {met} of {len(verdicts)} are met. Missed: {'; '.join(missed) or 'none'}."


def _below(ratios: list[Ratio]) -> str:
    return f"{sum(ratio.times < 1 for ratio in ratios)} below 1"


def _chance(tables: dict[str, Table]) -> str:
    found = [ratio for ratio in (chance(name, table) for name, table in tables.items()) if ratio]
    if not found:
        return ""
    worst, mean = min(ratio.times for ratio in found), min(ratio.mean for ratio in found)
    return f" (`threads=0` beside itself: worst {worst:.3g}, by mean epochs {mean:.3g}; {_below(found)})"


def _said(ratio: Ratio) -> str:
    times = f"{ratio.times:.3g}" if ratio.times < 1000 else f"{ratio.times:,.0f}"  # not 1.15e+03
    return f"{times} x {ratio.peer}, `{_shape(ratio.row)}`"


def _shape(name: str) -> str:
    """The text of a row's shape, after its name if it has one."""
    row = find_row(name)
    return f"{name}: {row.shape}" if any(row.name == each.name for each in NAMED) else str(row.shape)


def _first_growth(tables: dict[str, Table]) -> str:
    found = [ratio for ratio in (first_growth(name, table) for name, table in tables.items()) if ratio]
    if not found:
        return ""
    worst = min(found, key=lambda ratio: ratio.times)
    middle = median(ratio.times for ratio in found)
    return f"first epochs: speed per row at worst {worst.times:.2f} x (`{worst.row}`), median {middle:.2f} x; "


def _memory(tables: dict[str, Table]) -> str:
    more = {
        name: table[TENFOLD].anonymous_mb - table[ONCE].anonymous_mb
        for name, table in tables.items()
        if growth(name, table)
    }
    worst = max(more, key=lambda name: more[name])
    return f"at most {more[worst]:.0f} MB more (`{worst}`)"
