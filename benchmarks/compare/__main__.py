"""``python -m benchmarks.compare``: see ``benchmarks/README.md``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.compare.before import measure_both, table
from benchmarks.compare.driver import Run, measure
from benchmarks.compare.report import Report, setting, update_readme
from benchmarks.compare.workloads import WORKLOADS
from benchmarks.data import SIZES, Files, bench_folder
from benchmarks.image_data import ImageFiles

_HERE = Path(__file__).resolve().parents[1]
README = _HERE / "README.md"
DETAILS = _HERE / "results" / "compare.md"
KEPT = _HERE / "results" / "compare.json"
LOCAL = _HERE / "results" / "compare.local.json"


def main(arguments: Sequence[str]) -> int:
    """Run a command (by default ``run``); return 1 if a system failed or gave wrong data."""
    options = _parser().parse_args(list(arguments) or ["run"])
    if options.command == "list":
        print("\n".join(f"{name}: {workload.title}" for name, workload in WORKLOADS.items()))
        return 0
    if options.command == "render":
        _render(Report.from_json(KEPT.read_text(encoding="utf-8")))
        return 0
    return _before(options) if options.command == "before" else _run(options)


def _before(options: argparse.Namespace) -> int:
    run = _run_of(options)
    names = options.workloads or list(WORKLOADS)
    _prepare(run, names)
    changes = [change for name in names for change in measure_both(name, run, options.checkout)]
    print(table(changes))
    return int(any(change.error for change in changes))


def _run(options: argparse.Namespace) -> int:
    run = _run_of(options)
    names = options.workloads or list(WORKLOADS)
    _prepare(run, names)
    report = Report(setting=setting(run.size, run.rounds), tables={name: measure(name, run) for name in names})
    print(report.to_markdown())
    _save(report, keep=options.keep)
    return int(any(result.error for table in report.tables.values() for result in table.values()))


def _run_of(options: argparse.Namespace) -> Run:
    return Run(
        folder=bench_folder(),
        size=options.size,
        rounds=options.rounds,
        quiet_s=options.quiet,
        roles=tuple(options.roles.split(",")),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )


def _prepare(run: Run, names: Sequence[str]) -> None:
    """Make the data files that the workloads read."""
    run.say(f"data files under {run.folder}")
    files = Files(run.folder, SIZES[run.size])
    needs_images = {WORKLOADS[name].needs_images for name in names}
    if False in needs_images:
        files.prepare()
    if True in needs_images:
        ImageFiles(files).prepare()


def _save(report: Report, *, keep: bool) -> None:
    path = KEPT if keep else LOCAL
    path.parent.mkdir(exist_ok=True)
    path.write_text(report.to_json(), encoding="utf-8")
    if keep:
        _render(report)
    print(f"written: {path.relative_to(_HERE.parent)}", file=sys.stderr)


def _render(report: Report) -> None:
    """Put the summary into the README, and the table of every workload into a page of its own."""
    update_readme(README, report.summary())
    when = f"{report.setting['when']}, commit {report.setting['commit']}, {report.setting['machine']}"
    DETAILS.write_text(f"# Every system of the kept run\n\n{when}\n\n{report.details()}", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="Headrace beside its peers.")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="name the workloads")
    commands.add_parser("render", help="put the kept results into benchmarks/README.md again")
    run = commands.add_parser("run", help="measure, and print the tables")
    run.add_argument("--roles", default="headrace,peer,limit", help="only systems of these roles, comma-separated")
    run.add_argument("--keep", action="store_true", help="keep as results/compare.json and put it into the README")
    before = commands.add_parser("before", help="measure Headrace beside an earlier checkout of it")
    before.add_argument("checkout", type=Path, help="its root; `make setup` was run there")
    before.set_defaults(roles="headrace")
    for command in (run, before):
        command.add_argument("workloads", nargs="*", type=_workload, metavar="WORKLOAD", help="default: all")
        command.add_argument("--size", choices=sorted(SIZES), default="full", help="how much data (default: full)")
        command.add_argument("--rounds", type=int, default=7, help="turns of every system (default: 7)")
        command.add_argument(
            "--quiet", type=float, default=20, help="seconds to wait for other programs before each turn"
        )
    return parser


def _workload(name: str) -> str:
    if name not in WORKLOADS:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(WORKLOADS)}")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
