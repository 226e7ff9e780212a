"""Coverage of C++ and Python by folder, and with `--files` the uncovered lines of every file.

Reads the data of gcc's instrumented build and of `coverage json` in build/coverage. `make coverage` creates both.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
AT_ONCE = 50  # files for one call of gcov

Lines = dict[str, dict[int, bool]]
"""Of each file, by its path in the repository: the lines that hold code, and whether they were reached."""


def native_lines() -> Lines:
    """Coverage of native code. A line of a header is covered if any file that includes it covers it."""
    found: Lines = defaultdict(dict)
    notes = sorted(map(str, BUILD.rglob("*.gcno")))
    for start in range(0, len(notes), AT_ONCE):
        command = ["gcov", "--json-format", "--stdout", *notes[start : start + AT_ONCE]]
        output = subprocess.run(command, check=True, capture_output=True, text=True, cwd=BUILD).stdout
        for file in (file for line in output.splitlines() for file in json.loads(line)["files"]):
            path = Path(file["file"]).resolve()
            if not path.is_relative_to(ROOT / "native") or path.is_relative_to(ROOT / "native" / "tests"):
                continue
            lines = found[str(path.relative_to(ROOT))]
            for line in file["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, False) or line["count"] > 0
    return found


def python_lines() -> Lines:
    """Coverage of Python code; empty if it was not measured."""
    report = BUILD / "python.json"
    if not report.exists():
        return {}
    files = json.loads(report.read_text(encoding="utf-8"))["files"]
    return {
        path: dict.fromkeys(file["missing_lines"], False) | dict.fromkeys(file["executed_lines"], True)
        for path, file in files.items()
    }


def folder_of(path: str) -> str:
    """native/core, src/headrace/formats, ..."""
    return "/".join(path.split("/")[: 2 if path.startswith("native/") else 3][: path.count("/")])


def ranges(numbers: Iterable[int]) -> Iterator[str]:
    """Ascending numbers as ranges, such as 3-5."""
    for _, group in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        yield f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}"


def main() -> None:
    """Print the table."""
    every = native_lines() | python_lines()
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, lines in every.items():
        for name in (folder_of(path), "C++" if path.startswith("native/") else "Python"):
            totals[name][0] += sum(lines.values())
            totals[name][1] += len(lines)
    if "--files" in sys.argv:
        for path, lines in sorted(every.items()):
            missed = sorted(number for number, is_reached in lines.items() if not is_reached)
            if missed:
                print(f"{path}: {', '.join(ranges(missed))}")
    print(f"{'folder':<32} {'lines':>7} {'reached':>7} {'%':>6}")
    for name, (reached, lines) in sorted(totals.items(), key=lambda item: (item[0] in ("C++", "Python"), item[0])):
        print(f"{name:<32} {lines:>7} {reached:>7} {100 * reached / max(1, lines):>6.1f}")


if __name__ == "__main__":
    main()
