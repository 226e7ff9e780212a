"""Write docs/cli.md from the help of the commands; ``--check`` fails if it would change."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from typer.testing import CliRunner

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# What can the command do?

<!-- Written by tools/cli_page.py from the help of the commands: change the docstrings, not this page. -->

Results go to stdout, everything else (errors, notes, progress) to stderr. Colours and
progress bars appear on terminals only, and tables are not wrapped in a pipe. `--json` prints JSON for programs.

| exit code | meaning |
| --- | --- |
| 0 | success |
| 1 | the data has faults, or the work failed |
| 2 | wrong usage: an unknown option, a missing file, a feature that the data does not have |
| 130 | interrupted with Ctrl-C |
| 141 | the output pipe was closed |
| 143 | a training job was stopped by SIGTERM |

An error is one line on stderr. `--traceback` before the command's name, or `HEADRACE_TRACEBACK=1`, prints the traceback.
"""
ENVIRONMENT = """
## Environment

| variable | meaning |
| --- | --- |
| `HEADRACE_CACHE_DIR` | folder for indexes and decompressed files, instead of `headrace` in the platform's cache folder |
| `HEADRACE_CACHE_LIMIT` | largest total size of decompressed files, such as `20G`; it does not count what [`cache` and `from_generator`](operations.md#stored-once) store |
| `TFDS_DATA_DIR` | the folder of all prepared datasets, instead of `~/tensorflow_datasets` |
| `HEADRACE_DOWNLOAD` | `0`: opening a known dataset does not download it |
| `HEADRACE_MAPPED_BYTES` | how many bytes of files stay mapped for random access, instead of a quarter of the machine's memory |
| `HEADRACE_ENGINES` | `library`: libraries alone decode Zstandard, GZIP, JPEG, PNG and the pages of Parquet. `own`, the default: our decoders come first. Results are the same; `headrace --version --verbose` shows what decodes here |
| `HEADRACE_REQUESTS` | largest number of concurrent requests for [URLs](urls.md), instead of 64 |
| `HEADRACE_TIMEOUT` | seconds without a byte of the response after which such a request fails, instead of 60 |
| `HEADRACE_STATE_DIR` | folder where endpoints are registered, instead of `~/.local/state/headrace` |
| `HEADRACE_TRACEBACK` | `1`: tracebacks instead of one-line errors |
| `NO_COLOR` | no colours on terminals |
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
