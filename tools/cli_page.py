"""Write docs/cli.md from the help of the commands; ``--check`` fails if it would change."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from typer.testing import CliRunner

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# What can the command do?

<!-- Written by tools/cli_page.py from the help of the commands: change the docstrings, not this page. -->

`headrace` looks into files, checks them and makes other files of them. Results go to stdout, everything else (errors, remarks, progress)
to stderr. Colours and progress bars are for terminals only; in a pipe no table is wrapped. With `--json` the output is for programs.

| exit code | meaning |
| --- | --- |
| 0 | all is well |
| 1 | the data has faults, or the work could not be done |
| 2 | the command was not called rightly: an unknown option, a path with nothing there, a feature that is not in the data |
| 130 | interrupted with Ctrl-C |
| 141 | whoever read the output stopped reading |

An error is one line on stderr. `--traceback` before the command's name, or `HEADRACE_TRACEBACK=1`, shows where in the code it comes from.
"""
ENVIRONMENT = """
## Environment

| variable | meaning |
| --- | --- |
| `HEADRACE_CACHE_DIR` | where indexes and inflated files are kept, instead of `headrace` in the platform's cache folder |
| `HEADRACE_CACHE_LIMIT` | how much the inflated files may take together, such as `20G` |
| `TFDS_DATA_DIR` | the folder of all prepared datasets, instead of `~/tensorflow_datasets` |
| `HEADRACE_DOWNLOAD` | `0`: opening a known dataset does not download it |
| `HEADRACE_MAPPED_BYTES` | how many bytes of files may stay mapped for reading at random, instead of a quarter of the machine's memory |
| `HEADRACE_ENGINES` | `library`: libraries alone decode Zstandard, GZIP, JPEG and PNG. `own`, the default: our decoders come first. Results are the same; `headrace --version --verbose` shows what decodes here |
| `HEADRACE_REQUESTS` | how many requests for [URLs](urls.md) may be under way at once, instead of 64 |
| `HEADRACE_TIMEOUT` | how many seconds one of them may take, instead of 60 |
| `HEADRACE_STATE_DIR` | where endpoints are written down, instead of `~/.local/state/headrace` |
| `HEADRACE_TRACEBACK` | `1`: tracebacks instead of one-line errors |
| `NO_COLOR` | no colours on a terminal either |
"""


def page() -> str:
    """The page as it should be."""
    os.environ["COLUMNS"] = "100"  # Typer takes the width from here, once, when it is imported.
    from headrace.cli.app import app

    def help_of(*command: str) -> str:
        result = CliRunner().invoke(app, [*command, "--help"], prog_name="headrace", env={"COLUMNS": "100"})
        if result.exit_code:
            raise SystemExit(result.output)
        lines = [line.rstrip() for line in result.output.strip().splitlines()]
        return "```text\n" + "\n".join(lines) + "\n```\n"

    names = [command.name or command.callback.__name__ for command in app.registered_commands if command.callback]
    parts = [HEAD, "\n## headrace\n\n" + help_of()]
    parts += [f"\n## headrace {name}\n\n{help_of(name)}" for name in names]
    return "".join(parts) + ENVIRONMENT


def main() -> None:
    """Write the page, or compare it."""
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        raise SystemExit("docs/cli.md is not the help of the commands: run tools/cli_page.py")


if __name__ == "__main__":
    main()
