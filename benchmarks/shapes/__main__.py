"""``python -m benchmarks.shapes``: see ``benchmarks/README.md``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.compare.driver import Run
from benchmarks.compare.report import setting, update_readme
from benchmarks.compare.results import Table
from benchmarks.data import bench_folder
from benchmarks.shapes import report
from benchmarks.shapes.driver import clocked, compare_cold, compare_first, compare_threads, grow, sweep
from benchmarks.shapes.report import Sweep
from benchmarks.shapes.rows import COLD, LARGE, ROWS, Row, find_row, random_rows
from benchmarks.shapes.shape import FACTORS

_HERE = Path(__file__).resolve().parents[1]
README, RESULTS = _HERE / "README.md", _HERE / "results"
_PEERS = ("tensorflow-cpu", "datasets", "pyarrow", "pandas", "array_record", "simplejpeg", "ffcv", "numpy")
_VERSIONS = """
import sys
from importlib.metadata import PackageNotFoundError, version
for name in sys.argv[1:]:
    try:
        print(name, version(name))
    except PackageNotFoundError:
        pass
"""
_MEASURE: dict[str, Callable[..., dict[str, Table]]] = {
    "run": sweep,
    "first": compare_first,
    "cold": compare_cold,
    "threads": compare_threads,
    "growth": grow,
}
_RATIO = {
    "run": report.fastest,
    "first": report.fastest,
    "cold": report.fastest,
    "threads": report.threads,
    "growth": report.growth,
}


def main(arguments: Sequence[str]) -> int:
    """Run a command (by default ``run``); return 1 if Headrace failed or gave wrong data."""
    options = _parser().parse_args(list(arguments) or ["run"])
    if options.command == "list":
        print("\n".join(f"{row.name}: {row.shape}" if row.targets else row.name for row in ROWS.values()))
        return 0
    if options.command == "render":
        _render()
        return 0
    found = _measure(options)
    print(found.to_markdown())
    _save(found, keep=options.keep)
    return int(bool(found.failures))


def _measure(options: argparse.Namespace) -> Sweep:
    say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    rows = _chosen(options)
    run = Run(
        folder=bench_folder(),
        size=options.size,
        rounds=options.rounds,
        turn_s=0.2,
        timeout_s=600 if options.command == "growth" else 120,
        quiet_s=options.quiet,
        say=lambda _: None,
    )
    say(f"{len(rows)} rows, data files under {run.folder}")
    tell = clocked(say, len(rows), lambda name, table: _line(options.command, name, table))
    tables = _MEASURE[options.command](rows, run, tell)
    settings = setting(run.size, run.rounds)
    if options.command in ("run", "first", "cold"):
        settings["peers"] = _peer_versions(rows)
    return Sweep(command=options.command, setting=settings, tables=tables)


def _peer_versions(rows: Sequence[Row]) -> str:
    """The versions of the measured libraries in the environments of the peers."""
    found = []
    for python in {system.python for row in rows for system in row.systems if system.role == "peer"}:
        if Path(python).exists():
            done = subprocess.run([python, "-c", _VERSIONS, *_PEERS], capture_output=True, text=True, check=False)
            found += done.stdout.split("\n")
    return ", ".join(sorted({version for version in found if version}))


def _chosen(options: argparse.Namespace) -> list[Row]:
    if options.random:
        return random_rows(options.random, options.seed)
    if options.rows:
        return options.rows
    if options.command == "cold":
        return [find_row(name) for name in COLD]
    return [row for row in ROWS.values() if options.command != "growth" or row not in LARGE]


def _line(command: str, name: str, table: Table) -> str:
    ratio = _RATIO[command](name, table)
    if ratio:
        return f"{ratio.times:.2f} x {ratio.peer}"
    return "; ".join(f"{result.name}: {result.error}" for result in table.values() if result.error)


def _save(found: Sweep, *, keep: bool) -> None:
    RESULTS.mkdir(exist_ok=True)
    path = _kept(found.command) if keep else RESULTS / f"shapes-{found.command}.local.json"
    path.write_text(found.to_json(), encoding="utf-8")
    if keep:
        _render()
    print(f"written: {path.relative_to(_HERE.parent)}", file=sys.stderr)


def _kept(command: str) -> Path:
    return RESULTS / ("shapes.json" if command == "run" else f"shapes-{command}.json")


def _render() -> None:
    """Put the kept sweeps into the README and a page of their own."""
    sweeps = {
        command: Sweep.from_json(_kept(command).read_text(encoding="utf-8"))
        for command in _MEASURE
        if _kept(command).exists()
    }
    update_readme(README, report.summary(sweeps), report.MARKERS)
    titles = {
        "run": "Beside peers",
        "first": "First epochs",
        "cold": "First epochs from the disk",
        "threads": "Default loader beside threads=0",
        "growth": "Ten times the rows",
    }
    parts = [f"## {titles[command]}\n\n{each.to_markdown()}" for command, each in sweeps.items()]
    (RESULTS / "shapes.md").write_text("# Every row of the kept sweeps\n\n" + "\n".join(parts), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description="Headrace over many shapes.")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="name the rows")
    commands.add_parser("render", help="put the kept results into benchmarks/README.md again")
    texts = {
        "run": "measure rows beside their fastest peers",
        "first": "measure the first epoch of new processes, with opening, beside peers",
        "cold": "measure the same with files that are on the disk only (it must be a local one, not memory)",
        "threads": "measure the default loader beside threads=0",
        "growth": "measure Headrace over ten times the rows",
    }
    for name, text in texts.items():
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "rows", nargs="*", type=_row, metavar="ROW", help="a name, or any shape (default: all; of cold 25)"
        )
        command.add_argument("--size", choices=sorted(FACTORS), default="full", help="how much data (default: full)")
        command.add_argument("--rounds", type=int, default=3, help="turns of every system (default: 3)")
        command.add_argument("--quiet", type=float, default=2, help="seconds to wait for other programs before a turn")
        command.add_argument("--random", type=int, default=0, metavar="N", help="measure N random shapes instead")
        command.add_argument("--seed", type=int, default=0, help="which random shapes")
        command.add_argument("--keep", action="store_true", help="keep under results/ and update the README")
    return parser


def _row(text: str) -> Row:
    try:
        return find_row(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is neither a row nor a shape: {error}") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
