"""``headrace demo``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.demo.digits import DemoSteps, Files, load_digits, show_formats, show_ways_to_read, write_digits
from headrace.cli.demo.serve import show_serving, show_training
from headrace.cli.failures import DATA_FAULT
from headrace.cli.options import path_in
from headrace.cli.terminal import count_of, print_line

__all__ = ["demo"]


def demo(
    *,
    output: Annotated[
        Path, typer.Option("--output", parser=path_in, metavar="DIR", help="Folder for the files.")
    ] = Path("demo-output"),
) -> None:
    """Write, read, train, stop, resume and serve on real data.

    The data are the 1,797 handwritten digits and the diabetes table of scikit-learn; nothing is downloaded. Every step is checked: the exit code is 1 if one fails.

    Examples:
      headrace demo
      headrace demo --output /tmp/digits
    """
    begun = time.monotonic()
    steps = DemoSteps(5)
    if output.exists() and not output.is_dir():
        raise typer.BadParameter(f"{output} is a file: name a folder", param_hint="--output")
    output.mkdir(parents=True, exist_ok=True)
    files = Files(output)

    digits = load_digits()
    steps.begin(f"Write {len(digits):,} handwritten digits as TFRecord and as npy")
    write_digits(digits, files, steps)
    steps.begin("Read both: records, examples, shuffled batches")
    show_ways_to_read(digits, files, steps)
    steps.begin("Write and read the digits in every format")
    show_formats(digits, output, steps)
    steps.begin("Train a classifier, stop in the middle of an epoch, resume")
    show_training(files, steps)
    steps.begin("From a script to an endpoint: a training job, a transform job, Linear Learner, one endpoint for both")
    show_serving(output / "serving", steps)

    print_line()
    if steps.failed:
        print_line(f"{count_of(len(steps.failed), 'check')} failed.", style="bold red")
        raise typer.Exit(DATA_FAULT)
    print_line(f"All checks passed. {time.monotonic() - begun:.1f} s.", style="bold green")
