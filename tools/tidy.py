"""clang-tidy over native/core and native/bind, on every core. `python tools/tidy.py [--all] [--quick] [FILE...]`: some files only.

A file without findings is not looked at again before it, a header that it includes, `.clang-tidy` or clang-tidy itself changes: a hash of all of
these is kept in build/tidy. `--all` looks at every file. `--quick` leaves out clang's analyzer, which follows the paths through each function and
takes four fifths of the time.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import nanobind

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
KNOWN = ROOT / "build" / "tidy"
QUICK = ["--checks=-clang-analyzer-*"]
FLAGS = ["-std=c++20", f"-I{NATIVE}", "-isystem", nanobind.include_dir(), "-isystem", sysconfig.get_path("include")]


def tidy(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run clang-tidy."""
    return subprocess.run(["clang-tidy", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


@cache
def includes(path: Path) -> list[Path]:
    """The project's headers that a file names."""
    names = re.findall(r'^#include "(.+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    return [NATIVE / name for name in names if (NATIVE / name).exists()]


def parts(path: Path) -> list[Path]:
    """A file and all headers that it consists of."""
    found, left = set(), [path]
    while left:
        part = left.pop()
        if part not in found:
            found.add(part)
            left += includes(part)
    return sorted(found)


@cache
def rules() -> bytes:
    """What the findings depend on besides the files."""
    return (
        (ROOT / ".clang-tidy").read_bytes()
        + (NATIVE / "bind" / ".clang-tidy").read_bytes()
        + tidy("--version").stdout.encode()
        + " ".join(FLAGS).encode()
    )


def mark(path: Path, options: list[str]) -> Path:
    """The file that says that this one was found clean, as it is now."""
    digest = hashlib.sha256(rules() + " ".join(options).encode())
    for part in parts(path):
        digest.update(part.read_bytes())
    return KNOWN / digest.hexdigest()


def is_clean(path: Path, options: list[str]) -> bool:
    """Whether it was found clean by these checks, or by all."""
    return mark(path, options).exists() or mark(path, []).exists()


def check(path: Path, options: list[str]) -> str:
    """What clang-tidy finds in it; nothing where it is clean."""
    run = tidy("--quiet", *options, str(path), "--", *FLAGS)
    if run.returncode == 0:
        mark(path, options).touch()
        return ""
    return run.stdout or run.stderr


def main(arguments: list[str]) -> int:
    """Print the findings; return 1 where there are any."""
    KNOWN.mkdir(parents=True, exist_ok=True)
    options = QUICK if "--quick" in arguments else []
    chosen = [Path(name).resolve() for name in arguments if not name.startswith("--")]
    paths = chosen or sorted([*(NATIVE / "core").rglob("*.cpp"), *(NATIVE / "bind").rglob("*.cpp")])
    changed = [path for path in paths if "--all" in arguments or not is_clean(path, options)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        findings = [found for found in threads.map(lambda path: check(path, options), changed) if found]
    print(*findings, sep="\n", end="")
    print(f"clang-tidy: {len(changed)} of {len(paths)} files looked at, {len(findings)} with findings")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
