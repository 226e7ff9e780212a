"""The results of the serving flow: targets and tables, printed and kept in the README."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from benchmarks.machine import commit, machine
from benchmarks.serving.load import Outcome
from benchmarks.serving.systems import SYSTEMS

README = Path(__file__).parents[1] / "README.md"
DETAILS = README.parent / "results" / "serving.md"
BEGIN, END = "<!-- serving: begin -->", "<!-- serving: end -->"
PACKAGES = ("scikit-learn", "pandas", "numpy")
OURS = "headrace"
FEWEST, MOST = 1, 32
"""Connections that the targets speak of."""


@dataclass(frozen=True, slots=True)
class Row:
    """One server under one load, and Headrace in the same rounds."""

    name: str
    slices: list[Outcome]
    ours: list[Outcome]

    @property
    def per_s(self):
        return median(one.per_second for one in self.slices)

    @property
    def times_slower(self):
        """The median of the ratios within each round."""
        pairs = zip(self.ours, self.slices, strict=True)
        return median(mine.per_second / one.per_second for mine, one in pairs)

    @property
    def over_loop(self):
        """The p50 over that of the chain in a plain loop, within each round; ``None`` without a loop."""
        found = [one.quantile_ms(0.5) / (1e3 * median(one.loop_s)) for one in self.slices if one.loop_s]
        return median(found) if found else None

    @property
    def whole(self):
        whole = Outcome()
        for one in self.slices:
            whole.add(one)
        return whole


def rows_of(found, connections):
    """``found``: for each phase, slices by name and number of connections. Later phases repeat Headrace for the ratio only."""
    rows = []
    for phase in found:
        names = [name for name, count in phase if count == connections]
        ours = phase[names[0], connections]
        known = {row.name for row in rows}
        rows += [Row(name, phase[name, connections], ours) for name in names if name not in known]
    return rows


def markdown(found, counts):
    """Targets, then a table for each number of connections."""
    tables = {count: rows_of(found, count) for count in counts}
    parts = [text for text in [_targets(tables)] if text]
    for count, rows in tables.items():
        lines = [f"### {count} connection{'s' * (count > 1)}", ""]
        lines += ["| server | answers/s | p50 ms | p99 ms | not 200 | p50 / plain loop's | Headrace / this |"]
        lines += ["| --- | ---: | ---: | ---: | ---: | ---: | ---: |", *map(_line, rows)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _line(row):
    whole = row.whole
    loop = "" if row.over_loop is None else f"{row.over_loop:.2f}"
    return (
        f"| {SYSTEMS[row.name].text} | {row.per_s:,.0f} | {whole.quantile_ms(0.5):.2f} | {whole.quantile_ms(0.99):.1f} "
        f"| {whole.statuses.total() - whole.statuses[200]} | {loop} | {row.times_slower:.2f} |"
    )


def _targets(tables):
    """The targets that this run covers."""
    verdicts = []
    few = {row.name: row for row in tables.get(FEWEST, ())}.get(OURS)
    if few is not None and few.over_loop is not None:
        verdicts.append(
            ("p50 at 1 connection, times the plain loop's", "at most 1.1", few.over_loop, few.over_loop <= 1.1)
        )
    many = {row.name: row for row in tables.get(MOST, ())}
    if OURS in many:
        p99 = many[OURS].whole.quantile_ms(0.99)
        verdicts.append(("p99 at 32 connections, ms", "under 100", p99, p99 < 100))
    if "stock" in many:
        ratio = many["stock"].times_slower
        verdicts.append(("answers/s at 32 connections, times the stock form's", "at least 8", ratio, ratio >= 8))
    peers = [row for name, row in many.items() if SYSTEMS[name].is_peer]
    if peers and OURS in many:
        fastest = min(peers, key=lambda row: row.times_slower)
        what = f"times those of the fastest other server ({SYSTEMS[fastest.name].text})"
        verdicts.append((what, "at least 1.5", fastest.times_slower, fastest.times_slower >= 1.5))
    if not verdicts:
        return ""
    lines = ["| what | required | found | met |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {what} | {asked} | {got:.3g} | {'yes' if met else '**no**'} |" for what, asked, got, met in verdicts]
    return "\n".join(lines)


def setting(options, load_before):
    """Time, commit, machine and versions of a run."""
    versions = ", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)])
    servers = ", ".join(filter(None, map(_version, ("starlette", "gunicorn", "bentoml", "litserve", "ray"))))
    return (
        f"{machine()}; {datetime.now(UTC):%Y-%m-%d}, commit {commit()}, {versions}; {servers}, MLflow in an environment of its own "
        f"(`serving/setup_peers.sh`). {options.rounds} rounds of {options.seconds:g} s for each server. Programs that ran "
        f"when it began, besides it (load average): {load_before:.1f}; at the end, with it: {os.getloadavg()[0]:.1f}."
    )


def _version(name):
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return None


def keep(text):
    """Put the targets between the markers of the README, and everything into a page of its own."""
    head, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, marker, tail = rest.partition(END)
    if not marker:
        raise ValueError(f"{README.name} does not have the markers {BEGIN} and {END}")
    summary = text.partition("\n### ")[0].rstrip()
    README.write_text(f"{head}{BEGIN}\n\n{summary}\n\n{END}{tail}", encoding="utf-8")
    DETAILS.parent.mkdir(exist_ok=True)
    DETAILS.write_text(f"# Every server of the kept run\n\n{text.rstrip()}\n", encoding="utf-8")
